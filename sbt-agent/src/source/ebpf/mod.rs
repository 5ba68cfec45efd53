//! The eBPF backend: uprobes in the target, read through ring buffers.

use std::{
    collections::{HashMap, HashSet},
    io::{self, PipeWriter},
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::Receiver,
    },
    thread::JoinHandle,
};

use anyhow::Context as _;
use sbt_common::{Code, Futex, Lock, MAX_EVENTS, OWN_NUMBER, Rule, kind};

mod attach;
mod beside;
pub mod btf;
pub mod calibration;
mod calls;
mod cast;
pub mod communicators;
pub mod configure;
pub mod counting;
pub mod decode;
pub mod drain;
mod known_costs;
pub mod loader;
pub mod maps;
pub mod perf_uprobe;
pub mod points;
pub mod raw;
mod refused;
pub mod ring;
pub mod sleeps;
mod source;
pub mod spaces;
mod switch;
mod switches;
pub mod trial;

use crate::kernel::{
    LoadError,
    bpf::{self, ProgramKind},
    counting::{Opened, online, open},
};
use attach::detach;
use configure::configure;
use decode::{Baselines, Choice, Decoder, Start};
use loader::Loaded;
use raw::Raw;
use ring::Rings;
use sbt_engine::{
    choices::States,
    counters::{Counter, Plan},
    event::space,
};
use sbt_program::{clock, file_id::FileId, process};
use sleeps::{Sample, Samples, Sleeps};

use super::{Files, Measurement, Sink, Totals, abilities::Scope};

/// How many of the probes are on instructions that the kernel has to single-step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Attached probes of barriers and marks.
    pub probes: usize,
    /// How many of these probes cost a single step at each hit.
    pub slow: usize,
}

/// The programs that are always loaded. The object has more, which are loaded when first needed.
pub const PROGRAMS: [&str; 9] = [
    "arrive",
    "condvar",
    "depart",
    "init",
    "mapped",
    "exec",
    "fork",
    "exit",
    "calibrate",
];

/// The shortest time between two samples of one thread's sleeps, ns.
const SAMPLE_NS: u32 = 20_000_000;

/// The probes of one target.
#[allow(clippy::struct_excessive_bools, reason = "each is switched for itself")]
pub struct Ebpf {
    loaded: Loaded,
    pid: u32,
    files: Files,
    /// Places, as offsets in files, where another sbt has a jump: no probe is put there.
    jumps: HashSet<(FileId, u64)>,
    scope: Scope,
    generation: u16,
    /// The ways to find a team of LLVM's OpenMP, in the order of their map.
    kmp: Vec<sbt_common::Kmp>,
    /// Links of the tracepoints of processes and threads. Closing a link detaches its program.
    tracepoints: Vec<OwnedFd>,
    entries: Vec<OwnedFd>,
    /// Links of probes on functions of MPI that make communicators.
    makers: Vec<OwnedFd>,
    returns: Vec<OwnedFd>,
    /// Links of probes on condition variables.
    condvars: Vec<OwnedFd>,
    watch_condvars: bool,
    /// Links of the tracepoints on the system calls of futexes.
    futexes: Vec<OwnedFd>,
    watch_futexes: bool,
    /// While paused, only starts and ends of threads and processes are reported.
    paused: bool,
    departures: bool,
    /// Whether departures may be watched at some time of this run.
    may_depart: bool,
    run_offset: Option<u64>,
    placement: Placement,
    rings: Option<Rings>,
    drain: Option<JoinHandle<(Rings, Decoder)>>,
    /// How many of the records that found no room are known to be readings, not events.
    lost_no_events: Arc<AtomicU64>,
    /// The thread that reads the rings runs while this is open.
    reading: Option<PipeWriter>,
    notes: Vec<String>,
    counters: Opened,
    /// Counters chosen since the start, for the decoder.
    chosen: Choice,
    /// Link of the program that counts perf events for each thread.
    counting: Option<OwnedFd>,
    states: States,
    /// Link of the program that reports switches of threads.
    switches: Option<OwnedFd>,
    /// The way of samples of sleeps, and its end until that is taken.
    samples: (Samples, Option<Receiver<Sample>>),
}

/// The error says why perf events cannot be counted for each thread.
fn may_count(config: &sbt_common::Config) -> Result<(), &'static str> {
    // At a switch the programs see only the kernel's own thread numbers.
    if config.tgid != 0 {
        return Ok(());
    }
    Err("this needs sbt outside of the container, where processes have the kernel's own numbers")
}

