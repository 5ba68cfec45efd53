//! Loops in which threads spin for a lock or a flag.

use crate::{
    looks::FEW,
    report::{
        Figure, VerdictKind, VerdictReport, WaitKind,
        waits::{Gets, LooksReport},
    },
};

use super::advice::advice;

/// Percentage of the threads' time from which spinning is told.
const SPINS: f64 = 5.0;

/// Verdicts on loops in which threads spin for a lock or a flag, with their shares of the time.
/// `meets`: whether barriers were seen. Without them a loop that only waits may be one, but not a
/// function that gets a lock; what it is is left open then.
pub(super) fn spins(looks: &LooksReport, meets: bool) -> Vec<(VerdictReport, f64)> {
    let spun = looks.in_the_work().filter(|place| {
        let samples = place.sleeps.unwrap_or(0);
        place.kind == WaitKind::Spin && samples >= FEW && place.share_pct >= SPINS
    });
    spun.map(|place| {
        let is_known = meets || place.call.is_some();
        let share_pct = place.share_pct;
        let samples = place.sleeps.unwrap_or(0);
        let called = place.called();
        let text = match place.call.as_deref().map(Gets::of) {
            None if !is_known => format!(
                "spinning: threads spend {share_pct:.0} % of their time in a loop of {} that only waits for \
                 memory to change (by {samples} samples): a lock, a flag or a barrier. That is no work: \
                 wait there for a shorter time, or asleep; if it is a barrier, --barrier watches it.",
                place.place
            ),
            None => format!(
                "spinning: threads spin {share_pct:.0} % of their time for {called} (by {samples} \
                 samples). That is no work: hold the lock for a shorter time, or give each thread data \
                 of its own."
            ),
            Some(gets) => format!(
                "costly lock: threads need {share_pct:.0} % of their time to get {called}, without \
                 sleeping (by {samples} samples). {}.",
                advice_to(gets)
            ),
        };
        let verdict = VerdictReport {
            kind: if is_known {
                VerdictKind::LockContention
            } else {
                VerdictKind::Spinning
            },
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

/// The advice for a lock for which threads do not sleep.
const fn advice_to(gets: Gets) -> &'static str {
    match gets {
        Gets::Lock => {
            "Take it less often, hold it for a shorter time, or give each thread data of its own"
        }
        Gets::Critical => advice(WaitKind::Critical),
        Gets::Turn => "Only one thread at a time passes the ordered part: do less in it",
    }
}
