//! Without any privilege, in the lives of programs: other programs that they execute, signals that
//! they get, and stops.

use std::collections::BTreeMap;

use crate::{
    harness::{Report, needs_root, number, pause, run, sbt_with, start, watch_with},
    programs::{Build, line, program},
    ptrace::agree,
    tty::children,
};

const PTRACE: &str = "--backend=ptrace";

#[test]
fn functions_of_its_own_and_marks_conform() {
    needs_root!(alone);
    let named = [
        "--departures=on",
        "--barrier=bar_wait:1:2",
        "--barrier=sync_all:0",
    ];
    agree(
        ["ebpf", "ptrace"],
        &named,
        &program("calls.c"),
        &["rounds=50"],
    );
    let marks = |backend: &str| {
        let backend = format!("--backend={backend}");
        let options = [backend.as_str(), "--mark=meet"];
        let (_, report) = watch_with(&options, &program("truth.c"), &["threads=3", "rounds=50"]);
        let marks = report.list("marks").iter();
        let hits = marks.map(|it| (it["name"].to_string(), number(it, "hits")));
        hits.collect::<BTreeMap<_, _>>()
    };
    let by_probes = marks("ebpf");
    assert_eq!(by_probes.values().copied().collect::<Vec<_>>(), [150]);
    assert_eq!(marks("ptrace"), by_probes);
}

#[test]
fn other_builds_conform() {
    needs_root!(alone);
    for build in [
        Build::of("truth.c").compiler("musl-gcc"),
        Build::of("truth.c")
            .compiler("musl-gcc")
            .flags(&["-static"]),
        Build::of("truth.c").stripped(),
    ] {
        let arguments = ["threads=3", "rounds=60"];
        let report = |backend: &str| {
            let (finished, report) = watch_with(&[backend], &build.path(), &arguments);
            finished.expect(0);
            report.is_exactly(180, 60);
            report
        };
        let site = |report: &Report| report.sites()[0]["offset"].to_string();
        assert_eq!(site(&report("--backend=ebpf")), site(&report(PTRACE)));
    }
}

#[test]
fn what_is_executed_in_its_place_is_watched() {
    needs_root!(alone);
    let truth = program("truth.c");
    let arguments = [
        truth.to_str().unwrap(),
        "threads=3",
        "rounds=100",
        "base=500",
        "status=6",
    ];
    let (finished, report) = watch_with(&[PTRACE], &program("exec.c"), &arguments);
    finished.expect(6);
    report.is_exactly(20 + 300, 10 + 100);
    let before = report.site_at(line("exec.c", "SITE before"));
    assert_eq!(number(before, "episodes"), 10);
    let after = report.site_at(line("truth.c", "SITE meet"));
    assert_eq!(number(after, "episodes"), 100);
    // A thread other than the first executes the program, and takes the number of the first.
    let (finished, report) = watch_with(&[PTRACE], &program("exec_other.c"), &arguments);
    finished.expect(6);
    let site = report.site_at(line("truth.c", "SITE meet"));
    assert_eq!(number(site, "episodes"), 100, "{report}");
    // By its children.
    let arguments = ["exec=1", "rounds=20"];
    agree(
        ["ebpf", "ptrace"],
        &["--departures=on"],
        &program("processes.c"),
        &arguments,
    );
}

/// Programs are watched in each way to start them: also if the parent lends its memory (`vfork`,
/// `posix_spawn`), and other threads of the parent go on meanwhile.
#[test]
fn in_whichever_way_programs_are_started_they_are_watched() {
    needs_root!(alone);
    let truth = program("truth.c");
    let arguments = [truth.to_str().unwrap(), "threads=3", "rounds=20"];
    for backend in ["--backend=ebpf", PTRACE] {
        let (finished, report) = watch_with(&[backend], &program("spawns.c"), &arguments);
        let out = finished.expect(0).out();
        let said = out.lines().last().unwrap();
        let rounds = said.strip_prefix("wrong 0, rounds ").unwrap();
        let rounds: u64 = rounds.parse().unwrap();
        report.is_exactly(4 * 60 + rounds, 4 * 20 + rounds);
        let site = report.site_at(line("truth.c", "SITE meet"));
        assert_eq!(number(site, "episodes"), 4 * 20, "{backend}: {report}");
    }
}

#[test]
fn signals_arrive_as_they_were_sent() {
    needs_root!(alone);
    for backend in ["--backend=ebpf", "--backend=perf", PTRACE] {
        let (finished, report) = watch_with(&[backend], &program("signals.c"), &[]);
        let out = finished.expect(0).out();
        assert_eq!(
            out, "queued 300, sum right, alarms came, wrong 0\n",
            "{backend}"
        );
        report.is_exactly(300, 100);
    }
}

#[test]
fn one_that_is_stopped_and_continued_is_watched_on() {
    needs_root!(breakpoints);
    let folder = crate::harness::folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["run", PTRACE, "--budget=off", "--json", "--output"]);
    command.arg(&json).arg("--").arg(program("truth.c"));
    command.args(["threads=3", "rounds=300", "base=2000"]);
    let mut sbt = start(command);
    sbt.wait_for("ready");
    // The process that traces is one too.
    let is_truth = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "truth\n")
    };
    let pid = children(sbt.pid()).into_iter().find(is_truth).unwrap();
    let pid = pid.cast_signed();
    for _ in 0..3 {
        pause(60);
        crate::harness::kill(pid, libc::SIGSTOP);
        pause(60);
        crate::harness::kill(pid, libc::SIGCONT);
    }
    sbt.finish().expect(0);
    Report::read(&json).is_exactly(900, 300);
}

#[test]
fn a_runtime_that_comes_with_a_library_is_watched() {
    needs_root!(alone);
    for (compiler, backends) in [
        ("gcc", &["--backend=ebpf", PTRACE][..]),
        ("clang", &["--backend=ebpf"]),
    ] {
        let plugin = Build::of("openmp_plugin.c")
            .compiler(compiler)
            .flags(&["-shared", "-fPIC", "-fopenmp"])
            .path();
        for backend in backends {
            let plugin = format!("plugin={}", plugin.display());
            let arguments = [plugin.as_str(), "hold=100000", "threads=3", "rounds=200"];
            let (finished, report) = watch_with(&[backend], &program("dlopen.c"), &arguments);
            finished.expect(0);
            let site = report.site_at(line("openmp_plugin.c", "SITE omp plugin"));
            assert_eq!(number(site, "episodes"), 200, "{report}");
        }
    }
}

#[test]
fn a_report_is_asked_for_of_what_was_recorded_on_a_disk_that_was_full() {
    needs_root!();
    let script = "mount -t tmpfs -o size=256k none /mnt && \"$0\" run --budget=off -o /mnt/a.sbt -- \"$1\" \
                  threads=4 rounds=6000 base=200 status=7; status=$?; \"$0\" report /mnt/a.sbt; \
                  echo report $?; exit $status";
    let mut command = crate::harness::command("unshare", &["--mount", "--", "sh", "-c", script]);
    command.arg(crate::harness::sbt()).arg(program("truth.c"));
    let finished = run(command).expect(7);
    let said = finished
        .stderr
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(said.contains("No space left on device"), "{finished}");
    assert!(said.contains("6000 episodes"), "{finished}");
    assert!(finished.out().contains("meet truth.c:"), "{finished}");
    assert!(finished.out().ends_with("report 0\n"), "{finished}");
}
