//! The spans of time in which counters were counting.
//!
//! A thread's counters are read when the thread arrives at a barrier, and when it leaves if
//! departures are watched. So counts before an arrival cover exactly the work, with two exceptions.
//! Without departures, they cover the time since the previous arrival. And work in a parallel
//! region begins later than counting, which continues between regions.

use super::Episode;
use sbt_engine::report::Report;

/// The last time that each thread's counters were read.
#[derive(Debug)]
pub struct Rates {
    /// The last reading, by thread.
    read: Vec<Option<Read>>,
    /// By site: whether work there begins with parallel regions.
    regions: Vec<bool>,
}

/// A reading of a thread's counters at the end of an episode.
#[derive(Clone, Copy, Debug)]
struct Read {
    /// Time of the reading, ns.
    at_ns: u64,
    /// Time when the work after this reading began, ns.
    work_ns: u64,
}

impl Rates {
    /// Starts without readings, for the threads and sites of a report.
    pub fn new(report: &Report) -> Self {
        let most = report.sites.iter().map(|site| site.id as usize + 1).max();
        let mut regions = vec![false; most.unwrap_or(0)];
        for site in &report.sites {
            regions[site.id as usize] = site.kind.is_of_openmp();
        }
        Self {
            read: vec![None; report.threads.len()],
            regions,
        }
    }

    /// For each participant, the span of time (ns) that its counts before this episode cover;
    /// `None` if unknown.
    pub fn spans(&mut self, episode: &Episode) -> Vec<Option<(u64, u64)>> {
        let regions = self.regions.get(episode.site as usize).copied();
        let in_region = regions.unwrap_or(false);
        let mut spans = Vec::with_capacity(episode.seen.len());
        for seen in &episode.seen {
            let own = self.read.get_mut(seen.thread as usize);
            let Some(read) = own.filter(|_| !seen.is_shared) else {
                spans.push(None);
                continue;
            };
            let begin_ns = seen.work_ns.map(|ns| seen.arrived_ns.saturating_sub(ns));
            let from_ns = match (*read, begin_ns) {
                (_, None) => None,
                (Some(read), Some(begin_ns)) if in_region || begin_ns == read.work_ns => {
                    Some(read.at_ns)
                }
                (None, Some(_)) if in_region => None,
                // The thread was born then, or came from a barrier with too little information.
                (_, begin_ns) => begin_ns,
            };
            let to_ns = seen.arrived_ns;
            spans.push(
                from_ns
                    .filter(|from_ns| *from_ns < to_ns)
                    .map(|from_ns| (from_ns, to_ns)),
            );
            let left_ns = seen.release_ns.map(|ns| episode.last_ns + ns);
            *read = Some(Read {
                at_ns: left_ns.unwrap_or(seen.arrived_ns),
                work_ns: left_ns.unwrap_or(episode.last_ns),
            });
        }
        spans
    }
}
