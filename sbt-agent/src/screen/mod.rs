//! The live screen. Drawing is a function of its state and a snapshot; keys become requests to the
//! session. [`terminal`] is the only module that touches the terminal.

use ratatui::{
    Frame,
    buffer::Buffer,
    crossterm::event::{Event, KeyEvent, KeyEventKind, MouseButton, MouseEvent, MouseEventKind},
    layout::{Constraint, Layout, Position, Rect},
};

use sbt_engine::live::{Request, Snapshot};

mod chooser;
mod counters;
mod ended;
mod facts;
mod footer;
mod grid;
mod header;
pub mod keys;
mod lanes;
mod list;
mod pager;
mod replay;
mod tabs;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod theme;
mod words;

pub use crate::screen::theme::Look;
use chooser::Chooser;
use footer::Dialog;
use keys::{Action, Move};
use replay::Meaning;
use tabs::{HANG, HELP, Tab, View};
pub use terminal::{Handle, Screen, restore};

/// Minimum columns and rows of a usable screen.
pub const LEAST: (u16, u16) = (60, 15);

/// Rows outside of the tab: header, names of the tabs, last line.
const CHROME: u16 = header::HEIGHT + 2;

/// Rows scrolled by one notch of the mouse wheel.
const NOTCH: usize = 3;

/// How long an answer is shown if no key is pressed, ns.
const NOTICE_NS: u64 = 10_000_000_000;

/// The terminal size that a program should assume if its output is shown on a screen of this many
/// columns and rows.
pub fn program_size(columns: u16, rows: u16) -> (u16, u16) {
    // One more row is taken by the title of the tab.
    (columns.max(1), rows.saturating_sub(CHROME + 1).max(1))
}

/// The state of the screen: all that the user has changed.
pub struct State {
    look: Look,
    tabs: Vec<Box<dyn Tab>>,
    current: usize,
    /// The tab that was shown before the help.
    before_help: usize,
    /// The snapshot that was frozen, shown instead of the present one.
    paused: Option<Box<Snapshot>>,
    dialog: Option<Dialog>,
    /// The open list of counters.
    chooser: Option<Chooser>,
    /// `Some` while the program has the keyboard. The flag says whether an Esc is held back for the
    /// program: a second Esc takes the keyboard back.
    typing: Option<bool>,
    /// Whether the user has not pressed a key yet: then few keys are told.
    is_new: bool,
    /// The screen's own answer to the last key.
    said: Option<&'static str>,
    /// Number of the answer last shown, and since when it is shown, ns (0 once seen).
    notice: Option<(u64, u64)>,
    /// Screen columns of each tab's name as last drawn; `title_row` is their row.
    titles: Vec<(usize, std::ops::Range<u16>)>,
    title_row: u16,
    /// Screen area of the tab as last drawn.
    body: Rect,
}

impl State {
    /// The initial state.
    pub fn new(look: Look) -> Self {
        Self {
            look,
            tabs: tabs::all(),
            current: 0,
            before_help: 0,
            paused: None,
            dialog: None,
            chooser: None,
            typing: None,
            is_new: false,
            said: None,
            notice: None,
            titles: Vec::new(),
            title_row: 0,
            body: Rect::ZERO,
        }
    }

    /// The initial state for a program that runs: until the first key, only the most important keys are told.
    pub fn for_newcomer(look: Look) -> Self {
        Self {
            is_new: true,
            ..Self::new(look)
        }
    }

    /// Draws the screen for a snapshot into a frame.
    pub fn draw(&mut self, frame: &mut Frame, snapshot: &Snapshot) {
        let area = frame.area();
        let buffer = frame.buffer_mut();
        if area.width < LEAST.0 || area.height < LEAST.1 {
            draw_too_small(buffer, area, self.look);
        } else {
            let cursor = self.draw_all(buffer, area, snapshot);
            if let Some(cursor) = cursor {
                frame.set_cursor_position(cursor);
            }
        }
        if !self.look.unicode {
            only_ascii(frame.buffer_mut());
        }
    }

