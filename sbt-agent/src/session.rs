//! One run from start to report: connects target, source, model and report.

use crate::{
    kernel::privilege,
    record::Sink,
    screen::Look,
    settings::Settings,
    source::{Batch, QUEUE, Source, Totals},
    terminal::{Relay, Terminal},
};
use sbt_engine::{
    choices::{Departures, States},
    counters::Plan,
    model::Model,
    report::Report,
};
use sbt_program::{
    access::Invoker,
    clock,
    cpus::Cpus,
    launch::{self, Held, Running},
    process,
    pty::Pty,
    sites::Resolver,
};
use std::{collections::BTreeSet, ffi::OsString, fs::File, os::fd::OwnedFd};

use anyhow::Context as _;
use nix::sys::resource::{Resource, getrlimit};
use tokio::{io::unix::AsyncFd, sync::mpsc, task::JoinHandle};

mod budget;
mod choice;
mod cost;
mod counted;
mod counters;
mod delivery;
mod departures;
mod ending;
mod futexes;
mod hang;
mod lifetime;
mod locks;
mod narrator;
pub(crate) mod observer;
mod prepare;
mod processes;
mod recording;
mod result;
mod sampling;
mod spinning;
mod start;
mod stay;
mod stopped;
mod taking;
mod turns;
mod upkeep;
mod view;
mod wiring;
mod writer;

use crate::session::wiring::Recognition;
use crate::signals::Signals;
use cost::Cost;
use departures::Governor;
use ending::End;
use hang::Hangs;
use lifetime::Lifetime;
use locks::Locks;
pub use narrator::Narration;
use narrator::Narrator;
use prepare::Prepared;
use processes::Processes;
use recording::Recording;
use sampling::Sampling;
use spinning::Spinning;
use stopped::Stopped;
use view::View;

/// The target to watch.
#[derive(Clone, Debug)]
pub enum Target {
    /// A program that sbt starts.
    Run {
        /// The program and its arguments.
        command: Vec<OsString>,
        /// The user who runs the program; `None` for the user of sbt.
        invoker: Option<Invoker>,
        /// The command as reports show it; `None` shows `command`.
        shown: Option<Vec<String>>,
    },
    /// A process that runs already.
    Attach {
        /// The id of the process or of one of its threads.
        pid: u32,
    },
}

/// Watches a target until the target ends or a signal, the user or the time limit ends watching,
/// then delivers the report. `narration` says what happens to single episodes meanwhile;
/// `recording` is the file that keeps the events; `look` is the theme of the live screen, `None`
/// for no screen. Returns the exit status of a started program: the function waits for the
/// program's end even when watching ends earlier.
pub fn watch(
    target: &Target,
    settings: Settings,
    narration: Narration,
    recording: Option<Sink>,
    look: Option<Look>,
    deliver: impl FnOnce(&Report) -> anyhow::Result<()>,
) -> anyhow::Result<Option<u8>> {
    check_files()?;
    let settings = Settings {
        may_choose: look.is_some(),
        ..settings
    };
    let folded = sampling::prepare(&settings)?;
    let mut master = None;
    // Fork the child while sbt has only one thread.
    let prepared = match target {
        Target::Run {
            command,
            invoker,
            shown,
        } => {
            let invoker = invoker.as_ref();
            let pty = look.map(|_| Pty::open(invoker)).transpose()?.flatten();
            let prepared = Prepared::run(command, invoker, pty.as_ref(), shown.clone(), &settings)?;
            master = pty.map(Pty::into_master);
            // Drop the remaining privileges: sbt executes nothing from here on. A program that runs
            // as an ordinary user has no capabilities that sbt would need to look into it.
            let looked_into = invoker.is_none().then_some(prepared.pid);
            privilege::limit(looked_into)?;
            prepared
        }
        Target::Attach { pid } => {
            let tracer = choice::tracer(*pid, &settings)?;
            privilege::limit(Some(*pid))?;
            Prepared::attach(*pid, &settings, tracer)?
        }
    };
    let signals = Signals::block(matches!(target, Target::Run { .. }), look.is_some())
        .context("cannot set up the handling of signals")?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")?
        .block_on(async {
            // The program does not run yet. Once the program runs, no error may make sbt leave the
            // program alone.
            let terminal = master.map(Terminal::new).transpose()?;
            let mut session = Session::begin(prepared, settings, narration, signals)?;
            session.folded = folded;
            if let Some(sink) = recording {
                session.record(sink);
            }
            session.terminal = terminal;
            if let Some(look) = look
                && let Err(error) = session.open_screen(look)
            {
                if let Err(error) = session.leave_screen() {
                    session.tell(&format!("sbt: {error:#}\n"));
                }
                session.tell(&format!(
                    "sbt: cannot open the live screen: {error}; sbt watches without the screen\n"
                ));
            }
            session.run(deliver).await
        })
}

/// Open files needed to watch a small program, with some to spare. With fewer files sbt would fail
/// at various places, each with a different message.
const FEWEST_FILES: u64 = 128;

/// Checks that the limit of open files is high enough.
fn check_files() -> anyhow::Result<()> {
    let (most, _) = getrlimit(Resource::RLIMIT_NOFILE).context("cannot read a limit")?;
    anyhow::ensure!(
        most >= FEWEST_FILES,
        "the limit of open files is {most}, and sbt needs {FEWEST_FILES}: run `ulimit -n \
         {FEWEST_FILES}`"
    );
    Ok(())
}

/// The reason why watching ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The target has ended.
    Target,
    /// The time is up, or the user or a signal told sbt to end.
    Asked,
    /// The source has stopped by itself.
    Lost,
}

