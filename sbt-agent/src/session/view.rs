//! The live screen, from the session's side: what it is shown, and what its
//! user wants.

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

/// Between two snapshots at the least,
const PERIOD: Duration = Duration::from_millis(150);
/// and at the most: the time is shown in seconds.
const CALM: Duration = Duration::from_secs(1);
/// Between a snapshot and the one that shows what the user asked for.
const PROMPT: Duration = Duration::from_millis(20);
/// Taking them may use one part in so many of the time.
const SPARED: u32 = 50;
/// Without news from the source for so long, all that happened before is in.
const SILENCE: Duration = Duration::from_millis(150);

/// So many of these are waited for at most.
const MOST_SILENCES: u32 = 4;

/// The screen while it is open.
pub struct View {
    handle: Handle,
    latest: watch::Sender<Arc<Snapshot>>,
    requests: UnboundedReceiver<Request>,
    pub observer: Observer,
    /// When the latest was taken, and when the next may be.
    taken: Instant,
    due: Instant,
    /// That something has happened since.
    news: bool,
    /// That the terminal is somebody else's, since we go on in the background.
    is_away: bool,
    /// That of a program that has ended: from then on nothing changes but what the user does,
    /// and what others write to the program's terminal.
    last: Option<Box<Report>>,
}

impl View {
    /// Something has happened that is to be shown.
    pub fn has_news(view: &mut Option<Self>) {
        if let Some(view) = view {
            view.news = true;
        }
    }

    /// All that happened before now is known.
    pub fn heard(view: &mut Option<Self>) {
        Self::has_news(view);
        if let Some(view) = view {
            view.observer.heard_ns = clock::now_ns();
        }
    }

    /// What comes next from it.
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
            // Gone without being asked to: the terminal is.
            request = view.requests.recv() => Turn::Asked(request.unwrap_or(Request::Leave)),
            () = sleep_until(due), if view.news || !is_still => Turn::Due,
        }
    }

    /// From here on the end of the program is shown.
    pub fn end(view: &mut Option<Self>, report: &Report) {
        if let Some(view) = view {
            view.last = Some(Box::new(report.clone()));
        }
    }

    /// Closes the screen, and gives what was told meanwhile.
    pub fn close(self) -> Observer {
        self.handle.close();
        self.observer
    }
}

/// What comes from the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The user wants something.
    Asked(Request),
    /// It is time to show something new.
    Due,
}

/// What becomes of the watching.
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

    /// Says whether there is a screen, in case that we are killed.
    pub fn say_screen(&self, on: bool) {
        if let Some(running) = &self.running {
            running.has_screen(on);
        }
    }

    /// The moment that is shown: now, and after the end of watching that end, ns.
    fn shown_ns(&self) -> u64 {
        if self.source.is_some() {
            clock::now_ns()
        } else {
            self.end_ns
        }
    }

    /// `last`: the report of a program that has ended.
    fn snapshot(&mut self, observer: &Observer, last: Option<&Report>) -> Snapshot {
        let now_ns = self.shown_ns();
        let report = match last {
            Some(last) => last.clone(),
            None => self.report_so_far(self.facts(now_ns)),
        };
        let places: Vec<&Place> = self.resolver.places().iter().map(AsRef::as_ref).collect();
        let output = self.terminal.as_mut().map(Terminal::output);
        // Where the end of a thread was not seen, the thread has ended all the same.
        let present = self.model.present().filter(|_| last.is_none()).collect();
        let said = (report, &self.counters);
        observer.snapshot(now_ns, &self.model, present, &places, said, output)
    }

    /// Shows how things stand.
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

    /// Does what the user wants.
    pub async fn obey(&mut self, request: Request) -> anyhow::Result<Then> {
        match request {
            Request::Leave => return Ok(Then::End),
            Request::Interrupt => {
                self.interrupted = true;
                self.signal_program(Signal::SIGINT);
                return Ok(Then::End);
            }
            Request::Toggle => self.toggle().await,
            // What was asked for just before the program ended.
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
                    self.notice("the program does not read: not all was typed".into());
                }
            }
            Request::Size(columns, rows) => {
                if let Some(terminal) = &self.terminal {
                    terminal.resize(columns, rows)?;
                }
            }
            Request::Suspend => self.suspend().await?,
            // There is none.
            Request::Play(_) => {}
        }
        if let Some(view) = &mut self.view {
            // The answer should not seem to be late.
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

    /// Takes the probes off.
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
        // What was seen before still has to come in. It may never be silent: the lives of
        // threads are still told.
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

    /// Puts them on again.
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

    /// The report so far, as text, into a new file of the working directory.
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

    /// Names a site, here and in `sbt.toml`.
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
                format!("{written} is {name}, also in {}", file.display())
            }
            Err(error) => format!("not named: {error}"),
        };
        self.notice(answer);
    }

    /// Stops, as a shell's job control does, until continued.
    async fn suspend(&mut self) -> anyhow::Result<()> {
        self.signal_program(Signal::SIGTSTP);
        // The time in which a program stands still with us is not its own; of one
        // that runs on, nobody would read what it does.
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
            // Not if it was `bg` that continued us, or the shell's end.
            view.is_away = true;
        }
        if pauses {
            self.watch_again();
        }
        self.signal_program(Signal::SIGCONT);
        Ok(())
    }

    /// Sends a signal to whoever is in front on the program's terminal, or to the program. One
    /// that has been reaped gets none: its number may be another's.
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
