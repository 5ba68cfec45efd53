//! Ends episodes: a complete episode enters the sums, an incomplete one is only counted.

use std::borrow::Cow;

use super::{
    Model,
    apart::Apart,
    away::Work,
    barrier::{Barrier, round_after},
    efficiency::Usage,
    episode::{Episode, Left, Member, Seat},
    ids::{BarrierId, SiteId, ThreadId},
    lanes::Doing,
    parts::{Alone, Before, Done, EpisodePart, Since, Split, Wait},
    related, sampled,
    told::{Arrival, ToldEpisode},
    virtual_time,
};
use crate::event::{Clocks, Kind};

/// Emptied lists of members kept for reuse, at most.
const MAX_SPARE: usize = 64;

impl Model {
    /// Ends the open episode: all threads have arrived, as far as is known.
    pub(super) fn end(&mut self, id: BarrierId) {
        let barrier = self.barriers.get(id);
        // The size of this MPI communicator could not be read, so the rank is one of an unknown
        // number.
        let is_part = barrier.kind == Kind::Mpi && barrier.count.is_none();
        if barrier.open.doubtful || is_part {
            self.close_open(id);
        } else {
            self.fill(id);
        }
    }

    /// Whether departures from a barrier are reported.
    pub(super) fn departs(&mut self, id: BarrierId) -> bool {
        match self.barriers.get(id).kind {
            Kind::Pthread | Kind::Gomp | Kind::Kmp | Kind::Rust => self.departures,
            // The end of a function that is probed as a whole is always seen.
            Kind::User | Kind::Spin | Kind::Mpi => true,
            // Threads may be cancelled inside of these functions, so they get no return probe; and
            // a wait that is inlined into the program has no end of its own.
            Kind::Condvar | Kind::Futex | Kind::Std => false,
        }
    }

    /// All have arrived: L is known, and with it everything except departures.
    fn fill(&mut self, id: BarrierId) {
        let barrier = self.barriers.get(id);
        let mut episode = next_open(barrier);
        let told = barrier.apart == Apart::Told;
        if told {
            episode.end_overlaps();
        }
        let Some((_, last_ns)) = episode.span() else {
            return;
        };
        // A barrier used more than once keeps its entry for a while.
        barrier.recent = barrier.episodes > 0;
        barrier.episodes += 1;
        barrier.last_serial = episode.serial;
        barrier.last_members.clear();
        barrier
            .last_members
            .extend(episode.members.iter().map(|member| member.row));
        barrier.last_places.clear();
        barrier
            .last_places
            .extend(episode.members.iter().map(|member| member.place));
        self.begin_region(id, &mut episode);
        let site = self.site_of(id, &episode);
        let parts = episode
            .members
            .iter()
            .map(|member| virtual_time::VirtualPart {
                row: member.row,
                start_ns: member.since.and_then(|since| {
                    (since.before != Before::Unknown).then_some(since.clocks.time_ns)
                }),
                arrived_ns: member.arrived.time_ns,
                paid: member.paid,
            });
        self.compensated.close(site, parts);
        let first_end_ns = self.first_end_ns.unwrap_or(u64::MAX);
        self.first_end_ns = Some(first_end_ns.min(last_ns));
        episode.site = Some(site);
        self.sites.get(site).told += u64::from(told);
        episode.inside = self.conclude(
            &mut episode,
            Before::Episode { last_ns, site },
            Some(last_ns),
        );
        self.pass_conceptual(site, &episode, last_ns);
        if self.departs(id) && episode.inside > 0 {
            self.barriers.get(id).leaving.push(episode);
        } else {
            self.settle(id, episode);
        }
    }

    /// Adds an episode to the conceptual phases as soon as it is full, not when it is settled: by
    /// then its threads may have been in later episodes, which would be counted first.
    fn pass_conceptual(&mut self, site: SiteId, episode: &Episode, last_ns: u64) {
        if self.conceptual.all().is_empty() {
            return;
        }
        self.parts.clear();
        self.parts
            .extend(episode.members.iter().map(|member| part(member, last_ns)));
        if let Some(alone) = &episode.alone {
            self.conceptual.pass_alone(alone, &self.parts);
        }
        for member in &episode.members {
            if let Some(counts) = &member.counts {
                self.conceptual.count(member.row, counts);
            }
        }
        let roles = self.sites.get(site).roles;
        self.conceptual.pass(roles, last_ns, &self.parts);
    }

