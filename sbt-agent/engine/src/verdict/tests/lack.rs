//! Causes of a lack of CPUs, each with the evidence and without.

use super::*;
use crate::report::{
    AloneReport, FirstThreadReport, ForeignReport, MachineReport, Policy, QuotaReport,
    SchedulingReport, StandsReport, TaskReport, UsedReport,
};

pub(super) const S: u64 = 1_000 * MS;

/// A thread that was on a CPU and ready without one for these percentages of a second.
pub(super) fn task(tid: u32, cpus: &str, [running, ready]: [u64; 2]) -> TaskReport {
    TaskReport {
        tid,
        pid: 1,
        name: if tid < 100 { "w" } else { "poller" }.into(),
        cpus: cpus.into(),
        nice: 0,
        policy: Policy::Normal,
        looked_ns: S,
        running_ns: Some(running * 10 * MS),
        ready_ns: Some(ready * 10 * MS),
        system_ns: None,
        minor_faults: None,
    }
}

#[test]
fn time_in_the_kernel_is_no_more_work() {
    let with_kernel = |system: u64, faults: u64| {
        let all = [[19, 19], [19 + system, faults]].into_iter().zip(1_u32..);
        let tasks = all.map(|([running, faults], tid)| TaskReport {
            system_ns: Some((running - 19) * 10 * MS),
            minor_faults: Some(faults),
            ..task(tid, "0-1", [running, 0])
        });
        let mut program = Program::new(2);
        program.facts.run.cpus = Some(2);
        program.facts.run.scheduling = Some(of(tasks.collect()));
        program.rounds(60, |_| but(2, 1, runs(9), runs(3)));
        program.only(VerdictKind::PersistentStraggler).text
    };
    let faults = with_kernel(40, 400_000);
    let why = "(most of its additional time is kernel time: 400 ms for 399981 more page faults than the other thread)";
    assert!(faults.contains(why), "{faults}");
    assert!(faults.contains("Let it allocate and touch its memory once"));
    let calls = with_kernel(40, 20);
    assert!(calls.contains("is kernel time: 400 ms); the"), "{calls}");
    let little = with_kernel(4, 400_000);
    assert!(little.contains("Give it less of the work"), "{little}");
}

#[test]
fn who_is_served_later_where_all_have_page_faults_is_not_to_blame() {
    let blamed = |own_ms: u64| {
        let tasks = (1..=2).map(|tid| TaskReport {
            system_ns: Some(if tid == 2 { 900 * MS } else { 700 * MS }),
            minor_faults: Some(400_000),
            running_ns: Some(if tid == 2 { 980 * MS } else { 800 * MS }),
            ..task(tid, "0-1", [0, 0])
        });
        let mut program = Program::new(2);
        program.facts.run.cpus = Some(2);
        program.facts.run.scheduling = Some(of(tasks.collect()));
        program.rounds(60, |_| but(2, 1, runs(own_ms), runs(10)));
        let mut report = program.report();
        report.run.used = Some(UsedReport {
            user_ns: 200 * MS,
            system_ns: 1600 * MS,
            minor_faults: 800_000,
            major_faults: 0,
            fault_ns: Some(2_000),
        });
        let found = judge(&report).unwrap();
        assert!(found.iter().any(|it| it.kind == VerdictKind::PageFaults));
        found
            .iter()
            .any(|it| it.kind == VerdictKind::PersistentStraggler)
    };
    assert!(!blamed(12));
    assert!(blamed(30), "much later is its own matter");
}

pub(super) fn of(tasks: Vec<TaskReport>) -> SchedulingReport {
    SchedulingReport {
        tasks,
        ..SchedulingReport::default()
    }
}

/// Two threads that meet, and all threads that were looked at.
fn meeting(tasks: impl Into<Vec<TaskReport>>) -> Program {
    let mut program = Program::new(2);
    program.facts.run.scheduling = Some(of(tasks.into()));
    program
}

/// Two threads of which one at a time lacks a CPU for as long as it works.
fn starving(scheduling: SchedulingReport) -> Program {
    let mut program = Program::new(2);
    program.facts.run.cpus = Some(2);
    program.facts.run.scheduling = Some(scheduling);
    program.rounds(60, |round| but(2, round % 2, [4 * MS, 4 * MS, 0], runs(4)));
    program
}

pub(super) fn machine(busy: u64, target: u64, own: u64) -> MachineReport {
    MachineReport {
        online: "0-1".into(),
        looked_ns: S,
        busy_ns: busy * 10 * MS,
        target_ns: target * 10 * MS,
        own_ns: own * 10 * MS,
        stolen_ns: 0,
        processes: Some(vec![ForeignReport {
            pid: 77,
            name: "cc1".into(),
            cpu_ns: 600 * MS,
        }]),
    }
}

