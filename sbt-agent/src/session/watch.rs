//! The hold on the target: the source with its probes, the choice of probes that are on, and the
//! system's facts about the target's processes.

use std::{collections::BTreeSet, path::Path};

use anyhow::Context as _;
use tokio::task::JoinHandle;

use super::{notes::Notes, understanding::Beginning};
use crate::{
    kernel::{counting::open::has_hardware, faults},
    settings::Settings,
    source::{Measurement, Sink, Source, Totals, abilities::Silencing, ebpf::sleeps::Sleeps},
};
use sbt_engine::{
    choices::States,
    counters::Plan,
    report::{Facts, FirstThreadReport, UsedReport},
};
use sbt_program::{clock, cpus::Cpus, process, scheduling::Scheduling};

mod alone;
mod budget;
mod condvars;
mod costs;
mod counters;
mod departures;
mod events;
mod futexes;
mod lifetime;
mod locks;
mod off;
mod processes;
mod spins;
mod standing;
mod stopped;
mod told;

pub use events::Changes;
use lifetime::Lifetime;
use locks::Locks;
use processes::Processes;
use standing::Standing;

/// The watch on one target.
#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Watch {
    pid: u32,
    /// `None` after watching has ended.
    source: Option<Box<dyn Source>>,
    stopping: Option<JoinHandle<anyhow::Result<Totals>>>,
    /// The name of the source.
    backend: &'static str,
    /// How the source works, for reports.
    method: String,
    counters: Plan,
    states: States,
    departures: departures::Governor,
    condvars: condvars::Governor,
    futexes: futexes::Governor,
    budget: budget::Governor,
    locks: Locks,
    processes: Processes,
    lifetime: Lifetime,
    standing: Standing,
    /// The use of CPUs by the target and other processes.
    scheduling: Scheduling,
    /// The number of CPUs that the target may use, at the last look.
    cpus: Cpus,
    start_ns: u64,
    end_ns: u64,
    /// The beginning of the run, whatever counts.
    begun_ns: u64,
    /// The totals count from the start of watching.
    counts_all: bool,
    /// The end of the part that counts, if that ends before watching does.
    last_ns: Option<u64>,
    /// The probes are off at the user's wish.
    is_off: bool,
    off: off::Off,
    had_children: Option<bool>,
    alone: alone::Alone,
    /// The first thread's time alone, and the target's use of resources; known when watching ended.
    first_thread: Option<FirstThreadReport>,
    used: Option<UsedReport>,
    hardware_counters: bool,
    /// Whether the program uses tasks of OpenMP.
    openmp_tasks: Option<bool>,
    /// The first thread is about to end, before the other threads.
    first_ends: bool,
    children: bool,
    /// The number of events lost, known when watching ended.
    lost: u64,
    /// Marks without a probe when watching ended.
    unseen_marks: BTreeSet<u8>,
}

/// The time and the page faults of the program, and what one costs if there were many.
fn used(figures: [u64; 4]) -> UsedReport {
    /// With fewer faults, their time is of no interest.
    const MANY: u64 = 10_000;
    let used = UsedReport::from(figures);
    UsedReport {
        fault_ns: (used.minor_faults >= MANY)
            .then(faults::page_fault_ns)
            .flatten(),
        ..used
    }
}

impl Watch {
    /// Starts the source. `runs_already`: the target runs its own program.
    ///
    /// # Errors
    /// The source cannot be started.
    pub fn begin(
        pid: u32,
        mut source: Box<dyn Source>,
        sink: Sink,
        runs_already: bool,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let start_ns = clock::now_ns();
        source.start(sink, start_ns, process::usage(pid))?;
        let mut cpus = Cpus::default();
        cpus.look(pid);
        let mut scheduling = Scheduling::new(Path::new("/proc"));
        scheduling.look(std::iter::once(pid), true);
        Ok(Self {
            pid,
            stopping: None,
            backend: source.name(),
            method: source.method(),
            counters: source.counters().clone(),
            states: source.states(),
            departures: departures::Governor::new(settings.departures, start_ns),
            condvars: condvars::Governor::new(start_ns),
            futexes: futexes::Governor::new(settings.futex, start_ns),
            budget: budget::Governor::new(settings.budget, start_ns),
            locks: Locks::new(pid),
            processes: Processes::new(pid),
            lifetime: Lifetime::new(pid, runs_already && process::first_thread_has_ended(pid)),
            standing: Standing::default(),
            scheduling,
            cpus,
            start_ns,
            end_ns: start_ns,
            begun_ns: start_ns,
            counts_all: true,
            last_ns: None,
            is_off: false,
            off: off::Off::default(),
            had_children: None,
            alone: alone::Alone::new(pid, start_ns, !runs_already),
            first_thread: None,
            used: None,
            hardware_counters: has_hardware(),
            openmp_tasks: None,
            first_ends: false,
            children: source.has_children(),
            lost: 0,
            unseen_marks: BTreeSet::new(),
            source: Some(source),
        })
    }