    /// Tells the members that their episode is no longer open. `was`: what the episode was;
    /// `last_ns`: L, if known. The members' work is reckoned from L until a departure gives a
    /// better time. Returns how many members have not left yet.
    fn conclude(&mut self, episode: &mut Episode, was: Before, last_ns: Option<u64>) -> usize {
        let mut inside = 0;
        let begun = episode.begun.filter(|_| episode.ends_region);
        let mut path_ns = 0;
        for member in &episode.members {
            let arrived_ns = member.arrived.time_ns;
            path_ns = path_ns.max(self.usage.work(member.chain, worked(member), arrived_ns));
        }
        for (index, member) in episode.members.iter_mut().enumerate() {
            let live = self.threads.live(member.tid);
            let live = live.filter(|live| {
                let here = |seat: Seat| seat.episode == episode.serial && seat.index == index;
                live.row == member.row && live.seat.is_some_and(here)
            });
            // The thread died while it waited, and another thread may now have its id.
            let Some(live) = live else {
                if member.left == Left::NotYet {
                    member.left = Left::Unseen;
                }
                continue;
            };
            inside += 1;
            live.regions.is_kept = begun.is_some_and(|begun| begun.index != index);
            Usage::follow(&mut live.chain, path_ns);
            live.since = last_ns.map(|time_ns| Since {
                clocks: Clocks {
                    time_ns,
                    ..member.arrived
                },
                before: was,
            });
            if let Some(seat) = &mut live.seat {
                seat.before = Some(was);
            }
        }
        inside
    }

    /// Closes the open episode as incomplete.
    pub(super) fn close_open(&mut self, id: BarrierId) {
        let barrier = self.barriers.get(id);
        if !barrier.open.members.is_empty() {
            let episode = std::mem::take(&mut barrier.open);
            self.drop_incomplete(id, episode, None);
        }
    }

    /// Counts an incomplete episode. `last_ns`: when its last thread arrived, if known.
    pub(super) fn drop_incomplete(
        &mut self,
        id: BarrierId,
        mut episode: Episode,
        last_ns: Option<u64>,
    ) {
        let site = self.site_of(id, &episode);
        self.blurred_ns = self.blurred_ns.max(Some(self.barriers.get(id).heard_ns));
        self.totals.incomplete += 1;
        self.sites.get(site).incomplete += 1;
        for member in &episode.members {
            self.conceptual.abandon(member.row);
        }
        self.conclude(&mut episode, Before::Unknown, last_ns);
        self.recycle(episode.members);
    }

    pub(super) fn settle_leaving(&mut self, id: BarrierId) {
        for episode in std::mem::take(&mut self.barriers.get(id).leaving) {
            self.settle(id, episode);
        }
    }

    /// The site of an episode: the set of places from which its members called.
    pub(super) fn site_of(&mut self, id: BarrierId, episode: &Episode) -> SiteId {
        self.set.clear();
        for member in &episode.members {
            if let Err(at) = self.set.binary_search(&member.place) {
                self.set.insert(at, member.place);
            }
        }
        let kind = self.barriers.get(id).kind;
        let site = self.sites.of(&self.set, kind);
        self.sites.get(site).name_barrier(id);
        site
    }

