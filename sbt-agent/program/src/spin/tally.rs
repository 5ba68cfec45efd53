//! Where threads were when samples were taken, and which places are suspected.

use std::collections::{BTreeMap, BTreeSet};

/// The least number of samples of a thread in a loop for the thread to count.
const LEAST_OF_THREAD: u64 = 2;

/// The least number of samples of all threads together in a loop.
const LEAST_OF_ALL: u64 = 8;

/// The least share of the threads' samples that are in the loop.
const LEAST_SHARE: f64 = 0.02;

/// The least number of threads that make a loop a meeting place.
const LEAST_THREADS: usize = 2;

/// What is known of a place where threads wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspect {
    /// The threads seen in it, by id.
    pub threads: BTreeSet<u32>,
    /// The number of samples in it.
    pub samples: u64,
    /// All samples of these threads, wherever they were.
    pub of: u64,
}

/// The samples so far: by thread, and by thread and place.
#[derive(Clone, Debug)]
pub struct Tally<K: Ord> {
    all: BTreeMap<u32, u64>,
    within: BTreeMap<K, BTreeMap<u32, u64>>,
}

impl<K: Ord> Default for Tally<K> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            within: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Tally<K> {
    /// Takes a sample of a thread: the place where it waits, if it does.
    pub fn add(&mut self, thread: u32, place: Option<K>) {
        *self.all.entry(thread).or_default() += 1;
        if let Some(place) = place {
            *self
                .within
                .entry(place)
                .or_default()
                .entry(thread)
                .or_default() += 1;
        }
    }

    /// The number of samples so far.
    pub fn samples(&self) -> u64 {
        self.all.values().sum()
    }

    /// The places where several threads used their time.
    pub fn suspects(&self) -> Vec<(K, Suspect)> {
        let suspects = self.within.iter().filter_map(|(place, threads)| {
            let often = || threads.iter().filter(|(_, n)| **n >= LEAST_OF_THREAD);
            let suspect = Suspect {
                threads: often().map(|(thread, _)| *thread).collect(),
                samples: often().map(|(_, n)| n).sum(),
                of: often().filter_map(|(thread, _)| self.all.get(thread)).sum(),
            };
            let is_one = suspect.threads.len() >= LEAST_THREADS
                && suspect.samples >= LEAST_OF_ALL
                && suspect.samples as f64 >= LEAST_SHARE * suspect.of as f64;
            is_one.then(|| (place.clone(), suspect))
        });
        suspects.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(samples: &[(u32, Option<u8>, usize)]) -> Vec<(u8, Suspect)> {
        let mut tally = Tally::default();
        for (thread, place, times) in samples {
            for _ in 0..*times {
                tally.add(*thread, *place);
            }
        }
        tally.suspects()
    }

    #[test]
    fn several_threads_in_one_loop_are_suspicious() {
        let found = judged(&[
            (1, Some(7), 30),
            (1, None, 70),
            (2, Some(7), 50),
            (3, None, 9),
        ]);
        let expected = Suspect {
            threads: BTreeSet::from([1, 2]),
            samples: 80,
            of: 150,
        };
        assert_eq!(found, [(7, expected)]);
    }

    #[test]
    fn one_thread_or_few_samples_are_not() {
        assert!(judged(&[(1, Some(7), 90), (2, None, 90)]).is_empty());
        assert!(judged(&[(1, Some(7), 90), (2, Some(7), 1)]).is_empty());
        assert!(judged(&[(1, Some(7), 3), (2, Some(7), 3)]).is_empty());
        assert!(judged(&[(1, Some(7), 5), (2, Some(7), 5), (2, None, 900)]).is_empty());
        assert!(judged(&[(1, Some(7), 90), (2, Some(8), 90)]).is_empty());
    }
}
