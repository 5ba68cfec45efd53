//! Locks in the text report.

use super::{MOST_ROWS, Table, count, each, line, phases::title, rest};
use crate::show::table::Style;
use sbt_engine::report::{Report, locks::LockReport};

/// Locks that threads waited for, most waiting time first.
pub fn locks(out: &mut String, report: &Report, style: Style) {
    let Some(locks) = report.locks.as_ref().filter(|locks| !locks.is_empty()) else {
        return;
    };
    title(out, "LOCKS, by time waited", style);
    let shown: Vec<&LockReport> = locks.iter().take(MOST_ROWS).collect();
    let texts = |f: fn(&LockReport) -> String| shown.iter().map(|lock| f(lock)).collect();
    let mut table = Table::default();
    table
        .column("lock", texts(LockReport::called))
        .column("kind", texts(|lock| lock.kind.to_string()))
        .column("waits", texts(|lock| count(lock.waits)))
        .durations("sum", &each(&shown, |lock| Some(lock.total_ns)), style)
        .durations("mean", &each(&shown, |lock| lock.mean_ns), style)
        .durations("max", &each(&shown, |lock| Some(lock.max_ns)), style)
        .column("at once", texts(|lock| count(lock.waiters_max)));
    table.write(out, style, 32);
    rest(out, locks.len(), "lock", style);
    if locks.iter().any(|lock| lock.waits == 0) {
        line(
            out,
            &style.dim("  locks with 0 waits: a wait began and has not ended"),
        );
    }
}