/// Opens the counters, and sets how many the programs must make room for. `may_choose`: whether
/// other counters may be chosen later.
fn open_counters(
    counters: &[Counter],
    may_choose: bool,
    config: &mut sbt_common::Config,
) -> Opened {
    let opened = open(counters, &online(), may_count(config));
    let room = if may_choose {
        MAX_EVENTS
    } else {
        opened.events.len()
    };
    config.counts = u32::from(may_choose || !counters.is_empty());
    config.events = u32::try_from(room).unwrap_or(0);
    opened
}

/// Sets how closely the programs look at what threads do between barriers. Returns what will be
/// known, and why it is less than asked for, if so.
fn set_states(states: States, config: &mut sbt_common::Config) -> (States, Option<String>) {
    match states {
        States::Light => {}
        States::Off => {
            config.sum_exec_runtime = 0;
            config.run_delay = 0;
        }
        // At a switch the programs see only the kernel's own thread numbers.
        States::Full if config.tgid == 0 => {
            return (
                States::Light,
                Some(
                    "--states full does not work inside of a container, where processes do not \
                     have the kernel's own numbers: sbt uses --states light"
                        .into(),
                ),
            );
        }
        States::Full => config.switches = 1,
    }
    (states, None)
}

impl Ebpf {
    /// Loads the programs for one process, and attaches only the tracepoints of starts and ends.
    /// `counters`: the counters, and whether others may be chosen later.
    pub fn load(
        pid: u32,
        departures: bool,
        children: bool,
        states: States,
        (counters, may_choose): (&[Counter], bool),
    ) -> Result<Self, LoadError> {
        let mut config = configure(pid, children);
        let states = set_states(states, &mut config);
        // At a switch the programs see only the kernel's own thread numbers.
        config.sleeps = u32::from(config.tgid != 0);
        config.sample_ns = SAMPLE_NS;
        let (samples, receiver) = sleeps::way();
        let opened = open_counters(counters, may_choose, &mut config);
        let mut loaded = loader::load(config, ProgramKind::of_uprobes(), &PROGRAMS)?;
        let rings = std::mem::take(&mut loaded.rings);
        let rings = Rings::new(rings).map_err(|source| LoadError::Kernel {
            what: "mapping the ring buffers".into(),
            source,
        })?;
        let mut this = Self {
            loaded,
            pid,
            files: Files::default(),
            scope: Scope::Target,
            generation: 0,
            jumps: HashSet::new(),
            kmp: Vec::new(),
            tracepoints: Vec::new(),
            entries: Vec::new(),
            makers: Vec::new(),
            returns: Vec::new(),
            condvars: Vec::new(),
            watch_condvars: true,
            futexes: Vec::new(),
            watch_futexes: false,
            paused: false,
            departures,
            may_depart: departures,
            run_offset: None,
            placement: Placement::default(),
            rings: Some(rings),
            drain: None,
            lost_no_events: Arc::default(),
            reading: None,
            notes: opened.notes.iter().cloned().chain(states.1).collect(),
            counters: opened,
            chosen: Choice::default(),
            counting: None,
            states: states.0,
            switches: None,
            samples: (samples, Some(receiver)),
        };
        this.run_offset = this.calibrate();
        if children && !this.has_children() {
            this.notes.push(
                "this kernel does not let sbt follow child processes: sbt watches one process only"
                    .into(),
            );
        }
        this.count();
        this.watch_switches();
        for (program, tracepoint) in [
            ("exec", c"sched_process_exec"),
            ("fork", c"sched_process_fork"),
            ("exit", c"sched_process_exit"),
        ] {
            if program == "fork" && !this.has_children() {
                continue;
            }
            let loaded = this.loaded.program(program).map_err(io::Error::other);
            let link = loaded
                .and_then(|loaded| bpf::attach_raw_tracepoint(loaded, &tracepoint.to_owned()));
            match link {
                Ok(link) => this.tracepoints.push(link),
                Err(error) => this.notes.push(format!(
                    "cannot watch {program} ({error}): {} not seen",
                    refused::unseen(program)
                )),
            }
        }
        Ok(this)
    }

    /// Makes threads report their counters, and begins to count perf events.
    fn count(&mut self) {
        if let Err(error) = self.begin_counting() {
            self.notes
                .push(format!("sbt does not read counters: {error}"));
        }
    }

