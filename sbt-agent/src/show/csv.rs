//! Tables as comma-separated values (RFC 4180), for spreadsheets and scripts. Unknown values are
//! empty cells. docs/exports.md describes the columns.

use std::io::Write;

use csv::{Terminator, Writer, WriterBuilder};

use super::Episode;
use sbt_engine::{
    place::printable,
    report::{Report, SiteReport, SiteThreadReport, WaitsReport},
};

/// A text cell. Spreadsheets treat a cell that begins with one of these characters as a formula,
/// unless an apostrophe precedes it.
fn text(text: &str) -> String {
    let text = printable(text);
    match text.chars().next() {
        Some('=' | '+' | '-' | '@' | '\u{ff1d}' | '\u{ff0b}' | '\u{ff0d}' | '\u{ff20}') => {
            format!("'{text}")
        }
        _ => text,
    }
}

fn number(value: impl Into<Option<u64>>) -> String {
    value
        .into()
        .map_or_else(String::new, |value| value.to_string())
}

fn writer<W: Write>(out: W) -> Writer<W> {
    WriterBuilder::new()
        .terminator(Terminator::CRLF)
        .from_writer(out)
}

/// The first columns of the table of sites and threads. The counters' columns follow.
const SITES: [&str; 27] = [
    "site",
    "name",
    "kind",
    "function",
    "file",
    "line",
    "binary",
    "thread",
    "label",
    "tid",
    "pid",
    "thread_name",
    "site_episodes",
    "site_lost_ns",
    "episodes",
    "last",
    "work_ns",
    "idle_ns",
    "release_ns",
    "running_ns",
    "ready_ns",
    "blocked_ns",
    "spinning_ns",
    "asleep_ns",
    "alone_ns",
    "path_ns",
    "npt_ns",
];

/// Writes one row for each site and thread; a site without known threads gets one row without a
/// thread.
///
/// # Errors
/// Writing to `out` fails.
pub fn sites(report: &Report, out: impl Write) -> csv::Result<()> {
    let mut out = writer(out);
    let counters: Vec<&str> = report
        .counters
        .iter()
        .map(|counter| counter.name.as_str())
        .collect();
    let titles = SITES.iter().map(|title| (*title).to_owned());
    out.write_record(titles.chain(counters.iter().map(|name| text(name))))?;
    for site in &report.sites {
        if site.threads.is_empty() {
            out.write_record(row(report, site, None, &counters))?;
        }
        for thread in &site.threads {
            out.write_record(row(report, site, Some(thread), &counters))?;
        }
    }
    out.flush()?;
    Ok(())
}

fn row(
    report: &Report,
    site: &SiteReport,
    site_thread: Option<&SiteThreadReport>,
    counters: &[&str],
) -> Vec<String> {
    let thread = site_thread.and_then(|row| report.thread(row.thread));
    let of = |f: fn(&SiteThreadReport) -> Option<u64>| number(site_thread.and_then(f));
    let maybe = |cell: &Option<String>| text(cell.as_deref().unwrap_or(""));
    let waits =
        |f: fn(&WaitsReport) -> Option<u64>| number(site_thread.and_then(|row| f(&row.waits)));
    let mut row = vec![
        site.id.to_string(),
        text(&site.called()),
        site.kind.to_string(),
        maybe(&site.function),
        maybe(&site.file),
        number(site.line.map(u64::from)),
        text(&site.binary),
        number(site_thread.map(|row| row.thread.into())),
        text(&site_thread.map_or_else(String::new, |row| report.label(row.thread))),
        number(thread.map(|thread| thread.tid.into())),
        number(thread.map(|thread| thread.pid.into())),
        text(thread.map_or("", |thread| &thread.name)),
        number(site.episodes),
        number(site.lost_ns),
        of(|thread| Some(thread.episodes)),
        of(|thread| Some(thread.last)),
        of(|thread| thread.work_ns),
        of(|thread| Some(thread.idle_ns)),
        of(|thread| thread.release_ns),
        of(|thread| thread.running_ns),
        of(|thread| thread.ready_ns),
        of(|thread| thread.blocked_ns),
        waits(|waits| waits.spinning_ns),
        waits(|waits| waits.asleep_ns),
        of(|thread| thread.alone_ns),
        of(|thread| Some(thread.path_ns)),
        of(|thread| Some(thread.npt_ns)),
    ];
    let counts = counters.iter().map(|name| {
        let count = site_thread.and_then(|row| row.counters.get(*name).copied().flatten());
        number(count)
    });
    row.extend(counts);
    row
}

/// The first columns of the table of episodes. The counters' columns follow.
const EPISODES: [&str; 19] = [
    "site",
    "name",
    "index",
    "from_site",
    "first_ns",
    "last_ns",
    "phase_ns",
    "barrier_ns",
    "order",
    "thread",
    "label",
    "arrived_ns",
    "gap_ns",
    "idle_ns",
    "release_ns",
    "work_ns",
    "running_ns",
    "ready_ns",
    "blocked_ns",
];

/// Writes the table of episodes: one row for each arrival, in the order in which episodes were
/// completed.
pub struct Episodes<'a, W: Write> {
    out: Writer<W>,
    report: &'a Report,
    /// Names of sites by id, and of threads by number, as cells.
    sites: Vec<(u32, String)>,
    threads: Vec<String>,
}

