//! What is told where records found no room.

use serde_json::Value;

use crate::{
    harness::{Report, folder, needs_root, number, pause, sbt_with, start},
    locks::{lock, logged},
    programs::{line, program},
};

#[test]
fn what_is_lost_is_counted() {
    needs_root!();
    let rounds = 250_000;
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&[
        "run",
        "--budget=off",
        "--departures=off",
        "--json",
        "--output",
    ]);
    command.arg(&json).arg("--").arg(program("truth.c"));
    command.args(["threads=2".to_owned(), format!("rounds={rounds}")]);
    let mut sbt = start(command);
    sbt.wait_for("ready");
    pause(200);
    // While it reads nothing the rings overflow.
    sbt.signal(libc::SIGSTOP);
    sbt.wait_for("done");
    sbt.signal(libc::SIGCONT);
    let finished = sbt.finish().expect(0);
    let report = Report::read(&json);
    let (arrivals, lost) = (report.number("arrivals"), report.number("lost_events"));
    // Each arrival is a record.
    let all = 2 * rounds;
    assert!(lost > 0, "nothing was lost: {finished}{report}");
    assert!(
        arrivals < all && all <= arrivals + lost,
        "of {all}: {report}"
    );
    // The rings may be full after a whole one.
    let in_whole = 2 * report.number("episodes");
    assert!(in_whole <= arrivals, "{report}");
    let incomplete = report.number("incomplete_episodes");
    assert_eq!(incomplete > 0, arrivals > in_whole, "{report}");
}

/// What the kernel sums up itself is whole, also of the time in which records found no room:
/// waits for locks.
#[test]
fn sums_that_the_kernel_keeps_outlive_a_loss() {
    needs_root!(alone);
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["run", "--budget=off", "--departures=off", "--futex=on"]);
    command.args(["--json", "--output"]).arg(&json);
    let both = format!(
        "{} how=mutex threads=2 hold=5 rounds=300 & sleep 0.3; {} threads=2 rounds=250000; \
         wait; echo all",
        program("locks.c").display(),
        program("truth.c").display()
    );
    command.args(["--", "sh", "-c"]).arg(both);
    let mut sbt = start(command);
    sbt.wait_for("ready");
    sbt.signal(libc::SIGSTOP);
    sbt.wait_for("all");
    sbt.signal(libc::SIGCONT);
    let finished = sbt.finish().expect(0);
    let report = Report::read(&json);
    assert!(report.number("lost_events") > 0, "{report}");
    // Two barriers a round, three threads.
    let met = |site: &&Value| {
        site["file"]
            .as_str()
            .is_some_and(|it| it.ends_with("/locks.c"))
    };
    let met: u64 = report
        .sites()
        .iter()
        .filter(met)
        .map(|site| number(site, "episodes"))
        .sum();
    assert!(
        met < 600,
        "nothing of the locks' program was lost: {report}"
    );
    let out = finished.out();
    let [waits, total_ns, _] = logged(&out, "mutex");
    let lock = lock(&report, "mutex", line("locks.c", "SITE mutex"));
    assert_eq!(report.list("locks").len(), 1, "{report}");
    // As where nothing is lost: who is woken and finds it taken again sleeps once more.
    let seen = number(lock, "waits");
    assert!((waits * 9 / 10..=waits * 3).contains(&seen), "{out}{lock}");
    let ns = number(lock, "total_ns");
    assert!((total_ns * 9 / 10..=total_ns).contains(&ns), "{out}{lock}");
}
