//! The tabs. A new tab takes a file and a line in [`all`].

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
mod log;
mod looked;
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
mod waits;

/// The data and the style of a tab's drawing.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The snapshot to draw.
    pub snapshot: &'a Snapshot,
    /// Whether the snapshot is frozen, so that it no longer shows the present.
    pub paused: bool,
    /// The capabilities of the terminal.
    pub look: Look,
}

/// A key and what it does, for the last line.
pub type Hint = (&'static str, &'static str);

/// A tab of the screen.
pub trait Tab: Send {
    /// The full title.
    fn title(&self) -> &'static str;

    /// A shorter title, used if space is short.
    fn short_title(&self) -> &'static str {
        self.title()
    }

    /// The shortest title, used if space is very short.
    fn brief_title(&self) -> &'static str {
        self.short_title()
    }

    /// Draws the tab.
    fn draw(&mut self, view: &View, buffer: &mut Buffer, area: Rect);

    /// Handles an action. Returns what the session has to do.
    fn act(&mut self, action: Action, view: &View) -> Vec<Request>;

    /// Hints for the tab's own keys.
    fn hints(&self) -> Vec<Hint> {
        Vec::new()
    }

    /// Handles a click within the tab.
    fn click(&mut self, _at: Position) {}

    /// The text of the tab's filter; `None` if the tab has no filter.
    fn filter(&mut self) -> Option<&mut String> {
        None
    }

    /// Id of the selected site, if any.
    fn site(&self) -> Option<u32> {
        None
    }

    /// The tab's own key; `None` if the key is the digit of the tab's position.
    fn key(&self) -> Option<char> {
        None
    }

    /// Whether the tab has anything to show; otherwise it is hidden.
    fn is_there(&self, _snapshot: &Snapshot) -> bool {
        true
    }

    /// Whether the user should look at this tab now.
    fn is_alarming(&self, _snapshot: &Snapshot) -> bool {
        false
    }

    /// Whether the tab shows the program's output.
    fn is_output(&self) -> bool {
        false
    }
}

/// All tabs, in their order on the screen.
pub fn all() -> Vec<Box<dyn Tab>> {
    vec![
        Box::new(barriers::Barriers::default()),
        Box::new(threads::Threads::default()),
        Box::new(timeline::Timeline::default()),
        Box::new(phases::Phases::default()),
        Box::new(output::OutputTab::default()),
        Box::new(log::Log::default()),
        Box::new(waits::Waits::default()),
        Box::new(parallelism::Parallelism::default()),
        Box::new(path::Path::default()),
        Box::new(help::Help::default()),
        Box::new(hang::Hang::default()),
    ]
}

/// Index of the help in [`all`].
pub const HELP: usize = 9;

/// Index of the hang in [`all`]. This tab comes and goes, so it has no digit.
pub const HANG: usize = 10;
