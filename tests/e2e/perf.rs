//! Breakpoints of the processor: nobody stops, and no privilege is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{
    attach::Patient,
    harness::{
        Report, attach, command, eventually, needs_root, number, pause, run, sbt, start, watch_with,
    },
    privilege::{Open, as_nobody},
    programs::{Build, line, program},
    ptrace::{PLAIN, agree},
};

/// Watches the same program by probes of the kernel and by breakpoints of the processor: the
/// reports are equal but for departures.
fn conforms(program: &Path) {
    agree(["ebpf", "perf"], &["--departures=off"], program, &[]);
}

#[test]
fn what_fits_into_four_addresses_conforms() {
    needs_root!(alone);
    let throws = Build::of("throws.cpp").compiler("g++").flags(&["-O2"]);
    for build in PLAIN.map(Build::of).into_iter().chain([throws]) {
        conforms(&build.path());
    }
}

#[test]
fn nobody_watches_from_the_first_barrier_on() {
    needs_root!();
    let open = Open::new();
    let (sbt, truth) = (open.copy(sbt()), open.copy(&program("truth.c")));
    let json = open.path("report.json");
    let mut command = as_nobody(&sbt);
    command.args([
        "run",
        "--backend=perf",
        "--budget=off",
        "--json",
        "--output",
    ]);
    command.arg(&json).arg("--").arg(&truth);
    command.args([
        "threads=3",
        "rounds=60",
        "base=2000",
        "skew=1000",
        "status=7",
    ]);
    let finished = run(command).expect(7);
    assert_eq!(finished.stderr, "", "{finished}");
    let report = Report::read(&json);
    report.is_exactly(180, 60);
    assert_eq!(report.0["backend"], "perf", "{report}");
    assert_eq!(report.0["departures"], false, "{report}");
    let site = &report.sites()[0];
    assert_eq!(site["function"], "meet", "{report}");
    assert_eq!(site["straggler"]["thread"], 2, "{report}");
    // What it costs is known, and how long threads ran; for how long they were ready is not.
    assert!(report.0["own_cost"]["share_pct"].is_number(), "{report}");
    let thread = &report.0["threads"][0];
    assert!(thread["running_ns"].is_number(), "{report}");
    assert!(thread["ready_ns"].is_null(), "{report}");
}

#[test]
fn nobody_attaches_and_leaves_without_a_trace() {
    needs_root!();
    let open = Open::new();
    let (sbt, truth) = (open.copy(sbt()), open.copy(&program("truth.c")));
    let mut target = as_nobody(&truth);
    // Threads get their breakpoints one after the other: no round may pass meanwhile.
    target.args([
        "threads=3",
        "rounds=60",
        "sleep0=60000",
        "sleep1=60000",
        "sleep2=60000",
    ]);
    let mut target = start(target);
    target.wait_for("ready");
    let json = open.path("report.json");
    for _ in 0..2 {
        let mut command = as_nobody(&sbt);
        command.args([
            "attach",
            "--backend=perf",
            "--duration=0.8",
            "--json",
            "--output",
        ]);
        command.arg(&json).arg(target.pid().to_string());
        run(command).expect(0);
        let report = Report::read(&json);
        assert!(report.number("episodes") > 5, "{report}");
        assert!(report.number("incomplete_episodes") <= 2, "{report}");
        assert_eq!(report.number("lost_events"), 0, "{report}");
    }
    let finished = target.finish().expect(0);
    assert!(finished.out().ends_with("done 180\n"), "{finished}");
}

#[test]
fn a_killed_sbt_leaves_nothing() {
    needs_root!();
    let patient = Patient::start(&["threads=3", "rounds=3000", "base=1000"]);
    let attached = attach(patient.target.pid(), &["--backend=perf"]);
    attached.sbt.signal(libc::SIGKILL);
    drop(attached);
    // All the processor's breakpoints are to be had again.
    let attached = attach(patient.target.pid(), &["--backend=perf", "--duration=0.2"]);
    let report = attached.report();
    assert!(report.number("episodes") > 5, "{report}");
    patient.ended_untouched(9000);
}

