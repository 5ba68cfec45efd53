//! One run, wired up: target → source → model → report.

use std::{ffi::OsString, os::fd::OwnedFd, path::PathBuf, time::Duration};

use anyhow::Context as _;
use tokio::{
    io::unix::AsyncFd,
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, Interval, MissedTickBehavior, interval, sleep_until},
};

use crate::{
    clock,
    event::Event,
    model::Model,
    report::{Report, Run},
    source::{
        Batch, QUEUE, Source as _, Totals,
        ebpf::{Ebpf, Scope},
    },
    target::{
        launch::{self, Held, Invoker, Running},
        libraries, process,
        sites::{self, Resolver},
    },
};

mod departures;
pub mod privilege;
mod signals;

pub use departures::Departures;
use departures::Governor;
use signals::{Heard, Signals};

/// What to watch.
#[derive(Clone, Debug)]
pub enum Target {
    /// A program to be started.
    Run {
        /// The program and its arguments.
        command: Vec<OsString>,
        /// As whom, if not as ourselves.
        invoker: Option<Invoker>,
        /// How the command is shown, if not as it is.
        shown: Option<Vec<String>>,
    },
    /// A process that runs.
    Attach {
        /// It, or one of its threads.
        pid: u32,
    },
}

/// How to watch.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether to watch departures.
    pub departures: Departures,
    /// For how long; without it until the target ends.
    pub duration: Option<Duration>,
}

/// A target that is ready to be watched, with its probes in place.
struct Prepared {
    pid: u32,
    command: Vec<String>,
    held: Option<Held>,
    source: Ebpf,
    resolver: Resolver,
}

/// Watches a target to its end, or until told to stop, and delivers the
/// report. Returns the exit status of a program that was started, for whose end
/// it waits even after the watching.
pub fn watch(
    target: &Target,
    options: Options,
    deliver: impl FnOnce(&Report) -> anyhow::Result<()>,
) -> anyhow::Result<Option<u8>> {
    // The child is forked while there is only one thread.
    let prepared = match target {
        Target::Run {
            command,
            invoker,
            shown,
        } => prepare_run(command, invoker.as_ref(), shown.clone(), options)?,
        Target::Attach { pid } => prepare_attach(*pid, options)?,
    };
    let signals = Signals::block().context("cannot take over the handling of signals")?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")?
        .block_on(async {
            Session::begin(prepared, options, signals)?
                .run(deliver)
                .await
        })
}

fn prepare_run(
    command: &[OsString],
    invoker: Option<&Invoker>,
    shown: Option<Vec<String>>,
    options: Options,
) -> anyhow::Result<Prepared> {
    let program = command
        .first()
        .and_then(|name| libraries::find_program(name, std::env::var_os("PATH").as_deref()));
    let held = launch::hold(command, program.as_deref(), invoker)?;
    let pid = held.pid();
    match attach_to_program(pid, program.as_deref(), invoker, options) {
        Ok(source) => Ok(Prepared {
            pid,
            command: shown.unwrap_or_else(|| {
                command
                    .iter()
                    .map(|argument| argument.to_string_lossy().into_owned())
                    .collect()
            }),
            held: Some(held),
            source,
            resolver: Resolver::new(pid, program),
        }),
        Err(error) => {
            held.abandon();
            Err(error)
        }
    }
}

fn attach_to_program(
    pid: u32,
    program: Option<&std::path::Path>,
    invoker: Option<&Invoker>,
    options: Options,
) -> anyhow::Result<Ebpf> {
    let mut source = load(pid, Scope::Target, options)?;
    let user = invoker.map(|invoker| (invoker.uid.as_raw(), invoker.gid.as_raw()));
    // A program that is not there fails at its exec, with the right message.
    let files: Vec<PathBuf> = program.map_or_else(Vec::new, |path| libraries::will_map(path, user));
    source.attach(&sites::open_all(&files))?;
    Ok(source)
}