#[test]
fn a_quota_is_the_cause_if_it_stopped_the_threads() {
    let quota = QuotaReport {
        group: "/user/job".into(),
        cpus: 0.5,
        period_ns: 100 * MS,
        periods: 5,
        throttled_periods: 4,
        throttled_ns: 300 * MS,
    };
    let mut scheduling = of(vec![task(1, "0-1", [50, 30]), task(2, "0-1", [50, 30])]);
    scheduling.quotas = vec![quota.clone()];
    scheduling.machine = Some(machine(200, 100, 0));
    let verdict = starving(scheduling.clone()).only(VerdictKind::CpuQuota);
    says(
        &verdict,
        &[
            "the quota of control group /user/job (0.5 CPUs) stopped (throttled) its threads in 4 \
             of 5 periods of 100 ms, for 300 ms",
        ],
    );
    assert_eq!((verdict.site, verdict.thread), (None, None));
    // A quota that stopped nobody is no cause.
    scheduling.quotas = vec![QuotaReport {
        throttled_periods: 0,
        throttled_ns: 0,
        ..quota
    }];
    starving(scheduling).only(VerdictKind::OthersTakeCpus);
}

#[test]
fn threads_bound_to_one_cpu_are_named_with_it() {
    let bound = |third: TaskReport| of(vec![task(1, "0", [50, 30]), task(2, "0", [50, 30]), third]);
    // The first thread, which waits in a join, may use both.
    let verdict = starving(bound(task(100, "0-1", [0, 0]))).only(VerdictKind::BoundToFewCpus);
    says(
        &verdict,
        &[
            "T0 w and T1 w may only run on CPU 0, and are ready without a CPU for 30 % of the \
             time; CPU 1 is not allowed to them",
        ],
    );
    // The whole program may use no other CPU: it has too many threads.
    let verdict = starving(bound(task(100, "0", [0, 0]))).only(VerdictKind::MoreThreadsThanCpus);
    says(&verdict, &["2 threads share 1 CPU, and"]);
    let mut scheduling = bound(task(100, "0", [0, 0]));
    scheduling.machine = Some(machine(100, 100, 0));
    let verdict = starving(scheduling).only(VerdictKind::MoreThreadsThanCpus);
    says(
        &verdict,
        &["2 threads share 1 CPU (of 2 only CPU 0 may be used)"],
    );
    // Both CPUs were allowed to it at first.
    let mut scheduling = bound(task(100, "0", [0, 0]));
    scheduling.first_cpus = "0-1".into();
    starving(scheduling).only(VerdictKind::BoundToFewCpus);
    // Each has a CPU of its own.
    let apart = of(vec![task(1, "0", [50, 30]), task(2, "1", [50, 30])]);
    starving(apart).only(VerdictKind::StragglerLostItsCpu);
}

