//! Time of threads off their CPUs: the reasons of their sleep, and the tasks that ran while the
//! threads were ready. Known only where each switch is watched.

use rustc_hash::FxHashMap;

use crate::event::{Away, LeftCpu, Reason, Taken, Tid};

/// Absences of one thread that are kept until its work ends, at most; later ones enter the sums
/// only.
const MAX_SPANS: usize = 4096;

/// Absences that are kept for all threads together, at most (16 MiB).
const MAX_ALL: usize = 1 << 20;

/// Threads for which anything is kept, at most.
const MAX_THREADS: usize = 1 << 16;

/// Takers of CPU time that are kept, at most.
const MAX_TAKERS: usize = 16;

/// Time asleep, ns, by [`Reason`].
pub type ByReason = [u64; Reason::ALL.len()];

/// Threads that ran while watched threads were ready, by name and kind. At most [`MAX_TAKERS`] are
/// kept; for the rest only the time is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Takers {
    all: Vec<Taken>,
    rest_ns: u64,
}

impl Takers {
    /// Adds CPU time taken. Processes with the same name and kind become one entry, whose process
    /// number is then 0.
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
            // The smallest entry makes room for a larger one, so that a late taker is seen as well.
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

    /// The entries by descending time, and the time that all others took, ns.
    pub fn most(&self) -> (Vec<&Taken>, u64) {
        let mut all: Vec<_> = self.all.iter().collect();
        all.sort_by(|a, b| (b.ns, a.by, &a.name).cmp(&(a.ns, b.by, &b.name)));
        (all, self.rest_ns)
    }
}

/// The time that one thread spent off its CPU in one stretch of work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Absences from CPUs, in order; `None` if there were too many to keep.
    pub spans: Option<Vec<Away>>,
    /// Time asleep, ns.
    pub asleep: ByReason,
    /// Time ready without a CPU, ns.
    pub ready_ns: u64,
    /// Threads that ran while this thread was ready.
    pub takers: Takers,
}

impl Work {
    /// Begin and end of each absence, clipped to a span of time, ns.
    pub fn off(&self, (begin_ns, end_ns): (u64, u64)) -> impl Iterator<Item = (u64, u64)> {
        let spans = self.spans.iter().flatten();
        let clipped = spans.map(move |away| {
            let from_ns = away.from_ns.unwrap_or(0).max(begin_ns);
            (from_ns, away.until_ns.min(end_ns))
        });
        clipped.filter(|(from_ns, to_ns)| from_ns < to_ns)
    }

    /// The part of this from `since_ns` on; `None` if single absences were not kept.
    pub fn since(&self, since_ns: u64) -> Option<Self> {
        let mut work = Self {
            spans: Some(Vec::new()),
            ..Self::default()
        };
        for away in self.spans.as_ref()? {
            work.add(away, since_ns, u64::MAX);
        }
        // The takers cannot be split by time, so all of them are kept.
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
        // An absence begins with sleep; the time ready comes last.
        let woken_ns = away.until_ns.saturating_sub(away.ready_ns);
        let ready_ns = to_ns.saturating_sub(woken_ns.max(from_ns)).min(whole_ns);
        self.ready_ns += ready_ns;
        match away.why {
            LeftCpu::Asleep(reason) => self.asleep[reason as usize] += whole_ns - ready_ns,
            LeftCpu::Ready => self.ready_ns += whole_ns - ready_ns,
        }
        if let Some(spans) = &mut self.spans {
            spans.push(*away);
        }
    }
}

/// State of a thread since its last arrival.
#[derive(Debug, Default)]
struct Track {
    spans: Vec<Away>,
    /// Sums of the absences that found no room in `spans`.
    beyond: Option<Work>,
    takers: Takers,
    /// The time at which the latest absence counted in `takers` ended, ns.
    takers_ns: u64,
    /// Whether an absence may be missing.
    torn: bool,
}

/// The tracks of all threads.
#[derive(Debug, Default)]
pub struct Tracks {
    threads: FxHashMap<Tid, Track>,
    /// Absences kept, over all threads.
    kept: usize,
}

impl Tracks {
    /// A thread comes back to a CPU after an absence.
    pub fn back(&mut self, tid: Tid, away: &Away, takers: &[Taken]) {
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&tid) {
            self.threads.clear();
            self.kept = 0;
        }
        if away.from_ns.is_none() {
            // Everything known so far belongs to another thread that had the same id.
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

    /// Ends a thread's work and returns its absences since `since_ns`, the beginning of the work;
    /// `None` if the beginning is unknown or an absence may be missing. A thread without any report
    /// was on a CPU all the time.
    pub fn end(&mut self, tid: Tid, since_ns: Option<u64>, now_ns: u64) -> Option<Box<Work>> {
        let track = self.threads.get_mut(&tid);
        let track = track.map_or_else(Track::default, |track| {
            // An arrival may be reported late, when later absences are already known: they belong
            // to the next work.
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

    /// Forgets a thread's absences so far: its work begins now, or the thread has ended.
    pub fn forget(&mut self, tid: Tid) {
        if let Some(track) = self.threads.remove(&tid) {
            self.kept -= track.spans.len();
        }
    }
}

/// Sums of [`Work`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Intervals of work with known absences.
    pub known: u64,
    /// Intervals of work with unknown absences.
    pub unknown: u64,
    /// Time asleep, ns.
    pub asleep: ByReason,
    /// Time ready without a CPU, ns.
    pub ready_ns: u64,
    /// Threads that ran while the threads were ready.
    pub takers: Takers,
}

impl Sum {
    /// Adds one interval of work; `None` if its absences are unknown.
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

/// Absences of the stragglers at a site compared with those of the others, as in [`super::late`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Late {
    /// Episodes in the sums.
    pub episodes: u64,
    /// Time asleep of the stragglers, ns.
    pub last: ByReason,
    /// Time asleep of all others, as the mean of each episode, summed, ns.
    pub others: [f64; Reason::ALL.len()],
    /// Threads that ran while the straggler was ready.
    pub takers: Takers,
}

impl Late {
    /// Adds one episode; `last`, the straggler's work, is one of `all`.
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
