//! The timeline in a few rows, above the barriers.

use ratatui::{buffer::Buffer, layout::Rect, style::Style};

use super::View;
use crate::screen::{
    lanes::{self, Window},
    words,
};
use sbt_engine::live::{Doing, Lane};

/// The height for this many threads on a screen of `rows` rows, including the title; 0 if there is
/// too little space.
pub fn height(threads: usize, rows: u16) -> u16 {
    // The table below needs most of the screen.
    let most = rows / 4;
    let threads = u16::try_from(threads).unwrap_or(u16::MAX);
    match threads.min(most) {
        0 | 1 => 0,
        rows => rows + 1,
    }
}

/// Draws the timeline.
pub fn draw(view: &View, buffer: &mut Buffer, area: Rect) {
    let (snapshot, look) = (view.snapshot, view.look);
    let report = &snapshot.report;
    let shown = chosen(view, usize::from(area.height.saturating_sub(1)));
    let names = lanes::name_columns(report, &shown);
    let window = Window {
        end_ns: snapshot.lanes.end_ns,
        pieces: usize::from(area.width).saturating_sub(lanes::chrome(names)),
    };
    let last = words::about(lanes::length_ns(snapshot, window), look);
    let all = snapshot.lanes.lanes.len();
    let title = if shown.len() < all {
        format!("the last {last}, {} of {all} threads", shown.len())
    } else {
        format!("the last {last}")
    };
    words::rule(buffer, area, &title, WAITING, look);
    draw_key(view, &title, WAITING, buffer, area);
    let below = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(1),
        ..area
    };
    let lines = shown
        .iter()
        .map(|lane| lanes::line(lane, snapshot, window, names, look));
    words::put_all(buffer, below, lines);
}

/// The note on the figures at the ends of the lanes.
const WAITING: &str = "waiting";

/// Draws the legend into the rule, between title and note, as far as it fits.
pub fn draw_key(view: &View, title: &str, note: &str, buffer: &mut Buffer, area: Rect) {
    let used = words::width(title) + words::width(note) + "--  - -  --".len();
    let room = usize::from(area.width).saturating_sub(used);
    for names in [lanes::kinds(view.snapshot), lanes::KNOWN, lanes::MAIN] {
        let mut key = lanes::key(names, view.look);
        key.spans.insert(0, " ".into());
        key.spans.push(" ".into());
        let columns = key.width();
        if columns > room {
            continue;
        }
        let before = words::width(title) + 5 + room - columns;
        let place = Rect {
            x: area
                .x
                .saturating_add(u16::try_from(before).unwrap_or(u16::MAX)),
            width: u16::try_from(columns).unwrap_or(u16::MAX),
            ..area
        };
        // Reset the style: otherwise the legend would be dim like the rule.
        buffer.set_style(Rect { height: 1, ..place }, Style::reset());
        words::put(buffer, place, 0, &key);
        return;
    }
}

/// The threads to show if there are more threads than rows: those missing at a barrier now, and
/// those that arrived last most often.
fn chosen<'a>(view: &View<'a>, rows: usize) -> Vec<&'a Lane> {
    let snapshot = view.snapshot;
    let all: Vec<&Lane> = snapshot.lanes.lanes.iter().collect();
    if all.len() <= rows {
        return all;
    }
    let someone_waits = snapshot
        .doing
        .iter()
        .any(|doing| matches!(doing, Doing::Waiting { .. }));
    let key = |lane: &&Lane| {
        let at = snapshot
            .report
            .threads
            .iter()
            .position(|thread| thread.id == lane.thread);
        let doing = at.and_then(|at| snapshot.doing.get(at));
        let long_work = match doing {
            Some(Doing::Working { since_ns } | Doing::Asleep { since_ns }) if someone_waits => {
                snapshot.now_ns.saturating_sub(*since_ns) > 1_000_000_000
            }
            _ => false,
        };
        let last = at.map_or(0, |at| snapshot.report.threads[at].last);
        std::cmp::Reverse((long_work, last))
    };
    let mut best = all;
    best.sort_by_key(key);
    best.truncate(rows);
    best.sort_by_key(|lane| lane.thread);
    best
}