    /// Adds a complete episode to the sums.
    pub(super) fn settle(&mut self, id: BarrierId, episode: Episode) {
        let (Some(site), Some((first_ns, last_ns))) = (episode.site, episode.span()) else {
            return;
        };
        #[cfg(test)]
        self.log.push(episode.clone());
        self.totals.episodes += 1;
        self.parts.clear();
        self.parts
            .extend(episode.members.iter().map(|member| part(member, last_ns)));
        let phase = self
            .phase_begin(&episode)
            .map(|(before, begin_ns)| (before, last_ns.saturating_sub(begin_ns)));
        let done = Done {
            first_ns,
            last_ns,
            phase,
            straggler: straggler(&episode),
            alone: episode.alone,
        };
        self.sites.shared = self.threads.shared();
        let barrier = self.barriers.get(id).number;
        self.sites.record(site, barrier, &done, &self.parts);
        if let Some((busy, shares)) = self.sweep.run(&episode.members, episode.alone.as_ref()) {
            self.busy.merge(&busy);
            self.sites.record_busy(site, &done, &busy, shares);
            let has_gaps =
                |member: &Member| member.away.as_ref().is_none_or(|away| away.spans.is_none());
            if episode.members.iter().any(has_gaps) {
                self.exact.others += 1;
            } else {
                self.exact.episodes += 1;
            }
            for share in shares {
                let row = self.threads.row(share.row);
                row.normalised_ns += share.normalised_ns;
                if share.is_alone || done.straggler.is_some_and(|(last, _)| last == share.row) {
                    row.weighted_path_ns += share.weighted_ns;
                }
            }
        }
        self.attribute(site, &episode, &done);
        for (part, member) in self.parts.iter().zip(&episode.members) {
            let row = self.threads.row(part.row);
            if member
                .since
                .is_some_and(|since| since.before == Before::Start)
            {
                row.begin.add(part.split);
            }
            row.episodes += 1;
            row.work.add(part.work_ns);
            row.idle_ns = row.idle_ns.saturating_add(part.idle_ns);
            row.release.add(part.release_ns);
            row.waits.add(part.wait);
            row.split.add(part.split);
        }
        self.count(site, &done, &episode);
        self.note_away(site, &done, &episode);
        if let Some((straggler, _)) = done.straggler {
            let work = self.parts.iter().find(|part| part.row == straggler);
            let work_ns = work.and_then(|part| part.work_ns).unwrap_or(0);
            let row = self.threads.row(straggler);
            row.last += 1;
            row.path_ns = row.path_ns.saturating_add(work_ns);
        }
        if let Some(alone) = &episode.alone {
            let row = self.threads.row(alone.row);
            row.path_ns = row.path_ns.saturating_add(alone.ns());
        }
        self.draw(&episode, last_ns);
        let roles = self.sites.get(site).roles;
        if roles.watched || self.telling.wants(&done) {
            self.tell(site, &done, &episode);
        }
        self.recycle(episode.members);
    }

    /// Assigns the samples of the members to the work or the wait in which they were taken.
    fn attribute(&mut self, site: SiteId, episode: &Episode, done: &Done) {
        let Some(samples) = &mut self.samples else {
            return;
        };
        let members = &episode.members;
        let is_known = members.iter().all(|member| member.since.is_some());
        if let Some(alone) = episode.alone.as_ref().filter(|_| is_known) {
            let row = self.threads.row(alone.row);
            let part = sampled::SampledPart {
                thread: row.shown.0,
                work: (row.threads == 1).then_some(alone.from_ns..alone.to_ns),
                arrived_ns: alone.to_ns,
                left_ns: alone.to_ns,
                split: alone.split,
                normalised_ns: self.sweep.normalised_ns(members.len()),
                is_last: true,
                was_kept: false,
            };
            samples.settle(site, &part, members.len(), |at| self.sweep.busy_at(at));
        }
        let begun = episode.begun.map(|begun| begun.index);
        for (index, member) in members.iter().enumerate() {
            let row = self.threads.row(member.row);
            let arrived_ns = member.arrived.time_ns;
            let since = member.since.filter(|_| is_known && row.threads == 1);
            let left_ns = match member.left {
                Left::At(left) => left.time_ns.max(done.last_ns),
                Left::NotYet | Left::Unseen => done.last_ns,
            };
            let part = sampled::SampledPart {
                thread: row.shown.0,
                work: since.map(|since| since.clocks.time_ns.min(arrived_ns)..arrived_ns),
                arrived_ns,
                left_ns,
                split: worked(member).map_or_else(Split::default, |(_, split)| split),
                normalised_ns: self.sweep.normalised_ns(index),
                is_last: done.straggler.is_some_and(|(last, _)| last == member.row),
                was_kept: begun.is_some_and(|begun| begun != index),
            };
            samples.settle(site, &part, members.len(), |at| self.sweep.busy_at(at));
        }
    }

