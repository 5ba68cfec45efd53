//! The program keeps its own streams, status, arguments, environment, signals, descriptors and
//! limits.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
};

use crate::{
    harness::{
        Finished, Report, command, folder, needs_root, run, sbt, sbt_with, start, start_reading,
    },
    programs::program,
    tty::{Terminal, USUAL, for_tty},
};

/// Runs the same command without and with sbt.
#[track_caller]
fn both(make: impl Fn(&mut Command)) -> (Finished, Finished) {
    let plain = {
        let mut command = Command::new("env");
        make(&mut command);
        run(command)
    };
    let mut watched = sbt_with(&["run", "-q", "--", "env"]);
    make(&mut watched);
    (plain, run(watched))
}

#[test]
fn input_and_output_pass_byte_for_byte() {
    needs_root!();
    let folder = folder();
    let path = folder.path().join("bytes");
    let mut seed = 1u64;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed.to_be_bytes()[0]
    })
    .take(1 << 20)
    .collect();
    fs::write(&path, &bytes).unwrap();
    let input = fs::File::open(&path).unwrap();
    let finished = start_reading(sbt_with(&["run", "-q", "--", "cat"]), input)
        .finish()
        .expect(0);
    assert!(finished.stdout == bytes, "a file as input");
    assert_eq!(finished.stderr, "");

    let mut pipe = Command::new("sh");
    pipe.args(["-c", "cat \"$1\" | \"$2\" run -q -- cat | cat", "sh"]);
    let finished = run({
        pipe.arg(&path).arg(sbt());
        pipe
    });
    assert!(finished.expect(0).stdout == bytes, "through pipes");
}

#[test]
fn closed_streams_do_no_harm() {
    needs_root!();
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let mut shell = Command::new("sh");
        let script = format!("\"$1\" run -- \"$2\" rounds=10 status=7 {closed}");
        shell
            .args(["-c", &script, "sh"])
            .arg(sbt())
            .arg(program("truth.c"));
        run(shell).expect(7);
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_program_as_ever() {
    needs_root!();
    let mut shell = Command::new("sh");
    let script = "{ \"$1\" run -q -- yes; echo $? >&2; } | head -n 1";
    shell.args(["-c", script, "sh"]).arg(sbt());
    let finished = run(shell).expect(0);
    assert_eq!(finished.out(), "y\n");
    assert_eq!(finished.stderr.trim(), "141");
}

#[test]
fn the_report_is_on_stderr_only() {
    needs_root!();
    let mut command = sbt_with(&[
        "run",
        "--",
        "sh",
        "-c",
        // Long enough for its mappings to be read before it ends.
        "echo out; echo err >&2; exec \"$0\" rounds=10 base=100000",
    ]);
    command.arg(program("truth.c"));
    let finished = run(command).expect(0);
    assert!(finished.out().starts_with("out\nready\n"), "{finished}");
    assert!(finished.out().ends_with("done 40\n"), "{finished}");
    assert!(finished.stderr.starts_with("err\n"), "{finished}");
    assert!(finished.stderr.contains("meet truth.c:"), "{finished}");
    assert!(finished.stderr.contains("10 episodes"), "{finished}");
    assert!(
        !finished.stderr.contains('\x1b'),
        "no colours without a terminal: {finished}"
    );
}

#[test]
fn a_named_file_takes_the_report() {
    needs_root!();
    let folder = folder();
    let path = folder.path().join("report.txt");
    fs::write(&path, "x".repeat(100_000)).unwrap();
    let mut command = sbt_with(&["run", "--output"]);
    command
        .arg(&path)
        .arg("--")
        .arg(program("truth.c"))
        .arg("rounds=10");
    let finished = run(command).expect(0);
    assert_eq!(finished.stderr, "");
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("meet truth.c:") && !text.contains("xxx"),
        "{text}"
    );
}

#[test]
fn quiet_is_silent() {
    needs_root!();
    let mut command = sbt_with(&["run", "-q", "--"]);
    command.arg(program("truth.c")).arg("rounds=10");
    assert_eq!(run(command).expect(0).stderr, "");
}

