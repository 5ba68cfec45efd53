//! Counters on this machine: what they are here, perf events opened, and what there is.

mod device;
pub mod list;
mod open;

pub use device::here as device;
pub use open::{OnCpu, Opened, kept_source, of_thread, online, open};
