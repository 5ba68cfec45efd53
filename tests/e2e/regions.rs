//! The time between parallel regions of OpenMP: one thread works, the others are kept.

use std::path::Path;

use serde_json::Value;

use crate::{
    harness::{Report, best_of_five, needs_root, number, watch_with},
    programs::{Build, line},
};

const GNU: Build = Build::of("regions.c").flags(&["-fopenmp"]);
const LLVM: Build = GNU.compiler("clang");

fn sum(report: &Report, field: &str) -> u64 {
    report.sites().iter().map(|site| number(site, field)).sum()
}

/// A run, and what the program itself says that one thread worked alone, ns.
fn run(program: &Path, arguments: &[&str]) -> (Report, u64) {
    let (output, report) = watch_with(&["--departures=on"], program, arguments);
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let between = output.lines().find_map(|it| it.strip_prefix("between "));
    (report, between.unwrap().parse().unwrap())
}

fn is_near(what: &str, value: u64, expected: u64) -> Result<(), String> {
    // The last of the others is woken a little after the end of a region.
    let near = value.abs_diff(expected) <= expected / 20 + 1_000_000;
    near.then_some(())
        .ok_or_else(|| format!("{what}: {value}, not {expected}"))
}

fn is_told_apart(program: &Path, arguments: &[&str]) -> Result<Report, String> {
    let (report, alone_ns) = run(program, &[&["rounds=20"], arguments].concat());
    assert_eq!(report.number("incomplete_episodes"), 0, "{report}");
    is_near("alone", sum(&report, "alone_ns"), alone_ns)?;
    // Two other threads are kept from the last arrival on; the first thread goes on a little
    // later.
    let between_ns = sum(&report, "between_ns");
    if !(2 * alone_ns * 95 / 100..2 * alone_ns * 115 / 100).contains(&between_ns) {
        return Err(format!("between: {between_ns}, alone: {alone_ns}"));
    }
    for thread in &report.threads()[1..] {
        // The threads' work is the work in the regions, and they wait until the program ends.
        let (kept_ns, all_ns) = (number(thread, "between_ns"), alone_ns + 100_000_000);
        if !(all_ns * 95 / 100..all_ns * 115 / 100).contains(&kept_ns) {
            return Err(format!("kept: {kept_ns}, not {all_ns}"));
        }
    }
    Ok(report)
}

#[test]
fn who_waits_for_a_region_does_not_work() {
    needs_root!(alone);
    for build in [GNU, LLVM] {
        best_of_five(|| {
            let report = is_told_apart(&build.path(), &[])?;
            // 20 regions of 4 ms, of which the first thread has 12 ms more before.
            for thread in &report.threads()[1..] {
                let work_ns = number(thread, "work_ns");
                // Who sleeps for 4 ms sleeps a little longer.
                if !(80_000_000..110_000_000).contains(&work_ns) {
                    return Err(format!("work: {work_ns}"));
                }
            }
            let busy = &report.sites()[0]["parallelism"]["times"];
            let alone = busy.as_array().unwrap().iter().find(|it| it["busy"] == 1);
            let alone_ns = alone.map_or(0, |it| number(it, "ns"));
            // Also before the first region, and while threads come and go.
            let all_ns = sum(&report, "alone_ns") + 12_000_000;
            if !(all_ns..all_ns * 11 / 10).contains(&alone_ns) {
                return Err(format!("busy alone: {alone_ns}, not {all_ns}"));
            }
            // The threads also sleep in their regions, which is another verdict.
            let mut verdicts = report.verdicts().iter();
            let Some(verdict) = verdicts.find(|verdict| verdict["kind"] == "serial-part") else {
                return Err(format!("no serial part: {report}"));
            };
            assert_eq!(verdict["thread"], 0, "{report}");
            let text = verdict["text"].as_str().unwrap();
            for words in ["serial part: T0 ", "before main regions.c:"] {
                assert!(text.contains(words), "{text}");
            }
            // The first thread works for 12 + 4 of 16 ms, the others for 4.
            let balance = report.0["efficiency"]["load_balance"].as_f64().unwrap();
            if !(0.42..0.58).contains(&balance) {
                return Err(format!("balance {balance}"));
            }
            Ok(())
        });
    }
}

#[test]
fn regions_with_barriers_inside_begin_once() {
    needs_root!(alone);
    for build in [GNU, LLVM] {
        best_of_five(|| {
            is_told_apart(&build.path(), &["inside=2", "region=2000"])?;
            Ok(())
        });
    }
}

#[test]
fn regions_of_one_thread_are_no_beginning() {
    needs_root!(alone);
    for build in [GNU, LLVM] {
        best_of_five(|| {
            is_told_apart(&build.path(), &["alone=1"])?;
            Ok(())
        });
    }
}

/// Then nobody tells where a region begins, and what threads do is work again.
#[test]
fn without_departures_nothing_is_known() {
    needs_root!();
    let (_, report) = watch_with(&["--departures=off"], &GNU.path(), &["rounds=5"]);
    assert_eq!(report.sites()[0]["alone_ns"], Value::Null, "{report}");
    assert_eq!(
        report.0["thread_time"]["between_ns"],
        Value::Null,
        "{report}"
    );
}

#[test]
fn even_regions_without_anything_between_have_no_serial_part() {
    needs_root!(alone);
    best_of_five(|| {
        let (report, _) = run(&GNU.path(), &["rounds=40", "serial=0", "tail=0"]);
        let verdicts = report.verdicts().iter();
        let mut kinds = verdicts.map(|verdict| verdict["kind"].as_str().unwrap());
        if kinds.any(|kind| kind == "serial-part") {
            return Err(report.to_string());
        }
        Ok(())
    });
}

#[test]
fn the_end_of_a_region_has_the_line_of_its_pragma() {
    needs_root!();
    let build = Build::of("pragmas.c").flags(&["-fopenmp"]);
    let (finished, report) = watch_with(&[], &build.path(), &[]);
    finished.expect(0);
    for (mark, episodes) in [("SITE fill", 1), ("SITE add", 50)] {
        let site = report.site_at(line("pragmas.c", mark));
        assert_eq!(number(site, "episodes"), episodes, "{report}");
    }
}
