//! The perf backend: breakpoints of the processor, sampled by the kernel. No thread stops, and no
//! privilege is needed as long as the processes are the user's own.
//!
//! A thread that comes to one of four addresses leaves its registers and the top of its stack in a
//! ring, and goes on. A moment later, sbt makes of this the records that the BPF programs would
//! have made (`twin/`). Three things differ: there is room for four addresses only; departures and
//! futexes are not seen; memory is read late.

use std::{
    collections::BTreeSet,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::anyhow;
use sbt_common::{Code, Rule};
use tokio::sync::mpsc::error::TrySendError;

mod calibrate;
pub(super) mod cover;
pub(super) mod events;
pub(super) mod load;
mod place;
pub(super) mod record;
mod refused;
mod run;
mod space;
mod watch;

use events::Events;
use watch::Watch;

use super::{
    BATCH, Baselines, Batch, Measurement, Sink, Source, Totals,
    abilities::{Callers, Condvars},
    ebpf::{decode::Decoder, raw::Raw},
    outside::Outside,
};
use crate::source::twin;
use crate::{kernel::counting, settings::Settings};
use sbt_engine::{
    choices::{Departures, States},
    counters::Plan,
};
use sbt_program::{files::ProbedFile, process};

/// Pause between two looks at the rings, for a program that has just begun and for later. Short,
/// because memory must be read soon; not shorter, because each look costs.
const SOON: Duration = Duration::from_millis(5);
const LATER: Duration = Duration::from_millis(20);

/// The number of events that may wait for the reader while more are read, so that the rings do not
/// overflow.
const MOST_HELD: usize = 16 * BATCH;

/// After how many looks the pause becomes longer.
const FIRST: u32 = 200;

/// The perf source of one target.
pub struct Hardware {
    outside: Outside,
    watch: Arc<Mutex<Watch>>,
    stopping: Arc<AtomicBool>,
}

impl Hardware {
    /// Begins to watch a process. `runs`: whether it runs its own program already.
    ///
    /// # Errors
    /// The process may not be watched this way: the error says why, and what would help.
    pub fn begin(
        pid: u32,
        runs: bool,
        children: bool,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let refused = |error: io::Error| anyhow!("{}", refused::explain(&error));
        super::allow_files();
        let hit_ns = calibrate::hit_ns().map_err(refused)?;
        let mut outside = Outside::new(pid, children, settings);
        outside.costs(Ok(hit_ns));
        outside.notes.extend(without(settings));
        let switches = outside.states != States::Off;
        let events = Events::new(&counting::online(), children, switches).map_err(refused)?;
        let mut watch = Watch::new(pid, events, children);
        watch.hear_of(pid, runs).map_err(refused)?;
        let this = Self {
            outside,
            watch: Arc::new(Mutex::new(watch)),
            stopping: Arc::default(),
        };
        if !runs {
            load::follow(pid, true, Arc::clone(&this.watch))
                .map_err(|error| super::refused::explain(pid, &error.into()))?;
        }
        Ok(this)
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        lock(&self.watch)
    }

    fn change(&mut self, change: impl FnOnce(&mut Watch) -> io::Result<()>) -> anyhow::Result<()> {
        let changed = change(&mut self.watch());
        changed.map_err(|error| anyhow!("{}", refused::explain(&error)))
    }
}

/// A note for each wish that this backend cannot fulfil.
fn without(settings: &Settings) -> Vec<String> {
    let mut notes = Vec::new();
    if !settings.events.is_empty() {
        notes.push("counters need --backend ebpf or ptrace: sbt reads no counters".into());
    }
    if settings.departures == Departures::On {
        notes.push(
            "departures need --backend ebpf or ptrace: the processor's few breakpoints are used \
             for arrivals"
                .into(),
        );
    }
    notes
}

fn lock(watch: &Mutex<Watch>) -> MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Source for Hardware {
    fn name(&self) -> &'static str {
        "perf"
    }

    fn method(&self) -> String {
        "breakpoints of the processor".into()
    }

    fn traces_the_start(&self) -> bool {
        true
    }

    fn start(&mut self, sink: Sink, time_ns: u64, baselines: Baselines) -> anyhow::Result<()> {
        self.watch().begin(time_ns, &baselines);
        let drain = Drain {
            watch: Arc::clone(&self.watch),
            decoder: Decoder::new(self.outside.start(time_ns, baselines)),
            sink,
            lost: Arc::clone(&self.outside.lost),
            stopping: Arc::clone(&self.stopping),
        };
        self.outside.drain(move || drain.run())
    }

    fn stop(&mut self) -> anyhow::Result<Totals> {
        self.watch().leave();
        self.stopping.store(true, Ordering::Release);
        self.outside.end()?;
        let mut totals = self.outside.totals();
        let mut watch = self.watch();
        totals.notes.append(&mut watch.notes);
        totals.notes.extend(watch.missed.told());
        drop(watch);
        Ok(totals)
    }

    fn unseen_marks(&self) -> BTreeSet<u8> {
        self.watch().missed.marks.clone()
    }

    fn lost(&self) -> u64 {
        self.outside.lost()
    }

    fn attach(&mut self, files: &[Arc<ProbedFile>]) -> anyhow::Result<()> {
        self.change(|watch| watch.attach(files))
    }

    fn measure_costs(&self) -> Measurement {
        self.outside.measure_costs()
    }

    fn states(&self) -> States {
        self.outside.states
    }

    fn counters(&self) -> &Plan {
        &self.outside.counters
    }

    fn has_children(&self) -> bool {
        self.outside.children
    }

    fn follow(&mut self, process: u32) -> anyhow::Result<()> {
        self.watch().follow(process);
        Ok(())
    }

    fn pause(&mut self) {
        self.watch().pause(true);
    }

    fn resume(&mut self) -> anyhow::Result<()> {
        self.watch().pause(false);
        Ok(())
    }

    fn condvars(&mut self) -> Option<&mut dyn Condvars> {
        Some(self)
    }

    fn callers(&mut self) -> Option<&mut dyn Callers> {
        Some(self)
    }
}

