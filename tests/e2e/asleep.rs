//! Where threads sleep, by looks at them.

use serde_json::Value;

use crate::{
    harness::{Report, best_of_five, needs_root, watch_with},
    programs::{line, program},
};

/// The place of a kind at the line with a mark.
fn place<'a>(report: &'a Report, kind: &str, mark: &str) -> Result<&'a Value, String> {
    let line = line("asleep.c", mark);
    let mut places = report.0["waits"]["places"].as_array().unwrap().iter();
    places
        .find(|place| place["kind"] == kind && place["line"] == line)
        .ok_or_else(|| format!("no {kind} at line {line} in {report}"))
}

/// The shares that the program says it has spent waiting and resting, percent.
fn said(out: &str) -> [f64; 2] {
    let words: Vec<&str> = out.split_whitespace().collect();
    [1, 3].map(|at| words[at].parse().unwrap())
}

/// Fails unless the share of a place's only thread is right within four standard deviations, or
/// the looks missed a part of a millisecond.
fn is_near(place: &Value, percent: f64) -> Result<(), String> {
    let thread = &place["threads"][0];
    let (seen, looks) = (&thread["share_pct"], thread["looks"].as_f64().unwrap());
    let seen = seen.as_f64().unwrap();
    let part = (percent / 100.0).clamp(0.02, 0.98);
    let all = looks / (seen / 100.0).max(0.01);
    let allowed = 400.0 * (part * (1.0 - part) / all).sqrt() + 3.0;
    ((seen - percent).abs() <= allowed)
        .then_some(())
        .ok_or_else(|| format!("{seen} instead of {percent} ± {allowed}: {place}"))
}

#[test]
fn shares_of_looks_are_shares_of_time() {
    needs_root!(alone);
    best_of_five(|| {
        let (finished, report) = watch_with(&[], &program("asleep.c"), &[]);
        let [waited, rested] = said(&finished.expect(0).out());
        let lock = place(&report, "mutex", "SITE need")?;
        is_near(lock, waited)?;
        let rest = place(&report, "sleep", "SITE rest")?;
        is_near(rest, rested)?;
        assert_eq!(rest["call"], "usleep", "{report}");
        // Who holds the lock, and sleeps meanwhile.
        let holder = &lock["holders"][0];
        let id = holder["tid"].as_u64();
        let threads = report.0["waits"]["threads"].as_array().unwrap();
        let named = threads.iter().find(|thread| thread["tid"].as_u64() == id);
        assert_eq!(named.unwrap()["name"], "holder", "{report}");
        let asleep = holder["asleep_in"].as_str().unwrap_or_default();
        assert!(
            asleep.starts_with("usleep called from hold asleep.c:"),
            "{report}"
        );
        // Without a barrier the lock is told all the same.
        let verdict = report.0["verdicts"][0]["text"].as_str().unwrap_or_default();
        let expected = "for the mutex locked at need asleep.c:";
        assert!(verdict.contains(expected), "{report}");
        Ok(())
    });
}

#[test]
fn who_waits_for_whom_is_known_between_processes_too() {
    needs_root!(alone);
    best_of_five(|| {
        let (finished, report) = watch_with(&[], &program("two_ends.c"), &[]);
        finished.expect(0);
        let pairs = report.0["waits"]["pairs"].as_array().unwrap();
        let first = pairs.first().ok_or_else(|| report.to_string())?;
        assert_eq!(
            (&first["waiter"], &first["waker"], &first["kind"]),
            (&"0.0".into(), &"1.0".into(), &"io".into()),
            "{report}"
        );
        // The parent waits all the time, and nobody else ends that.
        let share = first["share_pct"].as_f64().unwrap();
        if share < 70.0 {
            return Err(format!("{share} % in {report}"));
        }
        assert!(
            pairs.iter().skip(1).all(|pair| pair["waiter"] == "1.0"),
            "{report}"
        );
        let verdict = report.0["verdicts"][0]["text"].as_str().unwrap_or_default();
        let expected = "one thread sets the pace: 1.0";
        if !verdict.contains(expected) {
            return Err(format!("{verdict} in {report}"));
        }
        Ok(())
    });
}

#[test]
fn looks_can_be_left_out() {
    needs_root!();
    let (_, report) = watch_with(&["--waits=off"], &program("asleep.c"), &["ms=100"]);
    assert_eq!(report.0["waits"], Value::Null);
}

#[test]
fn no_thread_sleeps_for_longer_than_it_is_on_no_cpu() {
    needs_root!(alone);
    // Which wakes come before their sleeps is chance.
    for _ in 0..8 {
        let arguments = ["rounds=300000", "steps=1000"];
        let (finished, report) = watch_with(&[], &program("briefly.c"), &arguments);
        finished.expect(0);
        let waits = &report.0["waits"];
        let blocked_ns = |tid: &Value| {
            let mut threads = waits["threads"].as_array().unwrap().iter();
            let thread = threads.find(|thread| thread["tid"] == *tid);
            thread.unwrap()["blocked_ns"].as_u64().unwrap()
        };
        let places = waits["places"].as_array().unwrap().iter();
        for thread in places
            .filter(|place| place["kind"] == "mutex")
            .flat_map(|place| place["threads"].as_array().unwrap())
        {
            let slept_ns = thread["slept_ns"].as_u64().unwrap_or(0);
            // The thread sleeps on after the last look at it, which may be a while ago on a busy machine.
            let most_ns = blocked_ns(&thread["tid"]) + 20_000_000;
            assert!(slept_ns <= most_ns, "{slept_ns} of {most_ns} ns: {report}");
        }
    }
}
