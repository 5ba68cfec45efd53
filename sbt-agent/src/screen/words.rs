//! Texts of the screen: measuring, cutting and padding by columns, and names.

use std::fmt::Write as _;

use ratatui::{buffer::Buffer, layout::Rect, text::Line};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::screen::theme::Look;
use crate::show::table::count;
use sbt_engine::{
    place::printable,
    report::{Report, SiteReport, ThreadReport},
};

pub use crate::show::table::plural;
pub use sbt_engine::words::since;

/// Width of a text in columns.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Cuts a text at the end to at most `columns` columns, and marks the cut.
pub fn fit(text: &str, columns: usize, look: Look) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let next = c.width().unwrap_or(0);
        if used + next >= columns {
            break;
        }
        used += next;
        out.push(c);
    }
    if columns > 0 {
        out.push_str(look.cut());
    }
    out
}

/// Cuts a text in the middle to at most `columns` columns: the end of a place is more informative
/// than its beginning.
pub fn fit_middle(text: &str, columns: usize, look: Look) -> String {
    if width(text) <= columns || columns < 8 {
        return fit(text, columns, look);
    }
    let head = fit(text, columns / 3, look);
    let room = columns - width(&head);
    let mut tail = text;
    while width(tail) > room {
        let mut chars = tail.chars();
        chars.next();
        tail = chars.as_str();
    }
    head + tail
}

/// Cuts or pads a text to exactly `columns` columns, left-aligned.
pub fn left(text: &str, columns: usize, look: Look) -> String {
    let text = fit(text, columns, look);
    let pad = columns.saturating_sub(width(&text));
    text + &" ".repeat(pad)
}

/// Cuts or pads a text to exactly `columns` columns, right-aligned.
pub fn right(text: &str, columns: usize, look: Look) -> String {
    let text = fit(text, columns, look);
    " ".repeat(columns.saturating_sub(width(&text))) + &text
}

/// Breaks a text between words into lines of at most `columns` columns.
pub fn wrap(text: &str, columns: usize, look: Look) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && width(&line) + 1 + width(word) > columns {
            lines.push(fit(&line, columns, look));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(fit(&line, columns, look));
    lines
}

/// Draws a line at a row of the area; nothing if the row is outside.
pub fn put(buffer: &mut Buffer, area: Rect, row: u16, line: &Line) {
    let area = area.intersection(buffer.area);
    if row < area.height {
        buffer.set_line(area.x, area.y + row, line, area.width);
    }
}

/// Draws lines below each other, as many as fit.
pub fn put_all<'a>(buffer: &mut Buffer, area: Rect, lines: impl IntoIterator<Item = Line<'a>>) {
    for (row, line) in (0..area.height).zip(lines) {
        put(buffer, area, row, &line);
    }
}

/// A rule across the area with a title and a note at its end: `── title ── note ─`.
pub fn rule(buffer: &mut Buffer, area: Rect, title: &str, note: &str, look: Look) {
    let dash = look.pick("─", "-");
    let columns = usize::from(area.width);
    let title = fit(title, columns.saturating_sub(6), look);
    let room = columns.saturating_sub(width(&title) + 9);
    // The note is omitted rather than cut.
    let note = if width(note) <= room { note } else { "" };
    let mut end = String::new();
    if !note.is_empty() {
        let _infallible = write!(end, " {note} {}", dash.repeat(2));
    }
    let fill = columns.saturating_sub(4 + width(&title) + width(&end));
    let line = Line::from_iter([
        ratatui::text::Span::styled(dash.repeat(2) + " ", look.dim()),
        ratatui::text::Span::styled(title, look.title()),
        ratatui::text::Span::styled(format!(" {}{end}", dash.repeat(fill)), look.dim()),
    ]);
    put(buffer, area, 0, &line);
}

/// The name of a site: the name that the user gave, or all places where it is called.
pub fn site_name(site: &SiteReport) -> String {
    let name = site.name.clone().unwrap_or_else(|| site.places.join(" | "));
    printable(&name)
}

/// All texts by which a filter finds a site: its name, places and callers.
pub fn printable_site(site: &SiteReport) -> String {
    let name = site.name.as_slice().iter();
    let all: Vec<&str> = name
        .chain(&site.places)
        .chain(&site.callers)
        .map(String::as_str)
        .collect();
    printable(&all.join(" "))
}

