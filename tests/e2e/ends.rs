//! When a program ended, whenever sbt notices: the wall time is that of the program.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::{
    harness::{
        LIMIT, Report, Started, attach, command, eventually, folder, install, needs_root, pause,
        run, sbt_with, start,
    },
    programs::Build,
    truth::Truth,
    tty::children,
};

/// A copy of the program `truth` with a C library in it: no other test has probes on that file. For jumps,
/// which static programs have no room for, it is linked with the usual one.
fn copy_truth(folder: &Path, backend: &str) -> PathBuf {
    let flags: &[&str] = match backend {
        "inject" => &[],
        _ => &["-static"],
    };
    let copy = folder.join("truth");
    install(&Build::of("truth.c").flags(flags).path(), &copy);
    copy
}

/// The time by the clock of events and reports, ns.
fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is the one meant.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap()
}

/// Whether all threads of a process have ended; it may not have been waited for.
pub fn has_ended(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

/// The process that sbt has started for its user.
#[track_caller]
pub fn target_of(sbt: &Started) -> u32 {
    let is_it = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        // The processes that serve breakpoints and look after jumps belong to sbt.
        name.is_ok_and(|name| !["breakpoints\n", "jump-keeper\n"].contains(&name.as_str()))
    };
    eventually(LIMIT, || children(sbt.pid()).into_iter().find(is_it)).unwrap()
}

/// The program `truth`, which ends when a test wants it to.
struct Patient {
    folder: TempDir,
}

