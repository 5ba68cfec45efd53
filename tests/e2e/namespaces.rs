//! Containers: other process numbers, other files at the same paths.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    harness::{
        Finished, Report, Started, attach, command, eventually, folder, needs_root, run, sbt,
        sbt_with, start,
    },
    privilege::{Open, as_nobody},
    programs::{line, program},
};

/// Prefixes a command with a new process and mount namespace.
fn contained(program: &Path) -> Command {
    let mut command = command(
        "unshare",
        &["--pid", "--fork", "--mount", "--mount-proc", "--"],
    );
    command.arg(program);
    command
}

/// The one child of a process.
#[track_caller]
fn child(parent: &Started) -> u32 {
    let path = format!("/proc/{0}/task/{0}/children", parent.pid());
    eventually(crate::harness::LIMIT, || {
        fs::read_to_string(&path).ok()?.trim().parse().ok()
    })
    .unwrap()
}

#[track_caller]
fn named(report: &Report) {
    let site = report.site_at(line("truth.c", "SITE meet"));
    assert_eq!(site["function"], "meet", "{report}");
}

#[test]
fn run_inside_a_container() {
    needs_root!();
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = contained(sbt());
    command
        .args(["run", "--json", "--output"])
        .arg(&json)
        .arg("--");
    command
        .arg(program("truth.c"))
        .args(["threads=3", "rounds=100", "status=7"]);
    run(command).expect(7);
    let report = Report::read(&json);
    report.is_exactly(300, 100);
    named(&report);
    // Process numbers inside of the container.
    for thread in report.threads() {
        assert!(thread["tid"].as_u64().unwrap() < 100, "{report}");
    }
}

/// Attaches inside of a container to what a shell there has started: `$1` is the program.
#[track_caller]
fn attach_inside(started: &str, options: &str) {
    let folder = folder();
    let json = folder.path().join("report.json");
    let script = format!(
        "{started} & sleep 0.2; \"$2\" attach {options} --json --output \"$3\" $!; echo $?; wait $!"
    );
    let mut command = contained("sh".as_ref());
    command
        .args(["-c", &script, "sh"])
        .arg(program("truth.c"))
        .arg(sbt())
        .arg(&json);
    let finished = run(command).expect(0);
    let report = Report::read(&json);
    report.is_exactly(300, 100);
    named(&report);
    assert!(finished.out().ends_with("0\n"), "{finished}");
}

#[test]
fn attach_inside_a_container() {
    needs_root!();
    attach_inside("\"$1\" threads=3 rounds=100 hold=4000000", "");
}

/// sbt and its target are in one container, and both use the container's process numbers.
#[test]
fn attach_to_children_inside_a_container() {
    needs_root!();
    attach_inside(
        "sh -c '\"$0\" threads=3 rounds=100 hold=4000000; :' \"$1\"",
        "--children",
    );
}

#[test]
fn attach_from_outside_a_container() {
    needs_root!();
    let mut command = contained(&program("truth.c"));
    command.args(["threads=3", "rounds=100", "hold=4000000"]);
    let mut target = start(command);
    target.wait_for("ready");
    let pid = child(&target);
    let report = attach(pid, &[]).report();
    report.is_exactly(300, 100);
    named(&report);
    // Process numbers outside of the container.
    assert_eq!(report.number("pid"), u64::from(pid));
    assert!(
        report.threads().iter().any(|thread| thread["tid"] == pid),
        "{report}"
    );
    target.finish().expect(0);
}

/// A root folder of its own with the program and copies of its libraries.
fn root_folder() -> (tempfile::TempDir, PathBuf) {
    let folder = folder();
    let truth = program("truth.c");
    let listed = run(command("ldd", &[&truth])).expect(0).out();
    let libraries = listed
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from);
    for path in libraries {
        let copy = folder.path().join(path.strip_prefix("/").unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(&path, &copy).unwrap();
    }
    fs::copy(&truth, folder.path().join("truth")).unwrap();
    let path = folder.path().to_path_buf();
    (folder, path)
}

#[test]
fn attach_to_another_root() {
    needs_root!();
    let (_folder, root) = root_folder();
    let mut command = command("chroot", &[&root]);
    command.args(["/truth", "threads=3", "rounds=100", "hold=4000000"]);
    let mut target = start(command);
    target.wait_for("ready");
    let report = attach(target.pid(), &[]).report();
    report.is_exactly(300, 100);
    named(&report);
    target.finish().expect(0);
}

#[test]
fn run_into_another_root() {
    needs_root!();
    let (_folder, root) = root_folder();
    let root = root.to_str().unwrap();
    // Its files are known only once it runs; then there must be time enough.
    let report = crate::harness::watch(
        "/usr/sbin/chroot".as_ref(),
        &[root, "/truth", "threads=3", "rounds=100", "hold=3000000"],
    );
    report.is_exactly(300, 100);
    named(&report);
}

/// Namespaces of its own of all kinds that a user without privileges may make.
const UNPRIVILEGED: &str = "unshare --user --map-root-user --pid --fork --mount --mount-proc --net \
                            --ipc --uts";

/// A shell's script as nobody, with `$1` …
fn by_nobody(script: &str, arguments: &[&Path]) -> Command {
    let mut command = as_nobody("sh".as_ref());
    command.args(["-c", script, "sh"]).args(arguments);
    command
}

/// The process at the end of a line of only children.
fn last_descendant(of: &Started) -> u32 {
    let mut pid = of.pid();
    loop {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        match children.trim().parse() {
            Ok(child) => pid = child,
            Err(_) => return pid,
        }
    }
}

