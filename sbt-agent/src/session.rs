//! One run, wired up: target → source → model → report.

use std::{collections::BTreeSet, ffi::OsString, io::Write as _, os::fd::OwnedFd, time::Duration};

use anyhow::Context as _;
use tokio::{
    io::unix::AsyncFd,
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, Interval, MissedTickBehavior, interval, sleep_until},
};

use crate::{
    clock,
    event::{CallersId, Event},
    live::Request,
    model::Model,
    naming::Naming,
    place::Place,
    report::{Report, Run},
    screen::{self, Look},
    settings::{Conceptual, Mark, Settings},
    source::{
        Batch, QUEUE, Source as _, Totals,
        ebpf::{Ebpf, Scope},
    },
    target::{
        launch::{self, Held, Invoker, Running},
        process,
        pty::Pty,
        sites::Resolver,
    },
    terminal::{Relay, Terminal, stop_ourselves},
    words::command_line,
};

mod departures;
mod futexes;
mod locks;
mod narrator;
mod observer;
mod prepare;
pub mod privilege;
mod processes;
mod recognition;
mod signals;
mod spinning;
mod view;

pub use departures::Departures;
use departures::Governor;
pub use futexes::Futexes;
use locks::Locks;
pub use narrator::Narration;
use narrator::Narrator;
use prepare::Prepared;
use processes::Processes;
use recognition::Recognition;
use signals::{Heard, Signals};
use spinning::Spinning;
use view::{Then, Turn, View};

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

/// Watches a target to its end, or until told to stop, and delivers the
/// report. `narration`: what to do with single episodes meanwhile; `look`: that
/// of the live screen, if there is to be one. Returns the
/// exit status of a program that was started, for whose end it waits even after
/// the watching.
pub fn watch(
    target: &Target,
    settings: Settings,
    narration: Narration,
    look: Option<Look>,
    deliver: impl FnOnce(&Report) -> anyhow::Result<()>,
) -> anyhow::Result<Option<u8>> {
    let mut master = None;
    // The child is forked while there is only one thread.
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
            prepared
        }
        Target::Attach { pid } => Prepared::attach(*pid, &settings)?,
    };
    let signals = Signals::block(matches!(target, Target::Run { .. }), look.is_some())
        .context("cannot take over the handling of signals")?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")?
        .block_on(async {
            let mut session = Session::begin(prepared, settings, narration, signals)?;
            session.terminal = master.map(Terminal::new).transpose()?;
            if let Some(look) = look {
                session
                    .open_screen(look)
                    .context("cannot open the live screen; --no-tui does without")?;
            }
            session.run(deliver).await
        })
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
    settings: Settings,
    narrator: Narrator,
    signals: Signals,
    running: Option<Running>,
    /// That of the program, while the screen has the real one.
    terminal: Option<Terminal>,
    /// What joins the two afterwards.
    relay: Option<Relay>,
    view: Option<View>,
    pidfd: AsyncFd<OwnedFd>,
    source: Option<Ebpf>,
    stopping: Option<JoinHandle<anyhow::Result<Totals>>>,
    method: String,
    batches: mpsc::Receiver<Batch>,
    resolver: Resolver,
    recognition: Recognition,
    processes: Processes,
    model: Model,
    governor: Governor,
    futexes: futexes::Governor,
    locks: Locks,
    spinning: Spinning,
    start_ns: u64,
    end_ns: u64,
    exit_status: Option<u8>,
    had_children: Option<bool>,
    children: bool,
    interrupted: bool,
    notes: Vec<String>,
}

impl Session {
    /// Starts to listen and lets the target go.
    fn begin(
        prepared: Prepared,
        settings: Settings,
        narration: Narration,
        signals: Signals,
    ) -> anyhow::Result<Self> {
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
        let source_children = source.has_children();
        let runs_already = held.is_none();
        let narrator = Narrator::new(&settings, narration, start_ns);
        let mut model = Model::new(start_ns, settings.departures != Departures::Off);
        model.observe(settings.phases.len(), narrator.telling());
        let mut session = Self {
            pid,
            command,
            signals,
            running: None,
            terminal: None,
            relay: None,
            view: None,
            pidfd,
            method: source.method(),
            source: Some(source),
            stopping: None,
            batches,
            resolver,
            recognition: Recognition::new(runs_already, start_ns),
            processes: Processes::new(pid),
            model,
            governor: Governor::new(settings.departures, start_ns),
            locks: Locks::default(),
            spinning: Spinning::new(start_ns),
            futexes: futexes::Governor::new(settings.futex, start_ns),
            narrator,
            settings,
            start_ns,
            end_ns: start_ns,
            exit_status: None,
            had_children: None,
            children: source_children,
            interrupted: false,
            notes: Vec::new(),
        };
        if session.futexes.is_on() {
            session.set_futexes(true);
        }
        session.running = held.map(Held::release).transpose()?;
        Ok(session)
    }

