//! Sites: the table of all sites, and details of the worst.

use std::fmt::Write as _;

use super::{
    Chosen, MOST_ROWS, NO_BREAK, Table, choose, count, counters, duration, each, is_shared, line,
    name, others, percent, plural, rest, thread_name, usage, wrapped,
};
use crate::show::related::related;
use crate::show::table::{Style, UNKNOWN, Unit};
use sbt_engine::report::{
    BarrierKind, BarrierStragglerReport, Report, SiteReport, SiteThreadReport, StatReport,
    StragglerPattern, StragglerReport, StragglerSequence, TrendReport, WaitsReport,
};

/// Width of a sparkline, in characters.
const SPARKS: usize = 32;

/// Maximum number of a site's barriers that are shown one by one.
const MOST_BARRIERS: usize = 8;
/// Maximum number of threads named as taking turns.
const MOST_TURNS: usize = 6;
/// Minimum share of the wall time that balance must save to be mentioned.
const WORTH_SAVING: f64 = 0.001;

/// By chance alone, one of two threads comes last in half of the episodes: below this percentage it is
/// not the same thread again and again.
const OF_TWO_PCT: f64 = 70.0;

/// The table of all sites.
pub fn barriers(out: &mut String, report: &Report, style: Style) {
    line(out, "");
    // The median, because the first phase includes the program's start, and a single slow episode
    // would distort the mean.
    let title = "BARRIERS, by thread-time lost (wall: of the wall time; phase, barrier: median)";
    line(out, &style.bold(title));
    let shown: Vec<&SiteReport> = report.sites.iter().take(MOST_ROWS).collect();
    let median = |stat: &Option<StatReport>| stat.as_ref().map(|stat| stat.p50);
    let column = |f: &dyn Fn(&SiteReport) -> Option<u64>| -> Vec<Option<u64>> {
        shown.iter().map(|site| f(site)).collect()
    };
    let mut table = Table::default();
    table
        .column("site", shown.iter().map(|site| name(site)).collect())
        .column(
            "episodes",
            shown.iter().map(|site| count(site.episodes)).collect(),
        )
        .durations("phase", &column(&|site| median(&site.phase_ns)), style)
        .durations("barrier", &column(&|site| median(&site.barrier_ns)), style)
        .durations("lost", &column(&|site| Some(site.lost_ns)), style)
        .column(
            "wall",
            shown
                .iter()
                .map(|site| percent(site.lost_wall_pct))
                .collect(),
        )
        .column(
            "last",
            shown
                .iter()
                .map(|site| {
                    known(site).map_or_else(
                        || UNKNOWN.into(),
                        |straggler| {
                            let label = report.label(straggler.thread);
                            format!("{label} {:.0} %", straggler.share_pct)
                        },
                    )
                })
                .collect(),
        );
    table.write(out, style, style.width.saturating_sub(58).max(20));
    rest(out, report.sites.len(), "site", style);
}

