//! Root without all of root's capabilities, as in containers, and users with some capabilities: sbt
//! looks into processes with as many capabilities as its own, and does not send root to sudo.

use std::{fs, path::Path, process::Command};

use crate::{
    harness::{Report, command, folder, needs_root, run, sbt, start},
    privilege::{Open, as_nobody},
    programs::program,
    tty::children,
};

/// The capabilities that docker gives.
const DOCKER: &str = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,\
                      +net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap";

/// A program as root with these and `more` capabilities.
fn with(more: &str, program: &Path) -> Command {
    let bounding = format!("--bounding-set={DOCKER}{more}");
    let mut command = command("setpriv", &["--inh-caps=-all", &bounding, "--"]);
    command.arg(program);
    command.env_remove("SUDO_UID").env_remove("SUDO_GID");
    command
}

const SETUID: u64 = 1 << 7;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;

const BACKENDS: [&str; 3] = ["auto", "ptrace", "perf"];

#[test]
fn programs_are_run_and_joined_with_what_docker_gives() {
    needs_root!(alone);
    let folder = folder();
    let json = folder.path().join("report.json");
    let truth = program("truth.c");
    let mut target = start({
        let mut command = with("", &truth);
        command.args(["threads=3", "rounds=1000000", "base=1000"]);
        command
    });
    target.wait_for("ready");
    for backend in BACKENDS {
        let option = format!("--backend={backend}");
        let options = [option.as_str(), "--budget=off", "--json", "--output"];
        let mut command = with("", sbt());
        command.arg("run").args(options).arg(&json).arg("--");
        command
            .arg(&truth)
            .args(["threads=3", "rounds=100", "status=7"]);
        run(command).expect(7);
        let report = Report::read(&json);
        report.is_exactly(300, 100);
        assert_eq!(report.sites()[0]["function"], "meet", "{report}");

        let mut command = with("", sbt());
        command.arg("attach").args(options).arg(&json);
        command.args(["--duration=300ms", &target.pid().to_string()]);
        run(command).expect(0);
        let report = Report::read(&json);
        assert!(report.number("episodes") > 10, "{report}");
        assert_eq!(report.sites()[0]["function"], "meet", "{report}");

        let mut command = with("", sbt());
        command.args(["demo", "-q", &option, "--scale=0.05", "matmul"]);
        let finished = run(command).expect(0);
        assert!(finished.out().contains("OK"), "{finished}");
    }
    let mut command = with("", sbt());
    command.args(["hang", &target.pid().to_string()]);
    let finished = run(command).expect(0);
    assert!(finished.out().contains("truth.c"), "{finished}");
    target.signal(libc::SIGTERM);
    target.finish();
}

/// A process that becomes another user may not be looked into any more, and neither may the
/// children that it forks then with sbt's breakpoints.
#[test]
fn children_of_one_that_becomes_somebody_else_live() {
    needs_root!(breakpoints);
    for (option, said) in [("dumpable=0", "0"), ("dumpable=1", "1")] {
        let mut command = with("", sbt());
        command.args(["run", "-q", "--backend=ptrace", "--"]);
        command
            .arg(program("closed.c"))
            .args(["user=65534", option]);
        let finished = run(command).expect(4);
        let expected = format!("child {said} {said}\nended 600\nown {said}\n");
        assert_eq!(finished.out(), expected);
    }
}

/// Without the right to send signals a thread that begins is one still.
#[test]
fn threads_of_others_are_threads_also_without_the_right_to_signal() {
    needs_root!(breakpoints);
    let open = Open::new();
    let mut target = as_nobody(&open.copy(&program("comeandgo.c")));
    target.args(["waves=1000000", "threads=4", "rounds=2"]);
    let target = start(target);
    let json = open.path("report.json");
    for option in ["--children", "--no-children"] {
        let mut command = command(
            "setpriv",
            &["--inh-caps=-all", "--bounding-set=-kill", "--"],
        );
        command.arg(sbt());
        command.args(["attach", "--backend=ptrace", "--budget=off", option]);
        command.args(["--duration=500ms", "--json", "--output"]);
        command.arg(&json).arg(target.pid().to_string());
        run(command).expect(0);
        let report = Report::read(&json);
        assert!(report.number("episodes") > 10, "{report}");
        assert!(report.threads().len() > 12, "{report}");
        assert!(report.list("processes").len() <= 1, "{report}");
    }
    target.signal(libc::SIGTERM);
    target.finish();
}

/// The permitted capabilities of a process, as a mask.
fn permitted(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("CapPrm:"));
    let hex = line.unwrap().split_whitespace().last().unwrap();
    u64::from_str_radix(hex, 16).unwrap()
}

