//! The contents of the live screen, and the terminal of the program meanwhile.

use std::{io, sync::Arc};

use anyhow::Context as _;
use nix::sys::signal::Signal;

use super::understanding::Understanding;
use crate::{
    kernel::counting::list,
    screen::Look,
    terminal::{Ends, Relay, Terminal, stop_ourselves},
};
use sbt_engine::{
    counters::Plan,
    live::{Offer, Request},
    place::Place,
    report::Report,
};
use sbt_program::{clock, launch::Running};

mod counted;
pub mod observer;
mod open;
mod rest;

use observer::Observer;
use open::OpenScreen;

/// The contents of the live screen.
#[derive(Default)]
pub struct View {
    /// The screen while it is open.
    screen: Option<OpenScreen>,
    /// The terminal of the program while the live screen uses the real terminal.
    terminal: Option<Terminal>,
    /// Connects the program's terminal with the real terminal once the screen is closed.
    relay: Option<Relay>,
}

/// The view's wishes to the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The user asks for something.
    Asked(Request),
    /// It is time for a new snapshot.
    Due,
    /// The view has handled what the program wrote.
    Handled,
}

impl View {
    /// Takes the terminal of the program.
    pub fn connect(&mut self, terminal: Option<Terminal>) {
        self.terminal = terminal;
    }

    /// Whether the screen is open.
    pub const fn is_open(&self) -> bool {
        self.screen.is_some()
    }

    /// Waits for something to do; for ever if there is neither a screen nor a terminal of the
    /// program.
    ///
    /// # Errors
    /// What the program writes cannot be read or passed on.
    pub async fn turn(&mut self) -> anyhow::Result<Turn> {
        let Self {
            screen,
            terminal,
            relay,
        } = self;
        tokio::select! {
            turn = OpenScreen::turn(screen) => Ok(turn),
            result = Terminal::turn_of(terminal) => {
                if result.context("reading the program's output")? {
                    self.has_news();
                }
                Ok(Turn::Handled)
            }
            // Runs only if the screen could not be opened.
            result = Relay::turn_of(relay) => {
                result.context("passing on what the program writes")?;
                Ok(Turn::Handled)
            }
        }
    }

    /// Passes on what the program writes; waits for ever while nothing is to be passed on.
    ///
    /// # Errors
    /// The program's output cannot be read or passed on.
    pub async fn relay(&mut self) -> anyhow::Result<()> {
        let turn = Relay::turn_of(&mut self.relay).await;
        turn.context("passing on what the program writes")
    }

