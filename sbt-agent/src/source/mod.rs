//! Where events come from.
//!
//! A source starts, hands over batches of events in the order of their times,
//! and stops. Nothing to the right of it knows which one ran.

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

/// Whom probes are put on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The target alone.
    Target,
    /// Everyone who maps the file, the programs sorting out the others. For a
    /// target with children, which begin before anybody could put probes on them,
    /// and for one whose first thread has ended: the kernel knows a process's memory
    /// by that thread, and takes the probes off as soon as it looks again.
    Everyone,
}

/// Futexes on which threads have waited, and how many waits are in none of them for
/// want of room.
pub type Waited = (Vec<(Futex, Lock)>, u64);

/// Each thread takes some files for each CPU: as many as the user may have.
pub(crate) fn allow_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Then it has to do with what there is.
        let _as_it_is = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// Something that tells what happens in a target, while it happens.
pub trait Source: Send {
    /// A name for reports: `ebpf`, `ptrace`, …
    fn name(&self) -> &'static str;

    /// How it works, in a few words: the rung of the ladder it stands on.
    fn method(&self) -> String;

    /// What to say if it ends though nobody has stopped it.
    fn ended_by_itself(&self) -> &'static str {
        "the reader of events has ended by itself: what happened since was not seen; run it again"
    }

    /// Whether a program that is started is traced at its start, as by a debugger: then it must
    /// be a process into which this user may look.
    fn traces_the_start(&self) -> bool {
        false
    }

    /// Marks, by their numbers, that have not been watched everywhere or all the time.
    fn unseen_marks(&self) -> BTreeSet<u8> {
        BTreeSet::new()
    }

    /// Begins to hand events over. `time_ns`: from when on; `baselines`: what the
    /// threads that exist have used so far.
    fn start(&mut self, sink: Sink, time_ns: u64, baselines: Baselines) -> anyhow::Result<()>;

    /// Stops watching. Everything that happened before is in the sink when
    /// this returns, and the sink is closed.
    fn stop(&mut self) -> anyhow::Result<Totals>;

    /// Events lost so far.
    fn lost(&self) -> u64;

    /// Puts probes on what files have to offer; those known are passed over.
    fn attach(&mut self, files: &[Arc<ProbedFile>]) -> anyhow::Result<()>;

    /// Adds rules by which callers of callers are found, and takes others away.
    /// What is remembered of return addresses is forgotten, even if there are none.
    fn learn(&mut self, changes: &[(Code, Option<Rule>)]) -> anyhow::Result<()>;

    /// Begins to measure what a hit of a probe costs.
    fn measure_costs(&self) -> Measurement;

    /// How closely is looked at what threads do between barriers.
    fn states(&self) -> States;

    /// The counters, and where they are.
    fn counters(&self) -> &Plan;

    /// Has these counted from now on, and no others; in `counters`, all keep their places. What
    /// cannot be counted is told, and left out.
    ///
    /// # Errors
    /// Counters cannot be chosen while the program runs.
    fn choose(&mut self, _counters: &[Counter]) -> anyhow::Result<Vec<String>> {
        anyhow::bail!(
            "with --backend {} counters are chosen at the start: -e",
            self.name()
        )
    }

    /// Whether the target's children are watched too.
    fn has_children(&self) -> bool;

    /// Watches a child of the target that runs already, by sbt's own number of it.
    fn follow(&mut self, process: u32) -> anyhow::Result<()>;

    /// Whether it can report departures at all.
    fn has_departures(&self) -> bool {
        true
    }

    /// Starts or stops to report departures.
    fn set_departures(&mut self, on: bool) -> anyhow::Result<()>;

    /// Puts the probes of condition variables on, or takes them off.
    fn set_condvars(&mut self, on: bool) -> anyhow::Result<()>;

    /// Starts or stops to watch the system calls of futexes.
    ///
    /// # Errors
    /// It cannot, at present or at all.
    fn set_futexes(&mut self, on: bool) -> anyhow::Result<()>;

    /// Takes the probes off the target: it is as without us. What tells of the
    /// lives of threads stays.
    fn pause(&mut self);

    /// Puts them on again. What is known of barriers is from before.
    fn resume(&mut self) -> anyhow::Result<()>;

    /// Whom the probes are on.
    fn scope(&self) -> Scope {
        Scope::Everyone
    }

    /// Whom probes are put on from now on.
    fn set_scope(&mut self, _scope: Scope) {}

    /// Goes over to probes for everyone.
    fn widen(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// The target has a first child: its probes must be on others too.
    fn widen_for_children(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Puts a second set of probes on, lets it take over, and takes the first
    /// one off: nothing is missed or counted twice.
    fn renew(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// What is waited for, by futex, where that is counted.
    fn locks(&self) -> anyhow::Result<Waited> {
        Ok((Vec::new(), 0))
    }

    /// Begins to count those waits anew, all or those of a process.
    fn clear_locks(&self, _process: Option<u32>) -> anyhow::Result<()> {
        Ok(())
    }

    /// Lets a condition variable or a futex pass unseen until a time, ns.
    fn silence(&mut self, _key: u64, _until_ns: u64) -> anyhow::Result<()> {
        Ok(())
    }

    /// How many uses of condition variables have passed so.
    fn passed(&self) -> u64 {
        0
    }
}