    /// Adds the counter values of the members' work to the sums.
    fn count(&mut self, site: SiteId, done: &Done, episode: &Episode) {
        let before = done.phase.map(|(before, _)| before);
        for member in &episode.members {
            if let Some(counts) = &member.counts {
                self.sites.count(site, before, member.row, counts);
                self.threads.row(member.row).counts.add(counts);
            }
        }
        // The counts of the thread that began a region include what it did alone before.
        let is_pure = done.alone.is_none_or(|alone| is_brief(&alone, done));
        let is_first = done.phase.is_none_or(|(before, _)| before.is_none());
        if is_pure && !is_first && episode.members.iter().any(|member| member.counts.is_some()) {
            let members = episode.members.iter().map(|member| related::Member {
                idle_ns: done.last_ns - member.arrived.time_ns,
                counts: member.counts.as_deref(),
            });
            let members: Vec<related::Member<'_>> = members.collect();
            self.sites.get(site).related.add(&members);
        }
    }

    /// Adds what the members did while they were on no CPU to the sums.
    fn note_away(&mut self, site: SiteId, done: &Done, episode: &Episode) {
        if self.away.is_none() {
            return;
        }
        for member in &episode.members {
            let row = self.threads.row(member.row);
            row.away.add(member.away.as_deref());
        }
        let (Some((Some(_), _)), Some((straggler, _))) = (done.phase, done.straggler) else {
            return;
        };
        // Leave out what one of the members did alone before the region.
        let alone = episode.alone.map(|alone| alone.row);
        let members = episode.members.iter();
        let all = members.map(|member| in_region(member, alone));
        let all: Option<Vec<Cow<'_, Work>>> = all.collect();
        let Some(all) = all.filter(|all| all.len() > 1) else {
            return;
        };
        let is_last =
            |member: &Member| member.row == straggler && member.arrived.time_ns == done.last_ns;
        if let Some(last) = episode.members.iter().position(is_last) {
            let late = &mut self.sites.get(site).late_away;
            late.add(&all[last], all.iter().map(Cow::as_ref));
        }
    }

    /// Adds an episode to the lanes, if lanes are kept.
    fn draw(&mut self, episode: &Episode, last_ns: u64) {
        let Some(lanes) = &mut self.lanes else {
            return;
        };
        if let Some(alone) = &episode.alone {
            let span = (alone.from_ns, alone.to_ns);
            lanes.add(alone.row, span, Doing::Work(alone.split));
        }
        for member in &episode.members {
            let arrived = member.arrived;
            if let Some(since) = member.since {
                let split = Split::between(since.clocks, arrived);
                let span = (since.clocks.time_ns, arrived.time_ns);
                lanes.add(member.row, span, Doing::Work(split));
            }
            lanes.add(member.row, (arrived.time_ns, last_ns), Doing::Idle);
            if let Left::At(left) = member.left {
                lanes.add(member.row, (last_ns, left.time_ns), Doing::Release);
            }
        }
    }

    /// Keeps an episode for [`Model::take_told`].
    fn tell(&mut self, site: SiteId, done: &Done, episode: &Episode) {
        let mut arrivals: Vec<Arrival> = episode
            .members
            .iter()
            .map(|member| {
                let part = part(member, done.last_ns);
                Arrival {
                    thread: member.row,
                    place: member.place,
                    time_ns: member.arrived.time_ns,
                    idle_ns: part.idle_ns,
                    release_ns: part.release_ns,
                    work_ns: part.work_ns,
                    split: part.split,
                    counts: member.counts.clone(),
                }
            })
            .collect();
        // Members that swapped seats are not in the order of arrival.
        arrivals.sort_by_key(|arrival| arrival.time_ns);
        self.told.push(ToldEpisode {
            site,
            index: self.sites.get(site).episodes - 1,
            number: self.totals.episodes,
            done: *done,
            arrivals,
        });
    }

