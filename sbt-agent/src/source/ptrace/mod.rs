//! The ptrace backend: breakpoints at which the target's threads stop, as under a debugger. The
//! last of the backends to be tried; it needs no privilege, as long as the processes are the user's
//! own.
//!
//! A separate process (`tracer.rs`) sets and serves the breakpoints. It reports what happens in the
//! records of the BPF programs. Two things differ: futexes are not seen, and a stop costs at least
//! ten times what a probe does.

use std::{
    fs::File,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::ExitStatusExt as _},
    },
    process::Child,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use sbt_common::{Code, Kmp, Rule};

mod calibrate;
pub(super) mod clocks;
mod closed;
mod counters;
mod drain;
mod foreign;
pub(super) mod gap;
pub(super) mod inject;
pub(super) mod mapped;
mod space;
mod standing;
pub(super) mod stop;
mod tracer;
mod wire;
mod witness;

#[cfg(test)]
mod tests;

pub use tracer::run as trace;

use wire::{Answer, Bytes, Done, Line, Order, Watched};

use super::{
    Baselines, Files, Measurement, Sink, Source, Totals,
    abilities::{Callers, Choosing, Condvars, Departures},
    helper,
    outside::Outside,
};
use crate::settings::Settings;
use crate::source::twin::places;
use sbt_engine::{
    choices::States,
    counters::{Counter, Plan},
};
use sbt_program::{
    files::ProbedFile,
    stopped::{NotStopped, Stopped, Tracer},
};

/// The argument that makes sbt the tracing process. Not a command that a user would type, nor one
/// that `pkill -f sbt` finds.
pub const ARGUMENT: &str = "__breakpoints";

/// The argument after the numbers if counters are asked for.
const COUNTS: &str = "counts";

/// The ptrace source of one target.
pub struct Ptrace {
    outside: Outside,
    child: Child,
    line: Arc<Mutex<Line>>,
    pipe: Option<File>,
    files: Files,
    ways: Vec<Kmp>,
}

/// The tracing process, before it is told what to trace.
pub struct Process {
    child: Child,
    line: Line,
    pipe: File,
}

impl Process {
    /// Starts the tracing process for a target. Must be called before sbt gives its privileges up:
    /// the tracing process does that for itself.
    pub fn start(target: u32, settings: &Settings) -> anyhow::Result<Self> {
        let (ours, theirs) = UnixStream::pair().context("cannot make a socket")?;
        let (read, write) = std::io::pipe().context("cannot make a pipe")?;
        let counts = if settings.events.is_empty() {
            ""
        } else {
            COUNTS
        };
        let arguments = [
            std::process::id().to_string(),
            target.to_string(),
            counts.to_owned(),
        ];
        let child = helper::start(ARGUMENT, &arguments, theirs.into(), Some(write.into()))
            .context("cannot start the tracing process")?;
        Ok(Self {
            child,
            line: Line::new(ours)?,
            pipe: File::from(OwnedFd::from(read)),
        })
    }
}

impl Ptrace {
    /// Traces a process. `runs`: whether the process runs its own program already.
    ///
    /// # Errors
    /// The process may not be traced: the error says why, and what would help.
    pub fn begin(
        Process { child, line, pipe }: Process,
        pid: u32,
        runs: bool,
        departures: bool,
        children: bool,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let mut this = Self {
            outside: Outside::new(pid, children, settings),
            child,
            line: Arc::new(Mutex::new(line)),
            pipe: Some(pipe),
            files: Files::default(),
            ways: Vec::new(),
        };
        let (plan, uncounted) = counters::plan(&settings.events);
        this.outside.counters = plan.clone();
        this.outside.notes.extend(uncounted);
        let done = this.order(&Order::Seize {
            pid,
            runs,
            children,
            departures,
            counters: plan,
        });
        let done = done.map_err(|error| super::refused::explain(pid, &error))?;
        let unknown = || "sbt could not measure the cost of a breakpoint".into();
        this.outside.costs(done.hit_ns.ok_or_else(unknown));
        Ok(this)
    }

    fn order(&mut self, order: &Order) -> anyhow::Result<Done> {
        let mut done = ordered(&self.line, order)?;
        self.outside.notes.append(&mut done.notes);
        Ok(done)
    }

    fn say(&mut self, order: &Order) -> anyhow::Result<()> {
        self.order(order).map(drop)
    }

    /// The file and the places to watch in it, for the tracing process.
    fn watched(&mut self, file: &ProbedFile) -> Watched {
        let ways = &mut self.ways;
        let places = file.points.iter().flat_map(|point| places(point, ways));
        Watched {
            device: file.id.device,
            inode: file.id.inode,
            places: places.collect(),
        }
    }
}

