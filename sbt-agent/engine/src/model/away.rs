//! What threads did with the time in which they were on no CPU: slept for what, and ready
//! while who ran. Only where each switch is watched.

use rustc_hash::FxHashMap;

use crate::event::{Away, Reason, Taken, Tid, Why};

/// Times of one thread that are kept until its work ends, at most; of more only the
/// sums.
const MAX_SPANS: usize = 4096;

/// Of all threads together: 16 MiB.
const MAX_ALL: usize = 1 << 20;

/// Threads of which something is kept.
const MAX_THREADS: usize = 1 << 16;

/// Takers that are kept apart.
const MAX_TAKERS: usize = 16;

/// Time asleep, ns, by [`Reason`].
pub type ByReason = [u64; Reason::ALL.len()];

/// Who took CPUs: by name and kind, at most so many; of the rest the time is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Takers {
    all: Vec<Taken>,
    rest_ns: u64,
}

impl Takers {
    /// Takes one in. Processes of one name are one; its number is then 0.
    pub fn add(&mut self, taken: &Taken) {
        let same = |known: &&mut Taken| known.by == taken.by && known.name == taken.name;
        if let Some(known) = self.all.iter_mut().find(same) {
            known.ns = known.ns.saturating_add(taken.ns);
            if known.process != taken.process {
                known.process = 0;
            }
            return;
        }
        if self.all.len() >= MAX_TAKERS {
            // The least of them makes room, so that whoever comes late is seen as well.
            let least = (0..self.all.len()).min_by_key(|at| self.all[*at].ns);
            let least = least.filter(|at| self.all[*at].ns < taken.ns);
            let Some(least) = least else {
                self.rest_ns = self.rest_ns.saturating_add(taken.ns);
                return;
            };
            self.rest_ns = self.rest_ns.saturating_add(self.all[least].ns);
            self.all.swap_remove(least);
        }
        self.all.push(taken.clone());
    }

    fn merge(&mut self, other: &Self) {
        for taken in &other.all {
            self.add(taken);
        }
        self.rest_ns = self.rest_ns.saturating_add(other.rest_ns);
    }

    /// Who took most first, and what others took, ns.
    pub fn most(&self) -> (Vec<&Taken>, u64) {
        let mut all: Vec<_> = self.all.iter().collect();
        all.sort_by(|a, b| (b.ns, a.by, &a.name).cmp(&(a.ns, b.by, &b.name)));
        (all, self.rest_ns)
    }
}

/// What one thread did in one stretch of work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// When it was on no CPU, in their order; `None` if they were too many to be kept.
    pub spans: Option<Vec<Away>>,
    /// Asleep, ns.
    pub asleep: ByReason,
    /// Ready without a CPU, ns.
    pub ready_ns: u64,
    /// Who ran meanwhile.
    pub takers: Takers,
}

impl Work {
    /// From when to when it was on no CPU, within a time, ns.
    pub fn off(&self, (begin_ns, end_ns): (u64, u64)) -> impl Iterator<Item = (u64, u64)> {
        let spans = self.spans.iter().flatten();
        let clipped = spans.map(move |away| {
            let from_ns = away.from_ns.unwrap_or(0).max(begin_ns);
            (from_ns, away.until_ns.min(end_ns))
        });
        clipped.filter(|(from_ns, to_ns)| from_ns < to_ns)
    }

    /// What it did from then on, ns; `None` if that is not known.
    pub fn since(&self, since_ns: u64) -> Option<Self> {
        let mut work = Self {
            spans: Some(Vec::new()),
            ..Self::default()
        };
        for away in self.spans.as_ref()? {
            work.add(away, since_ns, u64::MAX);
        }
        // Who ran meanwhile is not known by time.
        if work.ready_ns > 0 {
            work.takers = self.takers.clone();
        }
        Some(work)
    }

    fn add(&mut self, away: &Away, since_ns: u64, until_ns: u64) {
        let from_ns = away.from_ns.unwrap_or(0).max(since_ns);
        let to_ns = away.until_ns.min(until_ns);
        if to_ns <= from_ns {
            return;
        }
        let whole_ns = to_ns - from_ns;
        // It sleeps first.
        let woken_ns = away.until_ns.saturating_sub(away.ready_ns);
        let ready_ns = to_ns.saturating_sub(woken_ns.max(from_ns)).min(whole_ns);
        self.ready_ns += ready_ns;
        match away.why {
            Why::Asleep(reason) => self.asleep[reason as usize] += whole_ns - ready_ns,
            Why::Ready => self.ready_ns += whole_ns - ready_ns,
        }
        if let Some(spans) = &mut self.spans {
            spans.push(*away);
        }
    }
}

