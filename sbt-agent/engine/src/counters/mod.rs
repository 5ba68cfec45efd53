//! Counters that the user asks for: what they are called, and where their values are. Pure.

pub mod name;
mod plan;

pub use name::{Counter, Events, FREE, Kept, MAX_NAMED, Side, What, colons, commas};
pub use plan::{Plan, Source};