struct Session {
    pid: u32,
    command: Vec<String>,
    settings: Settings,
    narrator: Narrator,
    signals: Signals,
    running: Option<Running>,
    /// The terminal of the program while the live screen uses the real terminal.
    terminal: Option<Terminal>,
    /// Connects the program's terminal with the real terminal once the screen is closed.
    relay: Option<Relay>,
    view: Option<View>,
    pidfd: AsyncFd<OwnedFd>,
    source: Option<Box<dyn Source>>,
    stopping: Option<JoinHandle<anyhow::Result<Totals>>>,
    /// The name of the source.
    backend: &'static str,
    /// How the source works, for reports.
    method: String,
    counters: Plan,
    states: States,
    batches: mpsc::Receiver<Batch>,
    resolver: Resolver,
    recognition: Recognition,
    processes: Processes,
    model: Model,
    governor: Governor,
    cost: Cost,
    budget: budget::Governor,
    futexes: futexes::Governor,
    hangs: Hangs,
    stopped: Stopped,
    ended: End,
    locks: Locks,
    spinning: Spinning,
    sampling: Option<Sampling>,
    /// The file for the folded stacks of the samples.
    folded: Option<File>,
    recording: Option<Recording>,
    lifetime: Lifetime,
    start_ns: u64,
    end_ns: u64,
    exit_status: Option<u8>,
    had_children: Option<bool>,
    /// The first thread is about to end, before the other threads.
    first_ends: bool,
    children: bool,
    /// The number of CPUs that the target may use, at the last look.
    cpus: Cpus,
    interrupted: bool,
    /// The number of events lost, known when watching ended.
    lost: u64,
    /// Marks without a probe when watching ended.
    unseen_marks: BTreeSet<u8>,
    notes: Vec<String>,
}

impl Session {
    /// Starts the source and lets the target go.
    fn begin(
        prepared: Prepared,
        mut settings: Settings,
        narration: Narration,
        signals: Signals,
    ) -> anyhow::Result<Self> {
        let Prepared {
            pid,
            command,
            held,
            mut source,
            resolver,
            lines,
        } = prepared;
        let pidfd =
            launch::pidfd(pid).with_context(|| format!("process {pid} has ended already"))?;
        // SAFETY: the registered `OwnedFd` owns the descriptor, which stays the same.
        let pidfd =
            unsafe { AsyncFd::register(pidfd) }.context("cannot wait for the program's end")?;
        let (sink, batches) = mpsc::channel(QUEUE);
        let start_ns = clock::now_ns();
        source.start(sink, start_ns, process::usage(pid))?;
        if !source.has_departures() {
            settings.departures = Departures::Off;
        }
        let source_children = source.has_children();
        let runs_already = held.is_none();
        let narrator = Narrator::new(&settings, narration, start_ns);
        let mut model = Model::new(start_ns, settings.departures != Departures::Off);
        model.observe(settings.phases.len(), narrator.telling());
        let states = source.states();
        if states == States::Full {
            model.watch_switches();
        }
        let sampling = Sampling::begin(&settings, pid, source_children)?;
        let mut cpus = Cpus::default();
        cpus.look(pid);
        if let Some(sampling) = &sampling {
            model.keep_samples(sampling.period_ns(), cpus.number);
        }
        let mut session = Self {
            pid,
            command,
            signals,
            running: None,
            terminal: None,
            relay: None,
            view: None,
            pidfd,
            backend: source.name(),
            method: source.method(),
            counters: source.counters().clone(),
            states,
            source: Some(source),
            stopping: None,
            batches,
            resolver,
            recognition: Recognition::new(runs_already, start_ns),
            processes: Processes::new(pid),
            model,
            governor: Governor::new(settings.departures, start_ns),
            cost: Cost::default(),
            budget: budget::Governor::new(settings.budget, start_ns),
            hangs: Hangs::new(settings.hang_time),
            stopped: Stopped::default(),
            ended: End::default(),
            locks: Locks::new(pid),
            spinning: Spinning::new(start_ns),
            sampling,
            folded: None,
            recording: None,
            futexes: futexes::Governor::new(settings.futex, start_ns),
            narrator,
            settings,
            lifetime: Lifetime::new(pid, runs_already && process::first_thread_has_ended(pid)),
            start_ns,
            end_ns: start_ns,
            exit_status: None,
            had_children: None,
            first_ends: false,
            children: source_children,
            cpus,
            interrupted: false,
            lost: 0,
            unseen_marks: BTreeSet::new(),
            notes: Vec::new(),
        };
        for line in lines {
            session.tell(&format!("sbt: {line}\n"));
            session.notes.push(line);
        }
        if session.futexes.is_on() {
            session.set_futexes(true);
        }
        session.running = held.map(Held::release).transpose()?;
        // Measure only now: earlier, the program's start would have to wait for the measurement.
        if let Some(source) = &session.source {
            session.cost = Cost::new(source.measure_costs());
        }
        Ok(session)
    }

    fn stop(&mut self) {
        if let Some(mut source) = self.source.take() {
            self.locks.read(source.as_ref());
            self.spinning.end(self.pid, &mut self.resolver);
            self.sample();
            if let Some(sampling) = &mut self.sampling {
                sampling.end();
            }
            self.end_ns = clock::now_ns();
            self.lifetime.is_over = launch::has_ended(self.pidfd.get_ref());
            self.lost = source.lost();
            self.unseen_marks = source.unseen_marks();
            self.had_children = process::had_children(self.pid);
            self.children = source.has_children();
            self.processes.end();
            // Stop on a separate thread: stopping waits until the last batches are handed over, and
            // this thread has to take them.
            self.stopping = Some(tokio::task::spawn_blocking(move || source.stop()));
        }
    }
}
