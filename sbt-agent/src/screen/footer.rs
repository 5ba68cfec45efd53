//! The line with the names of the tabs, and the last line: a prompt, an answer, or key hints.

use ratatui::{
    buffer::Buffer,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    layout::{Position, Rect},
    text::{Line, Span},
};

use super::{
    NOTICE_NS, State, chooser, ended, replay,
    tabs::{HANG, HELP, Hint, Tab},
    words::{self, fit, put, width},
};
use sbt_engine::{
    live::{Request, Snapshot, Watching},
    place::printable,
};

/// A prompt in the last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialog {
    /// Text that rows have to contain. The tab stores the text.
    Filter,
    /// A new name for a site.
    Name {
        /// Number of the site.
        site: u32,
        /// Current name of the site.
        was: String,
        /// Text typed so far.
        text: String,
    },
}

/// Maximum length of a name or filter, in characters.
const MOST: usize = 60;

impl State {
    pub(super) fn draw_titles(&mut self, buffer: &mut Buffer, area: Rect, snapshot: &Snapshot) {
        let look = self.look;
        let (names, wide) = self.tab_names(usize::from(area.width), snapshot);
        let mut spans = vec![Span::raw(if wide { " " } else { "" })];
        let mut x = area.x + u16::from(wide);
        self.titles.clear();
        self.title_row = area.y;
        for (index, text) in names {
            let end = x.saturating_add(u16::try_from(width(&text)).unwrap_or(u16::MAX));
            self.titles.push((index, x..end));
            x = end;
            let style = if index == self.current {
                look.chosen()
            } else if self.tabs[index].is_alarming(snapshot) {
                look.alarm()
            } else {
                look.dim()
            };
            spans.push(Span::styled(text, style));
        }
        put(buffer, area, 0, &Line::from(spans));
    }

    /// The names of the available tabs with their keys, shortened to fit, and whether the full
    /// names are used. Tabs that appear by themselves (with a key of their own) come first.
    fn tab_names(&self, columns: usize, snapshot: &Snapshot) -> (Vec<(usize, String)>, bool) {
        let names = |name: &dyn Fn(char, &dyn Tab) -> String| -> Vec<(usize, String)> {
            let tabs = self.tabs.iter().enumerate();
            let there = tabs.filter(|(_, tab)| tab.is_there(snapshot));
            let mut names: Vec<_> = there
                .map(|(index, tab)| {
                    // The tenth tab has the key 0.
                    let digit = (1..=9).chain([0]).nth(index);
                    let digit = digit.and_then(|digit| char::from_digit(digit, 10));
                    let key = tab.key().or(digit).unwrap_or(' ');
                    (index, name(key, tab.as_ref()))
                })
                .collect();
            names.sort_by_key(|(index, _)| self.tabs[*index].key().is_none());
            names
        };
        let length = |names: &[(usize, String)]| -> usize {
            names.iter().map(|(_, name)| width(name)).sum()
        };
        let long = names(&|key, tab| format!(" {key} {} ", tab.title()));
        if length(&long) < columns {
            return (long, true);
        }
        let short = names(&|key, tab| format!("{key}{} ", tab.short_title()));
        // The trailing blank may be cut off.
        if length(&short) <= columns + 1 {
            return (short, false);
        }
        let mut brief = names(&|key, tab| format!("{key}{} ", tab.brief_title()));
        if length(&brief) > columns + 1 {
            brief.retain(|(index, _)| *index != HELP);
            brief.push((HELP, "?".into()));
        }
        (brief, false)
    }

    /// Draws the last line. Returns the position of the cursor if the user is typing.
    pub(super) fn draw_footer(
        &mut self,
        buffer: &mut Buffer,
        area: Rect,
        snapshot: &Snapshot,
    ) -> Option<Position> {
        let look = self.look;
        let columns = usize::from(area.width);
        if self.typing.is_some() {
            let text = " THE PROGRAM HAS THE KEYBOARD; Ctrl-] or Esc Esc takes it back ";
            put(buffer, area, 0, &Line::styled(text, look.alarm()));
            return None;
        }
        if let Some(dialog) = &self.dialog {
            let (question, answers) = match dialog {
                Dialog::Filter => (" contains: ".to_owned(), "  Enter: done, Esc: show all"),
                Dialog::Name { was, .. } => (
                    format!(" name of {}: ", fit(was, columns / 3, look)),
                    "  Enter: done, Esc: cancel",
                ),
            };
            let text = self.line().cloned().unwrap_or_default();
            let room = columns.saturating_sub(width(&question) + 2);
            let text = last_of(&text, room);
            let x = width(&question) + width(&text);
            let line = Line::from(vec![
                Span::styled(question, look.title()),
                Span::styled(text, look.bold()),
                Span::raw(" "),
                Span::styled(answers, look.dim()),
            ]);
            put(buffer, area, 0, &line);
            let x = u16::try_from(x)
                .unwrap_or(0)
                .min(area.width.saturating_sub(1));
            return Some(Position::new(area.x + x, area.y));
        }
        if let Some(text) = self.answer(snapshot) {
            let text = fit(&format!(" {text}"), columns, look);
            put(buffer, area, 0, &Line::styled(text, look.title()));
            return None;
        }
        let hints = self.hints(snapshot, columns);
        let spans = hints.into_iter().flat_map(|(key, what)| {
            [
                Span::styled(format!(" {key}"), look.bold()),
                Span::styled(format!(" {what} "), look.dim()),
            ]
        });
        put(buffer, area, 0, &spans.collect());
        None
    }

