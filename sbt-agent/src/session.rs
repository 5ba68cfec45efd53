//! One run from start to report. Four owners share the work: [`Watch`] has what is done to the
//! target, [`Understanding`] what the events mean, [`Reporting`] what leaves sbt, and [`View`] what
//! the live screen shows. [`Session`] holds them, and the order in which they talk.

use crate::{
    control::Control,
    kernel::privilege,
    looks::{self, Looking},
    record::Sink,
    screen::Look,
    settings::Settings,
    source::{Batch, QUEUE},
    terminal::Terminal,
};
use sbt_engine::{
    choices::{Departures, Waits},
    report::{MomentReport, Report},
};
use sbt_program::{
    access::Invoker, clock, executes, files::ProbedFile, pty::Pty, sites::SharedFiles,
};
use std::{ffi::OsString, fs::File, sync::Arc};

use anyhow::Context as _;
use nix::{
    sys::resource::{Resource, getrlimit},
    unistd::Uid,
};
use tokio::sync::mpsc;

mod choice;
mod facts;
mod notes;
mod ordered;
mod prepare;
mod program;
mod reporting;
mod requests;
mod start;
mod stay;
mod taking;
mod turns;
mod understanding;
mod upkeep;
mod view;
mod watch;
mod window;

use crate::signals::Signals;
use prepare::Prepared;
use program::Program;
use reporting::Reporting;
pub use reporting::narrator::Narration;
use understanding::{Understanding, sampling};
use view::View;
pub(crate) use view::observer;
use watch::Watch;

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
            let helper = choice::helper(*pid, &settings)?;
            privilege::limit(Some(*pid))?;
            Prepared::attach(*pid, &settings, helper)?
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
            let mut session = Session::begin(prepared, settings, (narration, folded), signals)?;
            if let Some(sink) = recording {
                session.record(sink);
            }
            session.show_on(terminal, look);
            session.run(deliver).await
        })
}

/// The users, besides root, who may control this sbt.
fn allowed() -> Vec<Uid> {
    let invoker = Invoker::from_sudo().map(|invoker| invoker.uid);
    invoker.into_iter().chain([Uid::current()]).collect()
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
    settings: Settings,
    /// Signals to sbt fit none of the four owners: they end watching, or go to the program.
    signals: Signals,
    /// The process itself fits none of the four either: all of them outlive it.
    program: Program,
    /// The live screen's contents.
    view: View,
    /// The source, its probes and the target's processes.
    watch: Watch,
    /// Events on their way from the watch to the understanding.
    batches: mpsc::Receiver<Batch>,
    /// The meaning of the events.
    understanding: Understanding,
    /// The output of sbt.
    reporting: Reporting,
    /// Looks at sleeping threads, beside all events; `None` if there are none.
    looking: Option<Looking>,
    /// What scripts ask for.
    control: Control,
    /// The moments that scripts have marked.
    moments: Vec<MomentReport>,
    /// The time at which counting began, ns, if later than the run.
    started_ns: Option<u64>,
}

impl Session {
    /// Starts the source and lets the target go. `folded`: the file for the folded stacks of the
    /// samples.
    fn begin(
        prepared: Prepared,
        mut settings: Settings,
        (narration, folded): (Narration, Option<File>),
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
        let runs_already = held.is_none();
        let (files, shared) = (resolver.files(), resolver.shared());
        let program = Program::new(pid, command)?;
        if source.departures().is_none() {
            settings.departures = Departures::Off;
        }
        let (sink, batches) = mpsc::channel(QUEUE);
        // What another program uses, that it may execute, is not known.
        let has_tasks = executes::use_openmp_tasks(&files);
        let has_tasks = (has_tasks || !executes::execute_others(&files)).then_some(has_tasks);
        let mut watch = Watch::begin(pid, source, sink, runs_already, &settings)?;
        watch.set_openmp_tasks(has_tasks);
        let reporting = Reporting::new(&settings, narration, folded, watch.start_ns());
        let telling = reporting.telling();
        let understanding =
            Understanding::begin(resolver, watch.beginning(runs_already), telling, &settings)?;
        let (control, taken) = Control::open(&[std::process::id(), pid], &allowed());
        let mut session = Self {
            settings,
            signals,
            program,
            view: View::default(),
            watch,
            batches,
            understanding,
            reporting,
            looking: None,
            control,
            moments: Vec::new(),
            started_ns: None,
        };
        for pid in taken {
            session.reporting.notes().push(format!(
                "`sbt ctl {pid}` asks another process, which has taken that name: ask by the number of sbt, {}",
                std::process::id()
            ));
        }
        for line in lines {
            session.tell(&format!("sbt: {line}\n"));
            session.reporting.notes().push(line);
        }
        session
            .watch
            .begin_futexes(&mut session.understanding, session.reporting.notes());
        session.look(pid, files, shared, !runs_already);
        session.program.release(held)?;
        // Measure only now: earlier, the program's start would have to wait for the measurement.
        if let Some(measurement) = session.watch.measure_costs() {
            session.understanding.expect_costs(measurement);
        }
        Ok(session)
    }

    /// Begins to look at sleeping threads, unless the user does not want that.
    fn look(
        &mut self,
        process: u32,
        files: Vec<Arc<ProbedFile>>,
        shared: SharedFiles,
        is_started: bool,
    ) {
        if self.settings.waits == Waits::Off {
            return;
        }
        let target = looks::Target {
            process,
            files,
            shared,
            is_started,
            budget_pct: self.settings.budget,
            sleeps: self.watch.sleeps(),
        };
        // Without a further thread sbt only tells less.
        self.looking = Looking::begin(target).ok();
    }

    /// Connects the program's terminal, and opens the live screen if there is to be one.
    fn show_on(&mut self, terminal: Option<Terminal>, look: Option<Look>) {
        self.view.connect(terminal);
        if let Some(look) = look
            && let Err(error) = self.open_screen(look)
        {
            if let Err(error) = self.leave_screen() {
                self.tell(&format!("sbt: {error:#}\n"));
            }
            self.tell(&format!(
                "sbt: cannot open the live screen: {error}; sbt watches without the screen\n"
            ));
        }
    }

    /// Ends watching: stops the source.
    fn stop(&mut self) {
        if !self.watch.is_on() {
            return;
        }
        self.watch.read_locks();
        if let Some(looking) = &self.looking {
            looking.end();
        }
        self.understanding.end_looks();
        self.watch.stop(|| self.program.has_ended());
    }

    /// Tells the user some lines, on the live screen if there is one, else on standard error.
    fn tell(&mut self, text: &str) {
        if !self.view.tell(&[(clock::now_ns(), text.to_owned())]) {
            reporting::print(text);
        }
    }
}
