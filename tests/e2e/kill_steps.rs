//! sbt is killed after each call of ptrace(2), and after each write into the program's memory, in turn: the
//! program goes on, with right results and without a breakpoint left in its code.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use crate::{
    harness::{LIMIT, Started, command, eventually, needs_root, pause, run, sbt, sbt_with, start},
    kill::has_members,
    privilege::{Open, as_nobody},
    programs::{Build, program},
    turns::skipped,
};

/// The variable that says after which call sbt is killed, if it was built with debug assertions.
const ASKED: &str = "SBT_TEST_KILL";

/// The program, linked with a copy of the C library: other tests may have probes on the shared one.
fn selfcheck() -> PathBuf {
    Build::of("selfcheck.c").flags(&["-static"]).path()
}

/// The program's output if nothing has touched it.
fn right(arguments: &[&str]) -> String {
    let out = run(command(selfcheck(), arguments)).expect(0).out();
    assert!(out.ends_with("\nright\n"), "{out}");
    out
}

/// Waits for the end of sbt: whether it was killed.
fn was_killed(sbt: &mut Started) -> bool {
    eventually(LIMIT, || (!sbt.is_running()).then_some(())).expect("sbt ends");
    !sbt.err().contains("sbt · ")
}

/// A command of sbt that is killed after a call of the `which` process.
fn killed_after(options: &[&str], which: &str, number: u64) -> Command {
    let mut command = sbt_with(options);
    ask(&mut command, which, number);
    command
}

fn ask(command: &mut Command, which: &str, number: u64) {
    command.env("SBT_BUDGET", "off");
    command.env(ASKED, format!("{which}:{number}"));
}

/// Waits until no process of sbt's group is left. Returns what the program has printed.
fn out_at_end(sbt: &mut Started, number: u64) -> String {
    let group = sbt.pid();
    let over = eventually(LIMIT, || (!has_members(group)).then_some(()));
    let out = sbt.out();
    assert!(over.is_some(), "call {number}: it does not end: {out}");
    out
}

/// Attempts that run at once: each of them mostly waits.
const AT_ONCE: usize = 4;