    /// The facts with which the understanding of the target begins.
    pub fn beginning(&self, runs_already: bool) -> Beginning {
        Beginning {
            pid: self.pid,
            runs_already,
            children: self.children,
            start_ns: self.start_ns,
            states: self.states,
            cpus: self.cpus.number,
            tracer: self.source.as_ref().and_then(|source| source.tracer()),
        }
    }

    /// Whether the source runs.
    pub const fn is_on(&self) -> bool {
        self.source.is_some()
    }

    /// Whether the probes are off at the user's wish.
    pub const fn is_off(&self) -> bool {
        self.is_off
    }

    /// The time at which watching began, or when the totals were last reset, ns.
    pub const fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// The time at which the run began, or watching if the target ran before, ns.
    pub const fn begun_ns(&self) -> u64 {
        self.begun_ns
    }

    /// The time at which watching ended, ns.
    pub const fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// The time until which the target is watched, ns: now, or the end of watching after that end.
    pub const fn until_ns(&self, now_ns: u64) -> u64 {
        if self.is_on() { now_ns } else { self.end_ns }
    }

    /// The counters, and where the value of each comes from.
    pub const fn counters(&self) -> &Plan {
        &self.counters
    }

    /// The target, and its living descendants whose start was seen.
    pub fn living(&self) -> impl Iterator<Item = u32> {
        self.processes.living()
    }

    /// Takes the sums of how long threads sleep, if the source has them.
    pub fn sleeps(&mut self) -> Option<Sleeps> {
        self.source.as_mut()?.sleeps()
    }

    /// Begins to measure what one hit of a probe costs.
    pub fn measure_costs(&self) -> Option<Measurement> {
        self.source.as_ref().map(|source| source.measure_costs())
    }

