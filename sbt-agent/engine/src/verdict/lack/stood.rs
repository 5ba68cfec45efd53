//! A program that was stopped by a signal, or whose control group was frozen, while it was watched.

use crate::{
    report::{Figure, Report, StandsReport, VerdictKind, VerdictReport},
    words::time,
};

/// Verdict: the program was stopped or frozen.
pub fn still(report: &Report) -> Option<VerdictReport> {
    let scheduling = report.run.scheduling.as_ref()?;
    let (stopped, frozen) = (scheduling.stopped, scheduling.frozen);
    let is_frozen = frozen.total_ns > stopped.total_ns;
    let stood = if is_frozen { frozen } else { stopped };
    let share_pct = stood.total_ns as f64 / report.run.wall_ns.max(1) as f64 * 100.0;
    if share_pct < super::super::WORTH {
        return None;
    }
    let what = if is_frozen {
        format!(
            "the program was frozen: its control group {} was frozen",
            scheduling.frozen_group.as_deref().unwrap_or("?")
        )
    } else {
        "the program was stopped: a signal (SIGSTOP, Ctrl-Z) stopped it".into()
    };
    let times = match stood.times {
        1 => "once".into(),
        times => format!("{times} times"),
    };
    let text = format!(
        "{what} {times}, for at least {} of {} wall time. All times of work and of waiting include \
         this: run it again without that.",
        time(stood.total_ns),
        time(report.run.wall_ns),
    );
    Some(VerdictReport {
        kind: VerdictKind::ProgramStopped,
        site: None,
        thread: None,
        text,
        evidence: [
            ("share_pct", Figure::Real(share_pct)),
            ("stopped_ns", Figure::Whole(stood.total_ns)),
            ("times", Figure::Whole(stood.times)),
        ]
        .into(),
    })
}

/// The most time for which the program was stopped or frozen, ns: the two may have happened one after the other.
pub fn at_most_ns(report: &Report) -> u64 {
    let known = report.run.scheduling.as_ref();
    let most = |stands: StandsReport| stands.at_most_ns;
    known.map_or(0, |known| {
        most(known.stopped).saturating_add(most(known.frozen))
    })
}

/// Whether the gain that a verdict promises stands although the program was stopped: the rest of it
/// has to be worth mentioning.
pub fn stands(report: &Report, verdict: &VerdictReport) -> bool {
    let stood_ns = at_most_ns(report);
    let Some(Figure::Whole(gain_ns)) = verdict.evidence.get("gain_ns") else {
        return true;
    };
    let left_ns = gain_ns.saturating_sub(stood_ns) as f64;
    stood_ns == 0
        || verdict.kind == VerdictKind::ProgramStopped
        || left_ns * 100.0 >= super::super::WORTH * report.seen_ns() as f64
}