#[test]
fn the_exit_status_is_the_programs() {
    needs_root!();
    for status in [0, 1, 7, 125, 126, 127, 255] {
        let script = format!("exit {status}");
        run(sbt_with(&["run", "-q", "--", "sh", "-c", &script])).expect(status);
    }
    for signal in [
        libc::SIGKILL,
        libc::SIGSEGV,
        libc::SIGTERM,
        libc::SIGABRT,
        libc::SIGINT,
    ] {
        let mut command = sbt_with(&["run", "--"]);
        command
            .arg(program("truth.c"))
            .args(["rounds=10", &format!("raise={signal}")]);
        let finished = run(command).expect(128 + signal);
        assert!(
            finished.stderr.contains(&format!("signal {signal}")),
            "{finished}"
        );
        assert!(finished.stderr.contains("10 episodes"), "{finished}");
    }
}

fn file(folder: &Path, name: &str, bytes: &[u8], mode: u32) -> String {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn programs_that_cannot_be_started() {
    needs_root!();
    let folder = folder();
    let plain = file(folder.path(), "plain", b"#!/bin/sh\n", 0o644);
    let lost = file(folder.path(), "lost", b"#!/no/such/interpreter\n", 0o755);
    for (name, status) in [
        ("no-such-program-anywhere", 127),
        ("./no-such-program-anywhere", 127),
        ("/no/such/program", 127),
        (lost.as_str(), 127),
        (plain.as_str(), 126),
        ("/tmp", 126),
    ] {
        let finished = run(sbt_with(&["run", "--", name])).expect(status);
        assert!(finished.one_line().contains(name), "{finished}");
        assert_eq!(finished.out(), "");
    }
}

#[test]
fn a_program_for_another_machine() {
    needs_root!();
    let folder = folder();
    let mut elf = fs::read(program("truth.c")).unwrap();
    // e_machine: AArch64.
    elf[18..20].copy_from_slice(&183u16.to_le_bytes());
    let foreign = file(folder.path(), "foreign", &elf, 0o755);
    let finished = run(sbt_with(&["run", "--", &foreign])).expect(126);
    assert!(finished.one_line().contains(&foreign), "{finished}");
}

#[test]
fn a_script_without_an_interpreter_line() {
    needs_root!();
    let folder = folder();
    // The C library's execvp hands it to the shell, as env, nice and a shell do.
    let script = file(folder.path(), "script", b"echo \"<$1>\"; exit 5\n", 0o755);
    let finished = run(sbt_with(&["run", "-q", "--", &script, "a b"])).expect(5);
    assert_eq!(finished.out(), "<a b>\n");
}

#[test]
fn arguments_arrive_as_they_are() {
    needs_root!();
    let odd = [
        "", "a b", " ", "--json", "-q", "--", "*", "$HOME", "ü", "\n", "'\"",
    ];
    let arguments = program("arguments.c");
    let plain = run(command(&arguments, &odd)).out();
    let mut watched = sbt_with(&["run", "-q", "--"]);
    watched.arg(&arguments).args(odd);
    assert_eq!(run(watched).expect(0).out(), plain);
    // What follows the program is the program's, also without a double dash.
    let mut watched = sbt_with(&["run", "-q"]);
    watched.arg(&arguments).args(odd);
    assert_eq!(run(watched).expect(0).out(), plain);

    // argv[0] is the name as typed, not where it was found.
    let mut watched = sbt_with(&["run", "-q", "--", "arguments", "x"]);
    let folder = folder();
    std::os::unix::fs::symlink(&arguments, folder.path().join("arguments")).unwrap();
    let path = std::env::var("PATH").unwrap();
    watched.env("PATH", format!("{}:{path}", folder.path().display()));
    assert_eq!(run(watched).expect(0).out(), "<arguments>\n<x>\n");

    // No text, but a file name all the same.
    let mut watched = sbt_with(&["run", "-q", "--"]);
    watched.arg(&arguments).arg(OsStr::from_bytes(b"\xff\xfe"));
    assert!(run(watched).expect(0).stdout.ends_with(b"<\xff\xfe>\n"));
}

#[test]
fn the_environment_is_unchanged() {
    needs_root!();
    let (plain, watched) = both(|command| {
        command
            .env("ODD", "a b\nc")
            .env_remove("SUDO_UID")
            .env_remove("SUDO_GID");
    });
    assert_eq!(plain.out(), watched.expect(0).out());
    assert!(plain.out().contains("ODD=a b\nc\n"), "{plain}");
}

/// Lines of /proc/self/status that a program may not find changed.
const STATUS: &str = "^(Umask|Uid|Gid|Groups|SigQ|SigPnd|ShdPnd|Sig|Cap|NoNewPrivs|Seccomp|\
    Speculation|Cpus_allowed|Mems_allowed|CoreDumping|THP_enabled|untag|NSsid|NSpgid)";

/// `SigQ` also counts what others of this user have pending.
fn settled(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| !line.starts_with("SigQ") && !line.starts_with("NSpgid"))
        .collect()
}

