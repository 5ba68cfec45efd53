//! Whether a program stood still for too long, and whether that was watched at all.

use std::time::Duration;

use super::{Outcome, RuleName, Status, Unit, outcome::time_text, rule::LOOK};
use crate::report::{Figure, HangKind, HangThreadState, Report, StandstillReport};

/// The rule's name.
const NAME: RuleName = RuleName::NoHang;

/// Whether the program hung for longer than the limit, or when it ended; without a limit, only the
/// latter. `strict`: a program that waits for the outside counts as well.
pub fn outcome(report: &Report, limit: Option<Duration>, strict: bool) -> Option<Outcome> {
    let looked_ns = report.run.hang_time_ns;
    let limit_ns = limit.map(in_ns);
    let shown_ns = limit_ns.or(looked_ns).unwrap_or(0);
    let outcome = Outcome {
        status: Status::Hangs,
        ..Outcome::of_run(NAME, Unit::Ns, Figure::Whole(shown_ns))
    };
    let found = report.run.hang.as_ref();
    let is_too_long = |hang: &StandstillReport| {
        limit_ns.is_some_and(|limit_ns| {
            let is_strict = strict && hang.found.kind == HangKind::Outside;
            hang.is_too_long(limit_ns) || is_strict && hang.lasted_ns >= limit_ns
        })
    };
    // A missing thread that runs is slow for longer than the limit allows; whether one that waits will
    // come is not known. A program that has ended by itself has gone on.
    let is_unclear = |hang: &&StandstillReport| {
        let mut missing = hang.found.missing.iter();
        let runs = missing.any(|thread| thread.state == HangThreadState::Running);
        let is_long = match &hang.found.barrier {
            None => limit_ns.is_some_and(|limit_ns| hang.lasted_ns >= limit_ns),
            Some(_) => !runs && is_too_long(hang),
        };
        // After twice the limit sbt has ended it, and it may have caught the signal.
        let ended_well = report.run.ended && report.run.exit_status == Some(0);
        let went_on = ended_well && !is_too_long(hang);
        hang.found.kind == HangKind::Unclear && is_long && !went_on
    };
    if let Some(hang) = found.filter(is_unclear) {
        let outcome = Outcome {
            status: Status::Lost,
            ..outcome
        };
        return Some(outcome.unknown(hang.found.text.clone()));
    }
    // A program that another program ended before the limit hung nevertheless.
    let hangs = |hang: &&StandstillReport| is_too_long(hang) || hang.is_alarming();
    if let Some(hang) = found.filter(hangs) {
        let still = if is_too_long(hang) {
            ""
        } else {
            "the program hung when it ended: "
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
    let is_told = |hang: &&StandstillReport| hang.is_hang() || hang.found.kind == HangKind::Outside;
    let longest = found.filter(is_told);
    Some(Outcome {
        holds: true,
        status: Status::Holds,
        is_measured: true,
        // Waiting for the outside is no hang, however long.
        measured: longest
            .filter(|hang| hang.is_hang())
            .map(|hang| Figure::Whole(hang.lasted_ns)),
        text: longest.map(|hang| hang.found.text.clone()),
        ..outcome
    })
}

fn in_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Why it is unknown whether anything stood still for so long; `None` if it is known.
fn unknown(report: &Report, limit_ns: u64) -> Option<String> {
    let Some(looked_ns) = report.run.hang_time_ns else {
        return Some("sbt did not look for hangs; record without --hang-time off".into());
    };
    if looked_ns > limit_ns {
        return Some(
            "sbt looked only at hangs longer than this limit; record with a shorter --hang-time"
                .into(),
        );
    }
    let watched = time_text(report.run.wall_ns);
    // A process that sbt attached to is judged for as long as it was watched.
    let is_part = match report.run.started {
        Some(false) => report.run.wall_ns < limit_ns,
        _ => true,
    };
    if !report.run.ended && is_part {
        return Some(format!(
            "the program was watched for {watched} only, and not to its end"
        ));
    }
    if let Some(left) = report
        .run
        .left_processes
        .filter(|left| *left > 0 && report.run.ended)
    {
        return Some(format!(
            "{left} of the watched processes continued after the program had ended; let the \
            program wait for all processes that it starts"
        ));
    }
    match report.run.hang_unwatched_ns {
        None if report.estimated => {
            return Some(
                "the probes were switched off for part of the run; --budget off watches everything"
                    .into(),
            );
        }
        Some(unwatched_ns) if unwatched_ns > limit_ns => {
            return Some(format!(
                "the probes were off, and for {} no thread was seen at a barrier; --budget off \
                watches everything",
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
            "threads waited for {} at {}, and the wait ended before sbt looked at the threads; \
            record with a shorter --hang-time",
            time_text(ns),
            site.called()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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
        report.run.exit_status = Some(143);
        let held = |report: &Report, seconds| judge(report, &no_hang(seconds), None);
        let check = held(&report, 30);
        assert!(of_hang(&check).unwrap().holds, "{check:#?}");
        assert_eq!(check.exit_status, 4);

        report.run.hang = hung().report.run.hang;
        report.run.hang.as_mut().unwrap().lasted_ns = 30 * S;
        let check = held(&report, 30);
        assert_eq!((check.exit_status, check.result), (3, Status::Hangs));
        let first = &check.outcomes[0];
        assert_eq!(first.rule, NAME);
        let hang = report.run.hang.as_ref().unwrap();
        assert_eq!(first.text.as_ref(), Some(&hang.found.text));
        assert_eq!(first.measured, Some(Figure::Whole(30 * S)));
        let of_program = |check: &CheckReport| {
            let mut outcomes = check.outcomes.iter();
            let program = outcomes.find(|outcome| outcome.rule == RuleName::Program);
            program.unwrap().text.clone().unwrap()
        };
        assert_eq!(
            of_program(&check),
            "signal 15 ended the program, which did not go on"
        );
        assert!(of_program(&held(&report, 31)).contains("unless the program chose"));
        // A program that goes on just after sbt has told it to end.
        let mut went_on = report.clone();
        went_on.run.ended_by_sbt = true;
        went_on.run.hang = None;
        let check = held(&went_on, 31);
        assert!(of_program(&check).contains("sbt ended it"));
        assert_eq!(check.exit_status, 5);
        // The program hung when it ended: this counts below the limit, and without a limit.
        let check = held(&report, 31);
        assert_eq!(check.exit_status, 3);
        let text = check.outcomes[0].text.as_ref().unwrap();
        assert!(
            text.starts_with("the program hung when it ended: "),
            "{text}"
        );
        let any = CheckRules {
            max_lost: Some(1.0),
            ..CheckRules::default()
        };
        assert_eq!(judge(&report, &any, None).exit_status, 3);

        // A hang that is over has not led to the end.
        report.run.hang = over().report.run.hang;
        report.run.hang.as_mut().unwrap().lasted_ns = 30 * S;
        assert!(of_program(&held(&report, 30)).contains("unless the program chose"));

        report.run.exit_status = Some(0);
        report.run.hang = over().report.run.hang;
        report.run.hang.as_mut().unwrap().lasted_ns = 30 * S;
        assert_eq!(held(&report, 30).exit_status, 3);
        assert_eq!(judge(&report, &any, None).exit_status, 0);
        // A shorter standstill is reported without breaking the rule.
        let check = held(&report, 31);
        let held_for = of_hang(&check).unwrap();
        assert!(held_for.holds, "{check:#?}");
        assert_eq!(held_for.measured, Some(Figure::Whole(30 * S)));

        // A thread that uses a CPU may be slow.
        let hang = report.run.hang.as_mut().unwrap();
        hang.found.kind = HangKind::Unclear;
        hang.found.missing[0].state = HangThreadState::Running;
        assert_eq!(held(&report, 30).exit_status, 0);
        assert_eq!(held(&report, 15).exit_status, 3);
        // Whether one that waits will come is not known.
        let missing = &mut report.run.hang.as_mut().unwrap().found.missing;
        missing[0].state = HangThreadState::Waiting;
        assert_eq!(held(&report, 15).exit_status, 5);
        report.run.hang = slow().report.run.hang;
        report.run.hang.as_mut().unwrap().lasted_ns = 3600 * S;
        assert_eq!(held(&report, 30).exit_status, 0);
    }

    #[test]
    fn a_program_that_waits_for_the_outside_fails_only_if_that_is_asked() {
        let mut report = uneven();
        report.run.hang = over().report.run.hang;
        let hang = report.run.hang.as_mut().unwrap();
        hang.lasted_ns = 40 * S;
        hang.found.kind = HangKind::Outside;
        hang.found.barrier = None;
        let check = judge(&report, &no_hang(30), None);
        let outcome = of_hang(&check).unwrap();
        assert!(outcome.holds && outcome.text.is_some(), "{check:#?}");
        assert_eq!((outcome.is_measured, outcome.measured), (true, None));
        assert_eq!(check.exit_status, 0);
        let strict = CheckRules {
            strict_hang: true,
            ..no_hang(30)
        };
        assert_eq!(judge(&report, &strict, None).exit_status, 3);
        // A rule does not hold if it is unknown whether the program hangs, but one that ends by itself has
        // not hung.
        report.run.hang.as_mut().unwrap().found.kind = HangKind::Unclear;
        assert_eq!(judge(&report, &no_hang(30), None).exit_status, 0);
        report.run.exit_status = Some(143);
        assert_eq!(
            judge(&report, &no_hang(30), None).exit_status,
            5,
            "sbt ended it"
        );
        report.run.exit_status = Some(1);
        assert_eq!(judge(&report, &no_hang(30), None).exit_status, 4);
        // A launcher of ranks that sbt has ended says so in its own way.
        let hang = report.run.hang.as_mut().unwrap();
        (hang.outcome, hang.lasted_ns) = (crate::report::HangOutcome::Lasts, 61 * S);
        assert_eq!(judge(&report, &no_hang(30), None).exit_status, 5);
        report.run.exit_status = Some(0);
        assert_eq!(
            judge(&report, &no_hang(30), None).exit_status,
            5,
            "it caught the signal"
        );
        report.run.hang.as_mut().unwrap().lasted_ns = 40 * S;
        assert_eq!(judge(&report, &no_hang(41), None).exit_status, 0);
    }

    #[test]
    fn where_nobody_could_see_hangs_it_is_not_known_that_there_were_none() {
        type Change = fn(&mut Report);
        let cases: [(Change, &str); 8] = [
            (|report| report.run.hang_time_ns = None, "--hang-time off"),
            (
                |report| report.run.hang_time_ns = Some(11 * S),
                "shorter --hang-time",
            ),
            (|report| report.run.ended = false, "not to its end"),
            (
                |report| {
                    (report.run.ended, report.run.started, report.run.wall_ns) =
                        (false, Some(false), 9 * S);
                },
                "watched for 9 s only",
            ),
            (
                |report| report.run.left_processes = Some(2),
                "2 of the watched processes",
            ),
            (
                |report| report.run.hang_unwatched_ns = Some(10 * S + 1),
                "--budget off",
            ),
            (
                |report| (report.estimated, report.run.hang_unwatched_ns) = (true, None),
                "switched off for part of the run",
            ),
            (
                |report| {
                    report.run.hang_time_ns = Some(10 * S);
                    report.sites[0].barrier_ns.as_mut().unwrap().max = 10 * S + S / 2;
                },
                "waited for 10.5 s at factor lu.c:690",
            ),
        ];
        for (change, words) in cases {
            let mut report = uneven();
            report.run.hang_time_ns = Some(9 * S);
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
                    report.run.ended,
                    report.run.started,
                    report.run.exit_status,
                    report.run.wall_ns,
                ) = (false, Some(false), None, 10 * S);
            },
            |report| report.run.hang_unwatched_ns = Some(10 * S),
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