impl Condvars for Hardware {
    fn set_condvars(&mut self, on: bool) -> anyhow::Result<()> {
        self.change(|watch| watch.set_condvars(on))
    }
}

impl Callers for Hardware {
    fn learn(&mut self, changes: &[(Code, Option<Rule>)]) -> anyhow::Result<()> {
        self.watch().learn(changes);
        Ok(())
    }
}

impl Drop for Hardware {
    fn drop(&mut self) {
        // The source may not have been stopped in order.
        self.watch().leave();
        self.stopping.store(true, Ordering::Release);
        let _failed = self.outside.end();
    }
}

/// The thread that reads the rings.
struct Drain {
    watch: Arc<Mutex<Watch>>,
    decoder: Decoder,
    sink: Sink,
    lost: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
}

impl Drain {
    /// Reads until told to stop, then what is left. Returns a remark for the user, if there is one.
    fn run(mut self) -> Option<String> {
        let mut batch = Batch::new();
        let mut looks = 0;
        loop {
            let last = self.stopping.load(Ordering::Acquire);
            let (bytes, executed, descriptors) = self.pass(last);
            // A process that executes a program waits to be followed; at the end it is let go.
            for process in executed.into_iter().filter(|_| !last) {
                self.follow(process);
            }
            twin::each(&bytes, |record| {
                if let Some(raw) = Raw::parse(record) {
                    self.decoder.decode(&raw, &mut batch);
                }
            });
            self.hand_over(&mut batch, last);
            if last {
                return self.decoder.note();
            }
            looks += 1;
            sleep(&descriptors, if looks < FIRST { SOON } else { LATER });
        }
    }

    /// Sends the batch. If the queue is full, the batch grows up to a limit before this blocks.
    fn hand_over(&self, batch: &mut Batch, last: bool) {
        if batch.is_empty() {
            return;
        }
        match self.sink.try_send(std::mem::take(batch)) {
            Err(TrySendError::Full(all)) if all.len() < MOST_HELD && !last => *batch = all,
            // Fails only if the reader is gone; then nobody needs the batch.
            Err(TrySendError::Full(all)) => drop(self.sink.blocking_send(all)),
            Ok(()) | Err(TrySendError::Closed(_)) => {}
        }
    }

    fn pass(&self, last: bool) -> (Vec<u8>, Vec<u32>, Vec<i32>) {
        let mut watch = lock(&self.watch);
        watch.pass(last);
        self.lost.store(watch.lost, Ordering::Relaxed);
        (
            std::mem::take(&mut watch.out.bytes),
            std::mem::take(&mut watch.executed),
            watch.descriptors(),
        )
    }

    /// Watches a process that has executed a program.
    fn follow(&self, process: u32) {
        let Err(error) = load::follow(process, false, Arc::clone(&self.watch)) else {
            return;
        };
        let tracer = process::tracer(process, process).and_then(process::of_thread);
        if tracer == Some(std::process::id()) {
            // The process is followed already, and has executed another program meanwhile.
            return;
        }
        let mut watch = lock(&self.watch);
        match error.raw_os_error() {
            Some(libc::ESRCH) => {}
            _ if process::thread_has_ended(process, process) => watch.note(load::LATE),
            _ => watch.note(&format!(
                "sbt could not stop a newly executed program while it was loaded ({error}): its \
                 first barriers may be missing"
            )),
        }
        watch.try_to_place(process);
    }
}

/// Sleeps until `time` is over or a ring asks to be read.
fn sleep(descriptors: &[i32], time: Duration) {
    let mut polls: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|fd| libc::pollfd {
            fd: *fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let count = polls.len() as libc::nfds_t;
    let millis = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: `polls` is an array of `count` initialised elements. An error (a signal) only
    // ends the sleep early.
    unsafe { libc::poll(polls.as_mut_ptr(), count, millis) };
}
