//! All sites, and the phases between them: where episodes are added up.

use rustc_hash::FxHashMap;

use super::{
    busy::{Busy, Share},
    counts::Sums,
    ids::{PlaceId, SiteId, ThreadId},
    parts::{Done, Part},
    site::{Roles, Site},
    stats::Stat,
    trend,
};
use crate::event::{Count, Kind};

/// Phases kept apart; more are counted at their sites only.
pub const MAX_PHASES: usize = 16384;

/// Sites kept apart; what comes from more is filed under the last.
pub const MAX_SITES: usize = 4096;

/// All sites and phases.
#[derive(Debug, Default)]
pub struct Sites {
    by_places: FxHashMap<Box<[PlaceId]>, SiteId>,
    all: Vec<Site>,
    /// What is wanted at places, where anything is.
    roles: FxHashMap<PlaceId, Roles>,
    /// Pairs of site and thread that are kept, and likewise of a barrier and
    /// who came last there.
    pairs: usize,
    at_barriers: usize,
    /// The row that several threads share, if one is.
    pub shared: Option<ThreadId>,
    /// Parts of episodes whose thread is not kept at its site.
    pub unkept_parts: u64,
    /// Phases by their (site before, site after).
    pub phases: FxHashMap<(Option<SiteId>, SiteId), Phase>,
    /// How often a phase had to be left out of them.
    pub unkept_phases: u64,
}

