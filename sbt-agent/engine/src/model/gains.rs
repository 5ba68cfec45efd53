//! The straggler's path, and what would be gained if things were otherwise.

use super::stats::KnownSum;

/// By how much faster the straggler is imagined to be, per cent.
pub const FASTER_PCT: [u64; 3] = [10, 25, 50];

/// Sums over episodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gains {
    /// Work of whoever came last: where the critical path runs, ns.
    pub path_ns: u64,
    /// The same, each moment counted as often as threads did not work, and once more, ns.
    pub weighted_ns: f64,
    /// Wall time saved if the straggler alone took so much less time ([`FASTER_PCT`]), but
    /// not more than to where another would be the last, ns.
    pub faster_ns: [u64; FASTER_PCT.len()],
    /// From the last arrival to the last departure, ns: what a barrier that lets all go at
    /// once would save.
    pub release: KnownSum,
}

impl Gains {
    /// An episode whose straggler worked for `work_ns` and came `lead_ns` after the one
    /// before it. `release_ns`: of whoever left last.
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
