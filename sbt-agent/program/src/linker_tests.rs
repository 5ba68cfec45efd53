//! Compares what this machine's dynamic linkers say with what sbt finds without them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    collections::BTreeSet,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    process::Command,
};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const MAIN: &str = "int main(void) { return 0; }";

/// Device and inode.
type Id = (u64, u64);

fn id(path: &Path) -> Id {
    let meta = fs::metadata(path).unwrap();
    (meta.dev(), meta.ino())
}

/// The paths in the output of `ld.so --list`, of glibc and musl alike: `libc.so.6 => /lib/libc.so.6
/// (0x7f…)` or `/lib/ld.so (0x7f…)`.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (line, _) = line.trim_start().rsplit_once(" (0x")?;
        let path = line.split_once(" => ").map_or(line, |(_, path)| path);
        // The vDSO has no path. For a file in the current folder only the name is shown.
        (!path.starts_with("linux-vdso")).then_some(path)
    })
}

/// The files that a program's dynamic linker loads for it, as the linker says itself.
fn asked(program: &Path, environment: &Environment) -> BTreeSet<Id> {
    let image = fs::read(program).unwrap();
    let interpreter = elf::interpreter(&image).unwrap();
    // glibc's linker lists the files of programs that may gain privileges only with --list.
    let gains = fs::metadata(program).unwrap().mode() & (libc::S_ISUID | libc::S_ISGID) != 0;
    let is_musl = interpreter.to_str().unwrap().contains("ld-musl");
    let mut command = if is_musl || gains {
        let mut command = Command::new(&interpreter);
        command.arg("--list").arg(program);
        command
    } else {
        // As ldd does it: glibc's linker lists the files and ends, before the program begins. With
        // --list the linker takes another folder for $ORIGIN, and may crash on missing files.
        let mut command = Command::new(program);
        command.env("LD_TRACE_LOADED_OBJECTS", "1");
        command
    };
    command.current_dir(&environment.current);
    for (name, value) in [
        ("LD_LIBRARY_PATH", &environment.library_path),
        ("LD_PRELOAD", &environment.preload),
    ] {
        command.env_remove(name);
        if !value.is_empty() {
            command.env(name, OsStr::from_bytes(value));
        }
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{program:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let found = paths(&text).map(|path| id(&environment.current.join(path)));
    found.collect()
}

fn found(program: &Path, environment: &Environment) -> BTreeSet<Id> {
    let image = fs::read(program).unwrap();
    let interpreter = elf::interpreter(&image).unwrap();
    let found = libraries(program, &interpreter, environment).unwrap();
    found
        .iter()
        .map(|path| id(&environment.current.join(path)))
        .collect()
}

fn plain() -> Environment {
    Environment {
        current: env::current_dir().unwrap(),
        ..Environment::default()
    }
}

/// Checks that the linker and sbt find the same files, at least one.
fn agree(program: &Path, environment: &Environment) -> BTreeSet<Id> {
    let asked = asked(program, environment);
    assert!(!asked.is_empty());
    assert_eq!(found(program, environment), asked, "{program:?}");
    asked
}

fn build(folder: &Path, name: &str, text: &str, options: &[&str]) -> PathBuf {
    let (source, output) = (folder.join("a.c"), folder.join(name));
    fs::create_dir_all(output.parent().unwrap()).unwrap();
    fs::write(&source, text).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.arg(&source).arg("-o").arg(&output).args(options);
    gcc.current_dir(folder);
    assert!(gcc.status().unwrap().success(), "{options:?}");
    output
}

fn library(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let soname = Path::new(name).file_name().unwrap().to_str().unwrap();
    let soname = format!("-Wl,-soname,{soname}");
    let own = ["-shared", "-fPIC", "-Wl,--no-as-needed", &soname];
    build(folder, name, "int x;", &[&own[..], options].concat())
}

#[test]
fn all_programs_of_this_machine_load_what_their_linkers_say() {
    let mut kinds = HashSet::new();
    let mut compared = 0;
    for folder in ["/usr/bin", "/usr/sbin", "/usr/libexec"] {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let Ok(file) = elf::open_regular(&path) else {
                continue;
            };
            let Ok(image) = elf::map(&file) else {
                continue;
            };
            let (Some(interpreter), Ok(dynamic)) = (elf::interpreter(&image), Dynamic::of(&image))
            else {
                continue;
            };
            // Hundreds of programs need the same libraries in the same place.
            let path = fs::canonicalize(path).unwrap();
            let is_known = interpreter.starts_with("/lib64/ld-linux-x86-64.so.2");
            let place = path.parent().map(Path::to_owned);
            if !is_known || !kinds.insert((place, format!("{dynamic:?}"))) {
                continue;
            }
            assert_eq!(found(&path, &plain()), asked(&path, &plain()), "{path:?}");
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn folders_that_programs_and_libraries_name_are_searched_as_the_linker_does() {
    let folder = TempDir::new().unwrap();
    let folder = &fs::canonicalize(folder.path()).unwrap();
    let (own, other) = ("-Wl,--enable-new-dtags", "-Wl,--disable-new-dtags");
    // libtop.so needs libdeep.so, which lies in another folder.
    let deep = library(folder, "deep/libdeep.so", &[]);
    let top = library(folder, "lib/libtop.so", &["-Ldeep", "-ldeep"]);
    let needs_top = [
        "-Wl,--no-as-needed",
        "-Llib",
        "-ltop",
        "-Wl,-rpath-link,deep",
    ];
    let with = |name: &str, options: &[&str]| {
        let options = [&needs_top[..], options].concat();
        let program = build(folder, name, MAIN, &options);
        agree(&program, &plain())
    };
    // DT_RPATH also counts for the libraries of libraries, DT_RUNPATH does not.
    let both = "-Wl,-rpath,$ORIGIN/../lib:${ORIGIN}/../deep";
    let rpath = with("bin/rpath", &[both, other]);
    assert!(rpath.contains(&id(&deep)) && rpath.contains(&id(&top)));
    let runpath = with("bin/runpath", &[both, own]);
    assert!(!runpath.contains(&id(&deep)) && runpath.contains(&id(&top)));
    assert!(!with("bin/neither", &[]).contains(&id(&top)));
    // $ORIGIN of a program that is started through a link: the folder of the program itself.
    symlink(folder.join("bin/rpath"), folder.join("link")).unwrap();
    let linked = found(&folder.join("link"), &plain());
    assert_eq!(linked, rpath);
    with("bin/words", &["-Wl,-rpath,/$UNKNOWN:$ORIGIN/../lib", own]);

    // A library has its own folders.
    let top = library(
        folder,
        "lib/libtop.so",
        &["-Ldeep", "-ldeep", "-Wl,-rpath,$ORIGIN/../deep", own],
    );
    let all = with("bin/own", &["-Wl,-rpath,$ORIGIN/../lib", own]);
    assert!(all.contains(&id(&deep)) && all.contains(&id(&top)));
    // If a library has its own folders, its loader's DT_RPATH does not count.
    library(
        folder,
        "lib/libtop.so",
        &["-Ldeep", "-ldeep", "-Wl,-rpath,/nowhere", own],
    );
    assert!(!with("bin/rpath", &[both, other]).contains(&id(&deep)));
}

#[test]
fn the_environment_counts_as_for_the_linker() {
    let folder = TempDir::new().unwrap();
    let folder = &fs::canonicalize(folder.path()).unwrap();
    for place in ["first", "second", "named"] {
        library(folder, &format!("{place}/libone.so"), &[]);
    }
    let extra = library(folder, "named/libextra.so", &["-lm"]);
    let options = ["-Wl,--no-as-needed", "-Lnamed", "-lone"];
    let named = |option: &str| {
        let options = [&options[..], &["-Wl,-rpath,$ORIGIN/named", option]].concat();
        build(folder, "program", MAIN, &options)
    };
    let of = |place: &str| id(&folder.join(place).join("libone.so"));
    let with = |library_path: String, preload: String| Environment {
        library_path: library_path.into_bytes(),
        preload: preload.into_bytes(),
        current: folder.clone(),
    };
    let path = |places: &[&str]| {
        let places = places
            .iter()
            .map(|place| folder.join(place).display().to_string());
        places.collect::<Vec<_>>().join(":")
    };
    // DT_RUNPATH comes behind LD_LIBRARY_PATH, DT_RPATH before it.
    let program = named("-Wl,--enable-new-dtags");
    let both = with(path(&["none", "second", "first"]), String::new());
    assert!(agree(&program, &both).contains(&of("second")));
    let relative = with("none;first:".into(), String::new());
    assert!(agree(&program, &relative).contains(&of("first")));
    let word = with("$ORIGIN/second".into(), String::new());
    assert!(agree(&program, &word).contains(&of("second")));
    fs::copy(folder.join("first/libone.so"), folder.join("libone.so")).unwrap();
    let current = with(":".into(), String::new());
    assert!(agree(&program, &current).contains(&of(".")));
    assert!(agree(&program, &with(String::new(), String::new())).contains(&of("named")));
    let program_rpath = named("-Wl,--disable-new-dtags");
    assert!(agree(&program_rpath, &both).contains(&of("named")));

    let preloaded = with(
        path(&["first"]),
        format!("libm.so.6 libgone.so:{}", extra.display()),
    );
    let program = named("-Wl,--enable-new-dtags");
    let all = agree(&program, &preloaded);
    assert!(all.contains(&id(&extra)) && all.contains(&of("first")));
}

#[test]
fn one_file_is_loaded_once_and_names_are_known() {
    let folder = TempDir::new().unwrap();
    let folder = &fs::canonicalize(folder.path()).unwrap();
    let one = library(folder, "lib/libone.so.1", &[]);
    symlink("libone.so.1", folder.join("lib/libone.so")).unwrap();
    symlink("libone.so.1", folder.join("lib/libother.so")).unwrap();
    // A library that is preloaded by its path satisfies needs by its name.
    let options = ["-Wl,--no-as-needed", "-Llib", "-lone"];
    let program = build(folder, "program", MAIN, &options);
    let by_path = Environment {
        preload: one.as_os_str().as_bytes().to_vec(),
        ..plain()
    };
    assert!(agree(&program, &by_path).contains(&id(&one)));
    assert!(!agree(&program, &plain()).contains(&id(&one)));
    // A file of another processor is skipped.
    fs::create_dir(folder.join("foreign")).unwrap();
    let mut image = fs::read(&one).unwrap();
    image[18] = 183;
    fs::write(folder.join("foreign/libone.so.1"), image).unwrap();
    let environment = Environment {
        library_path: b"foreign:lib".to_vec(),
        current: folder.clone(),
        ..Environment::default()
    };
    assert!(agree(&program, &environment).contains(&id(&one)));
    // A path is taken as it is.
    library(folder, "lib/libpath.so", &["-Wl,-soname,lib/libpath.so"]);
    let options = [
        "-Wl,--no-as-needed",
        "lib/libpath.so",
        "-Wl,-z,nodefaultlib",
    ];
    let program = build(folder, "program", MAIN, &options);
    let here = Environment {
        current: folder.clone(),
        ..Environment::default()
    };
    let path = id(&folder.join("lib/libpath.so"));
    assert!(found(&program, &here).contains(&path));
    assert!(!found(&program, &plain()).contains(&path));
}

#[test]
fn programs_of_musl_load_what_their_linker_says() {
    let folder = TempDir::new().unwrap();
    let folder = &fs::canonicalize(folder.path()).unwrap();
    let musl = |name: &str, text: &str, options: &[&str]| {
        let (source, output) = (folder.join("a.c"), folder.join(name));
        fs::create_dir_all(output.parent().unwrap()).unwrap();
        fs::write(&source, text).unwrap();
        let mut gcc = Command::new("musl-gcc");
        gcc.arg(&source).arg("-o").arg(&output).args(options);
        assert!(gcc.current_dir(folder).status().unwrap().success());
        output
    };
    let shared = ["-shared", "-fPIC"];
    let deep = musl("deep/libdeep.so", "int y;", &shared);
    let options = [&shared[..], &["-Wl,--no-as-needed", "-Ldeep", "-ldeep"]].concat();
    let top = musl("lib/libtop.so", "int x;", &options);
    let needs = [
        "-Wl,--no-as-needed",
        "-Llib",
        "-ltop",
        "-Wl,-rpath-link,deep",
    ];
    let program = musl("bin/plain", MAIN, &needs);
    // The linker does not list libraries that it cannot find.
    let nothing = found(&program, &plain());
    assert_eq!(nothing.len(), 1);
    let environment = Environment {
        library_path: b"lib:deep".to_vec(),
        current: folder.clone(),
        ..Environment::default()
    };
    assert_eq!(agree(&program, &environment).len(), 3);
    // musl's DT_RUNPATH also counts for the libraries of libraries.
    for kind in ["-Wl,--enable-new-dtags", "-Wl,--disable-new-dtags"] {
        let options = [
            &needs[..],
            &["-Wl,-rpath,$ORIGIN/../lib:${ORIGIN}/../deep", kind],
        ]
        .concat();
        let program = musl("bin/named", MAIN, &options);
        let all = agree(&program, &plain());
        assert!(all.contains(&id(&top)) && all.contains(&id(&deep)));
    }
    let preload = Environment {
        preload: [b"/x.so ", deep.as_os_str().as_bytes()].concat(),
        ..plain()
    };
    let program = musl("bin/empty", MAIN, &[]);
    assert!(found(&program, &preload).contains(&id(&deep)));
}

#[test]
fn what_is_no_dynamic_linker_is_not_guessed_at() {
    let folder = TempDir::new().unwrap();
    let program = build(folder.path(), "program", MAIN, &[]);
    for interpreter in ["/bin/true", "/nowhere/ld.so", "/etc/passwd", "/dev/null"] {
        let found = libraries(&program, Path::new(interpreter), &plain());
        assert_eq!(found, None, "{interpreter}");
    }
}

#[test]
fn endless_lists_are_given_up() {
    let folder = TempDir::new().unwrap();
    let rpath = format!("-Wl,-rpath,{}", "/a:".repeat(20_000));
    for name in ["libone.so", "libtwo.so", "libthree.so"] {
        library(folder.path(), name, &[]);
    }
    // Each of four libraries is looked for in all folders.
    let all = ["-Wl,--no-as-needed", "-L.", "-lone", "-ltwo", "-lthree"];
    let options = [&all[..], &[&rpath]].concat();
    let program = build(folder.path(), "program", MAIN, &options);
    let image = fs::read(&program).unwrap();
    let interpreter = elf::interpreter(&image).unwrap();
    assert_eq!(libraries(&program, &interpreter, &plain()), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Damaged programs give fewer libraries, or none, and the search ends.
    #[test]
    fn damaged_programs(at in 0_usize..4096, bytes in proptest::collection::vec(any::<u8>(), 1..64)) {
        let folder = TempDir::new().unwrap();
        let mut image = fs::read("/bin/true").unwrap();
        let end = image.len().min(at + bytes.len());
        image[at..end].copy_from_slice(&bytes[..end - at]);
        let program = folder.path().join("program");
        fs::write(&program, &image).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
        if let Some(interpreter) = elf::interpreter(&image) {
            for path in libraries(&program, &interpreter, &plain()).unwrap_or_default() {
                prop_assert!(path.exists(), "{path:?}");
            }
        }
    }
}
