//! How threads move through episodes: arrivals, departures, and what a
//! barrier's own memory says about them.

use super::{
    Model,
    barrier::{Barrier, rounds_behind, running_round},
    closing::next_open,
    cost::Class,
    episode::{Episode, Left, Member, Seat},
    ids::{BarrierId, PlaceId},
    key,
    parts::{Before, Since},
    thread::Hint,
};
use crate::event::{CallersId, Clocks, Kind, Tid};

/// How many rounds may turn between a thread's look at the barrier's memory and
/// the stamp of its arrival. If it is more, the object was initialised unseen.
const MAX_LAG: u32 = 64;

/// By what probe an arrival was seen; `None` of those that are made of other events.
const fn class(kind: Kind) -> Option<Class> {
    match kind {
        Kind::Pthread => Some(Class::Wait),
        Kind::Gomp | Kind::Kmp | Kind::Std | Kind::Rust => Some(Class::Team),
        Kind::User | Kind::Mpi => Some(Class::Call),
        Kind::Condvar | Kind::Futex => None,
    }
}

impl Model {
    pub(super) fn arrive(
        &mut self,
        tid: Tid,
        clocks: Clocks,
        object: u64,
        kind: Kind,
        callers: CallersId,
    ) {
        self.totals.arrivals += 1;
        self.threads.meet(tid, clocks.time_ns);
        // It is here, so it has left where it was, seen or not.
        self.leave(tid, Left::Unseen);
        let Some((live, row)) = self.threads.both(tid) else {
            return;
        };
        row.arrivals += 1;
        row.worked_until_ns = clocks.time_ns;
        if let Some(class) = class(kind) {
            live.paid.add(class);
            row.paid.add(class);
        }
        live.in_call = matches!(kind, Kind::User | Kind::Mpi);
        let hint = live.hint.take().filter(|hint| hint.object == object);
        // Where rounds of condition variables end is told by who wakes.
        let lost = std::mem::take(&mut live.lost) && !kind.is_recognised();
        let (last_episode, last_round) = (live.last_episode, live.last_round);
        let unseated_ns = live.unseated_ns.take();
        self.usage.arrive(&mut live.chain, live.born_ns);
        let since = live.since.take().filter(|since| {
            since.before != Before::Start || Some(since.clocks.time_ns) > self.blurred_ns
        });
        let since_ns = since.map(|since| since.clocks.time_ns);
        let away = self.away.as_mut();
        let away = away.and_then(|tracks| tracks.end(tid, since_ns, clocks.time_ns));
        let member = Member {
            tid,
            row: live.row,
            place: self
                .places
                .get(&callers)
                .copied()
                .unwrap_or(PlaceId(callers.0)),
            arrived: clocks,
            since,
            left: Left::NotYet,
            chain: live.chain,
            counts: live.counts.end(since_ns, clocks.time_ns),
            away,
            paid: std::mem::take(&mut live.paid),
        };
        let ends_region = std::mem::take(&mut live.regions.ends_next);
        live.regions.is_kept = false;
        let begun = if matches!(kind, Kind::Gomp | Kind::Kmp) {
            live.regions.meet(object, ends_region)
        } else {
            None
        };
        let key = key(live.process, object);
        self.turns.arrive(key, (live.process, tid));
        let id = self.barrier(key, kind);
        if let Some(hint) = hint {
            self.heed(id, hint, last_episode, lost);
        }
        let counts_alone = self.counts_alone(id);
        let barrier = self.barriers.get(id);
        let open = &barrier.open;
        if !counts_alone
            && last_episode > barrier.before
            && last_round.is_some_and(|last| open.round.map(|round| (id, round)) == Some(last))
        {
            // A thread arrives once in a round: so that one is over.
            self.close_open(id);
        } else if lost && hint.is_none_or(|hint| hint.round.is_none()) {
            // It may belong to the open episode or to the one after it.
            self.close_open(id);
            self.barriers.get(id).open.doubtful = true;
        } else if open.round.is_none() && open.was_begun_before(unseated_ns) {
            // As far as we can know it was in the open episode when watching
            // began, and has left it.
            self.close_open(id);
        }
        let barrier = self.barriers.get(id);
        barrier.open.ends_region |= ends_region;
        if let Some(met) = begun {
            barrier.note_begun(member.row, met);
        }
        self.sit(id, member);
    }