#[test]
fn signals_and_privileges_are_unchanged() {
    needs_root!();
    for prefix in [None, Some(program("disposed.c"))] {
        let grep = ["grep", "-E", STATUS, "/proc/self/status"];
        let make = |watched: bool| {
            let mut words: Vec<String> = Vec::new();
            words.extend(prefix.as_ref().map(|path| path.to_str().unwrap().into()));
            if watched {
                words.extend([sbt().to_str().unwrap().into(), "run".into(), "-q".into()]);
                words.push("--".into());
            }
            words.extend(grep.map(str::to_owned));
            command(words.remove(0), &words)
        };
        let (plain, watched) = (run(make(false)).expect(0), run(make(true)).expect(0));
        let (plain, watched) = (plain.out(), watched.out());
        assert!(plain.contains("SigIgn"), "{plain}");
        assert_eq!(settled(&plain), settled(&watched), "after {prefix:?}");
    }
}

#[test]
fn no_descriptor_is_left_open() {
    needs_root!();
    let (plain, watched) = both(|command| {
        command.args(["ls", "/proc/self/fd"]);
    });
    assert_eq!(plain.out(), watched.expect(0).out());
}

#[test]
fn limits_and_the_like_are_unchanged() {
    needs_root!();
    for file in [
        "limits",
        "oom_score_adj",
        "cgroup",
        "sched",
        "coredump_filter",
        "timerslack_ns",
    ] {
        let (plain, watched) = both(|command| {
            command.arg("cat").arg(format!("/proc/self/{file}"));
        });
        if file == "sched" {
            let policy = |finished: &Finished| -> Vec<String> {
                let out = finished.out();
                let lines = out
                    .lines()
                    .filter(|line| line.starts_with("policy") || line.starts_with("prio"));
                lines.map(str::to_owned).collect()
            };
            assert_eq!(policy(&plain), policy(&watched));
        } else {
            assert_eq!(plain.out(), watched.expect(0).out(), "{file}");
        }
    }
    let (plain, watched) = both(|command| {
        command.args(["sh", "-c", "pwd; umask; nice; ulimit -a"]);
    });
    assert_eq!(plain.out(), watched.expect(0).out());
}

#[test]
fn sigterm_is_passed_on_and_the_report_written() {
    needs_root!();
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["run", "--json", "--output"]);
    command.arg(&json).arg("--").arg(program("truth.c"));
    command.args(["threads=3", "rounds=100000", "base=1000"]);
    let mut sbt = start(command);
    sbt.wait_for("ready");
    crate::harness::pause(300);
    sbt.signal(libc::SIGTERM);
    sbt.finish().expect(128 + libc::SIGTERM);
    let report = Report::read(&json);
    assert!(report.number("episodes") > 20, "{report}");
    assert_eq!(report.number("exit_status"), 143);
    report.is_consistent();
}

#[test]
fn each_signal_is_passed_on_once() {
    needs_root!();
    for (signal, status) in [(libc::SIGINT, 11), (libc::SIGTERM, 15)] {
        let mut command = sbt_with(&["run", "-q", "--"]);
        command.arg(program("interrupts.c"));
        let mut sbt = start(command);
        sbt.wait_for("ready");
        sbt.signal(signal);
        sbt.finish().expect(status);
    }
}

