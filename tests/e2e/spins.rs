//! Barriers that only spin: pointed at, and counted once they are proven.

use std::path::Path;

use serde_json::Value;

use crate::{
    harness::{
        Report, attach, best_of_five, folder, needs_root, number, run, sbt_with, start, watch,
        watch_with,
    },
    programs::{Build, line, program},
};

const SPINS: Build = Build::of("spins.c");

fn suspects(report: &Report) -> &[Value] {
    let found = report.0["spin_suspects"].as_array();
    found.unwrap_or_else(|| panic!("nobody looked: {report}"))
}

/// Threads that spin take the CPUs from each other if there are more threads than CPUs: a run takes
/// many times as long then.
const THREADS: u64 = 2;
const ROUNDS: u64 = 700;

/// Watches a program, and only points at loops.
fn pointed(program: &Path, arguments: &[&str]) -> Report {
    watch_with(&["--spin=point"], program, arguments).1
}

/// The one loop that is suspected in a run of more than a second; what is wrong
/// otherwise.
fn suspect(program: &Path, how: &str) -> Result<(Value, Report), String> {
    let arguments = [
        format!("how={how}"),
        format!("threads={THREADS}"),
        format!("rounds={ROUNDS}"),
    ];
    let report = pointed(program, &arguments.each_ref().map(String::as_str));
    match suspects(&report) {
        [one] => Ok((one.clone(), report)),
        others => Err(format!("{how}: {others:?}")),
    }
}

/// Follows the command that the report gives, with options to have a report from it.
#[track_caller]
fn follow(suspect: &Value) -> Report {
    let command = suspect["command"].as_str().unwrap();
    let mut words = command.split(' ');
    assert_eq!((words.next(), words.next()), (Some("sbt"), Some("run")));
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut sbt = sbt_with(&["run", "--budget=off", "--json", "--output"]);
    sbt.arg(&json).args(words);
    let finished = run(sbt).expect(0);
    assert_eq!(finished.stderr, "", "{finished}");
    Report::read(&json)
}

#[test]
fn barriers_that_spin_are_pointed_at_and_found_by_the_command() {
    needs_root!(alone);
    for (how, site) in [
        ("sense", "SITE sense"),
        ("yield", "SITE yield"),
        ("ticket", "SITE ticket"),
        ("count", "SITE count"),
        ("patient", "SITE patient"),
    ] {
        best_of_five(|| {
            let (found, report) = suspect(&SPINS.path(), how)?;
            assert_eq!(found["function"], format!("{how}_wait"), "{report}");
            assert_eq!(found["kind"], "barrier", "{report}");
            let (at, wanted) = (number(&found, "line"), u64::from(line("spins.c", site)));
            assert!(at.abs_diff(wanted) <= 4, "{found}");
            assert_eq!(number(&found, "threads"), THREADS, "{found}");
            let share = found["share_pct"].as_f64().unwrap();
            if !(2.0..95.0).contains(&share) {
                return Err(format!("{how}: {share} %"));
            }
            let notes = report.list("notes");
            assert!(notes.contains(&found["text"]), "{report}");
            let followed = follow(&found);
            followed.is_exactly(THREADS * ROUNDS, ROUNDS);
            assert!(suspects_or_none(&followed).is_empty(), "{followed}");
            Ok(())
        });
    }
}

/// Threads that spin and have no CPU are seen to spin, by turns.
#[test]
fn more_threads_than_cpus_spin() {
    needs_root!(alone);
    best_of_five(|| {
        let report = pointed(&SPINS.path(), &["how=sense", "threads=4", "rounds=400"]);
        let [found] = suspects(&report) else {
            return Err(report.to_string());
        };
        assert_eq!(found["function"], "sense_wait", "{report}");
        assert!((2..=4).contains(&number(found, "threads")), "{found}");
        Ok(())
    });
}