    fn begin_counting(&mut self) -> io::Result<()> {
        let events = self.counters.events.len();
        let maps = &mut self.loaded.maps;
        maps.set_events(&self.counters.events)?;
        maps.tell_counts(self.counters.plan.counts_something(), events)?;
        if events > 0 && self.counting.is_none() {
            let program = self.loaded.program("switch").map_err(io::Error::other)?;
            let link = bpf::attach_raw_tracepoint(program, &c"sched_switch".to_owned())?;
            self.counting = Some(link);
        }
        // Enabled only now: the program at `sched_switch` has noted the earlier value for every
        // thread that runs from now on, so nothing of another thread is counted.
        self.counters.enable()
    }

    /// Counts these counters from now on; returns a sentence for each that cannot be counted.
    fn choose_counters(&mut self, wanted: &[Counter]) -> io::Result<Vec<String>> {
        let config = &self.loaded.config;
        let notes = self.counters.choose(wanted, &online(), may_count(config));
        self.begin_counting()?;
        self.chosen.put(self.counters.plan.clone());
        Ok(notes)
    }

    /// Begins to watch what threads do while they are on no CPU.
    fn watch_switches(&mut self) {
        if self.states != States::Full {
            return;
        }
        let program = self.loaded.program("away").map_err(io::Error::other);
        let link = program
            .and_then(|program| bpf::attach_raw_tracepoint(program, &c"sched_switch".to_owned()));
        match link {
            Ok(link) => self.switches = Some(link),
            Err(error) => {
                self.states = States::Light;
                self.notes.push(format!(
                    "cannot watch context switches ({error}): sbt uses --states light"
                ));
            }
        }
    }

    /// Sums of how long threads sleep, not yet on; `None` if this kernel cannot have them, or if they
    /// were taken already.
    pub fn sleeps(&mut self) -> Option<Sleeps> {
        if self.loaded.config.sleeps == 0 {
            return None;
        }
        let load = |(name, _)| self.loaded.program(name).ok()?.try_clone_to_owned().ok();
        let programs = sleeps::PROGRAMS
            .map(load)
            .into_iter()
            .collect::<Option<_>>()?;
        let samples = self.samples.1.take()?;
        Sleeps::new(&self.loaded.maps.sums, programs, samples).ok()
    }

    /// How closely the programs look at what threads do between barriers.
    pub const fn states(&self) -> States {
        self.states
    }

    /// The counters, and where the value of each comes from.
    pub const fn counters(&self) -> &Plan {
        &self.counters.plan
    }

    /// How far the kernel's run time, as the BPF programs compute it, is ahead of the true one, ns.
    /// Measured by a program that runs in this thread's context, between two readings of the
    /// thread's own CPU clock. The best of five tries is right to about 1 µs.
    fn calibrate(&mut self) -> Option<u64> {
        let rings = self.rings.as_mut()?;
        let program = self.loaded.program("calibrate").ok()?;
        let mut best: Option<(u64, u64)> = None;
        let mut records = Vec::new();
        for _ in 0..5 {
            let before = clock::thread_cpu_ns();
            bpf::program_run(program).ok()?;
            let after = clock::thread_cpu_ns();
            records.clear();
            rings.drain(clock::now_ns(), &mut records);
            let run_ns = records.iter().rev().find_map(|raw| match raw {
                Raw::Depart(record) if record.head.kind == kind::CALIBRATE => {
                    Some(record.clocks.run_ns)
                }
                _ => None,
            })?;
            if run_ns == sbt_common::UNKNOWN {
                return None;
            }
            let offset = run_ns.wrapping_sub(before.midpoint(after));
            if best.is_none_or(|(width, _)| after - before < width) {
                best = Some((after - before, offset));
            }
        }
        best.map(|(_, offset)| offset)
    }

    /// Whether the target's children are watched too.
    pub const fn has_children(&self) -> bool {
        self.loaded.config.children != 0
    }

    /// Sets on which processes probes are put from now on. Without a call: on the target alone.
    pub const fn set_scope(&mut self, scope: Scope) {
        self.scope = scope;
    }

    /// On which processes the probes are.
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// Watches a child of the target that runs already.
    pub fn follow(&self, process: u32) -> io::Result<()> {
        let is_own = self.loaded.config.tgid == 0;
        self.loaded
            .maps
            .follow(process | if is_own { OWN_NUMBER } else { 0 })
    }

    /// Futexes on which threads have waited, and how many waits were not counted for want of room.
    pub fn locks(&self) -> io::Result<(Vec<(Futex, Lock)>, u64)> {
        self.loaded.maps.locks()
    }

    /// Begins to count the waits anew, for all processes or for one.
    pub fn clear_locks(&self, process: Option<u32>) -> io::Result<()> {
        self.loaded.maps.clear_locks(process)
    }

