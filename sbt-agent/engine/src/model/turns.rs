//! Counts arrivals that were not seen, by the barriers' own round numbers: totals stay exact
//! although the probes are off at times.
//!
//! Barriers of glibc and of GNU OpenMP number their rounds, and each thread of a team takes part in
//! every round. So the number that a thread finds at its next arrival tells how often the thread
//! arrived unseen.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::event::Tid;

/// Pairs of a barrier and a thread that are followed, at most; also the limit for untrusted
/// barriers and for processes not seen at any barrier.
const MAX_PAIRS: usize = 65_536;

/// Shortest possible round of a barrier, ns. If the number says that more rounds passed, the memory
/// no longer holds the same barrier. Two threads on one core need several times as long.
const ROUND_NS: u64 = 20;

/// A barrier: the process whose memory holds it, and its address.
type Key = (u32, u64);

#[derive(Clone, Copy, Debug)]
struct Turn {
    /// The round in which the thread arrives next, if no arrival goes unseen.
    next: u32,
    /// Gaps in the watching when the number was read.
    gaps: u64,
    /// Whether the number was read while the probes were off, because the thread was ending.
    off: bool,
    /// The time at which the number was read, ns; `None` if a recording does not say.
    found_ns: Option<u64>,
}

/// Derives unseen arrivals; see the module's documentation.
#[derive(Debug, Default)]
pub struct Turns {
    /// Whether [`Self::begin`] was called; all else is ignored before.
    on: bool,
    /// Whether the probes are off now.
    off: bool,
    gaps: u64,
    pairs: usize,
    barriers: FxHashMap<Key, FxHashMap<Tid, Turn>>,
    /// Barriers at which some rounds ran without some threads: the number does not tell how often a
    /// thread arrived.
    uneven: FxHashSet<Key>,
    /// Processes started after the probes first went off that have not been seen at any barrier.
    unheard: FxHashSet<u32>,
    /// Earliest time at which the probes may first have gone off, ns.
    first_off_ns: Option<u64>,
    /// Whether some arrivals were neither seen nor derived.
    inexact: bool,
}

impl Turns {
    /// Starts to follow round numbers.
    pub fn begin(&mut self) {
        self.on = true;
    }

    /// Notes that the probes go off. `heard_ns`: the last arrival that was seen.
    pub fn go_off(&mut self, heard_ns: u64) {
        self.off = true;
        self.first_off_ns.get_or_insert(heard_ns);
    }

    /// Notes that the probes are on again.
    pub const fn come_on(&mut self) {
        self.off = false;
    }

    /// Whether the probes are off at present.
    pub const fn is_off(&self) -> bool {
        self.off
    }

    /// Whether every arrival was seen or derived.
    pub const fn is_exact(&self) -> bool {
        !self.inexact
    }

    /// Notes something that cannot be derived; this matters only after a gap.
    pub fn doubt(&mut self) {
        self.inexact |= self.on && self.gaps > 0;
    }

    /// Notes a gap: the probes were off.
    pub fn gap(&mut self) {
        if self.on {
            self.gaps += 1;
        }
    }

    /// A process was started; `None` if it is not known which.
    pub fn fork(&mut self, child: Option<u32>, time_ns: u64) {
        if self.first_off_ns.is_none_or(|off_ns| time_ns < off_ns) {
            return;
        }
        match child {
            Some(child) if self.unheard.len() < MAX_PAIRS => _ = self.unheard.insert(child),
            _ => self.inexact |= self.on,
        }
    }

    /// A process has ended. If it was not seen at any barrier, its arrivals are unknown.
    pub fn end_process(&mut self, process: u32) {
        self.inexact |= self.on && self.unheard.remove(&process);
    }

    /// Forgets all round numbers.
    pub fn forget(&mut self) {
        self.barriers.clear();
        self.uneven.clear();
        self.pairs = 0;
        self.doubt();
    }

    /// A thread was seen to arrive at a barrier.
    pub fn arrive(&mut self, key: Key, (process, tid): (u32, Tid)) {
        if !self.on {
            return;
        }
        self.unheard.remove(&process);
        match self
            .barriers
            .get_mut(&key)
            .and_then(|turns| turns.get_mut(&tid))
        {
            Some(turn) => turn.next = turn.next.wrapping_add(1),
            // The barrier has no known round number for the thread.
            None => self.doubt(),
        }
    }

    /// A thread has ended; its final round numbers have already been passed to [`Self::find`].
    /// `has_arrived`: whether it was seen at any barrier. `born_ns`: when it began, if known.
    pub fn leave(&mut self, tid: Tid, has_arrived: bool, born_ns: Option<u64>) {
        if !self.on {
            return;
        }
        // A thread born after the probes first went off may have been at any barrier.
        self.inexact |= !has_arrived
            && born_ns
                .zip(self.first_off_ns)
                .is_some_and(|(born_ns, off_ns)| born_ns >= off_ns);
        let mut is_told = false;
        for turns in self.barriers.values_mut() {
            if let Some(turn) = turns.remove(&tid) {
                is_told = true;
                self.pairs -= 1;
                self.inexact |= turn.gaps != self.gaps || self.off && !turn.off;
            }
        }
        // None of its barriers tells how often the thread arrived meanwhile.
        self.inexact |= self.off && has_arrived && !is_told;
    }

