//! In a team of two one thread waits for the other: nobody else is there.

use super::*;
use crate::report::BarrierKind;

/// The text of a verdict on a team of so many threads, of which the last one is late.
fn told(threads: usize, kind: VerdictKind) -> String {
    let mut program = Program::new(threads);
    let last = threads - 1;
    match kind {
        VerdictKind::SerialPhase => {
            program.rounds(40, |_| but(threads, last, runs(20), [10 * US, 0, 0]));
        }
        VerdictKind::StragglerAtManySites => {
            program.rounds(2, |_| but(threads, last, runs(9), runs(1)));
        }
        _ => {
            program.rounds(40, |_| but(threads, last, runs(8), runs(3)));
        }
    }
    let verdicts = program.report().verdicts.unwrap();
    let found = verdicts.iter().find(|verdict| verdict.kind == kind);
    found
        .unwrap_or_else(|| panic!("{kind:?} in {verdicts:#?}"))
        .text
        .clone()
}

#[test]
fn who_waits_for_the_only_other_thread_is_told_as_one() {
    for (kind, of_two, of_three) in [
        (
            VerdictKind::PersistentStraggler,
            "in each phase, the other 3.00 ms on average",
            "in each phase, the others 3.00 ms on average",
        ),
        (
            VerdictKind::SerialPhase,
            "while the other waits;",
            "while all others wait;",
        ),
        (
            VerdictKind::SerialPhase,
            "or let the other go on with something else",
            "or let the others go on with something else",
        ),
        (
            VerdictKind::StragglerAtManySites,
            "in 2 episodes the other waits for T1 w",
            "in 2 episodes the others wait for T2 w",
        ),
    ] {
        let text = told(2, kind);
        assert!(text.contains(of_two), "{text}");
        assert!(!text.contains("others"), "{text}");
        let text = told(3, kind);
        assert!(text.contains(of_three), "{text}");
    }
}

#[test]
fn a_schedule_is_advised_only_if_the_work_is_a_loop() {
    let if_loop = "if it is an `omp for` loop: ";
    let mut program = Program::new(2);
    program.rounds(40, |_| but(2, 1, runs(8), runs(3)));
    let mut report = program.report();
    for site in &mut report.sites {
        site.kind = BarrierKind::Gomp;
    }
    let verdicts = judge(&report).unwrap();
    assert!(verdicts[0].text.contains(if_loop), "{verdicts:#?}");
    let site = &report.sites[0];
    let all = [
        words::hand_out(site.kind),
        words::give_less(site.kind),
        words::share_out(site.kind, words::Others::of(site)),
    ];
    for advice in all {
        let before = advice.split("schedule(dynamic)").next().unwrap();
        assert!(before.contains(if_loop), "{advice}");
    }
}
