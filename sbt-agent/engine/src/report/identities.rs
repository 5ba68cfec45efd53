//! Identities: what must be true of every report, whatever was watched.

use super::{EfficiencyReport, Report, SiteReport, StatReport, ThreadReport, Withheld};
use crate::total::total;

/// Relative tolerance for sums of floating-point numbers.
const ROUNDING: f64 = 1e-6;

/// By which factor waits may exceed the time without useful work. When a thread takes another
/// thread's place, the useful work of both overlaps for moments.
const LOST_OF_MISSING: f64 = 1.1;

/// Share by which times may exceed the time of all threads: watching ends a moment after the last
/// event, and a thread may go on in that moment.
const OVER: f64 = 0.01;
/// Time by which times may exceed the time of all threads in addition to [`OVER`], ns.
const OVER_NS: f64 = 10e6;

/// An identity that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    /// The figure that is not to be believed.
    pub figure: Withheld,
    /// The two figures that contradict each other.
    pub text: String,
}

/// All identities that are broken in a report.
pub(super) fn broken(report: &Report) -> Vec<Broken> {
    let of_phases = report.conceptual_phases.iter().filter_map(|phase| {
        let text = impossible(phase.efficiency.as_ref()?)?;
        Some(format!("phase {}: {text}", phase.name))
    });
    let efficiency = report.efficiency.as_ref();
    let efficiencies = efficiency
        .and_then(impossible)
        .into_iter()
        .chain(efficiency.and_then(|known| of_the_run(report, known)))
        .chain(of_phases)
        .map(|text| (Withheld::Efficiency, text));
    let shares = sums(report)
        .chain(shares(report))
        .chain(times(report))
        .map(|text| (Withheld::Shares, text));
    let cost = out_of_bounds("the own cost", report.own_cost.share_pct, 100.0)
        .map(|text| (Withheld::OwnCost, text));
    efficiencies
        .chain(shares)
        .chain(cost)
        .map(|(figure, text)| Broken { figure, text })
        .collect()
}

/// Why efficiencies are impossible in any run; `None` if they are possible.
fn impossible(it: &EfficiencyReport) -> Option<String> {
    let shares = [
        ("the efficiency", Some(it.parallel)),
        ("the load balance", Some(it.load_balance)),
        ("the serialisation", Some(it.serialisation)),
        ("the transfer", Some(it.transfer)),
        ("the CPU availability", it.cpu_availability),
    ];
    let wrong = shares
        .into_iter()
        .find_map(|(name, share)| out_of_bounds(name, share, 1.0));
    let threads = f64::from(it.threads);
    let product = it.load_balance * it.serialisation * it.transfer;
    let is_near = |one: f64, other: f64| (one - other).abs() <= ROUNDING * other.abs().max(1.0);
    wrong
        .or_else(|| out_of_bounds("the speed-up", Some(it.speedup), threads))
        .or_else(|| out_of_bounds("the granularity", it.granularity, f64::INFINITY))
        .or_else(|| {
            (!is_near(it.parallel, product)).then(|| {
                format!(
                    "the efficiency is {:.4}, and the product of its factors {product:.4}",
                    it.parallel
                )
            })
        })
        .or_else(|| {
            (!is_near(it.speedup, it.parallel * threads)).then(|| {
                format!(
                    "the speed-up is {:.4}, and the efficiency {:.4} of {threads} threads",
                    it.speedup, it.parallel
                )
            })
        })
}

/// Why the efficiencies of a run contradict its other figures; `None` if they do not.
fn of_the_run(report: &Report, it: &EfficiencyReport) -> Option<String> {
    let wall_ns = report.run.wall_ns as f64;
    if it.path_ns > report.run.wall_ns {
        return Some(format!(
            "the longest path takes {} ns, and the whole run {} ns",
            it.path_ns, report.run.wall_ns
        ));
    }
    // If the program goes on, events arrive for a moment after the end of watching, until the
    // probes are off. How long that takes is unknown here.
    if !report.run.ended {
        return None;
    }
    let all_ns = f64::from(it.threads) * wall_ns;
    let missing_ns = all_ns - it.useful_ns(report.run.wall_ns);
    let lost_ns = report.sites.iter().map(|site| site.lost_ns as f64).sum();
    let carried_ns = f64::from(it.threads) * carried_ns(report);
    let most_ns = missing_ns * LOST_OF_MISSING + all_ns * OVER + OVER_NS + carried_ns;
    (most_ns < lost_ns).then(|| {
        format!("threads waited for {lost_ns:.0} ns in {missing_ns:.0} ns without useful work")
    })
}

