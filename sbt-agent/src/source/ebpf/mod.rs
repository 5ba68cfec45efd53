//! Uprobes in the target, read through ring buffers.

use std::{
    ffi::CString,
    io,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use anyhow::Context as _;
use sbt_common::{Code, Cookie, Futex, Lock, MAX_KMP, MarkCookie, Rule, kind, kmp, layout};

pub mod bpf;
pub mod btf;
pub mod communicators;
pub mod decode;
pub mod drain;
pub mod loader;
pub mod perf_uprobe;
pub mod ring;
pub mod spaces;

use bpf::{ProbePoint, ProgramKind};
use decode::{Baselines, Raw, Start};
use loader::{LoadError, Loaded};
use ring::Rings;

use super::{Sink, Source, Totals};
use crate::{
    clock,
    event::space,
    place::printable,
    target::{
        elf::{Function, Point},
        files::ProbedFile,
        process,
    },
};

/// How many of the points lie where the kernel has to single-step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Probes of barriers and marks attached.
    pub probes: usize,
    /// Those of them that cost a single step each time.
    pub slow: usize,
}

/// The programs that watching always uses; the object has more, which are loaded
/// when there is something to use them for.
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

/// Which end of a function a probe is put on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Entry,
    Return,
}

const fn is_mapped(function: Function) -> bool {
    matches!(function, Function::LinkerMapped)
}

const fn is_init(function: Function) -> bool {
    matches!(function, Function::BarrierInit)
}

const fn is_wait(function: Function) -> bool {
    matches!(function, Function::BarrierWait)
}

const fn is_team(function: Function) -> bool {
    matches!(function, Function::Team(_))
}

const fn is_kmp(function: Function) -> bool {
    matches!(function, Function::Kmp(_))
}

/// What a return probe tells the end of.
const fn is_left(function: Function) -> bool {
    matches!(function, Function::BarrierWait | Function::TeamEnd)
}

const fn is_call(function: Function) -> bool {
    matches!(function, Function::Call { .. })
}

const fn is_call_exit(function: Function) -> bool {
    matches!(function, Function::CallExit)
}

const fn is_cond_wait(function: Function) -> bool {
    matches!(function, Function::CondWait)
}

const fn is_cond_wake(function: Function) -> bool {
    matches!(function, Function::CondWake { .. })
}

const fn is_mark(function: Function) -> bool {
    matches!(function, Function::Mark(_))
}

/// Some functions, by what they are.
type Is = fn(Function) -> bool;

/// What is always attached, in this order; departures come and go.
const ATTACHED: [(Is, &str); 8] = [
    (is_mapped, "mapped"),
    (is_init, "init"),
    (is_mark, "mark"),
    (is_call_exit, "call_exit"),
    (is_call, "call"),
    (is_wait, "arrive"),
    (is_team, "team"),
    (is_kmp, "kmp"),
];

/// What is attached unless condition variables are left alone. Who is woken is
/// watched before who waits: a first waiter is not missed, only its waker.
const CONDVARS: [(Is, &str); 2] = [(is_cond_wake, "condvar"), (is_cond_wait, "condvar")];

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

/// The probes of one target.
#[allow(clippy::struct_excessive_bools, reason = "each is switched for itself")]
pub struct Ebpf {
    loaded: Loaded,
    pid: u32,
    /// Kept open: probes may have to be put on them again.
    files: Vec<Arc<ProbedFile>>,
    /// Those on which nothing is put, though they have something to offer.
    passed_over: Vec<Arc<ProbedFile>>,
    scope: Scope,
    generation: u16,
    /// What the map of them holds.
    kmp: Vec<sbt_common::Kmp>,
    /// Closing these detaches.
    tracepoints: Vec<OwnedFd>,
    entries: Vec<OwnedFd>,
    returns: Vec<OwnedFd>,
    /// Of condition variables.
    condvars: Vec<OwnedFd>,
    watch_condvars: bool,
    /// Of the system calls of futexes.
    futexes: Vec<OwnedFd>,
    watch_futexes: bool,
    /// Nothing is attached but what tells of the lives of threads.
    paused: bool,
    departures: bool,
    /// Whether they may be watched some time.
    may_depart: bool,
    run_offset: Option<u64>,
    placement: Placement,
    rings: Option<Rings>,
    drain: Option<JoinHandle<(Rings, Option<String>)>>,
    stopping: Arc<AtomicBool>,
    notes: Vec<String>,
}