    fn draw_all(
        &mut self,
        buffer: &mut Buffer,
        area: Rect,
        snapshot: &Snapshot,
    ) -> Option<Position> {
        let [top, titles, body, bottom] = Layout::vertical([
            Constraint::Length(header::HEIGHT),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(area);
        if ended::is_over(snapshot) {
            // After the end nobody reads the typed text, and only the end can be shown.
            (self.typing, self.paused, self.chooser) = (None, None, None);
        }
        header::draw(snapshot, self.paused.is_some(), self.look, buffer, top);
        self.body = body;
        let shown = self.paused.as_deref().unwrap_or(snapshot);
        if !self.tabs[self.current].is_there(shown) {
            self.current = 0;
        }
        self.draw_titles(buffer, titles, snapshot);
        let view = View {
            snapshot: self.paused.as_deref().unwrap_or(snapshot),
            paused: self.paused.is_some(),
            look: self.look,
        };
        self.tabs[self.current].draw(&view, buffer, body);
        if let Some(chooser) = &mut self.chooser {
            chooser.draw(snapshot, self.look, buffer, body);
        }
        self.draw_footer(buffer, bottom, snapshot)
    }

    /// Handles an event. Returns what the session has to do.
    pub fn event(&mut self, event: &Event, snapshot: &Snapshot) -> Vec<Request> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(key, snapshot),
            Event::Paste(text) => self.paste(text),
            Event::Mouse(mouse) => self.mouse(*mouse, snapshot),
            Event::Resize(columns, rows) => {
                let (columns, rows) = program_size(*columns, *rows);
                vec![Request::Size(columns, rows)]
            }
            _ => Vec::new(),
        }
    }

    fn key(&mut self, key: &KeyEvent, snapshot: &Snapshot) -> Vec<Request> {
        self.said = None;
        self.is_new = false;
        // A user who presses a key has seen the answer.
        if let (Some((_, since_ns)), Some(_)) = (&mut self.notice, &snapshot.notice) {
            *since_ns = 0;
        }
        let is_over = ended::is_over(snapshot);
        if self.typing.is_some() && !is_over {
            return self.type_key(key);
        }
        if self.dialog.is_some() {
            return self.dialog_key(key);
        }
        if is_over {
            let open = self.is_open();
            return ended::action(key, open)
                .map_or_else(Vec::new, |action| self.act(action, snapshot));
        }
        if let Some(chooser) = &mut self.chooser {
            return match chooser.key(key, snapshot) {
                chooser::Then::Stay => Vec::new(),
                chooser::Then::Close(request) => {
                    self.chooser = None;
                    request.into_iter().collect()
                }
            };
        }
        if snapshot.replay.is_none() {
            return keys::action(key).map_or_else(Vec::new, |action| self.act(action, snapshot));
        }
        match replay::meaning(key) {
            Some(Meaning::Ask(request)) => return vec![request],
            Some(Meaning::Act(action)) => return self.act(action, snapshot),
            Some(Meaning::Say(text)) => self.said = Some(text),
            None => {}
        }
        Vec::new()
    }

    fn act(&mut self, action: Action, snapshot: &Snapshot) -> Vec<Request> {
        if self.current != HELP {
            self.before_help = self.current;
        }
        match action {
            Action::Leave => return vec![Request::Leave],
            Action::Interrupt => return vec![Request::Interrupt],
            Action::Suspend => return vec![Request::Suspend],
            Action::Toggle => return vec![Request::Toggle],
            Action::Reset => return vec![Request::Reset],
            Action::Save => return vec![Request::Save],
            Action::Tab(number) => self.turn_to(number, snapshot),
            Action::NextTab => self.turn(1, snapshot),
            Action::PreviousTab => self.turn(self.tabs.len() - 1, snapshot),
            Action::Help | Action::Back if self.current == HELP => {
                self.current = 0;
                self.turn_to(self.before_help, snapshot);
            }
            Action::Help => self.current = HELP,
            Action::Hang => self.turn_to(HANG, snapshot),
            Action::Pause => {
                self.paused = match self.paused.take() {
                    Some(_) => None,
                    None => Some(Box::new(snapshot.clone())),
                };
            }
            Action::Counters => {
                self.chooser = Some(Chooser::new(snapshot));
                return vec![Request::Offer];
            }
            Action::Type => self.hand_over(snapshot),
            Action::Filter => match self.tabs[self.current].filter() {
                Some(_) => self.dialog = Some(Dialog::Filter),
                None => self.said = Some("nothing to filter on this tab"),
            },
            Action::Name => self.ask_name(snapshot),
            Action::ZoomIn | Action::ZoomOut if self.paused.is_some() => {
                self.said = Some("zoom works only on the present: press p to go on");
            }
            _ => return self.pass_on(action, snapshot),
        }
        Vec::new()
    }

