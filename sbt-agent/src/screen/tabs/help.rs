//! The keys, and the meaning of words and signs.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
};

use super::{Tab, View, site};
use crate::screen::{
    keys::Action,
    lanes,
    pager::Pager,
    words::{left, rule, wrap},
};
use sbt_engine::live::Request;

/// The tab with the help.
#[derive(Default)]
pub struct Help {
    pager: Pager,
}

const KEYS: [(&str, &str); 23] = [
    ("1-0, Tab, Shift-Tab", "tabs; or click on one"),
    (
        "!",
        "the tab Hang, which is there when nothing moves for long",
    ),
    ("arrows, j k, wheel", "select, scroll"),
    ("PgUp PgDn g G", "by pages, to both ends"),
    ("Enter", "details of the selected site; Esc goes back"),
    (
        "s S",
        "sort by the next column, the other way round; or click on a title",
    ),
    ("/", "show only what contains a text; Esc shows all again"),
    ("n", "name the selected site, in sbt.toml too"),
    ("+ -", "timeline: shorter and longer pieces of time"),
    ("left right", "timeline: into the past and back"),
    (
        "left right",
        "parallelism, path: rows of another kind, such as threads",
    ),
    (
        "left right",
        "barriers, threads, phases: further columns of counters",
    ),
    (
        "e",
        "choose what is counted, from a list of what this machine has",
    ),
    ("p", "hold the display; sbt goes on watching"),
    (
        "Space",
        "probes off and on again: the program runs as without sbt",
    ),
    ("r", "reset all totals"),
    ("w", "save a report"),
    (
        "i",
        "the keyboard goes to the program; Ctrl-] or Esc Esc takes it back",
    ),
    ("q d", "leave; the program goes on"),
    ("Ctrl-C", "interrupt the program, as without sbt"),
    ("Ctrl-Z", "stop, fg goes on"),
    ("? h F1", "show this help"),
    (
        "any other key",
        "leave, when the program has ended: then only keys that look around do something else",
    ),
];

/// The keys in a replay.
const REPLAY_KEYS: [(&str, &str); 20] = [
    ("Space p", "pause, and go on"),
    (
        ".",
        "while it is paused: to the end of the next episode of any barrier",
    ),
    ("+ - ] [", "twice and half as fast, from 1/16 to 4096 times"),
    ("G End", "to the end, as fast as it can be read"),
    ("g Home", "from the beginning"),
    ("1-0, Tab, Shift-Tab", "tabs; or click on one"),
    (
        "!",
        "the tab Hang, which is there when nothing moves for long",
    ),
    ("arrows, j k, wheel", "select, scroll"),
    ("PgUp PgDn", "by pages"),
    ("Enter", "details of the selected site; Esc goes back"),
    (
        "s S",
        "sort by the next column, the other way round; or click on a title",
    ),
    ("/", "show only what contains a text; Esc shows all again"),
    ("z Z", "timeline: shorter and longer pieces of time"),
    ("left right", "timeline: into the past and back; Esc: now"),
    (
        "left right",
        "parallelism, path: rows of another kind, such as threads",
    ),
    (
        "left right",
        "barriers, threads, phases: further columns of counters",
    ),
    ("w", "save the report up to here"),
    ("q Ctrl-C", "leave"),
    ("Ctrl-Z", "stop, fg goes on"),
    ("? h F1", "show this help"),
];

const WORDS: [(&str, &str); 18] = [
    ("site", "from where a barrier is called"),
    ("episode", "one use of a barrier by all its threads"),
    (
        "phase",
        "from one episode to the next: what threads do in between",
    ),
    ("barrier", "from the first to the last arrival"),
    ("idle", "a thread waits for the last to arrive"),
    ("release", "from then to its own departure"),
    (
        "lost",
        "idle time of all threads together: what the order goes by",
    ),
    (
        "wall",
        "the same, of the wall time of the threads that are there",
    ),
    (
        "imbalance",
        "0 %: work is even, 100 %: one thread does it all",
    ),
    (
        "last",
        "who came last most often, and in how many of the episodes",
    ),
    (
        "busy",
        "a thread is, between barriers; in the tables: how many were, in the mean",
    ),
    (
        "NPT",
        "normalised processor time: each moment divided by the number of busy threads; that of all is the time in which any was busy",
    ),
    (
        "critical path",
        "in each episode through the work of whoever came last; weighted: each moment by how many threads did not work",
    ),
    (
        "efficiency",
        "share of the threads' time that was useful work: balance (the same work for all) times serial (at the same time) times transfer (nothing lost at barriers)",
    ),
    (
        "sampled",
        "with --sample: functions that threads were in, while on a CPU and between barriers",
    ),
    (
        "medians",
        "are phase and barrier in the table, so that one slow episode changes little",
    ),
    (
        "hang",
        "threads wait at a barrier for longer than --hang-time, and who is missing does not run; slow: who is missing runs",
    ),
    ("?", "was not measured"),
];

fn contents(view: &View, columns: usize) -> Vec<Line<'static>> {
    let look = view.look;
    let name = if columns >= 90 { 28 } else { 20 };
    let rows = |table: &'static [(&'static str, &'static str)]| {
        table.iter().flat_map(move |(what, text)| {
            let texts = wrap(text, columns.saturating_sub(name + 3), look);
            texts.into_iter().enumerate().map(move |(at, text)| {
                let what = if at == 0 { *what } else { "" };
                Line::from(vec![
                    Span::styled(format!(" {} ", left(what, name, look)), look.bold()),
                    Span::raw(text),
                ])
            })
        })
    };
    let heading = |text: &str| Line::styled(format!(" {text}"), look.title());
    let mut lines = Vec::new();
    if view.snapshot.replay.is_some() {
        lines.push(heading("keys, of a recording"));
        lines.extend(rows(&REPLAY_KEYS));
    } else {
        lines.push(heading("keys"));
        lines.extend(rows(&KEYS));
    }
    lines.push(Line::default());
    lines.push(heading("words"));
    lines.extend(rows(&WORDS));
    lines.push(Line::default());
    lines.push(heading("timeline"));
    let mut key = lanes::key(lanes::ALL, look);
    key.spans.insert(0, Span::raw(" "));
    lines.push(key);
    let text = "A piece of time in which several things happened shows one of them, so that the \
                characters of a row add up to the times.";
    let texts = wrap(text, columns.saturating_sub(2), look);
    lines.extend(texts.into_iter().map(|text| Line::raw(format!(" {text}"))));
    lines
}

impl Tab for Help {
    fn title(&self) -> &'static str {
        "Help"
    }

    fn draw(&mut self, view: &View, buffer: &mut Buffer, area: Rect) {
        let (title, body) = site::split(area);
        self.pager
            .draw(&contents(view, usize::from(area.width)), buffer, body);
        let note = self.pager.range().unwrap_or_default();
        rule(buffer, title, "help", &note, view.look);
    }

    fn act(&mut self, action: Action, _view: &View) -> Vec<Request> {
        if let Action::Go(to) = action {
            self.pager.go(to, false);
        }
        Vec::new()
    }
}
