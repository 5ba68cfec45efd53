//! The parallel regions that a thread has begun.

use super::parts::Met;
use crate::event::Clocks;

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
    /// Depth of the stack where the last region that has ended began.
    ended: Option<u32>,
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
            self.ended = Some(self.begun[at].depth);
            self.begun.truncate(at);
        }
        Some(met)
    }

    /// Whether the region that begins at this depth is inside of the one that has ended last, as
    /// where a task that a thread executes at the end of a region begins one.
    pub fn is_inside_of_the_last(&self, depth: u32) -> bool {
        self.ended.is_some_and(|ended| !is_as_deep(ended, depth))
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
