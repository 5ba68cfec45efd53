//! How well the threads are used, against programs whose loads are known.

use serde_json::Value;

use crate::{
    harness::{Report, best_of_five, each, needs_root, number, watch, watch_with},
    programs::program,
    report::text_of,
};

/// Loads of 20, 40, 60 and 80 ms, asleep: so they take no CPU from each other, and what
/// others on the machine take of it is little beside them.
const LOADS: [&str; 4] = ["threads=4", "rounds=12", "base=20000", "skew=20000"];
const ROUNDS: f64 = 12.0;
/// The first load, and what each thread has more than the one before, ns.
const STEP: f64 = 20e6;

fn is_near(what: &str, value: &Value, expected: f64) -> Result<(), String> {
    // Threads wake up a little later than they wanted to.
    is_within(what, value, expected, 0.05)
}

fn is_within(what: &str, value: &Value, expected: f64, share: f64) -> Result<(), String> {
    let value = value.as_f64().ok_or_else(|| format!("{what} is unknown"))?;
    let is_near = (value - expected).abs() <= share * expected;
    is_near
        .then_some(())
        .ok_or_else(|| format!("{what}: {value}, not {expected}"))
}

/// The factors of a report, which multiply up.
fn factors(report: &Report) -> [&Value; 4] {
    let it = &report.0["efficiency"];
    let names = ["parallel", "load_balance", "serialisation", "transfer"];
    let factors = names.map(|name| &it[name]);
    let [parallel, rest @ ..] = factors.map(|it| it.as_f64().unwrap());
    let product: f64 = rest.iter().product();
    assert!((parallel - product).abs() < 1e-6, "{report}");
    assert!(rest.iter().all(|it| (0.0..=1.0).contains(it)), "{report}");
    factors
}

#[test]
fn a_thread_with_more_work_unbalances_the_load() {
    needs_root!(alone);
    best_of_five(|| {
        let report = watch(&program("truth.c"), &[&LOADS[..], &["load=sleep"]].concat());
        let [parallel, balance, serial, transfer] = factors(&report);
        is_near("parallel", parallel, 0.625)?;
        is_near("balance", balance, 0.625)?;
        is_near("serial", serial, 1.0)?;
        is_near("transfer", transfer, 1.0)?;
        let efficiency = &report.0["efficiency"];
        is_near("speed-up", &efficiency["speedup"], 2.5)?;
        assert_eq!(efficiency["threads"], 4, "{report}");
        let site = &report.sites()[0];
        is_near("busy", &site["parallelism"]["mean_busy"], 2.5)?;
        let times = site["parallelism"]["times"].as_array().unwrap();
        for busy in 1..=4 {
            let time = times.iter().find(|time| time["busy"] == busy);
            let time = time.ok_or_else(|| format!("never {busy} are busy"))?;
            is_within("a quarter", &time["ns"], ROUNDS * STEP, 0.1)?;
        }
        // 80 ms less 10 %, 25 %, and no more than to where the one with 60 ms comes.
        let what_if = &site["what_if"];
        is_near("10 %", &what_if["straggler_10_pct_faster_ns"], ROUNDS * 8e6)?;
        is_near(
            "25 %",
            &what_if["straggler_25_pct_faster_ns"],
            ROUNDS * STEP,
        )?;
        is_near(
            "50 %",
            &what_if["straggler_50_pct_faster_ns"],
            ROUNDS * STEP,
        )?;
        is_within("path, %", &site["path_pct"], 100.0, 0.001)?;
        is_near("path", &site["path_ns"], ROUNDS * 4.0 * STEP)?;
        // Quartz: each quarter of the time by the number of those that were busy.
        let shares = each(site, "npt_ns");
        for (share, expected) in shares.iter().zip([0.25, 0.583_3, 1.083_3, 2.083_3]) {
            is_within("npt", &Value::from(*share), ROUNDS * expected * STEP, 0.1)?;
        }
        let busy_ns = number(&site["parallelism"], "busy_ns");
        let sum: u64 = shares.iter().sum();
        assert!(sum.abs_diff(busy_ns) < 10, "{report}");
        Ok(())
    });
}

#[test]
fn more_work_in_turns_is_serial_and_not_unbalanced() {
    needs_root!(alone);
    best_of_five(|| {
        let more = ["load=sleep", "turn=1"];
        let report = watch(&program("truth.c"), &[&LOADS[..], &more].concat());
        let [parallel, balance, serial, _] = factors(&report);
        is_near("parallel", parallel, 0.625)?;
        is_near("balance", balance, 1.0)?;
        is_near("serial", serial, 0.625)
    });
}

#[test]
fn threads_that_share_the_processors_lack_them() {
    needs_root!(alone);
    best_of_five(|| {
        let report = watch(
            &program("truth.c"),
            &["threads=8", "rounds=10", "base=20000", "load=spin"],
        );
        factors(&report);
        let cpus = std::thread::available_parallelism().unwrap().get() as f64;
        let available = report.0["efficiency"]["cpu_availability"].as_f64().unwrap();
        // Others on the machine may leave less.
        if available > 1.15 * (cpus / 8.0).min(1.0) {
            return Err(format!("available: {available}"));
        }
        let sum = |field| -> f64 {
            let threads = report.threads().iter();
            threads.map(|thread| number(thread, field) as f64).sum()
        };
        let running = sum("running_ns") / (sum("running_ns") + sum("ready_ns"));
        is_near("running", &Value::from(running), available)
    });
}

#[test]
fn the_text_says_it() {
    needs_root!();
    let arguments = [
        "threads=2",
        "rounds=20",
        "base=2000",
        "skew=2000",
        "load=sleep",
    ];
    let text = text_of(&[], &program("truth.c"), &arguments);
    let line = text.lines().find(|line| line.starts_with("efficiency 0."));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(
        line.contains(" = balance 0.") && line.contains(" × serial "),
        "{text}"
    );
    assert!(line.contains(" of 2"), "{text}");
    assert!(text.contains("  busy threads: "), "{text}");
    assert!(
        text.contains("  a straggler 25 % faster would save "),
        "{text}"
    );
}

/// From each meeting to the next: what is true of the run is true of its phases.
#[test]
fn a_conceptual_phase_has_efficiencies_of_its_own() {
    needs_root!(alone);
    best_of_five(|| {
        let arguments = [&LOADS[..], &["load=sleep"]].concat();
        let (_, report) = watch_with(
            &["--phase=round=meet..meet"],
            &program("truth.c"),
            &arguments,
        );
        let round = &report.list("conceptual_phases")[0];
        assert_eq!(number(&round["phase_ns"], "count"), 11, "{report}");
        let it = &round["efficiency"];
        is_near("parallel", &it["parallel"], 0.625)?;
        is_near("balance", &it["load_balance"], 0.625)?;
        is_near("serial", &it["serialisation"], 1.0)?;
        is_near("transfer", &it["transfer"], 1.0)?;
        is_near("speed-up", &it["speedup"], 2.5)?;
        assert_eq!(it["threads"], 4, "{report}");
        let [parallel, balance, serial, transfer] =
            ["parallel", "load_balance", "serialisation", "transfer"]
                .map(|name| it[name].as_f64().unwrap());
        assert!(
            (parallel - balance * serial * transfer).abs() < 1e-6,
            "{it}"
        );
        Ok(())
    });
}
