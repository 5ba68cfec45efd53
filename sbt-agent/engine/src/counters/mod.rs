//! The counters that a user can request: their names, and where their values come from. Pure.

pub mod name;
mod plan;

pub use name::{Counter, Events, FREE, Kept, MAX_NAMED, Side, What, colons, commas};
pub use plan::{Plan, Source};
