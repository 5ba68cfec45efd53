//! Places and functions of the user's own: `--mark` and `--barrier`.

use serde_json::Value;

use crate::{
    harness::{command, needs_root, number, run, sbt, watch_with},
    programs::{Build, line, program},
};

fn interval(intervals: &[Value], from: u64, to: u64) -> &Value {
    intervals
        .iter()
        .find(|interval| number(interval, "from") == from && number(interval, "to") == to)
        .unwrap_or_else(|| panic!("no interval from {from} to {to}: {intervals:?}"))
}

#[test]
fn marks_measure_a_program_of_one_thread() {
    needs_root!();
    let odd = format!("--mark=marks.c:{}=odd", line("marks.c", "LINE odd"));
    let options = ["--mark=first_part", "--mark=second_part=second", &odd];
    let (finished, report) = watch_with(&options, &program("marks.c"), &["rounds=20"]);
    finished.expect(0);
    let marks = report.list("marks");
    let hits: Vec<u64> = marks.iter().map(|mark| number(mark, "hits")).collect();
    assert_eq!(hits, [20, 20, 10], "{report}");
    assert_eq!(marks[1]["name"], "second");
    let intervals = report.list("intervals");
    let first = interval(intervals, 0, 1);
    assert_eq!(number(&first["time_ns"], "count"), 20);
    // The program sleeps 2 ms and then does nothing.
    let (time, running) = (
        number(&first["time_ns"], "min"),
        number(first, "running_ns"),
    );
    assert!(time >= 2_000_000, "{report}");
    assert!(running < 20 * 1_000_000, "{report}");
    let odd = interval(intervals, 1, 2);
    assert_eq!(number(&odd["time_ns"], "count"), 10);
    assert!(number(odd, "running_ns") >= 10 * 900_000, "{report}");
    assert_eq!(number(&interval(intervals, 2, 0)["time_ns"], "count"), 9);
    assert_eq!(report.threads().len(), 1);
}

#[test]
fn marks_are_told_by_thread() {
    needs_root!();
    let options = ["--mark=first_part", "--mark=second_part"];
    let (_, report) = watch_with(&options, &program("marks.c"), &["threads=3", "rounds=7"]);
    for mark in report.list("marks") {
        let threads = mark["threads"].as_array().unwrap();
        let hits: Vec<u64> = threads
            .iter()
            .map(|thread| number(thread, "hits"))
            .collect();
        assert_eq!(hits, [7, 7, 7], "{report}");
    }
    let inside = interval(report.list("intervals"), 0, 1);
    assert_eq!(inside["threads"].as_array().unwrap().len(), 3);
}

/// Only the function that is not inlined is probed, and the report says so.
#[test]
fn calls_that_are_inlined_are_not_counted_and_told() {
    needs_root!();
    let options = ["--mark=step", "--mark=other"];
    let (_, report) = watch_with(&options, &program("inlined.c"), &[]);
    let marks = report.list("marks");
    let hits: Vec<u64> = marks.iter().map(|mark| number(mark, "hits")).collect();
    assert_eq!(hits, [3, 5], "{report}");
    let notes: Vec<_> = report
        .notes()
        .filter(|note| note.contains("--mark"))
        .collect();
    let expected = "--mark step: step is also inlined at 2 places, where it is not counted";
    assert!(notes.contains(&expected), "{report}");
}