#[test]
fn what_there_is_no_room_for_is_told() {
    needs_root!();
    let openmp = Build::of("openmp.c").flags(&["-fopenmp"]).path();
    let (_, report) = watch_with(&["--backend=perf"], &openmp, &[]);
    let told = report.notes().filter(|note| note.contains("4 addresses"));
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 1, "{report}");
    assert!(
        told[0].contains("OpenMP") && told[0].contains("--backend ptrace"),
        "{report}"
    );
}

#[test]
fn children_that_nobody_asks_for_are_left_alone() {
    needs_root!();
    let forks = program("forks.c");
    let (finished, report) = watch_with(&["--backend=perf", "--no-children"], &forks, &[]);
    assert_eq!(finished.expect(0).out(), "child 5\n");
    // The arrivals of the parent: 50 rounds of two threads, and of four.
    report.is_exactly(300, 100);
}

#[test]
fn children_that_run_already_are_joined() {
    needs_root!();
    let processes = program("processes.c");
    let mut target = start(command(
        &processes,
        &["rounds=4000", "us=2000", "processes=3"],
    ));
    pause(200);
    let options = ["--backend=perf", "--children", "--duration=0.4"];
    let report = attach(target.pid(), &options).report();
    assert_eq!(report.list("processes").len(), 3, "{report}");
    assert!(target.is_running());
}

/// Waits until sbt has opened that many performance events.
#[track_caller]
fn wait_for_breakpoints(sbt: u32, count: usize) {
    let is_event = |file: &fs::DirEntry| {
        fs::read_link(file.path()).is_ok_and(|name| name.ends_with("anon_inode:[perf_event]"))
    };
    eventually(Duration::from_secs(20), || {
        let files = fs::read_dir(format!("/proc/{sbt}/fd")).ok()?.flatten();
        (files.filter(is_event).count() >= count).then_some(())
    })
    .expect("breakpoints");
}

#[test]
fn who_finds_no_room_or_no_files_is_told() {
    needs_root!();
    let patient = Patient::start(&["threads=3", "rounds=6000", "base=1000"]);
    // Each takes two addresses.
    let both = [(), ()].map(|()| {
        let attached = attach(patient.target.pid(), &["--backend=perf"]);
        wait_for_breakpoints(attached.sbt.pid(), 2 * 3);
        attached
    });
    let pid = patient.target.pid().to_string();
    let refused = |limit: &str| {
        let script = format!("{limit} exec \"$0\" attach --backend=perf --duration=0.1 {pid}");
        let mut shell = command("/bin/sh", &["-c", &script]);
        shell.arg(sbt());
        run(shell).expect(125).one_line().to_owned()
    };
    let line = refused("");
    assert!(line.contains("are in use"), "{line}");
    let line = refused("ulimit -n 20;");
    assert!(line.contains("`ulimit -n 128`"), "{line}");
    // Both must have seen some rounds.
    pause(300);
    for one in both {
        one.sbt.signal(libc::SIGINT);
        let report = one.report();
        assert!(report.number("episodes") > 20, "{report}");
    }
    patient.ended_untouched(18000);
}

#[test]
fn what_is_lost_in_the_end_is_counted() {
    needs_root!();
    let rounds = 8000;
    let option = format!("rounds={rounds}");
    let target = start(command(
        program("truth.c"),
        &["threads=1", &option, "hold=4000000"],
    ));
    pause(100);
    let attached = attach(target.pid(), &["--backend=perf"]);
    pause(2000);
    // sbt reads nothing from here on.
    attached.sbt.signal(libc::SIGSTOP);
    target.finish().expect(0);
    attached.sbt.signal(libc::SIGCONT);
    let report = attached.lossy_report();
    let (seen, lost) = (report.number("arrivals"), report.number("lost_events"));
    assert!(seen < rounds && seen + lost >= rounds, "{report}");
}

