//! The order of the search, without files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use proptest::prelude::*;

use super::{super::walk_tests::Fake, *};
use crate::{arch::cpu::Level, elf::Dynamic};

const PROGRAM_PATH: &str = "/opt/app/bin/program";
const LINKER_PATH: &str = "/lib64/ld-linux-x86-64.so.2";

fn rules() -> Rules {
    Rules {
        library_path: Vec::new(),
        preloaded: Vec::new(),
        cache: Cache::default(),
        system: vec![b"/lib/arch/".to_vec(), b"/lib/".to_vec()],
        cpu: Cpu {
            level: Level::ANY,
            platform: "x86_64",
        },
        is_secure: false,
        current: b"/current".to_vec(),
    }
}

fn text(list: &str) -> Vec<u8> {
    list.as_bytes().to_vec()
}

/// The files that are loaded besides the linker, for a program that needs these libraries.
fn loaded(
    files: &mut Fake,
    rules: &Rules,
    needed: &[&str],
    more: impl FnOnce(&mut Dynamic),
) -> Vec<String> {
    let program = files.add_with(PROGRAM_PATH, needed, more);
    let linker = files.add_with(LINKER_PATH, &[], |dynamic| {
        dynamic.soname = Some(text("ld-linux-x86-64.so.2"));
    });
    let program = (Path::new(PROGRAM_PATH), program);
    let found = libraries(files, rules, program, (Path::new(LINKER_PATH), linker)).unwrap();
    let mut found = found.iter().map(|path| path.to_str().unwrap().to_owned());
    assert_eq!(found.next().as_deref(), Some(LINKER_PATH));
    found.collect()
}

#[test]
fn places_are_searched_in_the_linker_s_order() {
    let places = [
        "/opt/app/rpath",
        "/environment",
        "/opt/app/bin/runpath",
        "/lib/arch",
        "/lib",
    ];
    for kept in 0..places.len() {
        let mut files = Fake::default();
        for place in &places[kept..] {
            files.add(&format!("{place}/liba.so"), &[]);
        }
        let mut rules = rules();
        rules.library_path = b"/none:/environment".to_vec();
        let found = loaded(&mut files, &rules, &["liba.so"], |dynamic| {
            dynamic.runpath = (kept > 0).then(|| b"$ORIGIN/runpath".to_vec());
            dynamic.rpath = Some(text("/opt/app/rpath"));
        });
        assert_eq!(found, [format!("{}/liba.so", places[kept])]);
    }
}

#[test]
fn the_loaders_of_a_library_have_folders_for_it() {
    let mut files = Fake::default();
    files.add_with("/r/libb.so", &["libc.so", "libd.so"], |dynamic| {
        dynamic.rpath = Some(text("/b"));
    });
    files.add("/b/libc.so", &[]);
    files.add("/r/libc.so", &[]);
    files.add("/r/libd.so", &["libb.so", "ld-linux-x86-64.so.2"]);
    let found = loaded(&mut files, &rules(), &["libb.so"], |dynamic| {
        dynamic.rpath = Some(text("/r"));
    });
    // The library's own folders come first, then those of its loader, and no file is loaded twice.
    assert_eq!(found, ["/r/libb.so", "/b/libc.so", "/r/libd.so"]);
}

#[test]
fn names_of_files_and_of_the_files_themselves_are_known() {
    let mut files = Fake::default();
    files.add_with("/lib/libone.so", &[], |dynamic| {
        dynamic.soname = Some(text("libone.so.1"));
    });
    let found = loaded(&mut files, &rules(), &["libone.so", "libone.so.1"], |_| {});
    assert_eq!(found, ["/lib/libone.so"]);
    assert!(!files.tried.iter().any(|path| path.ends_with("libone.so.1")));
}

#[test]
fn files_of_other_processors_and_missing_ones_are_passed_over() {
    let mut files = Fake::default();
    files.add_foreign("/lib/arch/liba.so");
    files.add("/lib/liba.so", &[]);
    let found = loaded(&mut files, &rules(), &["libgone.so", "liba.so"], |_| {});
    assert_eq!(found, ["/lib/liba.so"]);
}

#[test]
fn whoever_skips_the_system_s_folders_does_so_for_its_own_libraries() {
    let mut files = Fake::default();
    files.add("/lib/liba.so", &["libc.so"]);
    files.add("/lib/libc.so", &[]);
    files.add("/opt/libb.so", &["liba.so"]);
    let found = loaded(&mut files, &rules(), &["liba.so", "libb.so"], |dynamic| {
        dynamic.runpath = Some(text("/opt"));
        dynamic.skips_system = true;
    });
    assert_eq!(found, ["/opt/libb.so", "/lib/liba.so", "/lib/libc.so"]);
}

#[test]
fn preloaded_libraries_come_first() {
    let mut files = Fake::default();
    files.add("/p/libp.so", &["liba.so"]);
    files.add("/lib/libq.so", &[]);
    files.add("/lib/liba.so", &[]);
    let mut rules = rules();
    rules.preloaded = ["$ORIGIN/../../../p/libp.so", "libq.so", "libnone.so"]
        .map(|name| name.as_bytes().to_vec())
        .to_vec();
    files.add("/opt/app/bin/../../../p/libp.so", &["liba.so"]);
    let found = loaded(&mut files, &rules, &["liba.so"], |_| {});
    let expected = [
        "/opt/app/bin/../../../p/libp.so",
        "/lib/libq.so",
        "/lib/liba.so",
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_word_for_the_library_folder_is_that_of_the_system() {
    for (system, expected) in [
        ("/lib/x86_64-linux-gnu/", "lib/x86_64-linux-gnu"),
        ("/usr/lib/x86_64-linux-gnu/", "lib/x86_64-linux-gnu"),
        ("/lib64/", "lib64"),
        ("/usr/lib/", "lib"),
        ("/opt/glibc-2.40/lib/", "lib"),
    ] {
        let system = [system.as_bytes().to_vec()];
        assert_eq!(lib(&system), expected.as_bytes());
    }
    assert_eq!(lib(&[]), b"lib");
}

/// Names that files may have and need.
fn name() -> impl Strategy<Value = String> {
    "[ab/$]{0,3}|lib[a-e]\\.so|/lib/lib[a-e]\\.so|\\$ORIGIN/lib[a-e]\\.so"
}

proptest! {
    /// Whatever files need of each other, the search ends, loads nothing twice, and loads only
    /// files that exist.
    #[test]
    fn any_needs(
        files in proptest::collection::vec(
            (name(), proptest::collection::vec(name(), 0..6), proptest::option::of(name())),
            0..8,
        ),
        lists in proptest::collection::vec("[:;./$ab]{0,8}|/lib|\\$ORIGIN", 3),
        is_secure in any::<bool>(),
    ) {
        let mut fake = Fake::default();
        for (name, needed, soname) in &files {
            let needed: Vec<&str> = needed.iter().map(String::as_str).collect();
            fake.add_with(&format!("/lib/{name}"), &needed, |dynamic| {
                dynamic.soname = soname.as_ref().map(|name| name.as_bytes().to_vec());
                dynamic.rpath = Some(text(&lists[0]));
            });
        }
        let rules = Rules { library_path: lists[1].as_bytes().to_vec(), is_secure, ..rules() };
        let needed: Vec<&str> = files.iter().map(|(name, ..)| name.as_str()).collect();
        let found = loaded(&mut fake, &rules, &needed, |dynamic| dynamic.runpath = Some(text(&lists[2])));
        let mut once = found.clone();
        once.sort();
        once.dedup();
        prop_assert!(once.len() == found.len() && found.len() <= fake.len());
    }
}
