//! The parts of sbt's JSON report that are compared.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The report of one run.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Report {
    /// The time at which watching began, `CLOCK_MONOTONIC` ns; other times of the report are
    /// relative to it.
    #[serde(default)]
    pub start_ns: u64,
    /// Complete episodes.
    pub episodes: u64,
    /// Incomplete episodes.
    pub incomplete_episodes: u64,
    /// Records that were lost.
    pub lost_events: u64,
    /// All threads.
    pub threads: Vec<Thread>,
    /// All sites.
    pub sites: Vec<Site>,
    /// Every episode, with `--watch-all`.
    #[serde(default)]
    pub watched: Option<Vec<Seen>>,
}

/// A thread of the report.
#[derive(Clone, Debug, Deserialize)]
pub struct Thread {
    /// The report's id of the thread.
    pub id: u32,
    /// The kernel's id of the thread.
    pub tid: u32,
}

/// A site of the report.
#[derive(Clone, Debug, Deserialize)]
pub struct Site {
    /// Times of the threads that arrived there.
    pub threads: Vec<Share>,
}

/// A thread's times before and at a site, ns.
#[derive(Clone, Debug, Deserialize)]
pub struct Share {
    /// The report's id of the thread.
    pub thread: u32,
    /// Time between barriers.
    pub work_ns: Option<u64>,
    /// The part of `work_ns` on a CPU.
    pub running_ns: Option<u64>,
    /// Time waiting for the last arrival.
    pub idle_ns: u64,
}

/// One episode in sbt's account.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Seen {
    /// The last arrival, ns: relative in the report, `CLOCK_MONOTONIC` from [`Report::seen`].
    pub last_ns: u64,
    /// Length of the phase that ended with the episode, ns, if known.
    pub phase_ns: Option<u64>,
    /// From the first to the last arrival, ns.
    pub barrier_ns: u64,
    /// Arrivals in order.
    pub arrivals: Vec<SeenArrival>,
}

/// One arrival in sbt's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct SeenArrival {
    /// The thread: the report's id in the report, the kernel's id from [`Report::seen`].
    #[serde(rename = "thread")]
    pub tid: u32,
    /// Time since the previous arrival, ns.
    pub gap_ns: u64,
    /// Time until the last arrival, ns.
    pub idle_ns: u64,
    /// From the last arrival to the thread's departure, ns; `None` if that was not seen.
    pub release_ns: Option<u64>,
    /// From the thread's previous departure to its arrival, ns; `None` if that was not seen.
    pub work_ns: Option<u64>,
}

impl Report {
    /// The episodes in the order of their ends, with absolute times and the kernel's ids. Fails if an episode is incomplete or not listed,
    /// since the accounts cannot be compared then.
    pub fn seen(self) -> Result<Vec<Seen>> {
        let tids = self.tids();
        let mut seen = self.watched.context("the report lists no episodes")?;
        ensure!(
            self.incomplete_episodes == 0 && self.lost_events == 0,
            "{} incomplete episodes, {} lost events",
            self.incomplete_episodes,
            self.lost_events
        );
        ensure!(
            self.episodes == seen.len() as u64,
            "{} episodes, of which {} are listed",
            self.episodes,
            seen.len()
        );
        for episode in &mut seen {
            episode.last_ns += self.start_ns;
            for arrival in &mut episode.arrivals {
                let tid = tids.get(&arrival.tid);
                arrival.tid =
                    *tid.context("an arrival of a thread that the report does not list")?;
            }
        }
        seen.sort_by_key(|episode| episode.last_ns);
        Ok(seen)
    }

    /// The kernel's ids of the threads, by the report's ids.
    pub fn tids(&self) -> HashMap<u32, u32> {
        self.threads
            .iter()
            .map(|thread| (thread.id, thread.tid))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{ "start_ns": 1000, "episodes": 2, "incomplete_episodes": 0,
        "lost_events": 0, "sites": [],
        "threads": [ { "id": 0, "tid": 70 }, { "id": 1, "tid": 80 } ],
        "watched": [
            { "site": 0, "index": 1, "first_ns": 25, "last_ns": 30, "phase_ns": 8,
              "barrier_ns": 5, "arrivals": [
                { "thread": 0, "gap_ns": 0, "idle_ns": 5, "release_ns": null },
                { "thread": 1, "gap_ns": 5, "idle_ns": 0, "release_ns": 2 } ] },
            { "site": 0, "index": 0, "first_ns": 10, "last_ns": 20, "phase_ns": null,
              "barrier_ns": 10, "arrivals": [] } ] }"#;

    fn report() -> Report {
        serde_json::from_str(REPORT).unwrap()
    }

    #[test]
    fn episodes_come_in_order_and_with_absolute_times() {
        let seen = report().seen().unwrap();
        assert_eq!(seen[0].last_ns, 1020);
        assert_eq!(seen[1].last_ns, 1030);
        let tids: Vec<u32> = seen[1].arrivals.iter().map(|arrival| arrival.tid).collect();
        assert_eq!(tids, [70, 80]);
        assert_eq!(seen[1].arrivals[0].release_ns, None);
    }

    #[test]
    fn what_is_not_whole_is_not_compared() {
        let lossy = Report {
            lost_events: 1,
            ..report()
        };
        assert!(lossy.seen().is_err());
        let thinned = Report {
            episodes: 3,
            ..report()
        };
        assert!(thinned.seen().is_err());
        let unwatched = Report {
            watched: None,
            ..report()
        };
        assert!(unwatched.seen().is_err());
    }
}
