//! Counters, compared with what a program is known to have done.

use serde_json::Value;

use crate::{
    harness::{
        Report, attach, best_of_five, command, needs_root, number, run, sbt_with, start, watch_with,
    },
    privilege::{Open, as_nobody},
    programs::{Build, line},
};

const PROGRAM: Build = Build::of("counters.c");

const PAGES: u64 = 10;
const ROUNDS: u64 = 20;
const SLEEPS: u64 = 5;

/// The value of a counter, which must not be null.
#[track_caller]
fn counter(of: &Value, name: &str) -> u64 {
    number(&of["counters"], name)
}

/// A counter in the list of requested counters.
#[track_caller]
fn total<'a>(report: &'a Report, name: &str) -> &'a Value {
    let mut all = report.list("counters").iter();
    all.find(|counter| counter["name"] == name)
        .unwrap_or_else(|| panic!("no {name}: {report}"))
}

/// The site after the work, and by thread id in the order of birth its counters.
fn work(report: &Report) -> (&Value, Vec<&Value>) {
    let site = report.site_at(line("counters.c", "SITE end"));
    let threads = site["threads"].as_array().unwrap().iter();
    (site, threads.collect())
}

/// Thread number i touches i + 1 times as many new pages as the first, each round; a
/// few faults of the C library's come on top at the first touch of something.
fn has_the_faults(report: &Report, threads: &[&Value], rounds: u64) {
    for (at, thread) in (1..).zip(threads.iter().take(3)) {
        let faults = counter(thread, "page-faults");
        let known = PAGES * at * rounds;
        assert!(
            (known..=known + 12).contains(&faults),
            "{faults}, {known}: {report}"
        );
        let both = counter(thread, "minor-faults") + counter(thread, "major-faults");
        assert_eq!(both, faults, "{report}");
    }
}

#[test]
fn what_a_thread_does_in_a_phase_is_counted_there() {
    needs_root!();
    let (finished, report) = watch_with(&["-e", "free"], &PROGRAM.path(), &[]);
    finished.expect(0);
    report.is_exactly(3 * 2 * ROUNDS, 2 * ROUNDS);
    let (site, threads) = work(&report);
    has_the_faults(&report, &threads, ROUNDS);
    for thread in &threads {
        let switches = counter(thread, "context-switches");
        let known = SLEEPS * ROUNDS;
        // Another task may have taken the thread's CPU; and if the machine stood still while the
        // thread went to sleep, its time was over before.
        assert!(
            (known - 3..=known * 2).contains(&switches),
            "{switches}: {report}"
        );
        assert!(
            counter(thread, "cpu-migrations") <= 2 * switches,
            "{report}"
        );
        let clock = counter(thread, "task-clock");
        let running = number(thread, "running_ns");
        assert!(
            clock >= running && clock < running + running / 5,
            "{report}"
        );
    }
    for name in [
        "page-faults",
        "context-switches",
        "cpu-migrations",
        "task-clock",
    ] {
        let sum: u64 = threads.iter().map(|thread| counter(thread, name)).sum();
        assert_eq!(counter(site, name), sum, "{report}");
        let found = total(&report, name);
        let of_threads = report.threads().iter();
        let sum: u64 = of_threads.map(|thread| counter(thread, name)).sum();
        assert_eq!(number(found, "work"), sum, "{report}");
        assert!(number(found, "total") >= sum, "{report}");
        assert_eq!(number(found, "unknown"), 0, "{report}");
        assert_eq!(found["counted_pct"], Value::Null, "{report}");
    }
    // The other phase has next to none of them.
    let begin = report.site_at(line("counters.c", "SITE begin"));
    let few = counter(begin, "page-faults");
    assert!(few < 40, "{few}: {report}");
    let phases = report.list("phases").iter();
    let of_work = phases.filter(|phase| phase["to"] == site["id"]);
    let sum: u64 = of_work.map(|phase| counter(phase, "page-faults")).sum();
    assert_eq!(sum, counter(site, "page-faults"), "{report}");
}

#[test]
fn threads_that_are_born_late_are_counted_from_their_first_moment() {
    needs_root!();
    let options = [
        "--departures",
        "off",
        "-e",
        "page-faults,minor-faults,major-faults,task-clock",
    ];
    let (finished, report) = watch_with(&options, &PROGRAM.path(), &["teams=4"]);
    finished.expect(0);
    report.is_exactly(4 * 3 * 2 * ROUNDS, 4 * 2 * ROUNDS);
    assert_eq!(
        number(total(&report, "page-faults"), "unknown"),
        0,
        "{report}"
    );
    let (_, threads) = work(&report);
    assert_eq!(threads.len(), 12, "{report}");
    for team in threads.chunks(3) {
        has_the_faults(&report, team, ROUNDS);
    }
}

