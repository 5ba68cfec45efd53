//! Uprobes in the target, read through ring buffers.

use std::{
    collections::HashSet,
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
use sbt_common::{Cookie, kind};

pub mod bpf;
pub mod btf;
pub mod decode;
pub mod drain;
pub mod loader;
pub mod perf_uprobe;
pub mod ring;

use bpf::{ProbePoint, ProgramKind};
use decode::{Baselines, Raw, Start};
use loader::{LoadError, Loaded};
use ring::Rings;

use super::{Sink, Source, Totals};
use crate::{
    clock,
    target::{
        elf::{Function, Point},
        files::{FileId, ProbedFile},
    },
};

/// How many of a file's points lie where the kernel has to single-step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Arrival probes attached.
    pub arrivals: usize,
    /// Those of them that cost a single step each time.
    pub slow: usize,
}

/// The programs that watching uses; the object has more, for benchmarks.
pub const PROGRAMS: [&str; 7] = [
    "arrive",
    "depart",
    "init",
    "mapped",
    "exec",
    "exit",
    "calibrate",
];

/// The probes of one target.
pub struct Ebpf {
    loaded: Loaded,
    pid: u32,
    attached: HashSet<FileId>,
    /// Closing these detaches: entries, and apart from them the returns.
    links: Vec<OwnedFd>,
    return_links: Vec<OwnedFd>,
    return_points: Vec<(CString, Vec<ProbePoint>)>,
    departures: bool,
    run_offset: Option<u64>,
    placement: Placement,
    rings: Option<Rings>,
    drain: Option<JoinHandle<Rings>>,
    stopping: Arc<AtomicBool>,
    notes: Vec<String>,
}

impl Ebpf {
    /// Loads the programs for one process; nothing is attached yet but the
    /// tracepoints of its life.
    pub fn load(pid: u32, departures: bool) -> Result<Self, LoadError> {
        let config = loader::configure(pid);
        let mut loaded = match loader::load(config, ProgramKind::UprobeMulti, &PROGRAMS) {
            // A kernel before 6.6 does not know the attach type.
            Err(LoadError::Kernel { source, .. })
                if source.raw_os_error() == Some(libc::EINVAL)
                    || source.kind() == io::ErrorKind::InvalidInput =>
            {
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
            attached: HashSet::new(),
            links: Vec::new(),
            return_links: Vec::new(),
            return_points: Vec::new(),
            departures,
            run_offset: None,
            placement: Placement::default(),
            rings: Some(rings),
            drain: None,
            stopping: Arc::new(AtomicBool::new(false)),
            notes: Vec::new(),
        };
        this.run_offset = this.calibrate();
        for (program, tracepoint) in [
            ("exec", c"sched_process_exec"),
            ("exit", c"sched_process_exit"),
        ] {
            let link =
                bpf::attach_raw_tracepoint(this.loaded.program(program)?, &tracepoint.to_owned());
            match link {
                Ok(link) => this.links.push(link),
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

    /// Puts probes on what a file has to offer. A file that is known already
    /// is passed over.
    pub fn attach(&mut self, file: &ProbedFile) -> anyhow::Result<()> {
        if !self.attached.insert(file.id) {
            return Ok(());
        }
        let path = CString::new(file.open_path().into_os_string().into_encoded_bytes())
            .context("a path with a NUL in it")?;
        let entries = |function: Function| -> Vec<ProbePoint> {
            file.points
                .iter()
                .filter(|point| point.function == function)
                .map(|point| ProbePoint {
                    offset: point.entry_offset,
                    cookie: cookie(point),
                })
                .collect()
        };
        // What invalidates a reading is watched before what relies on it.
        for (function, program) in [
            (Function::LinkerMapped, "mapped"),
            (Function::BarrierInit, "init"),
            (Function::BarrierWait, "arrive"),
        ] {
            let links = self
                .attach_points(program, &path, &entries(function), false)
                .with_context(|| format!("probing {}", file.shown.display()))?;
            self.links.extend(links);
        }
        let waits = file
            .points
            .iter()
            .filter(|point| point.function == Function::BarrierWait);
        let returns: Vec<_> = waits
            .clone()
            .map(|point| ProbePoint {
                offset: point.return_offset,
                cookie: cookie(point),
            })
            .collect();
        self.placement.arrivals += returns.len();
        self.placement.slow += waits.filter(|point| !point.entry_emulated).count();
        if self.departures {
            let links = self.attach_points("depart", &path, &returns, true)?;
            self.return_links.extend(links);
        }
        self.return_points.push((path, returns));
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
                let link = bpf::attach_uprobe_multi(program, path, points, returns, self.pid)?;
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

    /// Starts or stops to report departures.
    pub fn set_departures(&mut self, on: bool) -> anyhow::Result<()> {
        if on == self.departures {
            return Ok(());
        }
        if on {
            for (path, points) in &self.return_points {
                let links = self.attach_points("depart", path, points, true)?;
                self.return_links.extend(links);
            }
        } else {
            detach(std::mem::take(&mut self.return_links));
        }
        self.departures = on;
        Ok(())
    }

    /// Whether any barrier function is being watched.
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

fn cookie(point: &Point) -> u64 {
    Cookie {
        layout: point.layout,
        stack_moved: point.stack_moved,
    }
    .pack()
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
        let mut links = std::mem::take(&mut self.links);
        links.append(&mut self.return_links);
        detach(links);
        self.stopping.store(true, Ordering::Release);
        let mut unreadable = 0;
        if let Some(drain) = self.drain.take() {
            let rings = drain
                .join()
                .map_err(|_| anyhow::anyhow!("the thread that reads the ring buffers failed"))?;
            unreadable = rings.unreadable();
        }
        let mut notes = std::mem::take(&mut self.notes);
        if self.placement.slow > 0 {
            notes.push(format!(
                "{} of {} barrier functions begin with an instruction that the kernel must \
                 single-step: each arrival there costs several times as much",
                self.placement.slow, self.placement.arrivals
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
