//! Arrivals that nobody saw, by what barriers themselves count: exact totals while
//! the probes are off for spans of time.
//!
//! A barrier of glibc or of GNU OpenMP numbers its rounds, and a thread of a team
//! takes part in each. So the number that a thread finds when it comes next says how
//! often it was there meanwhile.

use rustc_hash::FxHashMap;

use crate::event::Tid;

/// More pairs of a barrier and a thread are not followed.
const MAX_PAIRS: usize = 65_536;

/// Whose barrier, and where.
type Key = (u32, u64);

#[derive(Clone, Copy, Debug)]
struct Turn {
    /// The round in which the thread comes next, if nothing goes unseen.
    next: u32,
    /// How many gaps in the watching there had been.
    gaps: u64,
    /// It was found while the probes were off: the thread was ending.
    off: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Turns {
    /// Nothing is done before.
    on: bool,
    /// The probes are off at present.
    off: bool,
    gaps: u64,
    pairs: usize,
    barriers: FxHashMap<Key, FxHashMap<Tid, Turn>>,
    /// Some arrivals can neither have been seen nor reckoned.
    inexact: bool,
}

impl Turns {
    /// Begins to follow.
    pub fn begin(&mut self) {
        self.on = true;
    }

    /// The probes go off, or on.
    pub const fn set_off(&mut self, off: bool) {
        self.off = off;
    }

    /// Whether the probes are off at present.
    pub const fn is_off(&self) -> bool {
        self.off
    }

    /// Whether every arrival was seen or is reckoned.
    pub const fn is_exact(&self) -> bool {
        !self.inexact
    }

    /// Something came that cannot be reckoned.
    pub fn doubt(&mut self) {
        self.inexact |= self.on && self.gaps > 0;
    }

    /// The probes were off.
    pub fn gap(&mut self) {
        if self.on {
            self.gaps += 1;
        }
    }

    /// Nothing is known any more of where threads stand.
    pub fn forget(&mut self) {
        self.barriers.clear();
        self.pairs = 0;
        self.doubt();
    }

    /// A thread comes to a barrier, and that is seen.
    pub fn arrive(&mut self, key: Key, tid: Tid) {
        if !self.on {
            return;
        }
        match self
            .barriers
            .get_mut(&key)
            .and_then(|turns| turns.get_mut(&tid))
        {
            Some(turn) => turn.next = turn.next.wrapping_add(1),
            // Its barrier does not say how often it has been there.
            None => self.doubt(),
        }
    }

    /// A thread has ended, and where its barriers told how often it was there that has
    /// been found. `has_arrived`: it was seen at some barrier.
    pub fn leave(&mut self, tid: Tid, has_arrived: bool) {
        if !self.on {
            return;
        }
        let mut is_told = false;
        for turns in self.barriers.values_mut() {
            if let Some(turn) = turns.remove(&tid) {
                is_told = true;
                self.pairs -= 1;
                self.inexact |= turn.gaps != self.gaps || self.off && !turn.off;
            }
        }
        // Its barriers do not say how often it was there since.
        self.inexact |= self.off && has_arrived && !is_told;
    }

    /// Nothing more will come; `living`: some threads have not ended.
    pub fn end(&mut self, living: bool) {
        self.inexact |= self.on && self.off && living;
    }

    /// A barrier begins anew.
    pub fn init(&mut self, key: Key) {
        if let Some(gone) = self.barriers.remove(&key) {
            self.pairs -= gone.len();
        }
    }