impl Ebpf {
    /// Loads the programs for one process; nothing is attached yet but the
    /// tracepoints of its life.
    pub fn load(
        pid: u32,
        scope: Scope,
        departures: bool,
        children: bool,
    ) -> Result<Self, LoadError> {
        let mut config = loader::configure(pid, children);
        let mut loaded = match loader::load(config, ProgramKind::UprobeMulti, &PROGRAMS) {
            // A kernel before 6.6 does not know the attach type.
            Err(LoadError::Kernel { source, .. })
                if source.raw_os_error() == Some(libc::EINVAL)
                    || source.kind() == io::ErrorKind::InvalidInput =>
            {
                // Such probes are put on one process.
                config.children = 0;
                loader::load(config, ProgramKind::Uprobe, &PROGRAMS)?
            }
            other => other?,
        };
        let rings = std::mem::take(&mut loaded.rings);
        let rings = Rings::new(rings).map_err(|source| LoadError::Kernel {
            what: "mapping the ring buffers".into(),
            source,
        })?;
        let mut this = Self {
            loaded,
            pid,
            files: Vec::new(),
            passed_over: Vec::new(),
            scope,
            generation: 0,
            kmp: Vec::new(),
            tracepoints: Vec::new(),
            entries: Vec::new(),
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
            stopping: Arc::new(AtomicBool::new(false)),
            notes: Vec::new(),
        };
        this.run_offset = this.calibrate();
        if children && !this.has_children() {
            this.notes.push(
                "this kernel does not allow to follow children: the one process is watched".into(),
            );
        }
        for (program, tracepoint) in [
            ("exec", c"sched_process_exec"),
            ("fork", c"sched_process_fork"),
            ("exit", c"sched_process_exit"),
        ] {
            if program == "fork" && !this.has_children() {
                continue;
            }
            let link =
                bpf::attach_raw_tracepoint(this.loaded.program(program)?, &tracepoint.to_owned());
            match link {
                Ok(link) => this.tracepoints.push(link),
                Err(error) => this.notes.push(format!(
                    "cannot watch {program} ({error}): the end of threads is not seen"
                )),
            }
        }
        Ok(this)
    }

    /// How far the kernel's run time, as our programs compute it, is ahead of
    /// the truth: one of them runs in our own context, between two readings of
    /// our own CPU clock. The best of a few tries is right to about 1 µs.
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

    /// Puts probes on what files have to offer; those known are passed over.
    pub fn attach(&mut self, files: &[Arc<ProbedFile>]) -> anyhow::Result<()> {
        // A pthread_barrier_wait of nobody knows whom, in front of a C
        // library's own, passes the call on: to watch both would count twice.
        let is_known = |file: &ProbedFile| {
            file.points.iter().any(|point| {
                point.function == Function::BarrierWait && point.layout != layout::OPAQUE
            })
        };
        let has_known = files.iter().chain(&self.files).any(|file| is_known(file));
        for file in files {
            let mut seen = self.files.iter().chain(&self.passed_over);
            if seen.any(|known| known.id == file.id) {
                continue;
            }
            if has_known && !is_known(file) && file.has(Function::BarrierWait) {
                self.notes.push(format!(
                    "{} has a pthread_barrier_wait of its own, which is taken to call the C \
                     library's: only that is watched",
                    printable(&file.shown.to_string_lossy())
                ));
                self.passed_over.push(Arc::clone(file));
                continue;
            }
            self.files.push(Arc::clone(file));
            self.learn_ways(file)?;
            if self.paused {
                continue;
            }
            self.attach_file(file)
                .with_context(|| format!("probing {}", file.shown.display()))?;
        }
        Ok(())
    }

    /// Hands the ways to teams that a file's probes need to their program.
    fn learn_ways(&mut self, file: &ProbedFile) -> anyhow::Result<()> {
        for point in &file.points {
            let Function::Kmp(place) = point.function else {
                continue;
            };
            // Beyond the map the program finds none, and does nothing.
            if self.way(&place.way).is_none() && self.kmp.len() < MAX_KMP as usize {
                self.kmp.push(place.way);
                let index = u16::try_from(self.kmp.len() - 1)?;
                self.loaded
                    .set_kmp(index, place.way)
                    .context("telling the probes where LLVM's OpenMP keeps its teams")?;
            }
        }
        Ok(())
    }

    /// The number of a way in the map.
    fn way(&self, way: &sbt_common::Kmp) -> Option<u16> {
        let index = self.kmp.iter().position(|known| known == way)?;
        u16::try_from(index).ok()
    }

