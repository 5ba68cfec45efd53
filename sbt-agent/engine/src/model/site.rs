//! A site: a set of places from which barriers are called, and what happened there.

use serde::{Deserialize, Serialize};

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::{
    away,
    busy::Busy,
    counts::Sums,
    gains::Gains,
    ids::{BarrierId, PlaceId, ThreadId},
    late::Late,
    parts::{Done, EpisodePart, SplitSum},
    related::AllRelated,
    stats::Stat,
    straggler::{Ledger, Pattern, Sequence},
    trend::Trend,
    waits::Waits,
};
use crate::event::Kind;

/// Barriers listed for each site; the site may have used more.
const MAX_NAMED_BARRIERS: usize = 64;

/// Pairs of a site and a thread that are kept, over all sites: this bounds the memory. Later pairs
/// enter the sums of the site only.
pub const MAX_PAIRS: usize = 1 << 18;

/// The user's wishes for the episodes at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roles {
    /// Report every episode: see [`super::Model::take_told`].
    pub watched: bool,
    /// Conceptual phases that begin here, one bit for each.
    pub begins: u64,
    /// Conceptual phases that end here, one bit for each.
    pub ends: u64,
}

impl Roles {
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            watched: self.watched || other.watched,
            begins: self.begins | other.begins,
            ends: self.ends | other.ends,
        }
    }
}

/// The sums of one thread at one site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteThread {
    /// The thread.
    pub id: ThreadId,
    /// Complete episodes.
    pub episodes: u64,
    /// Episodes in which the thread came last.
    pub last: u64,
    /// Whether the thread came last in its latest episode here.
    pub(super) was_last: bool,
    /// Work in the phases that ended here, where its beginning was seen.
    pub work: Stat,
    /// Time waiting for others.
    pub idle: Stat,
    /// From the last arrival to the thread's departure, where that was seen.
    pub release: Stat,
    /// How the thread waited in the barrier, where its departure was seen.
    pub waits: Waits,
    /// The split of `work` into running, ready and blocked time.
    pub split: SplitSum,
    /// Normalised processor time, ns: see [`super::busy`].
    pub normalised_ns: f64,
    /// Work in the episodes in which the thread came last, ns.
    pub path_ns: u64,
    /// Work done alone before the parallel regions that end or go on here, ns.
    pub alone_ns: u64,
    /// Time for which the other threads waited in the episodes in which the thread came last, ns.
    pub kept_ns: u64,
    /// The thread's part in the episodes of [`Site::late`].
    pub later: Later,
    /// Counter values for the work.
    pub counts: Sums,
}

/// Work of one thread in the episodes of [`Site::late`]: those that followed another episode and in
/// which all work is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Later {
    /// Number of these episodes.
    pub episodes: u64,
    /// The sum of the work, ns.
    pub work_ns: u64,
    /// The split of the work into running, ready and blocked time.
    pub split: SplitSum,
}

impl Later {
    fn add(&mut self, part: &EpisodePart) {
        self.episodes += 1;
        self.work_ns = self.work_ns.saturating_add(part.work_ns.unwrap_or(0));
        self.split.add(part.split);
    }
}

/// The threads that came last at one of a site's barriers.
#[derive(Clone, Debug, Default)]
pub struct AtBarrier {
    /// Complete episodes.
    pub episodes: u64,
    /// Participants, summed over the episodes.
    pub participants: u64,
    /// Time waiting for others, summed over the participants, ns.
    pub lost_ns: u64,
    /// Episodes in which each thread came last; a thread that never came last is absent.
    pub lasts: FxHashMap<ThreadId, u64>,
}