    /// Puts a member into the barrier's open episode, which may fill it.
    fn sit(&mut self, id: BarrierId, member: Member) {
        let barrier = self.barriers.get(id);
        barrier.heard_ns = member.arrived.time_ns;
        barrier.ever.insert(member.row);
        if barrier.open.members.is_empty() {
            self.serial += 1;
            barrier.open.serial = self.serial;
            if barrier.open.members.capacity() == 0 {
                barrier.open.members = self.spare.pop().unwrap_or_default();
            }
        }
        let seat = Seat {
            barrier: id,
            episode: barrier.open.serial,
            index: barrier.open.members.len(),
            before: None,
        };
        let round = barrier.open.round;
        let tid = member.tid;
        barrier.open.members.push(member);
        if let Some(live) = self.threads.live(tid) {
            live.seat = Some(seat);
            live.last_episode = seat.episode;
            live.last_round = round.map(|round| (id, round));
        }
        let barrier = self.barriers.get(id);
        let open = &barrier.open;
        let present = u32::try_from(open.members.len()).unwrap_or(u32::MAX);
        let full = barrier
            .count
            .is_some_and(|count| present.saturating_add(open.unseen) >= count);
        if full && open.unseen == 0 {
            self.end(id);
        } else if full {
            // All have come, but not all were seen to: before we came, or else
            // it is not certain that this one was the last.
            let last_ns = barrier.heard_ns;
            let episode = next_open(barrier);
            self.drop_incomplete(id, episode, (self.totals.lost == 0).then_some(last_ns));
        }
    }

    /// Uses what the object's own memory said just before an arrival.
    /// `last_episode`: what the thread was in before. `lost`: whether events of
    /// it are missing.
    fn heed(&mut self, id: BarrierId, hint: Hint, last_episode: u64, lost: bool) {
        let barrier = self.barriers.get(id);
        if barrier.count != Some(hint.count) {
            let present = barrier.open.members.len();
            // How many a round takes that is made of a condition variable is known
            // when the last of them comes.
            let is_another = barrier.count.is_some() && !barrier.kind.is_recognised();
            if is_another || present >= hint.count as usize {
                self.settle_leaving(id);
                self.close_open(id);
            }
            let barrier = self.barriers.get(id);
            barrier.count = Some(hint.count);
            barrier.open.round = None;
            barrier.before = self.serial;
        }
        // Read while it changed, the count of the new round less than none: the
        // two words do not belong together.
        let Some(round) = hint.round.filter(|round| round.arrived < u32::MAX / 2) else {
            return;
        };
        let (number, arrived) = running_round(round, hint.count);
        let barrier = self.barriers.get(id);
        let expected = barrier.open.round;
        let behind = expected.is_some_and(|expected| {
            (1..=MAX_LAG).contains(&rounds_behind(number, expected, hint.count))
        });
        let was_there = last_episode == barrier.last_serial;
        if behind && (!was_there || self.counts_alone(id)) {
            // More threads use the barrier than it takes, and this one looked
            // when the last of the round had been stamped but not yet counted,
            // or lost its CPU for some rounds between looking and being stamped.
            return;
        }
        let barrier = self.barriers.get(id);
        let len = |open: &Episode| u32::try_from(open.members.len()).unwrap_or(u32::MAX);
        let leftover = if expected.is_none() {
            len(&barrier.open)
        } else {
            0
        };
        // Nobody could have been in a round before the first. That matters where the
        // first to come could not look: a page that its process had not touched.
        let is_first = number == 0 && expected.is_none() && !lost;
        let unsure = lost || behind || expected.is_none() && !is_first;
        // Another round than the one that fills: that one is over. Without a
        // number to compare, it may be over as well; whoever is
        // given up wrongly is counted as not seen below. Behind, who was in
        // that very round cannot have looked too early: so the object
        // was initialised unseen, and all here are in its new round.
        if expected != Some(number) && !behind && !is_first {
            self.close_open(id);
        }
        let open = &mut self.barriers.get(id).open;
        open.round = Some(number);
        // Arrivals are stamped before they are counted: so whoever is counted
        // and is not here was not seen. Not all who are here need be counted
        // yet; but after a loss they may as well belong to the round before.
        let present = len(open);
        open.unseen = open.unseen.max(arrived.saturating_sub(present));
        open.doubtful |= unsure && arrived < present.max(leftover);
    }

    pub(super) fn depart(&mut self, tid: Tid, clocks: Clocks) {
        self.totals.departures += 1;
        let Some((live, row)) = self.threads.both(tid) else {
            return;
        };
        let class = if live.in_call {
            // At a `ret`, which is single-stepped.
            live.paid.stepped += 1;
            row.paid.stepped += 1;
            Class::CallEnd
        } else {
            Class::Return
        };
        live.paid.add(class);
        row.paid.add(class);
        live.counts.begin(clocks.time_ns);
        if let Some(tracks) = &mut self.away {
            tracks.forget(tid);
        }
        let Some(seat) = live.seat else {
            // Its arrival was not seen, so neither was what it left.
            live.unseated_ns = Some(clocks.time_ns);
            live.since = Some(Since {
                clocks,
                before: Before::Unknown,
            });
            return;
        };
        if self.barriers.get(seat.barrier).open.serial == seat.episode {
            self.left_early(seat, tid);
        }
        if let Some(live) = self.threads.live(tid) {
            let before = live.seat.and_then(|seat| seat.before);
            live.since = before.map(|before| Since { clocks, before });
        }
        self.leave(tid, Left::At(clocks));
    }