fn prepare_attach(pid: u32, options: Options) -> anyhow::Result<Prepared> {
    let found = process::find(pid)?;
    privilege::check_process(found.pid)?;
    let scope = if process::first_thread_has_ended(found.pid) {
        Scope::Everyone
    } else {
        Scope::Target
    };
    let mut source = load(found.pid, scope, options)?;
    let mut resolver = Resolver::new(found.pid, None);
    resolver.refresh();
    source.attach(&resolver.new_files())?;
    Ok(Prepared {
        pid: found.pid,
        command: found.command,
        held: None,
        source,
        resolver,
    })
}

fn load(pid: u32, scope: Scope, options: Options) -> anyhow::Result<Ebpf> {
    Ebpf::load(pid, scope, options.departures != Departures::Off).map_err(privilege::explain)
}

/// Why the watching ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The target has ended.
    Target,
    /// Time is up, or we were told to.
    Asked,
}

struct Session {
    pid: u32,
    command: Vec<String>,
    options: Options,
    signals: Signals,
    running: Option<Running>,
    pidfd: AsyncFd<OwnedFd>,
    source: Option<Ebpf>,
    stopping: Option<JoinHandle<anyhow::Result<Totals>>>,
    method: String,
    batches: mpsc::Receiver<Batch>,
    resolver: Resolver,
    model: Model,
    governor: Governor,
    start_ns: u64,
    end_ns: u64,
    exit_status: Option<u8>,
    interrupted: bool,
    notes: Vec<String>,
}

impl Session {
    /// Starts to listen and lets the target go.
    fn begin(prepared: Prepared, options: Options, signals: Signals) -> anyhow::Result<Self> {
        let Prepared {
            pid,
            command,
            held,
            mut source,
            resolver,
        } = prepared;
        let pidfd =
            launch::pidfd(pid).with_context(|| format!("process {pid} has ended already"))?;
        // SAFETY: the descriptor is owned by what is registered: it stays the same.
        let pidfd =
            unsafe { AsyncFd::register(pidfd) }.context("cannot wait for the program's end")?;
        let (sink, batches) = mpsc::channel(QUEUE);
        let start_ns = clock::now_ns();
        source.start(sink, start_ns, process::usage(pid))?;
        let running = held.map(Held::release).transpose()?;
        Ok(Self {
            pid,
            command,
            options,
            signals,
            running,
            pidfd,
            method: source.method(),
            source: Some(source),
            stopping: None,
            batches,
            resolver,
            model: Model::new(start_ns, options.departures != Departures::Off),
            governor: Governor::new(options.departures, start_ns),
            start_ns,
            end_ns: start_ns,
            exit_status: None,
            interrupted: false,
            notes: Vec::new(),
        })
    }

    fn stop(&mut self) {
        if let Some(mut source) = self.source.take() {
            self.end_ns = clock::now_ns();
            // On a thread of its own: it waits for the last batches to be
            // handed over, which is for us to take.
            self.stopping = Some(tokio::task::spawn_blocking(move || source.stop()));
        }
    }

    fn take(&mut self, batch: &Batch) {
        let mut maps_changed = false;
        let mut someone_ended = false;
        for event in batch {
            match event {
                Event::Exit { .. } => someone_ended = true,
                Event::Callers { id, addresses } => {
                    let place = self.resolver.place(*id, addresses);
                    self.model.define_place(*id, place);
                }
                Event::Thread { code_start, .. } => self.resolver.set_code_start(*code_start),
                Event::Exec { .. } => {
                    self.resolver.executed();
                    maps_changed = true;
                }
                Event::Mapped { .. } => maps_changed = true,
                _ => {}
            }
            self.model.push(event);
        }
        if maps_changed {
            self.resolver.refresh();
        }
        let Some(source) = &mut self.source else {
            return;
        };
        if let Err(error) = source.attach(&self.resolver.new_files()) {
            self.notes.push(format!("{error:#}"));
        }
        // Its first thread may end before the process does.
        if someone_ended
            && process::first_thread_has_ended(self.pid)
            && process::find(self.pid).is_ok()
            && let Err(error) = source.widen()
        {
            self.notes.push(format!("{error:#}"));
        }
    }

