//! Threads that lack a CPU, and threads that were blocked in the kernel.

use super::*;

#[test]
fn who_was_woken_late_has_no_more_work() {
    let mut program = Program::new(4);
    program.woken_late_ns = 3 * MS;
    program.rounds(20, |_| vec![runs(8); 4]);
    let report = program.report();
    // The thread always comes last, but less work for it would not help.
    assert_eq!(
        report.sites[0].straggler.as_ref().unwrap().pattern,
        "persistent"
    );
    let because = judge(&report).unwrap_err();
    assert!(because.contains("waiting at barriers"), "{because}");
}

#[test]
fn who_comes_last_by_little_does_not_sleep_for_the_one_that_does() {
    let mut program = Program::new(2);
    program.rounds(100, |round| match round % 10 {
        0..7 => vec![[3 * MS + 200 * US, 0, 0], runs(3)],
        9 => vec![runs(3), [3 * MS, 0, 40 * MS]],
        _ => vec![runs(3), [3 * MS + 200 * US, 0, 0]],
    });
    let straggler = program.report().sites[0].straggler.clone().unwrap();
    assert_eq!(straggler.thread, 0);
    assert_eq!(straggler.pattern, "persistent");
    let verdict = program.only(VerdictKind::StragglerBlocked);
    assert_eq!(verdict.thread, Some(1));
    says(&verdict, &["% of the wait is for T1 w; the last thread is"]);
}

#[test]
fn who_slept_is_late_for_what_the_kernel_did() {
    let work = |_| but(4, 1, [2 * MS, 0, 6 * MS], runs(3));
    let mut program = Program::new(4);
    program.rounds(20, work);
    let verdict = program.only(VerdictKind::StragglerBlocked);
    assert_eq!(verdict.thread, Some(1));
    says(
        &verdict,
        &[
            "asleep before step a.c:40: T1 w comes last in 100 % of 20 episodes, 5.00 ms late",
            "sleeps in the kernel for 100 % of that (for input or output, a lock, a page fault or",
            // The whole of a sleep is saved.
            "would save up to 100 ms of 161 ms",
        ],
    );
    // Where sbt stops threads, that looks like sleep.
    let mut stopped = Program::new(4);
    stopped.facts.run.backend = "ptrace".into();
    stopped.rounds(20, work);
    assert!(!stopped.kinds().contains(&VerdictKind::StragglerBlocked));
    // Locks were watched, and no thread waited for one.
    program.facts.locks = Some(Vec::new());
    says(
        &program.only(VerdictKind::StragglerBlocked),
        &["no wait for a lock was seen"],
    );
    let mut looked = program.report();
    looked.waits = crate::samples::imbalanced().report.waits;
    let told = late::blocked(&looked, &looked.sites[0]).unwrap();
    assert!(!told.text.contains("no wait for a lock"), "{}", told.text);
    let lock = FoundLock {
        address: 0x40,
        pid: Some(1),
        kind: LockKind::Mutex,
        place: Some(PlaceId(3)),
        waits: 20,
        total_ns: 110 * MS,
        max_ns: 6 * MS,
        waiters_max: 1,
        holder: Some(2),
    };
    program.facts.locks = Some(vec![lock.clone()]);
    says(
        &program.only(VerdictKind::StragglerBlocked),
        &["probably for the mutex of step a.c:43, which T2 w had last"],
    );
    // The lock explains only a hundredth of the sleep.
    program.facts.locks = Some(vec![FoundLock {
        total_ns: MS,
        ..lock
    }]);
    says(
        &program.only(VerdictKind::StragglerBlocked),
        &["no wait for a lock was seen"],
    );
    // All threads sleep for the same time: the last one is late because of its work.
    let mut program = Program::new(4);
    program.rounds(20, |_| but(4, 1, [6 * MS, 0, 2 * MS], [3 * MS, 0, 2 * MS]));
    assert_eq!(
        program.kinds(),
        [
            VerdictKind::PersistentStraggler,
            VerdictKind::AsleepInTheWork
        ]
    );
}

