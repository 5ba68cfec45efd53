//! Barriers made of the conditions of other languages, whose threads only sleep: by their code,
//! or asked about.

use crate::{
    harness::{Report, needs_root, number, watch_with},
    programs::Build,
};

#[test]
fn those_of_rust_are_known_by_their_code() {
    needs_root!();
    let build = Build::of("condbarrier.rs").compiler("rustc");
    let (finished, report) = watch_with(&["--futex=on"], &build.path(), &[]);
    finished.expect(0);
    // Who comes just when the last one does finds that it need not wait, and is not seen.
    let complete = report.number("episodes");
    assert!((190..=200).contains(&complete), "{report}");
    let by = &report.list("barriers")[0]["recognised"];
    assert_eq!(by["by_code"], true, "{report}");
    assert_eq!(number(by, "members"), 3, "{report}");
    let function = report.sites()[0]["function"].as_str().unwrap_or_default();
    assert!(function.contains("meet"), "{report}");
}

#[test]
fn those_of_c11_are_known_by_their_code() {
    needs_root!();
    let program = Build::of("c11barrier.c").path();
    let (finished, report) = watch_with(&[], &program, &[]);
    finished.expect(0);
    report.is_exactly(600, 200);
    calls_itself_meet(&report);
}

/// The C library's own files say from where the program calls C11's conditions: nothing is
/// learned from system calls, and a fast program is not over before that.
#[test]
fn those_of_c11_are_known_from_the_first_round() {
    needs_root!();
    for flags in [&[][..], &["-static"]] {
        let program = Build::of("c11barrier.c").flags(flags).path();
        let (finished, report) = watch_with(&["--futex=off"], &program, &[]);
        finished.expect(0);
        report.is_exactly(600, 200);
        calls_itself_meet(&report);
    }
}

fn calls_itself_meet(report: &Report) {
    let functions = report.sites().iter().map(|site| &site["function"]);
    let others: Vec<_> = functions.filter(|function| *function != "meet").collect();
    assert!(others.is_empty(), "{others:?}: {report}");
}

#[test]
fn what_may_be_one_is_asked_about() {
    needs_root!();
    is_asked_about(Build::of("condany.cpp").compiler("g++").flags(&["-O2"]));
    // Each operation is a call there.
    let plain = &["-C", "opt-level=0"];
    is_asked_about(Build::of("condbarrier.rs").compiler("rustc").flags(plain));
}

fn is_asked_about(build: Build) {
    let (finished, report) = watch_with(&["--futex=on"], &build.path(), &[]);
    finished.expect(0);
    if report.number("arrivals") > 0 {
        // Known after all.
        return;
    }
    let hint = report.notes().find(|note| note.contains("--barrier"));
    let hint = hint.unwrap_or_else(|| panic!("no hint: {report}"));
    assert!(
        hint.contains("if each thread calls it once a round"),
        "{hint}"
    );
    // What it says to type does it.
    let mut words = hint.split_whitespace();
    let named = words.by_ref().find(|word| *word == "--barrier");
    let named = named.and(words.next()).unwrap().trim_matches('\'');
    let option = format!("--barrier={named}");
    let (finished, report) = watch_with(&[&option], &build.path(), &[]);
    finished.expect(0);
    report.is_exactly(600, 200);
}
