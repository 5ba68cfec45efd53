//! Processes that the program starts.

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt, path::Path};

use serde_json::{Value, json};

use crate::{
    ends::{has_ended, target_of},
    harness::{
        LIMIT, Report, attach, command, eventually, folder, needs_root, number, run, sbt_with,
        start, start_reading, watch, watch_with,
    },
    programs::{Build, line, program},
};

const ROUNDS: u64 = 50;

/// The barriers with so many participants.
fn barriers(report: &Report, participants: u64) -> Vec<&Value> {
    let barriers = report.list("barriers").iter();
    barriers
        .filter(|barrier| barrier["participants"] == participants)
        .collect()
}

/// Three processes at one barrier, and each of them at one of its own.
fn is_of_three(report: &Report) {
    // 3 at the shared one, 2 at each of three.
    report.is_exactly(3 * ROUNDS + 3 * 2 * ROUNDS, ROUNDS + 3 * ROUNDS);
    let shared = barriers(report, 3);
    assert_eq!(shared.len(), 1, "{report}");
    assert_eq!(number(shared[0], "episodes"), ROUNDS, "{report}");
    let own = barriers(report, 2);
    assert_eq!(own.len(), 3, "{report}");
    for barrier in own {
        assert_eq!(number(barrier, "episodes"), ROUNDS, "{report}");
    }
    let site = report.site_at(line("processes.c", "SITE shared"));
    assert_eq!(number(site, "episodes"), ROUNDS, "{report}");
    let site = report.site_at(line("processes.c", "SITE own"));
    assert_eq!(number(site, "episodes"), 3 * ROUNDS, "{report}");

    let processes = report.list("processes");
    let ids: Vec<u64> = processes
        .iter()
        .map(|process| number(process, "id"))
        .collect();
    assert_eq!(ids, [0, 1, 2], "{report}");
    assert_eq!(processes[0]["pid"], report.0["pid"], "{report}");
    let labels: Vec<&str> = report
        .threads()
        .iter()
        .filter_map(|thread| thread["label"].as_str())
        .collect();
    assert_eq!(
        labels,
        ["0.0", "0.1", "1.0", "1.1", "2.0", "2.1"],
        "{report}"
    );
    for (thread, process) in report.threads().iter().zip([0, 0, 1, 1, 2, 2]) {
        assert_eq!(thread["pid"], processes[process]["pid"], "{report}");
    }
}

fn watch_three(arguments: &[&str]) -> Report {
    let mut all = vec!["rounds=50", "processes=3"];
    all.extend(arguments);
    watch(&program("processes.c"), &all)
}

#[test]
fn forked_processes_meet_at_what_they_share() {
    needs_root!();
    is_of_three(&watch_three(&[]));
}

#[test]
fn what_is_mapped_elsewhere_is_the_same_barrier() {
    needs_root!();
    is_of_three(&watch_three(&["apart=1"]));
    let folder = folder();
    let path = format!("path={}", folder.path().join("shared").display());
    is_of_three(&watch_three(&["apart=1", &path]));
}

#[test]
fn executed_children_are_followed() {
    needs_root!();
    is_of_three(&watch_three(&["exec=1"]));
}

#[test]
fn children_of_children_are_followed() {
    needs_root!();
    is_of_three(&watch_three(&["depth=2"]));
    is_of_three(&watch_three(&["depth=2", "exec=1"]));
}

#[test]
fn children_are_seen_from_their_first_instruction() {
    needs_root!();
    // No time between the fork and the first barrier, many times over.
    for _ in 0..5 {
        is_of_three(&watch_three(&["us=0"]));
    }
}

/// A signal stops the thread that takes it first, and through it the others.
fn is_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat"));
        stat.is_ok_and(|stat| stat.contains(") T "))
    })
}

/// All processes come and go while sbt does not run: what lay where in their memory is gone then.
#[test]
fn processes_whose_memory_is_looked_at_too_late_still_meet() {
    needs_root!();
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["run", "--budget=off", "--json", "--output"]);
    let options = ["rounds=50", "processes=3", "us=0", "gate=1"];
    command
        .arg(&json)
        .arg("--")
        .arg(program("processes.c"))
        .args(options);
    let (input, mut gate) = std::io::pipe().unwrap();
    let mut sbt = start_reading(command, input);
    sbt.wait_for("ready");
    let target = target_of(&sbt);
    sbt.signal(libc::SIGSTOP);
    eventually(LIMIT, || is_stopped(sbt.pid()).then_some(())).unwrap();
    gate.write_all(b"\n").unwrap();
    eventually(LIMIT, || has_ended(target).then_some(())).unwrap();
    sbt.signal(libc::SIGCONT);
    sbt.finish().expect(0);
    let report = Report::read(&json);
    is_of_three(&report);
    let notes = report.0["notes"].to_string();
    assert!(notes.contains("as one barrier"), "{report}");
}