#[test]
fn a_busy_helper_on_the_same_cpu_is_named() {
    let scheduling = of(vec![
        task(1, "0", [50, 50]),
        task(2, "1", [50, 0]),
        task(100, "0", [50, 50]),
    ]);
    let verdict = starving(scheduling).only(VerdictKind::BoundToFewCpus);
    says(
        &verdict,
        &[
            "T0 w may only run on CPU 0 together with thread `poller` (tid 100) of this program, \
             which came to no barrier, and is ready",
            "CPU 1 is not allowed to it",
        ],
    );
    assert_eq!(verdict.thread, Some(0));
    // Whoever shares its CPU takes longer for the same work.
    for (running_ms, is_more_work) in [(6, false), (9, true)] {
        let mut program = meeting([
            task(1, "0", [60, 30]),
            task(2, "1", [60, 0]),
            task(100, "0", [70, 30]),
        ]);
        program.rounds(60, |_| but(2, 0, [running_ms * MS, 5 * MS, 0], runs(4)));
        let blames = |verdict: &VerdictReport| verdict.kind == VerdictKind::PersistentStraggler;
        let verdicts = program.report().verdicts.unwrap();
        let bound = |verdict: &VerdictReport| verdict.kind == VerdictKind::BoundToFewCpus;
        assert!(verdicts.iter().any(bound), "{verdicts:#?}");
        assert_eq!(verdicts.iter().any(blames), is_more_work, "{verdicts:#?}");
    }
    // All may run everywhere.
    let scheduling = of(vec![
        task(1, "0-1", [60, 30]),
        task(2, "0-1", [60, 30]),
        task(100, "0-1", [70, 30]),
    ]);
    let verdict = starving(scheduling).only(VerdictKind::OwnThreadsTakeCpus);
    says(
        &verdict,
        &[
            "thread `poller` (tid 100) of this program comes to no barrier and wants 1.0 CPUs; with \
             the 2 threads that meet, 3 busy threads share CPUs 0-1, and those that meet are ready",
        ],
    );
    // The helper lived for a part of the run, and may have worked while the others had nothing to do.
    let mut short = task(100, "0-1", [70, 30]);
    short.looked_ns /= 20;
    let scheduling = of(vec![
        task(1, "0-1", [60, 30]),
        task(2, "0-1", [60, 30]),
        short,
    ]);
    let kinds = starving(scheduling).kinds();
    assert!(
        !kinds.contains(&VerdictKind::OwnThreadsTakeCpus),
        "{kinds:?}"
    );
    // The helper ran before the others began, as far as is known.
    let scheduling = |running_before: u64| {
        let mut old = task(100, "0-1", [running_before, 0]);
        old.looked_ns *= 2;
        let meet = |tid| task(tid, "0-1", [60, 30]);
        of(vec![meet(1), meet(2), old])
    };
    let kinds = starving(scheduling(100)).kinds();
    assert!(
        !kinds.contains(&VerdictKind::OwnThreadsTakeCpus),
        "{kinds:?}"
    );
    starving(scheduling(180)).only(VerdictKind::OwnThreadsTakeCpus);
    // The helper sleeps.
    let scheduling = of(vec![
        task(1, "0-1", [60, 30]),
        task(2, "0-1", [60, 30]),
        task(100, "0-1", [1, 0]),
    ]);
    starving(scheduling).only(VerdictKind::StragglerLostItsCpu);
    // It is the first thread, which ran while there were no others.
    let first = TaskReport {
        pid: 100,
        ..task(100, "0-1", [70, 0])
    };
    let scheduling = of(vec![
        task(1, "0-1", [60, 30]),
        task(2, "0-1", [60, 30]),
        first,
    ]);
    let mut program = starving(scheduling);
    program.facts.run.pid = 100;
    program.only(VerdictKind::OwnThreadsTakeCpus);
    let part = |running_ns| {
        Some(AloneReport {
            wall_ns: running_ns,
            running_ns,
        })
    };
    program.facts.run.first_thread = Some(FirstThreadReport {
        before: part(1),
        between: part(700 * MS - 2),
        after: part(1),
    });
    let kinds = program.kinds();
    assert!(
        !kinds.contains(&VerdictKind::OwnThreadsTakeCpus),
        "{kinds:?}"
    );
}

#[test]
fn where_others_take_cpus_the_least_work_at_most_places_must_show_who_is_late() {
    let late_in = |of_eight: u32| {
        let mut scheduling = of(vec![task(1, "0-1", [60, 30]), task(2, "0-1", [60, 30])]);
        scheduling.machine = Some(machine(200, 120, 5));
        let mut program = Program::new(2);
        program.facts.run.scheduling = Some(scheduling);
        for round in 0..80 {
            let is_late = round / PLACES % 8 < of_eight;
            let own_ns = if is_late { 12 * MS } else { 4 * MS };
            let work = but(2, 1, [own_ns, 3 * MS, 0], [4 * MS, 3 * MS, 0]);
            program.meet(round % PLACES, &work);
        }
        let kinds = program.kinds();
        kinds.contains(&VerdictKind::StragglerAtManySites)
    };
    assert!(late_in(8));
    assert!(!late_in(6));
}

#[test]
fn a_lower_priority_is_the_cause_if_others_have_a_higher_one() {
    let nicer = |nice, policy| TaskReport {
        nice,
        policy,
        ..task(2, "0-1", [30, 60])
    };
    let with = |second, third| starving(of(vec![task(1, "0-1", [60, 5]), second, third]));
    let hog = task(100, "0-1", [90, 5]);
    let verdict = with(nicer(10, Policy::Normal), hog.clone()).only(VerdictKind::LowPriority);
    assert_eq!(verdict.thread, Some(1));
    says(
        &verdict,
        &[
            "T1 w has nice value 10, while T0 w and thread `poller` (tid 100) of this program have \
             nice value 0 and run first on the same CPUs",
            "T1 w was ready without a CPU for 60 % of its time",
        ],
    );
    let verdict = with(nicer(0, Policy::Idle), hog.clone()).only(VerdictKind::LowPriority);
    says(&verdict, &["T1 w has scheduling class SCHED_IDLE"]);
    let real_time = TaskReport {
        policy: Policy::Fifo,
        ..hog.clone()
    };
    let verdict = with(nicer(0, Policy::Normal), real_time).only(VerdictKind::LowPriority);
    says(
        &verdict,
        &[
            "thread `poller` (tid 100) of this program has scheduling class SCHED_FIFO and runs first",
        ],
    );
    // A difference of one takes no CPU away.
    with(nicer(1, Policy::Normal), hog).only(VerdictKind::OwnThreadsTakeCpus);
}

