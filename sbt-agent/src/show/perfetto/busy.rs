//! The number of threads that were seen working over the run: means over equal pieces of time.

use crate::show::{Doing, Episode};

/// Maximum number of pieces; `LEAST_NS` is the minimum length of a piece, ns.
const MOST: u64 = 50_000;
const LEAST_NS: u64 = 1_000;

/// Work of all threads by piece of time, ns.
pub struct Busy {
    from_ns: u64,
    step_ns: u64,
    work: Vec<f64>,
}

impl Busy {
    /// Starts with no work for a run of this duration, from `from_ns` on.
    pub fn new(from_ns: u64, wall_ns: u64) -> Self {
        let length_ns = wall_ns.saturating_sub(from_ns);
        let step_ns = length_ns.div_ceil(MOST).max(LEAST_NS);
        let steps = usize::try_from(length_ns.div_ceil(step_ns)).unwrap_or(0);
        Self {
            from_ns,
            step_ns,
            work: vec![0.0; steps],
        }
    }

    /// Length of a piece, ns.
    pub const fn step_ns(&self) -> u64 {
        self.step_ns
    }

    /// Adds the work of all participants before an episode.
    pub fn add(&mut self, episode: &Episode) {
        let alone = episode.alone.iter();
        let alone = alone.map(|piece| (piece.from_ns, piece.to_ns));
        let all = episode.seen.iter().filter_map(|seen| {
            let piece = seen.pieces(episode.last_ns);
            let mut work = piece.filter(|piece| matches!(piece.doing, Doing::Work(_)));
            work.next().map(|piece| (piece.from_ns, piece.to_ns))
        });
        let since = |time_ns: u64| time_ns.saturating_sub(self.from_ns);
        for (from_ns, to_ns) in alone.chain(all) {
            let (from_ns, to_ns) = (since(from_ns), since(to_ns));
            let first = usize::try_from(from_ns / self.step_ns).unwrap_or(usize::MAX);
            let pieces = self.work.get_mut(first..).unwrap_or_default();
            for (at, work) in (first as u64..).zip(pieces) {
                let begin_ns = at * self.step_ns;
                if begin_ns >= to_ns {
                    break;
                }
                let part_ns = to_ns.min(begin_ns + self.step_ns) - from_ns.max(begin_ns);
                *work += part_ns as f64;
            }
        }
    }

    /// The number of busy threads, rounded to hundredths, and since when (ns); only where the
    /// number changes.
    pub fn steps(&self) -> impl Iterator<Item = (u64, f64)> {
        let mut before = None;
        (0_u64..).zip(&self.work).filter_map(move |(at, work)| {
            let mean = (work / self.step_ns as f64 * 100.0).round() / 100.0;
            let changed = before.replace(mean) != Some(mean);
            changed.then_some((self.from_ns + at * self.step_ns, mean))
        })
    }
}
