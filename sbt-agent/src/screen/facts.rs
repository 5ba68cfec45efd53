//! Summary of a snapshot: whether the program makes progress, which threads wait, and where time
//! goes.

use sbt_engine::{
    live::{Doing, PACE_STEP_NS, Snapshot, Watching},
    report::{HangKind, HangOutcome, SiteReport},
};

/// Whether the program makes progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// No episode has ended yet.
    NoneYet,
    /// Episodes keep ending.
    Moving,
    /// No episode has ended for this long.
    Silent {
        /// Time since the last episode ended, ns.
        ns: u64,
        /// Whether the silence is longer than every phase so far.
        unusual: bool,
    },
    /// Threads wait for a thread that will not arrive.
    Hangs {
        /// Duration of the wait, ns.
        ns: u64,
    },
    /// Threads wait for a thread that works, or is about to.
    Slow {
        /// Duration of the wait, ns.
        ns: u64,
        /// Whether the late thread may be in an endless loop.
        stuck: bool,
    },
    /// Probes are off.
    Off {
        /// Time since the probes were turned off, ns.
        ns: u64,
    },
    /// The program has ended.
    Ended {
        /// Exit status; `None` if unknown.
        status: Option<u8>,
        /// Time from the start of the program, or of watching, to the program's end, ns.
        ran_ns: u64,
    },
}

/// The program counts as silent if no episode ends for this long, ns.
const SILENT_NS: u64 = 1_000_000_000;
/// Silence shorter than this is never called unusual, ns.
const UNUSUAL_NS: u64 = 2_000_000_000;

/// Classifies the program's progress.
pub fn motion(snapshot: &Snapshot) -> Motion {
    match snapshot.watching {
        Watching::Ended { status, ran_ns } => return Motion::Ended { status, ran_ns },
        Watching::Off { since_ns } => {
            let ns = snapshot.now_ns.saturating_sub(since_ns);
            return Motion::Off { ns };
        }
        Watching::On => {}
    }
    let standstill = snapshot.report.run.hang.as_ref();
    if let Some(hang) = standstill.filter(|hang| hang.outcome == HangOutcome::Lasts) {
        let ns = hang.lasted_ns;
        return if hang.is_hang() {
            Motion::Hangs { ns }
        } else {
            let stuck = !matches!(hang.found.kind, HangKind::Slow | HangKind::Outside);
            Motion::Slow { ns, stuck }
        };
    }
    let Some(ns) = silent_ns(snapshot) else {
        return Motion::NoneYet;
    };
    if ns < SILENT_NS {
        return Motion::Moving;
    }
    let phases = snapshot.report.sites.iter();
    let longest = phases
        .filter_map(|site| site.phase_ns.as_ref().map(|stat| stat.max))
        .max()
        .unwrap_or(0);
    let unusual = ns > longest.max(UNUSUAL_NS);
    Motion::Silent { ns, unusual }
}

/// Time since the last episode ended, ns; `None` if no episode has ended.
fn silent_ns(snapshot: &Snapshot) -> Option<u64> {
    let sites = snapshot.report.sites.iter();
    let last = sites
        .filter_map(|site| site.trend.last())
        .map(|part| part.until_ns)
        .max();
    if let Some(last) = last {
        // Both times are relative to the start of the report.
        return Some(snapshot.report.run.wall_ns.saturating_sub(last));
    }
    // The sums may have been reset since the last episode.
    let pace = &snapshot.pace;
    let steps = pace.iter().rev().position(|count| *count > 0);
    // Episodes were counted, but before the recorded pace.
    let steps = steps.or_else(|| (snapshot.report.episodes > 0).then_some(pace.len()));
    Some(steps? as u64 * PACE_STEP_NS)
}

/// Number of pace steps that make up the current rate.
const RECENT: usize = 4;

/// Current rate of episodes per second; `None` if not known yet.
pub fn rate(snapshot: &Snapshot) -> Option<f64> {
    // The last step is still in progress.
    let (_, done) = snapshot.pace.split_last()?;
    let recent = &done[done.len().saturating_sub(RECENT)..];
    if recent.is_empty() {
        return None;
    }
    let sum: u64 = recent.iter().map(|count| u64::from(*count)).sum();
    let seconds = (recent.len() as u64 * PACE_STEP_NS) as f64 / 1e9;
    Some(sum as f64 / seconds)
}

/// The site with the most lost thread-time; `None` if no time was lost.
pub fn worst(snapshot: &Snapshot) -> Option<&SiteReport> {
    let worst = snapshot.report.sites.iter().max_by_key(|site| site.lost_ns);
    worst.filter(|site| site.lost_ns > 0)
}

/// The activity of each thread at the moment of the snapshot, by thread id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Threads that wait in a barrier.
    pub waiting: Vec<u32>,
    /// The longest of these waits: since when (ns), and at which site.
    pub longest: Option<(u64, String)>,
    /// Threads outside of barriers that may work.
    pub working: Vec<u32>,
    /// Start of the longest of these stretches of work, ns.
    pub working_since_ns: Option<u64>,
    /// Threads outside of barriers that are asleep.
    pub asleep: Vec<u32>,
    /// Since when the first of them is, ns.
    pub asleep_since_ns: Option<u64>,
    /// Threads that have ended.
    pub ended: Vec<u32>,
    /// Threads whose state is unknown.
    pub unknown: Vec<u32>,
}

/// Sorts the threads of a snapshot by what they are doing.
pub fn now(snapshot: &Snapshot) -> Now {
    let mut now = Now::default();
    for (thread, doing) in snapshot.report.threads.iter().zip(&snapshot.doing) {
        match doing {
            Doing::Waiting { since_ns, at } => {
                now.waiting.push(thread.id);
                if now.longest.as_ref().is_none_or(|(ns, _)| since_ns < ns) {
                    now.longest = Some((*since_ns, at.clone()));
                }
            }
            Doing::Working { since_ns } => {
                now.working.push(thread.id);
                let before = now.working_since_ns.unwrap_or(u64::MAX);
                now.working_since_ns = Some(before.min(*since_ns));
            }
            Doing::Asleep { since_ns } => {
                now.asleep.push(thread.id);
                let before = now.asleep_since_ns.unwrap_or(u64::MAX);
                now.asleep_since_ns = Some(before.min(*since_ns));
            }
            Doing::Ended => now.ended.push(thread.id),
            Doing::Unknown => now.unknown.push(thread.id),
        }
    }
    now
}
