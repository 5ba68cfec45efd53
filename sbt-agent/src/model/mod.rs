//! Events → episodes, phases and sums. Pure: no clock, no I/O, no privilege;
//! the same events give the same answer.
//!
//! Words and formulas are those of docs/model.md. How an arrival finds its
//! episode, in short: with a known count, arrivals at one barrier in the order
//! of time fill episodes n at a time; where that cannot be trusted (we came in
//! the middle, events were lost) the barrier's own round number decides, or a
//! thread that arrives twice, or one that leaves before all have come.

pub mod barrier;
pub mod episode;
pub mod site;
pub mod stats;
pub mod thread;

#[cfg(test)]
mod tests;

use rustc_hash::FxHashMap;

use crate::event::{CallersId, Clocks, Event, Kind, Round, Tid};
use barrier::{Barrier, BarrierId, Barriers, Entry};
use episode::{Episode, Left, Member, Seat};
use site::{Part, PlaceId, SiteId, Sites};
use thread::{Hint, Since, Split, ThreadId, Threads};

/// Counts over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Arrivals seen.
    pub arrivals: u64,
    /// Departures seen.
    pub departures: u64,
    /// Complete episodes.
    pub episodes: u64,
    /// Others: begun before we came, cut short, or spoilt by a loss.
    pub incomplete: u64,
    /// Events known to be lost, thread by thread.
    pub lost: u64,
}

/// An episode that had arrivals but had not ended when watching did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Its barrier.
    pub barrier: BarrierId,
    /// Where its threads wait.
    pub site: SiteId,
    /// Who had arrived, and when (ns), in order.
    pub arrived: Vec<(ThreadId, u64)>,
    /// Who took part in the barrier's last complete episode but not in this.
    pub missing: Vec<ThreadId>,
    /// Participants that had arrived before watching began.
    pub unseen: u32,
}

/// The engine.
#[derive(Debug, Default)]
pub struct Model {
    start_ns: u64,
    departures: bool,
    totals: Totals,
    threads: Threads,
    barriers: Barriers,
    sites: Sites,
    places: FxHashMap<CallersId, PlaceId>,
    unfinished: Vec<Unfinished>,
    serial: u64,
    /// Kept to be filled again: no allocation per episode.
    spare: Vec<Vec<Member>>,
    parts: Vec<Part>,
    set: Vec<PlaceId>,
}

impl Model {
    /// A model of what happens from `start_ns` on. `departures`: whether they
    /// are reported; see [`Event::Departures`].
    pub fn new(start_ns: u64, departures: bool) -> Self {
        Self {
            start_ns,
            departures,
            ..Self::default()
        }
    }

    /// Counts.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Threads.
    pub const fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Barriers.
    pub const fn barriers(&self) -> &Barriers {
        &self.barriers
    }

    /// Sites and phases.
    pub const fn sites(&self) -> &Sites {
        &self.sites
    }

    /// Episodes that had not ended; known after [`Model::finish`].
    pub fn unfinished(&self) -> &[Unfinished] {
        &self.unfinished
    }

    /// Says which place a chain of callers is. To be said before its first
    /// arrival; otherwise each chain is a place of its own.
    pub fn define_place(&mut self, callers: CallersId, place: PlaceId) {
        self.places.insert(callers, place);
    }