#[test]
fn other_processes_are_the_cause_if_they_used_the_cpus() {
    let free = || of(vec![task(1, "0-1", [60, 30]), task(2, "0-1", [60, 30])]);
    let with = |machine| SchedulingReport {
        machine: Some(machine),
        ..free()
    };
    let verdict = starving(with(machine(200, 120, 5))).only(VerdictKind::OthersTakeCpus);
    says(
        &verdict,
        &["use 0.8 of the 2 CPUs that it may use, among them `cc1` (pid 77)"],
    );
    assert_eq!((verdict.site, verdict.thread), (None, None));
    // There were CPUs for all: the threads are ready for as long as it takes to wake them.
    starving(with(machine(130, 50, 5))).only(VerdictKind::StragglerLostItsCpu);
    // The idle CPU is not for the thread that is bound to the other one.
    let mut bound = with(machine(130, 50, 5));
    bound.tasks[1].cpus = "1".into();
    starving(bound).only(VerdictKind::OthersTakeCpus);
    // sbt uses as much as the others.
    starving(with(machine(200, 100, 55))).only(VerdictKind::StragglerLostItsCpu);
    // sbt itself is no other process.
    let verdict = starving(with(machine(200, 120, 75))).only(VerdictKind::StragglerLostItsCpu);
    says(&verdict, &["sbt itself used 0.8 CPUs meanwhile"]);
    // Nobody else used a CPU: the cause is not known, and only eBPF can tell more.
    let mut program = starving(with(machine(130, 120, 5)));
    let verdict = program.only(VerdictKind::StragglerLostItsCpu);
    says(&verdict, &["what takes the CPU is not known"]);
    assert!(!verdict.text.contains("--states"), "{}", verdict.text);
    program.facts.run.backend = "ebpf".into();
    let verdict = program.only(VerdictKind::StragglerLostItsCpu);
    says(&verdict, &["See what takes the CPU (--states full)."]);
}

#[test]
fn far_too_many_threads_are_told_beside_others() {
    let tasks = (1..=6).map(|tid| task(tid, "0-1", [30, 60])).collect();
    let mut scheduling = of(tasks);
    scheduling.machine = Some(machine(200, 160, 5));
    let mut program = Program::new(6);
    program.facts.run.cpus = Some(2);
    program.facts.run.scheduling = Some(scheduling);
    program.rounds(60, |_| vec![[MS, 8 * MS, 0]; 6]);
    assert_eq!(program.kinds()[0], VerdictKind::MoreThreadsThanCpus);
}

#[test]
fn threads_that_may_spin_want_cpus_by_the_looks() {
    let tasks = (1..=4).map(|tid| task(tid, "0-1", [25, 75])).collect();
    let mut program = Program::new(4);
    program.facts.run.cpus = Some(2);
    program.facts.run.scheduling = Some(of(tasks));
    program.rounds(60, |round| but(4, round % 4, runs(9), runs(1)));
    let mut report = program.report();
    let has = |report: &Report| {
        let mut found = judge(report).into_iter().flatten();
        found.any(|verdict| verdict.kind == VerdictKind::MoreThreadsThanCpus)
    };
    assert!(!has(&report), "they sleep in the barrier");
    report.thread_time.waits.spinning_pct = None;
    report.thread_time.waits.asleep_pct = None;
    assert!(has(&report));
}

