//! Code inside of the program that notes arrivals: no thread stops, and no privilege is needed.

use std::{fs, path::Path};

use crate::{
    attach::{Patient, is_a_stretch},
    harness::{
        Attached, Finished, LIMIT, Report, attach, best_of_five, command, eventually, is_alive,
        needs_root, number, pause, run, sbt, sbt_with, start, watch_with,
    },
    kill::some,
    privilege::{Open, as_nobody},
    programs::{Build, program},
    ptrace::agree,
    tty::children,
    turns::often,
};

/// Watches the same program by probes of the kernel and from inside: the reports are equal but for
/// departures.
fn conforms(program: &Path) {
    agree(["ebpf", "inject"], &["--departures=off"], program, &[]);
}

#[test]
fn barriers_of_c_libraries_and_openmp_conform() {
    needs_root!(alone);
    for build in [
        Build::of("comeandgo.c"),
        Build::of("crowd.c"),
        Build::of("fresh.c"),
        Build::of("openmp.c").flags(&["-fopenmp"]),
    ] {
        conforms(&build.path());
    }
}

/// Runs a program as a user without any privilege, watched from inside.
fn by_nobody(open: &Open, program: &Path, arguments: &[&str]) -> (Finished, Report) {
    let (sbt, program) = (open.copy(sbt()), open.copy(program));
    let json = open.path("report.json");
    let mut command = as_nobody(&sbt);
    command.args([
        "run",
        "--backend=inject",
        "--budget=off",
        "--json",
        "--output",
    ]);
    command.arg(&json).arg("--").arg(program).args(arguments);
    let finished = run(command);
    (finished, Report::read(&json))
}

#[test]
fn nobody_watches_from_the_first_barrier_on() {
    needs_root!();
    let arguments = [
        "threads=3",
        "rounds=60",
        "base=2000",
        "skew=1000",
        "status=7",
    ];
    let (finished, report) = by_nobody(&Open::new(), &program("truth.c"), &arguments);
    let finished = finished.expect(7);
    assert_eq!(finished.stderr, "", "{finished}");
    report.is_exactly(180, 60);
    assert_eq!(report.0["backend"], "inject", "{report}");
    let site = &report.sites()[0];
    assert_eq!(site["function"], "meet", "{report}");
    assert_eq!(site["straggler"]["thread"], 2, "{report}");
    // What it costs is known.
    assert!(report.0["own_cost"]["share_pct"].is_number(), "{report}");
}

#[test]
fn how_long_threads_ran_is_known_and_what_is_not_seen_is_unknown() {
    needs_root!(alone);
    best_of_five(|| {
        // The second thread sleeps twice in each round, each time for much longer than sbt pauses.
        let arguments = ["threads=3", "rounds=40", "spin0=30000", "sleep1=15000"];
        let (_, report) = by_nobody(&Open::new(), &program("truth.c"), &arguments);
        assert_eq!(report.0["departures"], false, "{report}");
        let threads = report.threads();
        // The phases are long, so that it is known how long threads were ready; and who sleeps is not.
        let ready = threads.iter().map(|thread| number(thread, "ready_ns"));
        let most = ready.max().unwrap_or(0);
        if most > 40 * 2_000_000 {
            return Err(format!("a thread was ready for {most} ns"));
        }
        let blocked = number(&threads[1], "blocked_ns");
        if blocked.abs_diff(40 * 15_000_000) > 40 * 2_000_000 {
            return Err(format!("{blocked} ns asleep instead of 600 ms"));
        }
        let running = |thread: usize| number(&threads[thread], "running_ns");
        let spins = 40 * 30_000_000;
        if running(0).abs_diff(spins) * 10 > spins {
            return Err(format!("{} ns instead of {spins} ns", running(0)));
        }
        let rest = running(1).max(running(2));
        if rest > 40 * 1_000_000 {
            return Err(format!("a thread that sleeps ran {rest} ns"));
        }
        Ok(())
    });
}

#[test]
fn nobody_watches_openmp() {
    needs_root!();
    let openmp = Build::of("openmp.c").flags(&["-fopenmp"]).path();
    let (_, expected) = watch_with(&["--departures=off"], &openmp, &[]);
    let (finished, report) = by_nobody(&Open::new(), &openmp, &[]);
    finished.expect(0);
    for field in ["arrivals", "episodes", "incomplete_episodes", "lost_events"] {
        let counts = [&report, &expected].map(|report| report.number(field));
        assert_eq!(counts[0], counts[1], "{field}: {report}");
    }
}

#[test]
fn rounds_without_work_are_all_counted() {
    needs_root!();
    let arguments = ["threads=2", "rounds=20000"];
    let (finished, report) = by_nobody(&Open::new(), &program("truth.c"), &arguments);
    finished.expect(0);
    report.is_exactly(40_000, 20_000);
}

#[test]
fn it_comes_and_goes_without_a_trace() {
    needs_root!(breakpoints);
    let patient = Patient::start(&["threads=3", "rounds=20000", "base=300"]);
    for _ in 0..often(10) {
        let attached = attach(
            patient.target.pid(),
            &["--backend=inject", "--duration=0.05"],
        );
        is_a_stretch(&attached.report(), 3);
    }
    patient.ended_untouched(60_000);
}

#[test]
fn a_killed_sbt_leaves_a_program_that_goes_on() {
    needs_root!();
    for attempt in 0..often(3) {
        let mut target = start(command(
            program("selfcheck.c"),
            &["rounds=3000", "gap=200", "forks=2"],
        ));
        target.wait_for("ready");
        for again in 0..3 {
            let attached = attach(target.pid(), &["--backend=inject"]);
            pause(some(150, attempt * 3 + again));
            attached.sbt.signal(libc::SIGKILL);
            drop(attached);
        }
        let finished = target.finish().expect(0);
        assert!(finished.out().ends_with("right\n"), "{finished}");
        assert!(!finished.out().contains("child"), "{finished}");
    }
}