    /// The answer to the user's last request, if one is to be shown.
    fn answer(&mut self, snapshot: &Snapshot) -> Option<String> {
        if let Some(said) = self.said {
            return Some(said.into());
        }
        let (number, text) = snapshot.notice.as_ref()?;
        if self.notice.is_none_or(|(shown, _)| shown != *number) {
            // Never 0, which marks a notice as seen.
            self.notice = Some((*number, snapshot.now_ns.max(1)));
        }
        let (_, since_ns) = self.notice?;
        let seen = since_ns == 0 || snapshot.now_ns.saturating_sub(since_ns) > NOTICE_NS;
        (!seen).then(|| printable(text))
    }

    /// As many key hints as fit; the hint for leaving always does.
    fn hints(&self, snapshot: &Snapshot, columns: usize) -> Vec<Hint> {
        if self.chooser.is_some() {
            return chooser::KEYS.to_vec();
        }
        let mut hints = self.tabs[self.current].hints();
        if let Some(replay) = &snapshot.replay {
            return fitting(replay::hints(hints, replay), &OUT, columns);
        }
        if ended::is_over(snapshot) {
            return fitting(ended::hints(hints), &OUT[1..], columns);
        }
        if self.is_new && self.paused.is_none() && matches!(snapshot.watching, Watching::On) {
            hints = vec![("Enter", "who is late, and why"), ("Tab", "other views")];
        }
        if self.current != HANG && self.tabs[HANG].is_alarming(snapshot) {
            hints.insert(0, ("!", "who is missing"));
        }
        match snapshot.watching {
            Watching::On if self.is_new => return fitting(hints, &OUT, columns),
            Watching::On => hints.push(("Space", "stop watching")),
            Watching::Off { .. } => hints.insert(0, ("Space", "watch again")),
            Watching::Ended { .. } => {}
        }
        if self.paused.is_some() {
            hints.retain(|(key, _)| *key != "p");
            hints.insert(0, ("p", "go on"));
        } else if !hints.iter().any(|(key, _)| *key == "p") {
            hints.push(("p", "pause"));
        }
        hints.extend([("e", "counters"), ("w", "save"), ("r", "reset")]);
        fitting(hints, &OUT, columns)
    }

    pub(super) fn ask_name(&mut self, snapshot: &Snapshot) {
        let shown = self.paused.as_deref().unwrap_or(snapshot);
        let site = self.tabs[self.current].site();
        let site = site.and_then(|id| shown.report.site(id));
        match site {
            Some(site) => {
                self.dialog = Some(Dialog::Name {
                    site: site.id,
                    was: words::site_name(site),
                    text: String::new(),
                });
            }
            None => self.said = Some("select a site among the barriers first"),
        }
    }

    /// The text that the user is typing.
    pub(super) fn line(&mut self) -> Option<&mut String> {
        match self.dialog.as_mut()? {
            Dialog::Filter => self.tabs[self.current].filter(),
            Dialog::Name { text, .. } => Some(text),
        }
    }

    /// Handles a key while a prompt is open.
    pub(super) fn dialog_key(&mut self, key: &KeyEvent) -> Vec<Request> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => {
                if let (Some(Dialog::Filter), Some(text)) =
                    (&self.dialog, self.tabs[self.current].filter())
                {
                    text.clear();
                }
                self.dialog = None;
            }
            KeyCode::Char('c') if control => self.dialog = None,
            KeyCode::Char('u') if control => {
                if let Some(line) = self.line() {
                    line.clear();
                }
            }
            KeyCode::Char(c) if !control => {
                if let Some(line) = self.line().filter(|line| line.chars().count() < MOST) {
                    line.push(c);
                }
            }
            KeyCode::Backspace => {
                if let Some(line) = self.line() {
                    line.pop();
                }
            }
            KeyCode::Enter => {
                if let Some(Dialog::Name { site, text, .. }) = self.dialog.take() {
                    let name = text.trim().to_owned();
                    if !name.is_empty() {
                        return vec![Request::Name { site, name }];
                    }
                }
            }
            _ => {}
        }
        Vec::new()
    }
}

/// Hints that are always shown.
const OUT: [Hint; 2] = [("q", "leave"), ("?", "help")];

/// As many key hints as fit, followed by `out`.
fn fitting(mut hints: Vec<Hint>, out: &[Hint], columns: usize) -> Vec<Hint> {
    let length = |(key, what): &Hint| width(key) + width(what) + 3;
    let mut room = columns.saturating_sub(out.iter().map(length).sum());
    hints.retain(|hint| {
        let fits = length(hint) <= room;
        room -= if fits { length(hint) } else { room };
        fits
    });
    hints.extend(out);
    hints
}

/// The end of a text, which is where the cursor is.
fn last_of(text: &str, columns: usize) -> String {
    let mut text = text;
    while width(text) > columns {
        let mut chars = text.chars();
        chars.next();
        text = chars.as_str();
    }
    text.to_owned()
}
