//! The verdict on one thread that works between parallel regions.

use super::{
    WORTH,
    words::{saves, who, whole},
};
use crate::{
    report::{Figure, Report, Run, SiteReport, VerdictKind, VerdictReport},
    total::total,
    words::time,
};

/// The most places that are listed.
const MOST_PLACES: usize = 3;

/// Mean time from one region to the next, ns, up to which it is taken for what the runtime needs to
/// begin a region (EPCC's benchmarks of OpenMP measure one to a few microseconds for that) and not for
/// work of the program.
const BEGIN_NS: u64 = 5_000;

/// What one thread does alone before the regions at a site, ns, if that is more than beginning them.
/// Without a CPU a thread does nothing, nor while sbt stops it.
fn alone(run: &Run, site: &SiteReport) -> u64 {
    let ready_ns = site.alone_ready_ns.unwrap_or(0);
    let blocked_ns = site.alone_blocked_ns.unwrap_or(0);
    let stopped_ns = if run.has_stopped_threads() {
        blocked_ns
    } else {
        0
    };
    site.alone_ns
        .map(|alone_ns| alone_ns.saturating_sub(ready_ns + stopped_ns))
        .filter(|alone_ns| *alone_ns > BEGIN_NS * site.episodes)
        .unwrap_or(0)
}

/// The mean time that the beginning of a region at a site takes, ns; 0 if the program works between
/// regions.
pub fn beginning(site: &SiteReport) -> u64 {
    let mean_ns = site.alone_ns.unwrap_or(0) / site.episodes.max(1);
    if mean_ns <= BEGIN_NS { mean_ns } else { 0 }
}

/// Verdict: one thread works between parallel regions, and the others are kept waiting for the next
/// region. Few long times count like many short ones.
pub fn serial_part(report: &Report) -> Option<VerdictReport> {
    let mut sites: Vec<&SiteReport> = report
        .sites
        .iter()
        .filter(|site| alone(&report.run, site) > 0 && site.between_ns.is_some())
        .collect();
    sites.sort_by_key(|site| (std::cmp::Reverse(alone(&report.run, site)), site.id));
    let alone_ns = total(sites.iter().map(|site| alone(&report.run, site)));
    let between_ns = total(sites.iter().filter_map(|site| site.between_ns));
    let share_pct = between_ns as f64 / report.thread_time.total_ns.max(1) as f64 * 100.0;
    let wall_pct = alone_ns as f64 / report.seen_ns().max(1) as f64 * 100.0;
    // If that thread hardly works, something else keeps the others: with more threads than CPUs,
    // they have no CPU.
    if share_pct < WORTH || wall_pct < WORTH {
        return None;
    }
    let worst = *sites.first()?;
    let worker = worst.threads.iter().max_by_key(|thread| thread.alone_ns)?;
    // Teams may be smaller than the number of threads that are kept between regions.
    let most = worst.threads.len().max(2) as f64 - 1.0;
    let others = (between_ns as f64 / alone_ns as f64).min(most);
    let gain_ns = whole(alone_ns as f64 * others / (others + 1.0));
    let text = format!(
        "serial part: {} works alone for {} between parallel regions, {wall_pct:.0} % of the {}, \
         while {} kept waiting for the next region to begin: {}. Divide that work too: {}.",
        who(report, worker.thread),
        time(alone_ns),
        report.seen_called(),
        if others < 1.5 {
            "another thread is".into()
        } else {
            format!("{others:.0} others are")
        },
        places(report, &sites, alone_ns),
        saves(report, gain_ns),
    );
    Some(VerdictReport {
        kind: VerdictKind::SerialPart,
        site: Some(worst.id),
        thread: Some(worker.thread),
        text,
        evidence: [
            ("share_pct", Figure::Real(share_pct)),
            ("gain_ns", Figure::Whole(gain_ns)),
            ("alone_pct", Figure::Real(wall_pct)),
            ("alone_ns", Figure::Whole(alone_ns)),
            ("threads", Figure::Real(others + 1.0)),
        ]
        .into(),
    })
}

/// Before which regions the thread works alone, and after which if that is known.
fn places(report: &Report, sites: &[&SiteReport], all_ns: u64) -> String {
    let mut listed: Vec<(String, u64)> = Vec::new();
    for site in sites {
        let called = format!("{}before {}", after(report, site), site.called());
        let ns = alone(&report.run, site);
        match listed.iter_mut().find(|(other, _)| *other == called) {
            Some((_, sum)) => *sum += ns,
            None => listed.push((called, ns)),
        }
    }
    let is_one = listed.len() == 1;
    // Places of less than 1 % are only counted.
    let told = |(at, (_, ns)): &(usize, &(String, u64))| {
        *at == 0 || *at < MOST_PLACES && ns * 100 >= all_ns
    };
    let told: Vec<&(String, u64)> = listed
        .iter()
        .enumerate()
        .filter(told)
        .map(|it| it.1)
        .collect();
    let words = told.iter().map(|(called, ns)| {
        if is_one {
            called.clone()
        } else {
            format!(
                "{:.0} % {called}",
                *ns as f64 / all_ns.max(1) as f64 * 100.0
            )
        }
    });
    let mut words: Vec<String> = words.collect();
    if listed.len() > told.len() {
        words.push(format!("at {} more", listed.len() - told.len()));
    }
    words.join(", ")
}

/// The region before, if the phase comes from one place only.
fn after(report: &Report, site: &SiteReport) -> String {
    let mut from = report.phases.iter().filter(|phase| phase.to == site.id);
    let first = from.next().and_then(|phase| report.site(phase.from?));
    match (first, from.next()) {
        (Some(first), None) if first.called() != site.called() => {
            format!("after {} and ", first.called())
        }
        _ => String::new(),
    }
}
