//! One thread that works before, between or after what all threads do.

use super::{
    pace::{judged, queue, run, thread},
    *,
};
use crate::report::{
    AloneReport, FirstThreadReport, WaitKind,
    waits::{LookedThreadReport, LooksReport},
};

#[test]
fn one_thread_that_prepares_all_is_a_serial_start() {
    let mut program = Program::new(4);
    program.meet(0, &but(4, 0, runs(100), [100 * US, 0, 0]));
    for _ in 0..20 {
        program.meet(0, &[runs(10); 4]);
    }
    let verdict = program.only(VerdictKind::SerialStart);
    assert_eq!((verdict.site, verdict.thread), (None, Some(0)));
    says(
        &verdict,
        &[
            "T0 w works alone for 100 ms before 4 threads first meet at step a.c:40",
            "33 % of the wall time",
            "save up to 74.9 ms",
        ],
    );
    // After a longer run, the serial start does not matter.
    for _ in 0..160 {
        program.meet(0, &[runs(10); 4]);
    }
    let because = program.none();
    assert!(because.starts_with("4 % of thread time"), "{because}");
}

#[test]
fn what_the_first_thread_does_before_others_begin_is_told_although_these_work_at_once() {
    let started = |running_ms: u64| {
        let mut program = Program::new(4);
        program.meet(0, &but(4, 0, runs(300), runs(200)));
        for _ in 0..20 {
            program.meet(0, &[runs(10); 4]);
        }
        program.facts.run.first_thread = Some(FirstThreadReport {
            before: Some(AloneReport {
                wall_ns: 110 * MS,
                running_ns: running_ms * MS,
            }),
            ..FirstThreadReport::default()
        });
        program.kinds().contains(&VerdictKind::SerialStart)
    };
    assert!(started(105));
    assert!(!started(50), "it slept");
}

#[test]
fn one_thread_between_parallel_regions_is_a_serial_part() {
    let mut program = Program::new(4);
    program.alone_ns = Some(20 * MS);
    program.rounds(20, |_| vec![runs(10); 4]);
    let verdict = program.only(VerdictKind::SerialPart);
    assert_eq!((verdict.site, verdict.thread), (Some(1), Some(0)));
    // 20 of 30 ms in each round, in which three of four threads wait.
    says(
        &verdict,
        &["T0 w works alone for", "3 others are kept", "% of"],
    );
    let share = verdict.evidence.get("share_pct");
    assert!(
        matches!(share, Some(Figure::Real(share)) if (45.0..52.0).contains(share)),
        "{verdict:?}"
    );
    let report = program.report();
    let site = report.site(1).unwrap();
    assert_eq!(site.alone_ns, Some(20 * 20 * MS));
    assert_eq!(site.between_ns.unwrap(), 3 * (20 * 20 * MS));
    // Time between regions is no imbalance of the regions.
    assert_eq!(site.gain_ns, 0);
    // This includes the time before the first region.
    assert_eq!(report.threads[1].between_ns, Some(21 * 20 * MS));
    let busy = report.parallelism.unwrap();
    let alone = busy.times.iter().find(|time| time.busy == 1).unwrap();
    assert_eq!(alone.ns, 21 * 20 * MS);
    let it = report.efficiency.unwrap();
    assert!((it.load_balance - 0.5).abs() < 0.02, "{it:?}");
}

/// Four threads, the first of which goes on for a while after the others have ended.
fn ends(alone_ms: u64, ended: bool) -> Program {
    let mut program = Program::new(4);
    program.rounds(20, |_| vec![runs(10); 4]);
    program.facts.run.ended = ended;
    for tid in 2..=4 {
        let clocks = program.clocks[tid as usize - 1];
        program.model.push(&Event::Exit { tid, clocks });
    }
    let first = &mut program.clocks[0];
    first.time_ns += alone_ms * MS;
    first.run_ns = first.run_ns.map(|run| run + alone_ms * MS);
    let clocks = *first;
    program.model.push(&Event::Exit { tid: 1, clocks });
    program
}

#[test]
fn one_thread_that_goes_on_when_all_others_have_ended_is_a_serial_end() {
    let verdict = ends(100, true).only(VerdictKind::SerialEnd);
    assert_eq!((verdict.site, verdict.thread), (None, Some(0)));
    says(
        &verdict,
        &[
            "T0 w works on for 100 ms after the last barrier, step a.c:40",
            "3 others idle or have ended, 33 % of the wall time",
        ],
    );
    ends(30, true).only(VerdictKind::SerialEnd);
    // A short serial end, or a mere end of watching, gives no verdict; but `no-problem` is not
    // claimed either.
    for mut program in [ends(20, true), ends(100, false)] {
        let because = program.none();
        assert!(because.contains("after the last"), "{because}");
    }
    ends(4, true).only(VerdictKind::NoProblem);
}

