//! The kernel's sums of sleeps, put together with the places that samples and looks have shown. The sums are exact; where a thread sleeps for one object at several places, the samples
//! divide them. Pure.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::{MAX_PAIRS, Tally, ThreadId, WaitNumber};

/// Sleeps that the kernel sums up together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The thread that sleeps.
    pub who: ThreadId,
    /// The address of the futex; 0 for other system calls.
    pub object: u64,
    /// The number of the system call.
    pub call: u32,
}

/// The sums of the sleeps of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of sleeps.
    pub times: u64,
    /// How long they took, until the thread was woken, ns.
    pub total_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// Threads of the program that ended sleeps, with the time of these sleeps, ns.
    pub wakers: Vec<(ThreadId, u64)>,
}

/// All sums of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// The sums of each key, each key once.
    pub all: Vec<(Key, Sum)>,
    /// For how long sleeps were summed, ns.
    pub watched_ns: u64,
    /// From when until when they were, with pauses, ns.
    pub span_ns: u64,
    /// Sleeps for which there was no room.
    pub missed: u64,
}

/// How sleeps were summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summed {
    /// For how long, ns.
    pub watched_ns: u64,
    /// From the beginning to the end, with pauses, ns.
    pub span_ns: u64,
    /// Number of all sleeps.
    pub times: u64,
    /// Time of sleeps whose place is not known, ns.
    pub unplaced_ns: u64,
    /// Number of sleeps for which there was no room.
    pub missed: u64,
}

/// The sleeps of a thread in a wait, by the kernel's sums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundSleep {
    /// The thread that slept.
    pub who: ThreadId,
    /// Number of sleeps.
    pub times: u64,
    /// How long they took together, ns.
    pub total_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// The threads that ended these sleeps, with the time of the sleeps, ns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wakers: Vec<(ThreadId, u64)>,
}

/// The sleeps of one wait and the threads that ended them, by the sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Placed {
    pub sleeps: Vec<FoundSleep>,
    pub wakers: Vec<(ThreadId, u64)>,
}

/// Weights of waits: which part of a sum each has.
type Weights = BTreeMap<WaitNumber, u64>;

/// The samples of sleeps.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples(HashMap<Key, Weights>);

impl Samples {
    fn add(&mut self, key: Key, wait: WaitNumber, ns: u64) -> bool {
        if self.0.len() >= MAX_PAIRS && !self.0.contains_key(&key) {
            return false;
        }
        // A sleep of no time shows a place, too.
        *self.0.entry(key).or_default().entry(wait).or_default() += ns.max(1);
        true
    }
}

impl Tally {
    /// A sampled sleep was this wait, and took `ns`.
    pub fn sampled(&mut self, key: Key, wait: WaitNumber, ns: u64) {
        if !self.samples.add(key, wait, ns) {
            self.dropped += 1;
        }
    }

    /// A look saw a thread in a sleep of this key: it was this wait.
    pub fn saw_asleep(&mut self, key: Key, wait: WaitNumber) {
        if !self.seen_asleep.add(key, wait, 1) {
            self.dropped += 1;
        }
    }

    /// The part that each wait has in a sum: by the samples of the thread, else by those of other
    /// threads for the same object, else by the looks at the thread. Empty if nothing tells.
    fn weights(&self, key: &Key, of_object: &HashMap<(u32, u64, u32), Weights>) -> Weights {
        if let Some(own) = self.samples.0.get(key) {
            return own.clone();
        }
        let of_others = of_object.get(&(key.who.process, key.object, key.call));
        of_others
            .filter(|_| key.object != 0)
            .or_else(|| self.seen_asleep.0.get(key))
            .cloned()
            .unwrap_or_default()
    }

    /// Divides the sums among the waits.
    pub(super) fn place(&self, sums: &Sums) -> (Summed, HashMap<WaitNumber, Placed>) {
        let mut of_object: HashMap<_, Weights> = HashMap::new();
        for (key, weights) in &self.samples.0 {
            let all = of_object
                .entry((key.who.process, key.object, key.call))
                .or_default();
            for (wait, ns) in weights {
                *all.entry(*wait).or_default() += ns;
            }
        }
        let mut placed: HashMap<WaitNumber, Placed> = HashMap::new();
        let mut summed = Summed {
            watched_ns: sums.watched_ns,
            span_ns: sums.span_ns,
            missed: sums.missed,
            ..Summed::default()
        };
        for (key, sum) in &sums.all {
            summed.times += sum.times;
            let weights = self.weights(key, &of_object);
            let whole: u64 = weights.values().sum();
            if whole == 0 {
                summed.unplaced_ns += sum.total_ns;
            }
            for (wait, weight) in weights {
                let part = |all: u64| share(all, weight, whole);
                let at = placed.entry(wait).or_default();
                let wakers = sum.wakers.iter().map(|(waker, ns)| (*waker, part(*ns)));
                let slept = FoundSleep {
                    who: key.who,
                    times: part(sum.times),
                    total_ns: part(sum.total_ns),
                    max_ns: sum.max_ns.min(part(sum.total_ns)),
                    wakers: wakers.collect(),
                };
                add_all(&mut at.wakers, &slept.wakers);
                match at.sleeps.iter_mut().find(|known| known.who == key.who) {
                    Some(known) => {
                        known.times += slept.times;
                        known.total_ns += slept.total_ns;
                        known.max_ns = known.max_ns.max(slept.max_ns);
                        add_all(&mut known.wakers, &slept.wakers);
                    }
                    None => at.sleeps.push(slept),
                }
            }
        }
        for at in placed.values_mut() {
            at.sleeps.sort_unstable_by_key(|slept| slept.who);
            at.wakers
                .sort_unstable_by_key(|(who, ns)| (std::cmp::Reverse(*ns), *who));
        }
        (summed, placed)
    }
}

/// Adds times of wakers to those that are known.
fn add_all(known: &mut Vec<(ThreadId, u64)>, more: &[(ThreadId, u64)]) {
    for (waker, ns) in more {
        match known.iter_mut().find(|known| known.0 == *waker) {
            Some(known) => known.1 = known.1.saturating_add(*ns),
            None => known.push((*waker, *ns)),
        }
    }
}

/// `all × part / whole`, rounded down.
fn share(all: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(all) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}