    /// Marks that there is something new to show.
    fn has_news(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.news = true;
        }
    }

    /// Notes that all events up to now are known.
    pub fn heard(&mut self) {
        self.has_news();
        if let Some(screen) = &mut self.screen {
            screen.observer.heard_ns = clock::now_ns();
        }
    }

    /// Shows lines on the screen, each text with its time (`CLOCK_MONOTONIC`, ns); returns false if
    /// there is no screen.
    pub fn tell(&mut self, texts: &[(u64, String)]) -> bool {
        if let Some(screen) = &mut self.screen {
            screen.observer.told(texts);
        }
        self.is_open()
    }

    /// Shows the answer to a request.
    pub fn notice(&mut self, text: String) {
        if let Some(screen) = &mut self.screen {
            screen.observer.notice(text);
        }
    }

    /// Shows the answer to a request soon.
    pub fn hurry(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.hurry();
        }
    }

    /// Opens the screen. `report`: the report so far.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub fn open(
        &mut self,
        look: Look,
        (start_ns, now_ns): (u64, u64),
        report: Report,
        understanding: &Understanding,
        counters: &Plan,
    ) -> io::Result<()> {
        let mut observer = Observer::new(start_ns);
        let output = self.terminal.as_mut().map(Terminal::output);
        let places = places(understanding);
        let present = understanding.model().present().collect();
        let model = understanding.model();
        let said = (report, counters);
        let first = observer.snapshot(now_ns, model, present, &places, said, output);
        self.screen = Some(OpenScreen::open(look, observer, first)?);
        Ok(())
    }

    /// Begins a snapshot. Returns whether one is wanted, and whether the terminal is back from
    /// another job; `None` without a screen.
    pub fn begin_snapshot(&mut self) -> Option<(bool, bool)> {
        self.screen.as_mut().map(OpenScreen::begin_snapshot)
    }

    /// Sends the snapshot that [`Self::begin_snapshot`] began, as of `now_ns`.
    pub fn show(
        &mut self,
        now_ns: u64,
        report: Report,
        understanding: &Understanding,
        counters: &Plan,
    ) {
        let Some(screen) = &mut self.screen else {
            return;
        };
        let model = understanding.model();
        screen.observer.count(now_ns, model);
        let output = self.terminal.as_mut().map(Terminal::output);
        // After the end of the program no thread is present, even if its end was not seen.
        let present = model.present().filter(|_| screen.last.is_none()).collect();
        let (places, said) = (places(understanding), (report, counters));
        let observer = &mut screen.observer;
        let snapshot = observer.snapshot(now_ns, model, present, &places, said, output);
        screen.send(snapshot);
    }

    /// The report of a program that has ended, once that is shown.
    pub fn last(&self) -> Option<&Report> {
        self.screen.as_ref()?.last.as_deref()
    }

    /// Shows the end of the program from here on.
    pub fn end(&mut self, report: &Report) {
        if let Some(terminal) = &mut self.terminal {
            terminal.take_rest();
            terminal.look_seldom();
        }
        if let Some(screen) = &mut self.screen {
            screen.last = Some(Box::new(report.clone()));
        }
    }

    /// Shows that the probes are off since `off_ns`.
    pub fn went_off(&mut self, off_ns: u64) {
        if let Some(screen) = &mut self.screen {
            screen.observer.off_ns = Some(off_ns);
        }
    }

    /// Shows that the probes are on again.
    pub fn came_on(&mut self, now_ns: u64) {
        if let Some(screen) = &mut self.screen {
            screen.observer.resumed(now_ns);
        }
    }

    /// Notes a reset of all totals, which had begun at `start_ns`.
    pub fn reset(&mut self, start_ns: u64) {
        if let Some(screen) = &mut self.screen {
            screen.observer.reset(start_ns);
        }
    }

    /// Shortens or lengthens the pieces of time in the lanes.
    pub fn zoom(&mut self, closer: bool) {
        if let Some(screen) = &mut self.screen {
            screen.observer.zoom(closer);
        }
    }

    /// Tells the screen which counters this machine has.
    pub fn offer(&mut self) {
        let offers = list::machine().into_iter().map(|entry| Offer {
            name: entry.name,
            about: entry.about,
            missing: entry.missing,
        });
        let offers = offers.collect();
        if let Some(screen) = &mut self.screen {
            screen.observer.offers = Some(Arc::new(offers));
        }
    }

    /// Types keys on the program's terminal.
    pub fn type_keys(&mut self, keys: &[u8]) {
        if let Some(terminal) = &mut self.terminal
            && terminal.keys(keys) < keys.len()
        {
            self.notice("the program does not read its input: some keys were dropped".into());
        }
    }

    /// Sets the size of the program's terminal.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        match &self.terminal {
            Some(terminal) => terminal.resize(columns, rows),
            None => Ok(()),
        }
    }

    /// Sends a signal to the foreground processes of the program's terminal. Returns false if there
    /// is none.
    pub fn signal(&self, signal: Signal) -> bool {
        if let Some(terminal) = &self.terminal {
            terminal.signal(signal);
        }
        self.terminal.is_some()
    }

    /// Gives the real terminal back. Returns whether the screen was open.
    pub fn suspend(&self) -> bool {
        if let Some(screen) = &self.screen {
            screen.handle.suspend();
        }
        self.is_open()
    }

    /// Notes that `bg` or the end of the shell may have continued sbt without the terminal.
    pub fn set_away(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.is_away = true;
        }
    }

    /// Takes the real terminal again.
    pub fn resume(&self) {
        if let Some(screen) = &self.screen {
            screen.handle.resume();
        }
    }

    /// Closes the screen. Returns the lines for the user that were kept meanwhile; `None` if there
    /// is no screen.
    pub fn close(&mut self) -> Option<impl Iterator<Item = String> + use<>> {
        let screen = self.screen.take()?;
        Some(screen.close().into_told())
    }

    /// From here on the program uses the real terminal. `running`: the program, if it has not ended.
    ///
    /// # Errors
    /// The terminals cannot be joined.
    pub fn join(&mut self, running: Option<&mut Running>) -> anyhow::Result<()> {
        if let Some(terminal) = &mut self.terminal {
            if running.is_none() {
                terminal.take_rest();
            }
            // If this fails, the program's output is still read: a full terminal would block the
            // program.
            let ends = Ends::open(running).context("joining the terminals")?;
            self.relay = self.terminal.take().map(|terminal| ends.join(terminal));
        }
        Ok(())
    }

    /// Runs `act` on the real terminal, after all output of the program so far. `ended`: the program
    /// has ended.
    ///
    /// # Errors
    /// The output cannot be written, or `act` fails.
    pub async fn aside(
        &mut self,
        ended: bool,
        act: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if ended {
            self.finish().await?;
            return act();
        }
        let Some(relay) = &mut self.relay else {
            return act();
        };
        while !relay.is_up_to_date() {
            relay.turn().await.context("writing the program's output")?;
        }
        relay.aside(act)
    }

    /// Shows the rest of the program's output after its end.
    ///
    /// # Errors
    /// The output cannot be written.
    pub async fn finish(&mut self) -> anyhow::Result<()> {
        match &mut self.relay {
            Some(relay) => relay.finish().await.context("writing the program's output"),
            None => Ok(()),
        }
    }

    /// Stops sbt as a signal from the terminal asks.
    pub fn stop_ourselves(&mut self) {
        match &mut self.relay {
            Some(relay) => relay.aside(stop_ourselves),
            None => stop_ourselves(),
        }
    }

    /// Restores the real terminal before sbt ends at once.
    pub fn abandon(&mut self) {
        self.relay = None;
    }
}

/// All places so far.
fn places(understanding: &Understanding) -> Vec<&Place> {
    understanding.places().iter().map(AsRef::as_ref).collect()
}