    /// Decides anew whether departures are worth their cost.
    fn govern(&mut self) {
        let totals = self.model.totals();
        let rows = self.model.threads().rows().iter();
        let threads = rows.filter(|row| row.arrivals > 0 && !row.ended).count();
        let change = self
            .governor
            .tick(clock::now_ns(), totals.arrivals, threads);
        if let (Some(on), Some(source)) = (change, &mut self.source) {
            match source.set_departures(on) {
                Ok(()) => self.model.push(&Event::Departures { on }),
                Err(error) => self.notes.push(format!("{error:#}")),
            }
        }
    }

    fn report(&mut self, totals: Totals, ended: bool) -> Report {
        self.model.finish();
        self.notes.extend(totals.notes);
        self.notes.extend(self.governor.note());
        if self.model.totals().arrivals == 0 {
            self.notes.extend(self.resolver.why_nothing_is_found());
        }
        let run = Run {
            backend: "ebpf".into(),
            method: self.method.clone(),
            command: self.command.clone(),
            pid: self.pid,
            wall_ns: self.end_ns.saturating_sub(self.start_ns),
            ended: ended || self.exit_status.is_some(),
            exit_status: self.exit_status,
            lost: totals.lost,
            departures: self.governor.summary(),
            notes: std::mem::take(&mut self.notes),
            own_cpu_ns: clock::process_cpu_ns(),
        };
        Report::new(&self.model, self.resolver.places(), run, self.end_ns)
    }
}

/// How long a program that was told to end is waited for before the report is
/// written without it.
const GRACE: Duration = Duration::from_secs(1);

impl Session {
    async fn run(
        mut self,
        deliver: impl FnOnce(&Report) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<u8>> {
        let deadline = self
            .options
            .duration
            .map(|duration| Instant::now() + duration);
        let mut ending: Option<Ending> = None;
        let mut ticks = ticks(Duration::from_millis(250));
        loop {
            tokio::select! {
                batch = self.batches.recv() => match batch {
                    Some(batch) => self.take(&batch),
                    // The source has stopped and handed everything over.
                    None => break,
                },
                result = self.pidfd.readable(), if ending != Some(Ending::Target) => {
                    drop(result.context("waiting for the program")?);
                    ending = Some(Ending::Target);
                    self.reap()?;
                    self.stop();
                }
                heard = self.signals.next() => {
                    let heard = heard.context("waiting for signals")?;
                    self.hear(heard);
                    ending = ending.or(Some(Ending::Asked));
                    self.stop();
                }
                () = until(deadline), if ending.is_none() => {
                    ending = Some(Ending::Asked);
                    self.stop();
                }
                _ = ticks.tick() => self.govern(),
            }
        }
        let totals = match self.stopping.take() {
            Some(stopping) => stopping.await.context("stopping the probes")??,
            None => anyhow::bail!("the reader of the ring buffers ended by itself"),
        };
        if self.interrupted {
            self.wait(Some(Instant::now() + GRACE)).await?;
        }
        let report = self.report(totals, ending == Some(Ending::Target));
        deliver(&report)?;
        // Watching may be over when the program is not: its status is ours.
        self.wait(None).await?;
        Ok(self.exit_status)
    }

    /// Takes the exit status of a program that we started.
    fn reap(&mut self) -> anyhow::Result<()> {
        if let Some(running) = self.running {
            self.exit_status = Some(running.wait()?);
        }
        Ok(())
    }

    /// The program gets a signal as it would without us: what the terminal
    /// sends reaches it anyway, what was sent to us alone it gets from us. A
    /// second interrupt ends us at once.
    fn hear(&mut self, heard: Heard) {
        if heard.is_interrupt() && std::mem::replace(&mut self.interrupted, true) {
            std::process::exit(130);
        }
        if let (Some(running), None, false) = (self.running, self.exit_status, heard.from_terminal)
        {
            running.signal(heard.number);
        }
    }

    /// Waits for the program's end, or until `deadline`.
    async fn wait(&mut self, deadline: Option<Instant>) -> anyhow::Result<()> {
        while self.running.is_some() && self.exit_status.is_none() {
            tokio::select! {
                result = self.pidfd.readable() => {
                    drop(result.context("waiting for the program")?);
                    self.reap()?;
                }
                heard = self.signals.next() => self.hear(heard.context("waiting for signals")?),
                () = until(deadline) => return Ok(()),
            }
        }
        Ok(())
    }
}

fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
