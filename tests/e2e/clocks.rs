//! Clocks that are set while a program runs, and those of a namespace of its own.

use std::{thread, time::Instant};

use crate::{
    harness::{Report, command, folder, needs_root, number, pause, run, sbt, sbt_with, start},
    programs::program,
};

/// The time of day; as it would have been when this is dropped.
struct TimeOfDay {
    before: libc::timespec,
    since: Instant,
}

impl TimeOfDay {
    fn jump(seconds: i64) -> Self {
        let mut before = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the kernel writes into a structure of ours.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut before) };
        let this = Self {
            before,
            since: Instant::now(),
        };
        this.set(seconds);
        this
    }

    fn set(&self, ahead: i64) {
        let passed = self.since.elapsed();
        let ns = self.before.tv_nsec + i64::from(passed.subsec_nanos());
        let seconds = i64::try_from(passed.as_secs()).unwrap() + ns / 1_000_000_000;
        let now = libc::timespec {
            tv_sec: self.before.tv_sec + seconds + ahead,
            tv_nsec: ns % 1_000_000_000,
        };
        // SAFETY: a plain system call.
        let result = unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const now) };
        // Two panics at once would be the end of all tests.
        assert!(
            result == 0 || thread::panicking(),
            "the clock cannot be set"
        );
    }
}

impl Drop for TimeOfDay {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[test]
fn a_clock_that_jumps_changes_nothing() {
    needs_root!(alone);
    for ahead in [40, -40] {
        let folder = folder();
        let json = folder.path().join("report.json");
        let mut command = sbt_with(&["run", "--json", "--output"]);
        command.arg(&json).arg("--").arg(program("truth.c"));
        command.args(["threads=3", "rounds=200", "base=2000"]);
        let mut sbt = start(command);
        sbt.wait_for("ready");
        pause(100);
        let clock = TimeOfDay::jump(ahead);
        pause(100);
        drop(clock);
        sbt.finish().expect(0);
        let report = Report::read(&json);
        report.is_exactly(600, 200);
        let longest = number(&report.sites()[0]["phase_ns"], "max");
        assert!(longest < 10_000_000_000, "{report}");
        assert!(report.number("wall_ns") < 30_000_000_000, "{report}");
    }
}

#[test]
fn a_clock_of_its_own_changes_nothing() {
    needs_root!();
    let truth = program("truth.c");
    let shifted = [
        "--time",
        "--monotonic",
        "50000",
        "--boottime",
        "50000",
        "--fork",
    ];
    let options = ["run", "--watch-all", "--json", "--output"];
    for inside in [true, false] {
        let folder = folder();
        let json = folder.path().join("report.json");
        let mut sbt = if inside {
            let mut unshare = command("unshare", &shifted);
            unshare.arg(sbt());
            unshare
        } else {
            sbt_with::<&str>(&[])
        };
        sbt.args(options).arg(&json).arg("--");
        if !inside {
            sbt.arg("unshare").args(shifted);
        }
        sbt.arg(&truth)
            .args(["threads=3", "rounds=50", "base=1000"]);
        run(sbt).expect(0);
        let report = Report::read(&json);
        report.is_exactly(150, 50);
        let wall_ns = report.number("wall_ns");
        let watched = report.list("watched");
        let times: Vec<u64> = watched.iter().map(|one| number(one, "first_ns")).collect();
        assert!(
            times[0] > 0 && times.is_sorted() && times[49] < wall_ns,
            "{times:?}"
        );
        for thread in report.threads() {
            assert!(thread["running_ns"].is_u64(), "{report}");
        }
    }
}