    /// Takes one event in. Events must come in the order of their times.
    pub fn push(&mut self, event: &Event) {
        match event {
            Event::Thread {
                tid,
                shown,
                name,
                since,
                ..
            } => self.threads.meet(*tid, *shown, name, Some(*since)),
            Event::Arrive {
                tid,
                clocks,
                object,
                kind,
                callers,
            } => self.arrive(*tid, *clocks, *object, *kind, *callers),
            Event::Depart { tid, clocks } => self.depart(*tid, *clocks),
            Event::Memory {
                tid,
                object,
                count,
                round,
                ..
            } => {
                if let Some(live) = self.threads.live(*tid) {
                    live.hint = Some(Hint {
                        object: *object,
                        count: *count,
                        round: *round,
                    });
                }
            }
            Event::Init {
                object,
                kind,
                tid,
                count,
                ..
            } => self.init(*tid, *object, *kind, *count),
            Event::Exit { tid, clocks } => self.exit(*tid, *clocks),
            Event::Exec { .. } => self.exec(),
            Event::Lost { count, .. } => {
                self.totals.lost += u64::from(*count);
                for barrier in self.barriers.all_mut() {
                    barrier.uncertain = true;
                }
            }
            Event::Departures { on } => self.departures = *on,
            Event::Callers { .. } | Event::Mapped { .. } => {}
        }
    }

    /// No more events will come. Settles what is still open.
    pub fn finish(&mut self) {
        for index in 0..self.barriers.all().len() {
            let id = BarrierId(u32::try_from(index).unwrap_or(u32::MAX));
            self.settle_leaving(id);
            let open = std::mem::take(&mut self.barriers.get(id).open);
            if open.members.is_empty() {
                continue;
            }
            self.note_unfinished(id, &open);
            self.drop_incomplete(id, open);
        }
    }

    fn note_unfinished(&mut self, id: BarrierId, open: &Episode) {
        let site = self.site_of(id, open);
        let arrived: Vec<_> = open
            .members
            .iter()
            .map(|member| (member.row, member.arrived.time_ns))
            .collect();
        let mut missing = self.barriers.get(id).last_members.clone();
        missing.retain(|row| arrived.iter().all(|(here, _)| here != row));
        missing.sort_unstable();
        self.unfinished.push(Unfinished {
            barrier: id,
            site,
            arrived,
            missing,
            unseen: open.unseen,
        });
    }

    fn barrier(&mut self, key: (u32, u64), kind: Kind) -> BarrierId {
        match self.barriers.entry(key) {
            Entry::Known(id) => id,
            Entry::Free => self.barriers.insert(key, kind, None),
            Entry::Taken(old) => {
                self.settle_leaving(old);
                let open = std::mem::take(&mut self.barriers.get(old).open);
                self.drop_incomplete(old, open);
                self.barriers.insert(key, kind, Some(old))
            }
        }
    }

    fn arrive(&mut self, tid: Tid, clocks: Clocks, object: u64, kind: Kind, callers: CallersId) {
        self.totals.arrivals += 1;
        self.threads.meet(tid, (tid, 0), "", None);
        // It is here, so it has left where it was, seen or not.
        self.leave(tid, Left::Unseen);
        let Some((live, row)) = self.threads.both(tid) else {
            return;
        };
        row.arrivals += 1;
        let hint = live.hint.take().filter(|hint| hint.object == object);
        let member = Member {
            tid,
            row: live.row,
            place: self
                .places
                .get(&callers)
                .copied()
                .unwrap_or(PlaceId(callers.0)),
            arrived: clocks,
            since: live.since,
            left: Left::NotYet,
        };
        let key = (live.process, object);
        let id = self.barrier(key, kind);
        if let Some(hint) = hint {
            self.heed(id, hint);
        }
        if self.barriers.get(id).open.has(tid) {
            self.close_open(id);
        }
        self.sit(id, member);
    }

    /// Puts a member into the barrier's open episode, which may fill it.
    fn sit(&mut self, id: BarrierId, member: Member) {
        let barrier = self.barriers.get(id);
        barrier.heard_ns = member.arrived.time_ns;
        if barrier.open.members.is_empty() {
            self.serial += 1;
            barrier.open.serial = self.serial;
            if barrier.open.members.capacity() == 0 {
                barrier.open.members = self.spare.pop().unwrap_or_default();
            }
        }
        barrier.open.members.push(member);
        let seat = Seat {
            barrier: id,
            episode: barrier.open.serial,
        };
        if let Some(live) = self.threads.live(member.tid) {
            live.seat = Some(seat);
        }
        let barrier = self.barriers.get(id);
        let present = u32::try_from(barrier.open.members.len()).unwrap_or(u32::MAX);
        if let Some(count) = barrier.count {
            if barrier.open.unseen == 0 && present >= count {
                self.fill(id);
            } else if present + barrier.open.unseen >= count {
                // The rest of them came before we did.
                self.close_open(id);
            }
        }
    }

