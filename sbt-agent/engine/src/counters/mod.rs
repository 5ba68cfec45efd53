//! The counters that a user can request: their names, and where their values come from. Pure.

pub mod name;
mod plan;

pub use name::{Counter, CounterKind, Events, FREE, Kept, MAX_NAMED, Side, colons, commas};
pub use plan::{Plan, Source};
