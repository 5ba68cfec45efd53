//! Sites: from where barriers are called, with what happened there.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::{
    barrier::BarrierId,
    stats::{KnownSum, Stat},
    thread::{Split, SplitSum, ThreadId},
};
use crate::event::Kind;

/// One place in the program that calls a barrier: a source line with its chain
/// of callers, however many addresses the compiler has made of it. Numbered by
/// whoever resolves addresses; the model only compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceId(pub u32);

/// A site: the set of places from which the threads of an episode called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(pub u32);

impl SiteId {
    /// Its place in the table of sites.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Sites kept apart; what comes from more is filed under the last.
pub const MAX_SITES: usize = 4096;

/// Phases kept apart; more are counted at their sites only.
pub const MAX_PHASES: usize = 16384;

/// How many barriers a site names; it may have been used with more.
const MAX_NAMED_BARRIERS: usize = 64;

/// What one thread did at one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteThread {
    /// Complete episodes.
    pub episodes: u64,
    /// How often it came last.
    pub last: u64,
    /// Work in the phases that ended here.
    pub work: KnownSum,
    /// Waiting for others.
    pub idle_ns: u64,
    /// From the last arrival to its departure.
    pub release: KnownSum,
    /// How `work` splits up.
    pub split: SplitSum,
}

/// Everything about one site.
#[derive(Clone, Debug)]
pub struct Site {
    /// The places, sorted.
    pub places: Box<[PlaceId]>,
    /// How its barriers were recognised.
    pub kind: Kind,
    /// Barriers used from here, as far as they are named.
    pub barriers: BTreeSet<BarrierId>,
    /// Complete episodes.
    pub episodes: u64,
    /// Others.
    pub incomplete: u64,
    /// From the end of the episode before to the last arrival, where that end
    /// is known.
    pub phase: Stat,
    /// From first to last arrival, L - F.
    pub barrier: Stat,
    /// Waiting for others, of each thread in each episode; its sum is `lost`.
    pub idle: Stat,
    /// From the last arrival to the departure, likewise.
    pub release: Stat,
    /// Work of each thread in each episode.
    pub work: Stat,
    /// By how much the longest work exceeded the mean, summed over the
    /// episodes in which all of it is known: wall time to be gained by balance.
    pub gain_ns: f64,
    /// Sum of the longest works of the same episodes.
    pub longest_ns: u64,
    /// Of those with more than one participant: sum of (max - mean) n / (n - 1),
    /// and of max, ns.
    uneven: (f64, f64),
    /// Sum of leads a_(n) - a_(n-1).
    pub lead_ns: u64,
    /// Participants, summed over episodes.
    pub participants: u64,
    /// Per thread, by [`ThreadId`]; shorter than the table of threads.
    pub threads: Vec<SiteThread>,
    run: (ThreadId, u64),
    /// The longest run of episodes with the same straggler.
    pub longest_run: u64,
}

impl Site {
    fn new(places: Box<[PlaceId]>, kind: Kind) -> Self {
        Self {
            places,
            kind,
            barriers: BTreeSet::new(),
            episodes: 0,
            incomplete: 0,
            phase: Stat::default(),
            barrier: Stat::default(),
            idle: Stat::default(),
            release: Stat::default(),
            work: Stat::default(),
            gain_ns: 0.0,
            longest_ns: 0,
            uneven: (0.0, 0.0),
            lead_ns: 0,
            participants: 0,
            threads: Vec::new(),
            run: (ThreadId(u32::MAX), 0),
            longest_run: 0,
        }
    }

    /// What a thread did here.
    pub fn thread(&mut self, id: ThreadId) -> &mut SiteThread {
        if self.threads.len() <= id.index() {
            self.threads.resize(id.index() + 1, SiteThread::default());
        }
        &mut self.threads[id.index()]
    }

    /// Notes a barrier that is used from here.
    pub fn name_barrier(&mut self, id: BarrierId) {
        if self.barriers.len() < MAX_NAMED_BARRIERS {
            self.barriers.insert(id);
        }
    }

