//! Reads how programs of known load spent their time.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use super::log::{Episode, Passage, numbers};
use super::report::Report;

/// How a thread spent its time until its last arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the unit is part of the name")]
pub struct Shares {
    /// Time between barriers, ns.
    pub work_ns: u64,
    /// The part of `work_ns` on a CPU, ns.
    pub running_ns: u64,
    /// Time waiting for the last arrival, ns.
    pub idle_ns: u64,
}

impl Shares {
    /// Time on a CPU, per cent.
    pub fn running(self) -> f64 {
        self.share(self.running_ns)
    }

    /// Time waiting, per cent.
    pub fn idle(self) -> f64 {
        self.share(self.idle_ns)
    }

    fn share(self, part_ns: u64) -> f64 {
        let whole_ns = (self.work_ns + self.idle_ns).max(1);
        part_ns as f64 / whole_ns as f64 * 100.0
    }
}

/// The program's own account by `tid`, in the order of its threads.
pub fn truth(text: &str) -> Result<Vec<(u32, Shares)>> {
    let mut starts = BTreeMap::new();
    let mut threads: BTreeMap<u64, Thread> = BTreeMap::new();
    let mut rounds: BTreeMap<u64, Vec<Passage>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(start) = line.strip_prefix("start ") {
            let [thread, time_ns] = numbers(start)?[..] else {
                bail!("not a line of a log: {line}");
            };
            starts.insert(thread, time_ns);
            continue;
        }
        let fields = numbers(line)?;
        let [
            thread,
            tid,
            round,
            arrival_ns,
            departure_ns,
            arrival_cpu,
            departure_cpu,
        ] = fields[..]
        else {
            bail!("not a line of a log: {line}");
        };
        let tid = u32::try_from(tid)?;
        let start_ns = starts.get(&thread).context("a thread without a start")?;
        let thread = threads.entry(thread).or_insert(Thread {
            tid,
            // A thread's CPU clock begins at 0.
            since: (*start_ns, 0),
            shares: Shares::default(),
        });
        thread.shares.work_ns += arrival_ns - thread.since.0;
        thread.shares.running_ns += arrival_cpu - thread.since.1;
        thread.since = (departure_ns, departure_cpu);
        rounds.entry(round).or_default().push(Passage {
            tid,
            arrival_ns,
            departure_ns,
            counted: None,
        });
    }
    for episode in rounds.into_values().filter_map(Episode::new) {
        for thread in threads.values_mut() {
            let passage = episode.passage(thread.tid);
            let passage = passage.context("an episode without one of the threads")?;
            thread.shares.idle_ns += episode.last_ns - passage.arrival_ns;
        }
    }
    Ok(threads
        .into_values()
        .map(|thread| (thread.tid, thread.shares))
        .collect())
}

struct Thread {
    tid: u32,
    /// Time and CPU time at the beginning of its present work, ns.
    since: (u64, u64),
    shares: Shares,
}

/// sbt's account by `tid`.
pub fn seen(report: &Report) -> Result<BTreeMap<u32, Shares>> {
    let tids = report.tids();
    let [site] = &report.sites[..] else {
        bail!("{} sites instead of one", report.sites.len());
    };
    let mut all = BTreeMap::new();
    for share in &site.threads {
        let tid = tids.get(&share.thread).context("an unknown thread")?;
        let shares = Shares {
            work_ns: share.work_ns.context("work is unknown")?,
            running_ns: share.running_ns.context("running time is unknown")?,
            idle_ns: share.idle_ns,
        };
        ensure!(
            all.insert(*tid, shares).is_none(),
            "thread {tid} is listed twice"
        );
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_from_the_clocks() {
        let log = "start 0 1000\nstart 1 1100\n\
                   0 7 0 2000 2010 300 310\n0 7 1 3010 3020 900 910\n\
                   1 8 0 1500 2020 400 405\n1 8 1 2520 3030 705 710\n";
        let threads = truth(log).unwrap();
        let (tid, first) = threads[0];
        assert_eq!(tid, 7);
        assert_eq!(
            first,
            Shares {
                work_ns: 1000 + 1000,
                running_ns: 300 + 590,
                idle_ns: 0
            }
        );
        let second = threads[1].1;
        assert_eq!(
            second,
            Shares {
                work_ns: 400 + 500,
                running_ns: 400 + 300,
                idle_ns: 500 + 490
            }
        );
        assert!((first.running() - 44.5).abs() < 1e-9);
        assert!((second.idle() - 990.0 / 1890.0 * 100.0).abs() < 1e-9);
        assert!(truth("0 7 0 1 2 3 4\n").is_err());
    }

    #[test]
    fn sbt_must_know_all_parts() {
        let report = |running: &str| -> Report {
            let text = format!(
                r#"{{ "episodes": 1, "incomplete_episodes": 0, "lost_events": 0,
                "threads": [ {{ "id": 4, "tid": 7 }} ], "sites": [ {{ "threads": [
                {{ "thread": 4, "work_ns": 60, "running_ns": {running}, "idle_ns": 40 }} ] }} ] }}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let shares = seen(&report("25")).unwrap()[&7];
        assert!((shares.running() - 25.0).abs() < 1e-9);
        assert!((shares.idle() - 40.0).abs() < 1e-9);
        assert!(seen(&report("null")).is_err());
    }
}
