//! The verdict on phases that are as short as the barrier itself.

use super::{FEW, WORTH, lack, words::Cost};
use crate::{
    report::{Figure, Report, SiteReport, VerdictKind, VerdictReport},
    words::time,
};

/// Cost of waking a thread, ns, used if departures were not seen. A sleeping thread goes on about
/// 10 µs after it is woken, and about 50 µs in virtual machines. A release of more than twice this
/// time is more than waking.
const WAKE_NS: u64 = 25_000;

/// How many times the barrier's cost the last thread may work: above that, the work is to blame and
/// not the barrier.
const STRAGGLER: u64 = 4;

/// Verdict: the work between two barriers takes no longer than passing a barrier. Not given if CPUs
/// lack: a long release is then caused by the lack of CPUs.
pub fn phase_too_short(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let late = site.straggler.as_ref()?.late.as_ref()?;
    if late.episodes < FEW {
        return None;
    }
    let work_ns = site.work_ns.as_ref()?.p50;
    let release = site.release_ns.as_ref();
    let barrier_ns = release.map_or(WAKE_NS, |release| release.p50.min(2 * WAKE_NS));
    // Unless departures were watched all the time, work includes the release.
    let limit_ns = match report.run.departures {
        Some(true) => barrier_ns,
        _ => barrier_ns.max(WAKE_NS) * 2,
    };
    let last_ns = late.last.work_ns / late.episodes;
    if work_ns > limit_ns || last_ns > limit_ns.max(barrier_ns) * STRAGGLER {
        return None;
    }
    let share_pct = share_pct(report, site)?;
    if share_pct < WORTH || lack::is_of_the_run(report) {
        return None;
    }
    let phase_ns = late.phase_ns / late.episodes;
    let cost = release.map_or_else(
        || "about as long as it takes to wake a thread".into(),
        |release| {
            format!(
                "and it takes them {} to get going again after the last has come",
                time(release.p50)
            )
        },
    );
    let text = format!(
        "phase too short for its barrier at {}: threads work {} between barriers (median), {cost}; \
         that is {share_pct:.0} % of thread time: do more between barriers (larger pieces, merged \
         loops), or use fewer threads",
        site.called(),
        time(work_ns),
    );
    let mut evidence: std::collections::BTreeMap<_, _> = [
        ("share_pct", Figure::Real(share_pct)),
        ("work_ns", Figure::Whole(work_ns)),
        ("phase_ns", Figure::Whole(phase_ns)),
    ]
    .into();
    evidence.extend(release.map(|release| ("release_ns", Figure::Whole(release.p50))));
    Some(VerdictReport {
        kind: VerdictKind::PhaseTooShort,
        site: Some(site.id),
        thread: None,
        text,
        evidence,
    })
}

/// Waiting for the last thread and leaving the barrier, as a percentage of the threads' time.
fn share_pct(report: &Report, site: &SiteReport) -> Option<f64> {
    let total_ns = report.thread_time.total_ns;
    let release_ns = site.release_ns.as_ref().map_or(0, |release| release.sum);
    let release_pct = release_ns as f64 / total_ns.max(1) as f64 * 100.0;
    let idle_pct = Cost::of(report, site).map_or(0.0, |(cost, _)| cost.share_pct);
    (total_ns > 0).then_some(release_pct + idle_pct)
}
