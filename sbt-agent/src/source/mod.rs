//! Where events come from.
//!
//! A source starts, hands over batches of events in the order of their times, and stops. Nothing
//! that reads the batches knows which source ran.

use std::{collections::BTreeSet, sync::Arc};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::mpsc;

use sbt_engine::{choices::States, counters::Plan, event::Event};
use sbt_program::{files::ProbedFile, stopped::Tracer};

pub mod abilities;
pub mod ebpf;
mod files;
mod helper;
pub mod inject;
mod jumps;
mod load;
pub mod measurement;
mod outside;
pub mod perf;
mod polled;
pub mod profile;
pub mod ptrace;
mod refused;
pub mod sampler;
pub mod twin;

use abilities::{
    Adding, Callers, Choosing, Condvars, Departures, Futexes, Locks, Scoping, Silencing,
};
pub use ebpf::decode::Baselines;
use files::Files;
pub use measurement::Measurement;

/// Events in the order of their times, all later than those of the batch before.
pub type Batch = Vec<Event>;

/// Where a source puts its batches. Bounded: a slow reader makes the source wait. Events that
/// overflow meanwhile are counted in the kernel, where they are lost.
pub type Sink = mpsc::Sender<Batch>;

/// The number of batches that may wait for the model. Together with [`BATCH`] it bounds the memory
/// of the queue.
pub const QUEUE: usize = 32;
/// How many events a batch holds at most.
pub const BATCH: usize = 8192;

/// The totals of a source at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Lost events, wherever they were lost.
    pub lost: u64,
    /// Sentences for the user on how the events were obtained.
    pub notes: Vec<String>,
}

/// Raises the limit on open files to this user's maximum: each thread takes some files for each
/// CPU.
pub(crate) fn allow_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // If raising fails, the present limit has to do.
        let _as_it_is = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// Reports what happens in a target, while it happens. What only some sources can do is in
/// [`abilities`].
pub trait Source: Send {
    /// A name for reports: `ebpf`, `ptrace`, …
    fn name(&self) -> &'static str;

    /// How the source works, in a few words, for reports.
    fn method(&self) -> String;

    /// The message if the source ends although nobody has stopped it.
    fn ended_by_itself(&self) -> &'static str {
        "sbt's reader of events ended unexpectedly: sbt did not see what happened since; run sbt \
        again"
    }

    /// Whether a program that sbt starts is traced at its start, as by a debugger. Then this user
    /// must be allowed to trace the process.
    fn traces_the_start(&self) -> bool {
        false
    }

    /// Numbers of the marks that have not been watched everywhere or all the time.
    fn unseen_marks(&self) -> BTreeSet<u8> {
        BTreeSet::new()
    }

    /// Begins to hand over events from `time_ns` on. `baselines`: what the existing threads have
    /// used so far.
    fn start(&mut self, sink: Sink, time_ns: u64, baselines: Baselines) -> anyhow::Result<()>;

    /// Stops watching. When this returns, all earlier events are in the sink, and the sink is
    /// closed.
    fn stop(&mut self) -> anyhow::Result<Totals>;

    /// Events lost so far.
    fn lost(&self) -> u64;

    /// Puts probes on the functions of these files. Files that have their probes already are
    /// skipped.
    fn attach(&mut self, files: &[Arc<ProbedFile>]) -> anyhow::Result<()>;

    /// Begins to measure what one hit of a probe costs.
    fn measure_costs(&self) -> Measurement;

    /// How closely the source looks at what threads do between barriers.
    fn states(&self) -> States;

    /// The counters, and where the value of each comes from.
    fn counters(&self) -> &Plan;

    /// Whether the target's children are watched too.
    fn has_children(&self) -> bool;

    /// Watches a child of the target that runs already. `process`: its pid in sbt's own pid
    /// namespace.
    fn follow(&mut self, process: u32) -> anyhow::Result<()>;

    /// Takes the probes off, so that the target runs as if not watched. Starts and ends of threads
    /// are still reported.
    fn pause(&mut self);

    /// Puts the probes on again after [`Source::pause`]. What was known of barriers is kept.
    fn resume(&mut self) -> anyhow::Result<()>;

    /// The process that traces the target's threads, if one does: nobody else can stop them.
    fn tracer(&self) -> Option<Arc<dyn Tracer>> {
        None
    }

    /// Departures from barriers.
    fn departures(&mut self) -> Option<&mut dyn Departures> {
        None
    }

    /// Uses of condition variables.
    fn condvars(&mut self) -> Option<&mut dyn Condvars> {
        None
    }

    /// System calls of futexes.
    fn futexes(&mut self) -> Option<&mut dyn Futexes> {
        None
    }

    /// Ignoring of single condition variables and futexes.
    fn silencing(&self) -> Option<&dyn Silencing> {
        None
    }

    /// Counts of waits by futex.
    fn locks(&self) -> Option<&dyn Locks> {
        None
    }

    /// Callers of callers.
    fn callers(&mut self) -> Option<&mut dyn Callers> {
        None
    }

    /// Probes that are tried.
    fn adding(&mut self) -> Option<&mut dyn Adding> {
        None
    }

    /// The choice between one process and every process.
    fn scoping(&mut self) -> Option<&mut dyn Scoping> {
        None
    }

    /// Sums of how long threads sleep, which somebody else takes care of from now on.
    fn sleeps(&mut self) -> Option<ebpf::sleeps::Sleeps> {
        None
    }

    /// Counters chosen while the program runs.
    fn choosing(&mut self) -> Option<&mut dyn Choosing> {
        None
    }
}