/// Details of one site: which threads wait there, and for which threads.
pub fn details(out: &mut String, report: &Report, site: &SiteReport, style: Style) {
    line(out, "");
    let mut title = name(site);
    if site.name.is_some() {
        let _infallible = write!(title, " ({})", site.places.join(" | "));
    }
    line(out, &style.bold(&title));
    let mut facts = facts(report, site, style);
    if !site.callers.is_empty() {
        facts.push(format!("called from {}", site.callers.join(" < ")));
    }
    let late = site
        .straggler
        .as_ref()
        .and_then(|straggler| straggler.late.as_ref());
    if let Some(away) = late.and_then(|late| late.away.as_ref()) {
        facts.extend(super::away::late(away, style));
    }
    facts.extend(related(site));
    facts.extend(usage::usage(report, site, style));
    facts.extend(trend(&site.trend, style));
    facts.extend(usage::busy_over_the_run(&site.trend, style));
    for fact in facts {
        let one = wrapped(&fact, style.width - 2);
        let lines = if one.len() > 1 {
            wrapped(&fact, style.width - 4)
        } else {
            one
        };
        for (index, part) in lines.iter().enumerate() {
            let indent = if index == 0 { "  " } else { "    " };
            line(out, &format!("{indent}{part}"));
        }
    }
    several(out, report, site, style);
    distributions(out, site, style);
    let Chosen {
        shown,
        others: left_out,
    } = choose(report, &site.threads, |thread| {
        let work_ns = thread.work_ns.unwrap_or(0);
        (thread.thread, [thread.last, work_ns, thread.idle_ns])
    });
    let bars = || {
        shown
            .iter()
            .filter(|thread| !is_shared(report, thread.thread))
    };
    let most = bars().map(|thread| thread.idle_ns).max().unwrap_or(0);
    let mut table = Table::default();
    table
        .column(
            "  thread",
            shown
                .iter()
                .map(|thread| format!("  {}", thread_name(report, thread.thread)))
                .collect(),
        )
        .durations("work", &each(&shown, |thread| thread.work_ns), style)
        .durations("idle", &each(&shown, |thread| Some(thread.idle_ns)), style)
        .column(
            "",
            shown
                .iter()
                .map(|thread| {
                    if is_shared(report, thread.thread) {
                        String::new()
                    } else {
                        style.bar(thread.idle_ns as f64 / most.max(1) as f64, 20)
                    }
                })
                .collect(),
        )
        .durations("release", &each(&shown, |thread| thread.release_ns), style)
        .column(
            "last",
            shown.iter().map(|thread| count(thread.last)).collect(),
        );
    table.write(out, style, 24);
    others(
        out,
        &each(&left_out, |thread| thread.work_ns),
        &each(&left_out, |thread| Some(thread.idle_ns)),
        style,
    );
    let counts: Vec<_> = shown
        .iter()
        .map(|thread| (thread.thread, &thread.counters))
        .collect();
    counters::of_threads(out, report, &counts, style);
}

/// The most important facts about a site, one sentence each: which thread arrives last, and what
/// balance would save.
pub fn facts(report: &Report, site: &SiteReport, style: Style) -> Vec<String> {
    let mut facts = stragglers(report, site, style);
    let saved_ns = saved_ns(report, site);
    let share = saved_ns / report.seen_ns().max(1) as f64;
    if let Some(imbalance) = site.imbalance_pct.filter(|_| share >= WORTH_SAVING) {
        let decimals = usize::from(share < 0.01);
        let (at_most, lack) =
            lack(report, site).map_or_else(Default::default, |lack| ("at most ", lack));
        facts.push(format!(
            "imbalance {imbalance:.0} %: perfect balance would save {at_most}{} of {} {} ({:.*} %){lack}",
            duration(Some(whole_ns(saved_ns)), style),
            duration(Some(report.seen_ns()), style),
            report.seen_called(),
            decimals,
            share * 100.0,
        ));
    }
    if report.worked_in_barrier_ns(site) > 0 {
        let tasks = "its threads may execute tasks while they are in the barrier: how much each \
                     worked is not known";
        facts.push(tasks.into());
    }
    facts.extend(spinning(site));
    facts.extend(recognised(report, site));
    facts
}

/// Where threads lack CPUs: what keeps balance from saving as much as the waits suggest.
fn lack(report: &Report, site: &SiteReport) -> Option<String> {
    const MUCH_PCT: f64 = 10.0;
    let sum = |of: fn(&SiteThreadReport) -> Option<u64>| -> Option<u64> {
        site.threads.iter().map(of).sum()
    };
    let ready = sum(|thread| thread.ready_ns).zip(sum(|thread| thread.work_ns));
    let (pct, of_what) = match ready {
        Some((ready, work)) => (
            ready as f64 / work.max(1) as f64 * 100.0,
            "the time between barriers here",
        ),
        None => (
            report.ready_pct_of_lives()?,
            "the time for which the program's threads lived",
        ),
    };
    (pct >= MUCH_PCT).then(|| {
        format!(
            "; less where threads lack CPUs: they were ready without one for {pct:.0} % of {of_what}"
        )
    })
}

/// Whether spinning is worth mentioning. Even a short sleep uses CPU time for going to sleep and
/// waking up, so small shares are ignored.
pub fn spins_much(waits: &WaitsReport) -> bool {
    waits.spinning_pct.is_some_and(|pct| pct >= 25.0)
}