impl Patient {
    fn new(backend: &str) -> Self {
        let folder = folder();
        copy_truth(folder.path(), backend);
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Its command line.
    fn words(&self, more: &[&str]) -> Vec<String> {
        let mut words = vec![self.path("truth").to_str().unwrap().to_owned()];
        words.extend(more.iter().map(|word| (*word).to_owned()));
        for name in ["log", "until"] {
            words.push(format!("{name}={}", self.path(name).display()));
        }
        words
    }

    /// Has it end while `sbt` is stopped, and so the `target`. Returns when that was seen to have
    /// ended, ns.
    #[track_caller]
    fn end_unnoticed(&self, sbt: &Started, target: u32) -> u64 {
        // The barriers are over: the program is about to wait for its end.
        eventually(LIMIT, || self.path("log").exists().then_some(())).unwrap();
        pause(50);
        sbt.signal(libc::SIGSTOP);
        fs::write(self.path("until"), "").unwrap();
        eventually(LIMIT, || has_ended(target).then_some(())).unwrap();
        let ended_ns = now_ns();
        pause(300);
        sbt.signal(libc::SIGCONT);
        ended_ns
    }

    fn truth(&self) -> Truth {
        Truth::read(&self.path("log"))
    }
}

/// The beginning and the end of watching according to a report, ns.
fn watched(report: &Report) -> (u64, u64) {
    let start_ns = report.number("start_ns");
    (start_ns, start_ns + report.number("wall_ns"))
}

/// Fails unless the program was watched from before its first barrier until its end.
#[track_caller]
fn is_that_of(truth: &Truth, report: &Report, ended_ns: u64) {
    let (start_ns, end_ns) = watched(report);
    let passages = || truth.0.iter().flatten();
    let first_ns = passages().map(|passage| passage.arrival).min().unwrap();
    let last_ns = passages().map(|passage| passage.departure).max().unwrap();
    assert!(start_ns < first_ns && last_ns < end_ns, "{report}");
    assert!(
        end_ns <= ended_ns,
        "{} ms too late: {report}",
        (end_ns - ended_ns) / 1_000_000
    );
    assert!(!report.is_noted("the wall time"), "{report}");
}

/// Fails unless a recording tells the same.
#[track_caller]
fn is_recorded(recording: &Path, live: &Report) {
    let again = recording.with_extension("json");
    let mut command = sbt_with(&["report", "--json", "--output"]);
    run({
        command.arg(&again).arg(recording);
        command
    })
    .expect(0);
    let again = Report::read(&again);
    for field in [
        "start_ns",
        "start_unix_ns",
        "wall_ns",
        "efficiency",
        "ended",
    ] {
        assert_eq!(again.0[field], live.0[field], "{field}");
    }
}

const ROUNDS: [&str; 3] = ["threads=3", "rounds=20", "base=1000"];

/// A shell script that ends with its child: it must not execute it in its own place.
const WAITS: &str = "\"$@\"; exit $?";

#[track_caller]
fn ends_when_the_program_does(backend: &str, before: &[&str]) {
    let patient = Patient::new(backend);
    let (json, recording) = (patient.path("json"), patient.path("recording"));
    let mut sbt = sbt_with(&["run", "--budget=off", "--json", "--output"]);
    sbt.arg(&json).arg("-o").arg(&recording);
    sbt.arg(format!("--backend={backend}"))
        .arg("--")
        .args(before);
    sbt.args(patient.words(&ROUNDS));
    let mut sbt = start(sbt);
    sbt.wait_for("ready");
    let ended_ns = patient.end_unnoticed(&sbt, target_of(&sbt));
    sbt.finish().expect(0);
    let report = Report::read(&json);
    assert_eq!(report.0["backend"], backend);
    is_that_of(&patient.truth(), &report, ended_ns);
    if before.is_empty() {
        // What another program executes is probed a moment later.
        report.is_exactly(60, 20);
    }
    // The jumps do not tell who was ready without a CPU, where phases are this short.
    if before.is_empty() && backend != "inject" {
        // Speed-up and efficiency are made of the same time.
        let figure = |name: &str| report.0["efficiency"][name].as_f64().unwrap();
        let threads = figure("speedup") / figure("parallel");
        assert!((threads - 3.0).abs() < 1e-9, "{report}");
        let path_ns = report.0["efficiency"]["path_ns"].as_f64().unwrap();
        let whole_ns = path_ns / figure("transfer");
        assert!(
            (whole_ns - report.number("wall_ns") as f64).abs() < 2.0,
            "{report}"
        );
    }
    is_recorded(&recording, &report);
}

#[test]
fn a_program_ends_when_it_does_and_not_when_sbt_notices() {
    needs_root!();
    ends_when_the_program_does("ebpf", &[]);
}

#[test]
fn a_program_by_breakpoints_ends_when_it_does() {
    needs_root!(breakpoints);
    ends_when_the_program_does("ptrace", &[]);
}

#[test]
fn a_program_by_breakpoints_of_the_processor_ends_when_it_does() {
    needs_root!(alone);
    ends_when_the_program_does("perf", &[]);
}

#[test]
fn a_program_by_jumps_ends_when_it_does() {
    needs_root!();
    ends_when_the_program_does("inject", &[]);
}

#[test]
fn a_program_with_children_ends_with_the_last_of_them() {
    needs_root!();
    ends_when_the_program_does("ebpf", &["sh", "-c", WAITS, "sh"]);
}

#[test]
fn a_program_with_children_by_breakpoints_ends_with_the_last_of_them() {
    needs_root!(breakpoints);
    ends_when_the_program_does("ptrace", &["sh", "-c", WAITS, "sh"]);
}

/// The child has not ended when the program has, and is not watched any more then.
fn ends_before_its_child(backend: &str) {
    let script = "sleep 100 & \"$@\"; exit $?";
    let patient = Patient::new(backend);
    let json = patient.path("json");
    let mut sbt = sbt_with(&["run", "--children", "--json", "--output"]);
    sbt.arg(&json).arg(format!("--backend={backend}"));
    sbt.args(["--", "sh", "-c", script, "sh"]);
    sbt.args(patient.words(&ROUNDS));
    let mut sbt = start(sbt);
    sbt.wait_for("ready");
    let ended_ns = patient.end_unnoticed(&sbt, target_of(&sbt));
    sbt.finish().expect(0);
    is_that_of(&patient.truth(), &Report::read(&json), ended_ns);
}

#[test]
fn a_child_that_goes_on_does_not_make_the_program_longer() {
    needs_root!();
    ends_before_its_child("ebpf");
}

#[test]
fn a_child_that_goes_on_does_not_make_one_by_breakpoints_longer() {
    needs_root!(breakpoints);
    ends_before_its_child("ptrace");
}

fn ends_after_sbt_has_joined(backend: &str) {
    let patient = Patient::new(backend);
    let words = patient.words(&["threads=3", "rounds=400", "base=2000"]);
    let mut target = start(command(&words[0], &words[1..]));
    target.wait_for("ready");
    let attached = attach(target.pid(), &["--backend", backend]);
    let ended_ns = patient.end_unnoticed(&attached.sbt, target.pid());
    let (report, truth) = (attached.report(), patient.truth());
    target.finish().expect(0);
    let (_, end_ns) = watched(&report);
    let departures = truth.0.iter().flatten().map(|thread| thread.departure);
    assert!(departures.max().unwrap() < end_ns, "{report}");
    assert!(end_ns <= ended_ns, "{report}");
    assert_eq!(report.0["ended"], true, "{report}");
}

#[test]
fn a_program_that_was_joined_ends_when_it_does() {
    needs_root!();
    ends_after_sbt_has_joined("ebpf");
}

#[test]
fn a_program_that_breakpoints_have_joined_ends_when_it_does() {
    needs_root!(breakpoints);
    ends_after_sbt_has_joined("ptrace");
}

#[test]
fn a_program_that_jumps_have_joined_ends_when_it_does() {
    needs_root!();
    ends_after_sbt_has_joined("inject");
}

#[test]
fn a_program_that_is_left_was_watched_until_then() {
    needs_root!();
    let patient = Patient::new("ebpf");
    let words = patient.words(&["threads=3", "rounds=1000000", "base=1000"]);
    let mut target = start(command(&words[0], &words[1..]));
    target.wait_for("ready");
    let report = attach(target.pid(), &["--duration=300ms"]).report();
    let (start_ns, end_ns) = watched(&report);
    assert!(end_ns - start_ns >= 300_000_000, "{report}");
    assert!(end_ns <= now_ns(), "{report}");
    assert_eq!(report.0["ended"], false, "{report}");
}

/// A process that sbt has forked stands before its exec: the program has not begun.
#[test]
fn a_program_begins_with_its_exec_and_not_before() {
    needs_root!();
    let attempt = || {
        let patient = Patient::new("ebpf");
        let json = patient.path("json");
        let mut sbt = sbt_with(&["run", "--backend=ebpf", "--json", "--output"]);
        sbt.arg(&json).arg("--").args(patient.words(&ROUNDS));
        let sbt = start(sbt);
        let child = eventually(LIMIT, || children(sbt.pid()).first().copied()).unwrap();
        crate::harness::kill(child.cast_signed(), libc::SIGSTOP);
        pause(20);
        let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap();
        if name.starts_with("truth") {
            // Too late: it has executed its program.
            return None;
        }
        // sbt lets it go meanwhile.
        pause(1000);
        let before_ns = now_ns();
        crate::harness::kill(child.cast_signed(), libc::SIGCONT);
        fs::write(patient.path("until"), "").unwrap();
        sbt.finish().expect(0);
        Some((before_ns, Report::read(&json), patient.truth()))
    };
    let (before_ns, report, truth) = (0..20).find_map(|_| attempt()).unwrap();
    let (start_ns, _) = watched(&report);
    let first_ns = truth.0.iter().flatten().map(|thread| thread.arrival).min();
    assert!(before_ns < start_ns, "{report}");
    assert!(start_ns < first_ns.unwrap(), "{report}");
    // No thread worked before that.
    let work_ns = report.0["thread_time"]["work_ns"].as_u64().unwrap();
    assert!(work_ns <= 3 * report.number("wall_ns"), "{report}");
}

/// A shell that executes another program in its place is one program.
fn begins_with_its_first_exec(backend: &str) {
    let folder = folder();
    let (json, clock) = (folder.path().join("json"), folder.path().join("clock"));
    let mut command = sbt_with(&["run", "--json", "--output"]);
    command.arg(&json).arg(format!("--backend={backend}"));
    command.args(["--", "sh", "-c", "date +%s%N >\"$0\"; exec \"$@\""]);
    command
        .arg(&clock)
        .arg(copy_truth(folder.path(), backend))
        .args(ROUNDS);
    run(command).expect(0);
    let began: u64 = fs::read_to_string(&clock).unwrap().trim().parse().unwrap();
    let report = Report::read(&json);
    assert!(report.number("start_unix_ns") < began, "{report}");
}

#[test]
fn a_program_begins_with_its_first_exec() {
    needs_root!();
    begins_with_its_first_exec("ebpf");
}

#[test]
fn a_program_by_jumps_begins_with_its_first_exec() {
    needs_root!();
    begins_with_its_first_exec("inject");
}

#[test]
fn a_program_by_breakpoints_begins_with_its_first_exec() {
    needs_root!(breakpoints);
    begins_with_its_first_exec("ptrace");
}

/// The rings are full before the program has ended: nothing tells of its end.
#[test]
fn an_end_of_which_nothing_is_known_is_noted() {
    needs_root!();
    let patient = Patient::new("ebpf");
    let json = patient.path("json");
    let mut sbt = sbt_with(&[
        "run",
        "--budget=off",
        "--backend=ebpf",
        "--json",
        "--output",
    ]);
    sbt.arg(&json).arg("--");
    sbt.args(patient.words(&["threads=2", "rounds=60000", "hold=300000"]));
    let mut sbt = start(sbt);
    sbt.wait_for("ready");
    let target = target_of(&sbt);
    pause(50);
    sbt.signal(libc::SIGSTOP);
    fs::write(patient.path("until"), "").unwrap();
    eventually(LIMIT, || has_ended(target).then_some(())).unwrap();
    let ended_ns = now_ns();
    sbt.signal(libc::SIGCONT);
    sbt.finish().expect(0);
    let report = Report::read_lossy(&json);
    assert!(report.number("lost_events") > 0, "{report}");
    let (_, end_ns) = watched(&report);
    let is_noted = report.is_noted("sbt did not see the exact end of the program");
    assert!(is_noted || end_ns <= ended_ns, "{report}");
    assert!(end_ns <= now_ns(), "{report}");
}