    /// The message if the source has ended by itself; `None` if it was stopped.
    pub fn lost_source(&self) -> Option<&'static str> {
        self.source.as_ref().map(|source| source.ended_by_itself())
    }

    /// Stops the source. `has_ended`: whether the target has ended with all its threads. Call
    /// [`Self::read_locks`] before.
    pub fn stop(&mut self, has_ended: impl FnOnce() -> bool) {
        if let Some(mut source) = self.source.take() {
            self.end_ns = clock::now_ns();
            self.scheduling.look(self.processes.living(), true);
            self.lifetime.is_over = has_ended();
            self.lost = source.lost();
            self.unseen_marks = source.unseen_marks();
            self.had_children = process::had_children(self.pid);
            // Both are about the whole run.
            if self.lifetime.is_over && self.counts_all {
                self.first_thread = Some(self.alone.finish(self.end_ns));
                self.used = process::used(self.pid).map(used);
            }
            self.children = source.has_children();
            self.processes.end();
            // Stop on a separate thread: stopping waits until the last batches are handed over, and
            // the session's thread has to take them.
            self.stopping = Some(tokio::task::spawn_blocking(move || source.stop()));
        }
    }

    /// The totals of the stopped source.
    ///
    /// # Errors
    /// The probes could not be taken off.
    pub async fn stopped(&mut self) -> anyhow::Result<Totals> {
        match self.stopping.take() {
            Some(stopping) => stopping.await.context("stopping the probes")?,
            // Every path that ends watching stops the source.
            None => anyhow::bail!("the source has not been stopped"),
        }
    }

    /// Takes the final number of lost events.
    pub const fn set_lost(&mut self, lost: u64) {
        self.lost = lost;
    }

    /// The target has executed a program for the first time. The run of a program that sbt started
    /// begins with this exec, not when sbt let the program go. Returns whether it begins now.
    pub const fn begin_program(&mut self, time_ns: u64) -> bool {
        // The user may have reset the totals meanwhile.
        let begins = time_ns > self.start_ns;
        if begins {
            self.start_ns = time_ns;
            self.begun_ns = time_ns;
        }
        begins
    }

    /// Sets the end of watching to the end of the program, not to the time at which sbt noticed
    /// that end. Call this after all events have been taken in. `lost`: some events were lost;
    /// `started`: sbt started the program.
    pub fn settle_end(&mut self, lost: bool, started: bool, notes: &mut Notes) {
        if let Some(last_ns) = self.last_ns {
            self.end_ns = last_ns.max(self.start_ns);
            return;
        }
        if !self.lifetime.is_over {
            // Events were counted until the last probe was removed.
            self.end_ns = self.end_ns.max(self.lifetime.seen_ns());
            return;
        }
        match self.lifetime.end_ns(lost) {
            Some(end_ns) => self.end_ns = self.end_ns.min(end_ns).max(self.start_ns),
            None => notes.push(
                "sbt did not see the exact end of the program: the wall time lasts until sbt \
                noticed the end, and may be too long",
            ),
        }
        if started && !self.lifetime.has_begun() {
            notes.push(
                "sbt did not see the exact start of the program: the wall time begins when sbt \
                let the program start, and may be too long",
            );
        }
    }

    /// Whether the target had ended, with all its threads, when watching did.
    pub const fn is_over(&self) -> bool {
        self.lifetime.is_over
    }

    /// Resets all totals: they count from `start_ns` on.
    pub fn reset(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.counts_all = false;
        self.off.reset(start_ns);
        self.budget.reset(self.start_ns);
        self.standing.reset();
        self.scheduling.reset(self.processes.living());
    }

    /// What comes after `end_ns` does not count, though watching ends later.
    pub const fn end_at(&mut self, end_ns: u64) {
        self.last_ns = Some(end_ns);
    }

    /// Switches the probes off at the user's wish. Call [`Self::set_off`] once all earlier events
    /// have come in.
    pub fn pause(&mut self, off_ns: u64) {
        if let Some(source) = &mut self.source {
            source.pause();
            self.budget.interrupt(off_ns);
            self.off.begin(off_ns);
        }
    }

    /// All events from before the probes went off have come in.
    pub const fn set_off(&mut self) {
        self.is_off = true;
    }

    /// Switches the probes on again after [`Self::pause`].
    pub fn resume(&mut self, notes: &mut Notes) {
        if let Some(source) = &mut self.source {
            notes.keep(source.resume());
            self.is_off = false;
            self.off.end(clock::now_ns());
        }
    }

    /// The note on how long the probes were off at the user's wish. Call this when watching has
    /// ended.
    pub fn note_of_off(&self) -> Option<String> {
        let off_ns = self.off.until_ns(self.end_ns);
        let seconds = off_ns as f64 / 1e9;
        (off_ns > 0)
            .then(|| format!("the probes were off for {seconds:.1} s: the user switched them off"))
    }

    /// Reads again how many CPUs the target may use, since the program may bind its threads; and who
    /// gets CPUs.
    pub fn count_cpus(&mut self) {
        if self.source.is_some() {
            self.cpus.look(self.pid);
            self.scheduling.look(self.processes.living(), false);
        }
    }

    /// Notices that a signal has stopped the target, or that its control group is frozen.
    /// `arrivals`: all arrivals so far.
    pub fn notice_stops(&mut self, arrivals: u64) {
        if self.source.is_some() && !self.is_off {
            let now_ns = clock::now_ns();
            self.standing
                .tick(now_ns, arrivals, self.pid, &self.scheduling);
        }
    }

    /// Whether the program uses tasks of OpenMP.
    pub const fn set_openmp_tasks(&mut self, uses: Option<bool>) {
        self.openmp_tasks = uses;
    }

    /// The number of uses of silenced condition variables that were ignored; `None` after watching
    /// has ended.
    pub fn passed(&self) -> Option<u64> {
        let source = self.source.as_ref()?;
        Some(source.silencing().map_or(0, Silencing::passed))
    }

    /// Ignores condition variables and futexes, each until a time, ns.
    pub fn silence(&self, silenced: Vec<(u64, u64)>) {
        let source = self.source.as_ref();
        let Some(silencing) = source.and_then(|source| source.silencing()) else {
            return;
        };
        for (key, until_ns) in silenced {
            // If the source does not obey, only more events arrive.
            let _heard = silencing.silence(key, until_ns);
        }
    }

    /// Adds what the watch knows to the facts for a report, as of `until_ns`.
    pub fn fill(&self, facts: &mut Facts, until_ns: u64) {
        let run = &mut facts.run;
        run.backend = self.backend.into();
        run.method.clone_from(&self.method);
        run.pid = self.pid;
        run.start_ns = self.start_ns;
        run.wall_ns = until_ns.saturating_sub(self.start_ns);
        run.had_children = self.had_children;
        run.first_thread = self.first_thread;
        run.used = self.used;
        run.hardware_counters = Some(self.hardware_counters);
        run.openmp_tasks = self.openmp_tasks;
        run.children = self.children;
        run.cpus = self.cpus.number;
        run.scheduling = Some(self.standing.report(&self.scheduling));
        run.departures = self.departures.summary();
        run.left_processes = self.processes.left();
        facts.unseen_marks = match &self.source {
            Some(source) => source.unseen_marks(),
            None => self.unseen_marks.clone(),
        };
        facts.lost = self.lost();
        facts.locks = self.locks.report();
        facts.counters = self.counters.clone();
        facts.states = self.states;
        facts.budget_pct = self.budget.budget();
        facts.thinned = self.budget.thinned(until_ns);
    }

    /// The number of events lost so far.
    fn lost(&self) -> u64 {
        let source = self.source.as_ref();
        source.map_or(self.lost, |source| source.lost())
    }

    /// The number of times that threads were seen to wait for locks.
    pub fn lock_waits(&self) -> u64 {
        self.locks.waits()
    }
}