/// A sentence about threads that spin while they wait, if they do.
fn spinning(site: &SiteReport) -> Option<String> {
    let spinning_pct = site
        .waits
        .spinning_pct
        .filter(|_| spins_much(&site.waits))?;
    Some(format!(
        "its threads spin: {spinning_pct:.0} % of the waiting here uses a CPU"
    ))
}

/// How the site's barriers were recognised, if they are not calls of a barrier function.
fn recognised(report: &Report, site: &SiteReport) -> Option<String> {
    let barriers = site.barriers.iter().filter_map(|id| report.barrier(*id));
    let barriers: Vec<_> = barriers
        .filter(|barrier| barrier.recognised.is_some())
        .collect();
    let by: Vec<_> = barriers
        .iter()
        .filter_map(|barrier| barrier.recognised.as_ref())
        .collect();
    let members = by.iter().map(|by| by.members);
    let members = match (members.clone().min()?, members.max()?) {
        (least, most) if least == most => count(least.into()),
        (least, most) => format!("{least} to {most}"),
    };
    let rounds = by.iter().map(|by| by.rounds).sum();
    let what = if barriers
        .iter()
        .all(|barrier| barrier.kind == BarrierKind::Futex)
    {
        ["a futex", "futexes"]
    } else {
        ["a condition variable", "condition variables"]
    };
    let from = match by.len() {
        1 => what[0].to_owned(),
        some => format!("{some} {}", what[1]),
    };
    Some(format!(
        "recognised from {from}: {} of the same {members} threads, where the last thread wakes the \
         others",
        plural(rounds, "round"),
    ))
}

/// More threads are not a few.
const FEW: usize = 32;

/// The meaning of the pattern of stragglers.
fn pattern(straggler: &StragglerReport, site: &SiteReport) -> &'static str {
    let ever = site.threads.iter().filter(|thread| thread.last > 0).count();
    match (straggler.pattern, straggler.sequence) {
        (StragglerPattern::Persistent, _)
            if site.threads.len() == 2 && straggler.share_pct < OF_TWO_PCT =>
        {
            "more often than the other"
        }
        (StragglerPattern::Persistent, _) => "the same thread again and again",
        (StragglerPattern::Alternating, StragglerSequence::Turns) if ever == 2 => {
            "two threads take turns"
        }
        (StragglerPattern::Alternating, StragglerSequence::Turns) => "a few threads take turns",
        (StragglerPattern::Alternating, StragglerSequence::Stretches) => {
            "one of a few threads for a while, then another"
        }
        // Of many threads that come and go none is last twice.
        (StragglerPattern::Alternating, _) if ever > FEW => "",
        (StragglerPattern::Alternating, _) => "mostly one of a few threads",
        (StragglerPattern::Rotating, StragglerSequence::Turns) => "the threads take turns",
        (StragglerPattern::Rotating, StragglerSequence::Stretches) => {
            "one thread for a while, then another"
        }
        (StragglerPattern::Rotating, _) => "no thread in particular",
        _ => "",
    }
}

/// The thread that most often arrives last; `None` if the share of episodes with an unknown last
/// thread is larger.
pub fn known(site: &SiteReport) -> Option<&StragglerReport> {
    let straggler = site.straggler.as_ref();
    straggler.filter(|straggler| straggler.share_pct >= straggler.unknown_pct)
}

/// Sentences about which threads arrive last.
fn stragglers(report: &Report, site: &SiteReport, style: Style) -> Vec<String> {
    let mut facts = Vec::new();
    let each = if differ(site) { " at each barrier" } else { "" };
    // If each barrier has its own straggler, the site has none.
    let own = |straggler: &&StragglerReport| {
        !each.is_empty() && straggler.pattern == StragglerPattern::Persistent
    };
    if let Some(straggler) = known(site).filter(|straggler| !own(straggler)) {
        let pattern = match pattern(straggler, site) {
            "" => String::new(),
            words if straggler.pattern == StragglerPattern::Alternating && each.is_empty() => {
                format!(": {words}, {}", turns(report, site))
            }
            words => format!(": {words}{each}"),
        };
        facts.push(format!(
            "{} comes last in {:.0} % of {}{pattern}",
            thread_name(report, straggler.thread),
            straggler.share_pct,
            plural(site.episodes, "episode"),
        ));
    }
    let shared = site
        .threads
        .iter()
        .find(|thread| is_shared(report, thread.thread) && thread.last > 0);
    if let Some(shared) = shared {
        facts.push(format!(
            "in {:.0} % the last thread is one of {}; which one is unknown",
            shared.last as f64 / site.episodes.max(1) as f64 * 100.0,
            thread_name(report, shared.thread),
        ));
    }
    if let Some(straggler) = &site.straggler {
        let lead = duration(Some(straggler.mean_lead_ns), style);
        let mut fact = format!("the last thread is {lead} behind the one before on average");
        // At several barriers, the runs of one straggler are interrupted by the others.
        if each.is_empty() {
            let run = count(straggler.longest_run);
            fact = format!("{fact}; most in a row: {run}");
        }
        facts.push(fact);
    }
    facts
}

