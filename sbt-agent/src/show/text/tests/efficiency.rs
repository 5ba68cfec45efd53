//! What the text says of the efficiency.

use super::*;

#[test]
fn sleep_in_the_work_stands_beside_the_speed_up() {
    // Each thread has a CPU, or sleeps, for 300 ms of its work, and lacks one for `ready_ms` of it.
    let with = |slept_ms: u64, ready_ms: u64| {
        let mut program = Program::new(true);
        program.starts(1..3);
        for _ in 0..10 {
            program.meet(1, &[(1, 30), (2, 30)]);
        }
        let mut report = program.report();
        for thread in &mut report.threads {
            thread.blocked_ns = Some(slept_ms * MS);
            thread.ready_ns = Some(ready_ms * MS);
            thread.work_ns = thread.work_ns.map(|work_ns| work_ns + ready_ms * MS);
        }
        let text = text(&report);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = with(120, 0);
    assert!(
        text.contains("speed-up 1.9 of 2; asleep 40 % of the work"),
        "{text}"
    );
    let text = with(120, 300);
    assert!(text.contains("asleep 20 % of the work"), "{text}");
    assert!(!with(10, 0).contains("of the work"));
}

#[test]
fn efficiency_that_is_unknown_is_a_question_mark_with_its_reason() {
    let mut program = Program::new(true);
    program.starts(1..3);
    program.meet(1, &[(1, 10), (2, 30)]);
    let lost = Facts {
        run: Run {
            wall_ns: program.time_ns,
            ..Run::default()
        },
        lost: 3,
        ..Facts::default()
    };
    let report = program.report_of(lost);
    assert!(report.efficiency.is_none());
    let text = text(&report);
    has(&text, "efficiency ?: 3 of 7 events were lost (43 %)");
    assert!(!text.contains("speed-up"), "{text}");
    assert!(!text.contains("no problem"), "{text}");
    let note = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        note.contains("an episode with lost events counts as incomplete"),
        "{note}"
    );
}
