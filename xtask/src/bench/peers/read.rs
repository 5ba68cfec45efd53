//! Reads figures from the output of programs and tools.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// The count of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Arrivals at barriers.
    Arrivals(u64),
    /// System calls that may belong to a barrier.
    FutexCalls(u64),
}

/// The seconds that a program prints, as `seconds 1.5`, or like the demos as `OK, 1.50 s` at the
/// end of a line.
pub fn own_time(text: &str) -> Option<f64> {
    text.lines().find_map(|line| {
        let plain = line.strip_prefix("seconds ");
        let number = plain.or_else(|| line.strip_suffix(" s")?.rsplit(' ').next())?;
        number.trim().parse().ok()
    })
}

/// Why a tool failed: the first line that names an error, otherwise the last line with text,
/// otherwise the exit status.
pub fn reason(stderr: &str, status: &str) -> String {
    let lines = || {
        stderr
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let error = lines().find(|line| line.to_ascii_lowercase().contains("error"));
    let told = error.or_else(|| lines().next_back()).unwrap_or(status);
    told.chars().filter(|c| !c.is_control()).collect()
}

/// The path of a library in the output of `ldd`.
pub fn library(ldd: &str, soname: &str) -> Option<PathBuf> {
    ldd.lines().find_map(|line| {
        let (name, rest) = line.trim().split_once(" => ")?;
        let path = rest.split(" (").next()?;
        (name == soname && path.starts_with('/')).then(|| PathBuf::from(path))
    })
}

#[derive(Deserialize)]
struct Report {
    arrivals: u64,
}

/// Arrivals in sbt's report.
pub fn sbt(json: &str) -> Result<Seen> {
    let report: Report = serde_json::from_str(json).context("it wrote no report")?;
    Ok(Seen::Arrivals(report.arrivals))
}

/// The sum of bpftrace's lines `@arrivals[tid]: 12`. Here and below `None` if no line is as expected: what the
/// tool counted is unknown then.
pub fn bpftrace(text: &str) -> Option<Seen> {
    let counts = text.lines().filter_map(|line| {
        let rest = line.trim().strip_prefix("@arrivals[")?;
        rest.split_once("]: ")?.1.parse::<u64>().ok()
    });
    sum(counts).map(Seen::Arrivals)
}

/// Samples in the output of `perf report --stats`, where the total stands first.
pub fn perf_record(text: &str) -> Option<Seen> {
    let samples = text.lines().find_map(|line| {
        let rest = line.trim().strip_prefix("SAMPLE events:")?;
        rest.split_whitespace().next()?.parse().ok()
    });
    samples.map(Seen::Arrivals)
}

/// Calls in the summary of `perf trace -s`, which has a table for each thread.
pub fn perf_trace(text: &str) -> Option<Seen> {
    column(text, 1, |words| words.first() == Some(&"futex")).map(Seen::FutexCalls)
}

/// Calls in the summary of `strace -c`.
pub fn strace(text: &str) -> Option<Seen> {
    column(text, 3, |words| words.last() == Some(&"futex")).map(Seen::FutexCalls)
}

/// Calls in the summary of `ltrace -c`.
pub fn ltrace(text: &str, function: &str) -> Option<Seen> {
    column(text, 3, |words| words.last() == Some(&function)).map(Seen::Arrivals)
}

/// Number of lines that gdb's breakpoint commands print.
pub fn gdb(text: &str) -> Seen {
    let lines = text.lines().filter(|line| line.starts_with("arrival "));
    Seen::Arrivals(lines.count() as u64)
}

/// The sum of the numbers in one column of the selected lines.
fn column(text: &str, column: usize, is_meant: impl Fn(&[&str]) -> bool) -> Option<u64> {
    let numbers = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = words.get(column)?.parse::<u64>().ok()?;
        is_meant(&words).then_some(number)
    });
    sum(numbers)
}

fn sum(numbers: impl Iterator<Item = u64>) -> Option<u64> {
    numbers.reduce(|sum, number| sum + number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_say_how_long_they_took() {
        for (text, expected) in [
            ("seconds 1.251\n", Some(1.251)),
            ("arrival 1\nseconds 2\n@x: 3 s\n", Some(2.0)),
            (
                "water, 18 time steps\nwater: energy within 0.00 %, OK, 0.64 s\n",
                Some(0.64),
            ),
            ("all went well\n", None),
        ] {
            assert_eq!(own_time(text), expected, "{text}");
        }
    }

    #[test]
    fn a_failure_has_the_reason_that_was_printed() {
        let text = "warning: old\n\n  ERROR: \u{1b}[1mno such probe\nbye\n";
        assert_eq!(reason(text, "exit status: 1"), "ERROR: [1mno such probe");
        assert_eq!(reason("no way\n", "exit status: 1"), "no way");
        assert_eq!(reason("\n", "exit status: 1"), "exit status: 1");
    }

    #[test]
    fn libraries_are_found_by_their_name() {
        let text = "\tlinux-vdso.so.1 (0x1)\n\tlibgomp.so.1 => /lib/x/libgomp.so.1 (0x2)\n\
                    \tlibc.so.6 => not found\n";
        assert_eq!(
            library(text, "libgomp.so.1"),
            Some("/lib/x/libgomp.so.1".into())
        );
        assert_eq!(library(text, "libc.so.6"), None);
    }

    #[test]
    fn counts_of_all_threads_are_added() {
        let text = "\n@arrivals[1679]: 5000\n@arrivals[1681]: 4998\n\n@waited[1681]: 824319996\n";
        assert_eq!(bpftrace(text), Some(Seen::Arrivals(9998)));
        assert_eq!(bpftrace("@waited[1681]: 824319996\n"), None);
        let text = " phases (1955), 9999 events, 50.0%\n   syscall  calls  errors  total\n\
                    \x20  futex   4999    434   788.019     0.010\n\
                    \n phases (1957)\n   futex   5000    299   780.308\n";
        assert_eq!(perf_trace(text), Some(Seen::FutexCalls(9999)));
    }

    #[test]
    fn summaries_have_the_calls_in_the_fourth_column() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.072338           7     10034      4148 futex\n\
                    100.00    0.072338           7     10034      4148 total\n";
        assert_eq!(strace(text), Some(Seen::FutexCalls(10034)));
        assert_eq!(strace(&text.replace("futex", "read")), None);
        let text = "100.00    2.365670         591      4000 pthread_barrier_wait\n\
                    100.00    2.365670                  4000 total\n";
        assert_eq!(
            ltrace(text, "pthread_barrier_wait"),
            Some(Seen::Arrivals(4000))
        );
        assert_eq!(ltrace(text, "GOMP_barrier"), None);
    }

    #[test]
    fn samples_are_those_of_all_events_together() {
        let text = "Aggregated stats:\n           TOTAL events:      10017\n\
                    \x20         SAMPLE events:      10000  (99.8%)\n\
                    x stats:\n          SAMPLE events:      10\n";
        assert_eq!(perf_record(text), Some(Seen::Arrivals(10000)));
    }

    #[test]
    fn the_others_count_too() {
        let report = sbt(r#"{"arrivals": 12, "x": 1}"#);
        assert_eq!(report.unwrap(), Seen::Arrivals(12));
        assert!(sbt("{").is_err());
        assert_eq!(gdb("arrival 1\nfoo\narrival 2\n"), Seen::Arrivals(2));
    }
}
