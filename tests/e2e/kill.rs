//! sbt dies at any moment: the target does not notice, and nothing is left.

use crate::{
    attach::{Patient, clean_code},
    harness::{
        LIMIT, attach, command, eventually, folder, needs_root, pause, run, sbt_with, start,
    },
    programs::program,
    tty::children,
    turns::often,
};

/// Some milliseconds, without a pattern.
pub fn some(range: u64, seed: u64) -> u64 {
    seed.wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
        .rotate_right(32)
        % range
}

#[test]
fn attached_while_threads_sit_in_the_barrier() {
    needs_root!();
    for (attempt, option) in (0..).zip(["--departures=on", "--departures=off", "--departures=auto"])
    {
        // Three of four wait all the time, with their returns hooked.
        let patient = Patient::start(&["threads=4", "rounds=5", "sleep1=400000"]);
        let attached = attach(patient.target.pid(), &[option]);
        pause(700 + some(300, attempt));
        attached.sbt.signal(libc::SIGKILL);
        drop(attached);
        patient.ended_untouched(20);
    }
}

#[test]
fn attached_at_random_moments() {
    needs_root!();
    let patient = Patient::start(&["threads=4", "rounds=2000", "base=1000", "skew=300"]);
    for attempt in 0..often(3) {
        let attached = attach(patient.target.pid(), &["--departures=on"]);
        pause(some(200, attempt));
        attached.sbt.signal(libc::SIGKILL);
        drop(attached);
    }
    patient.ended_untouched(8000);
    // And the machine is as good as before.
    let doctor = run(sbt_with(&["doctor"])).expect(0);
    assert!(doctor.out().contains("OK    rehearsal"), "{doctor}");
}

#[test]
fn attached_to_rounds_without_work() {
    needs_root!();
    let patient = Patient::start(&["threads=3", "rounds=300000"]);
    for attempt in 0..often(3) {
        let attached = attach(patient.target.pid(), &["--departures=on"]);
        pause(some(150, attempt));
        attached.sbt.signal(libc::SIGKILL);
        drop(attached);
    }
    patient.ended_untouched(900_000);
}

#[test]
fn running_a_program() {
    needs_root!();
    let clean = clean_code();
    let folder = folder();
    for (attempt, option) in (0..).zip(["--departures=on", "--departures=off", "--departures=on"]) {
        let now = folder.path().join(format!("now{attempt}"));
        let until = format!("until={}", now.display());
        let mut command = sbt_with(&["run", option, "--"]);
        command.arg(program("truth.c")).args([
            "threads=4",
            "rounds=400",
            "base=2000",
            "skew=500",
            &until,
        ]);
        let mut sbt = start(command);
        sbt.wait_for("ready");
        pause(some(300, attempt));
        sbt.signal(libc::SIGKILL);
        // It takes the kernel a moment to take the probes off.
        eventually(LIMIT, || (!sbt.is_running()).then_some(())).unwrap();
        std::fs::write(now, "").unwrap();
        let end = eventually(LIMIT, || sbt.out().contains("done").then(|| sbt.out()));
        assert_eq!(end, Some(format!("ready\n{clean}\ndone 1600\n")));
    }
}

/// A command that kills all programs of sbt's name does not kill the process that serves its
/// breakpoints.
#[test]
fn by_its_name() {
    needs_root!(breakpoints);
    let patient = Patient::start(&["threads=3", "rounds=1000", "base=1000"]);
    let attached = attach(patient.target.pid(), &["--backend=ptrace"]);
    pause(300);
    let others = children(attached.sbt.pid());
    assert_eq!(others.len(), 1, "the process that traces");
    for file in ["comm", "cmdline"] {
        let name = std::fs::read(format!("/proc/{}/{file}", others[0])).unwrap();
        let name = String::from_utf8_lossy(&name).into_owned();
        assert!(!name.contains("sbt"), "{name}");
    }
    attached.sbt.signal(libc::SIGKILL);
    drop(attached);
    patient.ended_untouched(3000);
}

#[test]
fn what_traces_for_it_is_missed() {
    needs_root!(breakpoints);
    let tracer = |sbt: u32| {
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm"));
        let mut all = children(sbt).into_iter();
        all.find(|pid| name(pid).is_ok_and(|name| name == "breakpoints\n"))
    };
    // A program that does not come to a breakpoint any more lives.
    let mut target = start(command(program("truth.c"), &["hold=2000000", "rounds=0"]));
    target.wait_for("ready");
    let pid = target.pid().to_string();
    let sbt = start(sbt_with(&["attach", "--backend=ptrace", &pid]));
    let found = eventually(LIMIT, || tracer(sbt.pid())).unwrap();
    pause(300);
    crate::harness::kill(found.cast_signed(), libc::SIGKILL);
    let finished = sbt.finish().expect(125);
    for words in [
        "sbt: sbt's tracing process",
        "end sbt, not its tracing process",
        "sbt · ",
    ] {
        assert!(finished.stderr.contains(words), "{finished}");
    }
    assert!(!finished.stderr.contains("ring"), "{finished}");
    target.finish().expect(0);
    // A program that comes to a breakpoint dies, and sbt ends with its status.
    let mut command = sbt_with(&["run", "--backend=ptrace", "--"]);
    command.arg(program("truth.c"));
    command.args(["threads=3", "rounds=100000", "base=1000"]);
    let mut sbt = start(command);
    sbt.wait_for("ready");
    pause(200);
    crate::harness::kill(tracer(sbt.pid()).unwrap().cast_signed(), libc::SIGKILL);
    let finished = sbt.finish().expect(128 + libc::SIGTRAP);
    let text = finished.stderr.replace('\n', " ");
    assert!(
        text.contains("end sbt, not its tracing process"),
        "{finished}"
    );
}

#[test]
fn before_the_program_has_started() {
    needs_root!();
    // Killed so early that the program may be held still: then it must not
    // start, and must not stay either.
    for wait in [0, 1, 2, 5, 10, 20, 40] {
        let folder = folder();
        let mark = folder.path().join(format!("sbt-held-{wait}"));
        let mut command = sbt_with(&["run", "--", "touch"]);
        command.arg(&mark);
        let sbt = start(command);
        pause(wait);
        sbt.signal(libc::SIGKILL);
        let group = sbt.pid();
        let left = eventually(LIMIT, || (!has_members(group)).then_some(()));
        assert!(left.is_some(), "a held child stays behind");
    }
}

/// Whether any process of a group is left that is not dead.
pub fn has_members(group: u32) -> bool {
    std::fs::read_dir("/proc").unwrap().any(|entry| {
        let Ok(stat) = std::fs::read_to_string(entry.unwrap().path().join("stat")) else {
            return false;
        };
        let Some((_, rest)) = stat.rsplit_once(") ") else {
            return false;
        };
        let fields: Vec<&str> = rest.split(' ').collect();
        fields[0] != "Z" && fields[2] == group.to_string()
    })
}
