//! Threads between barriers, by every switch: the reasons of their sleep, the tasks that took their
//! CPU, and the number of busy threads. Compared with the program's own figures.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{
    harness::{
        Report, attach, best_of_five, command, kill, needs_root, number, pause, start, watch_with,
    },
    programs::program,
};

/// The program's last line of output.
struct Said {
    kept: u64,
    cpu: u64,
}

impl Said {
    fn of(out: &str) -> Self {
        let line = out.lines().last().unwrap();
        let words: Vec<_> = line.split(' ').collect();
        match words.as_slice() {
            ["kept", kept, "cpu", cpu, "wall", _] => Self {
                kept: kept.parse().unwrap(),
                cpu: cpu.parse().unwrap(),
            },
            _ => panic!("{out}"),
        }
    }
}

/// A file on a disk.
fn on_disk() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = format!("file={}", folder.path().join("file").display());
    (folder, file)
}

fn watch_full(arguments: &[&str]) -> (Said, Report) {
    let (finished, report) = watch_with(
        // Looks would tell the place instead of the reason.
        &["--states=full", "--waits=off"],
        &program("states.c"),
        arguments,
    );
    let said = Said::of(&finished.out());
    finished.expect(0);
    assert_eq!(report.0["states"]["level"], "full", "{report}");
    assert_eq!(report.0["states"]["other_episodes"], 0, "{report}");
    (said, report)
}

/// Thread 1 on no CPU, by reason and in all, ns.
fn asleep(report: &Report, reason: &str) -> (u64, u64) {
    let all = report.threads()[1]["away"]["blocked_on"]
        .as_array()
        .unwrap();
    let of = |it: &&Value| it["reason"] == reason;
    let sum = all.iter().map(|it| number(it, "ns")).sum();
    (all.iter().find(of).map_or(0, |it| number(it, "ns")), sum)
}

/// The sentences of all verdicts.
fn sentences(report: &Report) -> String {
    let verdicts = report.0["verdicts"].as_array();
    let texts = verdicts.into_iter().flatten().map(|it| it["text"].as_str());
    texts.flatten().collect::<Vec<_>>().join("\n")
}

/// `whole`: the measured time of the program was only that sleep.
fn is_blocked(arguments: &[&str], reason: &str, words: &str, whole: bool) {
    best_of_five(|| {
        let (said, report) = watch_full(arguments);
        let (asleep, all) = asleep(&report, reason);
        // A moment is gone before it sleeps, and it is not on a CPU as soon as it could be.
        let most = said.kept + said.kept / 50;
        let ready = number(&report.threads()[1], "ready_ns");
        let least = if whole {
            said.kept.saturating_sub(said.kept / 10 + ready)
        } else {
            1
        };
        if asleep < least || asleep > most {
            return Err(format!("{reason}: {asleep} of {}: {report}", said.kept));
        }
        if asleep * 10 < all * 9 {
            return Err(format!("{reason}: {asleep} of {all} asleep: {report}"));
        }
        let text = sentences(&report);
        // Where the disk is fast the thread is not late.
        if whole && !text.contains(words) {
            return Err(format!("no {words:?} in {text}: {report}"));
        }
        Ok(())
    });
}

#[test]
fn the_reason_of_sleep_is_told() {
    needs_root!(alone);
    is_blocked(
        &["keep=sleep"],
        "sleep",
        "blocked in sleep (nanosleep)",
        true,
    );
    is_blocked(
        &["keep=pipe"],
        "stream",
        "blocked in a pipe or socket",
        true,
    );
    is_blocked(
        &["keep=poll"],
        "poll",
        "blocked in poll, select or epoll",
        true,
    );
    is_blocked(
        &["keep=lock"],
        "futex",
        "blocked in a futex (lock)); ",
        true,
    );
    is_blocked(&["keep=child"], "child", "blocked in wait", true);
}

#[test]
fn input_and_output_are_told_from_page_faults() {
    needs_root!(alone);
    let (_folder, file) = on_disk();
    is_blocked(&["keep=sync", &file], "file", "", false);
    is_blocked(&["keep=direct", &file], "file", "", false);
    let (_folder, file) = on_disk();
    is_blocked(&["keep=fault", &file], "page-fault", "", false);
}

