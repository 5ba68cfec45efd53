//! `sbt demo`: what a newcomer types first.

use crate::harness::{Report, best_of_three, folder, needs_root, number, quiet, run, sbt_with};

fn demo(name: &str, scale: &str, status: i32) -> (String, Report) {
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["demo", name, "--scale", scale, "--json", "--output"]);
    command.arg(&json);
    let finished = run(command).expect(status);
    (finished.out(), Report::read(&json))
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
            "matmul",
            "radix",
            "ocean",
            "water",
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
    needs_root!();
    let _alone = quiet();
    best_of_three(|| {
        let (_, report) = demo("lu-block", "0.3", 0);
        let site = report
            .sites()
            .iter()
            .find(|site| {
                site["function"]
                    .as_str()
                    .is_some_and(|name| name.ends_with("update_rows"))
            })
            .unwrap_or_else(|| panic!("no update_rows in {report}"));
        let idle: Vec<u64> = site["threads"]
            .as_array()
            .unwrap()
            .iter()
            .map(|thread| number(thread, "idle_ns"))
            .collect();
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
    needs_root!();
    let _alone = quiet();
    best_of_three(|| {
        let imbalance = |name: &str| {
            let (_, report) = demo(name, "0.3", 0);
            let update = report.sites().iter().find(|site| {
                site["function"]
                    .as_str()
                    .is_some_and(|name| name.ends_with("update_rows"))
            });
            // By running time: two CPUs cannot run four threads at once.
            let run: Vec<u64> = update.unwrap()["threads"]
                .as_array()
                .unwrap()
                .iter()
                .map(|thread| number(thread, "running_ns"))
                .collect();
            let (most, least) = (run.iter().max().unwrap(), run.iter().min().unwrap());
            *most as f64 / (*least).max(1) as f64
        };
        let (block, cyclic) = (imbalance("lu-block"), imbalance("lu-cyclic"));
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
    let finished = run(sbt_with(&["demo", "nonsense"]));
    assert!(!finished.status.success());
    assert!(finished.one_line().contains("lu-block"), "{finished}");
}
