//! Where threads slept in their work, and the locks that they waited for. Locks are counted only if
//! futex system calls are watched.

use ratatui::{buffer::Buffer, layout::Rect, text::Line};

use super::{Tab, View, site};
use crate::{
    screen::{
        grid::{Cells, Grid},
        keys::Action,
        pager::Pager,
        theme::Look,
        words::{left, rule, wrap},
    },
    show::text::waits::{by_whom, named, shown_places, waiters},
};
use sbt_engine::{
    live::Request,
    report::{Report, locks::LockReport},
};

/// The tab of the waits.
#[derive(Default)]
pub struct Waits {
    pager: Pager,
}

/// The holder of a lock, named like in the other tabs; `?` if unknown.
fn holder(report: &Report, lock: &LockReport) -> String {
    let Some(tid) = lock.holder else {
        return "?".into();
    };
    let found = report.threads.iter().find(|thread| thread.tid == tid);
    found.map_or_else(|| tid.to_string(), |thread| thread.label.clone())
}

fn contents(view: &View, columns: usize) -> Vec<Line<'static>> {
    let (report, look) = (&view.snapshot.report, view.look);
    let mut lines = sleeps(report, columns, look);
    if let Some(locks) = &report.locks {
        lines.push(Line::default());
        lines.extend(of_locks(report, locks, columns, look));
    }
    lines
}

/// The places where threads sleep, each with its threads and with those that held the lock.
fn sleeps(report: &Report, columns: usize, look: Look) -> Vec<Line<'static>> {
    let paragraph = |text: &str| -> Vec<Line<'static>> {
        let parts = wrap(text, columns.saturating_sub(2), look).into_iter();
        parts.map(|line| Line::raw(format!(" {line}"))).collect()
    };
    let looks = report.waits.as_ref().filter(|looks| looks.looks > 0);
    let Some(looks) = looks else {
        let text = "Not known: with --waits auto sbt looks at sleeping threads now and then.";
        return paragraph(text);
    };
    let places = shown_places(report, looks);
    if places.is_empty() {
        let text = format!("In {} looks no thread was asleep for long.", looks.looks);
        return paragraph(&text);
    }
    let mut lines = Vec::new();
    for place in places {
        let share = format!("{:.0} %", place.share_pct);
        let text = format!(" {share:>5}  {}", named(place));
        lines.push(Line::raw(left(&text, columns, look)));
        let indent = " ".repeat(8);
        for part in wrap(&by_whom(place), columns.saturating_sub(9), look) {
            lines.push(Line::styled(format!("{indent}{part}"), look.dim()));
        }
    }
    let pairs = waiters(looks);
    if !pairs.is_empty() {
        lines.push(Line::default());
        lines.push(Line::styled(
            " who waits for whom, by who woke whom",
            look.dim(),
        ));
    }
    for text in pairs {
        lines.extend(paragraph(&text));
    }
    lines
}

fn of_locks(
    report: &Report,
    locks: &[LockReport],
    columns: usize,
    look: Look,
) -> Vec<Line<'static>> {
    if locks.is_empty() {
        return vec![Line::raw(" No thread has waited for a lock.")];
    }
    let mut grid = Grid {
        ids: (0..).take(locks.len()).collect(),
        ..Grid::default()
    };
    let texts = |f: &dyn Fn(&LockReport) -> String| Cells::Text(locks.iter().map(f).collect());
    let counts =
        |f: fn(&LockReport) -> u64| Cells::Count(locks.iter().map(|lock| Some(f(lock))).collect());
    let times = |f: fn(&LockReport) -> Option<u64>| Cells::Time(locks.iter().map(f).collect());
    grid.column("lock", 0, texts(&LockReport::called))
        .column("kind", 2, texts(&|lock| lock.kind.to_string()))
        .column("waits", 1, counts(|lock| lock.waits))
        .column("sum", 0, times(|lock| Some(lock.total_ns)))
        .column("mean", 1, times(|lock| lock.mean_ns))
        .column("max", 4, times(|lock| Some(lock.max_ns)))
        .column("at once", 3, counts(|lock| lock.waiters_max))
        .column("holder", 5, texts(&|lock| holder(report, lock)));
    let shown = grid
        .shown(columns.saturating_sub(2), usize::MAX, 0, look)
        .columns;
    let row = |texts: Vec<String>| left(&format!(" {}", texts.join("  ")), columns, look);
    let title = shown.iter().map(|column| column.pad(&column.title, look));
    let mut lines = vec![Line::styled(row(title.collect()), look.dim())];
    for index in 0..locks.len() {
        let texts = shown.iter().map(|column| {
            let text = column.texts.get(index).map_or("", String::as_str);
            column.pad(text, look)
        });
        lines.push(Line::raw(row(texts.collect())));
    }
    lines
}

impl Tab for Waits {
    fn title(&self) -> &'static str {
        "Waits"
    }

    fn brief_title(&self) -> &'static str {
        "Wait"
    }

    fn draw(&mut self, view: &View, buffer: &mut Buffer, area: Rect) {
        let (title, body) = site::split(area);
        let lines = contents(view, usize::from(area.width));
        self.pager.draw(&lines, buffer, body);
        let note = self.pager.range().unwrap_or_default();
        rule(
            buffer,
            title,
            "where threads sleep or spin, and for how much of their time",
            &note,
            view.look,
        );
    }

    fn act(&mut self, action: Action, _view: &View) -> Vec<Request> {
        if let Action::Go(to) = action {
            self.pager.go(to, false);
        }
        Vec::new()
    }
}