    fn attach_file(&mut self, file: &ProbedFile) -> anyhow::Result<()> {
        let path = CString::new(file.open_path().into_os_string().into_encoded_bytes())
            .context("a path with a NUL in it")?;
        // What invalidates a reading is watched before what relies on it.
        for (is, program) in ATTACHED {
            let points = self.points(file, is, At::Entry);
            let links = self.attach_points(program, &path, &points, false)?;
            self.entries.extend(links);
        }
        if self.generation == 0 {
            let watched = file
                .points
                .iter()
                .filter(|point| !is_mapped(point.function) && !is_init(point.function));
            self.placement.probes += watched.clone().count();
            // The first instruction is not emulated where another was found.
            let slow =
                |point: &&Point| !point.entry_emulated || self.entry(point).0 != point.entry_offset;
            self.placement.slow += watched.filter(slow).count();
        }
        if self.departures {
            self.attach_returns(file)?;
        }
        if self.watch_condvars {
            self.attach_condvars(file)?;
        }
        Ok(())
    }

    fn attach_condvars(&mut self, file: &ProbedFile) -> anyhow::Result<()> {
        let path = CString::new(file.open_path().into_os_string().into_encoded_bytes())
            .context("a path with a NUL in it")?;
        for (is, program) in CONDVARS {
            let points = self.points(file, is, At::Entry);
            let links = self.attach_points(program, &path, &points, false)?;
            self.condvars.extend(links);
        }
        Ok(())
    }

    fn attach_returns(&mut self, file: &ProbedFile) -> anyhow::Result<()> {
        let path = CString::new(file.open_path().into_os_string().into_encoded_bytes())
            .context("a path with a NUL in it")?;
        let points = self.points(file, is_left, At::Return);
        let links = self.attach_points("depart", &path, &points, true)?;
        self.returns.extend(links);
        Ok(())
    }

    fn points(&self, file: &ProbedFile, is: Is, at: At) -> Vec<ProbePoint> {
        let points = file.points.iter();
        points
            .filter(|point| is(point.function))
            .map(|point| {
                let (entry_offset, stack_moved) = self.entry(point);
                ProbePoint {
                    offset: match at {
                        At::Entry => entry_offset,
                        At::Return => point.return_offset,
                    },
                    cookie: self.cookie(point, stack_moved),
                }
            })
            .collect()
    }

    /// Where the probe of a call goes, and how far the stack has moved there. A
    /// return probe puts an address of its own in the place of the caller's:
    /// behind it the caller could not be read any more, at the same place it can.
    fn entry(&self, point: &Point) -> (u64, u16) {
        let returns = is_wait(point.function) && self.may_depart;
        if returns && point.stack_moved > 0 {
            (point.return_offset, 0)
        } else {
            (point.entry_offset, point.stack_moved)
        }
    }

    fn cookie(&self, point: &Point, stack_moved: u16) -> u64 {
        let generation = self.generation;
        let cookie = Cookie {
            layout: point.layout,
            object: 0,
            count: 0,
            stack_moved,
            displacement: 0,
            generation,
        };
        match point.function {
            Function::Mark(mark) => MarkCookie { mark, generation }.pack(),
            Function::Call { object, count } => Cookie {
                layout: point.layout,
                object,
                count,
                ..cookie
            }
            .pack(),
            Function::Team(team) => team.cookie(cookie).pack(),
            Function::CondWait => Cookie {
                layout: kind::WAIT,
                ..cookie
            }
            .pack(),
            Function::CondWake { most } => Cookie {
                layout: kind::WAKE,
                count: most,
                ..cookie
            }
            .pack(),
            Function::Kmp(place) => Cookie {
                object: place.register,
                count: if place.from_frame { kmp::FRAME } else { 0 }
                    | if place.passes { kmp::PASSES } else { 0 },
                displacement: self.way(&place.way).unwrap_or(u16::MAX),
                ..cookie
            }
            .pack(),
            _ => cookie.pack(),
        }
    }

    /// Whether the target's children are watched too.
    pub const fn has_children(&self) -> bool {
        self.loaded.config.children != 0
    }

    /// Whom the probes are on.
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// Watches a child of the target that runs already, as the kernel's first pid
    /// namespace numbers it.
    pub fn follow(&self, process: u32) -> io::Result<()> {
        self.loaded.follow(process)
    }

