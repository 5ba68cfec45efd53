//! A program that stands still: which threads are missing, and what they do. The tab appears by
//! itself when a standstill is found.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::{Tab, View, site};
use crate::{
    screen::{
        keys::Action,
        pager::Pager,
        words::{rule, wrap},
    },
    show::text::{
        sentence,
        standstill::{does, heading, missing},
    },
};
use sbt_engine::{
    live::{Request, Snapshot},
    place::printable,
    report::{HangThreadReport, StandstillReport},
};

/// The tab of the hang.
#[derive(Default)]
pub struct Hang {
    pager: Pager,
}

/// The lines of the tab, collected before drawing.
struct Lines<'a> {
    view: &'a View<'a>,
    columns: usize,
    all: Vec<Line<'static>>,
}

impl Lines<'_> {
    /// Adds a text, broken between words and indented.
    fn text(&mut self, text: &str, indent: usize, style: Style) {
        let look = self.view.look;
        let text = sentence(&printable(text), look.text());
        let lines = wrap(&text, self.columns.saturating_sub(indent + 1), look);
        let lines = lines.into_iter().enumerate();
        self.all.extend(lines.map(|(at, text)| {
            // Further lines of an indented text are indented more.
            let indent = if at > 0 && indent > 1 {
                indent + 2
            } else {
                indent
            };
            Line::from(vec![
                Span::raw(" ".repeat(indent)),
                Span::styled(text, style),
            ])
        }));
    }

    fn title(&mut self, text: &str) {
        self.all.push(Line::default());
        self.text(text, 1, self.view.look.title());
    }

    /// Adds what each of some threads does, and where.
    fn threads(&mut self, title: &str, threads: &[HangThreadReport]) {
        const MOST: usize = 32;
        if threads.is_empty() {
            return;
        }
        self.title(title);
        let (report, look) = (&self.view.snapshot.report, self.view.look);
        for thread in threads.iter().take(MOST) {
            self.text(&does(report, thread), 2, look.bold());
            if !thread.stack.is_empty() {
                self.text(&thread.stack.join(" < "), 4, look.dim());
            }
        }
        if threads.len() > MOST {
            let more = threads.len() - MOST;
            self.text(&format!("and {more} more"), 2, look.dim());
        }
    }
}

fn contents(view: &View, columns: usize) -> Vec<Line<'static>> {
    let look = view.look;
    let Some(hang) = &view.snapshot.report.run.hang else {
        return vec![Line::raw(" Nothing stands still.")];
    };
    let mut lines = Lines {
        view,
        columns,
        all: Vec::new(),
    };
    let style = if hang.is_alarming() {
        look.alarm()
    } else {
        look.bold()
    };
    lines.text(&heading(hang), 1, style);
    let found = &hang.found;
    lines.text(&found.text, 1, look.bold());
    lines.threads(missing(hang), &found.missing);
    if !found.chain.is_empty() {
        lines.title("who waits for whom");
        for line in &found.chain {
            lines.text(line, 2, Style::new());
        }
    }
    lines.threads("waiting", &found.arrived);
    if !found.also.is_empty() {
        lines.title("at the same time");
        for also in &found.also {
            lines.text(&also.text, 2, Style::new());
        }
    }
    lines.threads("all others", &found.others);
    if !found.notes.is_empty() {
        lines.title("notes");
        for note in &found.notes {
            lines.text(note, 2, look.dim());
        }
    }
    lines.all
}

impl Tab for Hang {
    fn title(&self) -> &'static str {
        "Hang"
    }

    fn key(&self) -> Option<char> {
        Some('!')
    }

    fn is_there(&self, snapshot: &Snapshot) -> bool {
        snapshot.report.run.hang.is_some()
    }

    fn is_alarming(&self, snapshot: &Snapshot) -> bool {
        let hang = snapshot.report.run.hang.as_ref();
        hang.is_some_and(StandstillReport::is_alarming)
    }

    fn draw(&mut self, view: &View, buffer: &mut Buffer, area: Rect) {
        let (title, body) = site::split(area);
        let lines = contents(view, usize::from(area.width));
        self.pager.draw(&lines, buffer, body);
        let note = self.pager.range().unwrap_or_default();
        rule(buffer, title, "who is missing", &note, view.look);
    }

    fn act(&mut self, action: Action, _view: &View) -> Vec<Request> {
        if let Action::Go(to) = action {
            self.pager.go(to, false);
        }
        Vec::new()
    }
}
