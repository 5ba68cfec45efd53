//! Functions by normalised processor time, against a program whose parts are known.

use std::fs;

use serde_json::Value;

use crate::{
    harness::{
        Report, attach, best_of_five, command, folder, needs_root, number, pause, run, sbt_with,
        start, watch_with,
    },
    programs::Build,
    tty::{Terminal, USUAL, sbt_for_tty},
};

const C: Build = Build::of("sampled.c").flags(&["-fomit-frame-pointer"]);
const CPP: Build = Build::of("sampled.c").compiler("g++");
const STRIPPED: Build = Build::of("sampled.c")
    .flags(&["-fomit-frame-pointer", "-s"])
    .stripped();

fn functions(report: &Report) -> &[Value] {
    report.list("functions")
}

fn function<'a>(report: &'a Report, name: &str) -> &'a Value {
    let mut all = functions(report).iter();
    all.find(|it| it["function"] == name)
        .unwrap_or_else(|| panic!("no {name} in {report}"))
}

fn share(of: &Value, field: &str) -> f64 {
    of[field]
        .as_f64()
        .unwrap_or_else(|| panic!("{field}: {of}"))
}

/// The program's own times of its two parts, ns.
fn parts(out: &str) -> [f64; 2] {
    let line = out.lines().find_map(|line| line.strip_prefix("parts "));
    let numbers = line.unwrap_or_else(|| panic!("{out}")).split(' ');
    let numbers: Vec<f64> = numbers.map(|it| it.trim().parse().unwrap()).collect();
    [numbers[0], numbers[1]]
}

fn is_within(what: &str, value: f64, expected: f64, share: f64) -> Result<(), String> {
    if (value - expected).abs() <= share * expected {
        return Ok(());
    }
    Err(format!("{what}: {value}, not {expected}"))
}

/// All samples are accounted for, and the functions are as much as the threads were busy.
fn adds_up(report: &Report) -> Result<(), String> {
    let it = &report.0["sampling"];
    let all = number(it, "working") + number(it, "waiting") + number(it, "outside");
    assert_eq!(number(it, "samples"), all, "{report}");
    let own: u64 = functions(report)
        .iter()
        .map(|it| number(it, "self_npt_ns"))
        .sum();
    assert!(own.abs_diff(number(it, "npt_ns")) < 1000, "{report}");
    for it in functions(report) {
        let times = it["times"].as_array().unwrap().iter();
        let sum: u64 = times
            .map(|time| number(time, "ns") / number(time, "busy"))
            .sum();
        let npt = number(it, "npt_ns");
        assert!(sum.abs_diff(npt) < npt / 1000 + 1000, "{it}");
        assert!(number(it, "self_npt_ns") <= npt + 1, "{it}");
    }
    let busy = number(&report.0["parallelism"], "busy_ns") as f64;
    let asleep = it["blocked_npt_ns"].as_f64().unwrap_or(0.0);
    is_within("sum", number(it, "npt_ns") as f64 + asleep, busy, 0.1)
}

/// Quartz' case study: what one thread does alone for a quarter of the time is little of
/// the processor time.
fn finds_the_serial_part(build: Build, solve: &str) {
    best_of_five(|| {
        let arguments = ["rounds=120", "serial=10000", "parallel=15000"];
        let (finished, report) = watch_with(&["--sample", "300"], &build.path(), &arguments);
        let [serial_ns, parallel_ns] = parts(&finished.out());
        adds_up(&report)?;
        let rows = function(&report, "print_rows");
        let wall = serial_ns / (serial_ns + parallel_ns) * 100.0;
        is_within(
            "serial part",
            number(rows, "npt_ns") as f64,
            serial_ns,
            0.15,
        )?;
        is_within("its share", share(rows, "npt_pct"), wall, 0.15)?;
        let all = function(&report, solve);
        // Less what the threads take to get going.
        is_within("all", number(all, "npt_ns") as f64, parallel_ns, 0.25)?;
        // Of five parts of the work it is one: 10 of 10 + 4 × 15 ms.
        is_within("processor time", share(rows, "cpu_pct"), 100.0 / 7.0, 0.2)?;
        if wall > 1.3 * share(rows, "cpu_pct") {
            assert!(
                share(rows, "npt_pct") > 1.2 * share(rows, "cpu_pct"),
                "{report}"
            );
        }
        assert!(
            share(rows, "weighted_path_pct") > 1.2 * share(rows, "path_pct"),
            "{report}"
        );
        // Who called whom, through a large frame and without frame pointers.
        let row = function(&report, "print_row");
        assert_eq!(row["callers"][0]["function"], "print_rows", "{report}");
        assert_eq!(rows["callers"][0]["function"], "work", "{report}");
        let work = function(&report, "work");
        assert_eq!(work["callers"][0]["function"], Value::Null, "{report}");
        assert!(share(work, "npt_pct") > 85.0, "{report}");
        // Inlined.
        let burn = function(&report, "burn");
        assert!(number(burn, "self_npt_ns") > number(row, "self_npt_ns"));
        let sampling = &report.0["sampling"];
        let cut = number(sampling, "truncated") as f64 / number(sampling, "samples") as f64;
        assert!(cut < 0.15, "{report}");
        assert_eq!(number(sampling, "lost"), 0, "{report}");
        Ok(())
    });
}