    /// Uses what the object's own memory said just before an arrival.
    fn heed(&mut self, id: BarrierId, hint: Hint) {
        let barrier = self.barriers.get(id);
        if barrier.count != Some(hint.count) {
            if barrier.count.is_some() && !barrier.open.members.is_empty() {
                self.close_open(id);
            }
            self.barriers.get(id).count = Some(hint.count);
        }
        let Some(Round { number, arrived }) = hint.round else {
            return;
        };
        // With more threads than the barrier takes, one may come when the
        // round is full but not yet turned over: it belongs to a later one.
        let turns = arrived / hint.count;
        let number = number.wrapping_add(turns.wrapping_mul(hint.count));
        let arrived = arrived % hint.count;

        let barrier = self.barriers.get(id);
        let open = &barrier.open;
        let another = open.round.is_some_and(|round| {
            // glibc starts again from 0 after 2³¹ arrivals.
            let restarted = number < round && number / hint.count < 1024;
            round != number && (open.round_was_read || !restarted)
        });
        if another && !open.members.is_empty() {
            self.close_open(id);
        }
        let barrier = self.barriers.get(id);
        let open = &mut barrier.open;
        open.round = Some(number);
        let seen = u32::try_from(open.members.len()).unwrap_or(u32::MAX);
        if barrier.uncertain {
            // Another's arrival may have been counted although it is stamped
            // later than ours; so the least that anyone reads is right.
            let unseen = arrived.saturating_sub(seen);
            open.unseen = if open.round_was_read {
                open.unseen.min(unseen)
            } else {
                unseen
            };
        }
        open.round_was_read = true;
    }

    /// All have arrived: L is known, and with it everything but departures.
    fn fill(&mut self, id: BarrierId) {
        let barrier = self.barriers.get(id);
        let mut episode = next_open(barrier);
        barrier.uncertain = false;
        barrier.episodes += 1;
        barrier.last_members.clear();
        barrier
            .last_members
            .extend(episode.members.iter().map(|member| member.row));
        let Some((_, last_ns)) = episode.span() else {
            return;
        };
        let site = self.site_of(id, &episode);
        episode.site = Some(site);
        for member in &episode.members {
            if let Some(live) = self.threads.live(member.tid) {
                // Corrected by the departure, if one is seen.
                live.since = Some(Since {
                    clocks: Clocks {
                        time_ns: last_ns,
                        ..member.arrived
                    },
                    site: Some(site),
                });
            }
        }
        if self.departures {
            self.barriers.get(id).leaving.push(episode);
        } else {
            self.settle(episode);
        }
    }

    fn depart(&mut self, tid: Tid, clocks: Clocks) {
        self.totals.departures += 1;
        let Some(live) = self.threads.live(tid) else {
            return;
        };
        let Some(seat) = live.seat else {
            // Its arrival was not seen, so neither was what it left.
            live.since = None;
            return;
        };
        if self.barriers.get(seat.barrier).open.serial == seat.episode
            && self.barriers.get(seat.barrier).open.has(tid)
        {
            self.left_early(seat.barrier, tid);
        }
        if let Some(live) = self.threads.live(tid)
            && let Some(since) = &mut live.since
        {
            since.clocks = clocks;
        }
        self.leave(tid, Left::At(clocks.time_ns));
    }