/// Without any option only the barrier that is built on libc's is seen.
#[test]
fn functions_are_barriers_once_they_are_named() {
    needs_root!();
    let calls = program("calls.c");
    let (_, report) = watch_with(&[], &calls, &[]);
    assert_eq!(report.sites().len(), 1, "{report}");
    for departures in ["--departures=on", "--departures=off"] {
        let options = [
            departures,
            "--barrier=bar_wait:1:2",
            "--barrier=sync_all:0",
            "--barrier=spin_wait:3",
        ];
        // The load is so long that a thread that is late for another reason does not come last.
        let (finished, report) = watch_with(&options, &calls, &["rounds=50", "skew=3000"]);
        finished.expect(0);
        report.is_exactly(50 * (3 + 2 + 3 + 3), 4 * 50);
        for (site, threads, participants) in [
            ("all", 3, Some(3)),
            ("pair", 2, Some(2)),
            ("sync", 3, None),
            ("spin", 3, None),
        ] {
            let found = report.site_at(line("calls.c", &format!("SITE {site}")));
            assert_eq!(number(found, "episodes"), 50, "{report}");
            assert_eq!(found["kind"], "user");
            assert_eq!(found["threads"].as_array().unwrap().len(), threads);
            let barrier = found["barriers"][0].as_u64().unwrap();
            let barriers = report.list("barriers");
            let barrier = barriers
                .iter()
                .find(|b| number(b, "id") == barrier)
                .unwrap();
            assert_eq!(barrier["participants"].as_u64(), participants, "{report}");
        }
        // The last of them sleeps longest.
        let all = report.site_at(line("calls.c", "SITE all"));
        assert_eq!(number(&all["straggler"], "thread"), 2, "{report}");
    }
}

#[test]
fn functions_are_found_in_cpp_and_without_line_numbers() {
    needs_root!();
    let calls = Build::of("calls.c").flags(&["-g0"]).path();
    let options = ["--barrier=bar_wait:1:2", "--barrier=sync_all:0"];
    let (_, report) = watch_with(&options, &calls, &["rounds=5"]);
    report.is_exactly(5 * (3 + 2 + 3), 3 * 5);
}

/// The barrier below is also used by itself: its rounds go on unseen meanwhile.
#[test]
fn a_barrier_may_be_used_inside_of_another_and_outside() {
    needs_root!();
    for option in ["--barrier=inside:0", "--barrier=inside:0:1"] {
        let (_, report) = watch_with(&[option], &program("shared.c"), &["rounds=200"]);
        report.is_exactly(3 * 2 * 200, 2 * 200);
        for site in ["inside", "outside"] {
            let found = report.site_at(line("shared.c", &format!("SITE {site}")));
            assert_eq!(number(found, "episodes"), 200, "{report}");
        }
    }
}

/// Barriers end by jumps to other functions, through a `switch`, and by `longjmp`.
#[test]
fn barriers_may_end_in_any_way() {
    needs_root!();
    for flags in [&["-O0"][..], &["-O2"]] {
        let tails = Build::of("tails.c").flags(flags).path();
        for departures in ["--departures=on", "--departures=off"] {
            let options = [
                departures,
                "--barrier=only_passes_on",
                "--barrier=passes_on_inside:0",
                "--barrier=chooses:0",
                "--barrier=jumps_out:0",
            ];
            let (finished, report) = watch_with(&options, &tails, &["rounds=20"]);
            assert_eq!(finished.expect(0).out(), "done\n");
            for site in ["passes", "inside", "chooses", "plain"] {
                let found = report.site_at(line("tails.c", &format!("SITE {site}")));
                assert_eq!(number(found, "episodes"), 20, "{site}: {report}");
                let kind = if site == "plain" { "pthread" } else { "user" };
                assert_eq!(found["kind"], kind, "{report}");
            }
        }
    }
}

/// Their symbols are `<std::…::Barrier>::wait` and `<barrier::Team as …>::meet`.
#[test]
fn methods_of_rust_are_named_by_type_or_trait() {
    needs_root!();
    let program = Build::of("barrier.rs").compiler("rustc").path();
    let options = [
        "--barrier=Barrier::wait:1",
        "--mark=barrier::Team::meet",
        "--mark=Meeting::meet",
        "--name=Team::meet=meeting",
    ];
    let (_, report) = watch_with(&options, &program, &["20"]);
    // The barrier is known without a name, and counts once.
    report.is_exactly(60, 20);
    let site = report.site_at(line("barrier.rs", "SITE meet"));
    assert_eq!(number(site, "episodes"), 20, "{report}");
    assert_eq!(site["name"], "meeting", "{report}");
    for mark in report.list("marks") {
        assert_eq!(number(mark, "hits"), 60, "{report}");
    }
}

