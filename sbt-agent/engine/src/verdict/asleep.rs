//! The verdict on threads that all sleep in their work: nobody is late, and all the same nobody
//! works.

use std::collections::{BTreeMap, HashMap};

use super::{KNOWN, away, lack::stood};
use crate::{
    report::{
        BlockedReason, Figure, Report, StatesLevel, VerdictKind, VerdictReport, waits::LooksReport,
    },
    total::total,
};

/// Percentage of the threads' time from which equal sleep is a verdict: a little input and output
/// belongs to most programs.
const SHARE: f64 = 5.0;

/// A reason that explains at least this part of the sleep is named; and all threads sleep if each
/// sleeps at least this part of what they sleep on average.
const HALF: f64 = 0.5;

/// The sleep of a thread is known if it is known in this part of its phases.
const NEARLY_ALL: f64 = 0.9;

/// How long all threads of a run sleep in their work, ns; without what one of them sleeps longer
/// than the others, for which the others wait.
fn equal_ns(report: &Report) -> f64 {
    let late = report.sites.iter().filter_map(|site| {
        let late = site.straggler.as_ref()?.late.as_ref()?;
        let equal = late.last.blocked_ns?.min(late.others.blocked_ns?);
        // In some episodes the states of some threads may be unknown.
        let all = late.episodes as f64 / late.split_episodes.max(1) as f64;
        Some(equal as f64 * late.participants * all)
    });
    late.sum()
}

/// Sleep and time of a thread between its first and its last barrier, ns, and of how many episodes.
#[derive(Clone, Copy, Default)]
struct Between {
    slept_ns: u64,
    time_ns: u64,
    /// Number of all its episodes.
    episodes: u64,
    /// Number of episodes in which the sleep before them is known.
    known: u64,
}

impl Between {
    /// Of all threads, by id.
    fn of_all(report: &Report) -> HashMap<u32, Self> {
        let mut all: HashMap<u32, Self> = HashMap::new();
        for row in report.sites.iter().flat_map(|site| &site.threads) {
            let between = all.entry(row.thread).or_default();
            between.episodes = between.episodes.saturating_add(row.episodes);
            let here_ns = [between.time_ns, row.idle_ns, row.release_ns.unwrap_or(0)];
            between.time_ns = total(here_ns);
            let later = row.later.and_then(|later| Some((later, later.blocked_ns?)));
            if let Some((later, slept_ns)) = later {
                between.known = between.known.saturating_add(later.episodes);
                between.slept_ns = between.slept_ns.saturating_add(slept_ns);
                between.time_ns = between.time_ns.saturating_add(later.work_ns);
            }
        }
        all
    }

    /// The part of the time that the thread slept, without `else_ns` that it may have lost in another
    /// way; `None` if that is not known of nearly all phases. Before the first barrier there is none.
    fn share(self, else_ns: u64) -> Option<f64> {
        let is_known = self.known as f64 >= NEARLY_ALL * self.episodes.saturating_sub(1) as f64;
        let slept_ns = self.slept_ns.saturating_sub(else_ns);
        is_known.then(|| slept_ns as f64 / self.time_ns.max(1) as f64)
    }
}

/// The part of its time between its first and its last barrier that even the thread slept that slept
/// least, without `else_ns` that each of them may have lost in another way. `None` if that is not
/// known of all threads, or if they differ by so much that it is not a sleep of all.
fn least(report: &Report, else_ns: u64) -> Option<f64> {
    // The report may have threads only together with others.
    if report.threads.iter().any(|thread| thread.threads > 1) {
        return None;
    }
    let all = Between::of_all(report);
    let met_again = all.values().filter(|between| between.episodes > 1);
    let shares: Vec<f64> = met_again
        .map(|between| between.share(else_ns))
        .collect::<Option<_>>()?;
    let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    let least = shares.into_iter().min_by(f64::total_cmp)?;
    (least >= HALF * mean).then_some(least)
}

/// What the threads were blocked in for longest, if that is most of it.
fn reason(report: &Report) -> Option<BlockedReason> {
    let mut sums = BTreeMap::new();
    for thread in &report.threads {
        for entry in &thread.away.as_ref()?.blocked_on {
            let sum = sums.entry(entry.reason).or_insert(0_u64);
            *sum = sum.saturating_add(entry.ns);
        }
    }
    let all = total(sums.values().copied());
    let (reason, most) = sums.into_iter().max_by_key(|(_, ns)| *ns)?;
    (most as f64 >= HALF * all as f64).then_some(reason)
}

/// The most that can be sleep of the program's own, percent of thread time: where sbt stops threads,
/// only looks tell sleep from that.
fn seen_pct(report: &Report) -> f64 {
    if !report.run.has_stopped_threads() {
        return f64::INFINITY;
    }
    let looks = report.waits.iter();
    let places = looks.flat_map(LooksReport::in_the_work);
    places
        .filter(|place| !place.spins())
        .map(|place| place.share_pct)
        .sum()
}

/// Verdict: all threads sleep in their work.
pub fn in_the_work(report: &Report) -> Option<VerdictReport> {
    // Sleep costs nothing where the threads that do not sleep want all CPUs.
    let looks = report.waits.as_ref();
    if looks
        .zip(report.run.cpus)
        .is_some_and(|(looks, cpus)| looks.want_all(cpus))
    {
        return None;
    }
    let total_ns = report.thread_time.total_ns.max(1) as f64;
    // A program that stands does not sleep, and it may have stood for longer than was seen.
    let stood_ns = stood::at_most_ns(report);
    let stolen_ns = report.stolen_ns();
    // A barrier that does not tell when threads leave it: they begin to work while they still sleep.
    let in_barriers = report.sites.iter();
    let in_barriers_ns = total(in_barriers.map(|site| report.slept_after_the_last_ns(site)));
    let threads = report.threads.len() as u64;
    let of_all_ns = stood_ns as f64 * threads as f64 + stolen_ns as f64 + in_barriers_ns as f64;
    let share_pct = (equal_ns(report) - of_all_ns) / total_ns * 100.0;
    let share_pct = share_pct.min(seen_pct(report));
    let else_ns = total([stood_ns, stolen_ns, in_barriers_ns / threads.max(1)]);
    let least_pct = least(report, else_ns)? * 100.0;
    let least_pct = least_pct.min(seen_pct(report));
    if share_pct < SHARE || least_pct < SHARE {
        return None;
    }
    let what = match (reason(report), report.states.level) {
        (Some(reason), _) => format!("most of it in {}. {}", reason.words(), away::remedy(reason)),
        (None, StatesLevel::Light) if report.run.is_by_ebpf() => {
            "for a lock, input or output, page faults or a pause. --states full tells which".into()
        }
        _ => "for a lock, input or output, page faults or a pause. Look where they do so".into(),
    };
    // A cause that is not known is told after those that are.
    let known = reason(report).map_or(0.0, |_| share_pct);
    Some(VerdictReport {
        kind: VerdictKind::AsleepInTheWork,
        site: None,
        thread: None,
        text: format!(
            "asleep in the work: each thread sleeps for at least {:.0} % of its time between its \
             first barrier and its last, {what}.",
            least_pct.floor()
        ),
        evidence: [
            ("share_pct", Figure::Real(share_pct)),
            ("least_pct", Figure::Real(least_pct)),
            (KNOWN, Figure::Real(known)),
        ]
        .into(),
    })
}