    /// The target has a first child: its probes must be on others too.
    pub fn widen_for_children(&mut self) -> anyhow::Result<()> {
        if self.scope == Scope::Everyone {
            return Ok(());
        }
        self.scope = Scope::Everyone;
        self.renew()?;
        self.notes.push(
            "the program started a process, which was not expected of it: the probes came on that \
             one a moment after its start"
                .into(),
        );
        Ok(())
    }

    /// Goes over to probes for everyone.
    pub fn widen(&mut self) -> anyhow::Result<()> {
        if self.scope == Scope::Everyone {
            return Ok(());
        }
        self.scope = Scope::Everyone;
        self.renew()?;
        self.notes.push(
            "the target's first thread ended before the others: from then on every process that \
             uses the same C library paid for the probes"
                .into(),
        );
        Ok(())
    }

    /// Puts a second set of probes on, lets it take over, and takes the first
    /// one off: nothing is missed or counted twice.
    pub fn renew(&mut self) -> anyhow::Result<()> {
        let old = self.take_links();
        if !self.paused {
            self.attach_again()?;
        }
        detach(old);
        Ok(())
    }

    /// Puts another set of probes on, which counts in the place of any before.
    fn attach_again(&mut self) -> anyhow::Result<()> {
        self.generation = self.generation.wrapping_add(1);
        for file in self.files.clone() {
            self.attach_file(&file)?;
        }
        self.loaded
            .set_generation(self.generation)
            .context("switching to another set of probes")
    }

    /// Takes the probes off the target: it is as without us. What tells of the
    /// lives of threads stays.
    pub fn pause(&mut self) {
        self.paused = true;
        let mut links = self.take_links();
        links.append(&mut self.futexes);
        detach(links);
    }

    /// Of all probes on the target.
    fn take_links(&mut self) -> Vec<OwnedFd> {
        let mut links = std::mem::take(&mut self.entries);
        links.append(&mut self.returns);
        links.append(&mut self.condvars);
        links
    }

    /// Puts the probes of condition variables on, or takes them off.
    pub fn set_condvars(&mut self, on: bool) -> anyhow::Result<()> {
        if on == self.watch_condvars {
            return Ok(());
        }
        self.watch_condvars = on;
        if self.paused {
            // With the others, when they come.
        } else if on {
            for file in self.files.clone() {
                self.attach_condvars(&file)?;
            }
        } else {
            detach(std::mem::take(&mut self.condvars));
        }
        Ok(())
    }

    /// Starts or stops to watch the system calls of futexes. While they are, the
    /// programs run at each system call of every process.
    pub fn set_futexes(&mut self, on: bool) -> anyhow::Result<()> {
        if on == self.watch_futexes {
            return Ok(());
        }
        if self.paused {
            // With the others, when they come.
        } else if on {
            self.attach_futexes()?;
        } else {
            detach(std::mem::take(&mut self.futexes));
        }
        self.watch_futexes = on;
        Ok(())
    }

    fn attach_futexes(&mut self) -> anyhow::Result<()> {
        self.loaded
            .begin_futexes()
            .context("telling the programs since when futexes are watched")?;
        // Who waited when they came off has not been seen to go on.
        self.clear_locks(None).context("forgetting locks")?;
        // The end of a wait is seen before its beginning is.
        for tracepoint in [c"sys_exit", c"sys_enter"] {
            let program = self.loaded.program(tracepoint.to_str()?)?;
            let link = bpf::attach_raw_tracepoint(program, &tracepoint.to_owned())
                .context("cannot watch the system calls of futexes; --futex off does without")?;
            self.futexes.push(link);
        }
        Ok(())
    }

    /// The futexes on which threads have waited, and how many waits are in none of
    /// them for want of room.
    pub fn locks(&self) -> io::Result<(Vec<(Futex, Lock)>, u64)> {
        self.loaded.locks()
    }

    /// Begins to count those waits anew, all or those of a process.
    pub fn clear_locks(&self, process: Option<u32>) -> io::Result<()> {
        self.loaded.clear_locks(process)
    }

    /// Lets a condition variable or a futex pass unseen until a time, ns.
    pub fn silence(&self, key: u64, until_ns: u64) -> io::Result<()> {
        if !self.has_children() {
            return self.loaded.silence(key, until_ns);
        }
        // The programs know it by its process too; those of children stay.
        if space(key) != 0 {
            return Ok(());
        }
        let key = key ^ u64::from(self.pid) << sbt_common::PROCESS_SHIFT;
        self.loaded.silence(key, until_ns)
    }

    /// How many uses of condition variables have passed so.
    pub fn passed(&self) -> u64 {
        self.loaded.passed().unwrap_or(0)
    }