    fn stop(&mut self) {
        if let Some(mut source) = self.source.take() {
            self.locks.read(&source, self.pid);
            self.spinning.end(self.pid, &mut self.resolver);
            self.end_ns = clock::now_ns();
            self.had_children = process::had_children(self.pid);
            self.children = source.has_children();
            self.processes.end();
            // On a thread of its own: it waits for the last batches to be
            // handed over, which is for us to take.
            self.stopping = Some(tokio::task::spawn_blocking(move || source.stop()));
        }
    }

    fn take(&mut self, batch: &Batch) {
        let mut maps_changed = BTreeSet::new();
        let mut has_forked = false;
        let mut someone_ended = false;
        let mut first_replaced = false;
        for event in batch {
            match event {
                Event::Exit { .. } => someone_ended = true,
                Event::Callers {
                    id,
                    process,
                    addresses,
                } => self.called(*id, *process, addresses),
                Event::Thread {
                    shown, code_start, ..
                } => {
                    self.resolver.turn_to(shown.1);
                    self.resolver.set_code_start(*code_start);
                    self.processes.meet(shown.1, &mut self.model);
                }
                Event::Exec {
                    replaced, process, ..
                } => {
                    self.executed(*process);
                    maps_changed.insert(*process);
                    first_replaced |= *replaced && [0, self.pid].contains(process);
                }
                Event::Mapped { process, .. } => {
                    maps_changed.insert(*process);
                }
                Event::Forked {
                    process,
                    child,
                    followed,
                    ..
                } => {
                    has_forked = true;
                    self.processes.forked(*followed);
                    if let Some(child) = child {
                        self.resolver.forked(*process, *child);
                    }
                }
                Event::Lock { key, callers } => {
                    self.resolver.turn_to(self.pid);
                    self.locks.found(*key, *callers, &mut self.resolver);
                    continue;
                }
                _ => {}
            }
            self.recognition
                .push(event, &mut self.resolver, &mut self.model);
        }
        self.narrate();
        View::heard(&mut self.view);
        for process in maps_changed {
            self.resolver.turn_to(process);
            self.resolver.refresh();
        }
        let Some(source) = &mut self.source else {
            return;
        };
        self.recognition.silence(source);
        if has_forked && let Err(error) = source.widen_for_children() {
            self.notes.push(format!("{error:#}"));
        }
        if first_replaced && source.scope() == Scope::Target {
            // The kernel had the probes bound to the first thread.
            if let Err(error) = source.renew() {
                self.notes.push(format!("{error:#}"));
            }
            self.notes.push(
                "a thread that was not the first executed a program: the probes came on it a \
                 moment after its start"
                    .into(),
            );
        }
        if let Err(error) = source.attach(&self.resolver.new_files()) {
            self.notes.push(format!("{error:#}"));
        }
        if let Some(rules) = self.resolver.new_rules()
            && let Err(error) = source.learn(&rules)
        {
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

    /// A chain of callers is new, or its number means another one now.
    fn called(&mut self, id: CallersId, process: u32, addresses: &[u64]) {
        self.resolver.turn_to(process);
        let place = self.resolver.place(addresses);
        self.recognition
            .know(id, process, addresses, &mut self.resolver);
        self.locks.know(id, addresses);
        let known = &self.resolver.places()[place.0 as usize];
        let roles = Naming(&self.settings).roles(known);
        self.model.define_place(id, place, roles);
    }

    /// A process has executed a program: nothing lies where it lay.
    fn executed(&mut self, process: u32) {
        self.recognition.finish(&mut self.model);
        self.resolver.turn_to(process);
        self.resolver.executed();
        if ![0, self.pid].contains(&process) {
            return;
        }
        self.locks.executed();
        if let Some(source) = &self.source
            && let Err(error) = source.clear_locks()
        {
            self.notes.push(format!("forgetting locks: {error}"));
        }
    }

    /// Tells the episodes that the model has to tell.
    fn narrate(&mut self) {
        let places = self.resolver.places();
        let text = self.narrator.tell(&mut self.model, places, &self.settings);
        if text.is_empty() {
            return;
        }
        match &mut self.view {
            Some(view) => view.observer.told(&text),
            // Whoever closed it does not want to read it.
            None => drop(std::io::stderr().lock().write_all(text.as_bytes())),
        }
    }

    /// Lets go what the recogniser holds back for too long.
    fn recognise(&mut self) {
        if let Some(source) = &mut self.source
            && let Err(error) = self
                .recognition
                .tick(clock::now_ns(), source, &mut self.model)
        {
            self.notes.push(format!("{error:#}"));
        }
    }

    /// Decides anew whether departures are worth their cost.
    fn govern(&mut self) {
        let totals = self.model.totals();
        let rows = self.model.threads().rows().iter();
        let threads = self.governor.active(rows.map(|row| row.arrivals));
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

    /// Decides anew whether the system calls of futexes are worth watching.
    fn govern_futexes(&mut self) {
        let (futexes, others) = self.recognition.arrivals();
        let seen = futexes::Seen {
            threads: process::threads(self.pid),
            others,
            futexes,
        };
        if let Some(source) = &self.source {
            self.locks.tick(clock::now_ns(), source, self.pid);
        }
        if let Some(on) = self.futexes.tick(clock::now_ns(), seen) {
            self.set_futexes(on);
        }
        // Without probes nobody knows whether barriers are hit.
        if self.source.is_some() && !self.is_off() {
            self.spinning
                .tick(clock::now_ns(), seen, self.pid, &mut self.resolver);
        }
    }

    fn set_futexes(&mut self, on: bool) {
        let Some(source) = &mut self.source else {
            return;
        };
        let mut switch = || {
            if on {
                self.resolver.follow_system_calls();
                if let Some(rules) = self.resolver.new_rules() {
                    source.learn(&rules)?;
                }
            }
            source.set_futexes(on)?;
            if on {
                self.locks.watch();
            } else {
                // Who waits now will not be seen to go on.
                self.locks.read(source, self.pid);
                source.clear_locks().context("forgetting locks")?;
                self.locks.begin_anew();
            }
            anyhow::Ok(())
        };
        if let Err(error) = switch() {
            self.notes.push(format!("{error:#}"));
            self.futexes.give_up();
        }
    }

    fn report(&mut self, totals: Totals, ended: bool) -> Report {
        self.recognition.finish(&mut self.model);
        self.model.finish();
        self.narrate();
        self.notes.extend(totals.notes);
        self.notes.extend(self.processes.notes());
        self.notes.extend(self.recognition.notes());
        self.notes.extend(self.governor.note());
        self.notes.extend(self.futexes.note());
        self.notes.extend(self.locks.note());
        self.notes.extend(self.resolver.notes());
        let none_found = self.model.totals().arrivals == 0;
        let none_found_because = none_found
            .then(|| self.resolver.why_nothing_is_found())
            .flatten();
        let places: Vec<&Place> = self.resolver.places().iter().map(AsRef::as_ref).collect();
        self.notes.extend(Naming(&self.settings).unmatched(&places));
        let (watched, watched_omitted) = self.narrator.take_kept();
        let run = Run {
            watched,
            watched_omitted,
            ended: ended || self.exit_status.is_some(),
            lost: totals.lost,
            none_found_because,
            notes: std::mem::take(&mut self.notes),
            ..self.facts(self.end_ns)
        };
        Report::new(&self.model, self.resolver.places(), run)
    }

    /// What to type to watch the target like this once more: before and after the
    /// options.
    fn again(&self) -> [String; 2] {
        match (&self.running, &self.command[..]) {
            (None, _) => ["sbt attach".into(), self.pid.to_string()],
            (_, [sbt, demo, rest @ ..]) if sbt == "sbt" && demo == "demo" => {
                ["sbt demo".into(), command_line(rest)]
            }
            (_, command) => ["sbt run".into(), format!("-- {}", command_line(command))],
        }
    }

    /// What is known beside the model, up to a time.
    fn facts(&self, until_ns: u64) -> Run {
        let places = self.resolver.places();
        let naming = Naming(&self.settings);
        let names = self.model.sites().all().iter().map(|site| {
            let mut mine = site.places.iter();
            mine.find_map(|id| naming.name(places.get(id.0 as usize)?))
                .map(str::to_owned)
        });
        Run {
            backend: "ebpf".into(),
            method: self.method.clone(),
            command: self.command.clone(),
            pid: self.pid,
            start_ns: self.start_ns,
            start_unix_ns: self.start_ns + self.narrator.unix_offset_ns,
            names: names.collect(),
            conceptual: self.settings.phases.iter().map(written_phase).collect(),
            marks: self.settings.marks.iter().map(written_mark).collect(),
            warnings: self.narrator.warnings(),
            wall_ns: until_ns.saturating_sub(self.start_ns),
            ended: self.exit_status.is_some(),
            exit_status: self.exit_status,
            had_children: self.had_children,
            children: self.children,
            departures: self.governor.summary(),
            locks: self.locks.report(),
            spins: self.spinning.report(&self.again()),
            notes: self.notes.clone(),
            own_cpu_ns: clock::process_cpu_ns(),
            ..Run::default()
        }
    }
}

fn written_phase(phase: &Conceptual) -> [String; 3] {
    let Conceptual { name, from, to } = phase;
    [name.clone(), from.to_string(), to.to_string()]
}

fn written_mark(mark: &Mark) -> [String; 2] {
    let at = mark.at.to_string();
    [mark.name.clone().unwrap_or_else(|| at.clone()), at]
}

/// How often it is decided about departures.
const TICK: Duration = Duration::from_millis(250);

/// How long a program that was told to end is waited for before the report is
/// written without it.
const GRACE: Duration = Duration::from_secs(1);

impl Session {
    async fn run(
        mut self,
        deliver: impl FnOnce(&Report) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<u8>> {
        let deadline = self
            .settings
            .duration
            .map(|duration| Instant::now() + duration);
        let mut ending: Option<Ending> = None;
        let mut told_to_end = false;
        let mut ticks = ticks(TICK);
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
                    // What it leaves behind is gone once it has been reaped.
                    self.stop();
                    self.reap()?;
                }
                heard = self.signals.next() => {
                    let heard = heard.context("waiting for signals")?;
                    if heard.stops() && self.view.is_some() {
                        self.obey(Request::Suspend).await?;
                        continue;
                    }
                    self.hear(heard);
                    if heard.ends() {
                        told_to_end = true;
                        ending = ending.or(Some(Ending::Asked));
                        self.stop();
                    }
                }
                () = until(deadline), if ending.is_none() => {
                    ending = Some(Ending::Asked);
                    self.stop();
                }
                turn = View::turn(&mut self.view) => match turn {
                    Turn::Due => self.show(),
                    Turn::Asked(request) => if self.obey(request).await? == Then::End {
                        ending = ending.or(Some(Ending::Asked));
                        self.stop();
                    },
                },
                result = Terminal::turn_of(&mut self.terminal) => {
                    result.context("reading the program's output")?;
                    View::has_news(&mut self.view);
                }
                _ = ticks.tick() => {
                    self.recognise();
                    self.govern();
                    self.govern_futexes();
                }
            }
        }
        self.leave_screen()?;
        let totals = match self.stopping.take() {
            Some(stopping) => stopping.await.context("stopping the probes")??,
            None => anyhow::bail!("the reader of the ring buffers ended by itself"),
        };
        if told_to_end || self.interrupted {
            self.wait(Some(Instant::now() + GRACE)).await?;
        }
        let report = self.report(totals, ending == Some(Ending::Target));
        self.aside(|| deliver(&report)).await?;
        // Watching may be over when the program is not: its status is ours.
        self.wait(None).await?;
        if let Some(relay) = &mut self.relay {
            relay
                .finish()
                .await
                .context("writing the program's output")?;
        }
        Ok(self.exit_status)
    }

    /// Closes the screen: from here on the program has the real terminal.
    fn leave_screen(&mut self) -> anyhow::Result<()> {
        if let Some(view) = self.view.take() {
            let observer = view.close();
            let off_ns = observer.off_for_ns(self.end_ns);
            if off_ns > 0 {
                let seconds = off_ns as f64 / 1e9;
                self.notes.push(format!(
                    "the probes were off for {seconds:.1} s, at the user's wish"
                ));
            }
            for line in observer.into_told() {
                let _gone = writeln!(std::io::stderr(), "{line}");
            }
        }
        if let Some(mut terminal) = self.terminal.take() {
            let ended = self.exit_status.is_some();
            if ended {
                terminal.take_rest();
            }
            let running = self.running.as_mut().filter(|_| !ended);
            self.relay = Some(Relay::new(terminal, running).context("joining the terminals")?);
        }
        Ok(())
    }

    /// Does something on the real terminal, after what the program has written.
    async fn aside(&mut self, act: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let Some(relay) = &mut self.relay else {
            return act();
        };
        if self.exit_status.is_some() {
            relay
                .finish()
                .await
                .context("writing the program's output")?;
            return act();
        }
        while !relay.is_up_to_date() {
            relay.turn().await.context("writing the program's output")?;
        }
        relay.aside(act)
    }

    /// Takes the exit status of a program that we started.
    fn reap(&mut self) -> anyhow::Result<()> {
        if let Some(running) = &self.running {
            self.exit_status = Some(running.wait()?);
        }
        Ok(())
    }

    /// The program gets a signal as it would without us: what the terminal
    /// sends reaches it anyway, what was sent to us alone it gets from us. A
    /// second interrupt ends us at once.
    fn hear(&mut self, heard: Heard) {
        if heard.stops() {
            match &mut self.relay {
                Some(relay) => relay.aside(stop_ourselves),
                None => stop_ourselves(),
            }
            return;
        }
        if heard.is_interrupt() && std::mem::replace(&mut self.interrupted, true) {
            // Nothing is dropped then.
            screen::restore();
            self.relay = None;
            std::process::exit(130);
        }
        if let (Some(running), None) = (&self.running, self.exit_status)
            && (!heard.from_terminal || running.is_on_pty())
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
                result = Relay::turn_of(&mut self.relay) => result.context("passing on what the program writes")?,
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
