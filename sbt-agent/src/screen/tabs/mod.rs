//! The tabs. A new one is a file and a line in [`all`].

use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
};

use super::keys::Action;
use crate::screen::theme::Look;
use sbt_engine::live::{Request, Snapshot};

mod arrivals;
mod barriers;
mod busy;
mod counters;
mod figures;
mod hang;
mod help;
mod locks;
mod log;
mod output;
mod parallelism;
mod path;
mod phases;
mod site;
mod split;
mod strip;
mod threads;
mod timeline;
mod views;

/// What there is to draw, and how.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// How things stand.
    pub snapshot: &'a Snapshot,
    /// Whether that is no longer the present.
    pub paused: bool,
    /// What the terminal can show.
    pub look: Look,
}

/// A key and what it does, for the last line.
pub type Hint = (&'static str, &'static str);

/// A tab.
pub trait Tab: Send {
    /// Its name.
    fn title(&self) -> &'static str;

    /// The same where there is little room.
    fn short_title(&self) -> &'static str {
        self.title()
    }

    /// The same where there is hardly any.
    fn brief_title(&self) -> &'static str {
        self.short_title()
    }

    /// Draws it.
    fn draw(&mut self, view: &View, buffer: &mut Buffer, area: Rect);

    /// Does what a key asks for; what the session has to do for it.
    fn act(&mut self, action: Action, view: &View) -> Vec<Request>;

    /// Its own keys.
    fn hints(&self) -> Vec<Hint> {
        Vec::new()
    }

    /// A click within its area.
    fn click(&mut self, _at: Position) {}

    /// The text that it filters by, if it does.
    fn filter(&mut self) -> Option<&mut String> {
        None
    }

    /// The site that is selected.
    fn site(&self) -> Option<u32> {
        None
    }

    /// Its key, if that is not the digit of its place.
    fn key(&self) -> Option<char> {
        None
    }

    /// Whether there is anything to show; without, the tab is not there.
    fn is_there(&self, _snapshot: &Snapshot) -> bool {
        true
    }

    /// Whether the user should look here now.
    fn is_alarming(&self, _snapshot: &Snapshot) -> bool {
        false
    }

    /// Whether this is where the program's output is.
    fn is_output(&self) -> bool {
        false
    }
}

/// All, in their order.
pub fn all() -> Vec<Box<dyn Tab>> {
    vec![
        Box::new(barriers::Barriers::default()),
        Box::new(threads::Threads::default()),
        Box::new(timeline::Timeline::default()),
        Box::new(phases::Phases::default()),
        Box::new(output::OutputTab::default()),
        Box::new(log::Log::default()),
        Box::new(locks::Locks::default()),
        Box::new(parallelism::Parallelism::default()),
        Box::new(path::Path::default()),
        Box::new(help::Help::default()),
        Box::new(hang::Hang::default()),
    ]
}

/// Which of them is the help,
pub const HELP: usize = 9;

/// and which the hang: it comes and goes, so that it has no digit.
pub const HANG: usize = 10;