    /// Puts them on again. What is known of barriers is from before.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.paused = false;
        self.attach_again()?;
        if self.watch_futexes {
            self.attach_futexes()?;
        }
        Ok(())
    }

    fn attach_points(
        &self,
        program: &str,
        path: &CString,
        points: &[ProbePoint],
        returns: bool,
    ) -> anyhow::Result<Vec<OwnedFd>> {
        if points.is_empty() {
            return Ok(Vec::new());
        }
        let program = self.loaded.program(program)?;
        match self.loaded.uprobes {
            ProgramKind::UprobeMulti => {
                let pid = match self.scope {
                    Scope::Target => self.pid,
                    Scope::Everyone => 0,
                };
                let link = bpf::attach_uprobe_multi(program, path, points, returns, pid)?;
                Ok(vec![link])
            }
            _ => points
                .iter()
                .map(|point| perf_uprobe::attach(program, path, *point, returns, self.pid))
                .collect::<io::Result<Vec<_>>>()
                .map(|links| links.into_iter().flatten().collect())
                .map_err(Into::into),
        }
    }

    /// Adds rules by which callers of callers are found, and takes others away.
    /// What is remembered of return addresses is forgotten, even if there are none.
    pub fn learn(&mut self, changes: &[(Code, Option<Rule>)]) -> anyhow::Result<()> {
        self.loaded
            .change_rules(changes)
            .context("storing how to find the callers of functions")
    }

    /// Starts or stops to report departures.
    pub fn set_departures(&mut self, on: bool) -> anyhow::Result<()> {
        if on == self.departures {
            return Ok(());
        }
        if self.paused {
            // With the others, when they come.
        } else if on {
            for file in self.files.clone() {
                self.attach_returns(&file)?;
            }
        } else {
            detach(std::mem::take(&mut self.returns));
        }
        self.departures = on;
        Ok(())
    }

    /// Where the probes lie.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Begins to hand events over. `baselines`: what the threads that exist
    /// have used so far.
    pub fn start(&mut self, sink: Sink, time_ns: u64, baselines: Baselines) -> anyhow::Result<()> {
        let rings = self.rings.take().context("started twice")?;
        let start = Start {
            time_ns,
            run_offset: self.run_offset,
            baselines,
            pid: self.pid,
            shared: self.has_children().then_some(process::memory_at),
        };
        let stopping = Arc::clone(&self.stopping);
        self.drain = Some(
            std::thread::Builder::new()
                .name("sbt-drain".into())
                .spawn(move || drain::run(rings, start, &sink, &stopping))
                .context("starting the thread that reads the ring buffers")?,
        );
        Ok(())
    }

    /// Records lost for want of room so far.
    pub fn lost(&self) -> u64 {
        self.loaded.lost().unwrap_or(0)
    }
}

/// Closes links. Each waits until no CPU can be in its program any more, which
/// takes tens of milliseconds; so they all wait at once.
fn detach(links: Vec<OwnedFd>) {
    std::thread::scope(|scope| {
        for link in links {
            scope.spawn(move || drop(link));
        }
    });
}

impl Source for Ebpf {
    fn name(&self) -> &'static str {
        "ebpf"
    }

    fn method(&self) -> String {
        match self.loaded.uprobes {
            ProgramKind::UprobeMulti => "uprobe_multi".into(),
            _ => "perf uprobes".into(),
        }
    }

    fn stop(&mut self) -> anyhow::Result<Totals> {
        let mut links = self.take_links();
        links.append(&mut self.futexes);
        links.append(&mut self.tracepoints);
        detach(links);
        self.stopping.store(true, Ordering::Release);
        let mut unreadable = 0;
        if let Some(drain) = self.drain.take() {
            let (rings, note) = drain
                .join()
                .map_err(|_| anyhow::anyhow!("the thread that reads the ring buffers failed"))?;
            unreadable = rings.unreadable();
            self.notes.extend(note);
        }
        let mut notes = std::mem::take(&mut self.notes);
        if self.placement.slow > 0 {
            notes.push(format!(
                "{} of {} probes stand on an instruction that the kernel must \
                 single-step: each hit there costs several times as much",
                self.placement.slow, self.placement.probes
            ));
        }
        if self.run_offset.is_none() {
            notes.push("this kernel does not tell how long threads ran: no run times".into());
        }
        Ok(Totals {
            lost: self.loaded.lost().context("reading the loss counter")? + unreadable,
            notes,
        })
    }
}
