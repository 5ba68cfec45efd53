//! How well the threads are used, against programs whose loads are known.

use serde_json::Value;

use crate::{
    harness::{Report, best_of_five, each, needs_root, number, watch},
    loads::Loads,
    programs::program,
    report::text_of,
    truth::measure,
};

/// Loads of 20, 40, 60 and 80 ms, asleep: so they take no CPU from each other. What they
/// were, which on a busy machine is more, the program notes.
const LOADS: [&str; 6] = [
    "threads=4",
    "rounds=12",
    "base=20000",
    "skew=20000",
    "load=sleep",
    "beginnings=1",
];

fn is_near(what: &str, value: &Value, expected: f64) -> Result<(), String> {
    let value = value.as_f64().ok_or_else(|| format!("{what} is unknown"))?;
    let is_near = (value - expected).abs() <= 0.05 * expected;
    is_near
        .then_some(())
        .ok_or_else(|| format!("{what}: {value}, not {expected}"))
}

/// The factors follow from the loads.
fn are_of(loads: &Loads, efficiency: &Value) -> Result<(), String> {
    let expected = loads.factors();
    is_near("parallel", &efficiency["parallel"], expected.parallel)?;
    is_near("balance", &efficiency["load_balance"], expected.balance)?;
    is_near("serial", &efficiency["serialisation"], expected.serial)?;
    is_near("transfer", &efficiency["transfer"], expected.transfer)?;
    is_near("speed-up", &efficiency["speedup"], expected.speedup)
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
        let (truth, report) = measure(&[], &LOADS);
        let loads = Loads::of(&truth, report.number("start_ns"));
        factors(&report);
        let efficiency = &report.0["efficiency"];
        are_of(&loads, efficiency)?;
        is_near("balance", &efficiency["load_balance"], 0.625)?;
        assert_eq!(efficiency["threads"], 4, "{report}");
        let site = &report.sites()[0];
        let (busy_times, npts) = loads.busy();
        let times = site["parallelism"]["times"].as_array().unwrap();
        let all: f64 = busy_times.iter().sum();
        let weighted = (1..)
            .zip(&busy_times)
            .map(|(busy, ns)| f64::from(busy) * ns);
        let mean = weighted.sum::<f64>() / all;
        is_near("mean", &site["parallelism"]["mean_busy"], mean)?;
        for (busy, expected) in (1..).zip(busy_times) {
            let time = times.iter().find(|time| time["busy"] == busy);
            let time = time.ok_or_else(|| format!("never {busy} are busy"))?;
            is_near("a quarter", &time["ns"], expected)?;
        }
        let what_if = &site["what_if"];
        for (percent, share) in [(10, 0.1), (25, 0.25), (50, 0.5)] {
            let gained = &what_if[format!("straggler_{percent}_pct_faster_ns")];
            is_near(&format!("{percent} %"), gained, loads.gained(share))?;
        }
        let path_pct = site["path_pct"].as_f64();
        assert!(
            path_pct.is_some_and(|it| (it - 100.0).abs() < 0.1),
            "{report}"
        );
        is_near("path", &site["path_ns"], loads.path_ns() as f64)?;
        // Quartz: each quarter of the time is divided by the number of busy threads.
        let shares = each(site, "npt_ns");
        for (share, expected) in shares.iter().zip(npts) {
            is_near("npt", &Value::from(*share), expected)?;
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
        let (truth, report) = measure(&[], &[&LOADS[..], &["turn=1"]].concat());
        factors(&report);
        let efficiency = &report.0["efficiency"];
        are_of(&Loads::of(&truth, report.number("start_ns")), efficiency)?;
        is_near("balance", &efficiency["load_balance"], 1.0)?;
        is_near("serial", &efficiency["serialisation"], 0.625)
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
        // Other programs on the machine may leave less.
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

/// From each meeting to the next: facts about the run hold for its phases.
#[test]
fn a_conceptual_phase_has_efficiencies_of_its_own() {
    needs_root!(alone);
    best_of_five(|| {
        let (truth, report) = measure(&["--phase=round=meet..meet"], &LOADS);
        let round = &report.list("conceptual_phases")[0];
        assert_eq!(number(&round["phase_ns"], "count"), 11, "{report}");
        let it = &round["efficiency"];
        are_of(&Loads::between_meetings(&truth), it)?;
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
