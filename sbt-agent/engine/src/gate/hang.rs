//! Whether a program stood still for too long, and whether that was watched at all.

use std::time::Duration;

use super::{Outcome, RuleName, Status, Unit, outcome::time_text, rule::LOOK};
use crate::report::{Figure, Report, StandstillReport};

/// The rule's name.
const NAME: RuleName = RuleName::NoHang;

/// Whether the program hung for longer than the limit, or when it ended; without a limit, only the
/// latter.
pub fn outcome(report: &Report, limit: Option<Duration>) -> Option<Outcome> {
    let looked_ns = report.hang_time_ns;
    let limit_ns = limit.map(in_ns);
    let shown_ns = limit_ns.or(looked_ns).unwrap_or(0);
    let outcome = Outcome {
        status: Status::Hangs,
        ..Outcome::of_run(NAME, Unit::Ns, Figure::Whole(shown_ns))
    };
    let found = report.hang.as_ref();
    let is_too_long =
        |hang: &StandstillReport| limit_ns.is_some_and(|limit_ns| hang.is_too_long(limit_ns));
    // A program that another program ended before the limit hung nevertheless.
    let hangs = |hang: &&StandstillReport| is_too_long(hang) || hang.is_alarming();
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
    let longest = found.filter(|hang| hang.is_hang());
    Some(Outcome {
        holds: true,
        status: Status::Holds,
        is_measured: true,
        measured: longest.map(|hang| Figure::Whole(hang.lasted_ns)),
        text: longest.map(|hang| hang.found.text.clone()),
        ..outcome
    })
}

