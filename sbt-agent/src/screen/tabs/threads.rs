//! The threads: how their time was spent, and what they do now.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Position, Rect},
    text::Line,
};

use super::{Hint, Tab, View, looked, site, split};
use crate::{
    screen::{
        counters::{self, ShownValue},
        grid::{Cells, Grid},
        keys::Action,
        list::List,
        words::{self, put, rule, since},
    },
    show::table::{UNKNOWN, Unit, count},
};
use sbt_engine::{
    live::{Doing, Request},
    place::printable,
    report::{HangOutcome, Report, ThreadReport, counters::Counts},
};

/// The tab of the threads.
#[derive(Default)]
pub struct Threads {
    list: List,
}

fn doing(doing: Option<&Doing>, now_ns: u64) -> String {
    // Shorter times would be outdated before the user has read them.
    let ago = |ns: &u64| match now_ns.saturating_sub(*ns) {
        0..100_000_000 => String::new(),
        ns => format!(" {}", since(ns)),
    };
    match doing {
        Some(Doing::Working { since_ns }) => match ago(since_ns).as_str() {
            "" => "works".into(),
            // A thread outside of barriers may have slept a part of this time.
            ago => format!("in no barrier for{ago}"),
        },
        Some(Doing::Asleep { since_ns }) => format!("sleeps{}, in no barrier", ago(since_ns)),
        Some(Doing::Waiting { since_ns, at }) => {
            format!("waits{} at {}", ago(since_ns), printable(at))
        }
        Some(Doing::Ended) => "has ended".into(),
        Some(Doing::Unknown) | None => UNKNOWN.into(),
    }
}

/// What a thread that is in no barrier does while the program hangs, by the last look at it.
fn in_a_hang(report: &Report, thread: u32) -> Option<String> {
    let hang = report.run.hang.as_ref()?;
    let found = &hang.found;
    let mut all = found.missing.iter().chain(&found.others);
    let seen = all.find(|seen| seen.who.thread == Some(thread))?;
    (hang.outcome == HangOutcome::Lasts).then(|| printable(&seen.does))
}

fn idle_pct(thread: &ThreadReport) -> Option<f64> {
    let all = thread.work_ns? + thread.idle_ns;
    (all > 0).then(|| thread.idle_ns as f64 / all as f64 * 100.0)
}

/// The share of the thread's time that probes have cost; of the wall time if probes were on for a
/// part of the run only.
fn probes(thread: &ThreadReport, report: &Report) -> (Option<f64>, String) {
    let times = [
        thread.work_ns,
        Some(thread.idle_ns),
        thread.release_ns,
        thread.between_ns,
    ];
    let all_ns = if report.estimated {
        report.run.wall_ns
    } else {
        times.into_iter().flatten().sum()
    };
    let share = thread.own_cost_ns.filter(|_| all_ns > 0);
    let share = share.map(|cost_ns| cost_ns as f64 / all_ns as f64 * 100.0);
    let text = share.map_or_else(|| UNKNOWN.into(), |share| format!("{share:.2} %"));
    (share, text)
}

