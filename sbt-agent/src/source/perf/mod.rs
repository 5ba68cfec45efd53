//! Breakpoints of the processor, sampled by the kernel: nobody stops, and no privilege is
//! needed beyond that the processes are the user's own.
//!
//! A thread that comes to one of four addresses leaves its registers and the top of its stack
//! in a ring, and goes on. What the kernel's own programs would have made of that is made
//! here, a moment later, with the same records (`hits/`). What is different from those: there
//! is room for four addresses; departures and futexes are not seen; memory is read late.

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
mod cover;
mod events;
mod load;
mod place;
mod record;
mod refused;
mod run;
mod space;
mod watch;

use events::Events;
use watch::Watch;

use super::{
    BATCH, Baselines, Batch, Measurement, Sink, Source, Totals,
    ebpf::{decode::Decoder, raw::Raw},
    outside::{Outside, set_futexes},
};
use crate::source::twin;
use crate::{kernel::counting, settings::Settings};
use sbt_engine::{
    choices::{Departures, States},
    counters::Plan,
};
use sbt_program::{files::ProbedFile, process};

/// What happens is taken after so long: of a program that has just begun, and later. Memory
/// is to be read soon, and each look costs.
const SOON: Duration = Duration::from_millis(5);
const LATER: Duration = Duration::from_millis(20);

/// Events that wait for who takes them, while more is read: the rings are not to run full.
const MOST_HELD: usize = 16 * BATCH;

/// So many looks are soon.
const FIRST: u32 = 200;

/// The breakpoints of one target.
pub struct Hardware {
    outside: Outside,
    watch: Arc<Mutex<Watch>>,
    stopping: Arc<AtomicBool>,
}

impl Hardware {
    /// Begins to hear of a process. `runs`: it runs its own program already.
    ///
    /// # Errors
    /// It may not be watched so: the line says why, and what would help.
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

/// What is asked for, and not to be had.
fn without(settings: &Settings) -> Vec<String> {
    let mut notes = Vec::new();
    if !settings.events.is_empty() {
        notes.push("counters need --backend ebpf or ptrace: none is counted".into());
    }
    if settings.departures == Departures::On {
        notes.push(
            "departures need --backend ebpf or ptrace: breakpoints of the processor are for \
             arrivals"
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

    fn learn(&mut self, changes: &[(Code, Option<Rule>)]) -> anyhow::Result<()> {
        self.watch().learn(changes);
        Ok(())
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

    fn has_departures(&self) -> bool {
        false
    }

    fn set_departures(&mut self, _on: bool) -> anyhow::Result<()> {
        Ok(())
    }

    fn set_condvars(&mut self, on: bool) -> anyhow::Result<()> {
        self.change(|watch| watch.set_condvars(on))
    }

    fn set_futexes(&mut self, on: bool) -> anyhow::Result<()> {
        set_futexes(on)
    }

    fn pause(&mut self) {
        self.watch().pause(true);
    }

    fn resume(&mut self) -> anyhow::Result<()> {
        self.watch().pause(false);
        Ok(())
    }
}

impl Drop for Hardware {
    fn drop(&mut self) {
        // Not stopped in order.
        self.watch().leave();
        self.stopping.store(true, Ordering::Release);
        let _failed = self.outside.end();
    }
}

/// The thread that reads what has happened.
struct Drain {
    watch: Arc<Mutex<Watch>>,
    decoder: Decoder,
    sink: Sink,
    lost: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
}

impl Drain {
    /// Reads until told to stop, and then what is left; what the user should know.
    fn run(mut self) -> Option<String> {
        let mut batch = Batch::new();
        let mut looks = 0;
        loop {
            let last = self.stopping.load(Ordering::Acquire);
            let (bytes, executed, descriptors) = self.pass(last);
            // It does not wait, but in the end it is left alone.
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

    /// Hands over what there is, if it is taken; else more of it is, later.
    fn hand_over(&self, batch: &mut Batch, last: bool) {
        if batch.is_empty() {
            return;
        }
        match self.sink.try_send(std::mem::take(batch)) {
            Err(TrySendError::Full(all)) if all.len() < MOST_HELD && !last => *batch = all,
            // Fails only if the reader is gone, and then nobody wants it.
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

    /// Looks after a process that has executed a program.
    fn follow(&self, process: u32) {
        let Err(error) = load::follow(process, false, Arc::clone(&self.watch)) else {
            return;
        };
        let tracer = process::tracer(process, process).and_then(process::of_thread);
        if tracer == Some(std::process::id()) {
            // It is followed already, and has executed another program meanwhile.
            return;
        }
        let mut watch = lock(&self.watch);
        match error.raw_os_error() {
            Some(libc::ESRCH) => {}
            _ if process::thread_has_ended(process, process) => watch.note(load::LATE),
            _ => watch.note(&format!(
                "a program that another one executed could not be held while it was loaded \
                 ({error}): its first barriers may be missing"
            )),
        }
        watch.try_to_place(process);
    }
}

/// Sleeps, but wakes when a ring asks for it.
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