#[test]
fn the_counts_of_watched_episodes_are_told_one_by_one() {
    needs_root!();
    let end = format!("counters.c:{}", line("counters.c", "SITE end"));
    let options = ["--watch", &end, "-q", "-e", "page-faults"];
    let (finished, report) = watch_with(&options, &PROGRAM.path(), &[]);
    finished.expect(0);
    let watched = report.list("watched");
    assert_eq!(watched.len() as u64, ROUNDS, "{report}");
    let (site, _) = work(&report);
    let arrivals = watched
        .iter()
        .flat_map(|episode| episode["arrivals"].as_array().unwrap());
    let sum: u64 = arrivals
        .map(|arrival| counter(arrival, "page-faults"))
        .sum();
    assert_eq!(sum, counter(site, "page-faults"), "{report}");
}

#[test]
fn a_process_that_runs_already_is_counted_from_then_on() {
    needs_root!();
    let mut program = start(command(
        PROGRAM.path(),
        &["rounds=10000", "sleeps=10", "pages=1"],
    ));
    crate::harness::pause(300);
    let attached = attach(
        program.pid(),
        &["-e", "page-faults,context-switches", "--duration=1"],
    );
    let report = attached.report();
    assert!(program.is_running(), "too short");
    let (site, threads) = work(&report);
    let episodes = number(site, "episodes");
    for (at, thread) in (1..).zip(&threads) {
        let faults = counter(thread, "page-faults");
        // Each whole round from the first on; what the first phase had is known too, since
        // the threads' counts were read when watching began.
        let known = at * (episodes - 1)..=at * episodes + 3;
        assert!(known.contains(&faults), "{faults} in {known:?}: {report}");
    }
}

#[test]
fn ticks_of_the_clock_are_counted_only_while_a_thread_runs() {
    needs_root!(alone);
    let list = run(sbt_with(&["list"])).expect(0).out();
    if !list.contains("\n  msr/tsc/") {
        crate::turns::skipped("no msr/tsc/ here", "counters::ticks");
        return;
    }
    let options = ["-e", "msr/tsc/,task-clock"];
    // A machine that is a virtual one may stand still while its ticks go on.
    best_of_five(|| {
        let (finished, report) = watch_with(
            &options,
            &PROGRAM.path(),
            &["teams=3", "pages=2000", "rounds=10"],
        );
        finished.expect(0);
        let found = total(&report, "msr/tsc/");
        assert_eq!(number(found, "unknown"), 0, "{report}");
        assert!(found["counted_pct"].as_f64().unwrap() > 99.9, "{report}");
        let (_, threads) = work(&report);
        assert_eq!(threads.len(), 9, "{report}");
        // All run at one rate, whatever else ran on the CPUs meanwhile, and sleep is no
        // part of it.
        let mut rates: Vec<f64> = threads
            .iter()
            .map(|thread| counter(thread, "msr/tsc/") as f64 / counter(thread, "task-clock") as f64)
            .collect();
        rates.sort_by(f64::total_cmp);
        assert!(rates[0] > 0.3, "ticks a ns {rates:?}: {report}");
        // Most of them: while the machine stood still, one ran.
        (rates[5] / rates[0] < 1.25 && rates[8] < 10.0)
            .then_some(())
            .ok_or_else(|| format!("ticks a ns {rates:?}"))
    });
}

#[test]
fn what_this_machine_cannot_count_is_said_and_the_rest_goes_on() {
    needs_root!();
    let options = ["-e", "page-faults,nosuchdevice/x/,major-faults"];
    let (finished, report) = watch_with(&options, &PROGRAM.path(), &[]);
    finished.expect(0);
    let notes: Vec<_> = report.notes().collect();
    let note = notes
        .iter()
        .find(|note| note.starts_with("nosuchdevice/x/ is not counted: "));
    assert!(
        note.is_some_and(|note| note.contains("sbt list")),
        "{notes:?}"
    );
    let missing = total(&report, "nosuchdevice/x/");
    assert_eq!(missing["total"], Value::Null, "{report}");
    let (site, _) = work(&report);
    assert_eq!(site["counters"]["nosuchdevice/x/"], Value::Null, "{report}");
    assert!(
        counter(site, "page-faults") >= 6 * PAGES * ROUNDS,
        "{report}"
    );
    // The counters of the processor are there, or a line for each says why not.
    let (finished, report) = watch_with(&["-e", "cycles,instructions"], &PROGRAM.path(), &[]);
    finished.expect(0);
    for name in ["cycles", "instructions"] {
        let found = total(&report, name);
        let start = format!("{name} is not counted: ");
        let is_said = report.notes().any(|note| note.starts_with(&start));
        assert_eq!(found["total"].is_null(), is_said, "{report}");
    }
}

#[test]
fn the_report_has_a_table_of_counters() {
    needs_root!();
    let mut command = sbt_with(&["run", "-e", "faults,cs", "--color", "never", "--"]);
    command.arg(PROGRAM.path());
    let finished = run(command).expect(0);
    let text = &finished.stderr;
    assert!(text.contains("COUNTERS, in the work"), "{finished}");
    assert!(text.contains("page-faults  context-switches"), "{finished}");
    // Without being asked for there is none.
    let mut command = sbt_with(&["run", "--"]);
    command.arg(PROGRAM.path());
    let finished = run(command).expect(0);
    assert!(!finished.stderr.contains("COUNTERS"), "{finished}");
}

