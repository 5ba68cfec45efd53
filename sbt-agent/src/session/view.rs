//! The live screen as the session sees it: the snapshots shown and the requests of its user.

use std::{io, sync::Arc, time::Duration};

use nix::sys::signal::Signal;
use tokio::{
    sync::{
        mpsc::{UnboundedReceiver, unbounded_channel},
        watch,
    },
    time::{Instant, sleep_until, timeout},
};

use super::{Session, observer::Observer};
use crate::{
    output,
    screen::{Handle, Look, Screen},
    settings,
    terminal::{Terminal, stop_ourselves},
};
use sbt_engine::{
    event::Event,
    live::{Request, Snapshot},
    place::Place,
    report::Report,
    words::without_codes,
};
use sbt_program::clock;

/// The shortest time between two snapshots.
const PERIOD: Duration = Duration::from_millis(150);
/// The longest time between two snapshots: the screen shows the time in seconds.
const CALM: Duration = Duration::from_secs(1);
/// The time between a snapshot and the next one after a request of the user.
const PROMPT: Duration = Duration::from_millis(20);
/// Snapshots take at most one part in this many of the time.
const SPARED: u32 = 50;
/// The time without a batch after which all earlier events are known to have come in.
const SILENCE: Duration = Duration::from_millis(150);

/// The number of [`SILENCE`] times to wait at most after the probes are switched off.
const MOST_SILENCES: u32 = 4;

/// The screen while it is open.
pub struct View {
    handle: Handle,
    latest: watch::Sender<Arc<Snapshot>>,
    requests: UnboundedReceiver<Request>,
    pub observer: Observer,
    /// The time of the latest snapshot.
    taken: Instant,
    /// The earliest time of the next snapshot.
    due: Instant,
    /// Something has happened since the latest snapshot.
    news: bool,
    /// sbt is in the background, so the terminal belongs to another job.
    is_away: bool,
    /// The report of a program that has ended: from then on only the user's actions and the output
    /// of other processes change the screen.
    last: Option<Box<Report>>,
}

impl View {
    /// Marks that there is something new to show.
    pub fn has_news(view: &mut Option<Self>) {
        if let Some(view) = view {
            view.news = true;
        }
    }

    /// Notes that all events up to now are known.
    pub fn heard(view: &mut Option<Self>) {
        Self::has_news(view);
        if let Some(view) = view {
            view.observer.heard_ns = clock::now_ns();
        }
    }

    /// Waits for a request, or for the time of the next snapshot.
    pub async fn turn(view: &mut Option<Self>) -> Turn {
        let Some(view) = view else {
            return std::future::pending().await;
        };
        let is_still = view.last.is_some() && !view.is_away;
        let due = if view.news {
            view.due
        } else {
            view.taken + CALM
        };
        tokio::select! {
            // A screen that closes by itself has lost its terminal.
            request = view.requests.recv() => Turn::Asked(request.unwrap_or(Request::Leave)),
            () = sleep_until(due), if view.news || !is_still => Turn::Due,
        }
    }

    /// Shows the end of the program from here on.
    pub fn end(view: &mut Option<Self>, report: &Report) {
        if let Some(view) = view {
            view.last = Some(Box::new(report.clone()));
        }
    }

    /// Closes the screen, and returns the observer with the lines kept meanwhile.
    pub fn close(self) -> Observer {
        self.handle.close();
        self.observer
    }
}

/// What the view asks of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The user asks for something.
    Asked(Request),
    /// It is time for a new snapshot.
    Due,
}

/// What happens after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    GoOn,
    End,
}

impl Session {
    /// Opens the screen.
    pub fn open_screen(&mut self, look: Look) -> io::Result<()> {
        self.model.keep_lanes();
        let observer = Observer::new(self.start_ns);
        let (latest, receiver) = watch::channel(Arc::new(self.snapshot(&observer, None)));
        let (sender, requests) = unbounded_channel();
        self.say_screen(true);
        let handle = Screen::spawn(look, receiver, sender).inspect_err(|_| {
            self.say_screen(false);
        })?;
        self.view = Some(View {
            handle,
            latest,
            requests,
            observer,
            taken: Instant::now(),
            due: Instant::now(),
            news: false,
            is_away: false,
            last: None,
        });
        Ok(())
    }