#[test]
fn one_process_alone_is_watched_if_that_is_wanted() {
    needs_root!();
    let (finished, report) = watch_with(
        &["--no-children"],
        &program("processes.c"),
        &["rounds=50", "processes=3"],
    );
    finished.expect(0);
    // The shared one is seen from one side: how long it took is not known.
    assert_eq!(report.number("arrivals"), 50 + 2 * 50, "{report}");
    assert_eq!(report.0["children"], json!(false), "{report}");
    assert_eq!(report.list("processes").len(), 1, "{report}");
    assert_eq!(report.threads()[0]["label"], "T0", "{report}");
}

#[test]
fn a_wrapper_shows_what_is_in_it() {
    needs_root!();
    let inner = program("forks.c");
    let inner = inner.to_str().unwrap();
    let shell: &Path = "/bin/sh".as_ref();
    let report = watch(shell, &["-c", &format!("{inner} rounds=50; true")]);
    // Two threads before the fork, then three in the child and four in the parent.
    report.is_exactly((2 + 3 + 4) * ROUNDS, 3 * ROUNDS);
    assert_eq!(report.list("processes").len(), 2, "{report}");
}

#[test]
fn openmp_behind_a_wrapper_is_exact() {
    needs_root!();
    let inner = Build::of("openmp.c").flags(&["-fopenmp"]).path();
    let inner = inner.to_str().unwrap();
    let folder = folder();
    let script = folder.path().join("job");
    let text = format!("#!/bin/sh\necho | cat\n{inner} rounds=50 nested=0\n");
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap();
    let program = [inner, "rounds=50", "nested=0"];
    // The program runs in a process of its own, in the wrapper's, or is named by a script alone.
    for (wrapper, own, program) in [
        ("/usr/bin/timeout", &["60"][..], &program[..]),
        ("/usr/bin/env", &["A=b"], &program),
        ("/usr/bin/taskset", &["-c", "0-63"], &program),
        (
            "/usr/bin/nice",
            &[],
            &["env", inner, "rounds=50", "nested=0"],
        ),
        (script, &[], &[]),
        ("/bin/sh", &[script], &[]),
    ] {
        let report = watch(wrapper.as_ref(), &[own, program].concat());
        report.is_exactly(4 * (50 * 5 + 50 + 1), 50 * 5 + 50 + 1);
    }
}

#[test]
fn the_end_of_the_program_is_the_end_of_the_report() {
    needs_root!();
    let inner = program("processes.c");
    let inner = inner.to_str().unwrap();
    let folder = folder();
    let ready = folder.path().join("ready");
    let ready = ready.to_str().unwrap();
    // The shell ends while the program that it has started goes on.
    let text = format!("{inner} rounds=2000 us=1000 & sleep 0.5; echo > {ready}");
    let (finished, report) = watch_with(&[], "/bin/sh".as_ref(), &["-c", &text]);
    finished.expect(0);
    assert!(report.number("episodes") > 10, "{report}");
    assert!(report.number("episodes") < 2000, "{report}");
    assert!(
        report.is_noted("continued after the program had ended"),
        "{report}"
    );
}

#[test]
fn a_running_program_is_joined_with_its_children() {
    needs_root!();
    let mut target = start(command(
        program("processes.c"),
        &["rounds=30000", "us=2000", "processes=3"],
    ));
    crate::harness::pause(300);
    let alone = attach(target.pid(), &["--duration=500ms"]).report();
    assert_eq!(alone.list("processes").len(), 1, "{alone}");
    let all = attach(target.pid(), &["--children", "--duration=500ms"]).report();
    assert_eq!(all.list("processes").len(), 3, "{all}");
    assert!(number(barriers(&all, 3)[0], "episodes") > 20, "{all}");
    assert!(target.is_running());
}

#[test]
fn the_text_says_how_many_processes_there_are() {
    needs_root!();
    let mut command = sbt_with(&["run", "--"]);
    command
        .arg(program("processes.c"))
        .args(["rounds=50", "processes=3"]);
    let finished = run(command).expect(0);
    assert!(
        finished.stderr.contains("3 processes, 6 threads"),
        "{finished}"
    );
    assert!(finished.stderr.contains("2.1 "), "{finished}");
}

