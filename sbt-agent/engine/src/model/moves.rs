//! Moves threads through episodes: arrivals, departures, and what a barrier's own memory says about
//! them.

use super::{
    Model,
    barrier::{Barrier, rounds_behind, running_round},
    closing::next_open,
    cost::Class,
    episode::{Episode, Left, Member, Seat},
    ids::{BarrierId, PlaceId},
    key,
    parts::{Before, Met, Since},
    speed::Measured,
    thread::Hint,
};
use crate::event::{CallersId, Clocks, Kind, Tid};

/// Rounds that may pass between a thread's look at the barrier's memory and the time stamp of its
/// arrival. A larger distance means that the object was initialised unseen.
const MAX_LAG: u32 = 64;

/// The class of the probe that saw an arrival; `None` for arrivals derived from other events.
const fn class(kind: Kind) -> Option<Class> {
    match kind {
        Kind::Pthread => Some(Class::Wait),
        Kind::Gomp | Kind::Kmp | Kind::Std | Kind::Rust => Some(Class::Team),
        Kind::User | Kind::Spin | Kind::Mpi => Some(Class::Call),
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
        if let Some(live) = self.threads.live(tid) {
            let key = key(live.process, object);
            self.check_told(tid, key);
        }
        // An arrival implies that the thread has left its previous episode, seen or not.
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
        live.in_call = matches!(kind, Kind::User | Kind::Spin | Kind::Mpi);
        let hint = live.hint.take().filter(|hint| hint.object == object);
        // The thread that wakes the others tells where a round of a condition variable ends, so a
        // loss in the waiting threads does no harm.
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
            awaits: false,
            overlaps: false,
            since,
            left: Left::NotYet,
            chain: live.chain,
            counts: live.counts.end(since_ns, clocks.time_ns),
            away,
            paid: std::mem::take(&mut live.paid),
            speed_ns: Measured::before(live.speed, clocks.time_ns),
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
            // A thread arrives once in each round, so the open round is over.
            self.close_open(id);
        } else if lost && hint.is_none_or(|hint| hint.round.is_none()) {
            // The arrival may belong to the open episode or to the next one.
            self.close_open(id);
            self.barriers.get(id).open.doubtful = true;
        } else if open.round.is_none() && open.was_begun_before(unseated_ns) {
            // As far as is known, the thread was in the open episode when watching began, and has
            // left it since.
            self.close_open(id);
        }
        if let Some(Met::First(began)) = begun
            && self.threads.is_first(tid)
        {
            self.leave_behind(id, began.time_ns);
        }
        let barrier = self.barriers.get(id);
        barrier.open.ends_region |= ends_region;
        if let Some(met) = begun {
            barrier.note_begun(member.row, met);
        }
        self.sit(id, member);
    }

    /// Adds a member to the barrier's open episode, and ends the episode if that fills it.
    pub(super) fn sit(&mut self, id: BarrierId, member: Member) {
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
            // All have arrived, but some arrived unseen: before watching began, or in lost events.
            // After a loss, this arrival need not be the last one.
            let last_ns = barrier.heard_ns;
            let episode = next_open(barrier);
            self.drop_incomplete(id, episode, (self.totals.lost == 0).then_some(last_ns));
        }
    }

    /// Uses what the barrier's memory held just before an arrival. `last_episode`: the thread's
    /// previous episode. `lost`: whether events of the thread are missing.
    fn heed(&mut self, id: BarrierId, hint: Hint, last_episode: u64, lost: bool) {
        let barrier = self.barriers.get(id);
        if barrier.count != Some(hint.count) {
            let present = barrier.open.members.len();
            // A round made of a condition variable reports its size with the last thread to arrive.
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
        // The memory was read while it changed, so that the count of arrivals is below zero: its
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
            // More threads use the barrier than it takes. This thread looked when the last arrival
            // of the round was stamped but not yet counted, or it lost its CPU for some rounds
            // between its look and its stamp.
            return;
        }
        let barrier = self.barriers.get(id);
        let len = |open: &Episode| u32::try_from(open.members.len()).unwrap_or(u32::MAX);
        let leftover = if expected.is_none() {
            len(&barrier.open)
        } else {
            0
        };
        // No thread can have been in a round before the first. This matters if the first thread to
        // arrive could not look, because its process had not touched the page yet.
        let is_first = number == 0 && expected.is_none() && !lost;
        let unsure = lost || behind || expected.is_none() && !is_first;
        // The memory holds another round than the open one: the open episode is over. If there is
        // no number to compare, it may be over as well; a member given up by mistake is counted as
        // unseen below. If the number is behind, a thread that was in that very round cannot have
        // looked too early: the object was initialised unseen, and all present members are in its
        // new round.
        if expected != Some(number) && !behind && !is_first {
            self.close_open(id);
        }
        let open = &mut self.barriers.get(id).open;
        open.round = Some(number);
        // Arrivals are stamped before the barrier counts them. So a counted thread that is not
        // present arrived unseen. Present threads need not be counted yet; but after a loss they
        // may also belong to the previous round.
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
            // The probe is on a `ret` instruction, which the kernel single-steps.
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
            // The thread's arrival was not seen, so its episode is unknown.
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

    /// Handles a member that leaves an episode that is not full.
    fn left_early(&mut self, seat: Seat, tid: Tid) {
        let id = seat.barrier;
        if self.barriers.get(id).count.is_none() {
            // A departure ends an episode of unknown size.
            self.end(id);
        } else if !self.swap(seat, tid) && !self.counts_alone(id) {
            self.close_open(id);
        }
    }

    /// Whether the number of arrivals alone tells where episodes end: the barrier was seen from its
    /// first round, and nothing is known to be lost (a loss not yet known will show in the
    /// barrier's own numbers). Then a thread that seems to leave too early was overtaken between
    /// the probe and the barrier's count. That can happen if more threads use the barrier than it
    /// takes.
    fn counts_alone(&mut self, id: BarrierId) -> bool {
        let lost = self.totals.lost > 0;
        let open = &self.barriers.get(id).open;
        open.round.is_some() && open.sure && !open.doubtful && open.unseen == 0 && !lost
    }

    /// Swaps the seats of two threads that passed the probe in one order and the barrier's count in
    /// the other, which matters if more threads use the barrier than it takes. The thread that
    /// departs takes the seat in the previous episode of a member that has not left it. Returns
    /// whether there was such a member.
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
            // Every departure from the previous episode must come after the arrival of its supposed
            // last member.
            let fits = full.members.iter().all(|member| match member.left {
                Left::At(left) => left.time_ns > mine.arrived.time_ns,
                Left::NotYet => true,
                Left::Unseen => false,
            } && member.tid != tid);
            let mut members = full.members.iter();
            let index = members.rposition(|member| member.left == Left::NotYet)?;
            fits.then_some((index, full))
        });
        // The open episode must be known to follow directly.
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

    /// Takes a thread out of its seat, if it has one.
    fn leave(&mut self, tid: Tid, left: Left) {
        let Some(seat) = self.threads.live(tid).and_then(|live| live.seat) else {
            return;
        };
        let barrier = self.barriers.get(seat.barrier);
        if barrier.open.serial == seat.episode {
            // No thread leaves before all have arrived. If the size is unknown, this departure ends
            // the episode; otherwise some arrivals were not seen.
            if barrier.count.is_none() {
                self.end(seat.barrier);
            } else if self.counts_alone(seat.barrier) {
                let member = &mut self.barriers.get(seat.barrier).open.members[seat.index];
                member.left = left;
                // The thread was overtaken, or the loss of the last arrival is not known yet.
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

    /// Records that a member has left a full episode; the last departure settles it.
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

    /// Records that `count` events of a thread are missing before this point.
    pub(super) fn lost(&mut self, tid: Tid, count: u32) {
        self.totals.lost += u64::from(count);
        self.threads.meet(tid, self.start_ns);
        // The thread went on unseen, so it is no longer in its seat.
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
