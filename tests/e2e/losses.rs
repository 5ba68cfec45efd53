//! The report after records found no room.

use serde_json::Value;

use crate::{
    harness::{
        Finished, LIMIT, Report, eventually, folder, needs_root, number, pause, run, sbt_with,
        start,
    },
    locks::{lock, logged},
    programs::{line, program},
};

/// Until when sbt reads nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Until all threads but the first have ended.
    End,
    /// Until the program has run for a while.
    Middle,
}

/// Runs two threads that meet `rounds` times, while sbt reads nothing.
#[track_caller]
fn lossy(departures: &str, rounds: u64, until: Until) -> (Finished, Report) {
    let folder = folder();
    let json = folder.path().join("report.json");
    let departures = format!("--departures={departures}");
    let mut command = sbt_with(&["run", "--budget=off", &departures, "--json", "--output"]);
    command.arg(&json).arg("--").arg(program("truth.c"));
    command.args(["threads=2".to_owned(), format!("rounds={rounds}")]);
    let mut sbt = start(command);
    sbt.wait_for("ready");
    pause(200);
    // While it reads nothing the rings overflow.
    sbt.signal(libc::SIGSTOP);
    match until {
        Until::End => drop(sbt.wait_for("done")),
        // A second of its work: far more than the rings take.
        Until::Middle => works_for_ticks(child_of(sbt.pid()), 100),
    }
    sbt.signal(libc::SIGCONT);
    let finished = sbt.finish().expect(0);
    (finished, Report::read_lossy(&json))
}

/// The one process that another one has started.
#[track_caller]
fn child_of(pid: u32) -> u32 {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}

/// Waits until a process has used so much more CPU time, in hundredths of a second, however long
/// that takes on a busy machine; or until it has ended.
#[track_caller]
fn works_for_ticks(pid: u32, ticks: u64) {
    let used = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split(' ').skip(11);
        let mut next = || fields.next()?.parse::<u64>().ok();
        Some(next()? + next()?)
    };
    let begin = used().unwrap();
    let enough = || used().is_none_or(|now| now >= begin + ticks).then_some(());
    eventually(LIMIT, enough).expect("it works");
}

#[test]
fn what_is_lost_is_counted() {
    needs_root!();
    let rounds = 250_000;
    let (finished, report) = lossy("off", rounds, Until::End);
    let (arrivals, lost) = (report.number("arrivals"), report.number("lost_events"));
    let all = 2 * rounds;
    assert!(lost > 0, "nothing was lost: {finished}{report}");
    assert!(arrivals < all, "of {all}: {report}");
    // Each arrival is an event, and counted once: seen, or lost. The ends of the two threads are
    // events too, and behind the last record of each it is not known which half of the records
    // came first.
    let ends = 2 * 2;
    let told = arrivals + lost;
    assert!(
        (all..=all + ends).contains(&told),
        "{told} of {all}: {report}"
    );
    // The rings may be full after a whole one.
    let in_whole = 2 * report.number("episodes");
    assert!(in_whole <= arrivals, "{report}");
    let incomplete = report.number("incomplete_episodes");
    assert_eq!(incomplete > 0, arrivals > in_whole, "{report}");
}

/// If records of the threads come again later, the number of records lost in between is exact.
#[test]
fn what_is_lost_in_the_middle_is_counted_once() {
    needs_root!();
    let rounds = 800_000;
    let (finished, report) = lossy("off", rounds, Until::Middle);
    let (arrivals, lost) = (report.number("arrivals"), report.number("lost_events"));
    assert!(lost > 0, "nothing was lost: {finished}{report}");
    assert_eq!(arrivals + lost, 2 * rounds, "{report}");
    // What was lost may begin and end between two episodes.
    let (incomplete, in_whole) = (
        report.number("incomplete_episodes"),
        2 * report.number("episodes"),
    );
    assert_eq!(incomplete > 0, arrivals > in_whole, "{report}");
}

#[test]
fn departures_are_events_too() {
    needs_root!();
    let rounds = 250_000;
    let (_, report) = lossy("on", rounds, Until::End);
    let (arrivals, lost) = (report.number("arrivals"), report.number("lost_events"));
    let kinds = report.0["own_cost"]["by_kind"].as_array().unwrap();
    let seen = kinds.iter().find(|kind| kind["kind"] == "departure");
    let departures = number(seen.unwrap(), "events");
    let (all, told) = (4 * rounds, arrivals + departures + lost);
    assert!(lost > 0 && arrivals < 2 * rounds, "{report}");
    // The ends of the two threads are events too, and behind the last record of each it is not known
    // which of the three records of its turn came first.
    assert!(
        (all - 4..=all + 6).contains(&told),
        "{told} of {all}: {report}"
    );
}