    /// A thread is about to come to a barrier, or ends, and finds so many rounds over:
    /// how often it was there unseen.
    pub fn find(&mut self, key: Key, tid: Tid, round: u32) -> u64 {
        if !self.on {
            return 0;
        }
        let turns = self.barriers.entry(key).or_default();
        let (gaps, off) = (self.gaps, self.off);
        let turn = Turn {
            next: round,
            gaps,
            off,
        };
        let Some(was) = turns.insert(tid, turn) else {
            self.pairs += 1;
            if round != 0 {
                // It may have been there while nobody looked.
                self.doubt();
            }
            if self.pairs > MAX_PAIRS {
                self.forget();
            }
            return 0;
        };
        let unseen = round.wrapping_sub(was.next);
        // It is in the round that is under way: what is seen of it comes first.
        if unseen == u32::MAX {
            turns.insert(tid, was);
            return 0;
        }
        // A thread that ends while they are off has no gap behind it yet.
        let watched = gaps == was.gaps && !self.off;
        if unseen > u32::MAX / 2 || unseen > 0 && watched {
            // Not every thread takes part in each round, or the barrier is another.
            self.inexact = true;
            return 0;
        }
        u64::from(unseen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = (1, 0x1000);

    #[test]
    fn what_happened_in_a_gap_is_known_by_the_round() {
        let mut turns = Turns::default();
        turns.begin();
        assert_eq!(turns.find(KEY, 7, 10), 0);
        turns.arrive(KEY, 7);
        turns.arrive(KEY, 7);
        assert_eq!(turns.find(KEY, 7, 12), 0);
        turns.arrive(KEY, 7);
        turns.gap();
        assert_eq!(turns.find(KEY, 7, 113), 100);
        turns.arrive(KEY, 7);
        assert!(turns.is_exact());
        // At its end.
        turns.set_off(true);
        assert_eq!(turns.find(KEY, 7, 120), 6);
        assert!(turns.is_exact());
    }

    #[test]
    fn who_ends_untold_is_in_doubt() {
        let told = |ends: fn(&mut Turns)| {
            let mut turns = Turns::default();
            turns.begin();
            turns.find(KEY, 7, 10);
            turns.arrive(KEY, 7);
            turns.set_off(true);
            ends(&mut turns);
            turns.is_exact()
        };
        assert!(told(|turns| {
            turns.find(KEY, 7, 20);
            turns.leave(7, true);
            turns.end(false);
        }));
        assert!(!told(|turns| turns.leave(7, true)));
        assert!(!told(|turns| turns.end(true)));
        // One of which no barrier tells; and one that was at none.
        let untold = |has_arrived| {
            let mut turns = Turns::default();
            turns.begin();
            turns.set_off(true);
            turns.leave(8, has_arrived);
            turns.is_exact()
        };
        assert!(!untold(true) && untold(false));
        // It was not seen since the last gap.
        assert!(!told(|turns| {
            turns.gap();
            turns.set_off(false);
            turns.leave(7, true);
        }));
    }

    #[test]
    fn numbers_go_round() {
        let mut turns = Turns::default();
        turns.begin();
        turns.find(KEY, 7, u32::MAX - 1);
        turns.arrive(KEY, 7);
        turns.gap();
        assert_eq!(turns.find(KEY, 7, 4), 5);
        assert!(turns.is_exact());
    }

    #[test]
    fn who_ends_inside_of_a_barrier_was_seen_to_come() {
        let mut turns = Turns::default();
        turns.begin();
        turns.find(KEY, 7, 3);
        turns.arrive(KEY, 7);
        assert_eq!(turns.find(KEY, 7, 3), 0);
        assert!(turns.is_exact());
    }

    #[test]
    fn what_cannot_be_reckoned_is_doubted() {
        // A pool of more threads than take part.
        let mut turns = Turns::default();
        turns.begin();
        turns.find(KEY, 7, 3);
        turns.arrive(KEY, 7);
        turns.find(KEY, 7, 9);
        assert!(!turns.is_exact());
        // A barrier that says nothing, after a gap.
        let mut turns = Turns::default();
        turns.begin();
        turns.arrive(KEY, 7);
        assert!(turns.is_exact());
        turns.gap();
        turns.arrive(KEY, 7);
        assert!(!turns.is_exact());
        // One that was in use before anybody followed it.
        let mut turns = Turns::default();
        turns.begin();
        turns.gap();
        turns.find(KEY, 7, 3);
        assert!(!turns.is_exact());
        // And one that is new.
        let mut turns = Turns::default();
        turns.begin();
        turns.gap();
        turns.find(KEY, 7, 0);
        turns.arrive(KEY, 7);
        assert!(turns.is_exact());
        turns.init(KEY);
        turns.find(KEY, 7, 0);
        assert!(turns.is_exact());
    }
}