/// A return probe would be in the way of the exception, and end the program.
#[test]
fn exceptions_leave_a_barrier_as_they_do_without_sbt() {
    needs_root!();
    for flags in [&["-O0"][..], &["-O2"]] {
        let throws = Build::of("throws.cpp").compiler("g++").flags(flags).path();
        for departures in ["--departures=on", "--departures=off"] {
            let options = [departures, "--barrier=Gate::wait"];
            let (finished, report) = watch_with(&options, &throws, &["rounds=20"]);
            let finished = finished.expect(0);
            assert_eq!(finished.out(), "caught 1 1\n");
            for site in ["gate", "after"] {
                let found = report.site_at(line("throws.cpp", &format!("SITE {site}")));
                assert_eq!(number(found, "episodes"), 20, "{report}");
            }
            report.is_consistent();
            // The end of one's own barrier is always watched.
            let gate = report.site_at(line("throws.cpp", "SITE gate"));
            assert_eq!(number(&gate["release_ns"], "count"), 40, "{report}");
        }
    }
}

#[test]
fn what_is_not_there_is_told_before_the_program_starts() {
    needs_root!();
    for (option, expected) in [
        ("--mark=frist_part", "first_part"),
        ("--mark=marks.c:1", "marks.c:1"),
        ("--mark=makrs.c:20", "marks.c"),
        ("--barrier=secnd_part", "second_part"),
        (
            "--mark=strlen",
            "chooses a variant of strlen when the program starts",
        ),
    ] {
        let program = program("marks.c");
        let finished = run(command(
            sbt(),
            &["run", option, "--", program.to_str().unwrap()],
        ))
        .expect(125);
        assert!(finished.one_line().contains(expected), "{finished}");
        assert_eq!(finished.out(), "", "the program ran");
    }
}

/// Linux replaces a nop of five bytes by a call, once a probe on it is hit, and writes below the
/// stack pointer then. The program knows what its functions should return.
#[test]
fn nops_that_the_kernel_replaces_are_passed_over() {
    needs_root!();
    let nops = program("nops.c");
    let first = format!("--mark=nops.c:{}=line", line("nops.c", "LINE nop first"));
    let options = [
        first.as_str(),
        "--mark=patchable",
        "--mark=only",
        "--mark=plain",
        "--barrier=meet",
    ];
    for departures in ["--departures=on", "--departures=off"] {
        let options = [&options[..], &[departures]].concat();
        let (finished, report) = watch_with(&options, &nops, &["threads=2", "rounds=1000"]);
        assert_eq!(finished.expect(0).out(), "0 wrong\n");
        for mark in report.list("marks") {
            assert_eq!(number(mark, "hits"), 2 * 1000, "{report}");
        }
        report.is_exactly(2 * 10, 10);
        // The site is where `meet` is called, and not a place inside of it.
        assert_eq!(report.sites()[0]["function"], "work", "{report}");
    }
}

/// The user cannot mark these instructions.
#[test]
fn nops_that_the_kernel_replaces_are_refused_with_the_next_instruction() {
    needs_root!();
    let nops = program("nops.c");
    let alone = format!("nops.c:{}", line("nops.c", "LINE nop alone"));
    for (place, next) in [
        ("plain+0xa", "plain+0xf"),
        ("data16+0xa", "data16+0xf"),
        ("addr32+0xa", "addr32+0xf"),
        ("prefixed+0xa", "prefixed+0xf"),
        ("jump+0xa", "jump+0xf"),
        (&alone, "!0x"),
    ] {
        let option = format!("--mark={place}");
        let command = command(sbt(), &["run", &option, "--", nops.to_str().unwrap()]);
        let finished = run(command).expect(125);
        let line = finished.one_line();
        let is_told = line.contains("a nop of five bytes") && line.contains("next instruction");
        assert!(is_told && line.contains(next), "{line}");
        assert_eq!(finished.out(), "", "the program ran");
    }
    // There a mark does no harm.
    let (finished, report) = watch_with(&["--mark=plain+0xf"], &nops, &["rounds=1000"]);
    assert_eq!(finished.expect(0).out(), "0 wrong\n");
    assert_eq!(number(&report.list("marks")[0], "hits"), 1000, "{report}");
}
