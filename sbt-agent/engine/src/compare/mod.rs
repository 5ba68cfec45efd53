//! Two reports side by side: what got slower, by how much, and whether the change exceeds the
//! differences between the episodes of one run.
//!
//! Pure functions: `sbt diff` shows the result, and `sbt check --baseline` judges it.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use crate::{
    report::{PhaseReport, Report, SiteReport, StatReport},
    words::command_line,
};

mod alignment;
mod comparison;
mod counters;
pub mod matching;
pub mod noise;
mod rate;
#[cfg(test)]
mod tests;

pub use comparison::{
    Change, Comparison, CounterChange, EfficiencyChange, Ends, METHOD, PhaseChange, RateChange,
    RatePer, SCHEMA, Shares, Side, SiteChange, Slower, Unmatched, UnmatchedKind, tolerated,
};

use comparison::Spreads;
use matching::Pair;
use noise::{Spread, spreads};

/// Compares two reports.
pub fn compare(before: &Report, after: &Report) -> Comparison {
    let matched = matching::sites(before, after);
    let efficiency = |report: &Report, f: fn(&crate::report::EfficiencyReport) -> f64| {
        report.efficiency.as_ref().map(f)
    };
    let shares = |f| Shares {
        before: efficiency(before, f),
        after: efficiency(after, f),
    };
    let mut all = Comparison {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        method: METHOD,
        before: side(before),
        after: side(after),
        notes: notes(before, after),
        wall_ns: Change::plain(wall_ns(before), wall_ns(after)),
        efficiency: EfficiencyChange {
            parallel: shares(|known| known.parallel),
            load_balance: shares(|known| known.load_balance),
            serialisation: shares(|known| known.serialisation),
            transfer: shares(|known| known.transfer),
        },
        counters: counters::of_runs(before, after),
        sites: Vec::new(),
        phases: Vec::new(),
        only_before: Vec::new(),
        only_after: Vec::new(),
    };
    all.notes.extend(note_of_doubt(&matched));
    let counters = counters::names(before, after);
    all.sites = matched.iter().map(|pair| site(pair, &counters)).collect();
    all.sites.sort_by_key(|site| Reverse(site.cost_ns));
    if [before, after].iter().any(|report| report.lost_events > 0) {
        all.sites.iter_mut().for_each(SiteChange::forget_sums);
        let counters = all.counters.iter_mut();
        counters.for_each(|counter| counter.sum.change_pct = None);
    }
    let ids = || matched.iter().map(|pair| (pair.before.id, pair.after.id));
    let pairs: HashMap<u32, u32> = ids().collect();
    all.phases = phases(before, after, &pairs);
    if [before, after].iter().any(|report| report.lost_events > 0) {
        for phase in &mut all.phases {
            phase.episodes.change_pct = None;
            phase.cost_ns = None;
        }
    }
    all.phases.sort_by_key(|phase| Reverse(phase.cost_ns));
    let (mine, others): (HashSet<u32>, HashSet<u32>) = ids().unzip();
    let (done, others_done) = all
        .phases
        .iter()
        .map(|phase| (phase.before, phase.after))
        .unzip();
    all.only_before = alone(before, &mine, &done);
    all.only_after = alone(after, &others, &others_done);
    all
}

/// How long a run took; `None` for an incomplete recording.
fn wall_ns(report: &Report) -> Option<u64> {
    report.is_complete().then_some(report.run.wall_ns)
}

fn side(report: &Report) -> Side {
    Side {
        schema: report.schema,
        version: report.version.into(),
        command: report.run.command.clone(),
        backend: report.run.backend.clone(),
        threads: threads(report),
        episodes: report.episodes,
        exit_status: report.run.exit_status,
    }
}

fn threads(report: &Report) -> u64 {
    report.threads.iter().map(|thread| thread.threads).sum()
}