#[test]
fn who_took_the_cpu_is_named() {
    needs_root!(alone);
    let taker = start(command(program("states.c"), &["keep=taker"]));
    best_of_five(|| {
        let (said, report) = watch_full(&["keep=taken"]);
        let takers = report.threads()[1]["away"]["taken_by"].as_array().unwrap();
        let all: u64 = takers.iter().map(|it| number(it, "ns")).sum();
        let of_taker = takers.iter().find(|it| it["name"] == "taker");
        let Some(of_taker) = of_taker else {
            return Err(format!("no taker: {report}"));
        };
        assert_eq!(of_taker["kind"], "process", "{report}");
        assert_eq!(of_taker["pid"], taker.pid(), "{report}");
        // 40 rounds of 5 ms of CPU time.
        let without = said.kept.saturating_sub(200_000_000);
        if all.abs_diff(without) > without / 10 {
            return Err(format!("{all} taken of {without}: {report}"));
        }
        let text = sentences(&report);
        let words = format!("`taker` (pid {})", taker.pid());
        text.contains(&words)
            .then_some(())
            .ok_or(format!("no {words:?} in {text}: {report}"))
    });
    kill(taker.pid().cast_signed(), libc::SIGKILL);
    taker.finish();
}

/// Busy threads × time, ns, and the time with more than there are CPUs.
fn busy(report: &Report) -> (u64, u64) {
    let cpus = report.number("cpus");
    let times = report.0["parallelism"]["times"].as_array().unwrap();
    let each = || {
        times
            .iter()
            .map(|it| (number(it, "busy"), number(it, "ns")))
    };
    (
        each().map(|(busy, ns)| busy * ns).sum(),
        each()
            .filter(|(busy, _)| *busy > cpus)
            .map(|(_, ns)| ns)
            .sum(),
    )
}

fn crowd() -> (String, [&'static str; 2]) {
    let threads = 3 * std::thread::available_parallelism().unwrap().get();
    (format!("threads={threads}"), ["keep=crowd", "us=3000"])
}

#[test]
fn busy_threads_are_those_on_cpus() {
    needs_root!(alone);
    let (threads, [keep, us]) = crowd();
    best_of_five(|| {
        let (said, report) = watch_full(&[keep, us, &threads]);
        let (sum, above) = busy(&report);
        let wall = report.number("wall_ns");
        if sum.abs_diff(said.cpu) > said.cpu / 20 || above > wall / 100 {
            return Err(format!("{sum} of {}, {above} above: {report}", said.cpu));
        }
        Ok(())
    });
    // Without switches all count as busy between barriers.
    let (finished, report) = watch_with(&[], &program("states.c"), &[keep, us, &threads]);
    finished.expect(0);
    let (_, above) = busy(&report);
    assert!(above > report.number("wall_ns") / 4, "{report}");
    assert_eq!(report.0["states"]["exact_episodes"], Value::Null);
    assert_eq!(report.threads()[1]["away"], Value::Null);
}

#[test]
fn what_is_joined_in_the_middle_is_told_from_there_on() {
    needs_root!(alone);
    for (late, pause_ms) in [("late=1500", 0), ("late=0", 1000)] {
        best_of_five(|| {
            let mut target = start(command(
                program("states.c"),
                &["keep=sleep", "rounds=600", late],
            ));
            target.wait_for("ready");
            pause(pause_ms);
            let report = attach(target.pid(), &["--states=full"]).report();
            target.finish().expect(0);
            let (asleep, all) = asleep(&report, "sleep");
            let rounds = number(&report.threads()[1], "episodes");
            // 5 ms each, and what a timer is late.
            let right = asleep > rounds * 4_500_000 && asleep < rounds * 8_000_000;
            (rounds > 100 && right && asleep * 10 > all * 9)
                .then_some(())
                .ok_or(format!("{late}: {asleep} of {all}: {report}"))
        });
    }
}

#[test]
fn children_are_told_likewise() {
    needs_root!(alone);
    best_of_five(|| {
        let of = program("states.c");
        let twice = format!("{0} keep=sleep & {0} keep=pipe; wait", of.display());
        let shell = PathBuf::from("/bin/sh");
        let options = ["--states=full", "--children"];
        let (finished, report) = watch_with(&options, &shell, &["-c", &twice]);
        finished.expect(0);
        let has = |reason: &str| {
            report.threads().iter().any(|thread| {
                let first = &thread["away"]["blocked_on"][0];
                first["reason"] == reason && first["ns"].as_u64() > Some(150_000_000)
            })
        };
        (has("sleep") && has("stream"))
            .then_some(())
            .ok_or(format!("{report}"))
    });
}

#[test]
fn without_states_nothing_is_known_of_them() {
    needs_root!();
    let watch = |program: &Path| watch_with(&["--states=off"], program, &["keep=sleep"]);
    let (finished, report) = watch(&program("states.c"));
    finished.expect(0);
    for thread in report.threads() {
        for field in [
            "running_ns",
            "ready_ns",
            "blocked_ns",
            "away",
            "spinning_ns",
        ] {
            assert_eq!(thread[field], Value::Null, "{field} in {report}");
        }
        assert!(number(thread, "work_ns") > 0, "{report}");
    }
    assert_eq!(report.0["states"]["level"], "off");
    assert_eq!(report.list("notes").len(), 0, "{report}");
}