#[test]
fn a_serial_part_stands_out_by_normalised_time() {
    needs_root!(alone);
    finds_the_serial_part(C, "solve");
}

#[test]
fn functions_of_cpp_have_their_names() {
    needs_root!(alone);
    finds_the_serial_part(CPP, "wave::grid<long>::solve");
}

#[test]
fn a_stripped_program_has_addresses() {
    needs_root!(alone);
    best_of_five(|| {
        let (_, report) = watch_with(&["--sample", "300"], &STRIPPED.path(), &["rounds=60"]);
        adds_up(&report)?;
        let first = &functions(&report)[0];
        let name = first["function"].as_str().unwrap();
        assert!(name.contains("-stripped+0x"), "{report}");
        assert!(share(first, "npt_pct") > 80.0, "{report}");
        Ok(())
    });
}

#[test]
fn sampling_begins_in_the_middle() {
    needs_root!(alone);
    best_of_five(|| {
        let mut target = start(command(C.path(), &["rounds=300", "hold=100000"]));
        target.wait_for("ready");
        pause(1500);
        let report = attach(target.pid(), &["--sample=300", "--duration=2"]).report();
        drop(target);
        let rows = function(&report, "print_rows");
        if number(rows, "samples") < 20 {
            return Err(format!("few samples: {report}"));
        }
        adds_up(&report)
    });
}

#[test]
fn folded_stacks_are_written() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("out.folded");
    let options = ["--sample=300", "--folded", file.to_str().unwrap()];
    let (_, report) = watch_with(&options, &C.path(), &["rounds=40"]);
    let text = fs::read_to_string(&file).unwrap();
    let mut sum = 0;
    for line in text.lines() {
        let (chain, us) = line.rsplit_once(' ').unwrap();
        assert!(!chain.is_empty(), "{text}");
        sum += us.parse::<u64>().unwrap();
    }
    let npt_us = number(&report.0["sampling"], "npt_ns") / 1000;
    assert!(
        sum.abs_diff(npt_us) <= text.lines().count() as u64,
        "{text}"
    );
    assert!(
        text.contains("main;work;print_rows;print_row;burn "),
        "{text}"
    );
    assert!(
        text.lines()
            .any(|line| line.starts_with("work;solve;burn ")),
        "{text}"
    );
}

#[test]
fn what_cannot_be_is_said_before_the_program_starts() {
    needs_root!();
    let most = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").unwrap();
    let most: u32 = most.trim().parse().unwrap();
    let mut cases = vec![
        (vec!["--folded", "/dev/null"], "add --sample 200", 2),
        (
            vec!["--sample=200", "--folded", "/nowhere/x"],
            "cannot write /nowhere/x",
            125,
        ),
    ];
    if most < 10_000 {
        cases.push((vec!["--sample=10000"], "perf_event_max_sample_rate", 125));
    }
    for (options, words, status) in cases {
        let all = [&["run"], &options[..], &["--", "echo", "never"]].concat();
        let finished = run(sbt_with(&all)).expect(status);
        assert!(finished.one_line().contains(words), "{words}");
        assert_eq!(finished.out(), "");
    }
}

#[test]
fn none_are_taken_unless_asked_for() {
    needs_root!();
    for options in [&[][..], &["--sample=0"]] {
        let (_, report) = watch_with(options, &C.path(), &["rounds=4"]);
        assert_eq!(report.0["functions"], Value::Null);
        assert_eq!(report.0["sampling"], Value::Null);
    }
}

#[test]
fn the_screen_shows_functions() {
    needs_root!();
    let mut command = sbt_for_tty(&["run", "--sample=200", "--"]);
    command.arg(C.path()).arg("rounds=100000");
    let terminal = Terminal::spawn(command, USUAL);
    terminal.sees("moving");
    terminal.press("8");
    terminal.press("\x1b[D");
    terminal.sees("processor time by function");
    terminal.sees("print_rows");
    terminal.press("\r");
    terminal.sees("by caller");
    terminal.press("9");
    terminal.press("\x1b[D");
    terminal.sees("critical path: whose work takes the time, by function");
    terminal.sees("print_rows");
    terminal.press("\x03");
    let (_, shown) = terminal.finish();
    assert!(
        shown.contains("FUNCTIONS, by normalised processor time"),
        "{shown}"
    );
}