    /// Ignores a condition variable or a futex until `until_ns`.
    pub fn silence(&self, key: u64, until_ns: u64) -> io::Result<()> {
        // Objects of children are not silenced.
        if space(key) != 0 {
            return Ok(());
        }
        self.loaded.maps.silence(key, until_ns)
    }

    /// How many uses of silenced condition variables were ignored.
    pub fn passed(&self) -> u64 {
        self.loaded.maps.passed().unwrap_or(0)
    }

    /// Adds rules that find callers of callers, and removes the rules that are `None`. Forgets what
    /// is known of return addresses, even if `changes` is empty.
    pub fn learn(&mut self, changes: &[(Code, Option<Rule>)]) -> anyhow::Result<()> {
        self.loaded
            .maps
            .change_rules(changes)
            .context("storing how to find the callers of functions")
    }

    /// Begins to measure what a hit of a probe costs, on another thread.
    pub fn measure_costs(&self) -> Measurement {
        let used = |name: &str| self.loaded.is_loaded(name);
        calibration::begin(self.loaded.config, self.loaded.uprobes, used)
    }

    /// How many probes there are, and how many are slow.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Begins to hand over events. `baselines`: what the existing threads have used so far.
    pub fn start(&mut self, sink: Sink, time_ns: u64, baselines: Baselines) -> anyhow::Result<()> {
        let rings = self.rings.take().context("started twice")?;
        self.note_tracer();
        let start = Start {
            time_ns,
            run_offset: self.run_offset,
            baselines,
            pid: self.pid,
            shared: self.has_children().then_some(process::memory_at),
            plan: self.counters.plan.clone(),
            chosen: self.chosen.clone(),
            kept: if self.counters.plan.0.is_empty() {
                HashMap::new()
            } else {
                process::kept_counts(self.pid)
            },
        };
        let (stop, reading) = io::pipe().context("making a pipe")?;
        self.reading = Some(reading);
        let teach = self.loaded.maps.mpi_teacher()?;
        let no_events = Arc::clone(&self.lost_no_events);
        let samples = self.samples.0.clone();
        self.drain = Some(
            std::thread::Builder::new()
                .name("sbt-drain".into())
                .spawn(move || {
                    drain::run(rings, start, &sink, &stop, (&no_events, &samples), teach)
                })
                .context("starting the thread that reads the ring buffers")?,
        );
        Ok(())
    }

    /// Events lost so far for want of room. For moments too high, until the decoder has found out
    /// which of the lost records were no events.
    pub fn lost(&self) -> u64 {
        let records = self.loaded.maps.lost().unwrap_or(0);
        records.saturating_sub(self.lost_no_events.load(Ordering::Relaxed))
    }
}

impl Ebpf {
    /// Whether probes can be attached at all: where each probe is a perf event, that may take more
    /// privilege than loading the programs.
    pub fn may_probe(&self) -> bool {
        matches!(self.loaded.uprobes, bpf::ProgramKind::UprobeMulti) || perf_uprobe::are_permitted()
    }

    /// Takes all probes off. Everything that happened before is handed over.
    pub fn stop(&mut self) -> anyhow::Result<Totals> {
        self.note_tracer();
        let gone = self.taken_away();
        let mut links = self.take_links();
        links.append(&mut self.futexes);
        links.append(&mut self.tracepoints);
        links.extend(self.switches.take());
        detach(links);
        self.reading = None;
        let read = self.drain.take().map(JoinHandle::join).transpose();
        let read =
            read.map_err(|_| anyhow::anyhow!("the thread that reads the ring buffers failed"))?;
        let mut lost = self
            .loaded
            .maps
            .lost()
            .context("reading the loss counter")?;
        if let Some((rings, decoder)) = read {
            lost = decoder.lost_events(lost + rings.unreadable());
            self.notes.extend(decoder.note());
        }
        let mut notes = std::mem::take(&mut self.notes);
        if self.placement.slow > 0 {
            notes.push(format!(
                "the kernel must single-step the instructions at {} of {} probes: each hit there \
                 costs several times as much",
                self.placement.slow, self.placement.probes
            ));
        }
        if gone > 0 {
            notes.push(format!(
                "another tool, such as a debugger, removed {gone} probes of barriers: sbt did not \
                 see what threads did there since, and counts each as one lost event"
            ));
        }
        if self.run_offset.is_none() && self.states != States::Off {
            notes.push(
                "this kernel does not tell how long threads ran: run times are unknown".into(),
            );
        }
        Ok(Totals {
            lost: lost + gone,
            notes,
        })
    }
}