/// Everything about one site.
#[derive(Clone, Debug)]
pub struct Site {
    /// The places, sorted.
    pub places: Box<[PlaceId]>,
    /// How the barriers were recognised.
    pub kind: Kind,
    /// The first [`MAX_NAMED_BARRIERS`] barriers used from here.
    pub barriers: BTreeSet<BarrierId>,
    /// Complete episodes.
    pub episodes: u64,
    /// Complete episodes whose threads told when they began to wait: see [`super::apart`].
    pub told: u64,
    /// Incomplete episodes.
    pub incomplete: u64,
    /// From the end of the previous episode to the last arrival, where that end is known.
    pub phase: Stat,
    /// From the first to the last arrival, L - F.
    pub barrier: Stat,
    /// Time waiting for others, of each thread in each episode; its sum is `lost`.
    pub idle: Stat,
    /// From the last arrival to the departure of each thread, where it was seen.
    pub release: Stat,
    /// How threads waited in the barrier, where their departure was seen.
    pub waits: Waits,
    /// Work of each thread in each episode.
    pub work: Stat,
    /// Counter values for the work.
    pub counts: Sums,
    /// By how much the longest work exceeded the mean, summed over the episodes in which all work
    /// is known: the wall time that perfect balance would save.
    pub gain_ns: f64,
    /// Sum of the longest works of the same episodes, ns.
    pub longest_ns: u64,
    /// Over the same episodes with more than one participant: the sum of (max - mean) n / (n - 1),
    /// and the sum of max, ns.
    uneven: (f64, f64),
    /// The straggler's path, and what a faster straggler would gain.
    pub gains: Gains,
    /// Work of one thread alone while others were kept waiting for a parallel region to begin, ns;
    /// and the waiting time of those others, summed over them, ns.
    pub alone_ns: (u64, u64),
    /// How that time alone splits up.
    pub alone_split: SplitSum,
    /// Time by the number of busy threads, over the members of the episodes.
    pub busy: Busy,
    /// The stragglers, in order.
    pub ledger: Ledger,
    /// The work of the stragglers, compared with the others.
    pub late: Late,
    /// The time of the stragglers off their CPUs, compared with the others; empty unless switches
    /// are watched.
    pub late_away: away::Late,
    /// How counters go with lateness.
    pub related: AllRelated,
    /// The stragglers at each barrier, since each barrier may have its own. By
    /// [`super::barrier::Barrier::number`], for the first [`MAX_NAMED_BARRIERS`].
    pub by_barrier: FxHashMap<u64, AtBarrier>,
    /// Participants, summed over the episodes.
    pub participants: u64,
    /// How the figures changed over the run.
    pub trend: Trend,
    /// The user's wishes for the episodes.
    pub roles: Roles,
    /// The sums of each thread, in the order of the threads' first episodes here.
    pub threads: Vec<SiteThread>,
    /// Index into `threads` by [`ThreadId`]; [`ABSENT`] if the thread is not in it.
    index: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;

impl Site {
    pub(super) fn new(places: Box<[PlaceId]>, kind: Kind, roles: Roles) -> Self {
        Self {
            places,
            kind,
            barriers: BTreeSet::new(),
            episodes: 0,
            told: 0,
            incomplete: 0,
            phase: Stat::default(),
            barrier: Stat::default(),
            idle: Stat::default(),
            release: Stat::default(),
            waits: Waits::default(),
            work: Stat::default(),
            counts: Sums::default(),
            gain_ns: 0.0,
            longest_ns: 0,
            uneven: (0.0, 0.0),
            gains: Gains::default(),
            alone_ns: (0, 0),
            alone_split: SplitSum::default(),
            busy: Busy::default(),
            ledger: Ledger::default(),
            late: Late::default(),
            late_away: away::Late::default(),
            related: AllRelated::default(),
            by_barrier: FxHashMap::default(),
            participants: 0,
            trend: Trend::default(),
            roles,
            threads: Vec::new(),
            index: Vec::new(),
        }
    }

    /// The entry of a thread at this site, made if needed. `pairs`: pairs kept so far; `None` if
    /// there is no room for another.
    pub(super) fn thread(&mut self, id: ThreadId, pairs: &mut usize) -> Option<&mut SiteThread> {
        if self.index.len() <= id.index() {
            self.index.resize(id.index() + 1, ABSENT);
        }
        let slot = &mut self.index[id.index()];
        if *slot == ABSENT {
            if *pairs >= MAX_PAIRS {
                return None;
            }
            *pairs += 1;
            *slot = u32::try_from(self.threads.len()).unwrap_or(ABSENT);
            let id = SiteThread {
                id,
                ..SiteThread::default()
            };
            self.threads.push(id);
        }
        self.threads.get_mut(*slot as usize)
    }

    /// How the stragglers follow each other. `shared`: the row that stands for several threads, if
    /// any.
    pub fn sequence(&self, shared: Option<ThreadId>) -> Sequence {
        let is_unknown = |thread: &SiteThread| Some(thread.id) == shared && thread.last > 0;
        if self.threads.iter().any(is_unknown) {
            return Sequence::None;
        }
        let threads = self.threads.iter();
        Sequence::of(
            threads.map(|thread| (thread.episodes, thread.last)),
            &self.ledger,
        )
    }

    /// Whether the same threads come last again and again. `shared`: the row that stands for
    /// several threads, if any.
    ///
    /// If the site uses several barriers, each may have a straggler of its own. If most episodes
    /// were at barriers that show one and the same pattern, the site has this pattern.
    pub fn pattern(&self, shared: Option<ThreadId>) -> Pattern {
        if self.by_barrier.len() > 1 {
            let patterns = self.by_barrier.values();
            let patterns = patterns.map(|at| (self.pattern_at(at, shared), at.episodes));
            let known: Vec<_> = patterns
                .filter(|(pattern, _)| *pattern != Pattern::None)
                .collect();
            let episodes: u64 = known.iter().map(|(_, episodes)| episodes).sum();
            let first = known.first().map(|(pattern, _)| *pattern);
            let agreed = first.filter(|first| known.iter().all(|(pattern, _)| pattern == first));
            if let Some(pattern) = agreed.filter(|_| 2 * episodes > self.episodes) {
                return pattern;
            }
        }
        let lasts = self.threads.iter().map(|thread| (thread.id, thread.last));
        self.pattern_of(lasts, self.sequence(shared), shared)
    }