impl<'a, W: Write> Episodes<'a, W> {
    /// Writes the titles of the columns.
    ///
    /// # Errors
    /// Writing to `out` fails.
    pub fn new(report: &'a Report, out: W) -> csv::Result<Self> {
        let mut sites: Vec<(u32, String)> = report
            .sites
            .iter()
            .map(|site| (site.id, text(&site.called())))
            .collect();
        sites.sort_unstable();
        let mut this = Self {
            out: writer(out),
            report,
            sites,
            threads: report
                .threads
                .iter()
                .map(|thread| text(&thread.label))
                .collect(),
        };
        let titles = EPISODES.iter().map(|title| (*title).to_owned());
        let counters = report.counters.iter().map(|counter| text(&counter.name));
        this.out.write_record(titles.chain(counters))?;
        Ok(this)
    }

    /// Writes the rows of an episode.
    ///
    /// # Errors
    /// Writing to the file fails.
    pub fn add(&mut self, episode: &Episode) -> csv::Result<()> {
        let site = self
            .sites
            .binary_search_by_key(&episode.site, |site| site.0);
        let name = site.map_or("", |at| &self.sites[at].1);
        let known_site = site.is_ok().then_some(u64::from(episode.site));
        let from = episode.phase.and_then(|(from, _)| from);
        let from = from.filter(|id| self.sites.binary_search_by_key(id, |site| site.0).is_ok());
        let mut before_ns = episode.first_ns;
        for (order, seen) in (1_u64..).zip(&episode.seen) {
            let counts = (0..self.report.counters.len())
                .map(|at| number(seen.counts.get(at).copied().flatten()));
            let label = self.threads.get(seen.thread as usize);
            let known = label.is_some().then_some(u64::from(seen.thread));
            let cells = [
                number(known_site),
                name.to_owned(),
                number(episode.index),
                number(from.map(u64::from)),
                number(episode.first_ns),
                number(episode.last_ns),
                number(episode.phase.map(|(_, ns)| ns)),
                number(episode.barrier_ns()),
                number(order),
                number(known),
                label.cloned().unwrap_or_default(),
                number(seen.arrived_ns),
                number(seen.arrived_ns.saturating_sub(before_ns)),
                number(seen.idle_ns),
                number(seen.release_ns),
                number(seen.work_ns),
                number(seen.split.running_ns),
                number(seen.split.ready_ns),
                number(seen.split.blocked_ns),
            ];
            self.out.write_record(cells.into_iter().chain(counts))?;
            before_ns = seen.arrived_ns;
        }
        Ok(())
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// Writing to the file fails.
    pub fn finish(mut self) -> csv::Result<()> {
        Ok(self.out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::samples;

    fn table(report: &Report) -> (String, Vec<csv::StringRecord>) {
        let mut out = Vec::new();
        sites(report, &mut out).unwrap();
        let rows = csv::ReaderBuilder::new()
            .from_reader(out.as_slice())
            .records()
            .map(Result::unwrap)
            .collect();
        (String::from_utf8(out).unwrap(), rows)
    }

    #[test]
    fn a_row_for_each_site_and_thread() {
        let report = samples::imbalanced().report;
        let (text, rows) = table(&report);
        let titles = text.lines().next().unwrap();
        assert!(titles.starts_with("site,name,kind,function,file,line,"));
        assert!(text.contains("\r\n"));
        let pairs: usize = report.sites.iter().map(|site| site.threads.len()).sum();
        assert_eq!(rows.len(), pairs);
        let idle = titles
            .split(',')
            .position(|title| title == "idle_ns")
            .unwrap();
        let sum: u64 = rows
            .iter()
            .map(|row| row[idle].parse::<u64>().unwrap())
            .sum();
        let expected: u64 = report.sites.iter().map(|site| site.lost_ns).sum();
        assert_eq!(sum, expected);
    }

    #[test]
    fn what_is_unknown_is_empty() {
        let report = samples::lossy().report;
        let (text, rows) = table(&report);
        let titles: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        let at = |title| titles.iter().position(|other| *other == title).unwrap();
        assert_eq!(&rows[0][at("work_ns")], "");
        assert_eq!(&rows[0][at("release_ns")], "");
    }

    #[test]
    fn names_are_no_formulas_and_break_no_row() {
        let mut report = samples::hostile().report;
        report.threads[0].name = "=HYPERLINK(\"http://x\",\"y\")".into();
        report.threads[1].name = "a,b\r\n\"c\"".into();
        report.threads[2].name = "@sum".into();
        report.threads[3].name = "-1+2".into();
        report.sites[0].name = Some("+1".into());
        let (text, rows) = table(&report);
        assert!(rows.iter().all(|row| row.len() == rows[0].len()));
        for cell in rows.iter().flatten() {
            let first = cell.chars().next();
            assert!(!first.is_some_and(|c| "=+-@".contains(c)), "{cell}");
            assert!(!cell.contains(char::is_control), "{cell:?}");
        }
        assert!(text.contains("'=HYPERLINK"), "{text}");
        assert!(rows.iter().any(|row| &row[1] == "'+1"));
    }
}
