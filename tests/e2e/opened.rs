//! The rights with which a file is opened, by the origin of its path: the command line, `sbt.toml`,
//! the environment, the target.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::{
    harness::{Report, command, eventually, folder, install, needs_root, run, sbt_with},
    privilege::{Open, as_nobody, under_sudo},
    programs::{line, program},
    tty::{Terminal, USUAL, for_tty},
};

const NOBODY: u32 = 65534;

/// The content of files of root, which must stay as it is.
const ROOTS: &str = "root's own";

/// Folders and files of root's, and of the user who calls sudo.
struct Owned {
    all: TempDir,
}

impl Owned {
    /// `roots/secret` is root's, for root alone; `home` is the user's, with `home/.rc` and the project `home/project`.
    fn new() -> Self {
        let this = Self { all: folder() };
        fs::create_dir(this.at("roots")).unwrap();
        this.write_as_root("roots/secret", ROOTS);
        for name in ["home", "home/project", "home/project/sub"] {
            fs::create_dir(this.at(name)).unwrap();
            this.give(name);
        }
        this.write("home/.rc", "mine");
        this
    }

    fn at(&self, name: &str) -> PathBuf {
        self.all.path().join(name)
    }

    fn give(&self, name: &str) {
        chown(self.at(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }

    /// A file of the user's.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
        self.give(name);
    }

    fn write_as_root(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
        fs::set_permissions(self.at(name), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn link(&self, to: impl AsRef<Path>, name: &str) {
        symlink(to, self.at(name)).unwrap();
        std::os::unix::fs::lchown(self.at(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }

    /// The names and contents of the files in all folders: a line each.
    fn all(&self) -> Vec<String> {
        let mut folders = vec![self.all.path().to_owned()];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                let text = if meta.is_file() {
                    String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
                } else {
                    String::new()
                };
                let (owner, kind) = (meta.uid(), meta.file_type());
                found.push(format!("{} {owner} {kind:?} {text}", path.display()));
                if meta.is_dir() {
                    folders.push(path);
                }
            }
        }
        found.sort();
        found
    }
}

#[test]
fn what_settings_name_to_be_read_is_read_as_the_user() {
    needs_root!();
    let owned = Owned::new();
    let report = owned.at("roots/before.json");
    let mut command = sbt_with(&["run", "--json", "--output"]);
    command.arg(&report).args(["--", "true"]);
    run(command).expect(0);
    fs::set_permissions(&report, fs::Permissions::from_mode(0o600)).unwrap();
    let text = format!("[check]\nbaseline = \"{}\"\n", report.display());
    let check = |options: &[&str]| {
        let mut command = under_sudo(&["check"]);
        command.args(options).args(["--", "true"]);
        command.current_dir(owned.at("home/project"));
        run(command)
    };
    // Whoever types sudo may read it.
    let typed = format!("--baseline={}", report.display());
    let finished = check(&[&typed]);
    assert!(!finished.stderr.contains("Permission denied"), "{finished}");
    owned.write("home/project/sbt.toml", &text);
    let finished = check(&[]).expect(125);
    assert!(
        finished.one_line().contains("Permission denied"),
        "{finished}"
    );
}

#[test]
fn settings_are_read_as_the_user() {
    needs_root!();
    let owned = Owned::new();
    owned.link(owned.at("roots/secret"), "home/project/sbt.toml");
    let mut command = under_sudo(&["run", "-v", "--", "true"]);
    command.current_dir(owned.at("home/project"));
    let finished = run(command).expect(125);
    assert!(
        finished.one_line().contains("Permission denied"),
        "{finished}"
    );
    assert!(!finished.stderr.contains("own"), "{finished}");
}

/// The program is the user's, and moves folders while sbt waits for its end.
#[test]
fn under_sudo_a_folder_that_the_program_replaces_leads_nowhere() {
    needs_root!();
    for keep in [&[][..], &["--keep=100ms"]] {
        let owned = Owned::new();
        let out = owned.at("home/out");
        fs::create_dir(&out).unwrap();
        owned.give("home/out");
        let script = format!(
            "mv {0} {0}.old; ln -s {1} {0}; sleep 0.5",
            out.display(),
            owned.at("roots").display()
        );
        let before = owned.all();
        let roots = |all: Vec<String>| -> Vec<String> {
            let is_roots = |entry: &String| entry.contains("/roots");
            all.into_iter().filter(is_roots).collect()
        };
        let mut command = under_sudo(&["run", "--output"]);
        command.arg(out.join("report.txt")).args(keep);
        command.arg("-o").arg(out.join("run.sbt"));
        command.args(["--", "sh", "-c", &script]);
        let finished = run(command).expect(125);
        assert!(
            finished.stderr.contains("that root does not own"),
            "{finished}"
        );
        assert_eq!(roots(owned.all()), roots(before), "{finished}");
        // What was opened before is written, wherever it lies by now.
        let recorded = fs::metadata(owned.at("home/out.old/run.sbt")).unwrap();
        assert!(recorded.len() > 0);
    }
}

#[test]
fn under_sudo_a_file_with_another_name_is_not_written() {
    needs_root!();
    let owned = Owned::new();
    let report = owned.at("home/report.txt");
    fs::hard_link(owned.at("roots/secret"), &report).unwrap();
    let mut command = under_sudo(&["run", "--output"]);
    command.arg(&report).args(["--", "true"]);
    let finished = run(command).expect(125);
    assert!(finished.one_line().contains("a second name"), "{finished}");
    assert_eq!(fs::read_to_string(&report).unwrap(), ROOTS);
    // No other user can have put the file into root's own folder: sbt writes it.
    let mut command = under_sudo(&["run", "--output"]);
    command.arg(owned.at("roots/secret")).args(["--", "true"]);
    run(command).expect(0);
    assert_ne!(fs::read_to_string(&report).unwrap(), ROOTS);
    // A new file there is written too, and belongs to the user who typed the path.
    let new = owned.at("roots/new");
    let mut command = under_sudo(&["run", "--output"]);
    command.arg(&new).args(["--", "true"]);
    run(command).expect(0);
    assert_eq!(fs::metadata(&new).unwrap().uid(), NOBODY);
}

/// Whoever may execute the binary does not get its capabilities for files.
#[test]
fn capabilities_of_the_binary_open_no_files_of_others() {
    needs_root!();
    let open = Open::new();
    let owned = Owned::new();
    let sbt = open.capable("cap_dac_override,cap_dac_read_search,cap_fowner,cap_chown+ep");
    let secret = owned.at("roots/secret");
    for path in [&secret, &owned.at("roots/new")] {
        let mut command = as_nobody(&sbt);
        command
            .args(["run", "--output"])
            .arg(path)
            .args(["--", "true"]);
        let finished = run(command).expect(125);
        assert!(
            finished.one_line().contains("Permission denied"),
            "{finished}"
        );
    }
    let mut command = as_nobody(&sbt);
    command.arg("report").arg(&secret);
    let finished = run(command).expect(1);
    assert!(
        finished.one_line().contains("Permission denied"),
        "{finished}"
    );
    assert_eq!(fs::read_to_string(&secret).unwrap(), ROOTS);
    assert!(!owned.at("roots/new").exists());
}

#[test]
fn the_folder_for_temporary_files_is_used_as_the_user() {
    needs_root!();
    let owned = Owned::new();
    // What a series of runs hands on has no name at all.
    let mut command = under_sudo(&[
        "scale",
        "-n",
        "1",
        "--repeat=1",
        "--",
        "sh",
        "-c",
        "exit {n}0",
    ]);
    command.env("TMPDIR", owned.at("nowhere"));
    let finished = run(command);
    assert!(finished.stderr.contains("exit status 10"), "{finished}");

    let path = program("talks.c");
    let talks = owned.at("home/talks");
    install(&path, &talks);
    let mut command = under_sudo(&["run", "--"]);
    command.arg(&talks);
    let temporary = owned.at("home/project");
    command.env("TMPDIR", &temporary);
    let terminal = Terminal::spawn(for_tty(command), USUAL);
    terminal.shows_screen_with("moving");
    let fds = format!("/proc/{}/fd", terminal.pid());
    let uid = eventually(crate::harness::LIMIT, || {
        let all = fs::read_dir(&fds).ok()?.filter_map(Result::ok);
        let kept = all.map(|fd| fd.path()).find(|fd| {
            let to = fs::read_link(fd).unwrap_or_default();
            to.starts_with(&temporary)
        });
        Some(fs::metadata(kept?).ok()?.uid())
    });
    assert_eq!(uid, Some(NOBODY));
}

/// A program, and its debug information in a file of its own, which the program names.
fn split(owned: &Owned) -> PathBuf {
    let copy = owned.at("home/truth");
    install(&program("truth.c"), &copy);
    let debug = owned.at("roots/truth.debug");
    let objcopy = |arguments: &[&str], files: &[&Path]| {
        let mut command = command("objcopy", arguments);
        command.args(files).current_dir(owned.at("roots"));
        run(command).expect(0);
    };
    objcopy(&["--only-keep-debug"], &[&copy, &debug]);
    objcopy(&["--strip-debug"], &[&copy]);
    objcopy(&["--add-gnu-debuglink=truth.debug"], &[&copy]);
    owned.give("home/truth");
    copy
}

#[test]
fn debug_information_is_opened_as_the_user() {
    needs_root!();
    let owned = Owned::new();
    let truth = split(&owned);
    let debug = owned.at("roots/truth.debug");
    owned.link(&debug, "home/truth.debug");
    let json = owned.at("home/report.json");
    let line_of = |typed: &Path| {
        let mut command = under_sudo(&["run", "-q", "--json", "--output"]);
        command.current_dir(owned.at("home"));
        command.arg(&json).arg("--").arg(typed);
        // The program still runs when its lines are looked up.
        command.args(["threads=2", "rounds=20", "hold=200000"]);
        run(command).expect(0);
        Report::read(&json).sites()[0]["line"].as_u64()
    };
    let expected = u64::from(line("truth.c", "SITE meet"));
    for (mode, found) in [(0o600, None), (0o644, Some(expected)), (0o600, None)] {
        fs::set_permissions(&debug, fs::Permissions::from_mode(mode)).unwrap();
        for typed in [&*truth, Path::new("./truth")] {
            assert_eq!(line_of(typed), found, "{mode:o} {}", typed.display());
        }
    }
    // Root reads root's own program, since the program runs as root.
    let mut command = under_sudo(&["run", "-q", "--as-root", "--json", "--output"]);
    command.arg(&json).arg("--").arg(&truth);
    command.args(["threads=2", "rounds=20"]);
    run(command).expect(0);
    assert_eq!(Report::read(&json).sites()[0]["line"], expected);
}

/// Root looks at a process of somebody else's.
#[test]
fn debug_information_of_a_process_is_opened_as_its_user() {
    needs_root!();
    let owned = Owned::new();
    let truth = split(&owned);
    let debug = owned.at("roots/truth.debug");
    owned.link(&debug, "home/truth.debug");
    let expected = u64::from(line("truth.c", "SITE meet"));
    for (mode, found) in [(0o600, None), (0o644, Some(expected))] {
        fs::set_permissions(&debug, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = as_nobody(&truth);
        command.args(["threads=2", "rounds=100000", "base=1000"]);
        let mut target = crate::harness::start(command);
        target.wait_for("ready");
        let json = owned.at("report.json");
        let mut command = sbt_with(&["attach", "-q", "--duration=300ms", "--json", "--output"]);
        command.arg(&json).arg(target.pid().to_string());
        run(command).expect(0);
        assert_eq!(
            Report::read(&json).sites()[0]["line"].as_u64(),
            found,
            "{mode:o}"
        );
    }
}

/// A file that the user may execute but not read is probed all the same: it is in the memory of the
/// user's process.
#[test]
fn a_program_that_may_only_be_executed_is_watched() {
    needs_root!();
    let owned = Owned::new();
    let truth = owned.at("roots/truth");
    install(&program("truth.c"), &truth);
    fs::set_permissions(&truth, fs::Permissions::from_mode(0o711)).unwrap();
    fs::set_permissions(owned.at("roots"), fs::Permissions::from_mode(0o711)).unwrap();
    let json = owned.at("home/report.json");
    let mut command = under_sudo(&["run", "-q", "--json", "--output"]);
    command.arg(&json).arg("--").arg(&truth);
    command.args(["threads=3", "rounds=100"]);
    run(command).expect(0);
    Report::read(&json).is_exactly(300, 100);
}