#[test]
fn hardly_any_work_between_regions_is_none() {
    let mut program = Program::new(4);
    program.alone_ns = Some(100 * US);
    program.rounds(20, |_| vec![runs(10); 4]);
    program.only(VerdictKind::NoProblem);
    // A thread that is late in the regions is reported, and not the little time between them.
    let mut program = Program::new(4);
    program.alone_ns = Some(MS);
    program.rounds(20, |_| but(4, 2, runs(30), runs(10)));
    assert_ne!(program.kinds(), [VerdictKind::SerialPart]);
}

#[test]
fn a_thread_without_a_cpu_does_not_work_between_regions() {
    let mut program = Program::new(4);
    program.alone_ns = Some(20 * MS);
    let mut report = program.rounds(20, |_| vec![runs(10); 4]).report();
    let kinds = |report: &_| -> Vec<VerdictKind> {
        let all = judge(report).into_iter().flatten();
        all.map(|verdict| verdict.kind).collect()
    };
    assert_eq!(kinds(&report), [VerdictKind::SerialPart]);
    for site in &mut report.sites {
        site.alone_ready_ns = site.alone_ns;
    }
    assert!(!kinds(&report).contains(&VerdictKind::SerialPart));
    for site in &mut report.sites {
        (site.alone_ready_ns, site.alone_blocked_ns) = (None, site.alone_ns);
    }
    assert!(kinds(&report).contains(&VerdictKind::SerialPart));
    report.run.backend = "ptrace".into();
    assert!(!kinds(&report).contains(&VerdictKind::SerialPart));
}

#[test]
fn beginning_short_regions_is_no_serial_part() {
    let mut program = Program::new(2);
    program.alone_ns = Some(US);
    program.release_ns = US;
    program.rounds(1000, |_| vec![[2 * US, 0, 0]; 2]);
    let verdict = program.only(VerdictKind::PhaseTooShort);
    says(&verdict, &["until the next parallel region begins"]);
}

#[test]
fn of_threads_that_are_made_for_each_frame_the_last_one_works_alone() {
    let told = |alone: u64, of: u64| {
        let mut report = run();
        let mut join = queue(0.0, &[(0, 990)], &[]);
        (join.kind, join.looks) = (WaitKind::Join, 96);
        join.place = "frame tiles.cpp:15".into();
        join.awaited = (1..=20).map(|tid| format!("T{tid}")).collect();
        let made = (1..=20).map(|tid| LookedThreadReport {
            looks: of,
            asleep_looks: 0,
            alone_looks: alone,
            watched_ns: 12 * MS,
            running_ns: Some(11 * MS),
            ready_ns: Some(0),
            ..thread(tid, "tiles", 0, 0)
        });
        report.waits = Some(LooksReport {
            looks: 100,
            span_ns: 1000 * MS,
            thread_looks: 20 * of,
            threads: std::iter::once(thread(0, "tiles", 5, 0))
                .chain(made)
                .collect(),
            places: vec![join],
            ..LooksReport::default()
        });
        judged(report)
    };
    let found = told(2, 6);
    assert_eq!(found[0].kind, VerdictKind::SerialPart);
    says(
        &found[0],
        &["for 40 % of the run (40 of 100 looks) T0 tiles waits at frame tiles.cpp:15 for the end"],
    );
    assert_eq!(told(0, 6), [], "they end together");
    assert_eq!(told(3, 3), [], "one is made after the other");
}

#[test]
fn one_thread_that_works_while_others_wait_is_a_serial_phase() {
    let mut program = Program::new(4);
    program.rounds(20, |_| but(4, 2, runs(9), [300 * US, 0, 0]));
    let verdict = program.only(VerdictKind::SerialPhase);
    assert_eq!((verdict.site, verdict.thread), (Some(1), Some(2)));
    says(
        &verdict,
        &["one of 4 threads works (T2 w) for 96 % of the phase while all others wait;"],
    );
    // The phase is serial too if threads take turns.
    let mut program = Program::new(4);
    program.rounds(20, |round| but(4, round % 4, runs(9), [300 * US, 0, 0]));
    let verdict = program.only(VerdictKind::SerialPhase);
    assert_eq!(verdict.thread, None);
    says(&verdict, &["(now one, now another)"]);
    // A thread that was slow in a few of many short phases works alone in none.
    let few = |every: usize| {
        let mut program = Program::new(4);
        program.rounds(200, |round| {
            let ms = if round % every == 0 { 90 } else { 0 };
            but(4, 2, [10 * US + ms * 1_000 * US, 0, 0], [9 * US, 0, 0])
        });
        program.kinds()
    };
    assert_eq!(few(10), [VerdictKind::SerialPhase]);
    assert!(!few(50).contains(&VerdictKind::SerialPhase));
    // Time without a CPU is no work.
    let mut program = Program::new(4);
    program.rounds(20, |_| but(4, 2, [9 * MS, 9 * MS, 0], runs(3)));
    assert!(!program.kinds().contains(&VerdictKind::SerialPhase));
    // A thread with twice the work of the others does not work alone for most of the phase.
    let mut program = Program::new(4);
    program.rounds(20, |_| but(4, 2, runs(9), runs(4)));
    assert_eq!(program.kinds(), [VerdictKind::PersistentStraggler]);
}
