//! The rights of users: without capabilities, with capabilities, under sudo.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::{
    harness::{Report, command, folder, install, needs_root, run, sbt, sbt_with, start},
    programs::program,
};

const NOBODY: &str = "65534";

/// A folder that everybody may write to, with a copy of a program in it.
pub struct Open {
    folder: TempDir,
}

impl Open {
    pub fn new() -> Self {
        let folder = folder();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        Self { folder }
    }

    pub fn copy(&self, program: &Path) -> PathBuf {
        let copy = self.folder.path().join(program.file_name().unwrap());
        install(program, &copy);
        copy
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A copy of sbt whose file has capabilities.
    pub fn capable(&self, capabilities: &str) -> PathBuf {
        let sbt = self.copy(sbt());
        let mut setcap = command("setcap", &[capabilities]);
        setcap.arg(&sbt);
        let finished = run(setcap);
        assert!(
            finished.status.success(),
            "apt-get install libcap2-bin? {finished}"
        );
        sbt
    }
}

/// A command as a user without any privilege.
pub fn as_nobody(program: &Path) -> Command {
    as_user(NOBODY, program)
}

/// A command as `user` would start it.
pub fn as_user(user: &str, program: &Path) -> Command {
    let (uid, gid) = (format!("--reuid={user}"), format!("--regid={user}"));
    let mut command = command("setpriv", &[uid.as_str(), &gid, "--clear-groups", "--"]);
    command.arg(program);
    command
}

#[test]
fn nobody_is_told_what_is_missing_before_anything_starts() {
    needs_root!();
    let open = Open::new();
    let sbt = open.copy(sbt());
    let mark = open.path("started");
    for option in ["--states=light", "--states=full"] {
        let mut command = as_nobody(&sbt);
        command.args(["run", "--backend=ebpf", option, "--", "touch"]);
        command.arg(&mark);
        let finished = run(command).expect(125);
        let line = finished.one_line();
        for word in [
            "CAP_BPF",
            "CAP_PERFMON",
            "sudo",
            "setcap",
            sbt.to_str().unwrap(),
        ] {
            assert!(line.contains(word), "{line}");
        }
        assert!(!mark.exists(), "the program was started");
    }
}

#[test]
fn nobody_watches_programs_of_their_own() {
    // Probes of others, at the same places, come before breakpoints.
    needs_root!(alone);
    let open = Open::new();
    let sbt = open.copy(sbt());
    let truth = open.copy(&program("truth.c"));
    let json = open.path("report.json");
    let mut command = as_nobody(&sbt);
    command.args(["run", "--budget=off", "--json", "--output"]);
    command.arg(&json).arg("--").arg(&truth);
    command.args(["threads=3", "rounds=100", "status=7"]);
    let finished = run(command).expect(7);
    let line = finished.one_line();
    for word in ["CAP_BPF", "setcap", "using ptrace instead (slower)"] {
        assert!(line.contains(word), "{line}");
    }
    let report = Report::read(&json);
    report.is_exactly(300, 100);
    assert_eq!(report.0["backend"], "ptrace", "{report}");
    assert_eq!(report.sites()[0]["function"], "meet", "{report}");
    // What it costs is known.
    assert!(report.0["own_cost"]["share_pct"].is_number(), "{report}");
}

#[test]
fn nobody_attaches_to_processes_of_their_own_only() {
    needs_root!();
    let open = Open::new();
    let sbt = open.copy(sbt());
    let truth = open.copy(&program("truth.c"));
    let mut theirs = as_nobody(&truth);
    theirs.args(["threads=3", "rounds=400", "base=3000"]);
    let mut theirs = start(theirs);
    theirs.wait_for("ready");
    let json = open.path("report.json");
    let mut command = as_nobody(&sbt);
    command.args(["attach", "--duration=0.3", "--json", "--output"]);
    command.arg(&json).arg(theirs.pid().to_string());
    run(command).expect(0);
    let report = Report::read(&json);
    assert!(report.number("episodes") > 5, "{report}");
    theirs.finish().expect(0);
    let mut ours = start(command_of(&truth));
    ours.wait_for("ready");
    let mut command = as_nobody(&sbt);
    command.args(["attach", &ours.pid().to_string()]);
    let finished = run(command).expect(125);
    let line = finished.one_line();
    assert!(
        line.contains("CAP_SYS_PTRACE") && line.contains("setcap"),
        "{line}"
    );
}

fn command_of(truth: &Path) -> Command {
    command(truth, &["hold=20000000"])
}

#[test]
fn nobody_may_ask() {
    needs_root!();
    let open = Open::new();
    let sbt = open.copy(sbt());
    for (arguments, word) in [
        (["--help"].as_slice(), "attach"),
        (&["--version"], "sbt "),
        (&["demo", "list"], "lu-block"),
    ] {
        let mut command = as_nobody(&sbt);
        command.args(arguments);
        let finished = run(command).expect(0);
        assert!(finished.out().contains(word), "{finished}");
        assert_eq!(finished.stderr, "");
    }
    let mut command = as_nobody(&sbt);
    command.arg("doctor");
    // Breakpoints are left.
    let finished = run(command).expect(0);
    for word in [
        "less  capabilities  missing CAP_BPF",
        "setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep",
        "OK    ptrace",
    ] {
        assert!(finished.out().contains(word), "{finished}");
    }
    assert!(!finished.stderr.contains("panicked"), "{finished}");
}

#[test]
fn root_is_well() {
    needs_root!();
    let finished = run(sbt_with(&["doctor"])).expect(0);
    assert!(finished.out().contains("OK    rehearsal"), "{finished}");
    assert!(!finished.out().contains("NO  "), "{finished}");
    // With everything switched on, also what no run has asked for yet.
    let finished = run(sbt_with(&["doctor", "--programs"])).expect(0);
    let out = finished.out();
    for program in ["arrive ", "away ", "kmp ", "sys_enter "] {
        assert!(
            out.lines().any(|line| line.starts_with(program)),
            "{finished}"
        );
    }
    assert!(!out.contains("refused"), "{finished}");
}

#[test]
fn capabilities_are_enough() {
    needs_root!();
    let open = Open::new();
    let sbt = open.capable("cap_bpf,cap_perfmon,cap_sys_ptrace+ep");
    let truth = open.copy(&program("truth.c"));
    let json = open.path("report.json");

    let mut command = as_nobody(&sbt);
    command
        .args(["run", "--json", "--output"])
        .arg(&json)
        .arg("--")
        .arg(&truth);
    command.args(["threads=3", "rounds=100"]);
    let finished = run(command).expect(0);
    assert_eq!(finished.stderr, "");
    let report = Report::read(&json);
    report.is_exactly(300, 100);
    assert_eq!(report.sites()[0]["function"], "meet", "{report}");

    // The program itself gets none of it.
    let mut command = as_nobody(&sbt);
    command.args(["run", "-q", "--", "grep", "^Cap", "/proc/self/status"]);
    let watched = run(command).expect(0).out();
    let mut command = as_nobody("grep".as_ref());
    command.args(["^Cap", "/proc/self/status"]);
    assert_eq!(watched, run(command).expect(0).out());

    // Attach to a process of one's own.
    let mut command = as_nobody(&truth);
    command.args(["threads=3", "rounds=1500", "base=2000"]);
    let mut target = start(command);
    target.wait_for("ready");
    let mut command = as_nobody(&sbt);
    command.args(["attach", "--json", "--output"]).arg(&json);
    command.arg(target.pid().to_string());
    run(command).expect(0);
    let report = Report::read(&json);
    assert!(report.number("episodes") > 10, "{report}");
    assert_eq!(report.sites()[0]["function"], "meet", "{report}");

    let mut command = as_nobody(&sbt);
    command.arg("doctor");
    let finished = run(command).expect(0);
    assert!(finished.out().contains("OK    rehearsal"), "{finished}");
}

pub fn under_sudo(arguments: &[&str]) -> Command {
    let mut command = sbt_with(arguments);
    command
        .env("SUDO_UID", NOBODY)
        .env("SUDO_GID", NOBODY)
        .env("SUDO_USER", "nobody");
    command
}

#[test]
fn under_sudo_the_program_knows_nothing_of_sudo() {
    needs_root!();
    for (name, value) in [
        ("SUDO_USER", "nobody"),
        ("DOAS_USER", "nobody"),
        ("PKEXEC_UID", NOBODY),
    ] {
        let script = "echo $(id -un) $USER ${SUDO_UID-}${SUDO_USER-}${DOAS_USER-}${PKEXEC_UID-}";
        let mut command = sbt_with(&["run", "-q", "--", "sh", "-c", script]);
        command.env(name, value);
        if name == "SUDO_USER" {
            command.env("SUDO_UID", NOBODY).env("SUDO_GID", NOBODY);
        }
        assert_eq!(run(command).expect(0).out(), "nobody nobody\n", "{name}");
    }
}

/// The program is the user's, and sbt is root.
#[test]
fn under_sudo_a_link_that_the_program_makes_is_not_followed() {
    needs_root!();
    let open = Open::new();
    let home = open.path("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    let victim = open.path("victim");
    let report = home.join("report.txt");
    for (kept, target) in [(true, "victim"), (false, "not-there")] {
        fs::write(&victim, "root's own").unwrap();
        let script = format!(
            "rm -f {0}; ln -s {1} {0}",
            report.display(),
            open.path(target).display()
        );
        let mut command = under_sudo(&["run", "--output"]);
        command.arg(&report).args(["--", "sh", "-c", &script]);
        let finished = run(command).expect(125);
        assert!(finished.stderr.contains("is a symbolic link"), "{finished}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "root's own");
        assert_eq!(open.path(target).exists(), kept);
        fs::remove_file(&report).unwrap();
    }
    // Only root can have made this link, so root meant it.
    let mut command = under_sudo(&["run", "--output", "/dev/stdout", "--"]);
    command.arg("true");
    let finished = run(command).expect(0);
    assert!(finished.out().contains("No barrier was seen"), "{finished}");
}

#[test]
fn under_sudo_nothing_is_lost_in_a_folder_for_the_user_alone() {
    needs_root!();
    let open = Open::new();
    let truth = open.copy(&program("truth.c"));
    let home = open.path("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    let at = |name: &str| home.join(name);
    let mut command = under_sudo(&["run", "--json", "--keep=200ms", "--sample=200"]);
    for (option, name) in [
        ("-o", "a.sbt"),
        ("--output", "a.json"),
        ("--folded", "a.txt"),
    ] {
        command.arg(option).arg(at(name));
    }
    command
        .arg("--")
        .arg(&truth)
        .args(["rounds=300", "base=2000", "load=spin"]);
    run(command).expect(0);
    assert!(Report::read(&at("a.json")).number("episodes") > 200);
    let mut command = under_sudo(&["report", "--html"]);
    command
        .arg(at("a.html"))
        .arg("--perfetto")
        .arg(at("a.trace"))
        .arg(at("a.sbt"));
    run(command).expect(0);
    let files: Vec<_> = fs::read_dir(&home).unwrap().map(|it| it.unwrap()).collect();
    assert_eq!(files.len(), 5, "{files:?}");
    for file in files {
        let is = file.metadata().unwrap();
        assert_eq!((is.uid(), is.gid()), (65534, 65534), "{file:?}");
        assert!(is.len() > 0, "{file:?}");
    }
}

#[test]
fn under_sudo_the_program_is_the_users() {
    needs_root!();
    let script = "id -u; id -g; id -G; grep ^CapEff /proc/self/status";
    let finished = run(under_sudo(&["run", "-q", "--", "sh", "-c", script])).expect(0);
    assert_eq!(
        finished.out(),
        format!("{NOBODY}\n{NOBODY}\n{NOBODY}\nCapEff:\t0000000000000000\n")
    );
    let finished = run(under_sudo(&["run", "-q", "--as-root", "--", "id", "-u"])).expect(0);
    assert_eq!(finished.out(), "0\n");
    let finished = run(sbt_with(&["run", "-q", "--", "id", "-u"])).expect(0);
    assert_eq!(finished.out(), "0\n");
}

#[test]
fn under_sudo_barriers_are_found_and_files_are_the_users() {
    needs_root!();
    let open = Open::new();
    let truth = open.copy(&program("truth.c"));
    let (json, existing) = (open.path("new.json"), open.path("existing.json"));
    fs::write(&existing, "").unwrap();
    for (path, owner) in [(&json, 65534), (&existing, 0)] {
        let mut command = under_sudo(&["run", "--json", "--output"]);
        command
            .arg(path)
            .arg("--")
            .arg(&truth)
            .args(["threads=3", "rounds=100"]);
        run(command).expect(0);
        Report::read(path).is_exactly(300, 100);
        let owned = fs::metadata(path).unwrap();
        assert_eq!((owned.uid(), owned.gid()), (owner, owner));
    }
}

#[test]
fn under_sudo_a_program_only_root_may_execute_does_not_start() {
    needs_root!();
    let open = Open::new();
    let truth = open.copy(&program("truth.c"));
    fs::set_permissions(&truth, fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = under_sudo(&["run", "--"]);
    command.arg(&truth);
    let finished = run(command).expect(126);
    assert!(finished.one_line().contains("truth"), "{finished}");
}
