//! A page about a run: one file that is readable without network, scripts or privileges, on a phone
//! and on paper. Scripts only sort tables and draw the timeline.
//!
//! maud escapes all text from the program. If this failed, the page's content security policy would
//! still allow only the page's own scripts.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use super::timeline::Timeline;
use crate::show::table::{self, Style, Unit};
use sbt_engine::{place::printable, report::Report, words::command_line};

mod bars;
mod counters;
mod data;
mod head;
mod phases;
mod rest;
mod sites;
mod strips;
#[cfg(test)]
mod tests;
mod threads;
mod usage;
mod waits;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Maximum number of rows in a table; further rows are only counted.
const MOST_ROWS: usize = 500;

/// Maximum length of a command in the window's title, in characters.
const MOST_TITLE: usize = 120;

/// Style of durations.
const PLAIN: Style = Style {
    width: 80,
    color: false,
    unicode: true,
};

/// The source of the timeline.
pub enum TimelineSource<'a> {
    /// The episodes of a recording.
    Timeline(&'a Timeline),
    /// None: the recording has statistics, but no episodes.
    Statistics,
    /// None: there is only a report.
    Nothing,
}

/// Writes the page.
///
/// # Errors
/// Writing to `out` fails.
pub fn write(report: &Report, told: &TimelineSource<'_>, out: &mut impl Write) -> io::Result<()> {
    let page = page(report, told).into_string();
    // Filtering the complete page makes sure that no name is forgotten.
    for line in page.split_inclusive('\n') {
        let text = line.strip_suffix('\n');
        out.write_all(printable(text.unwrap_or(line)).as_bytes())?;
        if text.is_some() {
            out.write_all(b"\n")?;
        }
    }
    Ok(())
}

/// The content security policy: load nothing, and run only the page's own scripts.
fn policy() -> String {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

fn page(report: &Report, told: &TimelineSource<'_>) -> Markup {
    let command = command_line(&report.run.command);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(format!("sbt {}", report.version));
                title { "sbt · " (begin(&command, MOST_TITLE)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (bars::patterns())
                (head::head(report))
                main {
                    (head::hang(report))
                    (head::verdicts(report))
                    (sites::barriers(report))
                    (phases::phases(report))
                    (data::timeline(report, told))
                    (threads::threads(report))
                    (counters::counters(report))
                    (usage::parallelism(report))
                    (usage::path(report))
                    (waits::waits(report))
                    (rest::locks(report))
                    (rest::unfinished(report))
                    (rest::notes(report))
                }
                footer {
                    "sbt " (report.version) " · backend " (report.run.backend) " (" (report.run.method) ")"
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// A duration with non-breaking spaces.
fn time(ns: impl Into<Option<u64>>) -> String {
    unbroken(&table::duration(ns.into(), PLAIN))
}

fn count(value: u64) -> String {
    unbroken(&table::count(value))
}

fn percent(value: Option<f64>) -> String {
    unbroken(&match value {
        Some(value) if value > 0.0 && value < 0.95 => format!("{value:.1} %"),
        value => table::percent(value),
    })
}

/// The first `most` characters of a text.
fn begin(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

/// A sentence in which backticks mark names from the program and text to be typed.
fn marked(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (at, part) in parts.into_iter().enumerate() {
            @if at.is_multiple_of(2) { (part) } @else { code { (part) } }
        }
    }
}

fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// The title cell of a column of figures, by which the table can be sorted.
fn th(title: &str) -> Markup {
    html! { th scope="col" class="n" { (title) } }
}

/// A cell with a figure and the value for sorting; unknown values come last.
fn td(shown: &str, value: Option<f64>) -> Markup {
    html! { td class="n" data-v=[value] { (shown) } }
}

fn td_time(ns: impl Into<Option<u64>>) -> Markup {
    let ns = ns.into();
    td(&time(ns), ns.map(|ns| ns as f64))
}

/// The time that a column shows of a row, ns.
type TimeOf<'a, R> = dyn Fn(&R) -> Option<u64> + 'a;

/// A column of durations in one unit, so that rows compare at a glance.
struct Times<'a, R> {
    title: &'a str,
    unit: Unit,
    of: Box<TimeOf<'a, R>>,
}

impl<'a, R> Times<'a, R> {
    fn new(title: &'a str, rows: &[R], of: impl Fn(&R) -> Option<u64> + 'a) -> Self {
        let unit = Unit::fitting(rows.iter().take(MOST_ROWS).map(&of));
        let of = Box::new(of);
        Self { title, unit, of }
    }

    /// The title cell. `sorted` says that the rows are sorted by this column in descending order.
    fn th(&self, sorted: bool) -> Markup {
        html! {
            th scope="col" class="n" aria-sort=[sorted.then_some("descending")] {
                (self.title) " " span class="unit" { (self.unit.label(PLAIN)) }
            }
        }
    }

    fn td(&self, row: &R) -> Markup {
        let ns = (self.of)(row);
        td(&unbroken(&self.unit.write(ns)), ns.map(|ns| ns as f64))
    }
}

fn td_count(value: u64) -> Markup {
    td(&count(value), Some(value as f64))
}

fn td_percent(value: Option<f64>) -> Markup {
    td(&percent(value), value)
}

/// A section with a title.
fn section(id: &str, title: &str, body: &Markup) -> Markup {
    html! {
        section id=(id) aria-labelledby=(format!("h-{id}")) {
            h2 id=(format!("h-{id}")) { (title) }
            (body)
        }
    }
}

/// A wide table that scrolls on its own.
fn scrolling(label: &str, table: &Markup) -> Markup {
    html! { div class="scroll" role="region" aria-label=(label) tabindex="0" { (table) } }
}

/// A note that a table has more rows than are shown.
fn further(all: usize, what: &str) -> Markup {
    html! {
        @if all > MOST_ROWS {
            p class="hint" { (count((all - MOST_ROWS) as u64)) " further " (what) " are not shown: they are in the JSON report." }
        }
    }
}