/// The suspects; empty also if sbt did not look for any.
fn suspects_or_none(report: &Report) -> &[Value] {
    report.0["spin_suspects"].as_array().map_or(&[], |all| all)
}

#[test]
fn one_without_an_argument_and_without_lines_is_named_so_that_it_is_counted() {
    needs_root!(alone);
    let bare = SPINS.flags(&["-g0"]).path();
    best_of_five(|| {
        let (found, _) = suspect(&bare, "global")?;
        assert_eq!(found["function"], "global_wait");
        assert_eq!(found["line"], Value::Null);
        follow(&found).is_exactly(THREADS * ROUNDS, ROUNDS);
        Ok(())
    });
}

#[test]
fn one_that_is_given_the_threads_own_is_named_so_that_it_is_counted() {
    needs_root!(alone);
    best_of_five(|| {
        let (found, _) = suspect(&SPINS.path(), "private")?;
        assert_eq!(found["function"], "private_wait");
        follow(&found).is_exactly(THREADS * ROUNDS, ROUNDS);
        Ok(())
    });
}

#[test]
fn a_barrier_that_spins_is_counted_once_it_is_proven() {
    needs_root!(alone);
    // A name is needed for the command alone.
    for (program, how) in [
        (SPINS.path(), "relaxed"),
        (SPINS.path(), "private"),
        (SPINS.stripped().path(), "sense"),
        (SPINS.path(), "inline"),
        (SPINS.stripped().path(), "macro"),
    ] {
        best_of_five(|| {
            let how = format!("how={how}");
            let report = watch(&program, &[&how, "threads=2", "rounds=900"]);
            let [barrier] = report.list("barriers") else {
                return Err(report.to_string());
            };
            assert_eq!(barrier["kind"], "spin", "{report}");
            let episodes = report.number("episodes");
            if !(50..1800).contains(&episodes) {
                return Err(report.to_string());
            }
            assert!(suspects_or_none(&report).is_empty(), "{report}");
            let notes = report.list("notes").iter().filter_map(Value::as_str);
            let told = notes.filter(|note| note.contains("proven that it is a barrier"));
            assert_eq!(told.count(), 1, "{report}");
            Ok(())
        });
    }
}

#[test]
fn locks_and_threads_that_take_turns_are_neither_counted_nor_pointed_at() {
    needs_root!(alone);
    for how in ["ticketlock", "turns"] {
        let report = watch(
            &SPINS.path(),
            &[&format!("how={how}"), "threads=2", "rounds=700"],
        );
        assert_eq!(report.number("episodes"), 0, "{how}: {report}");
        assert!(suspects_or_none(&report).is_empty(), "{how}: {report}");
    }
}

/// Also where no barrier is hit for longer than it takes to look.
#[test]
fn one_that_is_watched_is_no_news() {
    needs_root!(alone);
    let (_, report) = watch_with(
        &["--barrier=sense_wait"],
        &SPINS.path(),
        &["how=sense", "rounds=10", "stuck=12000"],
    );
    report.is_exactly(4 * 10, 10);
    assert_eq!(suspects(&report), [] as [Value; 0], "{report}");
}

#[test]
fn one_built_without_optimisation_is_seen() {
    needs_root!(alone);
    for build in [
        SPINS.flags(&["-O0"]),
        SPINS.flags(&["-O0"]).compiler("clang"),
    ] {
        best_of_five(|| {
            let (found, _) = suspect(&build.path(), "sense")?;
            assert_eq!(found["function"], "sense_wait");
            Ok(())
        });
    }
}

#[test]
fn one_that_is_no_function_is_named_by_its_line_so_that_it_is_counted() {
    needs_root!(alone);
    for (how, rounds) in [("inline", ROUNDS), ("macro", 2 * ROUNDS)] {
        best_of_five(|| {
            let (found, _) = suspect(&SPINS.path(), how)?;
            let site = u64::from(line("spins.c", &format!("SITE {how}")));
            assert!(number(&found, "line").abs_diff(site) <= 4, "{found}");
            follow(&found).is_exactly(THREADS * rounds, rounds);
            Ok(())
        });
    }
}