fn notes(before: &Report, after: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if before.run.command != after.run.command {
        let [a, b] = [before, after].map(|report| command_line(&report.run.command));
        notes.push(format!("the commands differ: {a} and {b}"));
    }
    let [a, b] = [before, after].map(threads);
    if a != b {
        notes.push(format!("the numbers of threads differ: {a} and {b}"));
    }
    for (what, a, b) in [
        ("backends", &before.run.backend, &after.run.backend),
        ("ways of watching", &before.run.method, &after.run.method),
    ] {
        if a != b {
            notes.push(format!("the {what} differ: {a} and {b}"));
        }
    }
    if before.schema != after.schema {
        notes.push(format!(
            "the reports have different schemas: {} and {}",
            before.schema, after.schema
        ));
    }
    if before.version != after.version {
        notes.push(format!(
            "different versions of sbt made the reports: {} and {}",
            before.version, after.version
        ));
    }
    if before.run.departures != after.run.departures {
        notes.push(
            "departures were not watched the same way in both runs: without departures, phases \
            begin at the last arrival"
                .into(),
        );
    }
    for (report, which) in [(before, "before"), (after, "after")] {
        if report.estimated {
            notes.push(format!(
                "the run {which} was watched part of the time only; its wall time is that of the \
                whole run"
            ));
        }
        if report.lost_events > 0 {
            notes.push(format!(
                "the run {which} lost {} events: its efficiency is unknown, and its numbers of \
                episodes and sums cannot be compared",
                report.lost_events
            ));
        }
        if let Some(missing) = report.incomplete.first() {
            notes.push(format!(
                "the run {which} is not complete, so its wall time is unknown: {}",
                missing.text
            ));
        }
        match report.run.exit_status {
            None if !report.run.ended && report.is_complete() => notes.push(format!(
                "the run {which} was watched for part of its time: wall times cannot be compared"
            )),
            Some(status) if status > 0 => {
                notes.push(format!("the run {which} ended with exit status {status}"));
            }
            _ => {}
        }
    }
    notes
}

