//! The figures that a report must contain, computed from the loads that a program logged.

use crate::truth::Truth;

/// Begin and end of each thread's load in each round, ns, in the order of the threads' ids; and
/// when the last thread leaves.
pub struct Loads {
    rounds: Vec<Vec<(u64, u64)>>,
    end_ns: u64,
}

/// Efficiencies, from 0 to 1, and the speedup.
pub struct Factors {
    pub parallel: f64,
    pub balance: f64,
    pub serial: f64,
    pub transfer: f64,
    pub speedup: f64,
}

impl Loads {
    /// The loads of all rounds. The first thread works from the start of its program.
    pub fn of(truth: &Truth, start_ns: u64) -> Self {
        let mut loads = Self::from_round(truth, 0);
        loads.rounds[0][0].0 = start_ns;
        loads
    }

    /// The loads of all rounds but the first.
    pub fn between_meetings(truth: &Truth) -> Self {
        Self::from_round(truth, 1)
    }

    fn from_round(truth: &Truth, first: usize) -> Self {
        let rounds = truth.0[first..].iter().map(|round| {
            let mut round = round.clone();
            round.sort_by_key(|passage| passage.tid);
            let times = round
                .iter()
                .map(|passage| (passage.begin.unwrap(), passage.arrival));
            times.collect::<Vec<_>>()
        });
        let end = truth
            .0
            .last()
            .unwrap()
            .iter()
            .map(|passage| passage.departure);
        Self {
            rounds: rounds.collect(),
            end_ns: end.max().unwrap(),
        }
    }

    /// From the first beginning to the last departure, ns.
    fn wall_ns(&self) -> u64 {
        let begin = self.rounds[0].iter().map(|load| load.0).min().unwrap();
        self.end_ns - begin
    }

    fn works(&self) -> impl Iterator<Item = Vec<u64>> {
        let work = |load: &(u64, u64)| load.1 - load.0;
        let of = move |round: &Vec<(u64, u64)>| round.iter().map(work).collect();
        self.rounds.iter().map(of)
    }

    /// Sum over the rounds of the longest load, ns.
    pub fn path_ns(&self) -> u64 {
        self.works()
            .map(|works| works.into_iter().max().unwrap())
            .sum()
    }

    /// Sum of loads / (threads × time), and its factors (POP).
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

    /// The time for which exactly 1, 2, … threads were busy; and each thread's time divided by the
    /// number of busy threads (Quartz), in the order of the threads' ids. All in ns.
    pub fn busy(&self) -> (Vec<f64>, Vec<f64>) {
        let threads = self.rounds[0].len();
        let (mut times, mut shares) = (vec![0.0; threads], vec![0.0; threads]);
        for round in &self.rounds {
            let mut moments: Vec<u64> = round.iter().flat_map(|load| [load.0, load.1]).collect();
            moments.sort_unstable();
            for pair in moments.windows(2) {
                let (from, until) = (pair[0], pair[1]);
                let is_busy = |load: &&(usize, &(u64, u64))| load.1.0 <= from && until <= load.1.1;
                let busy: Vec<_> = round
                    .iter()
                    .enumerate()
                    .filter(|load| is_busy(&load))
                    .collect();
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

    /// Time gained if the last thread of each round loads less by `share`, ns; in each round at
    /// most the last thread's lead.
    pub fn gained(&self, share: f64) -> f64 {
        let rounds = self.rounds.iter().map(|round| {
            let mut round = round.clone();
            round.sort_by_key(|load| load.1);
            let [.., before, last] = round.as_slice() else {
                panic!("two of them");
            };
            let less = share * (last.1 - last.0) as f64;
            less.min((last.1 - before.1) as f64)
        });
        rounds.sum()
    }
}