fn name(process: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm"));
    name.unwrap_or_default().trim().to_owned()
}

#[test]
fn who_has_ptrace_keeps_nothing_for_the_sake_of_the_target() {
    needs_root!(breakpoints);
    for (more, events, expected) in [
        ("", "", SETUID),
        (",+sys_ptrace", "", 0),
        (",+sys_ptrace,+bpf,+perfmon", "", 0),
        (",+sys_ptrace,+bpf,+perfmon", "-etask-clock", PERFMON),
    ] {
        let mut command = with(more, sbt());
        command.args(["run", "-q", "--backend=ptrace"]);
        command.args(Some(events).filter(|it| !it.is_empty()));
        command.arg("--").arg(program("truth.c"));
        command.args(["threads=2", "rounds=100000", "base=1000"]);
        let mut watching = start(command);
        watching.wait_for("ready");
        let mut all = children(watching.pid()).into_iter();
        let tracer = all.find(|pid| name(*pid) == "breakpoints").unwrap();
        let kept = permitted(tracer) & (SETUID | PERFMON | BPF);
        assert_eq!(kept, expected, "{more}");
        assert_eq!(permitted(watching.pid()) & SETUID, expected & SETUID);
        watching.signal(libc::SIGTERM);
        watching.finish();
    }
}

#[test]
fn root_is_told_what_root_lacks() {
    needs_root!();
    let truth = program("truth.c");
    // A process with more capabilities.
    let mut target = start(command(&truth, &["hold=20000000"]));
    target.wait_for("ready");
    let pid = target.pid().to_string();
    for arguments in [
        &["hang"][..],
        &["attach"],
        &["attach", "--backend=ptrace"],
        &["attach", "--backend=perf"],
    ] {
        let mut command = with("", sbt());
        command.args(arguments).arg(&pid);
        let finished = run(command);
        assert_ne!(finished.code(), 0);
        let line = finished.one_line();
        assert!(line.contains("CAP_SYS_PTRACE"), "{line}");
        assert!(line.contains("--cap-add SYS_PTRACE"), "{line}");
        assert!(!line.contains("sudo") && !line.contains("setcap"), "{line}");
    }
    let mut command = with("", sbt());
    command.args(["run", "--backend=ebpf", "--", "true"]);
    let finished = run(command).expect(125);
    let line = finished.one_line();
    assert!(line.contains("missing CAP_BPF and CAP_PERFMON"), "{line}");
    assert!(
        line.contains("--cap-add BPF") && !line.contains("sudo"),
        "{line}"
    );
    // With sudo in there: the program would be somebody else's.
    let open = Open::new();
    for backend in BACKENDS {
        let mark = open.path(backend);
        let mut command = with("", sbt());
        command.env("SUDO_UID", "65534").env("SUDO_GID", "65534");
        command.args(["run", "--backend", backend, "--", "touch"]);
        command.arg(&mark);
        let finished = run(command).expect(125);
        assert!(finished.one_line().contains("--as-root"), "{finished}");
        assert!(!mark.exists(), "the program was started");
    }
}

/// Docker's with `CAP_SYS_PTRACE`: others' processes may be read because they may be written.
#[test]
fn what_hangs_of_others_is_looked_at_with_ptrace_alone() {
    needs_root!();
    let open = Open::new();
    let truth = open.copy(&program("truth.c"));
    let mut command = as_nobody(&truth);
    command.args(["threads=3", "hold=20000000"]);
    let mut target = start(command);
    target.wait_for("ready");
    let mut command = with(",+sys_ptrace", sbt());
    command.args(["hang", &target.pid().to_string()]);
    run(command).expect(0);
}

/// The program has the user's capabilities, as sbt has; the kernel refuses eBPF only when sbt tries
/// it.
#[test]
fn a_user_with_ambient_capabilities_falls_back_to_breakpoints() {
    needs_root!(breakpoints);
    let open = Open::new();
    let (sbt, truth) = (open.copy(sbt()), open.copy(&program("truth.c")));
    let confined = open.copy(&program("confined.c"));
    let json = open.path("report.json");
    let mut command = command(
        "setpriv",
        &[
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=+bpf,+perfmon",
            "--ambient-caps=+bpf,+perfmon",
            "--",
        ],
    );
    command.arg(confined).arg(sbt);
    command.args(["run", "--budget=off", "--json", "--output"]);
    command.arg(&json).arg("--").arg(&truth);
    command.args(["threads=3", "rounds=100", "status=7"]);
    let finished = run(command).expect(7);
    let line = finished.one_line();
    assert!(line.contains("using ptrace instead (slower)"), "{line}");
    let report = Report::read(&json);
    report.is_exactly(300, 100);
    assert_eq!(report.0["backend"], "ptrace", "{report}");
}
