//! What the loads of a program come to that it noted itself: what its report has to say.

use crate::truth::Truth;

/// From when until when each thread loads in each round, ns, in the order of the threads'
/// numbers; and when the last leaves.
pub struct Loads {
    rounds: Vec<Vec<(u64, u64)>>,
    end_ns: u64,
}

/// Shares of 1, and how many threads work at the same time.
pub struct Factors {
    pub parallel: f64,
    pub balance: f64,
    pub serial: f64,
    pub transfer: f64,
    pub speedup: f64,
}

impl Loads {
    /// Of all rounds. The first thread is at work from the start of its program on.
    pub fn of(truth: &Truth, start_ns: u64) -> Self {
        let mut loads = Self::from_round(truth, 0);
        loads.rounds[0][0].0 = start_ns;
        loads
    }

    /// Of all rounds but the first, from the end of that one to the end of the last.
    pub fn between_meetings(truth: &Truth) -> Self {
        Self::from_round(truth, 1)
    }

    fn from_round(truth: &Truth, first: usize) -> Self {
        let rounds = truth.0[first..].iter().map(|round| {
            let mut round = round.clone();
            round.sort_by_key(|it| it.tid);
            let times = round.iter().map(|it| (it.begin.unwrap(), it.arrival));
            times.collect::<Vec<_>>()
        });
        let end = truth.0.last().unwrap().iter().map(|it| it.departure);
        Self {
            rounds: rounds.collect(),
            end_ns: end.max().unwrap(),
        }
    }

    /// From the first that begins to the last that leaves.
    fn wall_ns(&self) -> u64 {
        let begin = self.rounds[0].iter().map(|it| it.0).min().unwrap();
        self.end_ns - begin
    }

    fn works(&self) -> impl Iterator<Item = Vec<u64>> {
        let work = |it: &(u64, u64)| it.1 - it.0;
        let of = move |round: &Vec<(u64, u64)>| round.iter().map(work).collect();
        self.rounds.iter().map(of)
    }

    /// The longest load of each round, summed up.
    pub fn path_ns(&self) -> u64 {
        self.works()
            .map(|works| works.into_iter().max().unwrap())
            .sum()
    }

    /// Sum of loads / (threads × time), and what it is the product of (POP).
    pub fn factors(&self) -> Factors {
        let threads = self.rounds[0].len();
        let sums: Vec<u64> = (0..threads)
            .map(|thread| self.works().map(|works| works[thread]).sum())
            .collect();
        let (n, wall) = (threads as f64, self.wall_ns() as f64);
        let sum = sums.iter().sum::<u64>() as f64;
        let most = sums.into_iter().max().unwrap() as f64;
        let path = self.path_ns() as f64;
        Factors {
            parallel: sum / (n * wall),
            balance: sum / n / most,
            serial: most / path,
            transfer: path / wall,
            speedup: sum / wall,
        }
    }

    /// For how long so many threads were busy, from one on; and each thread's time by how
    /// many shared it (Quartz), in the order of the threads' numbers. ns.
    pub fn busy(&self) -> (Vec<f64>, Vec<f64>) {
        let threads = self.rounds[0].len();
        let (mut times, mut shares) = (vec![0.0; threads], vec![0.0; threads]);
        for round in &self.rounds {
            let mut moments: Vec<u64> = round.iter().flat_map(|it| [it.0, it.1]).collect();
            moments.sort_unstable();
            for pair in moments.windows(2) {
                let (from, until) = (pair[0], pair[1]);
                let is_busy = |it: &&(usize, &(u64, u64))| it.1.0 <= from && until <= it.1.1;
                let busy: Vec<_> = round.iter().enumerate().filter(|it| is_busy(&it)).collect();
                let time = (until - from) as f64;
                for (thread, _) in &busy {
                    shares[*thread] += time / busy.len() as f64;
                }
                if let Some(of_so_many) = busy.len().checked_sub(1) {
                    times[of_so_many] += time;
                }
            }
        }
        (times, shares)
    }

    /// What is gained if whoever comes last loads that much less: no more than to where the
    /// one before comes. ns.
    pub fn gained(&self, share: f64) -> f64 {
        let rounds = self.rounds.iter().map(|round| {
            let mut round = round.clone();
            round.sort_by_key(|it| it.1);
            let [.., before, last] = round.as_slice() else {
                panic!("two of them");
            };
            let less = share * (last.1 - last.0) as f64;
            less.min((last.1 - before.1) as f64)
        });
        rounds.sum()
    }
}