/// Totals that differ from the sum of their parts.
fn sums(report: &Report) -> impl Iterator<Item = String> {
    let time = &report.thread_time;
    let threads = |f: fn(&ThreadReport) -> u64| total(report.threads.iter().map(f));
    let sites = |f: fn(&SiteReport) -> u64| total(report.sites.iter().map(f));
    let release_ns = time.release_ns.unwrap_or(0);
    let between_ns = time.between_ns.unwrap_or(0);
    let parts = [time.work_ns, time.idle_ns, release_ns, between_ns];
    let of_the_run = [
        (
            "the thread time and the sum of its parts",
            time.total_ns,
            total(parts),
        ),
        (
            "the work of the run and of its threads",
            time.work_ns,
            threads(|thread| thread.work_ns.unwrap_or(0)),
        ),
        (
            "the waiting of the run and of its threads",
            time.idle_ns,
            threads(|thread| thread.idle_ns),
        ),
        (
            "the waiting of the run and of its sites",
            time.idle_ns,
            sites(|site| site.lost_ns),
        ),
        (
            "the arrivals of the run and of its threads",
            report.arrivals,
            threads(|thread| thread.arrivals),
        ),
        (
            "the episodes of the run and of its sites",
            report.episodes,
            sites(|site| site.episodes),
        ),
        (
            "the episodes of the run and the times that a thread came last",
            report.episodes,
            threads(|thread| thread.last),
        ),
        (
            "the incomplete episodes of the run and of its sites",
            report.incomplete_episodes,
            sites(|site| site.incomplete),
        ),
    ];
    let unequal = of_the_run
        .into_iter()
        .filter(|(_, whole, sum)| whole != sum)
        .map(|(what, whole, sum)| format!("{what} differ: {whole} and {sum}"));
    unequal.chain(report.sites.iter().filter_map(of_site))
}

/// Why the threads' figures at a site exceed those of the site; `None` if they do not.
fn of_site(site: &SiteReport) -> Option<String> {
    let name = || site.called();
    let threads = |f: fn(&super::SiteThreadReport) -> u64| total(site.threads.iter().map(f));
    let (idle_ns, last) = (threads(|one| one.idle_ns), threads(|one| one.last));
    if idle_ns > site.lost_ns {
        return Some(format!(
            "threads waited for {idle_ns} ns at {}, which counts {} ns",
            name(),
            site.lost_ns
        ));
    }
    if last > site.episodes {
        return Some(format!(
            "threads came last {last} times in {} episodes at {}",
            site.episodes,
            name()
        ));
    }
    let stats = [&site.phase_ns, &site.barrier_ns, &site.idle_ns];
    let wrong = stats.into_iter().flatten().any(|stat| !is_ordered(stat));
    wrong.then(|| {
        format!(
            "the mean time at {} is below the minimum or above the maximum",
            name()
        )
    })
}

const fn is_ordered(stat: &StatReport) -> bool {
    stat.count > 0 && stat.min <= stat.mean && stat.mean <= stat.max
}

/// Shares outside of 0 to 100 %.
fn shares(report: &Report) -> impl Iterator<Item = String> {
    let time = &report.thread_time;
    let of_time = [
        ("work", time.work_pct),
        ("waiting", time.idle_pct),
        ("release", time.release_pct),
        ("between", time.between_pct),
    ];
    let of_time = of_time
        .into_iter()
        .filter_map(|(name, pct)| out_of_bounds(&format!("the share of {name}"), pct, 100.0));
    let of_sites = report.sites.iter().flat_map(|site| {
        let straggler = site.straggler.as_ref().map(|last| last.share_pct);
        [
            ("wall time", site.lost_wall_pct),
            ("the path", site.path_pct),
            ("imbalance", site.imbalance_pct),
            ("last places", straggler),
        ]
        .into_iter()
        .filter_map(|(name, pct)| {
            out_of_bounds(
                &format!("the share of {name} at {}", site.called()),
                pct,
                100.0,
            )
        })
    });
    of_time.chain(of_sites)
}

/// Threads that did more than there was time for.
fn times(report: &Report) -> impl Iterator<Item = String> {
    let most_ns = report.run.wall_ns as f64 * (1.0 + OVER) + OVER_NS + carried_ns(report);
    let alone = report.threads.iter().filter(|thread| thread.threads == 1);
    alone.filter_map(move |thread| {
        let parts = [
            thread.work_ns.unwrap_or(0),
            thread.idle_ns,
            thread.release_ns.unwrap_or(0),
            thread.between_ns.unwrap_or(0),
        ];
        let all_ns = total(parts);
        let states = [thread.running_ns, thread.ready_ns, thread.blocked_ns];
        let split_ns = total(states.into_iter().flatten());
        // Events may arrive after the end of watching if the program goes on: see `of_the_run`.
        if report.run.ended && all_ns as f64 > most_ns {
            return Some(format!(
                "{} worked and waited for {all_ns} ns in a run of {} ns",
                thread.label, report.run.wall_ns
            ));
        }
        (split_ns > thread.work_ns.unwrap_or(0)).then(|| {
            format!(
                "{} ran, was ready and slept for {split_ns} ns of {} ns of work",
                thread.label,
                thread.work_ns.unwrap_or(0)
            )
        })
    })
}

/// How much of a thread's time may lie before the reported time, ns. After a reset of the sums, a
/// phase or a wait counts when it ends, with its part before the reset: that is at most one phase
/// and one wait.
pub(super) fn carried_ns(report: &Report) -> f64 {
    let sites = report.sites.iter();
    let longest = sites.flat_map(|site| {
        let stats = [
            &site.phase_ns,
            &site.work_ns,
            &site.idle_ns,
            &site.release_ns,
        ];
        stats.into_iter().flatten().map(|stat| stat.max)
    });
    2.0 * longest.max().unwrap_or(0) as f64
}

/// Why a figure is outside of 0 to `most`; `None` if it is inside or unknown.
fn out_of_bounds(name: &str, value: Option<f64>, most: f64) -> Option<String> {
    let value = value?;
    let is_right = value >= 0.0 && value <= most + ROUNDING * most.min(100.0);
    (!is_right).then(|| format!("{name} is {value}, which is not from 0 to {most}"))
}