impl Source for Ptrace {
    fn name(&self) -> &'static str {
        "ptrace"
    }

    fn method(&self) -> String {
        "breakpoints".into()
    }

    fn ended_by_itself(&self) -> &'static str {
        "sbt's tracing process (\"breakpoints\") has ended, probably killed: sbt did not see what \
         happened since, and the program may die at a remaining breakpoint (SIGTRAP); start the \
         program again, and end sbt, not its tracing process"
    }

    fn traces_the_start(&self) -> bool {
        true
    }

    fn start(&mut self, sink: Sink, time_ns: u64, baselines: Baselines) -> anyhow::Result<()> {
        let pipe = self.pipe.take().context("started twice")?;
        let start = self.outside.start(time_ns, baselines);
        let lost = Arc::clone(&self.outside.lost);
        self.outside
            .drain(move || drain::run(pipe, start, &sink, &lost))
    }

    fn stop(&mut self) -> anyhow::Result<Totals> {
        // Closed first, as in `drop`: the tracing process must not wait for a reader.
        self.pipe = None;
        let let_go = self.say(&Order::Detach);
        self.outside.end()?;
        let status = self.child.wait();
        if let Err(error) = let_go {
            let is_killed = status.is_ok_and(|status| status.signal().is_some());
            self.outside.notes.push(if is_killed {
                self.ended_by_itself().into()
            } else {
                format!("{error:#}: the program may have been harmed")
            });
        }
        Ok(self.outside.totals())
    }

    fn lost(&self) -> u64 {
        self.outside.lost()
    }

    fn attach(&mut self, files: &[Arc<ProbedFile>]) -> anyhow::Result<()> {
        let (new, notes) = self.files.take(files);
        self.outside.notes.extend(notes);
        if new.is_empty() {
            return Ok(());
        }
        let files = new.iter().map(|file| self.watched(file)).collect();
        let ways = self.ways.iter().copied().map(Bytes).collect();
        self.say(&Order::Watch { files, ways })
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
        self.say(&Order::Seize {
            pid: process,
            runs: true,
            children: self.outside.children,
            departures: false,
            counters: Plan::default(),
        })
    }

    fn pause(&mut self) {
        if let Err(error) = self.say(&Order::Pause) {
            self.outside.notes.push(format!("{error:#}"));
        }
    }

    fn resume(&mut self) -> anyhow::Result<()> {
        self.say(&Order::Resume)
    }

    fn tracer(&self) -> Option<Arc<dyn Tracer>> {
        Some(Arc::new(Stopper {
            process: self.child.id(),
            line: Arc::clone(&self.line),
        }))
    }

    fn departures(&mut self) -> Option<&mut dyn Departures> {
        Some(self)
    }

    fn condvars(&mut self) -> Option<&mut dyn Condvars> {
        Some(self)
    }

    fn callers(&mut self) -> Option<&mut dyn Callers> {
        Some(self)
    }

    fn choosing(&mut self) -> Option<&mut dyn Choosing> {
        Some(self)
    }
}

impl Departures for Ptrace {
    fn set_departures(&mut self, on: bool) -> anyhow::Result<()> {
        self.say(&Order::Departures(on))
    }
}

impl Condvars for Ptrace {
    fn set_condvars(&mut self, on: bool) -> anyhow::Result<()> {
        self.say(&Order::Condvars(on))
    }
}

impl Callers for Ptrace {
    fn learn(&mut self, changes: &[(Code, Option<Rule>)]) -> anyhow::Result<()> {
        let lessons = changes
            .iter()
            .map(|(code, rule)| (Bytes(*code), rule.map(Bytes)))
            .collect();
        self.say(&Order::Learn(lessons))
    }
}

impl Choosing for Ptrace {
    fn choose(&mut self, counters: &[Counter]) -> anyhow::Result<Vec<String>> {
        let notes = counters::choose(&mut self.outside.counters, counters);
        self.say(&Order::Count(self.outside.counters.clone()))?;
        self.outside.chosen.put(self.outside.counters.clone());
        Ok(notes)
    }
}

impl Drop for Ptrace {
    fn drop(&mut self) {
        // If nothing was started, nobody reads the records: the tracing process must not wait for a
        // reader.
        self.pipe = None;
        // Not stopped in order: the tracing process notices that its socket is closed.
        let line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let _gone = line.socket().shutdown(std::net::Shutdown::Both);
        drop(line);
        let _status = self.child.wait();
    }
}

/// Gives the tracing process an order, and returns its answer.
fn ordered(line: &Mutex<Line>, order: &Order) -> anyhow::Result<Done> {
    let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
    line.say(order).context("the tracing process has gone")?;
    let answer: Option<Answer> = line.hear().context("the tracing process")?;
    let answer = answer.context("the tracing process has gone")?;
    answer.map_err(anyhow::Error::msg)
}

/// Lets the tracing process stop a thread.
struct Stopper {
    process: u32,
    line: Arc<Mutex<Line>>,
}

impl Tracer for Stopper {
    fn process(&self) -> u32 {
        self.process
    }

    fn stop(&self, thread: u32) -> Result<Stopped, NotStopped> {
        // Without the tracing process none is stopped.
        let done = ordered(&self.line, &Order::Look(thread)).unwrap_or_default();
        let stood = done.stood.unwrap_or(Err(NotStopped::Refused))?;
        stood.read().ok_or(NotStopped::Refused)
    }
}