#[test]
fn in_a_stripped_program_the_address_is_told() {
    needs_root!(alone);
    let stripped = SPINS.stripped().path();
    best_of_five(|| {
        let (found, _) = suspect(&stripped, "sense")?;
        assert_eq!(found["function"], Value::Null, "{found}");
        assert_eq!(found["command"], Value::Null, "{found}");
        let place = found["place"].as_str().unwrap();
        assert!(place.starts_with("spins-stripped+0x"), "{found}");
        let text = found["text"].as_str().unwrap();
        assert!(text.contains("needs the symbol"), "{text}");
        Ok(())
    });
}

#[test]
fn what_may_be_a_lock_is_said_to_be() {
    needs_root!(alone);
    best_of_five(|| {
        let (found, _) = suspect(&SPINS.path(), "ticketlock")?;
        assert_eq!(found["kind"], "unclear", "{found}");
        assert!(found["text"].as_str().unwrap().contains("or a lock"));
        Ok(())
    });
}

#[test]
fn what_only_looks_like_it_is_not_pointed_at() {
    needs_root!(alone);
    for how in ["lock", "exchange", "compute", "clock", "one"] {
        let rounds = if how.contains('o') {
            "rounds=600"
        } else {
            "rounds=300"
        };
        let report = watch(&SPINS.path(), &[&format!("how={how}"), rounds]);
        assert_eq!(suspects(&report), [] as [Value; 0], "{how}: {report}");
    }
}

#[test]
fn where_only_known_barriers_are_hit_nothing_is_pointed_at() {
    needs_root!(alone);
    let report = watch(&program("calls.c"), &[]);
    assert!(report.number("episodes") > 0, "{report}");
    assert!(suspects_or_none(&report).is_empty(), "{report}");
    let team = Build::of("openmp.c").flags(&["-fopenmp"]).path();
    let mut command = sbt_with(&["run", "--json", "--output"]);
    let folder = folder();
    let json = folder.path().join("report.json");
    command
        .arg(&json)
        .arg("--")
        .arg(team)
        .args(["rounds=2000", "threads=2"])
        .env("OMP_WAIT_POLICY", "active");
    run(command).expect(0);
    let report = Report::read(&json);
    assert!(suspects_or_none(&report).is_empty(), "{report}");
}

#[test]
fn an_attached_program_is_told_by_its_number() {
    needs_root!(alone);
    let program = SPINS.path();
    best_of_five(|| {
        let target = start(crate::harness::command(
            &program,
            &["how=sense", "rounds=600"],
        ));
        let attached = attach(target.pid(), &["--spin=point"]);
        target.finish().expect(0);
        let report = attached.report();
        let [found] = suspects(&report) else {
            return Err(report.to_string());
        };
        // The program has ended: its number may belong to another process.
        let expected = "sbt attach --barrier sense_wait PID";
        assert_eq!(found["command"], expected, "{report}");
        Ok(())
    });
}

#[test]
fn the_text_says_it_where_nothing_else_is_found() {
    needs_root!(alone);
    best_of_five(|| {
        let mut command = sbt_with(&["run", "--spin=point", "--"]);
        command.arg(SPINS.path()).args(["how=sense", "rounds=400"]);
        let finished = run(command).expect(0);
        let words: Vec<_> = finished.stderr.split_whitespace().collect();
        let words = words.join(" ");
        assert!(words.contains("No barrier was seen in"), "{finished}");
        let found = words.contains("in a loop of sense_wait (spins.c:");
        (found && words.matches("in a loop of").count() == 1)
            .then_some(())
            .ok_or(words)
    });
    let (_, report) = watch_with(&["--barrier", "sense_wait"], &SPINS.path(), &["rounds=50"]);
    report.is_exactly(200, 50);
}