#[test]
fn who_had_no_cpu_is_late_for_that() {
    let work = |round: usize| but(4, round % 3, [4 * MS, 3 * MS, 0], runs(4));
    let mut program = Program::new(4);
    program.rounds(60, work);
    let verdict = program.only(VerdictKind::StragglerLostItsCpu);
    says(
        &verdict,
        &["another, 3.00 ms late on average, and is ready to run without a CPU for 100 % of that"],
    );
    // With too few CPUs, there is a verdict on the run and none on its sites.
    program.facts.run.cpus = Some(2);
    let verdict = program.only(VerdictKind::MoreThreadsThanCpus);
    assert_eq!(verdict.site, None);
    says(
        &verdict,
        &[
            "4 threads share 2 CPUs, and are ready without one for 11 %",
            "start 2,",
        ],
    );
    // Work may be so uneven that no CPU would help.
    let mut program = Program::new(4);
    program.facts.run.cpus = Some(2);
    program.rounds(60, |_| but(4, 3, [6 * MS, 8 * MS, 0], [2 * MS, 4 * MS, 0]));
    let report = program.report();
    let verdicts = report.verdicts.unwrap();
    let kinds: Vec<_> = verdicts.iter().map(|verdict| verdict.kind).collect();
    assert_eq!(
        kinds,
        [
            VerdictKind::MoreThreadsThanCpus,
            VerdictKind::PersistentStraggler
        ]
    );
    says(
        &verdicts[1],
        &["T3 w comes last in 100 % of 60 episodes, and is on a CPU for 6.00 ms in each phase"],
    );
}

#[test]
fn more_threads_than_cpus_are_no_harm_if_they_never_lack_one() {
    let mut program = Program::new(4);
    program.facts.run.cpus = Some(2);
    program.rounds(20, |_| vec![[5 * MS, 50 * US, 0]; 4]);
    assert_eq!(program.kinds(), [VerdictKind::NoProblem]);
    // Other programs take the CPUs from threads that hardly use them: that is why the last thread
    // is late, and fewer threads would not help.
    let mut program = Program::new(4);
    program.facts.run.cpus = Some(2);
    program.rounds(60, |round| {
        but(
            4,
            round % 4,
            [US, 6 * MS, 5 * MS],
            [2 * US, 500 * US, 5 * MS],
        )
    });
    assert_eq!(
        program.kinds(),
        [
            VerdictKind::AsleepInTheWork,
            VerdictKind::StragglerLostItsCpu
        ]
    );
    // The number of CPUs is unknown.
    let mut program = Program::new(4);
    program.facts.run.cpus = None;
    program.rounds(20, |_| vec![[5 * MS, 5 * MS, 0]; 4]);
    let because = program.none();
    assert!(because.contains("without a CPU"), "{because}");
}

#[test]
fn spinning_is_a_fault_only_where_others_lack_a_cpu() {
    let work = |_| {
        vec![
            [4 * MS, 0, 0],
            [4 * MS, 0, 0],
            [4 * MS, 4 * MS, 0],
            [4 * MS, 4 * MS, 0],
        ]
    };
    let mut program = Program::new(4);
    program.facts.run.cpus = Some(2);
    program.spins = 100;
    program.rounds(20, work);
    let kinds = program.kinds();
    assert!(
        kinds.contains(&VerdictKind::SpinningWhileOthersLackCpus),
        "{kinds:?}"
    );
    assert!(
        !kinds.contains(&VerdictKind::MoreThreadsThanCpus),
        "{kinds:?}"
    );
    // The threads sleep.
    let mut program = Program::new(4);
    program.facts.run.cpus = Some(2);
    program.rounds(20, work);
    let kinds = program.kinds();
    assert!(
        kinds.contains(&VerdictKind::MoreThreadsThanCpus),
        "{kinds:?}"
    );
    assert!(
        !kinds.contains(&VerdictKind::SpinningWhileOthersLackCpus),
        "{kinds:?}"
    );
    // There are enough CPUs.
    let mut program = Program::new(4);
    program.facts.run.cpus = Some(4);
    program.spins = 100;
    program.rounds(20, |_| vec![runs(4); 4]);
    assert_eq!(program.kinds(), [VerdictKind::NoProblem]);
}

#[test]
fn one_who_sleeps_now_and_then_is_named_though_others_come_last_by_chance() {
    let mut program = Program::new(2);
    program.rounds(100, |round| match round % 10 {
        9 => vec![[7 * MS, 0, 0], [7 * MS, 0, 40 * MS]],
        _ => but(2, round % 2, [7 * MS + 50 * US, 0, 0], [7 * MS, 0, 0]),
    });
    let report = program.report();
    let found = judge(&report).unwrap();
    let verdict = &found[0];
    assert_eq!(verdict.kind, VerdictKind::StragglerBlocked);
    assert_eq!(verdict.thread, Some(1));
    says(verdict, &["of the wait is for T1 w; the last thread is"]);
}
