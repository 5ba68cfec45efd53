//! Swim lanes: a row a thread, time from left to right.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::{Hint, Tab, View, site};
use crate::{
    live::{LEVELS, Lane, Request, Snapshot},
    screen::{
        keys::{Action, Move},
        lanes::{self, Window},
        pager::Pager,
        words::{self, plural, put, rule},
    },
    views::table::duration,
};

/// See the module.
#[derive(Default)]
pub struct Timeline {
    threads: Pager,
    /// Where the window ends, ns, unless that is now.
    end_ns: Option<u64>,
    /// Pieces in sight.
    pieces: usize,
}

/// Rows between two labels of the axis.
const TICK: usize = 16;

fn level(snapshot: &Snapshot) -> usize {
    let piece_ns = snapshot.lanes.piece_ns;
    let found = LEVELS.iter().position(|level| *level >= piece_ns);
    found.unwrap_or(LEVELS.len() - 1)
}

impl Timeline {
    /// The window, within what there is.
    fn window(&mut self, snapshot: &Snapshot) -> Window {
        let lanes = &snapshot.lanes;
        let most = lanes.lanes.iter().map(|lane| lane.pieces.len()).max();
        let beyond = most.unwrap_or(0).saturating_sub(self.pieces) as u64;
        let oldest_end = lanes.end_ns.saturating_sub(beyond * lanes.piece_ns);
        // What has slid out of memory cannot be seen.
        self.end_ns = self
            .end_ns
            .map(|end| end.max(oldest_end))
            .filter(|end| *end < lanes.end_ns);
        Window {
            end_ns: self.end_ns.unwrap_or(lanes.end_ns),
            pieces: self.pieces,
        }
    }

    fn scroll(&mut self, to: Move, snapshot: &Snapshot) {
        let step = (self.pieces as u64 / 4).max(1) * snapshot.lanes.piece_ns;
        let end = self.end_ns.unwrap_or(snapshot.lanes.end_ns);
        self.end_ns = Some(match to {
            Move::Left => end.saturating_sub(step),
            _ => end.saturating_add(step),
        });
        self.window(snapshot);
    }

    /// From the oldest of the window to the newest: how long before now.
    fn axis(
        &self,
        snapshot: &Snapshot,
        window: Window,
        names: usize,
        view: &View,
    ) -> Line<'static> {
        let behind = snapshot.lanes.end_ns - window.end_ns;
        let piece_ns = snapshot.lanes.piece_ns;
        let mut text = " ".repeat(names + 2);
        let mut column = window.pieces % TICK;
        text += &" ".repeat(column);
        while column < self.pieces {
            let before = behind + (window.pieces - column) as u64 * piece_ns;
            let label = format!(
                "{}-{}",
                view.look.pick("╵", "|"),
                duration(Some(before), view.look.text())
            );
            text += &words::left(&label, TICK, view.look);
            column += TICK;
        }
        let end = if behind == 0 { "now" } else { "" };
        let mut text = words::left(&text, names + 2 + window.pieces, view.look);
        text.push_str(end);
        Line::styled(text, view.look.dim())
    }
}

impl Tab for Timeline {
    fn title(&self) -> &'static str {
        "Timeline"
    }

    fn draw(&mut self, view: &View, buffer: &mut Buffer, area: Rect) {
        let (snapshot, look) = (view.snapshot, view.look);
        let (title, body) = site::split(area);
        let all: Vec<&Lane> = snapshot.lanes.lanes.iter().collect();
        if all.is_empty() {
            rule(buffer, title, "timeline", "", look);
            put(
                buffer,
                body,
                0,
                &Line::raw(" No thread has come to a barrier yet."),
            );
            return;
        }
        let rows = body.height.saturating_sub(2);
        let in_sight = self.threads.view(all.len(), rows);
        let names = lanes::name_columns(&snapshot.report, &all);
        self.pieces = usize::from(area.width).saturating_sub(lanes::chrome(names));
        let window = self.window(snapshot);
        let length = duration(Some(lanes::length_ns(snapshot, window)), look.text());
        let piece = duration(Some(snapshot.lanes.piece_ns), look.text());
        let when = match (self.end_ns, view.paused) {
            (Some(_), _) => "in the past; End: now",
            (None, true) => "paused",
            (None, false) => "as it happens",
        };
        let name = format!("timeline: {length}, {piece} a character, {when}");
        let note = self.threads.range().map_or_else(
            || plural(all.len(), "thread"),
            |range| format!("threads {range}"),
        );
        rule(buffer, title, &name, &format!("{note}, waiting"), look);
        let lines = all[in_sight]
            .iter()
            .map(|lane| lanes::line(lane, snapshot, window, names, look));
        let shown = Rect {
            height: rows,
            ..body
        };
        words::put_all(buffer, shown, lines);
        let drawn = u16::try_from(all.len()).unwrap_or(u16::MAX).min(rows);
        put(
            buffer,
            body,
            drawn,
            &self.axis(snapshot, window, names, view),
        );
        let mut key = lanes::key(look);
        key.spans.insert(0, Span::styled(" ", Style::new()));
        if drawn + 1 < body.height {
            put(buffer, body, body.height - 1, &key);
        }
    }

    fn act(&mut self, action: Action, view: &View) -> Vec<Request> {
        let snapshot = view.snapshot;
        match action {
            Action::Go(to @ (Move::Left | Move::Right)) => self.scroll(to, snapshot),
            Action::Go(Move::End) | Action::Back => self.end_ns = None,
            Action::Go(Move::Home) => {
                self.end_ns = Some(0);
                self.window(snapshot);
            }
            Action::Go(to) => self.threads.go(to, false),
            // What was not kept cannot be seen closer: only the present can.
            Action::ZoomIn | Action::ZoomOut if view.paused => {}
            Action::ZoomIn => return zoom(snapshot, level(snapshot).checked_sub(1)),
            Action::ZoomOut => return zoom(snapshot, Some(level(snapshot) + 1)),
            _ => {}
        }
        Vec::new()
    }

    fn hints(&self) -> Vec<Hint> {
        vec![("+ -", "zoom"), ("<- ->", "past"), ("p", "pause")]
    }
}

fn zoom(snapshot: &Snapshot, to: Option<usize>) -> Vec<Request> {
    let to = to.filter(|to| *to < LEVELS.len() && *to != level(snapshot));
    to.map(Request::Level).into_iter().collect()
}
