//! Who was where when samples were taken, and what that makes of the places.

use std::collections::{BTreeMap, BTreeSet};

/// A thread has to be seen so often in a loop.
const LEAST_OF_THREAD: u64 = 2;

/// All threads together so often,
const LEAST_OF_ALL: u64 = 8;

/// and so much of their time, in one look.
const LEAST_SHARE: f64 = 0.02;

/// How many threads make it a place where they meet.
const LEAST_THREADS: usize = 2;

/// What is known of a place where threads wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspect {
    /// The threads seen in it, by id.
    pub threads: BTreeSet<u32>,
    /// Samples in it.
    pub samples: u64,
    /// All samples of these threads, while it was looked.
    pub of: u64,
}

/// The samples of one look: by thread, and by thread and place.
#[derive(Clone, Debug)]
pub struct Look<K: Ord> {
    all: BTreeMap<u32, u64>,
    within: BTreeMap<K, BTreeMap<u32, u64>>,
}

impl<K: Ord + Clone> Look<K> {
    /// Without samples.
    pub const fn new() -> Self {
        Self {
            all: BTreeMap::new(),
            within: BTreeMap::new(),
        }
    }

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

    /// Adds the places that several threads used their time in; says whether there
    /// is one.
    pub fn judge(&self, suspects: &mut BTreeMap<K, Suspect>) -> bool {
        let mut any = false;
        for (place, threads) in &self.within {
            let often = || threads.iter().filter(|(_, n)| **n >= LEAST_OF_THREAD);
            let samples: u64 = often().map(|(_, n)| n).sum();
            let of: u64 = often().filter_map(|(thread, _)| self.all.get(thread)).sum();
            if often().count() < LEAST_THREADS
                || samples < LEAST_OF_ALL
                || (samples as f64) < LEAST_SHARE * of as f64
            {
                continue;
            }
            any = true;
            let suspect = suspects.entry(place.clone()).or_default();
            suspect.threads.extend(often().map(|(thread, _)| *thread));
            suspect.samples += samples;
            suspect.of += of;
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(samples: &[(u32, Option<u8>, usize)]) -> Look<u8> {
        let mut look = Look::new();
        for (thread, place, times) in samples {
            for _ in 0..*times {
                look.add(*thread, *place);
            }
        }
        look
    }

    fn judged(samples: &[(u32, Option<u8>, usize)]) -> BTreeMap<u8, Suspect> {
        let mut suspects = BTreeMap::new();
        let any = look(samples).judge(&mut suspects);
        assert_eq!(any, !suspects.is_empty());
        suspects
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
        assert_eq!(found, BTreeMap::from([(7, expected)]));
    }

    #[test]
    fn one_thread_or_few_samples_are_not() {
        assert!(judged(&[(1, Some(7), 90), (2, None, 90)]).is_empty());
        assert!(judged(&[(1, Some(7), 90), (2, Some(7), 1)]).is_empty());
        assert!(judged(&[(1, Some(7), 3), (2, Some(7), 3)]).is_empty());
        assert!(judged(&[(1, Some(7), 5), (2, Some(7), 5), (2, None, 900)]).is_empty());
        assert!(judged(&[(1, Some(7), 90), (2, Some(8), 90)]).is_empty());
    }

    #[test]
    fn looks_add_up() {
        let mut suspects = BTreeMap::new();
        let first = look(&[(1, Some(7), 10), (2, Some(7), 10), (2, None, 10)]);
        let second = look(&[(2, Some(7), 10), (3, Some(7), 10)]);
        assert!(first.judge(&mut suspects) && second.judge(&mut suspects));
        let one = &suspects[&7];
        assert_eq!((one.threads.len(), one.samples, one.of), (3, 40, 50));
    }
}
