//! What kept a thread off the CPU, where every context switch was seen: what it was blocked on, and
//! what took its CPU.

use crate::report::{
    BlockedReason, BlockedReport, LateReport, Report, TakerKind, TakerReport, VerdictKind,
    VerdictReport,
};

/// The advice on a sleep whose reason is not known, or has no better advice.
pub const TAKE_OUT: &str = "Take that out of the phase, or let it go on beside the work";

/// For what a thread sleeps, if that is not known.
pub const UNKNOWN: &str = "for input or output, a lock, a page fault or a pause";

/// A reason must explain at least this fraction: nothing else can explain more.
const HALF: f64 = 0.5;

/// Below this share of the time, in percent, a taker is one of many and not worth mentioning.
const TAKEN: f64 = 20.0;

/// Whether a verdict tells of a sleep for an unknown reason, which may be a lock.
pub fn may_be_lock(verdict: &VerdictReport) -> bool {
    verdict.kind == VerdictKind::StragglerBlocked && verdict.text.contains(UNKNOWN)
}

/// What the last thread was blocked on for longer than the others, if that explains at least half
/// of `excess_ns`, the sum over the `split_episodes`.
pub fn reason(late: &LateReport, excess_ns: f64) -> Option<&BlockedReport> {
    let away = late.away.as_ref()?;
    // In some episodes not every context switch was seen.
    let seen = away.episodes as f64 / late.split_episodes.max(1) as f64;
    let others = |reason: BlockedReason| {
        let mut all = away.others.iter();
        all.find(|entry| entry.reason == reason)
            .map_or(0, |entry| entry.ns) as f64
    };
    let excess = |entry: &&BlockedReport| entry.ns as f64 - others(entry.reason);
    let most = away
        .last
        .iter()
        .max_by(|a, b| excess(a).total_cmp(&excess(b)))?;
    (excess_ns > 0.0 && excess(&most) >= HALF * seen * excess_ns).then_some(most)
}

/// Whether the reason may be a lock.
pub fn is_lock(reason: &BlockedReport) -> bool {
    reason.reason == BlockedReason::Futex
}

/// A reason in words, and what to do about it.
pub fn words(reason: Option<&BlockedReport>) -> (String, &'static str) {
    let Some(reason) = reason else {
        return (String::new(), "");
    };
    let remedy = remedy(reason.reason);
    (format!("blocked in {}", reason.reason.words()), remedy)
}

/// What to do about a reason. `locks`: whether locks were watched.
pub const fn remedy(reason: BlockedReason) -> &'static str {
    match reason {
        BlockedReason::Futex => {
            "Let threads share less that is locked, or hold locks for a shorter time"
        }
        BlockedReason::File => "Read ahead, write behind, or do the I/O in a thread of its own",
        BlockedReason::Fault => {
            "Touch that memory or file before (MAP_POPULATE, madvise), or let it fit into memory"
        }
        BlockedReason::Sleep => {
            "Remove that sleep unless it keeps a rate, or wait for the event itself"
        }
        BlockedReason::Child => "Start that process earlier, or wait for it in a thread of its own",
        BlockedReason::Memory => {
            "Map less often, or once for all: threads that map wait for each other"
        }
        BlockedReason::Stopped => "Let whatever stops it go",
        _ => TAKE_OUT,
    }
}

/// What ran for longest while the last thread was ready, and for which percentage of that time;
/// `None` if too small to mention. What sbt took is not mentioned: it is a cost of watching.
pub fn taker<'a>(report: &Report, late: &'a LateReport) -> Option<(&'a TakerReport, f64)> {
    let away = late.away.as_ref()?;
    let own = report
        .run
        .scheduling
        .as_ref()
        .map(|scheduling| &scheduling.own_pids);
    let is_own = |taker: &&TakerReport| {
        let pid = taker.pid.filter(|_| taker.kind == TakerKind::Process);
        pid.is_some_and(|pid| own.is_some_and(|own| own.contains(&pid)))
    };
    let most = away.taken_by.iter().find(|taker| !is_own(taker))?;
    // In some episodes not every context switch was seen.
    let seen = away.episodes as f64 / late.split_episodes.max(1) as f64;
    let ready_ns = late.last.ready_ns? as f64 * seen;
    let pct = (most.ns as f64 / ready_ns * 100.0).min(100.0);
    (pct >= TAKEN).then_some((most, pct))
}