/// The fewest threads that are last in four of five episodes, with their shares.
fn turns(report: &Report, site: &SiteReport) -> String {
    let mut threads: Vec<_> = site
        .threads
        .iter()
        .filter(|thread| !is_shared(report, thread.thread))
        .collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.last));
    let mut together = 0;
    let few = threads.iter().take_while(|thread| {
        let more = together * 5 < site.episodes * 4;
        together += if more { thread.last } else { 0 };
        more
    });
    let mut names: Vec<String> = few
        .map(|thread| {
            let share = thread.last as f64 / site.episodes.max(1) as f64 * 100.0;
            format!("{} {share:.0} %", report.label(thread.thread))
        })
        .collect();
    let more = names.len().saturating_sub(MOST_TURNS);
    names.truncate(MOST_TURNS);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

/// Whether the barriers used from a site have different stragglers, beyond chance.
fn differ(site: &SiteReport) -> bool {
    let all = &site.straggler_by_barrier;
    let mut clear = all.iter().filter(|at| at.pattern != StragglerPattern::None);
    let marked = |at: &BarrierStragglerReport| {
        matches!(
            at.pattern,
            StragglerPattern::Persistent | StragglerPattern::Alternating
        )
    };
    let first = clear.next();
    first.is_some_and(|first| clear.any(|at| at.thread != first.thread)) && all.iter().any(marked)
}

/// The barriers used from a site, if they say more than the site alone.
fn several(out: &mut String, report: &Report, site: &SiteReport, style: Style) {
    if !differ(site) {
        return;
    }
    let number = site.barriers.len() as u64;
    // At most 64 barriers are recorded per site.
    let or_more = if number >= 64 { " or more" } else { "" };
    let persistent = site
        .straggler
        .as_ref()
        .is_some_and(|straggler| straggler.pattern == StragglerPattern::Persistent);
    let how = if persistent { ", one to each" } else { "" };
    line(
        out,
        &format!("  {number}{or_more} barriers are used from here; their stragglers differ{how}:"),
    );
    let all = &site.straggler_by_barrier;
    let shown: Vec<&BarrierStragglerReport> = all.iter().take(MOST_BARRIERS).collect();
    let address = |at: &&BarrierStragglerReport| {
        let barrier = at.barrier.and_then(|id| report.barrier(id));
        barrier.map_or_else(|| UNKNOWN.into(), |barrier| barrier.address.clone())
    };
    let straggler = |at: &&BarrierStragglerReport| {
        at.thread.map_or_else(
            || UNKNOWN.into(),
            |thread| format!("{} {:.0} %", thread_name(report, thread), at.share_pct),
        )
    };
    let mut table = Table::default();
    table
        .column(
            "  barrier",
            shown
                .iter()
                .map(|at| format!("  {}", address(at)))
                .collect(),
        )
        .column(
            "episodes",
            shown.iter().map(|at| count(at.episodes)).collect(),
        )
        .durations("lost", &each(&shown, |at| Some(at.lost_ns)), style)
        .column("last", shown.iter().map(straggler).collect());
    table.write(out, style, 24);
    if all.len() > MOST_BARRIERS {
        let more = plural((all.len() - MOST_BARRIERS) as u64, "barrier");
        line(out, &style.dim(&format!("  and {more} more")));
    }
}

