//! Programs and scripts that are never run, only asked about.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Instant;

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

/// Certain or not.
fn will_map(program: &Path, user: Option<(u32, u32)>) -> Vec<PathBuf> {
    let WillMap { certain, possible } = super::will_map(program, user);
    [certain, possible].concat()
}

#[test]
fn both_styles_of_listings() {
    let glibc = b"\tlinux-vdso.so.1 (0x00007fffe9bf9000)\n\
        \tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f0c44000000)\n\
        \tlibgone.so => not found\n\
        \t./liblocal.so (0x00007f0c43000000)\n\
        \tlibodd.so => /opt/a (0x1) b/libodd.so (0x00007f0c43000000)\n\
        \t/lib64/ld-linux-x86-64.so.2 (0x00007f0c44200000)\n";
    let expected = [
        "/lib/x86_64-linux-gnu/libm.so.6",
        "./liblocal.so",
        "/opt/a (0x1) b/libodd.so",
        "/lib64/ld-linux-x86-64.so.2",
    ];
    assert_eq!(parse_list(glibc), expected.map(PathBuf::from));
    let musl = b"\t/lib/ld-musl-x86_64.so.1 (0x7f5c6a8d5000)\n\
        \tlibc.so => /lib/ld-musl-x86_64.so.1 (0x7f5c6a8d5000)\n";
    let expected = [Path::new("/lib/ld-musl-x86_64.so.1"); 2];
    assert_eq!(parse_list(musl), expected);
    let nonsense: &[u8] = b"AT_PHDR: 0x1\n /a (0xg)\n (0x)\n\xff/ (0x1\n\tstatically linked\n";
    assert_eq!(parse_list(nonsense), [] as [PathBuf; 0]);
}

#[test]
fn a_dynamic_program() {
    let folder = TempDir::new().unwrap();
    let options = ["-Wl,--no-as-needed", "-lm"];
    let program = build(&folder, "gcc", &options);
    let files = will_map(&program, None);
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
    let WillMap { certain, possible } = super::will_map(&build(&folder, "musl-gcc", &[]), None);
    assert_eq!(names(&certain), ["a", "ld-musl-x86_64.so.1"]);
    assert!(names(&possible).contains(&"libc.so.6"), "{possible:?}");
}

#[test]
fn a_static_program_maps_itself_only() {
    let folder = TempDir::new().unwrap();
    let program = build(&folder, "gcc", &["-static"]);
    assert_eq!(will_map(&program, None), [program]);
}

#[test]
fn scripts_stand_for_their_interpreters() {
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("script");
    for first in ["#!/bin/sh", "#! /bin/sh -e", "#!/bin/sh\t-e\nexit"] {
        executable(&script, first);
        let files = will_map(&script, None);
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
        let files = will_map(&script, None);
        assert!(has(&files, Path::new("/usr/bin/env")));
        assert!(has(&files, &sh()), "{first}: {files:?}");
    }
    let second = folder.path().join("second");
    executable(&second, &format!("#!{}\n", script.display()));
    assert!(has(&will_map(&second, None), &sh()));
}

#[test]
fn scripts_without_end_and_things_that_are_none() {
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("script");
    executable(&script, &format!("#!{}\n", script.display()));
    assert_eq!(executed(&script).len(), MAX_SCRIPTS + 1);
    for text in ["#!", "#! \n", "", "#!/does/not/exist", "\x7fELF"] {
        executable(&script, text);
        // The program is unknown: at least the C library is not missed.
        assert!(names(&will_map(&script, None)).contains(&"libc.so.6"));
    }
    will_map(Path::new("/does/not/exist"), None);
    will_map(folder.path(), None);
    will_map(Path::new("/dev/zero"), None);
}

/// A folder, a program in it that asks for an interpreter, and that one.
fn with_interpreter(name: &str, text: &str) -> (TempDir, PathBuf, PathBuf) {
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let interpreter = folder.path().join(name);
    executable(&interpreter, text);
    let option = format!("-Wl,--dynamic-linker={}", interpreter.display());
    let program = build(&folder, "gcc", &[&option]);
    (folder, program, interpreter)
}

#[test]
fn an_interpreter_that_does_not_answer() {
    let (_folder, program, _) = with_interpreter("ld-slow", "#!/bin/sh\nexec sleep 20\n");
    let start = Instant::now();
    let files = will_map(&program, None);
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(names(&files).contains(&"libc.so.6"), "{files:?}");
}

#[test]
fn an_interpreter_that_does_not_stop() {
    let (_folder, program, _) = with_interpreter("ld-loud", "#!/bin/sh\nexec yes\n");
    will_map(&program, None);
}

#[test]
fn only_linkers_are_executed() {
    let (folder, program, interpreter) = with_interpreter("other", "#!/bin/sh\n>\"$0.ran\"\n");
    assert_eq!(list(&interpreter, &program, None), None);
    will_map(&program, None);
    assert!(!folder.path().join("other.ran").exists());
}

#[test]
fn the_interpreter_runs_as_the_user() {
    let text = "#!/bin/sh\necho \"x => /$(id -u)/$(id -g)/$(id -G) (0x0)\"\n";
    let (_folder, program, interpreter) = with_interpreter("ld-id", text);
    // SAFETY: a system call without arguments that cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let listed = list(&interpreter, &program, Some((12345, 23456)));
    assert_eq!(listed.unwrap(), [Path::new("/12345/23456/23456")]);
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
    // The current folder, which tests run in the crate's: no program in it.
    assert_eq!(
        find_program(OsStr::new("Cargo.toml"), Some(OsStr::new(""))),
        None
    );
}
