//! The time of each thread as a bar, to compare threads at a glance.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
};

use super::{View, strip};
use crate::{
    screen::{
        theme::Ink,
        words::{self, left, rule, thread_name},
    },
    show::table::{UNKNOWN, percent},
};
use sbt_engine::report::ThreadReport;

/// Maximum width of a name, in columns.
const NAME: usize = 16;
/// Width of a share and the blank before it, in columns.
const SHARE: usize = " 100 %".len();

/// The parts of a thread's time, ns, in the order in which they are drawn.
fn parts(thread: &ThreadReport) -> [(Ink, u64); 5] {
    let ready = thread.ready_ns.unwrap_or(0);
    let blocked = thread.blocked_ns.unwrap_or(0);
    let work = thread.work_ns.unwrap_or(0);
    [
        // Includes work for which CPU use is unknown.
        (Ink::Work, work.saturating_sub(ready + blocked)),
        (Ink::Ready, ready),
        (Ink::Blocked, blocked),
        (Ink::Idle, thread.idle_ns),
        (Ink::Release, thread.release_ns.unwrap_or(0)),
    ]
}

/// Draws a bar for each thread, in the given order. The longest bar fills the width.
pub fn draw(view: &View, order: &[u32], buffer: &mut Buffer, area: Rect) {
    let (report, look) = (&view.snapshot.report, view.look);
    let threads: Vec<&ThreadReport> = order.iter().filter_map(|id| report.thread(*id)).collect();
    let title = "where their time went";
    // The share beside a bar counts work on a CPU only: other work has its own glyphs.
    let note = "running";
    rule(buffer, area, title, note, look);
    strip::draw_key(view, title, note, buffer, area);
    let sum = |parts: &[(Ink, u64)]| parts.iter().map(|(_, ns)| ns).sum::<u64>();
    let longest = threads.iter().map(|thread| sum(&parts(thread))).max();
    let longest = u128::from(longest.unwrap_or(0).max(1));
    let names = threads.iter().map(|t| words::width(&thread_name(t))).max();
    let names = names.unwrap_or(0).min(NAME);
    let room = usize::from(area.width).saturating_sub(names + 3 + SHARE);
    let lines = threads.iter().map(|thread| {
        let parts = parts(thread);
        let name = left(&thread_name(thread), names, look);
        let mut spans = vec![Span::raw(format!(" {name} "))];
        let (mut so_far, mut drawn) = (0, 0);
        for (ink, ns) in parts {
            so_far += ns;
            let end = (u128::from(so_far) * room as u128 + longest / 2) / longest;
            let end = usize::try_from(end).unwrap_or(room).min(room);
            let glyphs = ink.glyph(look).to_string().repeat(end - drawn);
            spans.push(Span::styled(glyphs, ink.style(look)));
            drawn = end;
        }
        let share = match (thread.running_ns, sum(&parts)) {
            (Some(running), all @ 1..) => percent(Some(running as f64 / all as f64 * 100.0)),
            _ => UNKNOWN.into(),
        };
        spans.push(Span::raw(format!(
            "{}{share:>SHARE$}",
            " ".repeat(room - drawn)
        )));
        Line::from(spans)
    });
    let below = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(1),
        ..area
    };
    words::put_all(buffer, below, lines);
}