    /// A member of an episode that is not full has left it.
    fn left_early(&mut self, id: BarrierId, tid: Tid) {
        let barrier = self.barriers.get(id);
        if barrier.count.is_none() {
            // That is how an episode of unknown size ends.
            self.fill(id);
            return;
        }
        // Two threads may pass our probe in one order and the barrier's count
        // in the other, which matters if more threads use it than it takes:
        // then someone who has not left sits in the episode before, instead.
        let open = &mut barrier.open;
        let swap = barrier.leaving.iter_mut().find_map(|episode| {
            let serial = episode.serial;
            let place = episode
                .members
                .iter()
                .rposition(|member| member.left == Left::NotYet)?;
            Some((serial, &mut episode.members[place]))
        });
        let mine = open.members.iter_mut().find(|member| member.tid == tid);
        if let (Some((serial, theirs)), Some(mine)) = (swap, mine) {
            std::mem::swap(theirs, mine);
            let (tid_there, tid_here, here) = (theirs.tid, mine.tid, open.serial);
            for (tid, episode) in [(tid_there, serial), (tid_here, here)] {
                if let Some(live) = self.threads.live(tid) {
                    live.seat = Some(Seat {
                        barrier: id,
                        episode,
                    });
                }
            }
            return;
        }
        self.close_open(id);
    }

    /// A thread leaves its seat, if it has one.
    fn leave(&mut self, tid: Tid, left: Left) {
        let Some(live) = self.threads.live(tid) else {
            return;
        };
        let Some(seat) = live.seat.take() else {
            return;
        };
        let barrier = self.barriers.get(seat.barrier);
        if barrier.open.serial == seat.episode
            && left == Left::Unseen
            && barrier.count.is_none()
            && barrier.open.has(tid)
        {
            // It arrives again: the episode of unknown size has ended.
            self.fill(seat.barrier);
        }
        let barrier = self.barriers.get(seat.barrier);
        let Some(index) = barrier
            .leaving
            .iter()
            .position(|episode| episode.serial == seat.episode)
        else {
            return;
        };
        let episode = &mut barrier.leaving[index];
        if let Some(member) = episode.member(tid) {
            member.left = left;
        }
        if episode.is_over() {
            let episode = barrier.leaving.remove(index);
            self.settle(episode);
        }
    }

    fn init(&mut self, tid: Tid, object: u64, kind: Kind, count: u32) {
        self.threads.meet(tid, (tid, 0), "", None);
        let Some(live) = self.threads.live(tid) else {
            return;
        };
        let key = (live.process, object);
        let id = self.barrier(key, kind);
        self.settle_leaving(id);
        self.close_open(id);
        let barrier = self.barriers.get(id);
        barrier.count = Some(count);
        barrier.uncertain = false;
        barrier.open.round = None;
    }

    fn exit(&mut self, tid: Tid, clocks: Clocks) {
        let Some(live) = self.threads.live(tid) else {
            return;
        };
        let seat = live.seat;
        let since = live.since;
        if seat.is_none() {
            if let (Some(since), Some((_, row))) = (since, self.threads.both(tid))
                && since.site.is_some()
            {
                let work = clocks.time_ns.saturating_sub(since.clocks.time_ns);
                row.work.add(Some(work));
                row.split.add(Split::between(since.clocks, clocks));
            }
        } else {
            self.leave(tid, Left::Unseen);
        }
        self.threads.bury(tid);
    }

    /// Another program: nothing that was open will ever end.
    fn exec(&mut self) {
        self.finish();
        self.unfinished.clear();
        for (_, live) in self.threads.living() {
            live.since = None;
            live.hint = None;
            live.seat = None;
        }
        self.barriers.forget();
        self.places.clear();
    }

    /// The open episode will not be completed.
    fn close_open(&mut self, id: BarrierId) {
        let episode = next_open(self.barriers.get(id));
        self.drop_incomplete(id, episode);
    }

    fn drop_incomplete(&mut self, id: BarrierId, mut episode: Episode) {
        if !episode.members.is_empty() {
            self.totals.incomplete += 1;
            let site = self.site_of(id, &episode);
            self.sites.get(site).incomplete += 1;
            for member in &episode.members {
                if let Some(live) = self.threads.live(member.tid) {
                    // Still seated: a departure will tell since when it works.
                    live.since = Some(Since {
                        clocks: member.arrived,
                        site: Some(site),
                    })
                    .filter(|_| self.departures && live.seat.is_some());
                }
            }
        }
        episode.members.clear();
        self.spare.push(episode.members);
    }

