//! Parallel regions of OpenMP. Between two regions one thread works on, and the runtime keeps the
//! others waiting; this is neither work nor waiting for each other at a barrier. The thread that
//! begins a region reports its beginning; the threads that arrive at the region's last barrier
//! report its end.

use super::{
    Model,
    barrier::Barrier,
    cost::Class,
    efficiency::useful,
    episode::Episode,
    ids::{BarrierId, ThreadId},
    parts::{Alone, Before, Begun, Met, Since, Split},
};
use crate::event::{Clocks, Tid};

impl Barrier {
    /// Notes that an arriving thread has begun a region, perhaps that of this barrier. Other
    /// members may have begun nested regions of a single thread; those began later.
    pub(super) fn note_begun(&mut self, row: ThreadId, met: Met) {
        let is_other = self.master.is_some_and(|master| master != row);
        let is_later = match (self.open.begun.map(|begun| begun.met), met) {
            (Some(Met::First(known)), Met::First(began)) => known.time_ns <= began.time_ns,
            (Some(Met::Again), _) => true,
            _ => false,
        };
        if !is_other && !is_later {
            let index = self.open.members.len();
            self.open.begun = Some(Begun { index, met });
        }
    }
}

impl Model {
    /// A thread begins a region.
    pub(super) fn region(&mut self, tid: Tid, clocks: Clocks, depth: u32) {
        self.threads.meet(tid, clocks.time_ns);
        self.pay(tid, Class::Region);
        if let Some(live) = self.threads.live(tid) {
            live.regions.begin(clocks, depth);
        }
        let live = self.threads.live(tid);
        if live.is_some_and(|live| !live.regions.is_inside_of_the_last(depth)) {
            self.has_left_the_last(tid);
        }
    }

    /// The first thread of a process begins a region, so it is no longer at the end of the one
    /// before: if that seems to wait for others, they had arrived unseen.
    fn has_left_the_last(&mut self, tid: Tid) {
        let seat = self.threads.live(tid).and_then(|live| live.seat);
        let Some(seat) = seat.filter(|_| self.threads.is_first(tid)) else {
            return;
        };
        let open = &self.barriers.get(seat.barrier).open;
        if open.serial == seat.episode && open.ends_region && open.round.is_none() {
            self.close_open(seat.barrier);
        }
    }

    /// Gives up the members of the open episode that had arrived before the region of this team
    /// began: they were in an earlier round, whose other members were not seen to arrive. Without
    /// this, a watch that begins in the middle of a round would join each round with the next for
    /// ever where the runtime has no number for it.
    pub(super) fn leave_behind(&mut self, id: BarrierId, began_ns: u64) {
        let open = &mut self.barriers.get(id).open;
        let before = open
            .members
            .partition_point(|member| member.arrived.time_ns < began_ns);
        // What is left over was at the end of a region: a region inside of this one may have begun
        // last.
        if open.round.is_some() || !open.ends_region || before == 0 {
            return;
        }
        let rest = open.members.split_off(before);
        let ends_region = open.ends_region;
        self.close_open(id);
        for member in rest {
            self.barriers.get(id).open.ends_region = ends_region;
            self.sit(id, member);
        }
    }

    /// The next barrier of a thread ends a region: see [`crate::event::Event::RegionEnd`].
    pub(super) fn region_ends(&mut self, tid: Tid) {
        if let Some(live) = self.threads.live(tid) {
            live.regions.ends_next = true;
        }
    }

    /// The threads of a region meet for the first time. The thread that began the region has worked
    /// alone before; the work of the others is reckoned from the beginning of the region.
    pub(super) fn begin_region(&mut self, id: BarrierId, episode: &mut Episode) {
        let master = episode.begun.map(|begun| episode.members[begun.index].row);
        self.barriers.get(id).master = master.filter(|_| !episode.ends_region);
        let Some(Begun {
            index,
            met: Met::First(began),
        }) = episode.begun
        else {
            return;
        };
        let master = &mut episode.members[index];
        let Some(since) = master
            .since
            .filter(|since| since.clocks.time_ns < began.time_ns)
        else {
            return;
        };
        let work_ns = began.time_ns - since.clocks.time_ns;
        let split = Split::between(since.clocks, began);
        let path_ns = if since.before == Before::Start {
            // Before the first region no thread waits for this one: the others do not exist yet.
            master.chain.path_ns + useful(work_ns, split)
        } else {
            let work = Some((work_ns, split));
            let path_ns = self.usage.work(master.chain, work, began.time_ns);
            master.chain.path_ns = path_ns;
            master.since = Some(Since {
                clocks: began,
                ..since
            });
            episode.alone = Some(Alone {
                row: master.row,
                from_ns: since.clocks.time_ns,
                split,
                to_ns: began.time_ns,
                waited_ns: 0,
            });
            let row = self.threads.row(master.row);
            row.work.add(Some(work_ns));
            row.split.add(split);
            path_ns
        };
        let mut all_ns: u64 = 0;
        for (other, member) in episode.members.iter_mut().enumerate() {
            let Some(since) = member.since.as_mut().filter(|_| other != index) else {
                continue;
            };
            let waited_ns = began.time_ns.saturating_sub(since.clocks.time_ns);
            if waited_ns > 0 {
                since.clocks.time_ns = began.time_ns;
                member.away = member
                    .away
                    .take()
                    .and_then(|away| Some(Box::new(away.since(began.time_ns)?)));
                let row = self.threads.row(member.row);
                row.between_ns = row.between_ns.saturating_add(waited_ns);
                all_ns = all_ns.saturating_add(waited_ns);
            }
            member.chain.path_ns = member.chain.path_ns.max(path_ns);
        }
        if let Some(alone) = &mut episode.alone {
            alone.waited_ns = all_ns;
        }
    }
}
