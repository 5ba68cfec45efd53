//! Barriers of OpenMP, which no program calls by name.

use crate::{
    harness::{Report, needs_root, number, watch},
    programs::{Build, line},
};

const GNU: Build = Build::of("openmp.c").flags(&["-fopenmp"]);

/// Episodes of the barriers with so many participants.
fn episodes_of(report: &Report, participants: u64) -> u64 {
    let barriers = report.list("barriers").iter();
    barriers
        .filter(|barrier| barrier["participants"] == participants)
        .map(|barrier| number(barrier, "episodes"))
        .sum()
}

#[test]
fn every_barrier_of_gnu_openmp_is_counted() {
    needs_root!();
    let report = watch(&GNU.path(), &["rounds=50", "nested=0"]);
    // Barrier, two loops, single, sections; the end of each small region, and of
    // the large one.
    assert_eq!(report.number("episodes"), 50 * 5 + 50 + 1, "{report}");
    assert_eq!(report.number("incomplete_episodes"), 0, "{report}");
    assert_eq!(episodes_of(&report, 4), 50 * 5 + 50 + 1, "{report}");
    assert_eq!(report.threads().len(), 4, "{report}");
    for site in report.list("sites") {
        assert_eq!(site["kind"], "gomp", "{report}");
        let file = site["file"].as_str().unwrap_or_default();
        assert!(file.ends_with("openmp.c"), "{report}");
    }
    // The compiler gives the call the line of the pragma or of the loop around it.
    let pragma = u64::from(line("openmp.c", "SITE region"));
    let mut sites = report.sites().iter();
    let region = sites
        .find(|site| site["function"] == "main" && number(site, "episodes") == 50)
        .unwrap_or_else(|| panic!("the end of a region has no site: {report}"));
    let found = number(region, "line");
    assert!((pragma - 1..=pragma).contains(&found), "{report}");
    let barrier = report.site_at(line("openmp.c", "SITE barrier"));
    assert_eq!(number(barrier, "episodes"), 50, "{report}");
    assert!(number(&region["release_ns"], "count") > 0, "{report}");
}

#[test]
fn teams_of_gnu_openmp_are_told_apart() {
    needs_root!();
    let report = watch(&GNU.path(), &["rounds=1", "nested=30"]);
    assert_eq!(report.number("incomplete_episodes"), 0, "{report}");
    // Two teams of 3 in each round, and 30 teams of 2, 3 and 4 in turn.
    let inner = 2 * 30;
    assert_eq!(report.number("episodes"), 7 + 30 + inner + 30, "{report}");
}

#[test]
fn a_stripped_program_with_gnu_openmp_shows_its_barriers() {
    needs_root!();
    let report = watch(&GNU.stripped().path(), &["rounds=20", "nested=0"]);
    assert_eq!(report.number("episodes"), 20 * 5 + 20 + 1, "{report}");
    assert_eq!(report.number("incomplete_episodes"), 0, "{report}");
}

/// The callers of such a function are learned when it is first met: until then
/// its barrier is a site of its own.
#[test]
fn a_function_with_a_barrier_is_told_apart_by_its_callers() {
    needs_root!();
    let orphan = Build::of("orphan.c").flags(&["-fopenmp"]);
    let report = watch(&orphan.path(), &["rounds=200"]);
    assert_eq!(report.number("episodes"), 401, "{report}");
    for call in ["CALL meet first", "CALL meet second"] {
        let site = report.site_at(line("orphan.c", call));
        let episodes = number(site, "episodes");
        assert!((100..=200).contains(&episodes), "{call}: {report}");
    }
}
