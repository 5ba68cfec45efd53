//! Episodes one by one, names, conceptual phases and warnings.

use serde_json::Value;

use crate::{
    harness::{best_of_five, command, needs_root, number, run, sbt, watch_with},
    programs::{Build, line, program},
};

fn sbt_run(options: &[&str], source: &'static str, arguments: &[&str]) -> String {
    let program = program(source);
    let mut all = vec!["run"];
    all.extend(options);
    all.extend(["--", program.to_str().unwrap()]);
    all.extend(arguments);
    run(command(sbt(), &all)).expect(0).stderr
}

#[test]
fn watched_episodes_are_told() {
    needs_root!();
    let arguments = ["threads=3", "rounds=5", "base=500", "skew=2000"];
    let text = sbt_run(
        &["--watch=meet", "--name=meet=together"],
        "truth.c",
        &arguments,
    );
    let episodes: Vec<&str> = text
        .lines()
        .filter(|line| {
            line.starts_with("sbt: phase ") && line.contains(", together (meet truth.c:")
        })
        .collect();
    assert_eq!(episodes.len(), 5, "{text}");
    assert!(episodes[4].contains("episode 5: barrier "), "{text}");
    assert!(
        episodes[4].contains(", phase time ") && episodes[4].contains(", total "),
        "{text}"
    );
    // And the report calls the site by its name.
    let table = text.split("BARRIERS").nth(1).unwrap();
    assert!(table.contains("\ntogether "), "{text}");
}

/// In the order in which the program's loads let them come, unless the machine is
/// busy with something else.
#[test]
fn the_arrivals_of_an_episode_are_told_in_their_order() {
    needs_root!(alone);
    let arguments = ["threads=3", "rounds=5", "base=500", "skew=4000"];
    best_of_five(|| {
        let text = sbt_run(&["--watch=meet"], "truth.c", &arguments);
        let arrivals = text.lines().filter(|line| line.starts_with("       T"));
        let threads: Vec<&str> = arrivals.map(|line| &line[7..9]).collect();
        if threads == ["T0", "T1", "T2"].repeat(5) {
            Ok(())
        } else {
            Err(text)
        }
    });
}

/// And not the line 2 of a file called step.
#[test]
fn a_name_may_look_like_a_line() {
    needs_root!();
    let arguments = ["threads=3", "rounds=5", "base=500", "skew=2000"];
    for name in ["step:2", "lib!step+0x2"] {
        let (watch, named) = (format!("--watch={name}"), format!("--name=meet={name}"));
        let text = sbt_run(&[&watch, &named], "truth.c", &arguments);
        let told = format!(", {name} (meet truth.c:");
        let episodes = text
            .lines()
            .filter(|line| line.starts_with("sbt: phase ") && line.contains(&told));
        assert_eq!(episodes.count(), 5, "{text}");
        assert!(!text.contains("no barrier was called"), "{text}");
    }
}

#[test]
fn the_report_lists_watched_episodes() {
    needs_root!();
    let options = ["--watch-all", "--quiet"];
    let arguments = ["threads=3", "rounds=20", "base=300", "skew=1000"];
    let (_, report) = watch_with(&options, &program("truth.c"), &arguments);
    let watched = report.list("watched");
    assert_eq!(watched.len(), 20);
    let mut phases = 0;
    for (index, episode) in (0_u64..).zip(watched) {
        assert_eq!(number(episode, "index"), index);
        let span = number(episode, "last_ns") - number(episode, "first_ns");
        assert_eq!(span, number(episode, "barrier_ns"));
        let arrivals = episode["arrivals"].as_array().unwrap();
        let sum = |field: &str| arrivals.iter().map(|a| number(a, field)).sum::<u64>();
        assert_eq!(sum("gap_ns"), span, "gaps add up");
        for arrival in arrivals {
            let at = number(arrival, "since_start_ns");
            assert_eq!(at + number(arrival, "idle_ns"), number(episode, "last_ns"));
        }
        phases += number(episode, "phase_ns");
    }
    let all: u64 = report
        .sites()
        .iter()
        .map(|site| number(&site["phase_ns"], "sum"))
        .sum();
    assert_eq!(phases, all);
    // Phases tile the run.
    let later = phases - number(&watched[0], "phase_ns");
    let last = |index: usize| number(&watched[index], "last_ns");
    assert_eq!(later, last(19) - last(0));
}

#[test]
fn nothing_is_watched_unless_asked_for() {
    needs_root!();
    let (_, report) = watch_with(&[], &program("truth.c"), &["rounds=3"]);
    assert!(report.0["watched"].is_null());
    assert_eq!(report.list("warnings").len(), 0);
}

#[test]
fn long_barriers_are_warned_of_once_and_counted() {
    needs_root!();
    // Far above the limit: the waiting thread may come late, too.
    let arguments = ["threads=2", "rounds=5", "skew=200000"];
    let text = sbt_run(&["--warn-time=20"], "truth.c", &arguments);
    let warnings = text
        .lines()
        .filter(|line| line.starts_with("sbt: warning: phase 1, meet"));
    assert_eq!(warnings.count(), 1, "{text}");
    assert!(
        text.contains("warning: 5 episodes of meet truth.c:"),
        "{text}"
    );
    let silent = sbt_run(&["--warn-time=20", "--no-warnings"], "truth.c", &arguments);
    assert!(!silent.contains("warning"), "{silent}");
}

