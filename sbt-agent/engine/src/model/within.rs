//! The efficiency of the threads inside of the spans of a conceptual phase: the efficiencies of
//! [`super::efficiency`], with the spans' time in place of the wall time.

use super::{
    efficiency::{Efficiency, Lacked, useful},
    ids::ThreadId,
    parts::{EpisodePart, Split},
};

/// A thread's progress in its current span.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// The thread's useful work in the span, ns.
    useful_ns: u64,
    /// The longest path from the beginning of the span to the thread's position, ns.
    pub path_ns: u64,
    lacked: Lacked,
    /// Whether some of the thread's work is unknown.
    is_unknown: bool,
}

impl Progress {
    /// Adds the thread's part in an episode.
    pub fn add(&mut self, part: &EpisodePart) {
        self.work(part.work_ns, part.split);
    }

    /// Adds work of this length, ns, if it is known.
    pub fn work(&mut self, work_ns: Option<u64>, split: Split) {
        let Some(work_ns) = work_ns else {
            self.is_unknown = true;
            return;
        };
        let useful_ns = useful(work_ns, split);
        self.useful_ns = self.useful_ns.saturating_add(useful_ns);
        self.path_ns = self.path_ns.saturating_add(useful_ns);
        self.lacked.add(work_ns, split);
    }
}

/// Sums over the finished spans.
#[derive(Clone, Debug, Default)]
pub struct Within {
    time_ns: u64,
    path_ns: u64,
    /// Number of threads in a span; the same in every span, unless `is_unknown`.
    members: usize,
    /// Useful work by [`ThreadId`], ns; `None` for threads that were in no span.
    useful_ns: Vec<Option<u64>>,
    lacked: Lacked,
    /// Whether no efficiency can be given: some work is unknown, or the spans have different
    /// numbers of threads.
    is_unknown: bool,
}

impl Within {
    /// Adds a finished span of this length, ns.
    pub fn add(&mut self, time_ns: u64, members: impl Iterator<Item = (ThreadId, Progress)>) {
        self.time_ns = self.time_ns.saturating_add(time_ns);
        let (mut count, mut path_ns) = (0, 0);
        for (row, progress) in members {
            count += 1;
            path_ns = progress.path_ns.max(path_ns);
            self.is_unknown |= progress.is_unknown;
            if self.useful_ns.len() <= row.index() {
                self.useful_ns.resize(row.index() + 1, None);
            }
            let useful_ns = self.useful_ns[row.index()].get_or_insert(0);
            *useful_ns = useful_ns.saturating_add(progress.useful_ns);
            self.lacked.join(progress.lacked);
        }
        // The path is never longer than the span, but the clocks of CPUs differ slightly.
        self.path_ns = self.path_ns.saturating_add(path_ns.min(time_ns));
        self.is_unknown |= self.members != 0 && self.members != count;
        self.members = count;
    }

    /// The efficiencies. `None` if too little is known, or if several teams have spans of their
    /// own: their waits are unrelated.
    pub fn efficiency(&self) -> Option<Efficiency> {
        let each = || self.useful_ns.iter().flatten().copied();
        let is_one_team = each().count() == self.members;
        let sum_ns = each().fold(0, u64::saturating_add);
        if self.is_unknown || !is_one_team || sum_ns == 0 || self.time_ns == 0 {
            return None;
        }
        let most_ns = each().max()?;
        let path_ns = self.path_ns.max(most_ns).min(self.time_ns);
        let (n, time, sum) = (self.members as f64, self.time_ns as f64, sum_ns as f64);
        let (most, path) = (most_ns as f64, path_ns as f64);
        Some(Efficiency {
            parallel: sum / (n * time),
            load_balance: sum / n / most,
            serialisation: most / path,
            transfer: path / time,
            cpu_availability: self.lacked.availability(),
            speedup: sum / time,
            granularity: (n * time > sum).then(|| sum / (n * time - sum)),
            threads: self.members,
            path_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(works: &[u64]) -> Progress {
        let mut progress = Progress::default();
        for work_ns in works {
            progress.add(&EpisodePart {
                row: ThreadId(0),
                work_ns: Some(*work_ns),
                idle_ns: 0,
                release_ns: None,
                wait: None,
                split: Split {
                    ready_ns: Some(0),
                    ..Split::default()
                },
                speed_ns: None,
            });
        }
        progress
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} {expected}");
    }

    #[test]
    fn the_factors_multiply_up_and_fill_the_time() {
        let mut within = Within::default();
        assert!(within.efficiency().is_none());
        // Two spans of 200 ns, in which the threads swap their amounts of work.
        for works in [[180, 60], [60, 180]] {
            let members = works.map(|work| progress(&[work]));
            within.add(200, (0..).map(ThreadId).zip(members));
        }
        let it = within.efficiency().unwrap();
        near(it.load_balance, 1.0);
        near(it.serialisation, 240.0 / 360.0);
        near(it.transfer, 360.0 / 400.0);
        near(it.parallel, 480.0 / 800.0);
        near(
            it.load_balance * it.serialisation * it.transfer,
            it.parallel,
        );
        near(it.speedup, 1.2);
        near(it.cpu_availability.unwrap(), 1.0);
        assert_eq!((it.threads, it.path_ns), (2, 360));
    }

    #[test]
    fn what_differs_says_nothing() {
        let mut within = Within::default();
        let one = |row| std::iter::once((ThreadId(row), progress(&[10])));
        within.add(20, one(0));
        assert!(within.efficiency().is_some());
        within.add(20, one(1));
        assert!(within.efficiency().is_none());
        let mut within = Within::default();
        let mut unknown = progress(&[10]);
        unknown.add(&EpisodePart {
            row: ThreadId(0),
            work_ns: None,
            idle_ns: 0,
            release_ns: None,
            wait: None,
            split: Split::default(),
            speed_ns: None,
        });
        within.add(20, std::iter::once((ThreadId(0), unknown)));
        assert!(within.efficiency().is_none());
    }
}