/// What is known of a thread since its last arrival.
#[derive(Debug, Default)]
struct Track {
    spans: Vec<Away>,
    /// What is beyond those.
    beyond: Option<Work>,
    takers: Takers,
    /// Since when there are any, ns.
    takers_ns: u64,
    /// Something is missing.
    torn: bool,
}

/// All threads'.
#[derive(Debug, Default)]
pub struct Tracks {
    threads: FxHashMap<Tid, Track>,
    /// How many spans they have.
    kept: usize,
}

impl Tracks {
    /// A thread comes back to a CPU.
    pub fn back(&mut self, tid: Tid, away: &Away, takers: &[Taken]) {
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&tid) {
            self.threads.clear();
            self.kept = 0;
        }
        if away.from_ns.is_none() {
            // Whatever is known is of another of this number.
            self.forget(tid);
        }
        let track = self.threads.entry(tid).or_default();
        track.torn |= !away.seamless;
        if track.spans.len() < MAX_SPANS && self.kept < MAX_ALL {
            track.spans.push(*away);
            self.kept += 1;
        } else {
            let beyond = track.beyond.get_or_insert_default();
            beyond.add(away, 0, u64::MAX);
        }
        for taken in takers {
            track.takers.add(taken);
        }
        track.takers_ns = away.until_ns;
    }

    /// Its work ends that began at `since_ns`, if that is known: what it did meanwhile.
    /// Of a thread of which nothing was heard, it was on a CPU all the time.
    pub fn end(&mut self, tid: Tid, since_ns: Option<u64>, now_ns: u64) -> Option<Box<Work>> {
        let track = self.threads.get_mut(&tid);
        let track = track.map_or_else(Track::default, |track| {
            // What a barrier is told of late was followed by more.
            let later = |away: &&Away| away.until_ns > now_ns;
            let spans = track.spans.iter().filter(later).copied().collect();
            let next = Track {
                spans,
                ..Track::default()
            };
            self.kept = self.kept - track.spans.len() + next.spans.len();
            std::mem::replace(track, next)
        });
        let since_ns = since_ns.filter(|_| !track.torn)?;
        let mut work = track.beyond.unwrap_or_else(|| Work {
            spans: Some(Vec::new()),
            ..Work::default()
        });
        for away in &track.spans {
            work.add(away, since_ns, now_ns);
        }
        if track.takers_ns > since_ns {
            work.takers = track.takers;
        }
        Some(Box::new(work))
    }

    /// A thread begins to work, or has ended: what it did before is of no concern.
    pub fn forget(&mut self, tid: Tid) {
        if let Some(track) = self.threads.remove(&tid) {
            self.kept -= track.spans.len();
        }
    }
}

/// Sums of [`Work`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub known: u64,
    /// How many are not in it.
    pub unknown: u64,
    /// Asleep, ns.
    pub asleep: ByReason,
    /// Ready without a CPU, ns.
    pub ready_ns: u64,
    /// Who ran meanwhile.
    pub takers: Takers,
}

impl Sum {
    /// Takes one in.
    pub fn add(&mut self, work: Option<&Work>) {
        let Some(work) = work else {
            self.unknown += 1;
            return;
        };
        self.known += 1;
        for (sum, ns) in self.asleep.iter_mut().zip(work.asleep) {
            *sum = sum.saturating_add(ns);
        }
        self.ready_ns = self.ready_ns.saturating_add(work.ready_ns);
        self.takers.merge(&work.takers);
    }
}

/// What whoever came last at a site did, against the others: as [`super::late`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Late {
    /// Of so many episodes.
    pub episodes: u64,
    /// Of whoever came last, asleep, ns.
    pub last: ByReason,
    /// Of all others, the mean of each episode, ns.
    pub others: [f64; Reason::ALL.len()],
    /// Who ran while whoever came last was ready.
    pub takers: Takers,
}

impl Late {
    /// Takes one episode in: `last` is one of `all`.
    pub fn add<'a>(&mut self, last: &Work, all: impl ExactSizeIterator<Item = &'a Work>) {
        let others = 1.0 / all.len().saturating_sub(1).max(1) as f64;
        self.episodes += 1;
        self.takers.merge(&last.takers);
        for (sum, ns) in self.last.iter_mut().zip(last.asleep) {
            *sum = sum.saturating_add(ns);
        }
        for work in all {
            for (sum, ns) in self.others.iter_mut().zip(work.asleep) {
                *sum += ns as f64 * others;
            }
        }
        for (sum, ns) in self.others.iter_mut().zip(last.asleep) {
            *sum -= ns as f64 * others;
        }
    }
}

#[cfg(test)]
#[path = "away_tests.rs"]
mod tests;