    /// Ends the run. `living`: whether some threads have not ended.
    pub fn end(&mut self, living: bool) {
        self.inexact |= self.on && (self.off && living || !self.unheard.is_empty());
    }

    /// A barrier is initialised: its rounds start again.
    pub fn init(&mut self, key: Key) {
        if let Some(gone) = self.barriers.remove(&key) {
            self.pairs -= gone.len();
        }
        self.uneven.remove(&key);
    }

    /// Stops deriving arrivals at a barrier.
    fn distrust(&mut self, key: Key) {
        self.inexact = true;
        self.uneven.insert(key);
        if self.uneven.len() > MAX_PAIRS {
            *self = Self {
                inexact: true,
                off: self.off,
                ..Self::default()
            };
        }
    }

    /// A thread that is about to arrive at a barrier, or that ends, finds this round number.
    /// Returns how often the thread arrived there unseen. `time_ns`: when the number was read, if
    /// known.
    pub fn find(&mut self, key: Key, tid: Tid, round: u32, time_ns: Option<u64>) -> u64 {
        if !self.on {
            return 0;
        }
        let turns = self.barriers.entry(key).or_default();
        let (gaps, off) = (self.gaps, self.off);
        let turn = Turn {
            next: round,
            gaps,
            off,
            found_ns: time_ns,
        };
        let Some(was) = turns.insert(tid, turn) else {
            self.pairs += 1;
            if round != 0 {
                // Earlier arrivals may have gone unseen, also in a first gap that is not counted yet.
                self.doubt();
                self.inexact |= self.off;
            }
            if self.pairs > MAX_PAIRS {
                self.forget();
            }
            return 0;
        };
        let unseen = round.wrapping_sub(was.next);
        // The thread is in the running round, and its arrival, already seen, has yet to be
        // processed.
        if unseen == u32::MAX {
            turns.insert(tid, was);
            return 0;
        }
        // For a thread that ends while the probes are off, the current gap is not counted yet.
        let watched = gaps == was.gaps && !self.off;
        let most = time_ns
            .zip(was.found_ns)
            .map_or(u64::MAX, |(now, then)| now.saturating_sub(then) / ROUND_NS);
        if unseen > u32::MAX / 2 || unseen > 0 && watched || u64::from(unseen) > most {
            // Some thread skips rounds, or the memory holds another barrier or none.
            self.distrust(key);
            return 0;
        }
        if self.uneven.contains(&key) {
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
        assert_eq!(turns.find(KEY, 7, 10, None), 0);
        turns.arrive(KEY, (1, 7));
        turns.arrive(KEY, (1, 7));
        assert_eq!(turns.find(KEY, 7, 12, None), 0);
        turns.arrive(KEY, (1, 7));
        turns.gap();
        assert_eq!(turns.find(KEY, 7, 113, None), 100);
        turns.arrive(KEY, (1, 7));
        assert!(turns.is_exact());
        // The thread ends.
        turns.go_off(0);
        assert_eq!(turns.find(KEY, 7, 120, None), 6);
        assert!(turns.is_exact());
    }

    #[test]
    fn who_ends_untold_is_in_doubt() {
        let told = |ends: fn(&mut Turns)| {
            let mut turns = Turns::default();
            turns.begin();
            turns.find(KEY, 7, 10, None);
            turns.arrive(KEY, (1, 7));
            turns.go_off(0);
            ends(&mut turns);
            turns.is_exact()
        };
        assert!(told(|turns| {
            turns.find(KEY, 7, 20, None);
            turns.leave(7, true, None);
            turns.end(false);
        }));
        assert!(!told(|turns| turns.leave(7, true, None)));
        assert!(!told(|turns| turns.end(true)));
        // Its first number is that at its end.
        let mut turns = Turns::default();
        turns.begin();
        turns.go_off(0);
        assert_eq!(turns.find(KEY, 7, 3_000_000, None), 0);
        turns.leave(7, true, None);
        assert!(!turns.is_exact());
        // A thread whose barriers have no number, and a thread that was at no barrier.
        let untold = |has_arrived| {
            let mut turns = Turns::default();
            turns.begin();
            turns.go_off(0);
            turns.leave(8, has_arrived, None);
            turns.is_exact()
        };
        assert!(!untold(true) && untold(false));
        // The thread was not seen since the last gap.
        assert!(!told(|turns| {
            turns.gap();
            turns.come_on();
            turns.leave(7, true, None);
        }));
    }

    #[test]
    fn who_came_while_nobody_looked_and_was_not_seen_is_in_doubt() {
        let ended = |born_ns| {
            let mut turns = Turns::default();
            turns.begin();
            turns.go_off(100);
            turns.gap();
            turns.come_on();
            turns.leave(8, false, born_ns);
            turns.is_exact()
        };
        assert!(ended(Some(99)) && ended(None));
        assert!(!ended(Some(100)));
    }

    #[test]
    fn of_uneven_barriers_nothing_is_reckoned_any_more() {
        let mut turns = Turns::default();
        turns.begin();
        turns.find(KEY, 7, 3, None);
        turns.arrive(KEY, (1, 7));
        // The thread skipped a round while the probes were on.
        assert_eq!(turns.find(KEY, 7, 9, None), 0);
        turns.arrive(KEY, (1, 7));
        turns.gap();
        assert_eq!(turns.find(KEY, 7, 109, None), 0);
        assert!(!turns.is_exact());
        turns.init(KEY);
        turns.find(KEY, 7, 0, None);
        turns.arrive(KEY, (1, 7));
        turns.gap();
        assert_eq!(turns.find(KEY, 7, 50, None), 49);
    }

    #[test]
    fn more_rounds_than_there_was_time_for_are_none() {
        let reckoned = |round, time_ns| {
            let mut turns = Turns::default();
            turns.begin();
            turns.find(KEY, 7, 0, Some(1_000));
            turns.arrive(KEY, (1, 7));
            turns.gap();
            (turns.find(KEY, 7, round, time_ns), turns.is_exact())
        };
        assert_eq!(reckoned(51, Some(2_000)), (50, true));
        assert_eq!(reckoned(52, Some(2_000)), (0, false));
        assert_eq!(reckoned(52, None), (51, true));
    }

    #[test]
    fn processes_that_came_while_nobody_looked_and_were_not_seen_are_in_doubt() {
        let told = |child, ends: fn(&mut Turns)| {
            let mut turns = Turns::default();
            turns.begin();
            turns.go_off(100);
            turns.gap();
            turns.come_on();
            turns.fork(child, 100);
            ends(&mut turns);
            turns.is_exact()
        };
        let nobody: fn(&mut Turns) = |turns| turns.end_process(5);
        assert!(!told(Some(5), nobody) && !told(None, nobody));
        assert!(
            !told(Some(5), |turns| turns.end(false)),
            "it is there still"
        );
        assert!(told(Some(5), |turns| {
            turns.find(KEY, 7, 0, None);
            turns.arrive(KEY, (5, 7));
            turns.end_process(5);
            turns.end(false);
        }));
        assert!(told(Some(5), |_| {}), "it may be seen yet");
        // The thread arrived before.
        let mut turns = Turns::default();
        turns.begin();
        turns.fork(Some(5), 99);
        turns.go_off(100);
        turns.end_process(5);
        assert!(turns.is_exact());
    }

    #[test]
    fn what_tells_nothing_is_bounded() {
        let mut turns = Turns::default();
        turns.begin();
        for object in 0..=MAX_PAIRS as u64 {
            turns.distrust((1, object));
        }
        assert!(turns.uneven.is_empty() && !turns.is_exact());
        turns.find(KEY, 7, 3, None);
        turns.gap();
        assert_eq!(
            turns.find(KEY, 7, 9, None),
            0,
            "nothing is reckoned any more"
        );
    }

    #[test]
    fn numbers_go_round() {
        let mut turns = Turns::default();
        turns.begin();
        turns.find(KEY, 7, u32::MAX - 1, None);
        turns.arrive(KEY, (1, 7));
        turns.gap();
        assert_eq!(turns.find(KEY, 7, 4, None), 5);
        assert!(turns.is_exact());
    }

    #[test]
    fn who_ends_inside_of_a_barrier_was_seen_to_come() {
        let mut turns = Turns::default();
        turns.begin();
        turns.find(KEY, 7, 3, None);
        turns.arrive(KEY, (1, 7));
        assert_eq!(turns.find(KEY, 7, 3, None), 0);
        assert!(turns.is_exact());
    }

    #[test]
    fn what_cannot_be_reckoned_is_doubted() {
        // A pool with more threads than take part in a round.
        let mut turns = Turns::default();
        turns.begin();
        turns.find(KEY, 7, 3, None);
        turns.arrive(KEY, (1, 7));
        turns.find(KEY, 7, 9, None);
        assert!(!turns.is_exact());
        // A barrier without a round number, after a gap.
        let mut turns = Turns::default();
        turns.begin();
        turns.arrive(KEY, (1, 7));
        assert!(turns.is_exact());
        turns.gap();
        turns.arrive(KEY, (1, 7));
        assert!(!turns.is_exact());
        // A barrier that was in use before it was followed.
        let mut turns = Turns::default();
        turns.begin();
        turns.gap();
        turns.find(KEY, 7, 3, None);
        assert!(!turns.is_exact());
        // A new barrier.
        let mut turns = Turns::default();
        turns.begin();
        turns.gap();
        turns.find(KEY, 7, 0, None);
        turns.arrive(KEY, (1, 7));
        assert!(turns.is_exact());
        turns.init(KEY);
        turns.find(KEY, 7, 0, None);
        assert!(turns.is_exact());
    }
}
