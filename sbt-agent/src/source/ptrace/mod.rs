//! Breakpoints at which the target's threads stop, as under a debugger: the last rung of the
//! ladder, which needs no privilege beyond that the processes are the user's own.
//!
//! The breakpoints are set and served by a process of its own (`tracer.rs`), which says what
//! happened in the records of the kernel's programs. What is different from those: futexes
//! are not seen, and a stop costs ten times what a probe does and more.

use std::{
    fs::File,
    io::{self, Read as _},
    os::{
        fd::OwnedFd,
        unix::{
            net::UnixStream,
            process::{CommandExt as _, ExitStatusExt as _},
        },
    },
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use sbt_common::{Code, Kmp, Rule};

mod calibrate;
pub(super) mod clocks;
mod closed;
mod counters;
mod displaced;
mod foreign;
mod gap;
mod inject;
mod mapped;
mod space;
mod standing;
pub(super) mod stop;
mod tracer;
mod wire;
mod witness;

#[cfg(test)]
mod tests;

pub use tracer::run as trace;

use wire::{Answer, Done, Lesson, Line, Order, Watched};

use super::{
    BATCH, Baselines, Batch, Files, Measurement, Sink, Source, Totals,
    ebpf::{
        decode::{Decoder, Start},
        drain::hand_over,
        raw::Raw,
    },
    outside::{Outside, set_futexes},
};
use crate::settings::Settings;
use crate::source::twin::{self, places};
use sbt_engine::{
    choices::States,
    counters::{Counter, Plan},
};
use sbt_program::{access::rights, files::ProbedFile};

/// What sbt is called with to be the process that traces: no command that a user would type, nor
/// find if they look for sbt (`pkill -f`).
pub const ARGUMENT: &str = "__breakpoints";

/// The word behind the numbers if counters are asked for.
const COUNTS: &str = "counts";

/// Records are taken together for so long: who reads them need not be woken for each.
const TOGETHER: Duration = Duration::from_millis(10);

/// The breakpoints of one target.
pub struct Ptrace {
    outside: Outside,
    child: Child,
    line: Mutex<Line>,
    pipe: Option<File>,
    files: Files,
    ways: Vec<Kmp>,
}

/// The process that traces, before it knows whom.
pub struct Process {
    child: Child,
    line: Line,
    pipe: File,
}

impl Process {
    /// Starts it, for a target. Before sbt gives its privileges up: it does that for itself.
    pub fn start(target: u32, settings: &Settings) -> anyhow::Result<Self> {
        let (ours, theirs) = UnixStream::pair().context("cannot make a socket")?;
        let (read, write) = std::io::pipe().context("cannot make a pipe")?;
        let counts = if settings.events.is_empty() {
            ""
        } else {
            COUNTS
        };
        let mut command = Command::new("/proc/self/exe");
        command
            .arg(ARGUMENT)
            .args([std::process::id(), target].map(|number| number.to_string()))
            .arg(counts)
            .stdin(OwnedFd::from(theirs))
            .stdout(OwnedFd::from(write))
            .stderr(Stdio::null())
            // What is typed at the terminal is not meant for it.
            .process_group(0);
        // Of a thread of its own, since nothing of what it hands on comes back.
        let starting = std::thread::Builder::new().spawn(move || {
            rights::hand_on();
            command.spawn()
        });
        let child = starting
            .and_then(|thread| thread.join().unwrap_or(Err(io::ErrorKind::Other.into())))
            .context("cannot start the process that traces")?;
        Ok(Self {
            child,
            line: Line::new(ours)?,
            pipe: File::from(OwnedFd::from(read)),
        })
    }
}

impl Ptrace {
    /// Traces a process. `runs`: it runs its own program already.
    ///
    /// # Errors
    /// It may not be traced: the line says why, and what would help.
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
            line: Mutex::new(line),
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
        let unknown = || "a breakpoint of our own could not be measured".into();
        this.outside.costs(done.hit_ns.ok_or_else(unknown));
        Ok(this)
    }

    fn order(&mut self, order: &Order) -> anyhow::Result<Done> {
        let line = self.line.get_mut().unwrap_or_else(PoisonError::into_inner);
        line.say(order)
            .context("the process that traces has gone")?;
        let answer: Option<Answer> = line.hear().context("the process that traces")?;
        let answer = answer.context("the process that traces has gone")?;
        let mut done = answer.map_err(anyhow::Error::msg)?;
        self.outside.notes.append(&mut done.notes);
        Ok(done)
    }

    fn say(&mut self, order: &Order) -> anyhow::Result<()> {
        self.order(order).map(drop)
    }

    /// Where a file is watched.
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
        "the process that traces (\"breakpoints\") has ended, most likely since somebody killed it: \
         what happened since was not seen, and the program may come to a breakpoint that nobody \
         serves, of which it dies (SIGTRAP); start it again, and end sbt instead"
    }

    fn traces_the_start(&self) -> bool {
        true
    }

    fn start(&mut self, sink: Sink, time_ns: u64, baselines: Baselines) -> anyhow::Result<()> {
        let pipe = self.pipe.take().context("started twice")?;
        let start = self.outside.start(time_ns, baselines);
        let lost = Arc::clone(&self.outside.lost);
        self.outside.drain(move || drain(pipe, start, &sink, &lost))
    }

    fn stop(&mut self) -> anyhow::Result<Totals> {
        // As below, where the source is dropped.
        self.pipe = None;
        let let_go = self.say(&Order::Detach);
        self.outside.end()?;
        let status = self.child.wait();
        if let Err(error) = let_go {
            let is_killed = status.is_ok_and(|status| status.signal().is_some());
            self.outside.notes.push(if is_killed {
                self.ended_by_itself().into()
            } else {
                format!("{error:#}: the target may have been harmed")
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
        let ways = self.ways.iter().map(Into::into).collect();
        self.say(&Order::Watch { files, ways })
    }

    fn learn(&mut self, changes: &[(Code, Option<Rule>)]) -> anyhow::Result<()> {
        let lessons = changes
            .iter()
            .map(|(code, rule)| Lesson::new(code, rule.as_ref()))
            .collect();
        self.say(&Order::Learn(lessons))
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

    fn choose(&mut self, counters: &[Counter]) -> anyhow::Result<Vec<String>> {
        let notes = counters::choose(&mut self.outside.counters, counters);
        self.say(&Order::Count(self.outside.counters.clone()))?;
        self.outside.chosen.put(self.outside.counters.clone());
        Ok(notes)
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

    fn set_departures(&mut self, on: bool) -> anyhow::Result<()> {
        self.say(&Order::Departures(on))
    }

    fn set_condvars(&mut self, on: bool) -> anyhow::Result<()> {
        self.say(&Order::Condvars(on))
    }

    fn set_futexes(&mut self, on: bool) -> anyhow::Result<()> {
        set_futexes(on)
    }

    fn pause(&mut self) {
        if let Err(error) = self.say(&Order::Pause) {
            self.outside.notes.push(format!("{error:#}"));
        }
    }

    fn resume(&mut self) -> anyhow::Result<()> {
        self.say(&Order::Resume)
    }
}

impl Drop for Ptrace {
    fn drop(&mut self) {
        // If nothing has been started, nobody reads the records: the process that traces must not
        // wait until somebody does.
        self.pipe = None;
        // Not stopped in order: it notices that nobody speaks to it any more.
        if let Ok(line) = self.line.get_mut() {
            let _gone = line.socket().shutdown(std::net::Shutdown::Both);
        }
        let _status = self.child.wait();
    }
}

/// Reads records until the other end is closed; what the user should know.
fn drain(mut pipe: File, start: Start, sink: &Sink, lost: &AtomicU64) -> Option<String> {
    let mut decoder = Decoder::new(start);
    let mut bytes = Vec::new();
    let mut room = vec![0; 1 << 18];
    let mut batch = Batch::new();
    let mut failed = None;
    loop {
        let count = match pipe.read(&mut room) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                failed = Some(format!("events could not be read any longer: {error}"));
                break;
            }
        };
        let is_last = count == 0;
        bytes.extend_from_slice(&room[..count]);
        decoder.choose(sbt_program::clock::now_ns());
        let taken = twin::each(&bytes, |record| {
            if let Ok(number) = <[u8; 8]>::try_from(record) {
                lost.store(u64::from_ne_bytes(number), Ordering::Relaxed);
            } else if let Some(raw) = Raw::parse(record) {
                decoder.decode(&raw, &mut batch);
            }
            if batch.len() >= BATCH {
                hand_over(sink, &mut batch, false);
            }
        });
        bytes.drain(..taken);
        hand_over(sink, &mut batch, is_last);
        if is_last {
            break;
        }
        std::thread::sleep(TOGETHER);
    }
    hand_over(sink, &mut batch, true);
    failed.or_else(|| decoder.note())
}
