//! Without any privilege: threads stop at breakpoints, and the reports say the same.

use std::{collections::BTreeMap, os::unix::process::ExitStatusExt as _, path::Path};

use crate::{
    attach::Patient,
    harness::{
        Finished, LIMIT, Report, attach, command, eventually, folder, needs_root, number, pause,
        run, sbt_with, start, watch_with,
    },
    programs::{Build, program},
};

/// Where barriers are, of which kind, and how often they were completed.
type Sites = BTreeMap<(String, u64, String), (u64, u64)>;

fn sites(report: &Report) -> Sites {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("?").to_owned();
    let mut sites = Sites::new();
    for site in report.sites() {
        let at = (
            text(&site["function"]),
            site["line"].as_u64().unwrap_or(0),
            text(&site["kind"]),
        );
        let counts = sites.entry(at).or_default();
        counts.0 += number(site, "episodes");
        // Who leaves a nested team of OpenMP last may not be seen to, by any source.
        if site["kind"] == "pthread" {
            counts.1 += site["release_ns"]["count"].as_u64().unwrap_or(0);
        }
    }
    sites
}

/// Watches a program by each source and from its recording: the reports are equal, and so is the
/// program's output.
fn conforms(program: &Path, arguments: &[&str]) {
    agree(["ebpf", "ptrace"], &["--departures=on"], program, arguments);
}

/// Watches a program by two sources: the reports are equal.
pub fn agree(backends: [&str; 2], more: &[&str], program: &Path, arguments: &[&str]) {
    let folder = folder();
    let mut all: Vec<(&str, Sites, String)> = Vec::new();
    for backend in backends {
        let recording = folder.path().join(backend);
        let option = format!("--backend={backend}");
        let record = format!("--record={}", recording.display());
        let options = [&[option.as_str(), &record], more].concat();
        let (finished, report) = watch_with(&options, program, arguments);
        assert_eq!(report.0["backend"], backend);
        assert_eq!(report.number("lost_events"), 0, "{report}");
        let again = folder.path().join("again.json");
        let mut command = sbt_with(&["report", "--json", "--output"]);
        command.arg(&again).arg(&recording);
        run(command).expect(0);
        let recorded = sites(&Report::read(&again));
        let seen = sites(&report);
        assert_eq!(recorded, seen, "{backend}: another from the recording");
        all.push((backend, seen, finished.out()));
    }
    let [(_, first, said), (_, other, also)] = &all[..] else {
        panic!("two of them");
    };
    assert_eq!((first, said), (other, also), "{}", program.display());
}

/// Programs with barriers of the C library for which the reports of all sources are equal. Programs
/// whose output depends on the time of departures are left out.
pub const PLAIN: [&str; 5] = [
    "processes.c",
    "forks.c",
    "family.c",
    "condbarrier.c",
    "comeandgo.c",
];

#[test]
fn barriers_of_c_libraries_conform() {
    needs_root!(alone);
    let more = [
        Build::of("condbarrier.c").flags(&["-static"]),
        Build::of("comeandgo.c").flags(&["-static"]),
        Build::of("processes.c").flags(&["-static"]),
        Build::of("crowd.c"),
    ];
    for build in PLAIN.map(Build::of).into_iter().chain(more) {
        conforms(&build.path(), &[]);
    }
}

#[test]
fn barriers_of_languages_and_openmp_conform() {
    needs_root!(alone);
    for build in [
        Build::of("openmp.c").flags(&["-fopenmp"]),
        Build::of("openmp.c").compiler("clang").flags(&["-fopenmp"]),
        Build::of("stdbarrier.cpp")
            .compiler("g++")
            .flags(&["-std=c++20"]),
        Build::of("throws.cpp").compiler("g++").flags(&["-O2"]),
        Build::of("rustbarrier.rs").compiler("rustc"),
    ] {
        conforms(&build.path(), &[]);
    }
}

fn traced(options: &[&str], arguments: &[&str]) -> (Finished, Report) {
    let mut all = vec!["--backend=ptrace"];
    all.extend(options);
    watch_with(&all, &program("truth.c"), arguments)
}

