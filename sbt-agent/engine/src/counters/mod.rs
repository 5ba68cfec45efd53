//! The counters that a user can request: their names, and where their values come from. Pure.

mod cause;
pub mod name;
mod plan;

pub use cause::{Says, says};
pub use name::{Counter, CounterKind, Events, FREE, Kept, MAX_NAMED, Side, colons, commas};
pub use plan::{Plan, Source};

/// Whether a counter counts time on a CPU, ns.
pub fn is_time(name: &str) -> bool {
    name.parse::<Counter>()
        .is_ok_and(|counter| counter.what == CounterKind::Kept(Kept::TaskClock))
}