#[test]
fn counters_come_from_the_environment_too() {
    needs_root!();
    let folder = crate::harness::folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["run", "--json", "--output"]);
    command
        .arg(&json)
        .arg("--")
        .arg(PROGRAM.path())
        .env("SBT_EVENTS", "faults:cs");
    run(command).expect(0);
    let report = Report::read(&json);
    let names: Vec<_> = report
        .list("counters")
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["page-faults", "context-switches"], "{report}");
}

#[test]
fn a_name_that_means_nothing_is_an_error_at_once() {
    crate::harness::needs_nothing!();
    let mut command = sbt_with(&["run", "--", "/bin/true"]);
    command.env("SBT_EVENTS", "cylces");
    let finished = run(command).expect(125);
    let line = finished.one_line();
    assert!(
        line.contains("SBT_EVENTS=cylces") && line.contains("`cycles`"),
        "{line}"
    );
}

#[test]
fn the_list_says_what_there_is_and_why_not_the_rest() {
    crate::harness::needs_nothing!();
    let text = run(sbt_with(&["list"])).expect(0).out();
    for name in [
        "page-faults",
        "context-switches",
        "task-clock",
        "cycles",
        "LLC-load-misses",
    ] {
        assert!(text.contains(&format!(" {name}")), "{name}: {text}");
    }
}

/// The kernel's sums over a thread's life, and those of sbt.
#[test]
fn totals_are_those_of_the_whole_life() {
    needs_root!();
    let (finished, report) = watch_with(&["-e", "page-faults"], &PROGRAM.path(), &[]);
    finished.expect(0);
    let found = total(&report, "page-faults");
    let (work, all) = (number(found, "work"), number(found, "total"));
    // Beside their work threads only met at barriers, and ended.
    assert!(
        (work..work + 100).contains(&all),
        "{work} of {all}: {report}"
    );
}

/// From before the pages are touched to where the sleeping begins.
#[test]
fn what_lies_between_marks_is_counted() {
    needs_root!();
    let marks = ["--mark=touches", "--mark=sleeps_now"];
    let options = ["-e", "page-faults,context-switches", marks[0], marks[1]];
    let (finished, report) = watch_with(&options, &PROGRAM.path(), &[]);
    finished.expect(0);
    let mut all = report.list("intervals").iter();
    let inside = all.find(|it| (&it["from"], &it["to"]) == (&0.into(), &1.into()));
    let inside = inside.unwrap_or_else(|| panic!("no interval: {report}"));
    assert_eq!(number(&inside["time_ns"], "count"), 3 * ROUNDS, "{report}");
    // Three threads, of which each touches as many more as the one before.
    let known = PAGES * (1 + 2 + 3) * ROUNDS;
    let faults = counter(inside, "page-faults");
    assert!((known..=known + 36).contains(&faults), "{faults}: {report}");
    assert!(report.0["counters"][0]["total"].as_u64() > Some(faults));
}

#[test]
fn breakpoints_count_what_they_do_not_change() {
    // Breakpoints and probes of others do not go together.
    needs_root!(alone);
    let options = [
        "--backend=ptrace",
        "-e",
        "page-faults,cs,task-clock,msr/tsc/",
    ];
    let (finished, report) = watch_with(&options, &PROGRAM.path(), &[]);
    finished.expect(0);
    let (_, threads) = work(&report);
    for (at, thread) in (1..).zip(threads.iter().take(3)) {
        let (faults, known) = (counter(thread, "page-faults"), PAGES * at * ROUNDS);
        assert!(
            (known..=known + 12).contains(&faults),
            "{faults}, {known}: {report}"
        );
        assert!(
            counter(thread, "msr/tsc/") > counter(thread, "task-clock") / 10,
            "{report}"
        );
    }
    assert_eq!(
        total(&report, "context-switches")["total"],
        Value::Null,
        "{report}"
    );
    assert!(
        report
            .notes()
            .any(|note| note.starts_with("context-switches is not counted: each")),
        "{report}"
    );
    assert!(number(total(&report, "msr/tsc/"), "total") > 0, "{report}");
}

#[test]
fn nobody_counts_what_the_program_itself_does() {
    needs_root!(alone);
    let open = Open::new();
    let (sbt, program) = (open.copy(crate::harness::sbt()), open.copy(&PROGRAM.path()));
    let json = open.path("report.json");
    let mut command = as_nobody(&sbt);
    command.args(["run", "--backend=ptrace", "--budget=off"]);
    command.args(["-e", "page-faults,task-clock", "--json", "--output"]);
    command.arg(&json).arg("--").arg(&program);
    run(command).expect(0);
    let report = Report::read(&json);
    report.is_exactly(3 * 2 * ROUNDS, 2 * ROUNDS);
    let (_, threads) = work(&report);
    for (at, thread) in (1..).zip(threads.iter().take(3)) {
        let (faults, known) = (counter(thread, "page-faults"), PAGES * at * ROUNDS);
        assert!(
            (known..=known + 12).contains(&faults),
            "{faults}, {known}: {report}"
        );
        assert!(counter(thread, "task-clock") > 0, "{report}");
    }
}
