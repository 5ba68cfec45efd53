//! The order of musl's search, without files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::{super::walk_tests::Fake, *};
use crate::elf::Dynamic;

const PROGRAM_PATH: &str = "/opt/app/bin/program";
const LINKER_PATH: &str = "/lib/ld-musl-x86_64.so.1";

fn rules() -> Rules {
    Rules {
        library_path: Vec::new(),
        preloaded: Vec::new(),
        folders: FOLDERS.to_vec(),
        is_secure: false,
        current: b"/current".to_vec(),
    }
}

/// The files that are loaded besides the linker, for a program that needs these libraries.
fn loaded(
    files: &mut Fake,
    rules: &Rules,
    needed: &[&str],
    more: impl FnOnce(&mut Dynamic),
) -> Vec<String> {
    let program = files.add_with(PROGRAM_PATH, needed, more);
    let linker = files.add(LINKER_PATH, &[]);
    let program = (Path::new(PROGRAM_PATH), program);
    let found = libraries(files, rules, program, (Path::new(LINKER_PATH), linker)).unwrap();
    let mut found = found.iter().map(|path| path.to_str().unwrap().to_owned());
    assert_eq!(found.next().as_deref(), Some(LINKER_PATH));
    found.collect()
}

#[test]
fn its_own_libraries_are_itself() {
    let mut files = Fake::default();
    let own = [
        "libc.so",
        "libpthread.so.0",
        "libc.musl-x86_64.so.1",
        "libm.so.6",
        LINKER_PATH,
    ];
    for name in own {
        files.add(&format!("/lib/{name}"), &[]);
    }
    files.add("/usr/lib/libcurl.so", &[]);
    let needed = [&own[..], &["libcurl.so"]].concat();
    let found = loaded(&mut files, &rules(), &needed, |_| {});
    assert_eq!(found, ["/usr/lib/libcurl.so"]);
}

#[test]
fn places_are_searched_in_the_linker_s_order() {
    let places = [
        "/environment",
        "/library",
        "/opt/app/bin/../r",
        "/lib",
        "/usr/local/lib",
    ];
    for kept in 0..places.len() {
        let mut files = Fake::default();
        for place in &places[kept..] {
            files.add(&format!("{place}/liba.so"), &[]);
        }
        files.add_with("/usr/lib/libtop.so", &["liba.so"], |dynamic| {
            dynamic.runpath = Some(b"/library".to_vec());
        });
        let mut rules = rules();
        rules.library_path = b"/none:/environment".to_vec();
        let found = loaded(&mut files, &rules, &["libtop.so"], |dynamic| {
            dynamic.rpath = Some(b"$ORIGIN/../r".to_vec());
        });
        let expected = format!("{}/liba.so", places[kept]);
        assert_eq!(found, ["/usr/lib/libtop.so", &expected]);
    }
}

#[test]
fn the_first_file_of_a_name_counts_whatever_it_is() {
    let mut files = Fake::default();
    files.add_foreign("/lib/liba.so");
    files.add("/usr/lib/liba.so", &[]);
    assert!(loaded(&mut files, &rules(), &["liba.so"], |_| {}).is_empty());
}

#[test]
fn other_words_spoil_a_list_and_so_do_privileges() {
    assert_eq!(
        expand(b"$ORIGIN/a:${ORIGIN}", b"/x"),
        Some(b"/x/a:/x".to_vec())
    );
    assert_eq!(expand(b"$ORIGIN/$LIB", b"/x"), None);
    let mut files = Fake::default();
    files.add("/opt/app/bin/liba.so", &[]);
    let origin = |dynamic: &mut Dynamic| dynamic.rpath = Some(b"$ORIGIN".to_vec());
    let found = loaded(&mut files, &rules(), &["liba.so"], origin);
    assert_eq!(found, ["/opt/app/bin/liba.so"]);
    let mut rules = rules();
    rules.is_secure = true;
    assert!(loaded(&mut files, &rules, &["liba.so"], origin).is_empty());
}
