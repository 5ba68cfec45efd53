//! Thread time that was not useful work, by all known ways to lose it. If it is more than a little,
//! there is no verdict `no-problem`.

use super::{Report, lack};
use crate::report::{BarrierKind, ThreadReport};

/// Lost thread time, by the way in which it was lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Lost {
    /// Each way in words, and its percentage of the time of all threads.
    parts: Vec<(&'static str, f64)>,
}

/// Entries of [`Lost::parts`].
const WAITING: &str = "waiting at barriers";
const READY: &str = "without a CPU";

/// This part of the loss is worth a look at its cause.
const GOOD_PART: f64 = 0.25;

/// From this part of the sleep on, time that a hypervisor took is named beside it.
const HALF: f64 = 0.5;

impl Lost {
    /// All lost time, as a percentage of the threads' time.
    pub fn pct(&self) -> f64 {
        self.parts.iter().map(|(_, pct)| pct).sum()
    }

    /// Waiting for others at barriers and leaving barriers, as a percentage of the threads' time.
    pub fn waiting_pct(&self) -> f64 {
        self.part(WAITING)
    }

    /// Whether a good part was lost because threads had no CPU.
    pub fn is_for_lack_of_cpus(&self) -> bool {
        let ready_pct = self.part(READY);
        ready_pct >= lack::LEAST && ready_pct >= GOOD_PART * self.pct()
    }

    fn part(&self, of: &str) -> f64 {
        let part = self.parts.iter().find(|(what, _)| *what == of);
        part.map_or(0.0, |(_, pct)| *pct)
    }

    /// How much was lost, and in which ways, the largest first.
    pub fn sentence(&self) -> String {
        let mut parts = self.parts.clone();
        parts.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let largest = parts.first().map_or(0.0, |(_, pct)| *pct);
        parts.retain(|(_, pct)| *pct >= 1.0 || *pct >= largest);
        let list: Vec<String> = parts
            .iter()
            .map(|(what, pct)| format!("{pct:.0} % {what}"))
            .collect();
        format!(
            "{:.0} % of thread time was lost, and no cause was found: {}",
            self.pct(),
            list.join(", ")
        )
    }
}

/// The lost time of a run; the error says why it is unknown.
pub fn of(report: &Report) -> Result<Lost, String> {
    if report.lost_events > 0 {
        return Err(format!(
            "{} events were lost, so it is not known what the threads did meanwhile",
            report.lost_events
        ));
    }
    let it = match report.known_efficiency() {
        Ok(it) => it,
        Err(because) => {
            return Err(format!(
                "it is not known how well the threads were used: {because}"
            ));
        }
    };
    let is_openmp = report.sites.iter().any(|site| site.kind.is_of_openmp());
    if is_openmp && report.run.departures != Some(true) {
        return Err(
            "how long threads were kept waiting between parallel regions is not known, since \
             departures were not watched all the time (--departures on)"
                .into(),
        );
    }
    let time = &report.thread_time;
    let all_ns = f64::from(it.threads) * report.run.wall_ns as f64;
    let pct = |ns: f64| (ns / all_ns * 100.0).max(0.0);
    let sum = |f: fn(&ThreadReport) -> Option<u64>| {
        let known = report.threads.iter().filter_map(f);
        known.map(|ns| ns as f64).sum::<f64>()
    };
    let waiting_ns = time.idle_ns as f64 + time.release_ns.unwrap_or(0) as f64;
    let between_ns = time.between_ns.unwrap_or(0) as f64;
    let ready_ns = sum(|thread| thread.ready_ns);
    let open_ns = time.unfinished_ns as f64;
    // All time that was not useful was lost in one of these ways, or in none of them.
    let missing_ns = all_ns - it.useful_ns(report.run.wall_ns);
    let outside_ns = missing_ns - waiting_ns - between_ns - ready_ns - open_ns;
    let is_mpi = report
        .sites
        .iter()
        .any(|site| site.kind == BarrierKind::Mpi);
    let outside = if is_mpi {
        "before the first barrier, where MPI starts the ranks, or after the last"
    } else if report.incomplete_episodes > 0 {
        "before the first barrier, after the last or in incomplete episodes"
    } else {
        "before the first barrier or after the last"
    };
    let blocked_ns = sum(|thread| thread.blocked_ns);
    let asleep = if report.run.has_stopped_threads() {
        "asleep in the work, or stopped by sbt"
    } else if report.stolen_ns() as f64 >= HALF * blocked_ns {
        "asleep in the work, or without the CPU that the hypervisor took"
    } else {
        "asleep in the work"
    };
    let docked_ns = sum(|thread| thread.begin_blocked_ns);
    let ended_ns = sum(|thread| thread.end_blocked_ns);
    Ok(Lost {
        parts: vec![
            (WAITING, pct(waiting_ns)),
            ("between parallel regions", pct(between_ns)),
            (READY, pct(ready_ns)),
            (asleep, pct(blocked_ns - docked_ns - ended_ns)),
            ("asleep before the first barrier", pct(docked(report))),
            ("asleep after the last barrier", pct(after_the_last(report))),
            ("in episodes that did not end", pct(open_ns)),
            (outside, pct(outside_ns)),
        ],
    })
}

/// Time for which threads slept before their first barrier while there may have been work, ns. If
/// the program's main thread takes part in barriers, there was no work while no other thread ran.
fn docked(report: &Report) -> f64 {
    let sees_main = report.threads.iter().any(is_main);
    report
        .threads
        .iter()
        .filter_map(|thread| Some((thread.id, thread.begin_blocked_ns?)))
        .map(|(id, slept_ns)| {
            let others = report.threads.iter().filter(|other| other.id != id);
            let ran_ns = others.filter_map(|other| other.begin_running_ns).max();
            if sees_main {
                slept_ns.min(ran_ns.unwrap_or(0)) as f64
            } else {
                slept_ns as f64
            }
        })
        .sum()
}

/// Time for which threads slept after their last barrier, ns, without the program's main thread:
/// that one waits for the end of the others.
fn after_the_last(report: &Report) -> f64 {
    let others = report.threads.iter().filter(|thread| !is_main(thread));
    others
        .filter_map(|thread| thread.end_blocked_ns)
        .map(|ns| ns as f64)
        .sum()
}

const fn is_main(thread: &ThreadReport) -> bool {
    thread.tid == thread.pid
}
