//! `sbt demo`: what a newcomer types first.

use serde_json::Value;

use crate::harness::{Report, best_of_five, each, folder, needs_root, number, run, sbt_with};

fn demo(name: &str, scale: &str, status: i32) -> (String, Report) {
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["demo", name, "--threads", "4", "--scale", scale]);
    command.args(["--json", "--output"]);
    command.arg(&json);
    let finished = run(command).expect(status);
    (finished.out(), Report::read(&json))
}

/// The last line of a demo's source that calls a function from two places: each
/// is a site of its own.
fn last_call(function: &str) -> Option<usize> {
    let source = include_str!("../../sbt-agent/src/demo/water.rs");
    let call = format!("self.{function}(me);");
    let lines = source.lines().collect::<Vec<_>>();
    let calls = lines.iter().filter(|line| line.trim() == call).count();
    let last = lines.iter().rposition(|line| line.trim() == call);
    last.filter(|_| calls > 1).map(|index| index + 1)
}

/// The site in a function of this name, or of its last call.
#[track_caller]
fn site<'a>(report: &'a Report, function: &str) -> &'a Value {
    let call = last_call(function);
    let is_it = |site: &&Value| {
        let name = site["function"].as_str();
        let file = site["file"].as_str().unwrap_or_default();
        let is_call = call.is_some_and(|line| site["line"] == line);
        name.is_some_and(|name| name.ends_with(function))
            || is_call && file.ends_with("demo/water.rs")
    };
    let found = report.sites().iter().find(is_it);
    found.unwrap_or_else(|| panic!("no {function} in {report}"))
}

/// CPU time of each thread at a site of a demo: two CPUs cannot run four threads at once, so their
/// wall times say little.
fn running(name: &str, function: &str) -> Vec<u64> {
    let (_, report) = demo(name, "0.3", 0);
    each(site(&report, function), "running_ns")
}

/// The most over the least.
fn spread(values: &[u64]) -> f64 {
    let (most, least) = (values.iter().max().unwrap(), values.iter().min().unwrap());
    *most as f64 / (*least).max(1) as f64
}

#[test]
fn every_program_is_watched_and_right() {
    needs_root!();
    let list = run(sbt_with(&["demo", "list"])).expect(0).out();
    let names: Vec<&str> = list
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(
        names,
        [
            "lu-block",
            "lu-cyclic",
            "lu-serial",
            "lu-parallel",
            "matmul",
            "matmul-tiles",
            "radix",
            "radix-flat",
            "ocean",
            "water",
            "water-folded",
            "deadlock"
        ]
    );
    for name in names.into_iter().filter(|name| *name != "deadlock") {
        let (out, report) = demo(name, "0.1", 0);
        assert!(out.contains("OK"), "{out}");
        assert!(report.number("episodes") > 0, "{report}");
        assert_eq!(report.number("lost_events"), 0, "{report}");
        assert_eq!(report.number("incomplete_episodes"), 0, "{report}");
        assert_eq!(
            report.number("arrivals"),
            4 * report.number("episodes"),
            "{name}"
        );
        assert_eq!(report.threads().len(), 4);
        report.is_consistent();
        // Phases are named by their functions, not by the wrapper of the barrier.
        for site in report.sites() {
            let function = site["function"].as_str().unwrap_or("");
            assert!(
                !function.is_empty() && !function.ends_with("Barrier::wait"),
                "{report}"
            );
            let path = site["file"].as_str().unwrap_or("");
            assert!(path.contains("demo/"), "{name}: {site:#}");
            assert!(!path.ends_with("barrier.rs"), "{name}: {site:#}");
        }
        assert!(report.sites().len() >= 2, "{report}");
    }
}

#[test]
fn lu_in_blocks_has_a_straggler() {
    needs_root!(alone);
    best_of_five(|| {
        let (_, report) = demo("lu-block", "0.3", 0);
        let site = site(&report, "update_rows");
        let idle = each(site, "idle_ns");
        let (most, least) = (idle.iter().max(), idle.iter().min());
        if most != idle.first() || least != idle.last() {
            return Err(format!("idle times {idle:?}"));
        }
        let straggler = &site["straggler"];
        if straggler["thread"] != 3 {
            return Err(format!("straggler {straggler}"));
        }
        // What costs most is listed first.
        if report.sites()[0]["id"] != site["id"] {
            return Err(format!("the worst site is {}", report.sites()[0]));
        }
        Ok(())
    });
}

#[test]
fn lu_cyclic_is_more_even_than_lu_in_blocks() {
    needs_root!(alone);
    best_of_five(|| {
        let [block, cyclic] =
            ["lu-block", "lu-cyclic"].map(|name| spread(&running(name, "update_rows")));
        if cyclic < 1.3 && block > 2.0 {
            Ok(())
        } else {
            Err(format!(
                "most/least work: block {block:.2}, cyclic {cyclic:.2}"
            ))
        }
    });
}

#[test]
fn tiles_that_do_not_go_evenly_give_one_thread_more() {
    needs_root!(alone);
    best_of_five(|| {
        let (tiles, even) = (
            running("matmul-tiles", "multiply"),
            running("matmul", "multiply"),
        );
        // Two tiles of five, and one for each of the others.
        let twice = tiles[1..].iter().all(|other| tiles[0] > other * 3 / 2);
        if twice && spread(&even) < 1.3 {
            Ok(())
        } else {
            Err(format!("tiles {tiles:?}, even {even:?}"))
        }
    });
}

#[test]
fn the_tree_sum_leaves_threads_without_work_and_the_flat_one_does_not() {
    needs_root!(alone);
    best_of_five(|| {
        let (tree, flat) = (
            running("radix", "tree_sum"),
            running("radix-flat", "flat_sum"),
        );
        if tree[0] < tree[3] / 3 && spread(&flat) < 1.6 {
            Ok(())
        } else {
            Err(format!("tree {tree:?}, flat {flat:?}"))
        }
    });
}