fn grid(view: &View) -> Grid {
    let snapshot = view.snapshot;
    let threads = &snapshot.report.threads;
    // Work and idle time are compared, so both get the same unit.
    let unit = Unit::fitting(
        threads
            .iter()
            .flat_map(|thread| [thread.work_ns, Some(thread.idle_ns)]),
    );
    let times = |f: &dyn Fn(&ThreadReport) -> Option<u64>| {
        Cells::TimeIn(unit, threads.iter().map(f).collect())
    };
    let last = |thread: &ThreadReport| {
        let share = thread.last as f64 / thread.episodes as f64 * 100.0;
        let known = thread.episodes > 0;
        let text = if known {
            format!("{} {:>5}", count(thread.last), format!("{share:.0} %"))
        } else {
            UNKNOWN.to_owned()
        };
        (known.then_some(thread.last as f64), text)
    };
    let now = threads.iter().enumerate().map(|(at, thread)| {
        let known = snapshot.doing.get(at);
        let seen = matches!(known, Some(Doing::Working { .. } | Doing::Asleep { .. }))
            .then(|| in_a_hang(&snapshot.report, thread.id))
            .flatten();
        seen.unwrap_or_else(|| doing(known, snapshot.now_ns))
    });
    let now: Vec<String> = now.collect();
    let names: Vec<String> = threads.iter().map(words::thread_name).collect();
    let mut grid = Grid {
        ids: threads.iter().map(|thread| thread.id).collect(),
        search: names
            .iter()
            .zip(&now)
            .map(|(name, now)| format!("{name} {now}").to_lowercase())
            .collect(),
        ..Grid::default()
    };
    grid.column("thread", 0, Cells::Label(names))
        .column(
            "tid",
            8,
            // A thread id is a name, not a quantity: its digits are not grouped.
            Cells::Ranked(
                threads
                    .iter()
                    .map(|thread| (Some(f64::from(thread.tid)), thread.tid.to_string()))
                    .collect(),
            ),
        )
        .column("work", 1, times(&|thread| thread.work_ns))
        .column("running", 7, times(&|thread| thread.running_ns))
        .column("ready", 5, times(&|thread| thread.ready_ns))
        .column("blocked", 6, times(&|thread| thread.blocked_ns))
        .column("idle", 1, times(&|thread| Some(thread.idle_ns)))
        .column(
            "idle %",
            2,
            Cells::Share(threads.iter().map(idle_pct).collect()),
        )
        .column("spin", 9, times(&|thread| thread.waits.spinning_ns))
        .column("release", 10, times(&|thread| thread.release_ns))
        .column(
            "probes",
            11,
            Cells::Ranked(
                threads
                    .iter()
                    .map(|thread| probes(thread, &snapshot.report))
                    .collect(),
            ),
        )
        .column("last", 3, Cells::Ranked(threads.iter().map(last).collect()));
    let counts: Vec<&Counts> = threads.iter().map(|thread| &thread.counters).collect();
    counters::columns(
        &mut grid,
        snapshot,
        ShownValue::Sum,
        |all| &all.threads,
        &counts,
    );
    grid.column("now", 0, Cells::Text(now));
    grid
}

impl Tab for Threads {
    fn title(&self) -> &'static str {
        "Threads"
    }

    fn brief_title(&self) -> &'static str {
        "Thr"
    }

    fn draw(&mut self, view: &View, buffer: &mut Buffer, area: Rect) {
        let report = &view.snapshot.report;
        let looks = looked::looks(report);
        let all = looks.map_or(report.threads.len(), |looks| looks.threads.len());
        let rows = u16::try_from(all).unwrap_or(u16::MAX);
        // The bars are shown only if there is room for all threads twice, with two titles and an
        // empty row between.
        let below = if all > 0 && looks.is_none() && area.height / 2 >= rows.saturating_add(2) {
            area.height - rows - 3
        } else {
            0
        };
        let [area, below] =
            Layout::vertical([Constraint::Min(0), Constraint::Length(below)]).areas(area);
        let (title, body) = site::split(area);
        let grid = looks.map_or_else(|| grid(view), looked::grid);
        self.list.draw(&grid, view.look, buffer, body);
        let note = self.list.note(all, "thread");
        let name = match (self.list.filter.as_str(), looks) {
            ("", None) => "threads: who works, and who waits".to_owned(),
            ("", Some(_)) => "threads, none of which has come to a barrier".to_owned(),
            (filter, _) => format!("threads with \"{filter}\""),
        };
        rule(buffer, title, &name, &note, view.look);
        if below.height > 0 {
            split::draw(view, self.list.order(), buffer, below);
        }
        if self.list.selected().is_none() {
            let text = if all == 0 {
                "   No thread has come to a barrier yet."
            } else {
                "   no thread matches; Esc shows all"
            };
            put(buffer, body, 1, &Line::raw(text));
        }
    }

    fn act(&mut self, action: Action, _view: &View) -> Vec<Request> {
        match action {
            Action::Go(to) => self.list.go(to),
            Action::Back => self.list.filter.clear(),
            Action::Sort => self.list.sort(),
            Action::Reverse => self.list.reverse(),
            _ => {}
        }
        Vec::new()
    }

    fn hints(&self) -> Vec<Hint> {
        vec![("s", "sort"), ("/", "filter")]
    }

    fn click(&mut self, at: Position) {
        self.list.click(at);
    }

    fn filter(&mut self) -> Option<&mut String> {
        Some(&mut self.list.filter)
    }
}