    /// Notes who came last, and by how much, ns.
    pub fn note_straggler(&mut self, id: ThreadId, lead_ns: u64) {
        self.thread(id).last += 1;
        self.lead_ns = self.lead_ns.saturating_add(lead_ns);
        self.run = if self.run.0 == id {
            (id, self.run.1 + 1)
        } else {
            (id, 1)
        };
        self.longest_run = self.longest_run.max(self.run.1);
    }

    /// Notes how even the work was, if all of it is known.
    fn note_balance(&mut self, parts: &[Part]) {
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

    /// (max - mean) / max × n / (n - 1) × 100 of the work, weighted by its
    /// length: 0 = even, 100 = one thread does it all. `None` if unknown.
    pub fn imbalance_pct(&self) -> Option<f64> {
        let (uneven, longest) = self.uneven;
        (longest > 0.0).then(|| uneven / longest * 100.0)
    }
}

/// One thread's part in one episode.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The thread.
    pub row: ThreadId,
    /// `a_i - start_i`, if the start is known.
    pub work_ns: Option<u64>,
    /// `L - a_i`.
    pub idle_ns: u64,
    /// `d_i - L`, if the departure was seen.
    pub release_ns: Option<u64>,
    /// How the work splits up.
    pub split: Split,
}

/// All sites and phases.
#[derive(Debug, Default)]
pub struct Sites {
    by_places: FxHashMap<Box<[PlaceId]>, SiteId>,
    all: Vec<Site>,
    /// Phases by their (site before, site after).
    pub phases: FxHashMap<(Option<SiteId>, SiteId), Phase>,
    /// How often a phase had to be left out of them.
    pub unkept_phases: u64,
}

/// What the threads do between two consecutive episodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Phase {
    /// Wall-clock time.
    pub phase: Stat,
    /// Work of each thread in it.
    pub work: Stat,
}

impl Sites {
    /// All sites, by [`SiteId`].
    pub fn all(&self) -> &[Site] {
        &self.all
    }

    /// One of them.
    pub fn get(&mut self, id: SiteId) -> &mut Site {
        &mut self.all[id.index()]
    }

    /// The site of a set of places; they come sorted and without repetition.
    pub fn of(&mut self, places: &[PlaceId], kind: Kind) -> SiteId {
        if let Some(id) = self.by_places.get(places) {
            return *id;
        }
        let number = |length: usize| SiteId(u32::try_from(length - 1).unwrap_or(u32::MAX));
        if self.all.len() >= MAX_SITES {
            return number(self.all.len());
        }
        let places: Box<[PlaceId]> = places.into();
        self.all.push(Site::new(places.clone(), kind));
        let id = number(self.all.len());
        self.by_places.insert(places, id);
        id
    }

    /// Takes one complete episode in: where and when its phase began, if that
    /// is known, how long its barrier took (ns), and what each thread did.
    pub fn record(
        &mut self,
        id: SiteId,
        phase: Option<(Option<SiteId>, u64)>,
        barrier_ns: u64,
        parts: &[Part],
    ) {
        let site = &mut self.all[id.index()];
        site.episodes += 1;
        site.participants += parts.len() as u64;
        site.barrier.add(barrier_ns);
        for part in parts {
            site.idle.add(part.idle_ns);
            if let Some(release) = part.release_ns {
                site.release.add(release);
            }
            if let Some(work) = part.work_ns {
                site.work.add(work);
            }
            let thread = site.thread(part.row);
            thread.episodes += 1;
            thread.work.add(part.work_ns);
            thread.idle_ns = thread.idle_ns.saturating_add(part.idle_ns);
            thread.release.add(part.release_ns);
            thread.split.add(part.split);
        }
        site.note_balance(parts);
        if let Some((before, phase_ns)) = phase {
            site.phase.add(phase_ns);
            self.record_phase((before, id), phase_ns, parts);
        }
    }

    fn record_phase(&mut self, key: (Option<SiteId>, SiteId), phase_ns: u64, parts: &[Part]) {
        if self.phases.len() >= MAX_PHASES && !self.phases.contains_key(&key) {
            self.unkept_phases += 1;
            return;
        }
        let phase = self.phases.entry(key).or_default();
        phase.phase.add(phase_ns);
        for part in parts {
            if let Some(work) = part.work_ns {
                phase.work.add(work);
            }
        }
    }
}
