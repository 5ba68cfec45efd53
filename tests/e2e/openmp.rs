//! Barriers of OpenMP, which no program calls by name.

use crate::{
    harness::{
        Report, attach, best_of_five, command, folder, needs_root, number, pause, run, sbt_with,
        start, watch, watch_with,
    },
    programs::{Build, line},
};

const GNU: Build = Build::of("openmp.c").flags(&["-fopenmp"]);
const LLVM: Build = GNU.compiler("clang");
const LLVM_MORE: Build = Build::of("openmp_more.c")
    .compiler("clang")
    .flags(&["-fopenmp"]);

/// Episodes of the barriers with so many participants.
fn episodes_of(report: &Report, participants: u64) -> u64 {
    let barriers = report.list("barriers").iter();
    barriers
        .filter(|barrier| barrier["participants"] == participants)
        .map(|barrier| number(barrier, "episodes"))
        .sum()
}

/// The report of both runtimes on 50 rounds.
fn has_every_barrier(report: &Report, kind: &str) {
    // Barrier, two loops, single, sections; the end of each small region, and of
    // the large one.
    report.is_exactly(4 * (50 * 5 + 50 + 1), 50 * 5 + 50 + 1);
    assert_eq!(episodes_of(report, 4), 50 * 5 + 50 + 1, "{report}");
    assert_eq!(report.threads().len(), 4, "{report}");
    for site in report.list("sites") {
        assert_eq!(site["kind"], kind, "{report}");
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
fn every_barrier_of_gnu_openmp_is_counted() {
    needs_root!();
    let report = watch(&GNU.path(), &["rounds=50", "nested=0"]);
    has_every_barrier(&report, "gomp");
}

#[test]
fn every_barrier_of_llvm_openmp_is_counted() {
    needs_root!();
    let report = watch(&LLVM.path(), &["rounds=50", "nested=0"]);
    has_every_barrier(&report, "kmp");
    // Only the thread that began a region is seen to leave the end of the region.
    let mut sites = report.sites().iter();
    let region = sites.find(|site| site["function"] == "main" && number(site, "episodes") == 50);
    assert!(
        number(&region.unwrap()["release_ns"], "count") <= 50,
        "{report}"
    );
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

/// The callers of such a function are learned at the first hit: until then its barrier is a site of
/// its own.
#[test]
fn a_function_with_a_barrier_is_told_apart_by_its_callers() {
    needs_root!();
    let orphan = Build::of("orphan.c").flags(&["-fopenmp"]);
    let report = watch(&orphan.path(), &["rounds=1000"]);
    assert_eq!(report.number("episodes"), 2001, "{report}");
    for call in ["CALL meet first", "CALL meet second"] {
        let site = report.site_at(line("orphan.c", call));
        let episodes = number(site, "episodes");
        assert!((500..=1000).contains(&episodes), "{call}: {report}");
    }
}
/// The barrier returns into the runtime, and only the thread that began the region has the program
/// further up its stack.
#[test]
fn a_barrier_that_is_the_last_act_of_a_region_has_its_line() {
    needs_root!();
    let gnu = Build::of("openmp_last.c").flags(&["-fopenmp"]);
    for build in [gnu, gnu.compiler("clang")] {
        let report = watch(&build.path(), &["rounds=200"]);
        // The barrier and the end of each region.
        report.is_exactly(4 * 3 * 200, 4 * 200);
        assert_eq!(report.sites().len(), 4, "{report}");
        for barrier in ["SITE cells", "SITE faces"] {
            let site = report.site_at(line("openmp_last.c", barrier));
            assert_eq!(number(site, "episodes"), 200, "{barrier}: {report}");
        }
    }
}

#[test]
fn teams_of_llvm_openmp_are_told_apart() {
    needs_root!();
    let report = watch(&LLVM.path(), &["rounds=1", "nested=30"]);
    // Two teams of 3 and one of 2 in each round, and 30 teams of 2, 3 and 4 in turn.
    let arrivals = 4 * 7 + 30 * (2 * 3 + 2) + 10 * (2 + 3 + 4);
    report.is_exactly(arrivals, 7 + 30 * 3 + 30);
}

#[test]
fn a_stripped_program_with_llvm_openmp_shows_its_barriers() {
    needs_root!();
    let report = watch(&LLVM.stripped().path(), &["rounds=20", "nested=0"]);
    report.is_exactly(4 * (20 * 5 + 20 + 1), 20 * 5 + 20 + 1);
    // The program was compiled with -g: its calls have lines.
    let barrier = report.site_at(line("openmp.c", "SITE barrier"));
    assert_eq!(number(barrier, "episodes"), 20, "{report}");
    for site in report.sites() {
        let file = site["file"].as_str().unwrap_or_default();
        assert!(file.ends_with("openmp.c"), "{report}");
    }
}

#[test]
fn reductions_copies_and_tasks_of_llvm_openmp_are_counted() {
    needs_root!();
    let report = watch(&LLVM_MORE.path(), &["rounds=20", "fast=50000"]);
    // Two for the reduction and two for the copy, tasks, barrier, cancelled loop;
    // two for each small region of both kinds; one for each that lasts.
    let episodes = 20 * (2 + 2 + 3) + 20 * 2 + 20 * 2 + 1;
    let fast = 50_000 + 1;
    report.is_exactly(6 * episodes + 2 * fast, episodes + fast);
    let at = |mark| {
        let site = report.site_at(line("openmp_more.c", mark));
        number(site, "episodes")
    };
    assert_eq!(at("SITE reduce"), 40, "{report}");
    assert_eq!(at("SITE tasks"), 20, "{report}");
    assert_eq!(at("SITE barrier"), 20, "{report}");
    assert_eq!(at("SITE cancel"), 20, "{report}");
    assert_eq!(at("SITE cancellable"), 20, "{report}");
    assert_eq!(at("SITE fast"), 50_000, "{report}");
}

#[test]
fn a_program_by_gcc_may_run_with_llvm_openmp() {
    needs_root!();
    let program = GNU.path();
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["run", "--json", "--output"]);
    let arguments = ["--", program.to_str().unwrap(), "rounds=50", "nested=0"];
    let library = "/usr/lib/x86_64-linux-gnu/libomp5.so";
    command
        .arg(&json)
        .args(arguments)
        .env("LD_PRELOAD", library);
    run(command).expect(0);
    has_every_barrier(&Report::read(&json), "kmp");
}

#[test]
fn tasks_while_waiting_do_not_end_the_waiting() {
    needs_root!(alone);
    for compiler in ["gcc", "clang"] {
        let program = Build::of("openmp_tasks.c").flags(&["-fopenmp"]);
        let program = program.compiler(compiler).path();
        best_of_five(|| {
            let (_, report) = watch_with(&["--departures=on"], &program, &["rounds=10"]);
            report.is_exactly(3 * 11, 11);
            let barrier = report.site_at(line("openmp_tasks.c", "SITE barrier"));
            assert_eq!(number(&barrier["release_ns"], "count"), 30, "{report}");
            // The last thread is late by more than the tasks of a round take.
            let is_late = barrier["straggler"]["pattern"] == "persistent";
            is_late.then_some(()).ok_or_else(|| report.to_string())
        });
    }
}

#[test]
fn llvm_openmp_is_seen_however_it_waits() {
    needs_root!();
    let program = LLVM.path();
    let program = program.to_str().unwrap();
    for (variable, value) in [("OMP_WAIT_POLICY", "passive"), ("KMP_BLOCKTIME", "0")] {
        let folder = folder();
        let json = folder.path().join("report.json");
        let mut command = sbt_with(&["run", "--json", "--output"]);
        let arguments = ["--", program, "rounds=10", "nested=0", "threads=9"];
        command.arg(&json).args(arguments).env(variable, value);
        run(command).expect(0);
        Report::read(&json).is_exactly(9 * 61, 61);
    }
}

#[test]
fn a_runtime_that_is_not_understood_is_told() {
    needs_root!();
    let report = watch(&Build::of("strange_openmp.c").path(), &[]);
    assert!(
        report.is_noted("runtime that sbt does not know"),
        "{report}"
    );
    let report = watch(&GNU.path(), &["rounds=5", "nested=0"]);
    assert!(!report.is_noted("that sbt does not know"), "{report}");
}

#[test]
fn spinning_in_a_barrier_is_told_from_sleeping() {
    needs_root!(alone);
    for program in [GNU.path(), LLVM.path()] {
        let program = program.to_str().unwrap();
        best_of_five(|| {
            let active = asleep_at_the_barrier(program, "active")?;
            let passive = asleep_at_the_barrier(program, "passive")?;
            let told = active < 20.0 && passive > 60.0;
            told.then_some(())
                .ok_or(format!("asleep: active {active} %, passive {passive} %"))
        });
    }
}

/// How much of the waiting for a thread that is 2 ms late was sleep, per cent. The
/// rest is not all on a CPU: who spins may give it to others each time.
fn asleep_at_the_barrier(program: &str, policy: &str) -> Result<f64, String> {
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["run", "--json", "--output"]);
    let arguments = ["rounds=50", "nested=0", "threads=2", "slower=2000"];
    command.arg(&json).args(["--", program]).args(arguments);
    command.env("OMP_WAIT_POLICY", policy);
    run(command).expect(0);
    let report = Report::read(&json);
    let site = report.site_at(line("openmp.c", "SITE barrier"));
    let share = |field: &str| site[field].as_f64().ok_or(format!("{field}: {report}"));
    let (spinning, asleep) = (share("spinning_pct")?, share("asleep_pct")?);
    if spinning + asleep > 100.1 {
        return Err(format!(
            "{spinning} % and {asleep} % of one whole: {report}"
        ));
    }
    Ok(asleep)
}

#[test]
fn llvm_openmp_is_joined_in_the_middle() {
    needs_root!();
    let arguments = ["rounds=3000", "nested=0", "threads=3", "slower=400"];
    let target = start(command(LLVM.path(), &arguments));
    pause(300);
    let report = attach(target.pid(), &[]).report();
    target.finish().expect(0);
    // The one under way; and without its beginning the next may be taken apart.
    assert!(report.number("incomplete_episodes") <= 2, "{report}");
    assert_eq!(report.number("lost_events"), 0, "{report}");
    let mut sites = report.sites().iter();
    let region = sites.find(|site| site["function"] == "main" && number(site, "episodes") == 3000);
    assert!(region.is_some(), "{report}");
}
