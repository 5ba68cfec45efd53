//! Programs and scripts that are never run, only asked about.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{os::unix::fs::chown, process::Command};

use tempfile::TempDir;

use super::*;

const MAIN: &str = "int main(void) { return 0; }";

fn build(folder: &TempDir, compiler: &str, options: &[&str]) -> PathBuf {
    let (input, output) = (folder.path().join("a.c"), folder.path().join("a"));
    fs::write(&input, MAIN).unwrap();
    let mut command = Command::new(compiler);
    command.arg(&input).arg("-o").arg(&output).args(options);
    assert!(command.status().unwrap().success());
    output
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn names(paths: &[PathBuf]) -> Vec<&str> {
    paths
        .iter()
        .filter_map(|path| path.file_name()?.to_str())
        .collect()
}

fn sh() -> PathBuf {
    fs::canonicalize(find_program(OsStr::new("sh"), None).unwrap()).unwrap()
}

fn has(paths: &[PathBuf], file: &Path) -> bool {
    let file = fs::canonicalize(file).unwrap();
    paths
        .iter()
        .any(|path| fs::canonicalize(path).unwrap() == file)
}

/// All files, whether certain or possible.
fn will_map(program: &Path) -> Vec<PathBuf> {
    let WillMap { certain, possible } = super::will_map(program);
    [certain, possible].concat()
}

#[test]
fn a_dynamic_program() {
    let folder = TempDir::new().unwrap();
    let options = ["-Wl,--no-as-needed", "-lm"];
    let program = build(&folder, "gcc", &options);
    let files = will_map(&program);
    assert_eq!(files[0], program);
    let names = names(&files);
    for library in ["ld-linux-x86-64.so.2", "libm.so.6", "libc.so.6"] {
        let count = names.iter().filter(|&&name| name == library).count();
        assert_eq!(count, 1, "{library} in {files:?}");
    }
}

#[test]
fn a_dynamic_program_of_musl() {
    let folder = TempDir::new().unwrap();
    let WillMap { certain, possible } = super::will_map(&build(&folder, "musl-gcc", &[]));
    assert_eq!(names(&certain), ["a", "ld-musl-x86_64.so.1"]);
    assert!(names(&possible).contains(&"libc.so.6"), "{possible:?}");
}

#[test]
fn a_static_program_maps_itself_only() {
    let folder = TempDir::new().unwrap();
    let program = build(&folder, "gcc", &["-static"]);
    assert_eq!(will_map(&program), [program]);
}

#[test]
fn scripts_stand_for_their_interpreters() {
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("script");
    for first in ["#!/bin/sh", "#! /bin/sh -e", "#!/bin/sh\t-e\nexit"] {
        executable(&script, first);
        let files = will_map(&script);
        assert!(has(&files, &sh()), "{first}: {files:?}");
        assert!(names(&files).contains(&"libc.so.6"), "{first}: {files:?}");
        assert!(!files.contains(&script));
    }
    for first in [
        "#!/usr/bin/env sh",
        "#!/usr/bin/env -S sh -e",
        "#!/usr/bin/env -i A=1 sh\n",
    ] {
        executable(&script, first);
        let files = will_map(&script);
        assert!(has(&files, Path::new("/usr/bin/env")));
        assert!(has(&files, &sh()), "{first}: {files:?}");
    }
    let second = folder.path().join("second");
    executable(&second, &format!("#!{}\n", script.display()));
    assert!(has(&will_map(&second), &sh()));
}

#[test]
fn scripts_without_end_and_things_that_are_none() {
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("script");
    executable(&script, &format!("#!{}\n", script.display()));
    assert_eq!(executed(&script).len(), MAX_SCRIPTS + 1);
    for text in ["#!", "#! \n", "", "#!/does/not/exist", "\x7fELF"] {
        executable(&script, text);
        // The program is unknown: at least the C library must be found.
        assert!(names(&will_map(&script)).contains(&"libc.so.6"));
    }
    will_map(Path::new("/does/not/exist"));
    will_map(folder.path());
    will_map(Path::new("/dev/zero"));
}

/// An interpreter is not executed, whoever owns it, and whatever it is called.
#[test]
fn no_interpreter_is_executed() {
    for (name, owner) in [
        ("ld-mark", None),
        ("ld-linux-x86-64.so.2", None),
        ("ld-other", Some(12345)),
    ] {
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let interpreter = folder.path().join(name);
        executable(&interpreter, "#!/bin/sh\n>\"$0.ran\"\n");
        if owner.is_some() && chown(&interpreter, owner, owner).is_err() {
            // Only root may give files away.
            continue;
        }
        let option = format!("-Wl,--dynamic-linker={}", interpreter.display());
        let program = build(&folder, "gcc", &[&option]);
        let files = will_map(&program);
        assert!(names(&files).contains(&"libc.so.6"), "{files:?}");
        let ran = folder.path().join(format!("{name}.ran"));
        assert!(!ran.exists(), "{name}");
    }
}

/// A program with a real interpreter is not executed either: that would load a library that leaves
/// a mark.
#[test]
fn what_a_program_loads_is_found_and_not_run() {
    let folder = TempDir::new().unwrap();
    let mark = folder.path().join("mark");
    let text = format!(
        "#include <stdio.h>\n__attribute__((constructor)) static void begin(void) {{ \
         fclose(fopen({mark:?}, \"w\")); }}\n"
    );
    let (source, library) = (folder.path().join("l.c"), folder.path().join("libmark.so"));
    fs::write(&source, text).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC"])
        .arg(&source)
        .arg("-o")
        .arg(&library);
    assert!(gcc.status().unwrap().success());
    let path = library.to_str().unwrap();
    let program = build(&folder, "gcc", &["-Wl,--no-as-needed", path]);
    let WillMap { certain, .. } = super::will_map(&program);
    assert!(has(&certain, &library), "{certain:?}");
    assert!(!mark.exists());
}

#[test]
fn programs_are_found_as_execvp_finds_them() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("a/program")).unwrap();
    fs::create_dir_all(path("b")).unwrap();
    fs::create_dir_all(path("c")).unwrap();
    fs::write(path("b/program"), "not executable").unwrap();
    executable(&path("c/program"), "");
    let list = env::join_paths(["a", "nowhere", "b", "c"].map(path)).unwrap();
    let find = |name: &str| find_program(OsStr::new(name), Some(&list));
    assert_eq!(find("program"), Some(path("c/program")));
    assert_eq!(find("other"), None);
    assert_eq!(find(""), None);
    assert_eq!(find(path("b/program").to_str().unwrap()), None);
    let direct = path("c/program");
    assert_eq!(find(direct.to_str().unwrap()), Some(direct));
    assert!(find_program(OsStr::new("sh"), None).is_some());
    // An empty entry is the current folder. Tests run in the crate's folder, which has no program.
    assert_eq!(
        find_program(OsStr::new("Cargo.toml"), Some(OsStr::new(""))),
        None
    );
}