/// A note that matched sites may be different ones.
fn note_of_doubt(matched: &[Pair<'_>]) -> Option<String> {
    const MOST: usize = 3;
    let unsure: Vec<&Pair<'_>> = matched.iter().filter(|pair| !pair.certain).collect();
    let mut names: Vec<String> = unsure
        .iter()
        .take(MOST)
        .map(|pair| format!("{} (was {})", pair.after.called(), pair.before.called()))
        .collect();
    if unsure.len() > MOST {
        names.push(format!("{} more", unsure.len() - MOST));
    }
    (!names.is_empty()).then(|| {
        format!(
            "several sites look alike, so sbt may have paired the wrong ones: {}; give each of \
            them a --name in both runs",
            names.join(", ")
        )
    })
}

fn site(pair: &Pair<'_>, counters: &[&str]) -> SiteChange {
    let Pair {
        before,
        after,
        certain,
    } = *pair;
    let (phase, other) = (before.phase_ns.as_ref(), after.phase_ns.as_ref());
    let phases = of_phases(before, after);
    let barriers = spreads(
        (&before.trend, before.barrier_ns.as_ref()),
        (&after.trend, after.barrier_ns.as_ref()),
        |at| Some(at.barrier_ns),
    );
    SiteChange {
        name: after.called(),
        name_before: before.called(),
        before: before.id,
        after: after.id,
        certain,
        episodes: Change::plain(Some(before.episodes), Some(after.episodes)),
        phase_ns: Change::of(phase, other, phases),
        barrier_ns: Change::of(
            before.barrier_ns.as_ref(),
            after.barrier_ns.as_ref(),
            barriers,
        ),
        lost_ns: Change::plain(Some(before.lost_ns), Some(after.lost_ns)),
        imbalance_pct: Shares {
            before: before.imbalance_pct,
            after: after.imbalance_pct,
        },
        cost_ns: cost_ns(phase, other),
        counters: counters::of_site(counters, pair),
    }
}

/// How certain the mean phase times of a site are in both runs.
fn of_phases(before: &SiteReport, after: &SiteReport) -> Spreads {
    spreads(
        (&before.trend, before.phase_ns.as_ref()),
        (&after.trend, after.phase_ns.as_ref()),
        |at| at.phase_ns,
    )
}

/// Additional time of the episodes after, compared with as many episodes before.
fn cost_ns(before: Option<&StatReport>, after: Option<&StatReport>) -> Option<i64> {
    let (before, after) = before.zip(after)?;
    let each = i128::from(after.mean) - i128::from(before.mean);
    i64::try_from(each.saturating_mul(after.count.into())).ok()
}

fn phases(before: &Report, after: &Report, pairs: &HashMap<u32, u32>) -> Vec<PhaseChange> {
    let later: HashMap<Ends, &PhaseReport> = after
        .phases
        .iter()
        .map(|phase| (ends(phase), phase))
        .collect();
    // By the id of a site before: for both runs, its number of phases and how certain their mean
    // is.
    let sure: HashMap<u32, [Option<(u64, Spread)>; 2]> = before
        .sites
        .iter()
        .filter_map(|site| {
            let other = after.site(*pairs.get(&site.id)?)?;
            let spreads = of_phases(site, other);
            let of = |side: usize, site: &SiteReport| {
                Some((site.phase_ns.as_ref()?.count, spreads[side]?))
            };
            Some((site.id, [of(0, site), of(1, other)]))
        })
        .collect();
    let names: HashMap<u32, String> = after
        .sites
        .iter()
        .map(|site| (site.id, site.called()))
        .collect();
    let name = |id: u32| names.get(&id).cloned().unwrap_or_default();
    let one = |phase: &PhaseReport| {
        let from = match phase.from {
            Some(from) => Some(*pairs.get(&from)?),
            None => None,
        };
        let to = *pairs.get(&phase.to)?;
        let other = *later.get(&Ends { from, to })?;
        let (stat, its) = (phase.phase_ns.as_ref(), other.phase_ns.as_ref());
        // How much episodes depend on each other is known for sites only.
        let spread = |side: usize, stat: Option<&StatReport>| {
            let (of, spread) = sure.get(&phase.to)?[side]?;
            spread.of_some(of, stat?.count)
        };
        let both = [spread(0, stat), spread(1, its)];
        Some(PhaseChange {
            from: from.map(name),
            to: name(to),
            before: ends(phase),
            after: ends(other),
            episodes: Change::plain(Some(phase.episodes), Some(other.episodes)),
            phase_ns: Change::of(stat, its, both),
            cost_ns: cost_ns(stat, its),
        })
    };
    before.phases.iter().filter_map(one).collect()
}

fn ends(phase: &PhaseReport) -> Ends {
    Ends {
        from: phase.from,
        to: phase.to,
    }
}

/// Sites and phases without a counterpart.
fn alone(report: &Report, matched: &HashSet<u32>, done: &HashSet<Ends>) -> Vec<Unmatched> {
    let mean = |stat: &Option<StatReport>| stat.as_ref().map(|stat| stat.mean);
    let name = |id: u32| report.site(id).map(SiteReport::called).unwrap_or_default();
    let sites = report.sites.iter();
    let sites = sites.filter(|site| !matched.contains(&site.id));
    let sites = sites.map(|site| Unmatched {
        what: UnmatchedKind::Site,
        from: None,
        name: site.called(),
        episodes: site.episodes,
        phase_ns: mean(&site.phase_ns),
    });
    let phases = report.phases.iter();
    let phases = phases.filter(|phase| !done.contains(&ends(phase)));
    let phases = phases.map(|phase| Unmatched {
        what: UnmatchedKind::Phase,
        from: phase.from.map(name),
        name: name(phase.to),
        episodes: phase.episodes,
        phase_ns: mean(&phase.phase_ns),
    });
    sites.chain(phases).collect()
}
