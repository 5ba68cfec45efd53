//! Carries out what the user of the live screen asks for.

use std::{io, time::Duration};

use nix::sys::signal::Signal;
use tokio::time::{Instant, timeout};

use super::Session;
use crate::{output, screen::Look, settings, terminal};
use sbt_engine::{counters::Counter, live::Request, words::without_codes};
use sbt_program::clock;

/// The time without a batch after which all earlier events are known to have come in.
const SILENCE: Duration = Duration::from_millis(150);

/// The number of [`SILENCE`] times to wait at most after the probes are switched off.
const MOST_SILENCES: u32 = 4;

/// The session's next step after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    GoOn,
    End,
}

impl Session {
    /// Opens the screen.
    pub(super) fn open_screen(&mut self, look: Look) -> io::Result<()> {
        self.understanding.keep_lanes();
        let now_ns = self.watch.until_ns(clock::now_ns());
        let times = (self.watch.start_ns(), now_ns);
        let report = self.report_so_far(now_ns);
        self.program.say_screen(true);
        let counters = self.watch.counters();
        self.view
            .open(look, times, report, &self.understanding, counters)
            .inspect_err(|_| self.program.say_screen(false))
    }

    /// Sends a new snapshot to the screen.
    pub(super) fn show(&mut self) {
        let Some((is_wanted, is_back)) = self.view.begin_snapshot() else {
            return;
        };
        if is_back {
            self.program.say_screen(true);
            self.view.resume();
        }
        if is_wanted {
            let now_ns = self.watch.until_ns(clock::now_ns());
            let report = match self.view.last() {
                Some(last) => last.clone(),
                None => self.report_so_far(now_ns),
            };
            let counters = self.watch.counters();
            self.view
                .show(now_ns, report, &self.understanding, counters);
        }
    }

    /// Carries out a request.
    pub(super) async fn obey(&mut self, request: Request) -> anyhow::Result<Then> {
        match request {
            Request::Leave => return Ok(Then::End),
            Request::Interrupt => {
                self.program.interrupt();
                self.signal_program(Signal::SIGINT);
                return Ok(Then::End);
            }
            Request::Toggle if self.watch.is_off() => self.watch_again(),
            Request::Toggle => self.watch_no_more().await,
            Request::Reset => self.reset(),
            Request::Offer => self.view.offer(),
            Request::Count(names) => self.count(&names),
            Request::Save => self.save(),
            Request::Name { site, name } => self.name(site, &name),
            Request::Zoom { closer } => self.view.zoom(closer),
            Request::Keys(keys) => self.view.type_keys(&keys),
            Request::Size(columns, rows) => self.view.resize(columns, rows)?,
            Request::Suspend => self.suspend().await,
            // Only a replay has playback.
            Request::Play(_) => {}
        }
        self.view.hurry();
        Ok(Then::GoOn)
    }

    /// Resets all totals.
    pub(super) fn reset(&mut self) {
        if !self.watch.is_on() {
            // The request came just before the program ended.
            return;
        }
        self.start_counting();
        self.view.notice("all totals are reset".into());
    }

    /// Counts the named counters from now on, and no others.
    fn count(&mut self, names: &[String]) {
        let wanted: Vec<Counter> = names.iter().filter_map(|name| name.parse().ok()).collect();
        if let Some(answer) = self.watch.choose(&wanted, self.reporting.notes()) {
            self.view.notice(answer);
        }
    }

    /// Switches the probes off.
    pub(super) async fn watch_no_more(&mut self) {
        if !self.watch.is_on() {
            return;
        }
        let off_ns = clock::now_ns();
        self.understanding.lose_sight(off_ns);
        self.watch.pause(off_ns);
        self.understanding.set_off(false);
        self.understanding.switch_sampling(false);
        // Earlier events still have to come in. The queue may never fall silent, since events about
        // the lives of threads go on.
        let latest = Instant::now() + MOST_SILENCES * SILENCE;
        while Instant::now() < latest
            && let Ok(Some(batch)) = timeout(SILENCE, self.batches.recv()).await
        {
            self.understanding.sample();
            self.take(&batch);
        }
        self.understanding.gap(clock::now_ns());
        self.watch.set_off();
        self.view.went_off(off_ns);
    }

    /// Switches the probes on again.
    pub(super) fn watch_again(&mut self) {
        if !self.watch.is_on() {
            return;
        }
        self.understanding.gap(clock::now_ns());
        self.watch.resume(self.reporting.notes());
        self.understanding.regain_sight(clock::now_ns());
        self.understanding.switch_sampling(true);
        self.understanding.give_up_spins(clock::now_ns());
        self.view.came_on(clock::now_ns());
    }

    /// Saves the report so far as text in a new file in the working directory.
    fn save(&mut self) {
        if !self.view.is_open() {
            return;
        }
        let now_ns = self.watch.until_ns(clock::now_ns());
        let saved = match self.view.last() {
            Some(last) => output::save(last, self.program.pid()),
            None => output::save(&self.report_so_far(now_ns), self.program.pid()),
        };
        self.view.notice(match saved {
            Ok(path) => format!("saved in {}", path.display()),
            Err(error) => format!("not saved: {}", without_codes(&format!("{error:#}"))),
        });
    }

    /// Names a site, in this run and in `sbt.toml`.
    fn name(&mut self, site: u32, name: &str) {
        let Some(written) = self.understanding.written(site) else {
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
        self.view.notice(answer);
    }

    /// Suspends sbt and the program, as a shell's job control does, until continued.
    async fn suspend(&mut self) {
        self.signal_program(Signal::SIGTSTP);
        // If the program stops too, the pause must not count as its time; if the program runs on,
        // there is no screen to show its work.
        let pauses = !self.watch.is_off();
        if pauses {
            self.watch_no_more().await;
        }
        self.understanding.let_look_end().await;
        if self.view.suspend() {
            self.program.say_screen(false);
        }
        terminal::stop_ourselves();
        self.view.set_away();
        if pauses {
            self.watch_again();
        }
        self.signal_program(Signal::SIGCONT);
    }

    /// Sends a signal to the foreground processes of the program's terminal, or to the program
    /// itself. After the program is reaped the signal is dropped: its id may belong to another
    /// process.
    fn signal_program(&self, signal: Signal) {
        if self.program.exit_status().is_none() && !self.view.signal(signal) {
            self.program.signal(signal);
        }
    }
}