#[test]
fn waits_of_a_program_that_a_wrapper_executes_are_not_cut_short() {
    needs_root!(alone);
    for _ in 0..5 {
        let program = program("epolls.c");
        let arguments = [program.to_str().unwrap()];
        let (finished, _) = watch_with(&["--backend=perf"], "/usr/bin/env".as_ref(), &arguments);
        finished.expect(5);
    }
}

/// The programs that are executed in the end, and their arguments.
fn wrapped(arguments: &str) -> [(PathBuf, Vec<String>); 3] {
    let truth = program("truth.c").display().to_string();
    let words = || arguments.split(' ').map(str::to_owned);
    let apart = || std::iter::once(truth.clone()).chain(words()).collect();
    // The shell starts a process for the program, since it has to do something afterwards.
    let script = format!("{truth} {arguments}; true");
    [
        ("/bin/sh".into(), vec!["-c".into(), script]),
        ("/usr/bin/env".into(), apart()),
        // A thread other than the first executes the program, and takes the number of the first.
        (program("exec_other.c"), apart()),
    ]
}

fn watch_wrapped((program, arguments): &(PathBuf, Vec<String>)) -> Report {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (finished, report) = watch_with(&["--backend=perf"], program, &arguments);
    finished.expect(0);
    assert_eq!(report.number("lost_events"), 0, "{report}");
    report
}

#[test]
fn programs_that_others_execute_are_watched_as_a_whole_if_they_begin_slowly() {
    needs_root!(alone);
    for wrapper in wrapped("threads=3 rounds=300 base=300 hold=300000") {
        watch_wrapped(&wrapper).is_exactly(900, 300);
    }
}

#[test]
fn programs_that_others_execute_are_watched_on_if_they_begin_at_once() {
    needs_root!(alone);
    for wrapper in wrapped("threads=3 rounds=1500 base=400") {
        for _ in 0..4 {
            let report = watch_wrapped(&wrapper);
            let seen = report.number("arrivals");
            // The first ones at most, and then that is said.
            assert!((3600..=4500).contains(&seen), "{report}");
            assert!(report.number("episodes") > 1200, "{report}");
            assert!(
                seen == 4500 || report.is_noted("was already running"),
                "{report}"
            );
        }
    }
}

/// Threads of sbt that hold a program while it is loaded do not take each other's stops.
#[test]
fn a_program_that_executes_itself_by_any_thread_goes_on() {
    needs_root!(alone);
    for _ in 0..3 {
        let arguments = ["left=40", "rounds=100", "hold=300000"];
        let (finished, report) = watch_with(&["--backend=perf"], &program("execs.c"), &arguments);
        assert_eq!(finished.expect(4).out(), "done\n");
        let last = report.site_at(line("execs.c", "SITE last"));
        let counts = ["episodes", "incomplete"].map(|field| number(last, field));
        assert_eq!(counts, [100, 0], "{report}");
    }
}

/// The passages of a mark that found no room are unknown, and not 0.
#[test]
fn a_mark_without_room_was_passed_nobody_knows_how_often() {
    needs_root!();
    let odd = format!("--mark=marks.c:{}=odd", line("marks.c", "LINE odd"));
    let marks = [
        "--mark=first_part",
        "--mark=second_part",
        "--mark=work",
        &odd,
    ];
    let options = [&["--backend=perf"], &marks[..], &["--mark=main"]].concat();
    let (finished, report) = watch_with(&options, &program("marks.c"), &["rounds=20"]);
    finished.expect(0);
    let hits = report
        .list("marks")
        .iter()
        .map(|mark| mark["hits"].as_u64());
    let hits: Vec<_> = hits.collect();
    // The mark with more than one address, which depends on the compiler, finds no room.
    let missed = hits.iter().position(Option::is_none).unwrap();
    for (at, expected) in [20, 20, 1, 10, 1].into_iter().enumerate() {
        assert_eq!(hits[at], (at != missed).then_some(expected), "{report}");
    }
    let mark = format!("not watched for lack of room: mark {} (in ", missed + 1);
    assert!(report.is_noted(&mark), "{report}");
}