    /// Tells the keeper whether there is a screen, so that the keeper can restore the terminal if
    /// sbt is killed.
    pub fn say_screen(&self, on: bool) {
        if let Some(running) = &self.running {
            running.has_screen(on);
        }
    }

    /// The time of the snapshot, ns: now, or the end of watching after that end.
    fn shown_ns(&self) -> u64 {
        if self.source.is_some() {
            clock::now_ns()
        } else {
            self.end_ns
        }
    }

    /// Takes a snapshot. `last`: the report of a program that has ended.
    fn snapshot(&mut self, observer: &Observer, last: Option<&Report>) -> Snapshot {
        let now_ns = self.shown_ns();
        let report = match last {
            Some(last) => last.clone(),
            None => self.report_so_far(self.facts(now_ns)),
        };
        let places: Vec<&Place> = self.resolver.places().iter().map(AsRef::as_ref).collect();
        let output = self.terminal.as_mut().map(Terminal::output);
        // After the end of the program no thread is present, even if its end was not seen.
        let present = self.model.present().filter(|_| last.is_none()).collect();
        let said = (report, &self.counters);
        observer.snapshot(now_ns, &self.model, present, &places, said, output)
    }

    /// Sends a new snapshot to the screen.
    pub fn show(&mut self) {
        let Some(mut view) = self.view.take() else {
            return;
        };
        if view.is_away && output::has_terminal() {
            view.is_away = false;
            self.say_screen(true);
            view.handle.resume();
        }
        view.taken = Instant::now();
        view.news = false;
        if !view.is_away {
            view.observer.count(self.shown_ns(), &self.model);
            let snapshot = self.snapshot(&view.observer, view.last.as_deref());
            let _screen_is_gone = view.latest.send(Arc::new(snapshot));
            view.due = view.taken + PERIOD.max(view.taken.elapsed() * SPARED);
        }
        self.view = Some(view);
    }

    /// Carries out a request.
    pub async fn obey(&mut self, request: Request) -> anyhow::Result<Then> {
        match request {
            Request::Leave => return Ok(Then::End),
            Request::Interrupt => {
                self.interrupted = true;
                self.signal_program(Signal::SIGINT);
                return Ok(Then::End);
            }
            Request::Toggle => self.toggle().await,
            // The request came just before the program ended.
            Request::Reset if self.source.is_none() => {}
            Request::Reset => {
                if let Some(view) = &mut self.view {
                    view.observer.reset(self.start_ns);
                }
                self.start_ns = clock::now_ns();
                self.model.reset(self.start_ns);
                self.budget.reset(self.start_ns);
                if let Some(sampling) = &mut self.sampling {
                    sampling.reset();
                }
                self.notice("all totals are reset".into());
            }
            Request::Offer => self.offer(),
            Request::Count(names) => self.count(&names),
            Request::Save => self.save(),
            Request::Name { site, name } => self.name(site, &name),
            Request::Zoom { closer } => {
                if let Some(view) = &mut self.view {
                    view.observer.zoom(closer);
                }
            }
            Request::Keys(keys) => {
                if let Some(terminal) = &mut self.terminal
                    && terminal.keys(&keys) < keys.len()
                {
                    self.notice(
                        "the program does not read its input: some keys were dropped".into(),
                    );
                }
            }
            Request::Size(columns, rows) => {
                if let Some(terminal) = &self.terminal {
                    terminal.resize(columns, rows)?;
                }
            }
            Request::Suspend => self.suspend().await?,
            // Only a replay has playback.
            Request::Play(_) => {}
        }
        if let Some(view) = &mut self.view {
            // Show the answer soon.
            view.due = view.due.min(view.taken + PROMPT);
            view.news = true;
        }
        Ok(Then::GoOn)
    }

    pub(super) fn notice(&mut self, text: String) {
        if let Some(view) = &mut self.view {
            view.observer.notice(text);
        }
    }

    pub(super) fn is_off(&self) -> bool {
        self.view
            .as_ref()
            .is_some_and(|view| view.observer.off_ns.is_some())
    }

    async fn toggle(&mut self) {
        if self.is_off() {
            self.watch_again();
        } else {
            self.watch_no_more().await;
        }
    }

