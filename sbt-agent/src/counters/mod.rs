//! Counters that the user asks for: what they are called, what they are on this
//! machine, and what there is.

mod device;
pub mod list;
mod name;
mod open;

pub use device::here as device;
pub use name::{Counter, Events, FREE, Kept, MAX_NAMED, What, colons, commas};
pub use open::{OnCpu, Opened, Plan, Source, kept_source, of_thread, online, open};
