//! Loops in which threads spin for a lock, a flag or a message.

use crate::{
    looks::FEW,
    report::{
        Figure, VerdictKind, VerdictReport, WaitKind,
        waits::{Gets, LooksReport, WaitPlaceReport},
    },
};

use super::advice::advice;

/// Percentage of the threads' time from which spinning is told.
const SPINS: f64 = 5.0;

/// Percentage of a rank's time from which spinning in functions of MPI is told: such functions also copy
/// data. Libraries of MPI have threads of their own that sleep, so that the time of all says little.
const IN_MESSAGES: f64 = 15.0;

/// Verdicts on loops in which threads spin for a lock or a flag, with their shares of the time.
/// `meets`: whether barriers were seen. If none were, a loop that only waits may itself be a barrier, so
/// the verdict leaves open what the loop is; a function that gets a lock is no barrier.
pub(super) fn spins(looks: &LooksReport, meets: bool) -> Vec<(VerdictReport, f64)> {
    let spun = looks.in_the_work().filter(|place| {
        let samples = place.sleeps.unwrap_or(0);
        let is_much = match place.call.as_deref().map(Gets::of) {
            Some(Gets::Message) => most_of_one(place) >= IN_MESSAGES,
            _ => place.share_pct >= SPINS,
        };
        place.kind == WaitKind::Spin && samples >= FEW && is_much
    });
    spun.map(|place| {
        let is_known = meets || place.call.is_some();
        let share_pct = place.share_pct;
        let samples = place.sleeps.unwrap_or(0);
        let called = place.called();
        let text = match place.call.as_deref().map(Gets::of) {
            None if !is_known => format!(
                "spinning: threads spend {share_pct:.0} % of their time in a loop of {} that only waits for \
                 memory to change (by {samples} samples): a lock, a flag or a barrier. Spinning wastes CPU time: \
                 wait there for a shorter time, or asleep; if it is a barrier, --barrier watches it.",
                place.place
            ),
            None => format!(
                "spinning: threads spin {share_pct:.0} % of their time for {called} (by {samples} \
                 samples). Spinning wastes CPU time: hold the lock for a shorter time, or give each thread data \
                 of its own."
            ),
            Some(Gets::Message) => format!(
                "waits for ranks: in {} at {} threads wait for other ranks or exchange data with them: {} \
                 of their time (by {samples} samples). {}.",
                place.call.as_deref().unwrap_or_default(),
                place.place,
                by_thread(place),
                advice_to(Gets::Message)
            ),
            Some(gets) => format!(
                "costly lock: threads need {share_pct:.0} % of their time to get {called}, without \
                 sleeping (by {samples} samples). {}.",
                advice_to(gets)
            ),
        };
        let verdict = VerdictReport {
            kind: match place.call.as_deref().map(Gets::of) {
                Some(Gets::Message) => VerdictKind::WaitsForRanks,
                _ if is_known => VerdictKind::LockContention,
                _ => VerdictKind::Spinning,
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

/// The largest part of its time that any thread is at a place, percent.
fn most_of_one(place: &WaitPlaceReport) -> f64 {
    let shares = place.threads.iter().map(|row| row.share_pct);
    shares.fold(0.0, f64::max)
}

/// The parts of their time that threads are at a place, the largest first, as a part of a sentence.
fn by_thread(place: &WaitPlaceReport) -> String {
    const MOST: usize = 3;
    let mut rows: Vec<_> = place.threads.iter().collect();
    rows.sort_by(|a, b| b.share_pct.total_cmp(&a.share_pct));
    let told = rows.iter().take(MOST);
    let told: Vec<_> = told
        .map(|row| format!("{} {:.0} %", row.label, row.share_pct))
        .collect();
    let more = if rows.len() > MOST { " and others" } else { "" };
    format!("{}{more}", told.join(", "))
}

/// The advice for a lock for which threads do not sleep.
const fn advice_to(gets: Gets) -> &'static str {
    match gets {
        Gets::Lock => {
            "Take it less often, hold it for a shorter time, or give each thread data of its own"
        }
        Gets::Critical => advice(WaitKind::Critical),
        Gets::Turn => "Only one thread at a time passes the ordered part: do less in it",
        Gets::Message => {
            "Give less work before that to the rank for which they wait, or let them go on meanwhile \
             (calls that do not wait, as MPI_Irecv or MPI_Ibcast)"
        }
    }
}