/// Wall time that perfect balance would save at a site, ns: the gain divided by the number of teams
/// that use the site at the same time.
fn saved_ns(report: &Report, site: &SiteReport) -> f64 {
    let parts: u64 = site.threads.iter().map(|thread| thread.episodes).sum();
    let team_ns = parts as f64 / site.episodes.max(1) as f64 * report.seen_ns() as f64;
    let of_one_team = site.lost_ns as f64 / team_ns.max(1.0) * 100.0;
    let teams = site.lost_wall_pct.map_or(1.0, |share| of_one_team / share);
    site.gain_ns as f64 / if teams > 1.0 { teams } else { 1.0 }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a duration in ns is positive and far below 2^63"
)]
fn whole_ns(ns: f64) -> u64 {
    ns.round() as u64
}

/// The greatest value that is drawn to scale. A few much greater values, such as the phase with the
/// program's start, would otherwise flatten all others.
pub fn top(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let most = sorted.last().copied().unwrap_or(0);
    let few = values.len().div_ceil(16);
    match sorted.len().checked_sub(few + 1) {
        Some(index) if most > 2 * sorted[index] => {
            let usual = values.iter().filter(|value| **value <= 2 * sorted[index]);
            usual.copied().max().unwrap_or(most)
        }
        _ => most,
    }
}

/// The phase times over the run as a line of bars.
pub fn trend(trend: &[TrendReport], style: Style) -> Option<String> {
    let groups = trend.chunks(trend.len().div_ceil(SPARKS).max(1));
    let means: Vec<u64> = groups
        .filter_map(|group| {
            let known = || {
                group
                    .iter()
                    .filter_map(|part| Some((part.phase_ns?, part.episodes)))
            };
            let sum: u64 = known()
                .map(|(mean, episodes)| mean.saturating_mul(episodes))
                .sum();
            sum.checked_div(known().map(|(_, episodes)| episodes).sum())
        })
        .collect();
    let (first, last) = (*means.first()?, *means.last()?);
    if means.len() < 4 {
        return None;
    }
    let top = top(&means);
    let above = means.iter().copied().filter(|mean| *mean > top).max();
    let above = above.map_or_else(String::new, |most| {
        let most = duration(Some(most), style);
        format!(" ({}: to {most})", style.above()).replace(' ', NO_BREAK)
    });
    Some(format!(
        "phase time over the run: {} to {}  {}{above}",
        duration(Some(first), style),
        duration(Some(last), style),
        style.spark(&means, top),
    ))
}

/// The distributions of a site's times.
fn distributions(out: &mut String, site: &SiteReport, style: Style) {
    let rows = [
        ("phase", &site.phase_ns),
        ("barrier", &site.barrier_ns),
        ("idle", &site.idle_ns),
        ("release", &site.release_ns),
        ("work", &site.work_ns),
    ];
    let known: Vec<(&str, &StatReport)> = rows
        .iter()
        .filter_map(|(what, stat)| Some((*what, stat.as_ref()?)))
        .collect();
    if known.is_empty() || site.episodes < 2 {
        return;
    }
    // One unit per row, fitted to the mean: release and phase times differ by orders of magnitude,
    // as does the maximum from the mean.
    let unit = |stat: &StatReport| Unit::fitting([Some(stat.mean)]);
    let cells = |f: &dyn Fn(&StatReport) -> u64| -> Vec<String> {
        known
            .iter()
            .map(|(_, stat)| unit(stat).write(Some(f(stat))))
            .collect()
    };
    let mut table = Table::default();
    table.column(
        "  time",
        known
            .iter()
            .map(|(what, stat)| format!("  {what} {}", unit(stat).label(style)))
            .collect(),
    );
    for (title, f) in COLUMNS {
        table.column(title, cells(&f));
    }
    table.write(out, style, 24);
}

type Figure = fn(&StatReport) -> u64;

const COLUMNS: [(&str, Figure); 7] = [
    ("min", |stat| stat.min),
    ("mean", |stat| stat.mean),
    ("deviation", |stat| stat.stddev),
    ("p50", |stat| stat.p50),
    ("p95", |stat| stat.p95),
    ("p99", |stat| stat.p99),
    ("max", |stat| stat.max),
];
