//! Counters of this machine: their meaning here, their perf events, and a list of them.

mod device;
pub mod list;
pub(crate) mod open;

pub use device::here as device;
pub use open::{OnCpu, Opened, kept_source, of_thread, online, open};