#[test]
fn the_exit_status_is_the_programs() {
    needs_root!(breakpoints);
    for (argument, status) in [("status=7", 7), ("raise=15", 143), ("raise=34", 162)] {
        let folder = folder();
        let json = folder.path().join("report.json");
        let mut command = sbt_with(&["run", "--backend=ptrace", "--json", "--output"]);
        command.arg(&json).arg("--").arg(program("truth.c"));
        command.args(["threads=3", "rounds=20", argument]);
        run(command).expect(status);
        Report::read(&json).is_exactly(60, 20);
    }
}

#[test]
fn who_ends_last_and_how_long_it_took_is_right() {
    needs_root!(breakpoints);
    let (_, report) = traced(&[], &["threads=3", "rounds=60", "base=2000", "skew=1000"]);
    report.is_exactly(180, 60);
    let site = &report.sites()[0];
    assert_eq!(site["straggler"]["thread"], 2, "{report}");
}

#[test]
fn a_process_is_attached_to_and_let_go_untouched() {
    needs_root!(breakpoints);
    let patient = Patient::start(&["threads=4", "rounds=1200", "base=1000", "skew=300"]);
    for on in [true, false, true] {
        pause(100);
        let departures = if on {
            "--departures=on"
        } else {
            "--departures=off"
        };
        let options = ["--backend=ptrace", "--duration=0.5", departures];
        let report = attach(patient.target.pid(), &options).report();
        assert_eq!(report.0["backend"], "ptrace");
        assert!(report.number("episodes") > 10, "{report}");
        assert!(report.number("incomplete_episodes") <= 2, "{report}");
        // Each time sbt needs room for instructions, where no room of an earlier time is left.
        let released = report.sites()[0]["release_ns"]["count"]
            .as_u64()
            .unwrap_or(0);
        assert_eq!(released > 30, on, "{report}");
    }
    patient.ended_untouched(4800);
}

#[test]
fn a_killed_sbt_takes_its_breakpoints_with_it() {
    needs_root!(breakpoints);
    let patient = Patient::start(&["threads=4", "rounds=30000", "base=20"]);
    for attempt in 0..12 {
        let attached = attach(
            patient.target.pid(),
            &["--backend=ptrace", "--departures=on"],
        );
        pause(attempt * 17 % 90);
        attached.sbt.signal(libc::SIGKILL);
        drop(attached);
        // The tracing process notices; two processes cannot trace at once.
        let status = format!("/proc/{}/status", patient.target.pid());
        let free = || {
            let status = std::fs::read_to_string(&status).unwrap();
            status.contains("TracerPid:\t0\n").then_some(())
        };
        eventually(LIMIT, free).expect("still traced");
    }
    patient.ended_untouched(120_000);
}

#[test]
fn a_killed_sbt_leaves_the_program_that_it_started() {
    needs_root!(breakpoints);
    let folder = folder();
    let now = folder.path().join("now");
    let mut command = sbt_with(&["run", "--backend=ptrace", "--departures=on", "--"]);
    command.arg(program("truth.c")).args([
        "threads=4",
        "rounds=400",
        "base=1000",
        &format!("until={}", now.display()),
    ]);
    let mut sbt = start(command);
    sbt.wait_for("ready");
    pause(120);
    sbt.signal(libc::SIGKILL);
    eventually(LIMIT, || (!sbt.is_running()).then_some(())).unwrap();
    pause(50);
    std::fs::write(now, "").unwrap();
    let clean = crate::attach::clean_code();
    let end = eventually(LIMIT, || sbt.out().contains("done").then(|| sbt.out()));
    assert_eq!(end, Some(format!("ready\n{clean}\ndone 1600\n")));
}

#[test]
fn a_stopped_process_stays_stopped_and_goes_on() {
    needs_root!(breakpoints);
    let patient = Patient::start(&["threads=3", "rounds=1500", "base=1000"]);
    let pid = patient.target.pid();
    let attached = attach(pid, &["--backend=ptrace"]);
    pause(500);
    patient.target.signal(libc::SIGSTOP);
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        rest.chars().next().unwrap()
    };
    // First as a traced process, and then as an untraced one.
    eventually(LIMIT, || "tT".contains(state()).then_some(())).expect("it stops");
    attached.sbt.signal(libc::SIGINT);
    let report = attached.report();
    assert!(report.number("arrivals") > 0, "{report}");
    eventually(LIMIT, || (state() == 'T').then_some(())).expect("it is stopped still");
    patient.target.signal(libc::SIGCONT);
    patient.ended_untouched(4500);
}