const RANKS: u64 = 4;

fn watch_ranks(options: &[&str], ranks: &Build) -> Report {
    let ranks = ranks.compiler("mpicc.openmpi").path();
    let ranks = ranks.to_str().unwrap();
    let mpirun: &Path = "/usr/bin/mpirun.openmpi".as_ref();
    let start = [
        "--allow-run-as-root",
        "--oversubscribe",
        "-n",
        "4",
        ranks,
        "rounds=50",
    ];
    let (finished, report) = watch_with(options, mpirun, &start);
    finished.expect(0);
    report
}

#[test]
fn ranks_are_grouped_by_communicator() {
    needs_root!();
    let report = watch_ranks(&[], &Build::of("mpi.c"));
    // All at the barrier and two collectives, and each half at its own barrier.
    report.is_exactly(4 * RANKS * ROUNDS, 5 * ROUNDS);
    for (mark, episodes) in [
        ("SITE world", ROUNDS),
        ("SITE half", 2 * ROUNDS),
        ("SITE reduce", ROUNDS),
        ("SITE gather", ROUNDS),
    ] {
        let site = report.site_at(line("mpi.c", mark));
        assert_eq!(site["kind"], "mpi", "{report}");
        assert_eq!(number(site, "episodes"), episodes, "{mark}: {report}");
        assert!(number(&site["release_ns"], "count") > 0, "{mark}: {report}");
    }
    // Each operation on the world, and on its copy, is a barrier of its own.
    let world = barriers(&report, 4);
    let episodes: Vec<u64> = world.iter().map(|one| number(one, "episodes")).collect();
    assert_eq!(episodes, [ROUNDS; 3], "{report}");
    assert_eq!(barriers(&report, 2).len(), 2, "{report}");
    let labels: Vec<&str> = report
        .threads()
        .iter()
        .filter_map(|thread| thread["label"].as_str())
        .collect();
    assert_eq!(labels, ["0.0", "1.0", "2.0", "3.0"], "{report}");
    let ranks: Vec<u64> = report
        .list("processes")
        .iter()
        .map(|process| number(process, "rank"))
        .collect();
    assert_eq!(ranks, [0, 1, 2, 3], "{report}");
    // Rank 1 comes later than any rank waits for a CPU on a machine that is busy.
    let site = report.site_at(line("mpi.c", "SITE world"));
    assert_eq!(site["straggler"]["thread"], 1, "{report}");
}

#[test]
fn communicators_that_are_freed_at_once_are_known() {
    needs_root!();
    let report = watch_ranks(&[], &Build::of("mpi_short.c"));
    // Each round has two halves.
    report.is_exactly(RANKS * (ROUNDS + 1), 2 * ROUNDS + 1);
    let site = report.site_at(line("mpi_short.c", "SITE some"));
    assert_eq!(number(site, "episodes"), 2 * ROUNDS, "{report}");
}

#[test]
fn the_barrier_of_a_fortran_program_is_where_the_program_calls_it() {
    needs_root!();
    let report = watch_ranks(&[], &Build::of("mpi_fortran.c").flags(&["-lmpi_mpifh"]));
    report.is_exactly(2 * RANKS * ROUNDS, 2 * ROUNDS);
    for mark in ["SITE first", "SITE second"] {
        let site = report.site_at(line("mpi_fortran.c", mark));
        assert_eq!(site["kind"], "mpi", "{report}");
        assert_eq!(number(site, "episodes"), ROUNDS, "{mark}: {report}");
    }
}

#[test]
fn two_jobs_at_the_same_time_are_apart() {
    needs_root!();
    let ranks = Build::of("mpi.c").compiler("mpicc.openmpi").path();
    let job = format!(
        "mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 {} rounds=50",
        ranks.display()
    );
    let (finished, report) = watch_with(
        &[],
        "/bin/sh".as_ref(),
        &["-c", &format!("{job} & {job}; wait")],
    );
    finished.expect(0);
    // Each job has a barrier and collectives of both ranks, and the same of each rank's half.
    report.is_exactly(2 * 4 * 2 * ROUNDS, 2 * 5 * ROUNDS);
    assert_eq!(barriers(&report, 2).len(), 2 * 3, "{report}");
    assert_eq!(barriers(&report, 1).len(), 4, "{report}");
}
