//! The straggler's path, and what changes would gain.

use super::stats::KnownSum;

/// Assumed speedups of the straggler, in per cent less work time.
pub const FASTER_PCT: [u64; 3] = [10, 25, 50];

/// Sums over episodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gains {
    /// Work of the stragglers, through which the critical path runs, ns.
    pub path_ns: u64,
    /// The work in `path_ns`, each moment multiplied by 1 + the number of threads that did not work
    /// then, ns.
    pub weighted_ns: f64,
    /// Wall time saved if only the straggler took less time, by each of [`FASTER_PCT`], ns. In each
    /// episode, at most the straggler's lead counts, since then another thread comes last.
    pub faster_ns: [u64; FASTER_PCT.len()],
    /// Sum of the times from the last arrival to the last departure, ns: what a barrier that
    /// releases all threads at once would save.
    pub release: KnownSum,
}

impl Gains {
    /// Adds an episode whose straggler worked for `work_ns` and arrived `lead_ns` after the second
    /// last thread. `release_ns`: release time of the last thread to leave.
    pub fn add(&mut self, work_ns: Option<u64>, lead_ns: u64, release_ns: Option<u64>) {
        self.release.add(release_ns);
        let Some(work_ns) = work_ns else { return };
        self.path_ns = self.path_ns.saturating_add(work_ns);
        for (sum, pct) in self.faster_ns.iter_mut().zip(FASTER_PCT) {
            let less_ns = work_ns / 100 * pct;
            *sum = sum.saturating_add(less_ns.min(lead_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faster_straggler_saves_no_more_than_its_lead() {
        let mut gains = Gains::default();
        gains.add(Some(1000), 200, None);
        gains.add(Some(1000), 1000, Some(7));
        gains.add(None, 1000, Some(3));
        assert_eq!(gains.path_ns, 2000);
        assert_eq!(gains.faster_ns, [200, 450, 700]);
        assert_eq!(gains.release.get(), Some(10));
    }
}