/// What the threads do between two consecutive episodes.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// Wall-clock time.
    pub phase: Stat,
    /// Work of each thread in it.
    pub work: Stat,
    /// Time by the number of busy threads.
    pub busy: Busy,
    /// Intervals of work of a thread, with those of which the time is not known.
    pub intervals: u64,
    /// What counters said of them.
    pub counts: Sums,
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

    /// Says what is wanted at a place; to be said before it is first used.
    pub fn assign(&mut self, place: PlaceId, roles: Roles) {
        if roles != Roles::default() {
            self.roles.insert(place, roles);
        }
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
        let roles = places
            .iter()
            .filter_map(|place| self.roles.get(place))
            .fold(Roles::default(), |all, roles| all.and(*roles));
        let places: Box<[PlaceId]> = places.into();
        self.all.push(Site::new(places.clone(), kind, roles));
        let id = number(self.all.len());
        self.by_places.insert(places, id);
        id
    }

    /// The site of these places, or if there is none one that has them all.
    pub fn known(&self, places: &[PlaceId]) -> Option<SiteId> {
        if places.is_empty() {
            return None;
        }
        let has_all = |site: &Site| places.iter().all(|place| site.places.contains(place));
        self.by_places.get(places).copied().or_else(|| {
            let found = self.all.iter().position(has_all)?;
            u32::try_from(found).ok().map(SiteId)
        })
    }

    /// All sums from zero on. The sites stay, with the numbers that they have.
    pub fn reset(&mut self) {
        for site in &mut self.all {
            let places = std::mem::take(&mut site.places);
            *site = Site::new(places, site.kind, site.roles);
        }
        self.pairs = 0;
        self.at_barriers = 0;
        self.unkept_parts = 0;
        self.phases.clear();
        self.unkept_phases = 0;
    }

    /// Takes one complete episode in. `barrier`: the number of the barrier.
    pub fn record(&mut self, id: SiteId, barrier: u64, done: &Done, parts: &[Part]) {
        let site = &mut self.all[id.index()];
        site.episodes += 1;
        site.participants += parts.len() as u64;
        site.barrier.add(done.barrier_ns());
        for part in parts {
            site.idle.add(part.idle_ns);
            site.release.add_known(part.release_ns);
            site.waits.add(part.wait);
            site.work.add_known(part.work_ns);
            let Some(thread) = site.thread(part.row, &mut self.pairs) else {
                self.unkept_parts += 1;
                continue;
            };
            thread.episodes += 1;
            thread.work.add_known(part.work_ns);
            thread.idle.add(part.idle_ns);
            thread.release.add_known(part.release_ns);
            thread.waits.add(part.wait);
            thread.split.add(part.split);
            let is_last = done.straggler.is_some_and(|(last, _)| last == part.row);
            if std::mem::replace(&mut thread.was_last, is_last) {
                site.ledger.repeats += u64::from(is_last);
                site.ledger.changes += u64::from(!is_last);
            }
        }
        site.note_balance(parts);
        site.late.add(done, parts);
        site.note_barrier(barrier, done, parts, &mut self.at_barriers);
        if let Some((straggler, lead_ns)) = done.straggler {
            if Some(straggler) == self.shared {
                site.ledger.note_unknown(lead_ns);
            } else {
                site.ledger.note(straggler, lead_ns);
            }
            let part = parts.iter().find(|part| part.row == straggler);
            let work_ns = part.and_then(|part| part.work_ns);
            let release_ns = parts.iter().filter_map(|part| part.release_ns).max();
            site.gains.add(work_ns, lead_ns, release_ns);
            if let Some(thread) = site.thread(straggler, &mut self.pairs) {
                thread.last += 1;
                thread.path_ns = thread.path_ns.saturating_add(work_ns.unwrap_or(0));
            }
        }
        if let Some(alone) = &done.alone {
            let (alone_ns, waited_ns) = &mut site.alone_ns;
            *alone_ns = alone_ns.saturating_add(alone.ns());
            *waited_ns = waited_ns.saturating_add(alone.waited_ns);
            site.gains.path_ns = site.gains.path_ns.saturating_add(alone.ns());
            if let Some(thread) = site.thread(alone.row, &mut self.pairs) {
                thread.alone_ns = thread.alone_ns.saturating_add(alone.ns());
                thread.path_ns = thread.path_ns.saturating_add(alone.ns());
            }
        }
        let phase_ns = done.phase.map(|(_, phase_ns)| phase_ns);
        site.trend.add(&trend::Bucket {
            episodes: 1,
            last_ns: done.last_ns,
            phases: phase_ns.map_or((0, 0), |phase_ns| (1, phase_ns)),
            barrier_ns: done.barrier_ns(),
            idle_ns: parts
                .iter()
                .fold(0, |sum: u64, part| sum.saturating_add(part.idle_ns)),
            busy_ns: (0, 0),
        });
        if let Some((before, phase_ns)) = done.phase {
            site.phase.add(phase_ns);
            self.record_phase((before, id), phase_ns, parts);
        }
    }

    /// Takes in how many threads were busy before the episode that was recorded last.
    pub fn record_busy(&mut self, id: SiteId, done: &Done, busy: &Busy, shares: &[Share]) {
        let site = &mut self.all[id.index()];
        site.busy.merge(busy);
        site.trend.note_busy(busy);
        for share in shares {
            if share.is_alone || done.straggler.is_some_and(|(last, _)| last == share.row) {
                site.gains.weighted_ns += share.weighted_ns;
            }
            if let Some(thread) = site.thread(share.row, &mut self.pairs) {
                thread.normalised_ns += share.normalised_ns;
            }
        }
        let phase = done.phase.map(|(before, _)| (before, id));
        if let Some(phase) = phase.and_then(|phase| self.phases.get_mut(&phase)) {
            phase.busy.merge(busy);
        }
    }

    /// Takes in what counters said of a thread's work in an episode that was
    /// recorded. `before`: the site before, if the phase is known.
    pub fn count(
        &mut self,
        id: SiteId,
        before: Option<Option<SiteId>>,
        thread: ThreadId,
        counts: &[Option<Count>],
    ) {
        let site = &mut self.all[id.index()];
        site.counts.add(counts);
        if let Some(thread) = site.thread(thread, &mut self.pairs) {
            thread.counts.add(counts);
        }
        let phase = before.and_then(|before| self.phases.get_mut(&(before, id)));
        if let Some(phase) = phase {
            phase.counts.add(counts);
        }
    }

    fn record_phase(&mut self, key: (Option<SiteId>, SiteId), phase_ns: u64, parts: &[Part]) {
        if self.phases.len() >= MAX_PHASES && !self.phases.contains_key(&key) {
            self.unkept_phases += 1;
            return;
        }
        let phase = self.phases.entry(key).or_default();
        phase.phase.add(phase_ns);
        phase.intervals += parts.len() as u64;
        for part in parts {
            phase.work.add_known(part.work_ns);
        }
    }
}