/// A figure that cannot be known after a loss is null, with the reason, in each output.
#[test]
fn efficiency_is_withheld_where_events_were_lost() {
    needs_root!();
    let (_, report) = lossy("off", 800_000, Until::Middle);
    assert!(report.number("lost_events") > 0, "{report}");
    // Few episodes are incomplete: by these nothing would be missing.
    let incomplete = report.number("incomplete_episodes");
    assert!(incomplete < report.number("episodes") / 10, "{report}");
    assert_eq!(report.0["efficiency"], Value::Null, "{report}");
    let withheld = report.withheld("efficiency").unwrap();
    assert_eq!(withheld["reason"], "events-lost", "{withheld}");
    let because = withheld["because"].as_str().unwrap();
    assert!(because.contains(" events were lost ("), "{because}");
    // A large part of them: no verdict, and no share of the wall time.
    assert_eq!(report.0["verdicts"], Value::Null, "{report}");
    assert_eq!(report.sites()[0]["lost_wall_pct"], Value::Null, "{report}");
    let folder = folder();
    let json = folder.path().join("lossy.json");
    std::fs::write(&json, report.0.to_string()).unwrap();
    let file = json.to_str().unwrap();
    let text = run(sbt_with(&["report", file])).expect(0).out();
    let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "efficiency ?: ",
        "no verdict: ",
        "there were more arrivals and episodes than reported",
    ] {
        assert!(plain.contains(words), "{words:?} in {text}");
    }
    assert!(!plain.contains("speed-up"), "{text}");
    // Neither broken nor kept: too much was lost to judge.
    let check = |options: &[&str]| {
        let mut all = vec!["check"];
        all.extend(options);
        all.push(file);
        run(sbt_with(&all))
    };
    for rule in ["--min-efficiency=0", "--max-idle=100%"] {
        let finished = check(&["--max-lost=100%", rule]).expect(5);
        assert!(finished.out().contains("were lost"), "{finished}");
    }
    let diff = run(sbt_with(&["diff", file, file])).expect(0).out();
    assert!(!diff.contains("efficiency 0"), "{diff}");
    assert!(diff.contains("lost "), "{diff}");
}

/// The kernel's own sums are whole, also of the time in which records found no room: waits for
/// locks.
#[test]
fn sums_that_the_kernel_keeps_outlive_a_loss() {
    needs_root!(alone);
    let folder = folder();
    let [json, recording, go, over] =
        ["report.json", "run.sbt", "go", "over"].map(|name| folder.path().join(name));
    let mut command = sbt_with(&["run", "--budget=off", "--departures=off", "--futex=on"]);
    command.args(["--json", "--output"]).arg(&json);
    command.arg("-o").arg(&recording);
    // The locks are waited for before the loss and all the time until it is over.
    let both = format!(
        "{} how=mutex threads=2 hold=5 until={over} & while [ ! -e {} ]; do sleep 0.05; done; \
         {} threads=2 rounds=250000; : >{over}; wait; echo all",
        program("locks.c").display(),
        go.display(),
        program("truth.c").display(),
        over = over.display()
    );
    command.args(["--", "sh", "-c"]).arg(both);
    let mut sbt = start(command);
    let at = line("locks.c", "SITE mutex");
    // What a futex is for, and where, is told by records: it has to be known before these are
    // lost. Until the way from the system call to the program is known it is not.
    let is_known = || {
        let shown = run(sbt_with(&["report", "--json", recording.to_str()?]));
        let report: Value = serde_json::from_slice(&shown.stdout).ok()?;
        let mut locks = report["locks"].as_array()?.iter();
        locks
            .find(|lock| lock["kind"] == "mutex" && lock["line"] == at)
            .map(|_| ())
    };
    eventually(LIMIT, is_known).expect("the lock is told while the program runs");
    std::fs::write(&go, "").unwrap();
    sbt.wait_for("ready");
    sbt.signal(libc::SIGSTOP);
    sbt.wait_for("all");
    sbt.signal(libc::SIGCONT);
    let finished = sbt.finish().expect(0);
    let report = Report::read_lossy(&json);
    assert!(report.number("lost_events") > 0, "{report}");
    // Two barriers in each round, three threads.
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
    let out = finished.out();
    let [waits, total_ns, _] = logged(&out, "mutex");
    // In each round two of its threads wait.
    assert!(
        met < waits,
        "nothing of the locks' program was lost: {report}"
    );
    let lock = lock(&report, "mutex", at);
    assert_eq!(report.list("locks").len(), 1, "{report}");
    // Also without losses, a thread that is woken and finds the lock taken again sleeps once more.
    let seen = number(lock, "waits");
    assert!((waits * 9 / 10..=waits * 3).contains(&seen), "{out}{lock}");
    let ns = number(lock, "total_ns");
    assert!((total_ns * 9 / 10..=total_ns).contains(&ns), "{out}{lock}");
}
