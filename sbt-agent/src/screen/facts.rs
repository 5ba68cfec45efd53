//! What a snapshot says at a glance: whether the program moves, who waits, and
//! where time goes.

use sbt_engine::{
    live::{Doing, PACE_STEP_NS, Snapshot, Watching},
    report::SiteReport,
};

/// Whether the program moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// No episode has ended yet.
    NoneYet,
    /// Episodes end.
    Moving,
    /// None has ended for so long.
    Silent {
        /// ns.
        ns: u64,
        /// Longer than any phase so far.
        unusual: bool,
    },
    /// Threads wait for one that does not come; for how long, ns.
    Hangs {
        /// ns.
        ns: u64,
    },
    /// Threads wait for one that is at work, or will be; for how long, ns.
    Slow {
        /// ns.
        ns: u64,
        /// Or it may be in a loop without end.
        stuck: bool,
    },
    /// Nobody watches, for so many ns.
    Off {
        /// ns.
        ns: u64,
    },
    /// The program has ended.
    Ended {
        /// If it is known.
        status: Option<u8>,
        /// From the beginning of the program, or of watching it, to its end, ns.
        ran_ns: u64,
    },
}

/// A program is said to be silent after this, ns.
const SILENT_NS: u64 = 1_000_000_000;
/// And unusually so after this at the least, ns.
const UNUSUAL_NS: u64 = 2_000_000_000;

/// Whether the program moves.
pub fn motion(snapshot: &Snapshot) -> Motion {
    match snapshot.watching {
        Watching::Ended { status, ran_ns } => return Motion::Ended { status, ran_ns },
        Watching::Off { since_ns } => {
            let ns = snapshot.now_ns.saturating_sub(since_ns);
            return Motion::Off { ns };
        }
        Watching::On => {}
    }
    let standstill = snapshot.report.hang.as_ref();
    if let Some(hang) = standstill.filter(|it| it.outcome == "lasts") {
        let ns = hang.lasted_ns;
        return if hang.is_hang() {
            Motion::Hangs { ns }
        } else {
            let stuck = hang.found.kind != "slow";
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

/// For how long no episode has ended, ns; `None` if none ever has.
fn silent_ns(snapshot: &Snapshot) -> Option<u64> {
    let sites = snapshot.report.sites.iter();
    let last = sites
        .filter_map(|site| site.trend.last())
        .map(|part| part.until_ns)
        .max();
    if let Some(last) = last {
        // Both are counted from where the report begins.
        return Some(snapshot.report.wall_ns.saturating_sub(last));
    }
    // Sums may have been set to zero since.
    let pace = &snapshot.pace;
    let steps = pace.iter().rev().position(|count| *count > 0);
    // There was one, but it is further back.
    let steps = steps.or_else(|| (snapshot.report.episodes > 0).then_some(pace.len()));
    Some(steps? as u64 * PACE_STEP_NS)
}

/// Steps of the pace that make up its present value.
const RECENT: usize = 4;

/// Episodes a second lately; `None` before it is known.
pub fn rate(snapshot: &Snapshot) -> Option<f64> {
    // The last step is not over.
    let (_, done) = snapshot.pace.split_last()?;
    let recent = &done[done.len().saturating_sub(RECENT)..];
    if recent.is_empty() {
        return None;
    }
    let sum: u64 = recent.iter().map(|count| u64::from(*count)).sum();
    let seconds = (recent.len() as u64 * PACE_STEP_NS) as f64 / 1e9;
    Some(sum as f64 / seconds)
}

/// The site with the most lost thread-time, if any was lost.
pub fn worst(snapshot: &Snapshot) -> Option<&SiteReport> {
    let worst = snapshot.report.sites.iter().max_by_key(|site| site.lost_ns);
    worst.filter(|site| site.lost_ns > 0)
}

/// Who does what now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// In barriers.
    pub waiting: Vec<u32>,
    /// The longest of them, since when (ns) and where.
    pub longest: Option<(u64, String)>,
    /// Outside.
    pub working: Vec<u32>,
    /// The longest of them, since when, ns.
    pub working_since_ns: Option<u64>,
    /// No longer there.
    pub ended: Vec<u32>,
    /// Not known.
    pub unknown: Vec<u32>,
}

/// Who does what now.
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
            Doing::Ended => now.ended.push(thread.id),
            Doing::Unknown => now.unknown.push(thread.id),
        }
    }
    now
}