    /// A member of an episode that is not full has left it.
    fn left_early(&mut self, seat: Seat, tid: Tid) {
        let id = seat.barrier;
        if self.barriers.get(id).count.is_none() {
            // That is how an episode of unknown size ends.
            self.end(id);
        } else if !self.swap(seat, tid) && !self.counts_alone(id) {
            self.close_open(id);
        }
    }

    /// Whether the number of arrivals alone tells where episodes end: the
    /// barrier was seen from its first round, nothing was lost, and if
    /// something is, unknown to us yet, its own numbers will say so. Then a
    /// thread that seems to leave too early was only overtaken between our probe
    /// and the barrier's count, which more threads than it takes can do.
    fn counts_alone(&mut self, id: BarrierId) -> bool {
        let lost = self.totals.lost > 0;
        let open = &self.barriers.get(id).open;
        open.round.is_some() && open.sure && !open.doubtful && open.unseen == 0 && !lost
    }

    /// Two threads may pass our probe in one order and the barrier's count in
    /// the other, which matters if more threads use it than it takes: then
    /// someone who has not left sits in the episode before, instead.
    fn swap(&mut self, seat: Seat, tid: Tid) -> bool {
        let Barrier {
            open,
            leaving,
            last_serial,
            last_members,
            last_places,
            ..
        } = self.barriers.get(seat.barrier);
        let Some(mine) = open.members.get_mut(seat.index) else {
            return false;
        };
        let before = leaving.last_mut();
        let before = before.filter(|full| full.serial == *last_serial);
        let found = before.and_then(|full| {
            // Nobody has left it before all its members had come.
            let fits = full.members.iter().all(|member| match member.left {
                Left::At(left) => left.time_ns > mine.arrived.time_ns,
                Left::NotYet => true,
                Left::Unseen => false,
            } && member.tid != tid);
            let mut members = full.members.iter();
            let index = members.rposition(|member| member.left == Left::NotYet)?;
            fits.then_some((index, full))
        });
        // And the open episode is known to be the one after it.
        let (Some((index, full)), true) = (found, open.sure && !open.doubtful) else {
            return false;
        };
        std::mem::swap(&mut full.members[index], mine);
        last_members[index] = full.members[index].row;
        last_places[index] = full.members[index].place;
        let (other, there) = (
            mine.tid,
            Seat {
                episode: full.serial,
                index,
                before: full.was(),
                ..seat
            },
        );
        if let Some(live) = self.threads.live(tid) {
            live.seat = Some(there);
        }
        if let Some(live) = self.threads.live(other) {
            live.seat = Some(seat);
            live.since = None;
        }
        true
    }

    /// A thread leaves its seat, if it has one.
    fn leave(&mut self, tid: Tid, left: Left) {
        let Some(seat) = self.threads.live(tid).and_then(|live| live.seat) else {
            return;
        };
        let barrier = self.barriers.get(seat.barrier);
        if barrier.open.serial == seat.episode {
            // Nobody leaves before all have come. If the size is unknown, that
            // is how the episode ends; else we have not seen them all.
            if barrier.count.is_none() {
                self.end(seat.barrier);
            } else if self.counts_alone(seat.barrier) {
                let member = &mut self.barriers.get(seat.barrier).open.members[seat.index];
                member.left = left;
                // Overtaken, or else the loss of who came last is not known yet.
                let row = member.row;
                self.conceptual.abandon(row);
            } else {
                self.close_open(seat.barrier);
            }
        }
        if let Some(live) = self.threads.live(tid) {
            live.seat = None;
        }
        self.mark_left(seat, left);
    }

    /// Notes in a full episode that a member has left; the last one settles it.
    pub(super) fn mark_left(&mut self, seat: Seat, left: Left) {
        let barrier = self.barriers.get(seat.barrier);
        let Some(at) = barrier
            .leaving
            .iter()
            .position(|episode| episode.serial == seat.episode)
        else {
            return;
        };
        let episode = &mut barrier.leaving[at];
        episode.members[seat.index].left = left;
        episode.inside -= 1;
        if episode.inside == 0 {
            let episode = barrier.leaving.remove(at);
            self.settle(seat.barrier, episode);
        }
    }

    /// Events of a thread are missing before this point.
    pub(super) fn lost(&mut self, tid: Tid, count: u32) {
        self.totals.lost += u64::from(count);
        self.threads.meet(tid, self.start_ns);
        // It has gone on since, so it sits no longer where it sat.
        self.leave(tid, Left::Unseen);
        if let Some(live) = self.threads.live(tid) {
            live.since = None;
            live.hint = None;
            live.mark = None;
            live.lost = true;
            self.conceptual.abandon(live.row);
        }
    }
}
