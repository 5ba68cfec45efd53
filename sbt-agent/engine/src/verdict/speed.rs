//! Whether a thread works longer because its CPU is slower: then nothing shows that it has more to do.
//!
//! A CPU is slower than another if its core runs another thread too, of this machine or of another
//! virtual machine, at a lower clock, or if it is of another kind. How much that slows the program's own
//! work is not known; the fixed piece of work that is timed is slowed as much as anything.

use super::{
    cost::Cost,
    culprit::{Culprit, members},
    words::{Others, who},
};
use crate::{
    report::{Figure, LateReport, Report, SiteReport, VerdictKind, VerdictReport},
    words::time,
};

/// The least number of measurements that tell something.
const MANY: u64 = 4;

/// CPUs that differ by less than this factor are told to be equal.
const DIFFERS: f64 = 1.1;

/// A CPU on which the piece of work takes so many times as long as in its shortest time has its core for
/// itself.
const OWN_CORE: f64 = 1.2;

/// How much of the time beyond that may slow the program's own work and not the piece of work: they need
/// different parts of the core. Of some 200 runs of balanced programs that mostly divide, on cores that other
/// virtual machines shared, four had one thread that worked 1.5 times as long on a CPU that was 1.0 to 1.1
/// times slower.
const UNLIKE: f64 = 0.45;

/// A neighbour on the same core slows nothing more than this.
const MOST_SHARED: f64 = 2.0;

/// How much longer equal work may take for want of speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slower {
    /// By which factor the CPU is slower than those of the others, as measured; 1 if it is not, or if that
    /// is not known.
    pub measured: f64,
    /// By which factor the program's own work may take longer there.
    pub at_most: f64,
}

impl Slower {
    /// `most`: the most that a slower CPU can explain, if that is known.
    fn new(
        measured: Option<f64>,
        took_ns: Option<f64>,
        most: Option<f64>,
        report: &Report,
    ) -> Self {
        let measured = measured.map_or(1.0, |slower| slower.max(1.0));
        let explains = most.map_or(measured, |most| measured.min(most));
        let shared = match (took_ns, report.fixed_work_shortest_ns) {
            (Some(took_ns), Some(shortest_ns)) => {
                (took_ns / f64::from(shortest_ns.max(1))).min(MOST_SHARED)
            }
            _ => 1.0,
        };
        Self {
            measured,
            at_most: (explains * (1.0 + UNLIKE * (shared - OWN_CORE).max(0.0)))
                .min(explains.max(MOST_SHARED)),
        }
    }

    /// Whether the CPU is so much slower that it is worth a word.
    pub fn is_told(self) -> bool {
        self.measured >= DIFFERS
    }
}

/// How long the piece of work took on the CPU of a thread, ns, if that was measured often enough.
fn took_ns(report: &Report, thread: u32) -> Option<f64> {
    let thread = report.thread(thread)?;
    let known = thread.fixed_work_times >= MANY;
    thread.fixed_work_ns.filter(|_| known)
}

/// The most by which a slower CPU can have made a thread's work longer than that of the others, where it works
/// longer by far: a CPU that is slower at times leaves some of the work as short as it is elsewhere, and one that
/// is slower all along takes longer for its shortest piece of work, too. `None` if that is not known, or if the
/// thread does not work longer by far: a CPU may be left alone for the microsecond of one measurement.
fn bound_by_the_least(report: &Report, site: &SiteReport, thread: u32) -> Option<f64> {
    /// How many times as long as the others a thread works by far.
    const BY_FAR: f64 = 5.0 / 3.0;
    struct Row {
        mean: f64,
        least: f64,
        least_fixed: f64,
    }
    let (mut own, mut others) = (None, Vec::new());
    for member in members(site) {
        let work = member.each.work_ns.as_ref();
        let work = work.filter(|work| work.count >= MANY && work.min > 0)?;
        let row = Row {
            mean: work.mean as f64,
            least: work.min as f64,
            least_fixed: report.thread(member.thread)?.fixed_work_least_ns?.into(),
        };
        if member.thread == thread {
            own = Some(row);
        } else {
            others.push(row);
        }
    }
    let own = own.filter(|_| !others.is_empty())?;
    let ratio = |of: fn(&Row) -> f64| {
        let mean = others.iter().map(of).sum::<f64>() / others.len() as f64;
        of(&own) / mean.max(1.0)
    };
    let (longer, least) = (ratio(|row| row.mean), ratio(|row| row.least));
    let fixed = ratio(|row| row.least_fixed);
    (longer >= BY_FAR).then(|| (longer / least).max(1.0) * fixed.max(1.0))
}