    /// The pattern at one of the site's barriers.
    pub fn pattern_at(&self, at: &AtBarrier, shared: Option<ThreadId>) -> Pattern {
        // Threads that never came last took part as well.
        let members = at.participants.checked_div(at.episodes).unwrap_or(0);
        let members = usize::try_from(members).unwrap_or(usize::MAX);
        let others = members.saturating_sub(at.lasts.len());
        let others = std::iter::repeat_n((ThreadId(u32::MAX), 0), others);
        let lasts = at.lasts.iter().map(|(thread, last)| (*thread, *last));
        self.pattern_of(lasts.chain(others), Sequence::None, shared)
    }

    fn pattern_of(
        &self,
        lasts: impl Iterator<Item = (ThreadId, u64)>,
        sequence: Sequence,
        shared: Option<ThreadId>,
    ) -> Pattern {
        let (idle, work) = (self.idle.sum() as f64, self.work.sum() as f64);
        // Without any known work, all known time is waiting.
        let waiting = if idle > 0.0 {
            idle / (idle + work)
        } else {
            0.0
        };
        let (mut all, mut most, mut unknown) = (Vec::new(), 0, 0);
        for (thread, last) in lasts {
            all.push(last);
            if Some(thread) == shared {
                unknown = last;
            } else {
                most = last.max(most);
            }
        }
        match Pattern::of(&all, sequence, waiting) {
            // The straggler may be one thread of the shared row, or each of them in turn.
            Pattern::Persistent if unknown > most => Pattern::None,
            Pattern::Alternating | Pattern::Rotating if unknown * 5 > all.iter().sum::<u64>() => {
                Pattern::None
            }
            pattern => pattern,
        }
    }

    /// Records the straggler of an episode at the barrier with this number.
    pub(super) fn note_barrier(
        &mut self,
        barrier: u64,
        done: &Done,
        parts: &[EpisodePart],
        pairs: &mut usize,
    ) {
        let full = self.by_barrier.len() >= MAX_NAMED_BARRIERS || *pairs >= MAX_PAIRS;
        if full && !self.by_barrier.contains_key(&barrier) {
            return;
        }
        let at = self.by_barrier.entry(barrier).or_default();
        at.episodes += 1;
        at.participants += parts.len() as u64;
        for part in parts {
            at.lost_ns = at.lost_ns.saturating_add(part.idle_ns);
        }
        if let Some((straggler, _)) = done.straggler {
            if let Some(last) = at.lasts.get_mut(&straggler) {
                *last += 1;
            } else if *pairs < MAX_PAIRS {
                *pairs += 1;
                at.lasts.insert(straggler, 1);
            }
        }
    }

    /// Adds a barrier that is used from here.
    pub fn name_barrier(&mut self, id: BarrierId) {
        if self.barriers.len() < MAX_NAMED_BARRIERS {
            self.barriers.insert(id);
        }
    }

    /// Compares the last thread with the others.
    pub(super) fn note_late(&mut self, done: &Done, parts: &[EpisodePart], pairs: &mut usize) {
        if self.late.add(done, parts) {
            for part in parts {
                if let Some(thread) = self.thread(part.row, pairs) {
                    thread.later.add(part);
                }
            }
        }
    }

    /// Records how evenly the work was spread, if all of it is known.
    pub(super) fn note_balance(&mut self, parts: &[EpisodePart]) {
        let (mut longest, mut sum) = (0, 0.0);
        for part in parts {
            let Some(work) = part.work_ns else {
                return;
            };
            longest = work.max(longest);
            sum += work as f64;
        }
        let n = parts.len() as f64;
        let gain = longest as f64 - sum / n;
        self.longest_ns = self.longest_ns.saturating_add(longest);
        self.gain_ns += gain;
        if parts.len() > 1 {
            self.uneven.0 += gain * n / (n - 1.0);
            self.uneven.1 += longest as f64;
        }
    }

    /// Imbalance of the work, 0 (even) to 100 (one thread does it all): (max - mean) / max × n / (n
    /// - 1) × 100, weighted by its length. `None` if unknown.
    pub fn imbalance_pct(&self) -> Option<f64> {
        let (uneven, longest) = self.uneven;
        (longest > 0.0).then(|| uneven / longest * 100.0)
    }
}