#[test]
fn the_serial_panel_belongs_to_two_threads_and_shrinks_when_shared() {
    needs_root!(alone);
    best_of_five(|| {
        let [serial, shared] = ["lu-serial", "lu-parallel"].map(|name| {
            let (_, report) = demo(name, "0.3", 0);
            let all: u64 = report
                .sites()
                .iter()
                .flat_map(|site| each(site, "running_ns"))
                .sum();
            let panel = site(&report, "factor_panel");
            let owners = each(panel, "running_ns");
            let imbalance = panel["imbalance_pct"].as_f64().unwrap();
            (owners, imbalance, all)
        });
        // The diagonal of a grid of two by two.
        let (owners, imbalance, all) = &serial;
        let two_own_it = owners[0] + owners[3] > 20 * (owners[1] + owners[2]);
        let share = |run: &[u64], all: u64| run.iter().sum::<u64>() as f64 / all as f64;
        let shrinks = share(&shared.0, shared.2) < 0.4 * share(owners, *all);
        if two_own_it && shrinks && *imbalance > 90.0 {
            Ok(())
        } else {
            Err(format!("serial {serial:?}, shared {shared:?}"))
        }
    });
}

#[test]
fn the_triangle_of_pairs_is_uneven_until_folded() {
    needs_root!(alone);
    best_of_five(|| {
        for function in ["pair_forces", "potential_energy"] {
            let (block, folded) = (
                running("water", function),
                running("water-folded", function),
            );
            // By the number of pairs: 1, 3, 5, 7.
            if !block.is_sorted() || spread(&block) < 3.0 || spread(&folded) > 1.3 {
                return Err(format!("{function}: block {block:?}, folded {folded:?}"));
            }
        }
        let (_, report) = demo("water", "0.3", 0);
        let mut phases: Vec<u64> = report
            .sites()
            .iter()
            .map(|site| number(&site["phase_ns"], "sum"))
            .collect();
        phases.sort_unstable_by(|a, b| b.cmp(a));
        let (both, all) = (phases[0] + phases[1], phases.iter().sum::<u64>());
        // Six functions; two of them are called from two places.
        if phases.len() == 8 && both > all * 8 / 10 {
            Ok(())
        } else {
            Err(format!("phases {phases:?}"))
        }
    });
}

#[test]
fn the_deadlock_names_who_is_missing() {
    needs_root!();
    let (_, report) = demo("deadlock", "0.1", 1);
    assert_eq!(report.number("exit_status"), 1);
    let open = &report.list("unfinished")[0];
    assert_eq!(open["participants"], 4, "{report}");
    // In the order in which they came.
    let mut arrived: Vec<_> = open["arrived"].as_array().unwrap().clone();
    arrived.sort_unstable_by_key(serde_json::Value::as_u64);
    assert_eq!(arrived, [0, 1, 3], "{report}");
    assert_eq!(open["missing"], serde_json::json!([2]), "{report}");
    let missing = &report.threads()[2];
    assert_eq!(missing["name"], "worker-2", "{report}");
    assert_eq!(missing["ended"], true, "{report}");
    assert!(number(open, "waiting_ns") > 3_000_000_000, "{report}");
    // sbt looked at the program while it hung.
    let hang = &report.0["hang"];
    assert_eq!(hang["kind"], "never", "{report}");
    assert_eq!(hang["because"], "member-gone", "{report}");
    assert_eq!(hang["outcome"], "lasts", "{report}");
    let missing = hang["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 1, "{report}");
    assert_eq!(missing[0]["name"], "T2 worker-2", "{report}");
    assert_eq!(missing[0]["thread"], 2, "{report}");
    assert_eq!(missing[0]["state"], "ended", "{report}");
    assert_eq!(hang["arrived"].as_array().unwrap().len(), 3, "{report}");
}

/// How long a demo ran, ns.
fn wall_ns(options: &[&str]) -> u64 {
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["demo"]);
    command
        .args(options)
        .args(["--json", "--output"])
        .arg(&json);
    run(command).expect(0);
    Report::read(&json).number("wall_ns")
}

#[test]
fn a_demo_goes_on_for_the_time_that_it_is_given() {
    needs_root!();
    for name in ["lu-block", "water"] {
        let ns = wall_ns(&[name, "--seconds=700ms"]);
        assert!(ns >= 700_000_000, "{name}: {ns}");
    }
    // Long enough for a newcomer to see something move.
    let ns = wall_ns(&[]);
    assert!(ns >= 8_000_000_000, "{ns}");
}

#[test]
fn threads_can_be_chosen() {
    needs_root!();
    let finished = run(sbt_with(&["demo", "matmul", "--scale=0.02", "-t", "7"])).expect(0);
    assert!(finished.stderr.contains("7 threads"), "{finished}");
    assert!(finished.stderr.starts_with("sbt"), "{finished}");
    assert!(finished.stderr.contains("demo matmul"), "{finished}");
}

#[test]
fn an_unknown_program_is_told_the_known_ones() {
    crate::harness::needs_nothing!();
    let finished = run(sbt_with(&["demo", "nonsense"])).expect(2);
    assert!(finished.one_line().contains("lu-block"), "{finished}");
    let finished = run(sbt_with(&["demo", "--scale=1", "--seconds=1"])).expect(2);
    let words = "cannot be used with '--seconds";
    assert!(finished.stderr.contains(words), "{finished}");
    for scale in ["-3", "0", "nan"] {
        let finished = run(sbt_with(&["demo", "--scale", scale])).expect(2);
        assert!(finished.one_line().contains("above 0"), "{finished}");
    }
}