/// The CPUs of whichever thread came last at a site.
pub fn of_the_last(report: &Report, site: &SiteReport, late: &LateReport) -> Slower {
    let known = late.cpu_slower_episodes >= MANY;
    let slower = late.cpu_slower.filter(|_| known);
    let all = members(site).into_iter();
    let all: Vec<f64> = all
        .filter_map(|member| took_ns(report, member.thread))
        .collect();
    let mean = (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64);
    Slower::new(slower, mean, None, report)
}

/// The CPUs of a thread that meets others at a site.
pub fn of_thread(report: &Report, site: &SiteReport, thread: u32) -> Slower {
    let others = members(site).into_iter().map(|member| member.thread);
    let others: Option<Vec<f64>> = others
        .filter(|id| *id != thread)
        .map(|id| took_ns(report, id))
        .collect();
    let others = others.filter(|others| !others.is_empty());
    let own = took_ns(report, thread);
    let slower = own
        .zip(others)
        .map(|(own, others)| own * others.len() as f64 / others.iter().sum::<f64>().max(1.0));
    let most = bound_by_the_least(report, site, thread);
    Slower::new(slower, own, most, report)
}

/// Verdict: whoever comes last has a slower CPU, and does not work longer than that explains.
pub fn slow_cpu(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let (all, late) = Cost::of(report, site)?;
    let slower = of_the_last(report, site, late);
    let culprit = Culprit::of(report, site);
    let most = culprit
        .as_ref()
        .and_then(|culprit| bound_by_the_least(report, site, culprit.thread));
    let explains = most.map_or(slower.measured, |most| slower.measured.min(most));
    let (last, others_sum) = match (late.last.running_ns, late.others.running_ns) {
        (Some(last), Some(others)) => (last, others),
        _ => (late.last.work_ns, late.others.work_ns),
    };
    let (last_ns, others_ns) = (last as f64, others_sum as f64);
    let cost = all.explained((last_ns - others_ns).min(last_ns - last_ns / explains));
    if explains < DIFFERS || !cost.is_worth(report) || 2.0 * cost.share_pct < all.share_pct {
        return None;
    }
    let whose = culprit
        .filter(|culprit| of_thread(report, site, culprit.thread).is_told())
        .map(|culprit| culprit.thread);
    let others = Others::of(site);
    let whom = whose.map_or_else(
        || "whichever thread comes last".to_owned(),
        |thread| {
            let wait = others.choose("the other waits", "the others wait");
            format!("{}, for which {wait},", who(report, thread))
        },
    );
    let each = |ns: u64| {
        let episodes = if late.last.running_ns.is_some() {
            late.split_episodes
        } else {
            late.episodes
        };
        time(ns / episodes.max(1))
    };
    let text = format!(
        "slow CPU before {}: {whom} has a slower CPU, on which a fixed piece of work takes {:.1} times \
         as long as on {} ({} on a CPU in each phase, {} {} on average), so that \
         nothing shows more work; {}. Its core may also run something else, of another virtual machine too, \
         or has a lower clock: run it where nothing else runs, or let threads fetch their work in small parts.",
        site.called(),
        slower.measured,
        others.choose("that of the other", "those of the others"),
        each(last),
        others.the(),
        each(others_sum),
        cost.words(&all),
    );
    Some(VerdictReport {
        kind: VerdictKind::SlowCpu,
        site: Some(site.id),
        thread: whose,
        text,
        evidence: [
            ("share_pct", Figure::Real(cost.share_pct)),
            ("gain_ns", Figure::Whole(cost.saved_ns())),
            ("cpu_slower", Figure::Real(slower.measured)),
            ("episodes", Figure::Whole(late.cpu_slower_episodes)),
        ]
        .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_neighbour_on_a_core_slows_work_to_less_than_a_half() {
        let mut report = crate::samples::imbalanced().report;
        report.fixed_work_shortest_ns = Some(100);
        let at_most = |measured, took_ns| {
            let slower = Slower::new(Some(measured), Some(took_ns), None, &report);
            format!("{:.3}", slower.at_most)
        };
        assert_eq!(at_most(1.1, 150.0), "1.249");
        assert_eq!(at_most(1.75, 195.0), "2.000");
        // Its clock may be lower.
        assert_eq!(at_most(2.5, 195.0), "2.500");
    }
}
