//! Barriers behind functions of the program's own: who called those.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    harness::{Report, attach, command, needs_root, number, start, watch, watch_with},
    programs::{Build, line},
};

const CHAINS: Build = Build::of("chains.c");

/// Calls that are sites of their own, by their marks, each with the mark of
/// where the barrier is called.
const CALLS: [(&str, &str); 9] = [
    ("CALL direct", ""),
    ("CALL wrapper first", "SITE wrapper"),
    ("CALL wrapper second", "SITE wrapper"),
    ("CALL outer first", "SITE inner"),
    ("CALL outer second", "SITE inner"),
    ("CALL sized first", "SITE sized"),
    ("CALL sized second", "SITE sized"),
    ("CALL aligned first", "SITE aligned"),
    ("CALL aligned second", "SITE aligned"),
];

/// Barriers of one round.
const A_ROUND: u64 = 12;

#[track_caller]
fn check(report: &Report, rounds: u64, barriers: u64) {
    report.is_exactly(3 * barriers * rounds, barriers * rounds);
    for (call, _) in CALLS {
        let site = report.site_at(line("chains.c", call));
        assert_eq!(number(site, "episodes"), rounds, "{call}: {site:#}");
        assert_eq!(site["function"], "work", "{call}: {site:#}");
        assert_eq!(site["places"].as_array().unwrap().len(), 1, "{site:#}");
    }
    let site = report.site_at(line("chains.c", "SITE recursive"));
    assert_eq!(number(site, "episodes"), 3 * rounds, "{site:#}");
    let expected = usize::try_from(barriers - 2).unwrap();
    assert_eq!(report.sites().len(), expected, "{report}");
}

#[track_caller]
fn watched(build: Build) -> Report {
    let report = watch(&build.path(), &["rounds=40"]);
    check(&report, 40, A_ROUND);
    report
}

#[test]
fn with_frame_pointers() {
    needs_root!();
    watched(CHAINS.flags(&["-O0"]));
    watched(CHAINS.flags(&["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"]));
}

#[test]
fn without_frame_pointers() {
    needs_root!();
    watched(CHAINS.flags(&["-fomit-frame-pointer"]));
}

#[test]
fn at_a_fixed_address() {
    needs_root!();
    watched(CHAINS.flags(&["-no-pie"]));
}

#[test]
fn linked_statically() {
    needs_root!();
    watched(CHAINS.flags(&["-static"]));
    watched(CHAINS.flags(&["-static-pie"]));
}

#[test]
fn without_unwind_tables() {
    needs_root!();
    watched(CHAINS.flags(&["-O0", "-fno-asynchronous-unwind-tables", "-fno-exceptions"]));
}

#[test]
fn with_other_compilers_and_libraries() {
    needs_root!();
    watched(CHAINS.compiler("musl-gcc"));
}

/// Without names two calls are still two sites.
#[test]
fn stripped() {
    needs_root!();
    let report = watch(&CHAINS.stripped().path(), &["rounds=40"]);
    report.is_exactly(3 * A_ROUND * 40, A_ROUND * 40);
    assert_eq!(report.sites().len(), 10, "{report}");
    let names: BTreeSet<&str> = report
        .sites()
        .iter()
        .map(|site| site["places"][0].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 10, "{report}");
    let offsets: BTreeSet<&str> = report
        .sites()
        .iter()
        .map(|site| site["offset"].as_str().unwrap())
        .collect();
    assert_eq!(offsets.len(), 10, "{report}");
}

#[test]
fn in_a_library_of_the_program() {
    needs_root!();
    let report = watch(&linked(), &["rounds=40"]);
    check(&report, 40, A_ROUND + 2);
    for call in ["CALL library first", "CALL library second"] {
        let site = report.site_at(line("chains.c", call));
        assert_eq!(number(site, "episodes"), 40, "{site:#}");
    }
}

fn linked() -> std::path::PathBuf {
    let library = Build::of("chains.c").flags(&["-shared", "-fPIC", "-DLIBRARY"]);
    let path = library.path().into_os_string().into_string().unwrap();
    let flags: Vec<&'static str> = vec!["-DLINKED", path.leak()];
    CHAINS.flags(flags.leak()).path()
}

#[test]
fn attached_to() {
    needs_root!();
    for build in [CHAINS.path(), linked()] {
        let mut target = start(command(&build, &["rounds=40", "hold=1500000"]));
        target.wait_for("ready");
        let report = attach(target.pid(), &[]).report();
        let barriers = report.number("episodes") / 40;
        assert!(barriers >= A_ROUND, "{report}");
        check(&report, 40, barriers);
        target.finish().expect(0);
    }
}

const DETOURS: Build = Build::of("detours.c");

/// Where nothing leads on, a chain ends: it does not go astray.
#[track_caller]
fn check_detours(report: &Report, rounds: u64) {
    report.is_exactly(3 * 6 * rounds, 6 * rounds);
    let site = |mark| report.site_at(line("detours.c", mark));
    for call in [
        "CALL jumps",
        "CALL wrapped",
        "CALL outside",
        "CALL in handler",
    ] {
        assert_eq!(number(site(call), "episodes"), rounds, "{call}: {report}");
    }
    assert_eq!(callers(site("CALL in handler")), [""; 0], "{report}");
    let assembly = site("SITE assembly");
    assert_eq!(number(assembly, "episodes"), 2 * rounds, "{report}");
    assert!(callers(assembly)[0].contains("assembled"), "{assembly:#}");
    assert_eq!(callers(assembly).len(), 1, "{assembly:#}");
    assert_eq!(report.sites().len(), 5, "{report}");
}