#[test]
fn phase_times_are_told_as_phases_end() {
    needs_root!();
    let text = sbt_run(&["--phase-times"], "truth.c", &["threads=2", "rounds=4"]);
    let phases = text.lines().filter(|line| line.starts_with("sbt: phase "));
    let numbers: Vec<&str> = phases
        .filter_map(|line| line.strip_prefix("sbt: phase ")?.split(',').next())
        .collect();
    assert_eq!(numbers, ["1", "2", "3", "4"], "{text}");
}

/// In wrapper.c four phases end at barriers in turns.
#[test]
fn conceptual_phases_hold_what_lies_between() {
    needs_root!();
    let at = |what: &str| format!("wrapper.c:{}", line("wrapper.c", what));
    let (third, wrapper) = (at("CALL third"), at("SITE wrapper"));
    let round = format!("--phase=round={third}..{third}");
    let rest = format!("--phase=rest={third}..{wrapper}");
    let (_, report) = watch_with(&[&round, &rest], &program("wrapper.c"), &["rounds=10"]);
    let phases = report.list("conceptual_phases");
    let of = |index: usize| -> &Value { &phases[index] };
    assert_eq!(of(0)["name"], "round");
    assert_eq!(number(&of(0)["phase_ns"], "count"), 9, "{report}");
    let inside = number(of(0), "episodes");
    assert_eq!(inside % 9, 0, "{report}");
    assert!(inside >= 4 * 9 - 9, "{report}");
    assert!(number(&of(1)["phase_ns"], "count") >= 9, "{report}");
    let mean = |index: usize| number(&of(index)["phase_ns"], "mean");
    assert!(
        mean(1) < mean(0),
        "a part is shorter than the whole: {report}"
    );
    assert_eq!(of(0)["threads"].as_array().unwrap().len(), 3);
}

/// Two teams pass the same lines at different times.
#[test]
fn conceptual_phases_belong_to_teams() {
    needs_root!();
    let at = |what: &str| format!("spans.c:{}", line("spans.c", what));
    let option = format!("--phase=part={}..{}", at("SITE begin"), at("SITE end"));
    let (_, report) = watch_with(&[&option], &program("spans.c"), &["rounds=10"]);
    let part = &report.list("conceptual_phases")[0];
    assert_eq!(number(&part["phase_ns"], "count"), 20, "{report}");
    // No thread sleeps for less.
    assert!(number(&part["phase_ns"], "min") >= 10_000_000, "{report}");
    assert_eq!(number(part, "episodes"), 20, "{report}");
    assert_eq!(number(part, "abandoned"), 0, "{report}");
    assert_eq!(part["unfinished"], false, "{report}");
    assert_eq!(part["threads"].as_array().unwrap().len(), 4);
}

#[test]
fn a_site_that_nobody_calls_from_is_told_with_the_nearest() {
    needs_root!();
    let text = sbt_run(&["--watch=meat"], "truth.c", &["rounds=3"]);
    let line = text.split("note: ").nth(1).unwrap_or_default();
    let line: String = line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        line.contains("--watch meat: no barrier was called from there"),
        "{text}"
    );
    assert!(line.contains("the nearest is meet"), "{text}");
}

/// Optimised, the call is a jump, and the barrier returns to the caller of the function.
#[test]
fn a_barrier_that_is_the_last_act_of_a_function_is_named_by_its_own_line() {
    needs_root!();
    let jumps = Build::of("jumps.c").flags(&["-O2"]).path();
    let at = |mark: &str| line("jumps.c", &format!("SITE {mark}"));
    let name = format!("--name=jumps.c:{}=together", at("meet"));
    let (_, report) = watch_with(&[&name], &jumps, &["rounds=20"]);
    report.is_exactly(2 * 6 * 20, 6 * 20);
    let places = |site: &Value| {
        let callers = site["callers"].as_array().unwrap().iter();
        let callers = callers.map(|caller| caller.as_str().unwrap().to_owned());
        (site["line"].as_u64().unwrap(), callers.collect::<Vec<_>>())
    };
    let mut found: Vec<_> = report.sites().iter().map(places).collect();
    found.sort();
    let work = |mark: &str| format!("work jumps.c:{}", at(mark));
    // `meet` is only the way to the barrier; it has a caller each.
    let mut expected = vec![
        (at("one").into(), Vec::new()),
        (at("other").into(), Vec::new()),
        (
            at("last").into(),
            vec![
                format!("passes_on jumps.c:{}", at("passes on")),
                work("begin"),
            ],
        ),
        (at("chooses").into(), Vec::new()),
        (at("twice").into(), Vec::new()),
        (at("or else").into(), Vec::new()),
    ];
    expected.sort();
    assert_eq!(found, expected, "{report}");
    let named = report.sites().iter();
    let named = named.filter(|site| site["name"] == "together");
    assert_eq!(named.count(), 2, "{report}");
}