#[test]
fn uneven_work_is_told_first_where_others_take_cpus() {
    let mut scheduling = of(vec![task(1, "0-1", [60, 30]), task(2, "0-1", [60, 30])]);
    scheduling.machine = Some(machine(200, 120, 5));
    let mut program = Program::new(2);
    program.facts.run.scheduling = Some(scheduling.clone());
    program.rounds(60, |_| but(2, 1, [9 * MS, 3 * MS, 0], [4 * MS, 3 * MS, 0]));
    assert_eq!(
        program.kinds(),
        [
            VerdictKind::PersistentStraggler,
            VerdictKind::OthersTakeCpus
        ]
    );
    // One has much more work in some phases, and the same in the others.
    let mut program = Program::new(2);
    program.facts.run.scheduling = Some(scheduling.clone());
    program.rounds(60, |round| {
        let own = if round % 3 == 0 {
            [40 * MS, 3 * MS, 0]
        } else {
            [4 * MS, 3 * MS, 0]
        };
        but(2, 1, own, [4 * MS, 3 * MS, 0])
    });
    let kinds = program.kinds();
    assert!(
        kinds.contains(&VerdictKind::PersistentStraggler),
        "{kinds:?}"
    );
    // The work is as long for both where nobody disturbs it, and the CPU time says otherwise, since
    // other programs empty the caches of one of them.
    let mut program = Program::new(2);
    program.facts.run.scheduling = Some(scheduling.clone());
    program.rounds(60, |round| {
        let disturbed = [8 * MS, 4 * MS, 0];
        but(
            2,
            1,
            if round % 6 == 0 { runs(4) } else { disturbed },
            runs(4),
        )
    });
    program.only(VerdictKind::OthersTakeCpus);
    // Where the work is even in CPU time, no thread is blamed.
    let mut program = Program::new(2);
    program.facts.run.scheduling = Some(scheduling);
    program.rounds(60, |_| {
        but(
            2,
            1,
            [4 * MS, 4 * MS, 4 * MS + 100 * US],
            [4 * MS, 4 * MS, 0],
        )
    });
    let kinds = program.kinds();
    assert!(
        !kinds.contains(&VerdictKind::PersistentStraggler),
        "{kinds:?}"
    );
}

#[test]
fn a_program_that_was_stopped_has_no_straggler_for_that() {
    let stops = |total_ns, at_most_ns| StandsReport {
        times: 1,
        total_ns,
        at_most_ns,
    };
    let mut program = Program::new(2);
    program.facts.run.scheduling = Some(SchedulingReport {
        stopped: stops(S, S + 500 * MS),
        ..SchedulingReport::default()
    });
    // The stop fell into the work of one thread, in one of the phases.
    program.rounds(60, |round| {
        let stopped_ns = if round == 30 { S + 200 * MS } else { 0 };
        but(2, 1, [4 * MS, 0, stopped_ns], runs(4))
    });
    let verdict = program.only(VerdictKind::ProgramStopped);
    says(
        &verdict,
        &["a signal (SIGSTOP, Ctrl-Z) stopped it once, for at least 1.00 s"],
    );
    program.facts.run.scheduling = Some(SchedulingReport {
        frozen: stops(S, S + 500 * MS),
        frozen_group: Some("/job".into()),
        ..SchedulingReport::default()
    });
    let verdict = program.only(VerdictKind::ProgramStopped);
    says(&verdict, &["its control group /job was frozen once"]);
}

#[test]
fn looks_tell_where_events_do_not() {
    let mut program = meeting([
        task(1, "0", [50, 30]),
        task(2, "0", [50, 30]),
        task(100, "0-1", [0, 0]),
    ]);
    for clocks in &mut program.clocks {
        (clocks.run_ns, clocks.delay_ns) = (None, None);
    }
    program.rounds(60, |round| but(2, round % 2, [4 * MS, 4 * MS, 0], runs(4)));
    let verdict = program.only(VerdictKind::BoundToFewCpus);
    says(&verdict, &["ready without a CPU for 30 % of the time"]);
}

#[test]
fn where_time_without_a_cpu_is_not_told_apart_from_work_much_of_it_forbids_to_blame_a_thread() {
    let kinds = |ready: u64| {
        let mut program = meeting([task(1, "0-1", [60, ready]), task(2, "0-1", [60, ready])]);
        program.rounds(40, |_| but(2, 1, runs(8), runs(4)));
        let mut report = program.report();
        for site in &mut report.sites {
            if let Some(late) = site.straggler.as_mut().and_then(|it| it.late.as_mut()) {
                (late.last.running_ns, late.others.running_ns) = (None, None);
                late.split_episodes = 0;
            }
            for later in site.threads.iter_mut().filter_map(|it| it.later.as_mut()) {
                (later.running_ns, later.ready_ns, later.blocked_ns) = (None, None, None);
            }
        }
        let verdicts = judge(&report).unwrap_or_default();
        verdicts
            .iter()
            .map(|verdict| verdict.kind)
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds(5), [VerdictKind::PersistentStraggler]);
    assert!(!kinds(20).contains(&VerdictKind::PersistentStraggler));
}
