//! The list for choosing counters while the program runs: the counters this machine has, and why
//! the others are unavailable.

use std::collections::BTreeSet;

use ratatui::{
    buffer::Buffer,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::{Clear, Widget as _},
};

use super::{
    counters::chosen,
    words::{fit, left, put, rule, width},
};
use crate::screen::theme::Look;
use sbt_engine::live::{Offer, Request, Snapshot};

/// Maximum length of the search text, in characters.
const MOST: usize = 30;
/// Maximum width of a counter's name, in columns.
const NAME: usize = 34;

/// The fate of the list after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// The list stays open.
    Stay,
    /// The list closes; the session carries out the request, if there is one.
    Close(Option<Request>),
}

/// The open list, with the counters chosen so far.
#[derive(Clone, Debug)]
pub struct Chooser {
    chosen: BTreeSet<String>,
    /// Only counters whose name contains this lower-case text are listed.
    text: String,
    /// Index of the selected row; `top` is the index of the first visible row.
    at: usize,
    top: usize,
    /// Number of visible rows when the list was last drawn.
    height: usize,
}

impl Chooser {
    /// Starts with the counters that are being counted now.
    pub fn new(snapshot: &Snapshot) -> Self {
        let names = chosen(snapshot).map(|(counter, _)| counter.name.clone());
        Self {
            chosen: names.collect(),
            text: String::new(),
            at: 0,
            top: 0,
            height: 1,
        }
    }

    /// The rows that match the search text, available counters first.
    fn rows<'a>(&self, offers: &'a [Offer]) -> Vec<&'a Offer> {
        let matches = |offer: &&Offer| offer.name.to_lowercase().contains(&self.text);
        let mut rows: Vec<&Offer> = offers.iter().filter(matches).collect();
        rows.sort_by_key(|offer| offer.missing.is_some());
        rows
    }

    /// Draws the list over a tab.
    pub fn draw(&mut self, snapshot: &Snapshot, look: Look, buffer: &mut Buffer, area: Rect) {
        Clear.render(area, buffer);
        let Some(offers) = &snapshot.offers else {
            rule(buffer, area, "counters", "", look);
            put(
                buffer,
                area,
                1,
                &Line::raw(" looking for the counters of this machine …"),
            );
            return;
        };
        let rows = self.rows(offers);
        self.at = self.at.min(rows.len().saturating_sub(1));
        self.height = usize::from(area.height.saturating_sub(2)).max(1);
        self.top = self
            .top
            .clamp((self.at + 1).saturating_sub(self.height), self.at);
        let title = if self.text.is_empty() {
            "counters: choose which to count from now on".to_owned()
        } else {
            format!("counters with \"{}\"", self.text)
        };
        let note = format!("{} of {}", rows.len(), offers.len());
        rule(buffer, area, &title, &note, look);
        let name = rows.iter().map(|offer| width(&offer.name)).max();
        let name = name.unwrap_or(0).min(NAME);
        let shown = rows.iter().enumerate().skip(self.top).take(self.height);
        for (row, (at, offer)) in (1..).zip(shown) {
            put(
                buffer,
                area,
                row,
                &self.row(offer, at == self.at, name, area, look),
            );
        }
        if rows.is_empty() {
            put(
                buffer,
                area,
                1,
                &Line::raw("   no counter has this text in its name"),
            );
        }
    }

    fn row(
        &self,
        offer: &Offer,
        is_selected: bool,
        name: usize,
        area: Rect,
        look: Look,
    ) -> Line<'static> {
        let mark = match (&offer.missing, self.chosen.contains(&offer.name)) {
            (Some(_), _) => "   ",
            (None, true) => "[x]",
            (None, false) => "[ ]",
        };
        let about = match &offer.missing {
            Some(why) => format!("not available: {why}"),
            None => offer.about.clone(),
        };
        let pointer = if is_selected {
            look.pick("▸", ">")
        } else {
            " "
        };
        let text = format!(
            "{pointer} {mark} {}  {about}",
            left(&offer.name, name, look)
        );
        let text = left(
            &fit(&text, area.width.into(), look),
            area.width.into(),
            look,
        );
        let style = match (is_selected, offer.missing.is_some()) {
            (true, _) => look.chosen(),
            (false, true) => look.dim(),
            (false, false) => Style::new(),
        };
        Line::from(Span::styled(text, style))
    }

    /// Handles a key.
    pub fn key(&mut self, key: &KeyEvent, snapshot: &Snapshot) -> Then {
        let offers = snapshot.offers.as_deref().map_or(&[][..], Vec::as_slice);
        let rows = self.rows(offers);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc if !self.text.is_empty() => self.text.clear(),
            KeyCode::Esc => return Then::Close(None),
            KeyCode::Char('c') if control => return Then::Close(None),
            KeyCode::Enter => {
                let names = self.chosen.iter().cloned().collect();
                return Then::Close(Some(Request::Count(names)));
            }
            KeyCode::Up => self.at = self.at.saturating_sub(1),
            KeyCode::Down => self.at += 1,
            KeyCode::PageUp => self.at = self.at.saturating_sub(self.height),
            KeyCode::PageDown => self.at += self.height,
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = rows.len(),
            KeyCode::Char(' ') => {
                if let Some(offer) = rows.get(self.at).filter(|offer| offer.missing.is_none())
                    && !self.chosen.remove(&offer.name)
                {
                    self.chosen.insert(offer.name.clone());
                }
            }
            KeyCode::Backspace => {
                self.text.pop();
            }
            KeyCode::Char(c) if !control && self.text.chars().count() < MOST => {
                self.text.extend(c.to_lowercase());
                self.at = 0;
            }
            _ => {}
        }
        self.at = self.at.min(self.rows(offers).len().saturating_sub(1));
        Then::Stay
    }
}

/// Key hints for the last line while the list is open.
pub const KEYS: [(&str, &str); 5] = [
    ("Space", "choose"),
    ("Enter", "count these"),
    ("Esc", "leave it"),
    ("letters", "find"),
    ("up/down", "select"),
];
