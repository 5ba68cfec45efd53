//! However a program is linked, its barriers are found.

use crate::{
    harness::{Report, needs_root, run, sbt_with, watch},
    programs::{Build, line},
};

const TRUTH: Build = Build::of("truth.c");

#[track_caller]
fn check(build: Build) -> Report {
    let report = watch(&build.path(), &["threads=3", "rounds=200", "skew=20"]);
    report.is_exactly(600, 200);
    assert_eq!(report.list("barriers")[0]["participants"], 3, "{report}");
    report
}

#[track_caller]
fn has_lines(report: &Report) {
    let site = &report.sites()[0];
    assert_eq!(site["function"], "meet", "{site:#}");
    assert_eq!(site["line"], line("truth.c", "SITE meet"), "{site:#}");
}

#[test]
fn position_dependent() {
    needs_root!();
    has_lines(&check(TRUTH.flags(&["-no-pie"])));
}

#[test]
fn static_glibc() {
    needs_root!();
    has_lines(&check(TRUTH.flags(&["-static"])));
}

#[test]
fn static_pie_glibc() {
    needs_root!();
    has_lines(&check(TRUTH.flags(&["-static-pie"])));
}

#[test]
fn no_frame_pointers_and_no_unwind_tables() {
    needs_root!();
    has_lines(&check(TRUTH.flags(&[
        "-fomit-frame-pointer",
        "-fno-asynchronous-unwind-tables",
    ])));
}

#[test]
fn musl_dynamic() {
    needs_root!();
    has_lines(&check(TRUTH.compiler("musl-gcc")));
}

#[test]
fn musl_static() {
    needs_root!();
    has_lines(&check(TRUTH.compiler("musl-gcc").flags(&["-static"])));
}

#[test]
fn stripped_dynamic() {
    needs_root!();
    let build = TRUTH.stripped();
    let report = check(build);
    let site = &report.sites()[0];
    assert!(
        site["function"].is_null() && site["line"].is_null(),
        "{site:#}"
    );
    let binary = site["binary"].as_str().unwrap();
    assert_eq!(Some(binary.as_ref()), build.path().file_name(), "{site:#}");
    assert!(
        site["offset"].as_str().unwrap().starts_with("0x"),
        "{site:#}"
    );
}

#[test]
fn without_line_numbers_the_function_is_named() {
    needs_root!();
    let report = check(TRUTH.flags(&["-g0"]));
    assert_eq!(report.sites()[0]["function"], "meet");
    assert!(report.sites()[0]["line"].is_null());
}

#[test]
fn stripped_static_finds_nothing_and_says_so() {
    needs_root!();
    let build = TRUTH.flags(&["-static"]).stripped();
    let mut command = sbt_with(&["run", "--"]);
    command.arg(build.path()).args(["rounds=10"]);
    let finished = run(command).expect(0);
    assert!(finished.out().contains("done 40"), "{finished}");
    // The first line is the command, whose name says it too.
    let (_, text) = finished.stderr.split_once('\n').unwrap();
    assert!(text.starts_with("No barrier was found"), "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words[6].ends_with(':'), "{text}");
    assert!(words[7].ends_with("-stripped"), "{text}");
    assert!(text.contains("pthread_barrier_wait"), "{text}");
    // It cannot be known that the program used none.
    assert!(
        text.contains("stripped") || text.contains("no symbols"),
        "{text}"
    );
}
