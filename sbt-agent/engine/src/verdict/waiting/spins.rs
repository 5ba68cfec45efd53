//! Loops in which threads spin for a lock or a flag.

use crate::{
    looks::FEW,
    report::{Figure, VerdictKind, VerdictReport, WaitKind, waits::LooksReport},
};

/// Percentage of the threads' time from which spinning is told.
const SPINS: f64 = 5.0;

/// Verdicts on loops in which threads spin for a lock or a flag, with their shares of the time.
pub(super) fn spins(looks: &LooksReport) -> Vec<(VerdictReport, f64)> {
    let spun = looks.in_the_work().filter(|place| {
        let samples = place.sleeps.unwrap_or(0);
        place.kind == WaitKind::Spin && samples >= FEW && place.share_pct >= SPINS
    });
    spun.map(|place| {
        let share_pct = place.share_pct;
        let samples = place.sleeps.unwrap_or(0);
        let text = format!(
            "spinning: threads spin {share_pct:.0} % of their time for {} (by {samples} samples). \
             That is no work: hold the lock for a shorter time, or give each thread data of its own.",
            place.called()
        );
        let verdict = VerdictReport {
            kind: VerdictKind::LockContention,
            site: None,
            thread: None,
            text,
            evidence: [
                ("share_pct", Figure::Real(share_pct)),
                ("samples", Figure::Whole(samples)),
                ("spun_ns", Figure::Whole(place.slept_ns.unwrap_or(0))),
            ]
            .into(),
        };
        (verdict, share_pct)
    })
    .collect()
}

/// Whether a verdict says that a thread has more work than others.
pub(super) const fn is_of_work(kind: VerdictKind) -> bool {
    matches!(
        kind,
        VerdictKind::SerialPhase
            | VerdictKind::GrowingImbalance
            | VerdictKind::PersistentStraggler
            | VerdictKind::AlternatingStragglers
            | VerdictKind::RotatingStraggler
            | VerdictKind::StragglerAtManySites
            | VerdictKind::StragglerExecutesMore
    )
}