/// Waits until sbt has its memory in the program.
#[track_caller]
pub fn has_begun(target: u32) {
    let has_memory = || {
        let maps = fs::read_to_string(format!("/proc/{target}/maps")).ok()?;
        maps.contains("/memfd:sbt-rings").then_some(())
    };
    eventually(LIMIT, has_memory).expect("sbt begins to watch");
}

/// The process that takes the jumps out if sbt is killed.
fn keeper_of(attached: &Attached) -> u32 {
    let is_keeper = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name == "jump-keeper\n")
    };
    let keeper = children(attached.sbt.pid()).into_iter().find(is_keeper);
    keeper.unwrap()
}

/// Kills sbt and the process that would take its jumps out.
pub fn kill_with_keeper(attached: &Attached) {
    // SAFETY: a plain system call.
    let killed = unsafe { libc::kill(keeper_of(attached).cast_signed(), libc::SIGKILL) };
    assert_eq!(killed, 0);
    attached.sbt.signal(libc::SIGKILL);
}

#[test]
fn what_a_killed_one_has_put_in_is_taken_out() {
    needs_root!(breakpoints);
    for attempt in 0..often(3) {
        let patient = Patient::start(&["threads=3", "rounds=3000", "base=500"]);
        let attached = attach(patient.target.pid(), &["--backend=inject"]);
        has_begun(patient.target.pid());
        pause(200 + some(400, attempt));
        let keeper = keeper_of(&attached);
        attached.sbt.signal(libc::SIGKILL);
        drop(attached);
        eventually(LIMIT, || (!is_alive(keeper)).then_some(())).unwrap();
        patient.ended_untouched(9_000);
    }
}

#[test]
fn the_next_one_takes_out_what_a_killed_one_has_left() {
    needs_root!(breakpoints);
    let patient = Patient::start(&["threads=3", "rounds=6000", "base=500"]);
    let attached = attach(patient.target.pid(), &["--backend=inject"]);
    has_begun(patient.target.pid());
    pause(300);
    kill_with_keeper(&attached);
    drop(attached);
    let attached = attach(
        patient.target.pid(),
        &["--backend=inject", "--duration=0.3"],
    );
    is_a_stretch(&attached.report(), 3);
    patient.ended_untouched(18_000);
}

#[test]
fn children_go_on_unwatched() {
    needs_root!();
    let (finished, report) = watch_with(&["--backend=inject"], &program("forks.c"), &[]);
    assert_eq!(finished.expect(0).out(), "child 5\n");
    // The arrivals of the parent: 50 rounds of two threads, and of four.
    report.is_exactly(300, 100);
    assert!(
        report.notes().any(|note| note.contains("child processes")),
        "{report}"
    );
}

#[test]
fn a_killed_program_is_reported() {
    needs_root!();
    let mut command = sbt_with(&["run", "--backend=inject", "--"]);
    command
        .arg(program("truth.c"))
        .args(["threads=3", "rounds=20", "raise=15"]);
    let finished = run(command).expect(143);
    assert!(finished.stderr.contains("sbt · "), "{finished}");
}

/// The line with which sbt refuses to attach to a process.
fn refused(pid: u32) -> String {
    let pid = pid.to_string();
    let finished = run(sbt_with(&[
        "attach",
        "--backend=inject",
        "--duration=0.1",
        &pid,
    ]));
    let finished = finished.expect(125);
    finished.one_line().to_owned()
}

#[test]
fn a_program_that_cannot_be_watched_is_left_alone() {
    needs_root!(breakpoints);
    let arguments = ["threads=3", "rounds=3000", "base=500"];
    let fixed = Build::of("truth.c").flags(&["-static"]).path();
    let mut target = start(command(fixed, &arguments));
    target.wait_for("ready");
    let line = refused(target.pid());
    assert!(
        line.contains("statically") && line.contains("--backend ptrace"),
        "{line}"
    );
    drop(target);

    let patient = Patient::start(&arguments);
    let other = attach(patient.target.pid(), &["--backend=ptrace"]);
    pause(500);
    let line = refused(patient.target.pid());
    assert!(line.contains("another sbt"), "{line}");
    other.sbt.signal(libc::SIGINT);
    other.report();
    let other = attach(patient.target.pid(), &["--backend=inject"]);
    has_begun(patient.target.pid());
    let line = refused(patient.target.pid());
    assert!(line.contains("another sbt"), "{line}");
    other.sbt.signal(libc::SIGINT);
    is_a_stretch(&other.report(), 3);
    patient.ended_untouched(9_000);
}

#[test]
fn foreign_bytes_and_filters_are_refused() {
    needs_root!();
    for (argument, words) in [
        ("trap=1", "other bytes"),
        ("filter=1", "system call filter"),
        ("stamp=1", "time stamp"),
    ] {
        let mut target = start(command(program("guarded.c"), &[argument]));
        target.wait_for("ready");
        let line = refused(target.pid());
        assert!(
            line.contains(words) && line.contains("--backend ptrace"),
            "{line}"
        );
        target.finish().expect(0);
    }
}

#[test]
fn a_program_that_writes_into_its_rings_harms_nobody() {
    needs_root!();
    let mut target = start(command(program("scribbles.c"), &["seconds=3"]));
    target.wait_for("ready");
    let attached = attach(target.pid(), &["--backend=inject", "--duration=1"]);
    let report = attached.lossy_report();
    assert!(number(&report.0, "pid") > 0, "{report}");
    target.finish().expect(0);
}
