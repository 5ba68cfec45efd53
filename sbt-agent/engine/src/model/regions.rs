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

/// Nested regions that are kept for each thread, at most.
const MOST: usize = 8;

/// Stack depths are reported modulo this number, in words.
const DEPTHS: u32 = 1 << 24;

/// A region that a thread has begun and, as far as is known, not ended.
#[derive(Clone, Copy, Debug)]
struct Region {
    began: Clocks,
    depth: u32,
    /// The barrier at which the region's threads met; `None` before they first meet.
    team: Option<u64>,
}

/// A thread's state with respect to parallel regions.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    /// Regions that the thread has begun, the outermost first.
    begun: Vec<Region>,
    /// Whether the next barrier at which the thread arrives ends a region.
    pub ends_next: bool,
    /// Whether the runtime keeps the thread for another region: it was in a region that is over and
    /// that another thread began.
    pub is_kept: bool,
}

/// Whether a stack of depth `a` is as deep as a stack of depth `b`, or deeper.
const fn is_as_deep(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).is_multiple_of(DEPTHS) || a.wrapping_sub(b) % DEPTHS > DEPTHS / 2
}

impl Regions {
    /// The thread begins a region.
    pub fn begin(&mut self, began: Clocks, depth: u32) {
        // A region of a single thread ends without a barrier. Regions begun at this stack depth or
        // deeper must have returned.
        while self
            .begun
            .last()
            .is_some_and(|region| is_as_deep(region.depth, depth))
        {
            self.begun.pop();
        }
        if self.begun.len() == MOST {
            self.begun.remove(0);
        }
        self.begun.push(Region {
            began,
            depth,
            team: None,
        });
    }

    /// The thread arrives at a barrier of its team; `ends`: whether a region ends with this
    /// barrier. `None` if the thread has begun no region with this team.
    pub fn meet(&mut self, team: u64, ends: bool) -> Option<Met> {
        let known = self
            .begun
            .iter()
            .rposition(|region| region.team == Some(team));
        // Regions without a team inside of the outermost one are those of a single thread.
        let at = known.or_else(|| self.begun.iter().position(|region| region.team.is_none()))?;
        let region = &mut self.begun[at];
        let met = match region.team.replace(team) {
            None => Met::First(region.began),
            Some(_) => Met::Again,
        };
        if ends {
            self.begun.truncate(at);
        }
        Some(met)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    const fn first(time_ns: u64) -> Met {
        Met::First(Clocks::at(time_ns))
    }

    #[test]
    fn a_region_begins_once_and_ends_with_its_last_barrier() {
        let mut regions = Regions::default();
        assert_eq!(regions.meet(1, false), None);
        regions.begin(Clocks::at(10), 500);
        assert_eq!(regions.meet(1, false), Some(first(10)));
        assert_eq!(regions.meet(1, false), Some(Met::Again));
        assert_eq!(regions.meet(1, true), Some(Met::Again));
        assert_eq!(regions.meet(1, false), None);
        regions.begin(Clocks::at(20), 500);
        assert_eq!(regions.meet(1, true), Some(first(20)));
        assert_eq!(regions.meet(1, true), None);
    }

    #[test]
    fn those_of_a_single_thread_pass() {
        let mut regions = Regions::default();
        // A region begun at the same depth; then two inside of a region of several threads.
        for (time_ns, depth) in [(10, 500), (20, 500), (30, 400), (40, 400)] {
            regions.begin(Clocks::at(time_ns), depth);
        }
        assert_eq!(regions.meet(1, true), Some(first(20)));
        assert_eq!(regions.meet(1, true), None);
    }

    #[test]
    fn one_inside_of_another_has_a_team_of_its_own() {
        let mut regions = Regions::default();
        regions.begin(Clocks::at(10), 500);
        assert_eq!(regions.meet(1, false), Some(first(10)));
        regions.begin(Clocks::at(20), 400);
        assert_eq!(regions.meet(2, true), Some(first(20)));
        assert_eq!(regions.meet(1, true), Some(Met::Again));
    }

    #[test]
    fn depths_wrap_around() {
        assert!(is_as_deep(DEPTHS - 8, 8));
        assert!(!is_as_deep(8, DEPTHS - 8));
        assert!(is_as_deep(3, 3));
        let mut regions = Regions::default();
        for time_ns in 0..100 {
            regions.begin(Clocks::at(time_ns), 1000 - u32::try_from(time_ns).unwrap());
        }
        assert_eq!(regions.begun.len(), MOST);
    }
}
