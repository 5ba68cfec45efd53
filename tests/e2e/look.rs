//! `sbt hang` looks, and nobody notices: with few rights, at programs that would tell, and
//! killed at any moment.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::Value;

use crate::{
    harness::{
        LIMIT, Started, command, eventually, folder, install, is_root, pause, run, sbt, sbt_with,
        start,
    },
    programs::{Build, program},
    turns::often,
};

const NOBODY: &str = "65534";

/// The output of `sbt hang --json` for a process.
#[track_caller]
pub fn look(pid: u32, options: &[&str]) -> Value {
    let pid = pid.to_string();
    let arguments = [&["hang", "--json", &pid], options].concat();
    let finished = run(sbt_with(&arguments)).expect(0);
    assert_eq!(finished.stderr, "");
    serde_json::from_slice(&finished.stdout).unwrap()
}

/// A case of `hangs.c`, when it is stuck.
pub fn stuck(build: Build, case: &str) -> Started {
    let mut started = start(command(build.path(), &[case]));
    started.wait_for("stuck");
    settle(started.pid());
    started
}

/// The state of a thread so far: its letter, how often it has given up the CPU, and how long it has
/// used one, in ticks of 10 ms.
#[derive(PartialEq, Eq)]
struct Done {
    state: char,
    switches: u64,
    ticks: u64,
}

/// Waits until each thread of a program sleeps and goes on doing so, or loops: a thread may have
/// said something before it does it, and on a busy machine that takes its time. No longer than a
/// few seconds: the threads of some programs never come to rest.
fn settle(pid: u32) {
    eventually(Duration::from_secs(3), || {
        let before = done(pid);
        pause(50);
        let after = done(pid);
        let rests = |tid: &u32, now: &Done| {
            let sleeps = now.state != 'R' && before.get(tid) == Some(now);
            sleeps || now.ticks >= 5
        };
        after.iter().all(|(tid, now)| rests(tid, now)).then_some(())
    });
}

fn done(pid: u32) -> BTreeMap<u32, Done> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: fs::DirEntry| {
        let tid = task.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let switches = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        let done = Done {
            state: fields[0].chars().next()?,
            switches: switches.trim().parse().ok()?,
            ticks: fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?,
        };
        Some((tid, done))
    };
    tasks.filter_map(|task| of(task.ok()?)).collect()
}

/// The states of the threads of a process, as /proc has them.
fn states(pid: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let state = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        fields.trim_start().chars().next()
    };
    tasks.filter_map(|task| state(task.ok()?)).collect()
}

/// No process traces the target.
fn is_free(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.flatten().all(|task| {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        status.is_empty() || status.contains("TracerPid:\t0\n")
    })
}

#[test]
fn a_stopped_program_stays_stopped_and_goes_on_when_it_is_told() {
    crate::harness::needs_nothing!(breakpoints);
    let mut target = stuck(Build::of("hangs.c"), "spin");
    target.signal(libc::SIGSTOP);
    let stands = || states(target.pid()).chars().all(|state| state == 'T');
    assert_eq!(eventually(LIMIT, || stands().then_some(())), Some(()));
    let report = look(target.pid(), &[]);
    let threads = report["threads"].as_array().unwrap();
    assert!(
        threads.iter().all(|it| it["state"] == "stopped"),
        "{report}"
    );
    assert!(stands());
    target.signal(libc::SIGCONT);
    let goes_on = || {
        let states = states(target.pid());
        states.contains('R') && !states.contains('T')
    };
    let went_on = eventually(LIMIT, || goes_on().then_some(()));
    assert_eq!(went_on, Some(()), "{}", states(target.pid()));
    assert!(target.is_running());
}

#[test]
fn killed_at_any_moment_it_leaves_nobody_stopped() {
    crate::harness::needs_nothing!(breakpoints);
    let target = stuck(Build::of("hangs.c"), "spin");
    let other = start(command(program("undisturbed.c"), &["ms=15000"]));
    for attempt in 0..often(8) {
        let pid = if attempt % 2 == 0 {
            target.pid()
        } else {
            other.pid()
        };
        let mut sbt = start(sbt_with(&["hang", &pid.to_string()]));
        pause(20 + attempt * 197 % 480);
        let was_running = sbt.is_running();
        sbt.signal(libc::SIGKILL);
        drop(sbt);
        pause(2);
        for pid in [target.pid(), other.pid()] {
            let states = states(pid);
            assert!(
                !states.contains(['t', 'T']),
                "{states} of {pid}, {was_running}"
            );
            assert!(is_free(pid));
        }
    }
    assert!(states(target.pid()).contains('R'));
}

#[test]
fn programs_that_would_notice_do_not() {
    crate::harness::needs_nothing!(breakpoints);
    let mut target = start(command(program("undisturbed.c"), &["ms=7000"]));
    target.wait_for("ready");
    let mut looks = 0;
    while !target.out().contains("over") && target.is_running() {
        // The process may end during the look.
        let finished = run(sbt_with(&["hang", &target.pid().to_string()]));
        looks += u32::from(finished.status.success());
    }
    assert!(looks >= 3, "{looks}");
    let finished = target.finish().expect(0);
    for line in finished.out().lines().filter(|line| line.contains(' ')) {
        let numbers: Vec<u32> = line.split(' ').map(|it| it.parse().unwrap()).collect();
        assert_eq!(numbers[1], 0, "disturbed: {finished}");
        assert!(numbers[2] > 20, "did not go on: {finished}");
    }
}

/// A copy that everybody may execute.
pub fn open(folder: &Path, program: &Path) -> PathBuf {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    let copy = folder.join(program.file_name().unwrap());
    install(program, &copy);
    copy
}

/// A command as a user without any privilege.
pub fn as_nobody(program: &Path) -> Command {
    let (uid, gid) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
    let mut command = command("setpriv", &[uid.as_str(), &gid, "--clear-groups", "--"]);
    command.arg(program);
    command
}

#[test]
fn ones_own_processes_take_no_privilege() {
    crate::harness::needs_nothing!(breakpoints);
    if !is_root() {
        // All other tests here show that then.
        return;
    }
    let folder = folder();
    let sbt = open(folder.path(), sbt());
    let hangs = open(folder.path(), &program("hangs.c"));
    for case in ["lock", "spin"] {
        let mut theirs = as_nobody(&hangs);
        theirs.arg(case);
        let mut theirs = start(theirs);
        theirs.wait_for("stuck");
        pause(50);
        let mut command = as_nobody(&sbt);
        command.args(["hang", "--json", &theirs.pid().to_string()]);
        let finished = run(command).expect(0);
        let report: Value = serde_json::from_slice(&finished.stdout).unwrap();
        let place = report["hang"]["missing"][0]["where"]
            .as_str()
            .unwrap_or_default();
        let function = if case == "spin" {
            "spin hangs.c:"
        } else {
            "take hangs.c:"
        };
        assert!(place.starts_with(function), "{report:#}");
    }
    let mut ours = start(command(&hangs, &["lock"]));
    ours.wait_for("stuck");
    let mut command = as_nobody(&sbt);
    command.args(["hang", &ours.pid().to_string()]);
    let finished = run(command);
    assert!(!finished.status.success(), "{finished}");
    let line = finished.one_line();
    assert!(
        line.contains("another user") && line.contains("sudo"),
        "{line}"
    );
}