#[test]
fn two_cannot_trace_at_once() {
    needs_root!(breakpoints);
    let patient = Patient::start(&["threads=2", "rounds=400", "base=1000"]);
    let first = attach(patient.target.pid(), &["--backend=ptrace"]);
    pause(300);
    let pid = patient.target.pid().to_string();
    let finished = run(sbt_with(&["attach", "--backend=ptrace", &pid])).expect(125);
    assert!(
        finished.one_line().contains("already traces it"),
        "{finished}"
    );
    first.sbt.signal(libc::SIGINT);
    first.report();
    patient.ended_untouched(800);
}

#[test]
fn children_that_nobody_asks_for_are_left_alone() {
    needs_root!(breakpoints);
    let script = "echo one | cat; (exit 3); echo $?; kill -USR1 $$";
    let mut command = sbt_with(&["run", "-q", "--backend=ptrace", "--no-children", "--", "sh"]);
    command.args(["-c", script]);
    let finished = run(command).expect(128 + 10);
    assert_eq!(finished.out(), "one\n3\n");
}

#[test]
fn who_waits_in_the_kernel_does_not_notice_that_it_is_let_go() {
    needs_root!(breakpoints);
    let mut target = start(command(program("undisturbed.c"), &["ms=2500"]));
    target.wait_for("ready");
    for _ in 0..6 {
        attach(target.pid(), &["--backend=ptrace", "--duration=0.1"]).report();
    }
    target.wait_for("over");
    let out = target.out();
    let numbers =
        |line: &str| -> Vec<u64> { line.split(' ').map(|it| it.parse().unwrap()).collect() };
    let calls: Vec<_> = out.lines().skip(1).take(6).map(numbers).collect();
    assert_eq!(calls.len(), 6, "{out}");
    for call in calls {
        assert!(call[1] == 0 && call[2] > 20, "{out}");
    }
}

#[test]
fn who_probes_the_same_places_is_noticed() {
    needs_root!(alone);
    let openmp = Build::of("openmp.c").flags(&["-fopenmp"]).path();
    // With children, the probes are on all processes that map the library.
    let mut other = sbt_with(&["run", "-q", "--", "sh", "-c"]);
    other.arg(format!(
        "{0} rounds=1; echo begun; {0} rounds=20000",
        openmp.display()
    ));
    let mut other = start(other);
    other.wait_for("begun");
    let (finished, report) = watch_with(&["--backend=ptrace"], &openmp, &[]);
    other.signal_all(libc::SIGTERM);
    finished.expect(0);
    assert!(
        report
            .notes()
            .any(|note| note.starts_with("another sbt, bpftrace or a debugger has probes")),
        "{report}"
    );
    other.finish();
}

#[test]
fn what_a_program_does_to_itself_is_its_own() {
    needs_root!(breakpoints);
    let program = program("ownsteps.c");
    let alone = run(command(&program, &[] as &[&str])).expect(0).out();
    assert!(
        alone.contains(" epoll 0") && !alone.contains("steps 0 "),
        "{alone}"
    );
    let (finished, report) = watch_with(&["--backend=ptrace"], &program, &[]);
    assert_eq!(finished.expect(0).out(), alone);
    assert_eq!(report.number("episodes"), 2, "{report}");
}

#[test]
fn threads_begin_and_end_while_one_attaches() {
    needs_root!(breakpoints);
    let target = start(command(
        program("comeandgo.c"),
        &["waves=1000000", "threads=4", "rounds=2"],
    ));
    for _ in 0..8 {
        attach(target.pid(), &["--backend=ptrace", "--duration=0.1"]).report();
    }
    target.signal(libc::SIGTERM);
    assert_eq!(target.finish().status.signal(), Some(libc::SIGTERM));
}

#[test]
fn children_are_clean_whenever_they_begin() {
    needs_root!(alone);
    // Each child comes to a barrier of its own; the program says if one of them has not ended well.
    let target = start(command(program("forkstorm.c"), &["children=1500"]));
    for _ in 0..6 {
        let pid = target.pid().to_string();
        // The process may have ended.
        let sbt = [
            "attach",
            "--backend=ptrace",
            "-q",
            "--no-tui",
            "--duration=0.05",
            &pid,
        ];
        run(sbt_with(&sbt));
    }
    assert_eq!(target.finish().expect(5).out(), "failed 0\n");
}