/// Makes an attempt for each call, from the first call on, until sbt ends without being killed.
fn each_call(test: &str, attempt: impl Fn(u64) -> bool + Sync) {
    let (next, end) = (AtomicU64::new(1), AtomicU64::new(u64::MAX));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end.load(Ordering::Relaxed) {
                        break;
                    }
                    if !attempt(number) {
                        end.fetch_min(number, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let calls = end.into_inner() - 1;
    if calls == 0 {
        skipped("needs an sbt with debug assertions", test);
    } else {
        assert!(calls > 40, "{calls} calls");
    }
}

#[test]
fn while_it_runs_a_program() {
    needs_root!(breakpoints);
    let arguments = ["threads=2", "rounds=3", "forks=1", "settle=3000"];
    let right = right(&arguments);
    let late = AtomicU64::new(0);
    each_call("while_it_runs_a_program", |number| {
        let options = [
            "run",
            "--no-tui",
            "--backend=ptrace",
            "--departures=on",
            "--",
        ];
        let mut command = killed_after(&options, "sbt", number);
        command.arg(selfcheck()).args(arguments);
        let mut sbt = start(command);
        let killed = was_killed(&mut sbt);
        // The program may not have begun.
        let out = out_at_end(&mut sbt, number);
        // The code is looked at when nobody traces the program any more.
        let is_late = out == WATCHED;
        assert!(
            out == right || is_late || killed && out.is_empty(),
            "call {number}: {out}"
        );
        late.fetch_add((is_late && killed).into(), Ordering::Relaxed);
        killed
    });
    // sbt was killed while the program ended, after the program had looked.
    let late = late.into_inner();
    assert!(late <= MOST_LATE, "{late} attempts");
}

/// Only the child itself can open its memory, by calls that sbt has it make before its first instruction.
#[test]
fn while_a_child_forbids_a_look() {
    needs_root!(alone);
    let open = Open::new();
    let (sbt, closed) = (open.copy(sbt()), open.copy(&program("closed.c")));
    let arguments = ["dumpable=0", "children=1", "rounds=3"];
    each_call("while_a_child_forbids_a_look", |number| {
        let mut command = as_nobody(&sbt);
        ask(&mut command, "sbt", number);
        command.args(["run", "--no-tui", "--backend=ptrace", "--children", "--"]);
        command.arg(&closed).args(arguments);
        let mut sbt = start(command);
        let killed = was_killed(&mut sbt);
        let out = out_at_end(&mut sbt, number);
        let is_right = out == "child 0 0\nended 600\nown 0\n";
        assert!(is_right || killed && out.is_empty(), "call {number}: {out}");
        killed
    });
}

/// The output of a program that was watched to its end.
const WATCHED: &str = "ready\nwatched\nright\n";

/// At most so many calls of ptrace(2) belong to the end of a program.
const MOST_LATE: u64 = 20;

/// Attaches to a program that has not come to its first barrier; `which` process is killed.
fn attached(which: &str, number: u64, arguments: &[&str]) -> (bool, Started) {
    let mut target = start(command(selfcheck(), arguments));
    target.wait_for("ready");
    let pid = target.pid().to_string();
    let options = ["attach", "--no-tui", "--backend=ptrace", "--departures=on"];
    let mut command = killed_after(&options, which, number);
    command.args(["--duration=0.2", &pid]);
    let mut sbt = start(command);
    (was_killed(&mut sbt), target)
}

const ATTACHED: [&str; 6] = [
    "threads=2",
    "rounds=3",
    "forks=1",
    "gap=30000",
    "hold=150000",
    "settle=60000",
];

#[test]
fn while_it_is_attached() {
    needs_root!(alone);
    let right = right(&ATTACHED);
    each_call("while_it_is_attached", |number| {
        let (killed, target) = attached("sbt", number, &ATTACHED);
        let finished = target.finish().expect(0);
        assert_eq!(finished.out(), right, "call {number}");
        killed
    });
}

/// The program, with the C library into which the jumps of `inject` are put.
fn linked() -> PathBuf {
    Build::of("selfcheck.c").path()
}

/// The program ends as if nobody had watched it; jumps may be left in its code.
fn ends_right(target: Started, number: u64) {
    let out = target.finish().expect(0).out();
    let is_right = out.starts_with("ready\n") && out.ends_with("\nright\n");
    assert!(is_right && !out.contains("child"), "call {number}: {out}");
}

#[test]
fn while_it_puts_jumps_in_and_takes_them_out() {
    needs_root!(alone);
    each_call("while_it_puts_jumps_in_and_takes_them_out", |number| {
        let mut target = start(command(linked(), &ATTACHED));
        target.wait_for("ready");
        let pid = target.pid().to_string();
        let options = ["attach", "--no-tui", "--backend=inject"];
        let mut command = killed_after(&options, "self", number);
        command.args(["--duration=0.2", &pid]);
        let killed = was_killed(&mut start(command));
        ends_right(target, number);
        killed
    });
}

#[test]
fn while_it_runs_a_program_with_jumps() {
    needs_root!(alone);
    let arguments = ["threads=2", "rounds=3", "forks=1", "settle=3000"];
    each_call("while_it_runs_a_program_with_jumps", |number| {
        let options = ["run", "--no-tui", "--backend=inject", "--"];
        let mut command = killed_after(&options, "self", number);
        command.arg(linked()).args(arguments);
        let mut sbt = start(command);
        let killed = was_killed(&mut sbt);
        // The program may not have begun.
        let out = out_at_end(&mut sbt, number);
        let is_right = out.starts_with("ready\n") && out.ends_with("\nright\n");
        let has_not_begun = killed && out.is_empty();
        assert!(is_right || has_not_begun, "call {number}: {out}");
        killed
    });
}

/// Killing the process that serves the breakpoints harms the program: it ends by SIGTRAP at the
/// next breakpoint. No thread may go on with the registers of another.
#[test]
fn what_serves_its_alone() {
    needs_root!(alone);
    let mut number = 1;
    loop {
        let (_, target) = attached("self", number, &ATTACHED);
        let finished = target.finish();
        let by_trap = finished.status.signal() == Some(libc::SIGTRAP);
        // Breakpoints may be left where no thread came to them.
        let is_right = finished.out().ends_with("\nright\n");
        assert!(by_trap || is_right, "call {number}: {finished}");
        if !by_trap && number > 40 || number > 200 {
            break;
        }
        // Not each call: the calls repeat themselves.
        number += 3;
        pause(1);
    }
}