    fn settle_leaving(&mut self, id: BarrierId) {
        for episode in std::mem::take(&mut self.barriers.get(id).leaving) {
            self.settle(episode);
        }
    }

    /// The site of an episode: the set of places from which it was called.
    fn site_of(&mut self, id: BarrierId, episode: &Episode) -> SiteId {
        self.set.clear();
        self.set
            .extend(episode.members.iter().map(|member| member.place));
        self.set.sort_unstable();
        self.set.dedup();
        let kind = self.barriers.get(id).kind;
        let site = self.sites.of(&self.set, kind);
        self.sites.get(site).name_barrier(id);
        site
    }

    /// A complete episode enters the sums.
    fn settle(&mut self, mut episode: Episode) {
        let (Some(site), Some((first_ns, last_ns))) = (episode.site, episode.span()) else {
            return;
        };
        self.totals.episodes += 1;
        self.parts.clear();
        let mut begun: Option<(u64, Option<SiteId>)> = None;
        for member in &episode.members {
            let since = member.since;
            if let Some(since) = since.filter(|since| since.site.is_some()) {
                let candidate = (since.clocks.time_ns, since.site);
                begun = Some(begun.map_or(candidate, |begun| begun.max(candidate)));
            }
            self.parts.push(Part {
                row: member.row,
                work_ns: since
                    .map(|since| member.arrived.time_ns.saturating_sub(since.clocks.time_ns)),
                idle_ns: last_ns - member.arrived.time_ns,
                release_ns: match member.left {
                    Left::At(time_ns) => Some(time_ns.saturating_sub(last_ns)),
                    _ => None,
                },
                split: since.map_or_else(Split::default, |since| {
                    Split::between(since.clocks, member.arrived)
                }),
            });
        }
        // Nobody has been in an episode before: the phase began when we did.
        let (begin_ns, before) = begun.unwrap_or((self.start_ns, None));
        let phase_ns = last_ns.saturating_sub(begin_ns);
        self.sites
            .record(site, before, phase_ns, last_ns - first_ns, &self.parts);
        let straggler = straggler(&episode);
        for part in &self.parts {
            let row = self.threads.row(part.row);
            row.episodes += 1;
            row.last += u64::from(Some(part.row) == straggler);
            row.work.add(part.work_ns);
            row.idle_ns += part.idle_ns;
            row.release.add(part.release_ns);
            row.split.add(part.split);
        }
        if let Some(straggler) = straggler {
            self.sites
                .get(site)
                .note_straggler(straggler, lead(&episode));
        }
        episode.members.clear();
        self.spare.push(episode.members);
    }
}

/// Takes the open episode out and leaves the next one, whose round follows.
fn next_open(barrier: &mut Barrier) -> Episode {
    let round = match (barrier.open.round, barrier.count) {
        (Some(round), Some(count)) => Some(round.wrapping_add(count)),
        _ => None,
    };
    std::mem::replace(
        &mut barrier.open,
        Episode {
            round,
            ..Episode::default()
        },
    )
}

/// Who arrived last.
fn straggler(episode: &Episode) -> Option<ThreadId> {
    episode
        .members
        .iter()
        .max_by_key(|member| member.arrived.time_ns)
        .map(|member| member.row)
}

/// a_(n) - a_(n-1), ns: the most that a faster straggler alone could gain.
fn lead(episode: &Episode) -> u64 {
    let (mut last, mut before) = (0, 0);
    for member in &episode.members {
        let time = member.arrived.time_ns;
        if time >= last {
            (last, before) = (time, last);
        } else {
            before = before.max(time);
        }
    }
    if before == 0 { 0 } else { last - before }
}