#[test]
fn by_jumps_from_handlers_and_from_assembly() {
    needs_root!();
    for flags in [&[][..], &["-fno-omit-frame-pointer"]] {
        let report = watch(&DETOURS.flags(flags).path(), &["rounds=20"]);
        check_detours(&report, 20);
    }
}

#[test]
fn after_another_program_was_executed() {
    needs_root!();
    let report = watch(&DETOURS.path(), &["rounds=20", "again=1"]);
    check_detours(&report, 40);
}

/// The callers of a library are unknown before the library is loaded: the first arrivals may be
/// sites of their own.
#[test]
fn in_a_library_that_comes_and_goes() {
    needs_root!();
    let library = Build::of("chains.c").flags(&["-shared", "-fPIC", "-DLIBRARY"]);
    let library = format!("library={}", library.path().display());
    let report = watch(&DETOURS.path(), &["rounds=10", "times=200", &library]);
    report.is_exactly(3 * 2 * 2000, 2 * 2000);
    for call in ["CALL library first", "CALL library second"] {
        let site = report.site_at(line("detours.c", call));
        let episodes = number(site, "episodes");
        assert!((1000..=2000).contains(&episodes), "{call}: {report}");
    }
    // And in one episode of each line some threads may know already.
    assert!(report.sites().len() <= 5, "{report}");
}

fn callers(site: &Value) -> Vec<&str> {
    let callers = site["callers"].as_array().unwrap().iter();
    callers.map(|caller| caller.as_str().unwrap()).collect()
}

#[test]
fn in_methods_destructors_and_templates() {
    needs_root!();
    for flags in [&[][..], &["-O0"]] {
        let build = Build::of("chains.cpp").compiler("g++").flags(flags);
        let report = watch(&build.path(), &["rounds=40"]);
        report.is_exactly(3 * 6 * 40, 6 * 40);
        assert_eq!(report.sites().len(), 6, "{report}");
        for call in [
            "CALL method first",
            "CALL method second",
            "CALL section first",
            "CALL section second",
            "CALL template first",
            "CALL template second",
        ] {
            let site = report.site_at(line("chains.cpp", call));
            assert_eq!(number(site, "episodes"), 40, "{site:#}");
        }
    }
}

#[test]
fn in_generic_functions_of_rust() {
    needs_root!();
    let build = Build::of("chains.rs").compiler("rustc");
    for flags in [&[][..], &["-Copt-level=0"]] {
        let report = watch(&build.flags(flags).path(), &["40"]);
        report.is_exactly(3 * 3 * 40, 3 * 40);
        assert_eq!(report.sites().len(), 3, "{report}");
        for call in ["CALL small first", "CALL small second"] {
            let site = report.site_at(line("chains.rs", call));
            assert_eq!(number(site, "episodes"), 40, "{site:#}");
        }
    }
}

/// Any function or line of the chain may say which place is watched, named or part of a phase.
#[test]
fn sites_are_meant_by_any_of_their_callers() {
    needs_root!();
    let first = line("chains.c", "CALL wrapper first");
    let second = line("chains.c", "CALL wrapper second");
    let name = format!("chains.c:{second}=second");
    let phase = format!("between=chains.c:{first}..second");
    let options = ["--name", &name, "--phase", &phase];
    let (_, report) = watch_with(&options, &CHAINS.path(), &["rounds=40"]);
    assert_eq!(report.site_at(second)["name"], "second");
    assert!(report.site_at(first)["name"].is_null());
    let phases = report.list("conceptual_phases");
    assert_eq!(number(&phases[0]["phase_ns"], "count"), 40, "{report}");
    assert_eq!(callers(report.site_at(first)), [""; 0]);
}

/// However short it is. Who only takes a lock or looks at a word on the way is none.
#[test]
fn what_works_before_it_waits_is_a_phase_and_no_wrapper() {
    needs_root!();
    let source = Build::of("shortphase.c");
    for build in [
        source.flags(&["-O0"]),
        source.flags(&["-O2"]),
        source.flags(&["-static"]),
        source.compiler("clang"),
    ] {
        let report = watch(&build.path(), &["rounds=40"]);
        report.is_exactly(3 * 8 * 40, 8 * 40);
        let named: BTreeSet<&str> = report
            .sites()
            .iter()
            .map(|site| site["places"][0].as_str().unwrap())
            .collect();
        let at = |mark: &str| format!("shortphase.c:{}", line("shortphase.c", mark));
        let phase = |call: &str| format!("phase {} from {}", at("SITE phase"), at(call));
        let expected = [
            phase("CALL phase first"),
            phase("CALL phase second"),
            format!("work {}", at("CALL sync first")),
            format!("work {}", at("CALL sync second")),
            format!("work {}", at("CALL noted first")),
            format!("work {}", at("CALL noted second")),
            format!("work {}", at("CALL locked first")),
            format!("work {}", at("CALL locked second")),
        ];
        assert_eq!(
            named,
            expected.iter().map(String::as_str).collect(),
            "{report}"
        );
    }
}