/// The taker in words, and what to do about it.
pub fn taken((taker, pct): (&TakerReport, f64)) -> (String, &'static str) {
    let name = &taker.name;
    let (by, remedy) = match (taker.kind, taker.pid) {
        (TakerKind::Own, _) => (
            format!("another thread of this program (`{name}`)"),
            "Bind fewer threads to each CPU, or start no more than there are CPUs",
        ),
        (TakerKind::Kernel, _) => (
            format!("the kernel's `{name}`"),
            "See what keeps the kernel busy there, or leave it CPUs of its own",
        ),
        (TakerKind::Idle, _) => {
            return (
                format!("; for {pct:.0} % of that its CPU was idle, and it was not allowed to run"),
                "Raise the CPU quota of its control group, or start fewer threads",
            );
        }
        (_, pid) => {
            let which = pid.map_or("several processes".into(), |pid| format!("pid {pid}"));
            (
                format!("`{name}` ({which}), not of this program"),
                "Stop it, leave the program CPUs of its own, or bind fewer threads to each CPU",
            )
        }
    };
    (
        format!("; for {pct:.0} % of that its CPU was taken by {by}"),
        remedy,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{LateAwayReport, LateTimesReport, SchedulingReport};

    fn blocked(all: &[(BlockedReason, u64)]) -> Vec<BlockedReport> {
        let report = |&(reason, ns): &(BlockedReason, u64)| BlockedReport { reason, ns };
        all.iter().map(report).collect()
    }

    /// A site where in four episodes the last thread was ready for 1000 ns in all.
    fn late(episodes: u64, taken: &[(TakerKind, &str, Option<u32>, u64)]) -> LateReport {
        let times = || LateTimesReport {
            work_ns: 0,
            running_ns: Some(0),
            ready_ns: Some(1000),
            blocked_ns: Some(0),
        };
        let by = |&(kind, name, pid, ns): &(TakerKind, &str, Option<u32>, u64)| TakerReport {
            kind,
            name: name.into(),
            pid,
            ns,
        };
        LateReport {
            episodes: 4,
            split_episodes: 4,
            participants: 2.0,
            phase_ns: 0,
            idle_ns: 0,
            lead_ns: 0,
            last: times(),
            others: times(),
            cpu_slower: None,
            cpu_slower_episodes: 0,
            away: Some(LateAwayReport {
                episodes,
                last: blocked(&[(BlockedReason::Futex, 900), (BlockedReason::File, 800)]),
                others: blocked(&[(BlockedReason::Futex, 850)]),
                taken_by: taken.iter().map(by).collect(),
            }),
        }
    }

    #[test]
    fn the_reason_is_what_the_others_do_not_have() {
        let name = |late: &LateReport, excess| reason(late, excess).map(|entry| entry.reason);
        let mut all = late(4, &[]);
        assert_eq!(name(&all, 850.0), Some(BlockedReason::File));
        // The reason explains less than half, or there is nothing to explain.
        assert_eq!(name(&all, 1700.0), None);
        assert_eq!(name(&all, 0.0), None);
        // Every switch was seen in only half of the episodes.
        assert_eq!(name(&late(2, &[]), 1500.0), Some(BlockedReason::File));
        all.away = None;
        assert_eq!(name(&all, 850.0), None);
    }

    #[test]
    fn whoever_took_the_cpu_is_named_if_it_took_enough() {
        let mut report = crate::samples::empty().report;
        let said = |by: (TakerKind, &str, Option<u32>, u64)| {
            taker(&report, &late(4, &[by])).map(|found| taken(found).0)
        };
        assert_eq!(
            said((TakerKind::Process, "cc1", Some(123), 900)).as_deref(),
            Some("; for 90 % of that its CPU was taken by `cc1` (pid 123), not of this program")
        );
        assert!(
            said((TakerKind::Process, "cc1", None, 900))
                .is_some_and(|text| text.contains("several"))
        );
        assert!(
            said((TakerKind::Own, "lu", Some(1), 300))
                .is_some_and(|text| text.contains("of this program"))
        );
        assert!(
            said((TakerKind::Idle, "idle", None, 300))
                .is_some_and(|text| text.contains("not allowed"))
        );
        assert_eq!(said((TakerKind::Kernel, "kworker", Some(3), 199)), None);
        assert!(taker(&report, &late(4, &[])).is_none());
        // What sbt took is a cost of watching.
        report.run.scheduling = Some(SchedulingReport {
            own_pids: vec![123],
            ..SchedulingReport::default()
        });
        let own = late(4, &[(TakerKind::Process, "sbt", Some(123), 900)]);
        assert!(taker(&report, &own).is_none());
    }
}
