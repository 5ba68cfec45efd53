//! The lowest layer: what the kernel offers, in which version, and to whom.

pub mod bpf;
pub mod counting;
pub mod faults;
pub(crate) mod perf;
pub mod privilege;
mod refused;
pub mod version;

pub use refused::LoadError;
