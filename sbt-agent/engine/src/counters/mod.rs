//! The counters that a user can request: their names, and where their values come from. Pure.

mod cause;
pub mod name;
mod plan;
pub mod rate;

pub use cause::{Says, says};
pub use name::{Counter, CounterKind, Events, FREE, Kept, MAX_NAMED, Side, colons, commas};
pub use plan::{Plan, Source};
pub use rate::is_time;