/// Signals with which a batch system warns the processes that it has started.
#[test]
fn signals_that_mean_the_program_reach_it_and_watching_goes_on() {
    needs_root!();
    for (signal, name) in [(libc::SIGUSR1, "USR1"), (libc::SIGUSR2, "USR2")] {
        let script =
            format!("trap 'echo got; exit 5' {name}; echo on; while :; do sleep 0.05; done");
        let mut sbt = start(sbt_with(&["run", "--", "sh", "-c", &script]));
        sbt.wait_for("on");
        sbt.signal(signal);
        let finished = sbt.finish().expect(5);
        assert_eq!(finished.out(), "on\ngot\n");
        assert!(finished.stderr.contains("exit status 5"), "{finished}");
    }
}

/// `nohup`, or a shell that starts it with `&`.
#[test]
fn a_signal_that_was_ignored_from_the_start_is_ignored() {
    needs_root!();
    let script = format!(
        "trap '' HUP INT; exec {} run --json --output \"$0\" -- {} rounds=400 base=1000",
        sbt().display(),
        program("truth.c").display()
    );
    let folder = folder();
    let path = folder.path().join("report");
    let sbt = start(command(
        "sh",
        &["-c".as_ref(), script.as_ref(), path.as_os_str()],
    ));
    std::thread::sleep(std::time::Duration::from_millis(200));
    sbt.signal(libc::SIGHUP);
    sbt.signal(libc::SIGINT);
    sbt.finish().expect(0);
    let report = Report::read(&path);
    assert_eq!(report.number("episodes"), 400);
}

/// Some daemons start processes so: the kernel then forgets children that end.
#[test]
fn who_starts_sbt_may_ignore_its_children() {
    needs_root!();
    let folder = folder();
    let path = folder.path().join("report");
    let ignoring = |program: &[&OsStr]| {
        let mut command = sbt_with(&["run", "--output"]);
        command.arg(&path).arg("--").args(program);
        // SAFETY: a system call, which is allowed there.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                Ok(())
            });
        }
        command
    };
    let program = program("truth.c");
    let truth = [
        program.as_os_str(),
        "rounds=10".as_ref(),
        "status=7".as_ref(),
    ];
    run(ignoring(&truth)).expect(7);
    assert!(fs::read_to_string(&path).unwrap().contains("10 episodes"));
    // The program ignores them as it would without sbt.
    let grep = ["grep", "^SigIgn:.*1....$", "/proc/self/status"].map(OsStr::new);
    run(ignoring(&grep)).expect(0);
    let mut screen = Terminal::spawn(for_tty(ignoring(&truth)), USUAL);
    screen.leave_at_end();
    assert_eq!(screen.wait().code(), Some(7), "{}", screen.contents());
}

#[test]
fn who_cannot_write_its_report_waits_for_the_program() {
    needs_root!();
    for (status, expected) in [(7, 7), (0, 125)] {
        let mut command = sbt_with(&["run", "--duration=100ms", "--output=/dev/full", "--"]);
        command.arg(program("truth.c")).args([
            "rounds=100",
            "base=4000",
            &format!("status={status}"),
        ]);
        let finished = run(command).expect(expected);
        assert!(
            finished.stderr.contains("cannot write /dev/full: No space"),
            "{finished}"
        );
        assert!(finished.out().contains("done"), "{finished}");
    }
}

#[test]
fn a_program_that_ignores_the_signal_goes_on() {
    needs_root!();
    let mut command = sbt_with(&["run", "--"]);
    command.arg(program("truth.c"));
    command.args([
        "threads=3",
        "rounds=1500",
        "base=1000",
        "ignore=15",
        "status=6",
    ]);
    let mut sbt = start(command);
    sbt.wait_for("ready");
    crate::harness::pause(200);
    sbt.signal(libc::SIGTERM);
    let finished = sbt.finish().expect(6);
    assert!(finished.out().contains("done 4500"), "{finished}");
    assert!(finished.stderr.contains("episodes"), "{finished}");
}