/// The name of a site given by its number.
pub fn site(report: &Report, id: u32) -> String {
    report.site(id).map_or_else(|| "?".into(), site_name)
}

/// The label and name of a thread: `T3 worker`.
pub fn thread_name(thread: &ThreadReport) -> String {
    if thread.threads > 1 {
        return format!("{} further threads", count(thread.threads));
    }
    format!("{} {}", thread.label, printable(&thread.name))
        .trim_end()
        .to_owned()
}

/// The name of a thread given by its number.
pub fn thread(report: &Report, id: u32) -> String {
    report
        .thread(id)
        .map_or_else(|| report.label(id), thread_name)
}

/// Thread labels with ranges, `T0 T2-T5 T9`, cut to `columns` columns.
pub fn threads(ids: &[u32], columns: usize, label: impl Fn(u32) -> String) -> String {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    let mut out = String::new();
    for run in sorted.chunk_by(|a, b| a + 1 == *b) {
        let [first, .., last] = run else {
            append(&mut out, &label(run[0]), columns);
            continue;
        };
        let between = if last - first > 1 { "-" } else { " " };
        let (first, last) = (label(*first), label(*last));
        append(&mut out, &format!("{first}{between}{last}"), columns);
    }
    out
}

fn append(out: &mut String, text: &str, columns: usize) {
    if out.ends_with("...") {
        return;
    }
    if !out.is_empty() {
        out.push(' ');
    }
    if out.len() + text.len() > columns {
        out.push_str("...");
    } else {
        out.push_str(text);
    }
}

/// A duration with two or three digits, for scales: `8.4 ms`, `134 ms`.
pub fn about(ns: u64, look: Look) -> String {
    let (unit, name) = match ns {
        0..1_000 => (1_u64, "ns"),
        1_000..1_000_000 => (1_000, look.pick("µs", "us")),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let value = ns as f64 / unit as f64;
    // From 9.95 on, rounding gives two digits before the point.
    let decimals = usize::from(unit > 1 && value < 9.95);
    let text = format!("{value:.decimals$}");
    format!("{} {name}", text.strip_suffix(".0").unwrap_or(&text))
}

/// Time since the start: `00:12.4`, `1:02:03`.
pub fn clock(ns: u64) -> String {
    let tenths = ns / 100_000_000;
    let (hours, minutes, seconds) = (tenths / 36_000, tenths / 600 % 60, tenths / 10 % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes:02}:{seconds:02}.{}", tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Look = Look {
        unicode: true,
        color: false,
    };

    #[test]
    fn texts_take_the_columns_they_are_given() {
        assert_eq!(fit("worker", 6, LOOK), "worker");
        assert_eq!(fit("workers", 6, LOOK), "worke…");
        assert_eq!(fit("漢字漢字", 5, LOOK), "漢字…");
        assert_eq!(width(&left("漢字漢字", 6, LOOK)), 6);
        assert_eq!(right("ab", 4, LOOK), "  ab");
        assert_eq!(fit("abc", 0, LOOK), "");
        assert_eq!(
            fit_middle("update_rows lu.c:715", 16, LOOK),
            "upda…ws lu.c:715"
        );
        assert_eq!(fit_middle("漢字漢字漢字漢字", 9, LOOK), "漢…字漢字");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 8, LOOK), ["one two", "three"]);
        assert_eq!(wrap("incomprehensible", 6, LOOK), ["incom…"]);
    }

    #[test]
    fn threads_in_a_row_are_a_range() {
        let label = |id| format!("T{id}");
        assert_eq!(threads(&[0, 1, 2, 4, 5, 7], 40, label), "T0-T2 T4 T5 T7");
        assert_eq!(threads(&[1, 3, 5, 7, 9], 9, label), "T1 T3 T5 ...");
        assert_eq!(threads(&[], 9, label), "");
    }

    #[test]
    fn times_are_written_for_people() {
        let about = |ns| about(ns, LOOK);
        assert_eq!(about(1_048_576), "1 ms");
        assert_eq!(about(8_388_608), "8.4 ms");
        assert_eq!(about(134_217_728), "134 ms");
        assert_eq!(about(4_294_967_296), "4.3 s");
        assert_eq!(about(999_999), "1000 µs");
        assert_eq!(about(512), "512 ns");
        assert_eq!(clock(12_440_000_000), "00:12.4");
        assert_eq!(clock(3_723_000_000_000), "1:02:03");
    }
}