    /// Whether the tab shows details, or hides rows by a filter.
    fn is_open(&mut self) -> bool {
        let tab = &mut self.tabs[self.current];
        let filters = tab.filter().is_some_and(|text| !text.is_empty());
        filters || tab.hints().iter().any(|(key, _)| *key == "Esc")
    }

    /// Shows the tab with this index, if it is available.
    fn turn_to(&mut self, tab: usize, snapshot: &Snapshot) {
        let shown = self.paused.as_deref().unwrap_or(snapshot);
        match self.tabs.get(tab) {
            Some(found) if found.is_there(shown) => self.current = tab,
            Some(_) if tab == HANG => self.said = Some("no hang was found"),
            _ => {}
        }
    }

    /// Shows the tab `step` places further on; skips tabs that are not available.
    fn turn(&mut self, step: usize, snapshot: &Snapshot) {
        let shown = self.paused.as_deref().unwrap_or(snapshot);
        let tabs = self.tabs.len();
        let next = (1..=tabs).map(|n| (self.current + n * step) % tabs);
        if let Some(next) = next.into_iter().find(|tab| self.tabs[*tab].is_there(shown)) {
            self.current = next;
        }
    }

    /// Passes an action on to the current tab.
    fn pass_on(&mut self, action: Action, snapshot: &Snapshot) -> Vec<Request> {
        let view = View {
            snapshot: self.paused.as_deref().unwrap_or(snapshot),
            paused: self.paused.is_some(),
            look: self.look,
        };
        self.tabs[self.current].act(action, &view)
    }

    fn hand_over(&mut self, snapshot: &Snapshot) {
        if snapshot.output.is_none() {
            self.said = Some("the program keeps its own terminal and keyboard");
        } else if let Some(output) = self.tabs.iter().position(|tab| tab.is_output()) {
            self.current = output;
            self.typing = Some(false);
            self.paused = None;
        }
    }

    /// Handles a key while the program has the keyboard.
    fn type_key(&mut self, key: &KeyEvent) -> Vec<Request> {
        let is_escape = keys::bytes(key) == [0x1b];
        let held = self.typing == Some(true);
        if keys::takes_back(key) || held && is_escape {
            self.typing = None;
            return Vec::new();
        }
        self.typing = Some(is_escape);
        if is_escape {
            return Vec::new();
        }
        let mut bytes = if held { vec![0x1b] } else { Vec::new() };
        bytes.extend(keys::bytes(key));
        if bytes.is_empty() {
            return Vec::new();
        }
        vec![Request::Keys(bytes)]
    }

    fn paste(&mut self, text: &str) -> Vec<Request> {
        if self.typing.is_some() {
            return vec![Request::Keys(text.as_bytes().to_vec())];
        }
        for c in text.chars().filter(|c| !c.is_control()) {
            if let Some(line) = self.line() {
                line.push(c);
            }
        }
        Vec::new()
    }

    fn mouse(&mut self, mouse: MouseEvent, snapshot: &Snapshot) -> Vec<Request> {
        let at = Position::new(mouse.column, mouse.row);
        let notch = |to: Move| std::iter::repeat_n(Action::Go(to), NOTCH);
        match mouse.kind {
            MouseEventKind::ScrollUp => notch(Move::Up)
                .flat_map(|action| self.pass_on(action, snapshot))
                .collect(),
            MouseEventKind::ScrollDown => notch(Move::Down)
                .flat_map(|action| self.pass_on(action, snapshot))
                .collect(),
            MouseEventKind::Down(MouseButton::Left) => {
                let tab = self.titles.iter().find(|(_, title)| title.contains(&at.x));
                if let (Some((tab, _)), true) = (tab, at.y == self.title_row) {
                    (self.current, self.dialog, self.typing) = (*tab, None, None);
                } else if self.body.contains(at) {
                    self.tabs[self.current].click(at);
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }
}

fn draw_too_small(buffer: &mut Buffer, area: Rect, look: Look) {
    let text = format!(
        "make the window larger: at least {}{}{}, now {}{}{}",
        LEAST.0,
        look.pick("×", "x"),
        LEAST.1,
        area.width,
        look.pick("×", "x"),
        area.height
    );
    let lines = words::wrap(&text, usize::from(area.width), look);
    words::put_all(buffer, area, lines.into_iter().map(Into::into));
}

/// Replaces characters beyond ASCII, which names from the program may contain, on terminals that
/// cannot show them.
fn only_ascii(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if !cell.symbol().is_ascii() {
            cell.set_symbol("?");
        }
    }
}
