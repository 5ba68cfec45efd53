//! Times agree with those that the program takes itself. The machine may be
//! busy with other things, so a measurement may be repeated.

use crate::{
    harness::{Report, best_of_five, needs_root, number},
    truth::{Truth, measure},
};

/// Within 15 µs an episode or 3 %.
fn near(what: &str, got: u64, expected: u64, episodes: u64) -> Result<(), String> {
    let bound = (15_000 * episodes).max(expected * 3 / 100);
    if got.abs_diff(expected) <= bound {
        Ok(())
    } else {
        Err(format!(
            "{what}: {got} ns, but {expected} ns by the program's own clock ({episodes} episodes)"
        ))
    }
}

/// All times that the JSON report has sums of.
fn times_agree(truth: &Truth, report: &Report) -> Result<(), String> {
    let episodes = truth.0.len() as u64;
    report.is_exactly(episodes * truth.tids().len() as u64, episodes);
    let site = &report.sites()[0];
    let sum = |field: &str| number(&site[field], "sum");
    near(
        "barrier time",
        sum("barrier_ns"),
        truth.barrier_time(),
        episodes,
    )?;
    let all_idle = truth.tids().iter().map(|tid| truth.idle(*tid)).sum();
    near("lost", number(site, "lost_ns"), all_idle, episodes)?;
    for thread in report.threads() {
        let tid = number(thread, "tid");
        let what = format!("idle of {}", thread["id"]);
        near(&what, number(thread, "idle_ns"), truth.idle(tid), episodes)?;
    }
    let phases: u64 = report
        .list("phases")
        .iter()
        .filter(|phase| !phase["from"].is_null())
        .map(|phase| number(&phase["phase_ns"], "sum"))
        .sum();
    near("phase time", phases, truth.phase_time(), episodes)
}

/// The last thread to arrive, wherever that is clear, and the order of idle times.
fn order_agrees(truth: &Truth, report: &Report) -> Result<(), String> {
    let unclear = truth.unclear(10_000);
    for thread in report.threads() {
        let (tid, last) = (number(thread, "tid"), number(thread, "last"));
        let clear = truth.clearly_last(tid, 10_000);
        if last < clear || last > clear + unclear {
            return Err(format!(
                "thread {tid} came last {last} times, not {clear} to {}",
                clear + unclear
            ));
        }
    }
    let mut by_report: Vec<_> = report
        .threads()
        .iter()
        .map(|thread| (number(thread, "idle_ns"), number(thread, "tid")))
        .collect();
    by_report.sort_unstable();
    let by_truth = |tid: u64| truth.idle(tid);
    let slack = 15_000 * truth.0.len() as u64;
    if by_report
        .windows(2)
        .any(|pair| by_truth(pair[0].1) > by_truth(pair[1].1) + slack)
    {
        return Err("the order of idle times is wrong".into());
    }
    Ok(())
}

#[test]
fn sleeping_loads_with_a_fixed_straggler() {
    needs_root!(alone);
    best_of_five(|| {
        let (truth, report) = measure(&[], &["threads=4", "rounds=200", "base=300", "skew=400"]);
        times_agree(&truth, &report)?;
        order_agrees(&truth, &report)
    });
}

#[test]
fn sleeping_loads_with_a_rotating_straggler() {
    needs_root!(alone);
    best_of_five(|| {
        let arguments = ["threads=5", "rounds=200", "base=200", "skew=300", "turn=1"];
        let (truth, report) = measure(&["--departures=on"], &arguments);
        times_agree(&truth, &report)?;
        order_agrees(&truth, &report)?;
        let last = report.threads().iter().map(|thread| number(thread, "last"));
        match last.max() {
            Some(most) if most <= 60 => Ok(()),
            most => Err(format!("one thread came last {most:?} times of 200")),
        }
    });
}

#[test]
fn spinning_loads() {
    needs_root!(alone);
    best_of_five(|| {
        let arguments = [
            "threads=2",
            "rounds=200",
            "load=spin",
            "base=500",
            "skew=500",
        ];
        let (truth, report) = measure(&[], &arguments);
        times_agree(&truth, &report)?;
        order_agrees(&truth, &report)
    });
}

#[test]
fn idle_needs_no_departures() {
    needs_root!(alone);
    best_of_five(|| {
        let arguments = ["threads=4", "rounds=200", "base=300", "skew=400"];
        let (truth, report) = measure(&["--departures=off"], &arguments);
        for thread in report.threads() {
            let expected = truth.idle(number(thread, "tid"));
            near("idle", number(thread, "idle_ns"), expected, 200)?;
        }
        order_agrees(&truth, &report)
    });
}

#[test]
fn running_and_blocked_are_told_apart() {
    needs_root!(alone);
    for option in ["--departures=on", "--departures=off"] {
        best_of_five(|| {
            let arguments = ["threads=3", "rounds=40", "spin0=20000", "sleep1=15000"];
            let (truth, report) = measure(&[option], &arguments);
            let within = |what: &str, got: u64, expected: u64| {
                if got.abs_diff(expected) * 10 <= expected {
                    Ok(())
                } else {
                    Err(format!(
                        "{option}: {what}: {got} ns instead of {expected} ns"
                    ))
                }
            };
            let thread = |id: usize| &report.threads()[id];
            within(
                "running of the one that spins",
                number(thread(0), "running_ns"),
                40 * 20_000_000,
            )?;
            let slept = truth.work(number(thread(1), "tid")) * 40 / 39;
            within(
                "blocked of the one that sleeps",
                number(thread(1), "blocked_ns"),
                slept,
            )?;
            for id in 0..3 {
                let parts: u64 = ["running_ns", "ready_ns", "blocked_ns"]
                    .iter()
                    .map(|field| number(thread(id), field))
                    .sum();
                let work = number(thread(id), "work_ns");
                assert_eq!(parts, work, "the parts of thread {id} in {report}");
            }
            // The third does nothing, and its waiting is not work.
            let busy = number(thread(2), "running_ns");
            if busy > 40 * 1_000_000 {
                return Err(format!("{option}: the idle thread ran {busy} ns"));
            }
            Ok(())
        });
    }
}
