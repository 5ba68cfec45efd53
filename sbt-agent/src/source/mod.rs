//! Where events come from.
//!
//! A source starts, hands over batches of events in the order of their times, and stops. Nothing
//! that reads the batches knows which source ran.

use std::{collections::BTreeSet, sync::Arc};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sbt_common::{Code, Futex, Lock, Rule};
use tokio::sync::mpsc;

use sbt_engine::{
    choices::States,
    counters::{Counter, Plan},
    event::Event,
};
use sbt_program::files::ProbedFile;

pub mod ebpf;
mod files;
pub mod measurement;
mod outside;
pub mod perf;
pub mod profile;
pub mod ptrace;
mod refused;
pub mod sampler;
pub mod twin;

pub use ebpf::decode::Baselines;
use files::Files;
pub use measurement::Measurement;

/// Events in the order of their times, all later than those of the batch before.
pub type Batch = Vec<Event>;

/// Where a source puts its batches. Bounded: a slow reader makes the source wait. Events that
/// overflow meanwhile are counted in the kernel, where they are lost.
pub type Sink = mpsc::Sender<Batch>;

/// How many batches may wait for the model. Together with [`BATCH`] it bounds the memory of the
/// queue.
pub const QUEUE: usize = 32;
/// How many events a batch holds at most.
pub const BATCH: usize = 8192;

/// What a source reports at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Lost events, wherever they were lost.
    pub lost: u64,
    /// Sentences for the user on how the events were obtained.
    pub notes: Vec<String>,
}

/// On which processes the probes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// On the target alone.
    Target,
    /// On every process that maps the file; the BPF programs ignore processes that are not watched.
    /// Needed for a target with children, because these begin before probes could be put on them,
    /// and for a target whose first thread has ended: the kernel finds a process's memory by its
    /// first thread, and without it takes the probes off when it next looks.
    Everyone,
}

/// Futexes on which threads have waited, and the number of waits that were not counted for want of
/// room.
pub type Waited = (Vec<(Futex, Lock)>, u64);

/// Raises the limit on open files to this user's maximum: each thread takes some files for each
/// CPU.
pub(crate) fn allow_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // If raising fails, the present limit has to do.
        let _as_it_is = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// Reports what happens in a target, while it happens.
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

    /// Adds rules that find callers of callers, and removes the rules that are `None`. Forgets what
    /// is known of return addresses, even if `changes` is empty.
    fn learn(&mut self, changes: &[(Code, Option<Rule>)]) -> anyhow::Result<()>;

    /// Begins to measure what one hit of a probe costs.
    fn measure_costs(&self) -> Measurement;

    /// How closely the source looks at what threads do between barriers.
    fn states(&self) -> States;

    /// The counters, and where the value of each comes from.
    fn counters(&self) -> &Plan;

    /// Counts these counters from now on, and no others; all counters in `counters` keep their
    /// places. Returns a sentence for each counter that cannot be counted; such counters are left
    /// out.
    ///
    /// # Errors
    /// Fails if the source cannot change counters while the program runs.
    fn choose(&mut self, _counters: &[Counter]) -> anyhow::Result<Vec<String>> {
        anyhow::bail!(
            "--backend {} takes counters at the start only: -e",
            self.name()
        )
    }

    /// Whether the target's children are watched too.
    fn has_children(&self) -> bool;

    /// Watches a child of the target that runs already. `process`: its pid in sbt's own pid
    /// namespace.
    fn follow(&mut self, process: u32) -> anyhow::Result<()>;

    /// Whether the source can report departures at all.
    fn has_departures(&self) -> bool {
        true
    }

    /// Starts or stops reporting departures.
    fn set_departures(&mut self, on: bool) -> anyhow::Result<()>;

    /// Puts probes on condition variables, or takes them off.
    fn set_condvars(&mut self, on: bool) -> anyhow::Result<()>;

    /// Starts or stops watching the system calls of futexes.
    ///
    /// # Errors
    /// Fails if the source cannot watch them, at present or at all.
    fn set_futexes(&mut self, on: bool) -> anyhow::Result<()>;

    /// Takes the probes off, so that the target runs as if not watched. Starts and ends of threads
    /// are still reported.
    fn pause(&mut self);

    /// Puts the probes on again after [`Source::pause`]. What was known of barriers is kept.
    fn resume(&mut self) -> anyhow::Result<()>;

    /// On which processes the probes are.
    fn scope(&self) -> Scope {
        Scope::Everyone
    }

    /// On which processes probes are put from now on.
    fn set_scope(&mut self, _scope: Scope) {}

    /// Replaces the probes by probes on every process that maps the files.
    fn widen(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Called at the target's first child: the probes must be on the children too.
    fn widen_for_children(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Puts on a second set of probes, lets it take over, and takes the first set off. No event is
    /// missed or counted twice.
    fn renew(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Waits by futex, where the source counts them.
    fn locks(&self) -> anyhow::Result<Waited> {
        Ok((Vec::new(), 0))
    }

    /// Begins to count the waits anew, for all processes or for one.
    fn clear_locks(&self, _process: Option<u32>) -> anyhow::Result<()> {
        Ok(())
    }

    /// Ignores a condition variable or a futex until `_until_ns`.
    fn silence(&mut self, _key: u64, _until_ns: u64) -> anyhow::Result<()> {
        Ok(())
    }

    /// How many uses of silenced condition variables were ignored.
    fn passed(&self) -> u64 {
        0
    }
}
