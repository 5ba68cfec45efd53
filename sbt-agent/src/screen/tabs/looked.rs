//! The threads of a program without barriers: how they spent their time, as looks from outside have shown.

use crate::screen::grid::{Cells, Grid};
use sbt_engine::{
    place::printable,
    report::{
        Report,
        waits::{LookedThreadReport, LooksReport},
    },
};

/// The looks at a program none of whose threads has come to a barrier.
pub fn looks(report: &Report) -> Option<&LooksReport> {
    let looks = report.waits.as_ref()?;
    (report.threads.is_empty() && !looks.threads.is_empty()).then_some(looks)
}

/// A row for each thread.
pub fn grid(looks: &LooksReport) -> Grid {
    let threads = &looks.threads;
    let name = |thread: &LookedThreadReport| {
        let name = format!("{} {}", thread.label, printable(&thread.name));
        name.trim_end().to_owned()
    };
    let names: Vec<String> = threads.iter().map(name).collect();
    let share = |part: fn(&LookedThreadReport) -> Option<u64>| {
        let of = |thread: &LookedThreadReport| {
            let watched = thread.watched_ns;
            (watched > 0).then_some(part(thread)? as f64 / watched as f64 * 100.0)
        };
        Cells::Share(threads.iter().map(of).collect())
    };
    let number =
        |thread: &LookedThreadReport| (Some(f64::from(thread.tid)), thread.tid.to_string());
    let mut grid = Grid {
        ids: (0..).zip(threads).map(|(at, _)| at).collect(),
        search: names.iter().map(|name| name.to_lowercase()).collect(),
        ..Grid::default()
    };
    grid.column("thread", 0, Cells::Label(names))
        .column(
            "tid",
            4,
            Cells::Ranked(threads.iter().map(number).collect()),
        )
        .column(
            "watched",
            3,
            Cells::Time(
                threads
                    .iter()
                    .map(|thread| Some(thread.watched_ns))
                    .collect(),
            ),
        )
        .column("running %", 0, share(|thread| thread.running_ns))
        .column("ready %", 1, share(|thread| thread.ready_ns))
        .column("asleep %", 2, share(|thread| thread.blocked_ns));
    grid
}