/// The kernel decides at the beginning of a fork whether the child is traced, and copies the memory
/// later. Breakpoints that are set in between would be the end of the child.
#[test]
fn a_child_is_clean_whose_fork_began_before_sbt_came() {
    needs_root!(breakpoints);
    let mut target = start(command(program("slowfork.c"), &["children=30"]));
    target.wait_for("ready");
    let pid = target.pid().to_string();
    while target.is_running() {
        let sbt = ["attach", "--backend=ptrace", "-q", "--duration=0.01", &pid];
        // The target may have ended.
        run(sbt_with(&sbt));
    }
    assert_eq!(target.finish().expect(0).out(), "ready\nfailed 0\n");
}

#[test]
fn children_that_run_already_are_joined() {
    needs_root!(breakpoints);
    let target = start(command(
        program("processes.c"),
        &["rounds=4000", "us=2000", "processes=3"],
    ));
    pause(300);
    let options = ["--backend=ptrace", "--children", "--duration=500ms"];
    let report = attach(target.pid(), &options).report();
    assert_eq!(report.list("processes").len(), 3, "{report}");
    assert!(report.number("episodes") > 20, "{report}");
}

/// A child that is forked while one attaches is not traced twice, which would be its end.
#[test]
fn children_that_are_forked_while_one_attaches() {
    needs_root!(alone);
    let mut target = start(command(
        program("forkstorm.c"),
        &["children=6000", "at_once=20"],
    ));
    let mut watched = 0;
    for _ in 0..6 {
        pause(50);
        let pid = target.pid().to_string();
        let options = ["--backend=ptrace", "--children", "--duration=150ms"];
        let finished = run(sbt_with(&[&["attach"], &options[..], &[&pid]].concat()));
        if !target.is_running() {
            break;
        }
        finished.expect(0);
        watched += 1;
    }
    assert!(watched > 1);
    assert_eq!(target.finish().expect(5).out(), "failed 0\n");
}

#[test]
fn who_is_forked_by_one_that_is_killed_goes_on() {
    needs_root!();
    let options = ["--backend=ptrace", "--children"];
    // Other tests may have probes on the shared C library.
    let killed = Build::of("killed.c").flags(&["-static"]).path();
    let (finished, _) = watch_with(&options, &killed, &[]);
    finished.expect(5);
}

#[test]
fn after_the_first_thread_has_left() {
    needs_root!(breakpoints);
    let mut target = start(command(program("leader.c"), &["rounds=2500"]));
    target.wait_for("ready");
    pause(200);
    let report = attach(target.pid(), &["--backend=ptrace"]).report();
    let site = report.site_at(crate::programs::line("leader.c", "SITE orphan"));
    assert!(number(site, "episodes") > 100, "{report}");
    target.finish().expect(4);
}

/// A thread may filter its system calls where its process does not: no call is made for sbt in such
/// a thread.
#[test]
fn who_filters_its_own_calls_lives_and_others_map_what_is_needed() {
    needs_root!(breakpoints);
    let (finished, report) = watch_with(
        &["--backend=ptrace", "--departures=on"],
        &program("filtered.c"),
        &[],
    );
    assert_eq!(finished.expect(3).out(), "over\n");
    report.is_exactly(200, 100);
    assert!(report.is_noted("had to be removed"), "{report}");
    let site = report.site_at(crate::programs::line("filtered.c", "SITE free"));
    let released = site["release_ns"]["count"].as_u64().unwrap_or(0);
    assert!(released > 40, "{report}");
}

#[test]
fn who_ends_by_a_trap_of_its_own_is_not_taken_for_one_of_ours() {
    needs_root!(breakpoints);
    let trapped = program("trapped.c");
    for option in ["--children", "--no-children"] {
        let (finished, report) = watch_with(&["--backend=ptrace", option], &trapped, &[]);
        assert_eq!(finished.expect(3).out(), "ready\nended 5\nended 5\n");
        assert!(!report.is_noted("SIGTRAP"), "{report}");
        report.is_exactly(120, 60);
    }
    let mut target = start(command(&trapped, &["hold=1500"]));
    target.wait_for("ready");
    let report = attach(target.pid(), &["--backend=ptrace"]).report();
    assert!(!report.is_noted("SIGTRAP"), "{report}");
    report.is_exactly(80, 40);
    target.finish().expect(3);
}
