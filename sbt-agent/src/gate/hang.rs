//! Whether a program stood still for too long; and whether that was watched at all.

use std::time::Duration;

use super::{Outcome, Status, outcome::time_text, rule::LOOK};
use crate::report::{Figure, Report, StandstillReport};

/// The rule's name.
const NAME: &str = "no-hang";

/// Whether it hung for so long, or when it ended; without a limit, the latter alone.
pub fn outcome(report: &Report, limit: Option<Duration>) -> Option<Outcome> {
    let looked_ns = report.hang_time_ns;
    let limit_ns = limit.map(in_ns);
    let shown_ns = limit_ns.or(looked_ns).unwrap_or(0);
    let outcome = Outcome {
        status: Status::Hangs,
        ..Outcome::of_run(NAME, "ns", Figure::Whole(shown_ns))
    };
    let found = report.hang.as_ref();
    let is_too_long =
        |it: &StandstillReport| limit_ns.is_some_and(|limit_ns| it.is_too_long(limit_ns));
    // That it was ended by another before its time does not make it go on.
    let hangs = |it: &&StandstillReport| is_too_long(it) || it.is_alarming();
    if let Some(hang) = found.filter(hangs) {
        let still = if is_too_long(hang) {
            ""
        } else {
            "it hung when it ended: "
        };
        return Some(Outcome {
            is_measured: true,
            measured: Some(Figure::Whole(hang.lasted_ns)),
            text: Some(format!("{still}{}", hang.found.text)),
            ..outcome
        });
    }
    let limit_ns = limit_ns?;
    let outcome = Outcome {
        status: Status::Broken,
        ..outcome
    };
    if let Some(why) = unknown(report, limit_ns) {
        return Some(outcome.unknown(why));
    }
    let longest = found.filter(|it| it.is_hang());
    Some(Outcome {
        holds: true,
        status: Status::Holds,
        is_measured: true,
        measured: longest.map(|it| Figure::Whole(it.lasted_ns)),
        text: longest.map(|it| it.found.text.clone()),
        ..outcome
    })
}

fn in_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Why it is not known that nothing stood still for so long, if it is not.
fn unknown(report: &Report, limit_ns: u64) -> Option<String> {
    let Some(looked_ns) = report.hang_time_ns else {
        return Some("nobody looked for hangs; record without --hang-time off".into());
    };
    if looked_ns > limit_ns {
        return Some(
            "only what stood still for longer was looked at; record with a shorter --hang-time"
                .into(),
        );
    }
    let watched = time_text(report.wall_ns);
    // Of a process that was joined it is known for as long as it was watched.
    let is_part = match report.started {
        Some(false) => report.wall_ns < limit_ns,
        _ => true,
    };
    if !report.ended && is_part {
        return Some(format!(
            "it was watched for {watched} only, and not to the program's end"
        ));
    }
    if let Some(left) = report.left_processes.filter(|left| *left > 0 && report.ended) {
        return Some(format!(
            "{left} of the processes that were watched went on when the program had ended; let \
             the program wait for all that it starts"
        ));
    }
    match report.hang_unwatched_ns {
        None if report.estimated => {
            return Some("the probes were on for spans of time only; --budget off watches all".into());
        }
        Some(unwatched_ns) if unwatched_ns > limit_ns => {
            return Some(format!(
                "the probes were off, and for {} nobody was seen to come to a barrier; --budget \
                 off watches all",
                time_text(unwatched_ns)
            ));
        }
        _ => {}
    }
    // What takes longer than that has been looked at, and was merely slow.
    let told_ns = looked_ns.saturating_add(in_ns(LOOK));
    let longest = report.sites.iter().filter_map(|site| {
        let longest_ns = site.barrier_ns.as_ref()?.max;
        (limit_ns < longest_ns && longest_ns < told_ns).then_some((longest_ns, site))
    });
    longest.max_by_key(|(ns, _)| *ns).map(|(ns, site)| {
        format!(
            "threads waited for {} at {}, which was over before it was looked at; record with a \
             shorter --hang-time",
            time_text(ns),
            site.called()
        )
    })
}
