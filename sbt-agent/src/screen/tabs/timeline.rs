//! Swim lanes: one row per thread, time from left to right.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::{Hint, Tab, View, site};
use crate::screen::{
    keys::{Action, Move},
    lanes::{self, Window},
    pager::Pager,
    theme::Look,
    words::{self, plural, put, rule},
};
use sbt_engine::live::{Lane, Request, Snapshot};

/// The tab of the timeline.
#[derive(Default)]
pub struct Timeline {
    threads: Pager,
    /// End of the window, ns; `None` if the window ends now.
    end_ns: Option<u64>,
    /// Number of visible pieces.
    pieces: usize,
}

/// Maximum height of a lane, including an empty row.
const TALLEST: usize = 3;

/// Minimum distance between two labels of the axis, in columns.
const TICK: usize = 12;

impl Timeline {
    /// The window, moved into the time that is still recorded.
    fn window(&mut self, snapshot: &Snapshot) -> Window {
        let lanes = &snapshot.lanes;
        let most = lanes.lanes.iter().map(|lane| lane.pieces.len()).max();
        let beyond = most.unwrap_or(0).saturating_sub(self.pieces) as u64;
        let oldest_end = lanes.end_ns.saturating_sub(beyond * lanes.piece_ns);
        // Time that has been discarded cannot be shown.
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

    /// The time axis: round times before now, each below its piece.
    fn axis(snapshot: &Snapshot, window: Window, names: usize, look: Look) -> Line<'static> {
        let piece_ns = snapshot.lanes.piece_ns.max(1);
        let behind_ns = snapshot.lanes.end_ns.saturating_sub(window.end_ns);
        let step_ns = round_up(TICK as u64 * piece_ns);
        let length_ns = behind_ns + window.pieces as u64 * piece_ns;
        let indent = names + 2;
        let mut text = String::new();
        // From the oldest label to 0, which is now.
        for number in (0..=length_ns / step_ns).rev() {
            let before_ns = number * step_ns;
            let Some(from_end) = before_ns.checked_sub(behind_ns) else {
                break;
            };
            let from_end = usize::try_from(from_end / piece_ns).unwrap_or(usize::MAX);
            let Some(column) = window.pieces.checked_sub(from_end) else {
                continue;
            };
            let label = match number {
                0 => " now".to_owned(),
                _ => format!("{}-{}", look.pick("╵", "|"), round(before_ns, look)),
            };
            text = words::left(&text, indent + column, look) + &label;
        }
        Line::styled(text, look.dim())
    }
}

/// A lane drawn `tall` rows high. The last of several rows is empty.
fn rows_of(line: Line<'static>, tall: usize, names: usize) -> Vec<Line<'static>> {
    let mut again = line.clone();
    // The first span is the name and the last one the share: both appear once.
    if let [name, .., share] = &mut again.spans[..] {
        *name = Span::raw(" ".repeat(names + 2));
        *share = Span::raw("");
    }
    let mut lines = vec![line];
    lines.extend(vec![again; tall.saturating_sub(2)]);
    lines.resize(tall, Line::default());
    lines
}

/// Rounds up to the next of 1, 2, 5, 10, 20, … ns.
fn round_up(ns: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for step in [power, power.saturating_mul(2), power.saturating_mul(5)] {
            if step >= ns {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// A round time with its unit: `20 ms`.
fn round(ns: u64, look: Look) -> String {
    match ns {
        0..1_000_000 => format!("{} {}", ns / 1_000, look.pick("µs", "us")),
        _ if ns.is_multiple_of(1_000_000_000) => format!("{} s", ns / 1_000_000_000),
        _ => format!("{} ms", ns / 1_000_000),
    }
}

impl Tab for Timeline {
    fn title(&self) -> &'static str {
        "Timeline"
    }

    fn short_title(&self) -> &'static str {
        "Time"
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
        let length = words::about(lanes::length_ns(snapshot, window), look);
        let piece = words::about(snapshot.lanes.piece_ns, look);
        let when = match (self.end_ns, view.paused, &snapshot.replay) {
            (Some(_), _, None) => "in the past; End: now",
            (Some(_), _, Some(_)) => "in the past; Esc: now",
            (None, true, _) => "paused",
            (None, false, None) => "as it happens",
            (None, false, Some(_)) => "as it was",
        };
        let name = format!("timeline: {length}, {piece} a character, {when}");
        let note = self.threads.range().map_or_else(
            || match snapshot.report.threads.len() {
                threads if threads > all.len() => format!("{} of {threads} threads", all.len()),
                threads => plural(threads as u64, "thread"),
            },
            |range| format!("threads {range}"),
        );
        rule(buffer, title, &name, &format!("{note}, waiting"), look);
        let tall = (usize::from(rows) / all.len()).clamp(1, TALLEST);
        let lines = all[in_sight].iter().flat_map(|lane| {
            let line = lanes::line(lane, snapshot, window, names, look);
            rows_of(line, tall, names)
        });
        let shown = Rect {
            height: rows,
            ..body
        };
        words::put_all(buffer, shown, lines);
        let drawn = u16::try_from(all.len() * tall).unwrap_or(u16::MAX);
        let drawn = drawn.min(rows);
        put(
            buffer,
            body,
            drawn,
            &Self::axis(snapshot, window, names, look),
        );
        let mut key = lanes::key(lanes::kinds(snapshot), look);
        key.spans.insert(0, Span::styled(" ", Style::new()));
        // The legend stands below the axis, after an empty row if there is room.
        let row = (drawn + 2).min(body.height.saturating_sub(1));
        if row > drawn {
            put(buffer, body, row, &key);
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
            // The past was recorded at one zoom only, so just the present can be zoomed.
            Action::ZoomIn | Action::ZoomOut if view.paused => {}
            Action::ZoomIn => return vec![Request::Zoom { closer: true }],
            Action::ZoomOut => return vec![Request::Zoom { closer: false }],
            _ => {}
        }
        Vec::new()
    }

    fn hints(&self) -> Vec<Hint> {
        vec![("+ -", "zoom"), ("<- ->", "past"), ("p", "pause")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_round_times() {
        let look = Look {
            unicode: true,
            color: false,
        };
        let written = |ns| round(round_up(ns), look);
        assert_eq!(written(12 * 131_072), "2 ms");
        assert_eq!(written(12 * 1_048_576), "20 ms");
        assert_eq!(written(12 * 67_108_864), "1 s");
        assert_eq!(written(400_000), "500 µs");
        assert_eq!(round_up(u64::MAX), u64::MAX);
    }
}