fn in_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Why it is unknown whether anything stood still for so long; `None` if it is known.
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
    // A process that sbt attached to is judged for as long as it was watched.
    let is_part = match report.started {
        Some(false) => report.wall_ns < limit_ns,
        _ => true,
    };
    if !report.ended && is_part {
        return Some(format!(
            "it was watched for {watched} only, and not to the program's end"
        ));
    }
    if let Some(left) = report
        .left_processes
        .filter(|left| *left > 0 && report.ended)
    {
        return Some(format!(
            "{left} of the processes that were watched went on when the program had ended; let \
             the program wait for all that it starts"
        ));
    }
    match report.hang_unwatched_ns {
        None if report.estimated => {
            return Some(
                "the probes were on for spans of time only; --budget off watches all".into(),
            );
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
    // Whatever takes longer than this has been looked at, and was merely slow.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::HangKind;
    use crate::{
        gate::{CheckReport, CheckRules, judge, samples::uneven},
        samples::{hung, over, slow},
    };

    const S: u64 = 1_000_000_000;

    fn no_hang(seconds: u64) -> CheckRules {
        CheckRules {
            no_hang: Some(Duration::from_secs(seconds)),
            ..CheckRules::default()
        }
    }

    fn of_hang(check: &CheckReport) -> Option<&Outcome> {
        check.outcomes.iter().find(|outcome| outcome.rule == NAME)
    }

    #[test]
    fn who_hangs_for_too_long_is_told_before_all_else() {
        let mut report = uneven();
        report.exit_status = Some(143);
        let held = |report: &Report, seconds| judge(report, &no_hang(seconds), None);
        let check = held(&report, 30);
        assert!(of_hang(&check).unwrap().holds, "{check:#?}");
        assert_eq!(check.exit_status, 4);

        report.hang = hung().report.hang;
        report.hang.as_mut().unwrap().lasted_ns = 30 * S;
        let check = held(&report, 30);
        assert_eq!((check.exit_status, check.result), (3, Status::Hangs));
        let first = &check.outcomes[0];
        assert_eq!(first.rule, NAME);
        let hang = report.hang.as_ref().unwrap();
        assert_eq!(first.text.as_ref(), Some(&hang.found.text));
        assert_eq!(first.measured, Some(Figure::Whole(30 * S)));
        // The program hung when it ended: this counts below the limit, and without a limit.
        let check = held(&report, 31);
        assert_eq!(check.exit_status, 3);
        let text = check.outcomes[0].text.as_ref().unwrap();
        assert!(text.starts_with("it hung when it ended: "), "{text}");
        let any = CheckRules {
            max_lost: Some(1.0),
            ..CheckRules::default()
        };
        assert_eq!(judge(&report, &any, None).exit_status, 3);

        report.exit_status = Some(0);
        report.hang = over().report.hang;
        report.hang.as_mut().unwrap().lasted_ns = 30 * S;
        assert_eq!(held(&report, 30).exit_status, 3);
        assert_eq!(judge(&report, &any, None).exit_status, 0);
        // A shorter standstill is reported without breaking the rule.
        let check = held(&report, 31);
        let held_for = of_hang(&check).unwrap();
        assert!(held_for.holds, "{check:#?}");
        assert_eq!(held_for.measured, Some(Figure::Whole(30 * S)));

        // A thread that uses a CPU may be slow.
        report.hang.as_mut().unwrap().found.kind = HangKind::Unclear;
        assert_eq!(held(&report, 30).exit_status, 0);
        assert_eq!(held(&report, 15).exit_status, 3);
        report.hang = slow().report.hang;
        report.hang.as_mut().unwrap().lasted_ns = 3600 * S;
        assert_eq!(held(&report, 30).exit_status, 0);
    }

    #[test]
    fn where_nobody_could_see_hangs_it_is_not_known_that_there_were_none() {
        type Change = fn(&mut Report);
        let cases: [(Change, &str); 8] = [
            (|report| report.hang_time_ns = None, "--hang-time off"),
            (
                |report| report.hang_time_ns = Some(11 * S),
                "shorter --hang-time",
            ),
            (|report| report.ended = false, "not to the program's end"),
            (
                |report| {
                    (report.ended, report.started, report.wall_ns) = (false, Some(false), 9 * S);
                },
                "watched for 9 s only",
            ),
            (
                |report| report.left_processes = Some(2),
                "2 of the processes",
            ),
            (
                |report| report.hang_unwatched_ns = Some(10 * S + 1),
                "--budget off",
            ),
            (
                |report| (report.estimated, report.hang_unwatched_ns) = (true, None),
                "spans of time only",
            ),
            (
                |report| {
                    report.hang_time_ns = Some(10 * S);
                    report.sites[0].barrier_ns.as_mut().unwrap().max = 10 * S + S / 2;
                },
                "waited for 10.5 s at factor lu.c:690",
            ),
        ];
        for (change, words) in cases {
            let mut report = uneven();
            report.hang_time_ns = Some(9 * S);
            assert!(of_hang(&judge(&report, &no_hang(10), None)).unwrap().holds);
            change(&mut report);
            let check = judge(&report, &no_hang(10), None);
            let outcome = of_hang(&check).unwrap();
            assert!(!outcome.holds && !outcome.is_measured, "{outcome:#?}");
            let text = outcome.text.as_ref().unwrap();
            assert!(text.contains(words), "{text}");
            // It is not known to be a hang, either.
            assert_eq!(check.exit_status, 1);
        }
        // The result is known for a process that sbt attached to, as long as it was watched; and a
        // standstill longer than a look needs was merely slow.
        let known: [Change; 3] = [
            |report| {
                (
                    report.ended,
                    report.started,
                    report.exit_status,
                    report.wall_ns,
                ) = (false, Some(false), None, 10 * S);
            },
            |report| report.hang_unwatched_ns = Some(10 * S),
            |report| report.sites[0].barrier_ns.as_mut().unwrap().max = 12 * S,
        ];
        for change in known {
            let mut report = uneven();
            change(&mut report);
            let check = judge(&report, &no_hang(10), None);
            assert!(of_hang(&check).unwrap().holds, "{check:#?}");
        }
    }
}
