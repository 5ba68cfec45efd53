//! The keys, and the meaning of words and signs.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
};

use super::{Hint, Tab, View, site};
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
    ("1-0, Tab, Shift-Tab", "change the tab; or click on a tab"),
    (
        "!",
        "the tab Hang, which appears when no thread moves for long",
    ),
    ("arrows, j k, wheel", "select, scroll"),
    (
        "PgUp PgDn g G",
        "scroll by pages, to the beginning, to the end",
    ),
    ("Enter", "details of the selected site; Esc goes back"),
    (
        "s S",
        "sort by the next column, reverse the order; or click on a title",
    ),
    (
        "/",
        "show only rows that contain a text; Esc shows all again",
    ),
    ("n", "name the selected site, and save the name in sbt.toml"),
    ("+ -", "timeline: zoom in and out"),
    ("left right", "timeline: into the past and back"),
    (
        "left right",
        "parallelism, path: show other rows, such as threads",
    ),
    (
        "left right",
        "barriers, threads, phases: show more columns of counters",
    ),
    ("e", "choose counters from a list of those of this machine"),
    ("p", "freeze the display; sbt goes on watching"),
    (
        "Space",
        "probes off, and on again: without probes the program runs as without sbt",
    ),
    ("r", "reset all totals"),
    ("w", "save a report"),
    (
        "i",
        "the keyboard goes to the program; Ctrl-] or Esc Esc takes it back",
    ),
    ("q d", "leave sbt; the program goes on"),
    ("Ctrl-C", "interrupt the program, as without sbt"),
    ("Ctrl-Z", "suspend sbt; fg continues"),
    ("? h F1", "show this help; again, or Esc: back"),
    (
        "any other key",
        "leave, once the program has ended; keys that only show something still work then",
    ),
];

/// The keys in a replay.
const REPLAY_KEYS: [(&str, &str); 20] = [
    ("Space p", "pause, and continue"),
    (
        ".",
        "while paused: go to the end of the next episode of any barrier",
    ),
    (
        "+ - ] [",
        "double and halve the speed, from 1/16 to 4096 times",
    ),
    (
        "G End",
        "go to the end, as fast as the recording can be read",
    ),
    ("g Home", "start again from the beginning"),
    ("1-0, Tab, Shift-Tab", "change the tab; or click on a tab"),
    (
        "!",
        "the tab Hang, which appears when no thread moves for long",
    ),
    ("arrows, j k, wheel", "select, scroll"),
    ("PgUp PgDn", "scroll by pages"),
    ("Enter", "details of the selected site; Esc goes back"),
    (
        "s S",
        "sort by the next column, reverse the order; or click on a title",
    ),
    (
        "/",
        "show only rows that contain a text; Esc shows all again",
    ),
    ("z Z", "timeline: zoom in and out"),
    (
        "left right",
        "timeline: into the past and back; Esc: to the present",
    ),
    (
        "left right",
        "parallelism, path: show other rows, such as threads",
    ),
    (
        "left right",
        "barriers, threads, phases: show more columns of counters",
    ),
    ("w", "save the report up to here"),
    ("q Ctrl-C", "leave"),
    ("Ctrl-Z", "suspend sbt; fg continues"),
    ("? h F1", "show this help; again, or Esc: back"),
];

const WORDS: [(&str, &str); 18] = [
    ("site", "the place in the program where a barrier is called"),
    ("episode", "one use of a barrier by all its threads"),
    (
        "phase",
        "the time from one episode to the next, in which threads work",
    ),
    ("barrier", "the time from the first arrival to the last"),
    (
        "idle",
        "the time that a thread waits for the last thread to arrive",
    ),
    (
        "release",
        "the time from the last arrival until a thread leaves the barrier",
    ),
    (
        "lost",
        "idle time of all threads together; rows are sorted by it",
    ),
    (
        "wall",
        "the lost time as a share of the wall time of the threads that are present",
    ),
    (
        "imbalance",
        "0 %: work is even; 100 %: one thread does all the work",
    ),
    (
        "last",
        "the thread that comes last most often, and its share of the episodes",
    ),
    (
        "busy",
        "a thread is busy between barriers; in the tables: the mean number of busy threads",
    ),
    (
        "NPT",
        "normalised processor time: each moment divided by the number of busy threads; over all \
         threads, the time in which any thread was busy",
    ),
    (
        "critical path",
        "in each episode, the work of the last thread to arrive; weighted: each moment counts by \
         the number of threads that did not work",
    ),
    (
        "efficiency",
        "share of the threads' time that was useful work: balance (the same work for all) times serial (at the same time) times transfer (nothing lost at barriers)",
    ),
    (
        "sampled",
        "with --sample: the functions in which threads ran between barriers",
    ),
    (
        "medians",
        "phase and barrier are medians in the table, so that one slow episode changes little",
    ),
    (
        "hang",
        "threads wait at a barrier for longer than --hang-time, and the missing threads do not \
         run; slow: the missing threads run",
    ),
    ("?", "unknown or not measured"),
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
        lines.push(heading("keys while a recording is played"));
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
    let text = "If several things happened in the time of one character, the character shows one \
        of them, such that the characters of a row add up to the times.";
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

    fn hints(&self) -> Vec<Hint> {
        vec![("Esc", "back")]
    }
}
