//! Finds arrivals that no breakpoint reported: a barrier of glibc counts each arrival in its
//! memory.

use rustc_hash::FxHashMap;

/// The largest number of barriers that are followed.
const MOST: usize = 4096;

/// The content of a glibc barrier's memory (`struct pthread_barrier`, nptl/internaltypes.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Arrivals since the barrier was made, or since its counter began anew after 2³¹ arrivals.
    pub arrived: u32,
    /// How many of the arrivals belong to completed rounds.
    pub round: u32,
    /// Number of threads that meet.
    pub count: u32,
    /// Not 0 if several processes may use the barrier.
    pub shared: u32,
}

impl From<[u32; 4]> for Held {
    fn from([arrived, round, count, shared]: [u32; 4]) -> Self {
        Self {
            arrived,
            round,
            count,
            shared,
        }
    }
}

impl Held {
    /// Whether these words may be a barrier: something else may lie there by now.
    const fn may_be(self) -> bool {
        self.count != 0 && self.round.is_multiple_of(self.count) && self.round <= self.arrived
    }
}

#[derive(Clone, Copy, Debug)]
struct Witness {
    /// The barrier's count before the first arrival that was seen, plus arrivals already reported
    /// missing.
    before: u32,
    /// Arrivals that were seen. The barrier may not have counted all of them yet.
    seen: u32,
    count: u32,
    /// How many threads at most were inside when the barrier was first looked at.
    doubtful: u32,
}

impl Witness {
    /// `from_start`: whether all arrivals so far should have been seen.
    const fn new(held: Held, from_start: bool) -> Self {
        // Before the very first arrival no thread can be inside.
        let is_first = from_start || held.arrived == 0;
        Self {
            before: if from_start { 0 } else { held.arrived },
            seen: 0,
            count: held.count,
            doubtful: if is_first { 0 } else { held.count },
        }
    }

    /// The number of arrivals that were not seen since the last look. `None` if another barrier
    /// lies there by now.
    fn missing(&mut self, held: Held) -> Option<u32> {
        let is_it = held.may_be() && held.count == self.count && held.arrived >= self.before;
        let came = held.arrived.checked_sub(self.before).filter(|_| is_it)?;
        let missing = came.saturating_sub(self.seen);
        if missing <= self.doubtful {
            return Some(0);
        }
        self.before += missing;
        Some(missing)
    }
}

/// Barriers in the memory of one process.
#[derive(Debug, Default)]
pub struct Witnesses {
    /// By address of the barrier.
    all: FxHashMap<u64, Witness>,
    /// Whether the program has been watched since its start.
    from_start: bool,
}

impl Witnesses {
    /// A thread arrives; the barrier has not counted it yet. Returns how many earlier arrivals were
    /// not seen.
    pub fn arrive(&mut self, object: u64, held: Held) -> u64 {
        // A shared barrier is not followed: threads of processes that are not watched may use it.
        let is_new = !self.all.contains_key(&object);
        if held.shared != 0 || !held.may_be() || is_new && self.all.len() >= MOST {
            return 0;
        }
        let from_start = self.from_start;
        let new = || Witness::new(held, from_start);
        let witness = self.all.entry(object).or_insert_with(new);
        let missing = witness.missing(held).unwrap_or_else(|| {
            *witness = new();
            witness.missing(held).unwrap_or(0)
        });
        witness.seen += 1;
        missing.into()
    }

    /// How many more arrivals at all barriers were not seen. `held` reads a barrier.
    pub fn look(&mut self, held: impl Fn(u64) -> Option<Held>) -> u64 {
        let mut missing = 0;
        self.all.retain(|object, witness| {
            let more = held(*object).and_then(|held| witness.missing(held));
            missing += u64::from(more.unwrap_or(0));
            more.is_some()
        });
        missing
    }

    /// Forgets all barriers, because arrivals are or were not seen for a while.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Notes that the program begins now, and is watched from its first instruction on.
    pub const fn begin(&mut self) {
        self.from_start = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(arrived: u32, round: u32) -> Held {
        [arrived, round, 4, 0].into()
    }

    #[test]
    fn who_came_unseen_is_counted_once() {
        let mut all = Witnesses::default();
        assert_eq!(all.arrive(1, held(0, 0)), 0);
        // Three arrivals are seen before the barrier counts the first.
        for arrived in [0, 0, 1] {
            assert_eq!(all.arrive(1, held(arrived, 0)), 0);
        }
        assert_eq!(all.look(|_| Some(held(4, 4))), 0);
        assert_eq!(all.look(|_| Some(held(9, 8))), 5);
        assert_eq!(all.look(|_| Some(held(9, 8))), 0);
        assert_eq!(all.arrive(1, held(10, 8)), 1);
        assert_eq!(all.arrive(1, held(10, 8)), 0);
        assert_eq!(all.look(|_| Some(held(12, 12))), 0);
    }

    #[test]
    fn who_was_on_the_way_when_watching_began_is_none() {
        let mut all = Witnesses::default();
        assert_eq!(all.arrive(1, held(40, 40)), 0);
        // Three other threads had passed the breakpoint's place before, and are counted after that.
        assert_eq!(all.look(|_| Some(held(44, 44))), 0);
        for arrived in 44..48 {
            assert_eq!(all.arrive(1, held(arrived, 44)), 0);
        }
        assert_eq!(all.look(|_| Some(held(48, 48))), 0);
        assert_eq!(all.look(|_| Some(held(52, 52))), 7, "with those at first");
    }

    #[test]
    fn of_a_program_that_was_watched_from_its_start_all_is_missing_that_was_not_seen() {
        let mut all = Witnesses::default();
        all.begin();
        assert_eq!(all.arrive(1, held(9, 8)), 9);
        assert_eq!(all.arrive(1, held(10, 8)), 0);
        // The barrier is made anew, in the same place.
        assert_eq!(all.arrive(1, held(2, 0)), 2);
        all.forget();
        assert_eq!(all.arrive(1, held(20, 20)), 0);
    }

    #[test]
    fn another_thing_in_its_place_says_nothing() {
        for other in [
            Some([0, 0, 4, 0]),
            Some([100, 100, 5, 0]),
            Some([100, 99, 4, 0]),
            Some([96, 100, 4, 0]),
            Some([100, 100, 0, 0]),
            None,
        ] {
            let mut all = Witnesses::default();
            all.arrive(1, held(40, 40));
            let other = other.map(Held::from);
            assert_eq!(all.look(|_| other), 0, "{other:?}");
            assert_eq!(all.look(|_| Some(held(1000, 1000))), 0);
        }
        // The barrier is made anew, and followed from there on.
        let mut all = Witnesses::default();
        all.arrive(1, held(40, 40));
        assert_eq!(all.arrive(1, held(0, 0)), 0);
        assert_eq!(all.look(|_| Some(held(5, 4))), 4);
        // A barrier of several processes.
        let mut all = Witnesses::default();
        assert_eq!(all.arrive(2, [0, 0, 4, 128].into()), 0);
        assert_eq!(all.look(|_| Some([400, 400, 4, 128].into())), 0);
        all.arrive(3, held(0, 0));
        all.forget();
        assert_eq!(all.look(|_| Some(held(5000, 5000))), 0);
    }
}