    /// The site after which the phase that ends with this episode began, and the time of its
    /// beginning in ns. A phase begins at the last arrival L of the previous episode, so that
    /// phases follow each other without gaps or overlaps, whether departures are watched or not.
    /// `None` if the beginning was not seen for all members.
    fn phase_begin(&self, episode: &Episode) -> Option<(Option<SiteId>, u64)> {
        let (mut begun, mut born_ns) = (None, u64::MAX);
        for member in &episode.members {
            let Since { clocks, before } = member.since?;
            match before {
                Before::Start => born_ns = born_ns.min(clocks.time_ns),
                Before::Unknown => return None,
                Before::Episode { last_ns, site } => begun = begun.max(Some((last_ns, Some(site)))),
            }
        }
        if let Some((begin_ns, before)) = begun {
            return Some((before, begin_ns));
        }
        // None of the members was in an episode before. The phase of the first team began with the
        // program, even if its threads started later; the phase of a later team began with the
        // team's first thread.
        let first_team = self.first_end_ns.is_none_or(|end_ns| born_ns <= end_ns);
        let begin_ns = if first_team { self.start_ns } else { born_ns };
        Some((None, begin_ns))
    }

    fn recycle(&mut self, mut members: Vec<Member>) {
        if members.capacity() > 0 && self.spare.len() < MAX_SPARE {
            members.clear();
            self.spare.push(members);
        }
    }
}

/// Takes out an episode to which all have come, and leaves an empty one with the next round number.
pub(super) fn next_open(barrier: &mut Barrier) -> Episode {
    let next = Episode {
        round: barrier
            .open
            .round
            .zip(barrier.count)
            .map(|(round, count)| round_after(round, count)),
        sure: true,
        ..Episode::default()
    };
    std::mem::replace(&mut barrier.open, next)
}

/// How long a member had worked when it arrived, ns, and how that time splits up; `None` if the
/// beginning of the work is unknown.
fn worked(member: &Member) -> Option<(u64, Split)> {
    let since = member.since?.clocks;
    let work_ns = member.arrived.time_ns.saturating_sub(since.time_ns);
    Some((work_ns, Split::between(since, member.arrived)))
}

/// Whether the work alone before an episode is too short to count beside the episode's own.
fn is_brief(alone: &Alone, done: &Done) -> bool {
    const PART: u64 = 100;
    let phase_ns = done.phase.map_or(0, |(_, phase_ns)| phase_ns);
    alone.ns().saturating_mul(PART) <= phase_ns
}

/// The time that a member spent off its CPU, without the part before a region that it began.
fn in_region(member: &Member, alone: Option<ThreadId>) -> Option<Cow<'_, Work>> {
    let away = member.away.as_deref()?;
    match member.since.filter(|_| alone == Some(member.row)) {
        Some(since) => away.since(since.clocks.time_ns).map(Cow::Owned),
        None => Some(Cow::Borrowed(away)),
    }
}

/// A member's part in an episode whose last thread arrived at `last_ns`.
fn part(member: &Member, last_ns: u64) -> EpisodePart {
    let arrived = member.arrived;
    let left = match member.left {
        Left::At(left) => Some(left),
        Left::NotYet | Left::Unseen => None,
    };
    EpisodePart {
        row: member.row,
        work_ns: worked(member).map(|(work_ns, _)| work_ns),
        idle_ns: last_ns - arrived.time_ns,
        release_ns: left.map(|left| left.time_ns.saturating_sub(last_ns)),
        wait: left.map(|left| Wait::between(arrived, left)),
        split: worked(member).map_or_else(Split::default, |(_, split)| split),
        speed_ns: member.speed_ns,
    }
}

/// The last thread to arrive, and its lead a_(n) - a_(n-1), ns: the most that speeding up that
/// thread alone could gain.
fn straggler(episode: &Episode) -> Option<(ThreadId, u64)> {
    let (mut last, mut before): (Option<&Member>, Option<u64>) = (None, None);
    // Whoever did not wait yet waits for nobody.
    for member in episode.members.iter().filter(|member| !member.overlaps) {
        let time_ns = member.arrived.time_ns;
        match last.map(|last| last.arrived.time_ns) {
            Some(last_ns) if time_ns < last_ns => before = before.max(Some(time_ns)),
            last_ns => (last, before) = (Some(member), last_ns),
        }
    }
    let last = last?;
    let lead_ns = before.map_or(0, |before| last.arrived.time_ns - before);
    Some((last.row, lead_ns))
}
