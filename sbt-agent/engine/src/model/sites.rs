//! All sites and the phases between them: adds up the episodes.

use rustc_hash::FxHashMap;

use super::{
    busy::{Busy, Share},
    counts::Sums,
    ids::{PlaceId, SiteId, ThreadId},
    parts::{Done, EpisodePart},
    site::{Roles, Site},
    stats::Stat,
    trend,
};
use crate::event::{Count, Kind};

/// Phases that are kept, at most; later ones are counted at their sites only.
pub const MAX_PHASES: usize = 16384;

/// Sites that are kept, at most; episodes at later sites are counted at the last site.
pub const MAX_SITES: usize = 4096;

/// All sites and phases.
#[derive(Debug, Default)]
pub struct Sites {
    by_places: FxHashMap<Box<[PlaceId]>, SiteId>,
    all: Vec<Site>,
    /// Roles of places; places without any role are absent.
    roles: FxHashMap<PlaceId, Roles>,
    /// Kept pairs of a site and a thread, and (`at_barriers`) of a barrier and a straggler.
    pairs: usize,
    at_barriers: usize,
    /// The row that several threads share, if there is one.
    pub shared: Option<ThreadId>,
    /// Parts of episodes whose pair of site and thread is not kept.
    pub unkept_parts: u64,
    /// Phases by (site before, site after); the site before is `None` at the start.
    pub phases: FxHashMap<(Option<SiteId>, SiteId), Phase>,
    /// Phases that were not kept in `phases`.
    pub unkept_phases: u64,
}

/// The time between two consecutive episodes.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// Wall-clock times, ns.
    pub phase: Stat,
    /// The part of them from the first arrival at the barrier to the last, ns.
    pub barrier_ns: u64,
    /// Work of each thread, ns.
    pub work: Stat,
    /// Time by the number of busy threads.
    pub busy: Busy,
    /// Intervals of work of a thread, including those of unknown length.
    pub intervals: u64,
    /// Counter values for the work.
    pub counts: Sums,
}

impl Sites {
    /// All sites, by [`SiteId`].
    pub fn all(&self) -> &[Site] {
        &self.all
    }

    /// The site with this id.
    pub fn get(&mut self, id: SiteId) -> &mut Site {
        &mut self.all[id.index()]
    }

    /// Sets the roles of a place. Must be called before the first episode there.
    pub fn assign(&mut self, place: PlaceId, roles: Roles) {
        if roles != Roles::default() {
            self.roles.insert(place, roles);
        }
    }

    /// The site of a set of places, with a new entry if needed. `places` must be sorted and without
    /// duplicates.
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

    /// The site with exactly these places, otherwise the first site that contains them all.
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

    /// Resets all totals. The sites keep their ids.
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

    /// Adds a complete episode. `barrier`: the number of the barrier.
    pub fn record(&mut self, id: SiteId, barrier: u64, done: &Done, parts: &[EpisodePart]) {
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
        site.note_late(done, parts, &mut self.pairs);
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
                thread.kept_ns = parts
                    .iter()
                    .fold(thread.kept_ns, |sum, part| sum.saturating_add(part.idle_ns));
                thread.path_ns = thread.path_ns.saturating_add(work_ns.unwrap_or(0));
            }
        }
        if let Some(alone) = &done.alone {
            let (alone_ns, waited_ns) = &mut site.alone_ns;
            *alone_ns = alone_ns.saturating_add(alone.ns());
            *waited_ns = waited_ns.saturating_add(alone.waited_ns);
            site.alone_split.add(alone.split);
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
            self.record_phase((before, id), (phase_ns, done.barrier_ns()), parts);
        }
    }

    /// Adds how many threads were busy before the episode that was recorded last.
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

    /// Adds the counter values of a thread's work in a recorded episode. `before`: the site before,
    /// if the phase is known.
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

    fn record_phase(
        &mut self,
        key: (Option<SiteId>, SiteId),
        (phase_ns, barrier_ns): (u64, u64),
        parts: &[EpisodePart],
    ) {
        if self.phases.len() >= MAX_PHASES && !self.phases.contains_key(&key) {
            self.unkept_phases += 1;
            return;
        }
        let phase = self.phases.entry(key).or_default();
        phase.phase.add(phase_ns);
        phase.barrier_ns = phase.barrier_ns.saturating_add(barrier_ns.min(phase_ns));
        phase.intervals += parts.len() as u64;
        for part in parts {
            phase.work.add_known(part.work_ns);
        }
    }
}
