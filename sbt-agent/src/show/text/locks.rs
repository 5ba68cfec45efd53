//! Locks in the text report.

use super::{MOST_ROWS, Table, count, each, line, phases::title, plural, rest};
use crate::show::table::Style;
use sbt_engine::report::{Report, locks::LockReport};

/// Locks of one kind for which threads wait at one place, in one row.
struct Row {
    name: String,
    kind: String,
    locks: u64,
    waits: u64,
    total_ns: u64,
    max_ns: u64,
    waiters_max: u64,
}

impl Row {
    fn called(&self) -> String {
        match self.locks {
            1 => self.name.clone(),
            locks => format!("{} ({})", self.name, plural(locks, "lock")),
        }
    }

    fn mean_ns(&self) -> Option<u64> {
        self.total_ns.checked_div(self.waits)
    }
}

/// The rows, those with most waiting time first.
fn rows(locks: &[LockReport]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for lock in locks {
        let (name, kind) = (lock.called(), lock.kind.to_string());
        let same = rows
            .iter()
            .position(|row| row.name == name && row.kind == kind);
        let at = same.unwrap_or_else(|| {
            rows.push(Row {
                name,
                kind,
                locks: 0,
                waits: 0,
                total_ns: 0,
                max_ns: 0,
                waiters_max: 0,
            });
            rows.len() - 1
        });
        let row = &mut rows[at];
        row.locks += 1;
        row.waits += lock.waits;
        row.total_ns += lock.total_ns;
        row.max_ns = row.max_ns.max(lock.max_ns);
        row.waiters_max = row.waiters_max.max(lock.waiters_max);
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
    rows
}

/// Locks that threads waited for, most waiting time first.
pub fn locks(out: &mut String, report: &Report, style: Style) {
    let Some(locks) = report.locks.as_ref().filter(|locks| !locks.is_empty()) else {
        return;
    };
    title(
        out,
        "LOCKS, by time waited while futexes were watched",
        style,
    );
    let rows = rows(locks);
    let shown: Vec<&Row> = rows.iter().take(MOST_ROWS).collect();
    let texts = |f: fn(&Row) -> String| shown.iter().map(|row| f(row)).collect();
    let mut table = Table::default();
    table
        .column("lock", texts(Row::called))
        .column("kind", texts(|row| row.kind.clone()))
        .column("waits", texts(|row| count(row.waits)))
        .durations("sum", &each(&shown, |row| Some(row.total_ns)), style)
        .durations("mean", &each(&shown, Row::mean_ns), style)
        .durations("max", &each(&shown, |row| Some(row.max_ns)), style)
        .column("at once", texts(|row| count(row.waiters_max)));
    table.write(out, style, 32);
    rest(out, rows.len(), "place", style);
    if locks.iter().any(|lock| lock.waits == 0) {
        line(
            out,
            &style.dim("  locks with 0 waits: a wait began and has not ended"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::report::LockReportKind;

    #[test]
    fn locks_of_one_place_share_a_row() {
        let lock = |site: &str, address: &str, waits, total_ns| LockReport {
            address: address.into(),
            pid: Some(0),
            kind: LockReportKind::Mutex,
            site: Some(site.into()),
            function: None,
            file: None,
            line: None,
            waits,
            total_ns,
            max_ns: total_ns / 2,
            mean_ns: None,
            waiters_max: waits,
            holder: None,
        };
        let locks = [
            lock("get q.c:5", "0x10", 2, 60),
            lock("put q.c:9", "0x10", 4, 80),
            lock("get q.c:5", "0x20", 3, 40),
        ];
        let rows = rows(&locks);
        let called: Vec<String> = rows.iter().map(Row::called).collect();
        assert_eq!(called, ["get q.c:5 (2 locks)", "put q.c:9"]);
        assert_eq!(
            (rows[0].waits, rows[0].total_ns, rows[0].mean_ns()),
            (5, 100, Some(20))
        );
        assert_eq!((rows[0].max_ns, rows[0].waiters_max), (30, 3));
    }
}
