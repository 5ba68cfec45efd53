//! Where events come from.
//!
//! A source starts, hands over batches of events in the order of their times,
//! and stops. Nothing to the right of it knows which one ran.

use tokio::sync::mpsc;

use crate::event::Event;

pub mod ebpf;
pub(crate) mod perf;
pub mod profile;
pub mod sampler;

/// Events in the order of their times, later than all of the batch before.
pub type Batch = Vec<Event>;

/// Where a source puts its batches. Bounded: a slow reader makes the source
/// wait, and what overflows then is counted where it happens, in the kernel.
pub type Sink = mpsc::Sender<Batch>;

/// Batches that may wait for the model, and events in one: together they
/// bound the memory of the queue.
pub const QUEUE: usize = 32;
/// See [`QUEUE`].
pub const BATCH: usize = 8192;

/// What a source has to say at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events that were lost, wherever.
    pub lost: u64,
    /// What the user should know of how the events were obtained.
    pub notes: Vec<String>,
}

/// Something that tells what happens in the target.
pub trait Source {
    /// A name for reports: `ebpf`, `replay`, …
    fn name(&self) -> &'static str;

    /// How it works, in a few words: the rung of the ladder it stands on.
    fn method(&self) -> String;

    /// Stops watching. Everything that happened before is in the sink when
    /// this returns, and the sink is closed.
    fn stop(&mut self) -> anyhow::Result<Totals>;
}