    /// Switches the probes off.
    async fn watch_no_more(&mut self) {
        let Some(source) = &mut self.source else {
            return;
        };
        let off_ns = clock::now_ns();
        self.spinning.give_up(off_ns);
        self.hangs.lose_sight(off_ns);
        source.pause();
        self.budget.interrupt(off_ns);
        self.model.set_off(false);
        if let Some(sampling) = &mut self.sampling {
            sampling.switch(false);
        }
        // Earlier events still have to come in. The queue may never fall silent, since events about
        // the lives of threads go on.
        let latest = Instant::now() + MOST_SILENCES * SILENCE;
        while Instant::now() < latest
            && let Ok(Some(batch)) = timeout(SILENCE, self.batches.recv()).await
        {
            self.sample();
            self.take(&batch);
        }
        let gap = Event::Gap {
            time_ns: clock::now_ns(),
        };
        self.recognition
            .push(&gap, &mut self.resolver, &mut self.model);
        if let Some(view) = &mut self.view {
            view.observer.off_ns = Some(off_ns);
        }
    }

    /// Switches the probes on again.
    fn watch_again(&mut self) {
        let Some(source) = &mut self.source else {
            return;
        };
        let gap = Event::Gap {
            time_ns: clock::now_ns(),
        };
        self.recognition
            .push(&gap, &mut self.resolver, &mut self.model);
        if let Err(error) = source.resume() {
            self.notes.push(format!("{error:#}"));
        }
        let arrivals = self.model.totals().arrivals;
        self.hangs.regain_sight(clock::now_ns(), arrivals);
        if let Some(sampling) = &mut self.sampling {
            sampling.switch(true);
        }
        self.spinning.give_up(clock::now_ns());
        if let Some(view) = &mut self.view {
            view.observer.resumed(clock::now_ns());
        }
    }

    /// Saves the report so far as text in a new file in the working directory.
    fn save(&mut self) {
        let Some(view) = self.view.take() else {
            return;
        };
        let report = self.snapshot(&view.observer, view.last.as_deref()).report;
        self.view = Some(view);
        let saved = output::save(&report, self.pid);
        self.notice(match saved {
            Ok(path) => format!("saved in {}", path.display()),
            Err(error) => format!("not saved: {}", without_codes(&format!("{error:#}"))),
        });
    }

    /// Names a site, in this run and in `sbt.toml`.
    fn name(&mut self, site: u32, name: &str) {
        let Some(site) = self.model.sites().all().get(site as usize) else {
            return;
        };
        let places = self.resolver.places();
        let all: Vec<&Place> = places.iter().map(AsRef::as_ref).collect();
        let first = site.places.first().and_then(|id| all.get(id.0 as usize));
        let Some(written) = first.map(|place| place.written(&all)) else {
            return;
        };
        let folder = std::env::current_dir().ok();
        let saved = settings::add_name(folder.as_deref(), &written, name);
        let answer = match saved {
            Ok((named, file)) => {
                self.settings.names.retain(|old| old.site != named.site);
                self.settings.names.push(named);
                format!("{written} is now named {name}, saved in {}", file.display())
            }
            Err(error) => format!("not named: {error}"),
        };
        self.notice(answer);
    }

    /// Suspends sbt and the program, as a shell's job control does, until continued.
    async fn suspend(&mut self) -> anyhow::Result<()> {
        self.signal_program(Signal::SIGTSTP);
        // If the program stops too, the pause must not count as its time; if the program runs on,
        // there is no screen to show its work.
        let pauses = !self.is_off();
        if pauses {
            self.watch_no_more().await;
        }
        self.hangs.let_look_end().await;
        if let Some(view) = &self.view {
            view.handle.suspend();
            self.say_screen(false);
        }
        stop_ourselves();
        if let Some(view) = &mut self.view {
            // `bg` or the end of the shell may have continued sbt without the terminal.
            view.is_away = true;
        }
        if pauses {
            self.watch_again();
        }
        self.signal_program(Signal::SIGCONT);
        Ok(())
    }

    /// Sends a signal to the foreground processes of the program's terminal, or to the program
    /// itself. After the program is reaped the signal is dropped: its id may belong to another
    /// process.
    fn signal_program(&self, signal: Signal) {
        if self.exit_status.is_some() {
            return;
        }
        match (&self.terminal, &self.running) {
            (Some(terminal), _) => terminal.signal(signal),
            (None, Some(running)) => running.signal(signal as i32),
            (None, None) => {}
        }
    }
}
