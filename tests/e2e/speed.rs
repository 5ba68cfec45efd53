//! How fast the CPUs of threads are is measured at their arrivals, now and then.

use serde_json::Value;

use crate::{
    harness::{Report, command, folder, needs_root, number, run, sbt, watch_with},
    programs::program,
};

/// How often each thread's CPU was measured, and the mean time that it took, ns.
fn measured(report: &Report) -> Vec<(u64, Option<f64>)> {
    let of = |thread: &Value| {
        (
            number(thread, "fixed_work_times"),
            thread["fixed_work_ns"].as_f64(),
        )
    };
    report.list("threads").iter().map(of).collect()
}

#[test]
fn it_is_measured_at_arrivals_and_not_at_each() {
    needs_root!();
    let folder = folder();
    let recording = folder.path().join("run.sbt");
    let record = format!("--record={}", recording.display());
    let (_, report) = watch_with(
        &[&record],
        &program("truth.c"),
        &["threads=2", "rounds=400", "base=500"],
    );
    let shortest = report.number("fixed_work_shortest_ns") as f64;
    assert!(shortest > 100.0, "{report}");
    let all = measured(&report);
    assert_eq!(all.len(), 2);
    for (times, mean_ns) in &all {
        // The rounds take 200 ms or more, and two measurements are 4 ms apart, or a tick of the kernel.
        assert!((5..400).contains(times), "{report}");
        let mean_ns = mean_ns.unwrap();
        assert!(
            (shortest..=4.0 * shortest).contains(&mean_ns),
            "{mean_ns} {report}"
        );
    }
    let late = &report.list("sites")[0]["straggler"]["late"];
    assert!(number(late, "cpu_slower_episodes") > 0, "{report}");
    assert!(
        late["cpu_slower"]
            .as_f64()
            .is_some_and(|slower| slower > 0.0),
        "{report}"
    );

    let again = folder.path().join("again.json");
    let arguments = [
        "report",
        recording.to_str().unwrap(),
        "--json",
        "--output",
        again.to_str().unwrap(),
    ];
    run(command(sbt(), &arguments)).expect(0);
    assert_eq!(measured(&Report::read(&again)), all);
}

#[test]
fn where_it_is_not_measured_nothing_is_told() {
    needs_root!();
    let options = ["--backend=ptrace"];
    let (_, report) = watch_with(&options, &program("truth.c"), &["threads=2", "rounds=20"]);
    assert_eq!(report.0["fixed_work_shortest_ns"], Value::Null, "{report}");
    assert_eq!(measured(&report), [(0, None), (0, None)]);
}