#[test]
fn attach_into_a_container_without_privileges() {
    needs_root!();
    let open = Open::new();
    let truth = open.copy(&program("truth.c"));
    // What runs there is on a file system that nobody else sees, twice as deep.
    let script = format!(
        "exec {UNPRIVILEGED} sh -c 'mount -t tmpfs none /mnt && cp \"$1\" /mnt/only_here && \
         unshare --pid --fork --mount-proc /mnt/only_here threads=3 rounds=100 hold=4000000; \
         exit $?' sh \"$1\""
    );
    let mut target = start(by_nobody(&script, &[&truth]));
    target.wait_for("ready");
    let pid = last_descendant(&target);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let numbers = status.lines().find(|line| line.starts_with("NSpid:"));
    assert_eq!(numbers.unwrap().split_whitespace().count(), 4, "{status}");
    let report = attach(pid, &[]).report();
    report.is_exactly(300, 100);
    named(&report);
    assert_eq!(report.sites()[0]["binary"], "only_here");
    assert_eq!(report.number("pid"), u64::from(pid));
    assert!(report.threads().iter().any(|thread| thread["tid"] == pid));
    target.finish().expect(0);
}

#[test]
fn inside_of_a_container_without_privileges_it_is_told() {
    needs_root!();
    let open = Open::new();
    let sbt = open.copy(sbt());
    let inside = |arguments: &str| -> Finished {
        run(by_nobody(
            &format!("exec {UNPRIVILEGED} \"$1\" {arguments}"),
            &[&sbt],
        ))
    };
    let finished = inside("run --backend=ebpf -- true").expect(125);
    let line = finished.one_line();
    assert!(
        line.contains("user namespace") && !line.contains("setcap"),
        "{line}"
    );
    // Without it breakpoints do, and the same is said first.
    let finished = inside("run -- true").expect(0);
    let line = finished.stderr.lines().next().unwrap_or_default();
    assert!(
        line.contains("user namespace") && line.contains("using ptrace instead"),
        "{line}"
    );
    let finished = inside("doctor").expect(0);
    assert!(
        finished
            .out()
            .contains("less  container     sbt runs in a user namespace"),
        "{finished}"
    );
    let finished = run(sbt_with(&["doctor"])).expect(0);
    assert!(finished.out().contains("OK    container"), "{finished}");
}

#[test]
fn attach_to_another_root_as_an_ordinary_user() {
    needs_root!();
    let (_folder, root) = root_folder();
    let open = Open::new();
    let sbt = open.capable("cap_bpf,cap_perfmon,cap_sys_ptrace+ep");
    let mut command = command("chroot", &[&root]);
    command.args(["/truth", "threads=3", "rounds=100", "hold=4000000"]);
    let mut target = start(command);
    target.wait_for("ready");
    let json = open.path("a.json");
    let mut command = as_nobody(&sbt);
    command
        .args(["attach", "--json", "--output"])
        .arg(&json)
        .arg(target.pid().to_string());
    run(command).expect(0);
    let report = Report::read(&json);
    report.is_exactly(300, 100);
    named(&report);
    target.finish().expect(0);
}

/// Root in a container without privileges watches by breakpoints, since nothing else works there.
#[test]
fn watched_inside_of_a_container_without_privileges() {
    needs_root!(breakpoints);
    for backend in ["ptrace", "perf"] {
        let open = Open::new();
        let (sbt, truth) = (open.copy(sbt()), open.copy(&program("truth.c")));
        let [ran, attached] = ["ran.json", "attached.json"].map(|name| open.path(name));
        let script = format!(
            "exec {UNPRIVILEGED} sh -c '\
             \"$1\" run --backend={backend} --budget=off --json --output \"$3\" -- \
                 \"$2\" threads=3 rounds=100 base=1000; echo $?; \
             \"$2\" threads=3 rounds=100 base=1000 hold=4000000 & sleep 0.5; \
             \"$1\" attach --backend={backend} --budget=off --json --output \"$4\" $!; echo $?; \
             wait $!' sh \"$1\" \"$2\" \"$3\" \"$4\""
        );
        let finished = run(by_nobody(&script, &[&sbt, &truth, &ran, &attached])).expect(0);
        assert_eq!(
            finished.out().matches("done 300\n").count(),
            2,
            "{finished}"
        );
        for json in [ran, attached] {
            let report = Report::read(&json);
            report.is_exactly(300, 100);
            named(&report);
            assert_eq!(report.0["backend"], backend, "{report}");
        }
    }
}

#[test]
fn watched_from_outside_of_a_container_by_breakpoints() {
    needs_root!(breakpoints);
    for backend in ["ptrace", "perf"] {
        let open = Open::new();
        let (sbt, truth) = (open.copy(sbt()), open.copy(&program("truth.c")));
        let script = format!(
            "exec {UNPRIVILEGED} sh -c 'mount -t tmpfs none /mnt && cp \"$1\" /mnt/only_here && \
             /mnt/only_here threads=3 rounds=100 base=1000 hold=4000000; exit $?' sh \"$1\""
        );
        let mut target = start(by_nobody(&script, &[&truth]));
        target.wait_for("ready");
        let pid = last_descendant(&target);
        let json = open.path("report.json");
        let mut command = as_nobody(&sbt);
        command.arg("attach").arg(format!("--backend={backend}"));
        command.args(["--budget=off", "--json", "--output"]);
        command.arg(&json).arg(pid.to_string());
        run(command).expect(0);
        let report = Report::read(&json);
        report.is_exactly(300, 100);
        named(&report);
        assert_eq!(report.0["backend"], backend, "{report}");
        target.finish().expect(0);
    }
}
