//! Whether a function in which threads spin is a barrier, by how threads enter and leave it. The
//! function's code has shown before that this may be so.
//!
//! At a barrier nobody leaves before all have come, the same threads come in each round, and the
//! first leaves just after the last has come. Now and then all have left before the first comes
//! again; where threads take turns somebody is always inside. A lock lets threads go alone; a queue
//! or a flag, too, or long after the last has come, when another thread has done its part.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::Tid;

/// Rounds in a row that prove a barrier.
const ENOUGH: u32 = 8;

/// Rounds in a row after which no more proof is expected.
const TOO_MANY: u32 = 64;

/// Of this many rounds in a row, at least one begins when all have left the round before: less if
/// threads lack CPUs, or the phases are very short.
const APART: u32 = 8;

/// Rounds unlike the one before that refute a barrier, if they are more than a fifth of all.
/// Watching begins in the middle of a round, and a team may change its size.
const MAX_BROKEN: u32 = 6;

/// The longest time from the last arrival to the first departure, ns, with which the last arrival
/// can have released the threads.
const PROMPT_NS: u64 = 100_000;

/// The most objects that are tried together.
const MAX_OBJECTS: usize = 256;

/// Whether a function is a barrier, by its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Too little was seen.
    Open,
    /// The function is a barrier.
    Barrier,
    /// Much was seen, which fits a barrier, and threads that take turns.
    Prompt,
    /// Much was seen, which fits a barrier and something else.
    Unclear,
    /// The function is used otherwise.
    Other,
}

/// The rounds of one object.
#[derive(Debug, Default)]
struct Rounds {
    /// The threads that have come since the last round.
    come: BTreeSet<Tid>,
    /// When the last of these came, ns.
    last_ns: u64,
    /// A thread came while some had not left yet.
    is_early: bool,
    /// The members of the last round.
    members: BTreeSet<Tid>,
    /// The members that have not left yet.
    inside: BTreeSet<Tid>,
    all: u32,
    broken: u32,
    /// Rounds in a row with the same members; in how many of these all had left before, and in how
    /// many the first left promptly.
    in_a_row: u32,
    apart: u32,
    prompt: u32,
    /// Rounds in a row, as above, after which all left promptly.
    together: u32,
    /// When the last thread of the last round came, ns.
    complete_ns: u64,
}

impl Rounds {
    fn arrive(&mut self, tid: Tid, time_ns: u64) {
        self.inside.remove(&tid);
        self.is_early |= !self.inside.is_empty();
        self.come.insert(tid);
        self.last_ns = time_ns;
    }

    fn depart(&mut self, tid: Tid, time_ns: u64) {
        if self.inside.remove(&tid) {
            let is_prompt = time_ns.saturating_sub(self.complete_ns) <= PROMPT_NS;
            self.together += u32::from(is_prompt && self.inside.is_empty());
            return;
        }
        if !self.come.contains(&tid) {
            return;
        }
        self.complete_ns = self.last_ns;
        let members = std::mem::take(&mut self.come);
        let is_early = std::mem::take(&mut self.is_early);
        self.all = self.all.saturating_add(1);
        if members.len() < 2 || members != self.members {
            self.broken += u32::from(!self.members.is_empty());
            (self.in_a_row, self.apart) = (0, 0);
            (self.prompt, self.together) = (0, 0);
        }
        if members.len() >= 2 {
            self.in_a_row = self.in_a_row.saturating_add(1);
            self.apart += u32::from(!is_early);
            let is_prompt = time_ns.saturating_sub(self.last_ns) <= PROMPT_NS;
            self.prompt += u32::from(is_prompt);
        }
        self.inside.clone_from(&members);
        self.inside.remove(&tid);
        self.members = members;
    }

    fn is_left_together(&self) -> Option<bool> {
        if 2 * self.together >= self.in_a_row {
            return Some(true);
        }
        // Threads that lack a CPU leave late. Then most rounds begin after all have left. So do those of
        // a lock of two threads if one always comes again before the other has seen that it may go.
        let may_lack_cpus = self.members.len() > 2 && 2 * self.apart >= self.in_a_row;
        (self.in_a_row >= TOO_MANY).then_some(may_lack_cpus)
    }

    fn verdict(&self) -> Verdict {
        let is_apart = self.apart >= 2 && self.apart >= self.in_a_row / APART;
        let is_prompt = self.prompt > self.in_a_row / 2;
        if self.broken >= MAX_BROKEN && self.broken > self.all / 5 {
            Verdict::Other
        } else if self.in_a_row >= ENOUGH && is_apart && is_prompt {
            Verdict::Barrier
        } else if self.in_a_row >= TOO_MANY {
            // Where threads lack CPUs, nobody may ever be late enough for all to have left.
            if self.prompt > self.in_a_row / 8 * 7 {
                Verdict::Prompt
            } else {
                Verdict::Unclear
            }
        } else {
            Verdict::Open
        }
    }
}

/// The use of one function so far.
#[derive(Debug, Default)]
pub struct Trial {
    objects: BTreeMap<u64, Rounds>,
    /// The object at which each thread has come last.
    at: BTreeMap<Tid, u64>,
}

impl Trial {
    /// A thread enters the function, with this object.
    pub fn arrive(&mut self, tid: Tid, time_ns: u64, object: u64) {
        if self.objects.len() >= MAX_OBJECTS && !self.objects.contains_key(&object) {
            return;
        }
        self.at.insert(tid, object);
        let rounds = self.objects.entry(object).or_default();
        rounds.arrive(tid, time_ns);
    }

    /// A thread leaves the function. Returns whether it was seen to enter.
    pub fn depart(&mut self, tid: Tid, time_ns: u64) -> bool {
        let Some(object) = self.at.remove(&tid) else {
            return false;
        };
        if let Some(rounds) = self.objects.get_mut(&object) {
            rounds.depart(tid, time_ns);
        }
        true
    }

    /// The verdict by the use so far: one object at which threads meet proves a barrier, unless another
    /// object is used otherwise.
    pub fn verdict(&self) -> Verdict {
        let mut verdict = Verdict::Open;
        for rounds in self.objects.values() {
            match rounds.verdict() {
                Verdict::Other => return Verdict::Other,
                Verdict::Barrier => verdict = Verdict::Barrier,
                other if verdict == Verdict::Open => verdict = other,
                _ => {}
            }
        }
        verdict
    }

    /// Whether all threads leave together where the use is that of a barrier: for some rounds a lock
    /// looks like one by chance, but of those that wait for a lock only the first leaves at once.
    /// `None`: not known yet.
    pub fn is_left_together(&self) -> Option<bool> {
        let all = self.objects.values();
        let fitting = all.filter(|rounds| rounds.verdict() == Verdict::Barrier);
        let mut known = fitting.filter_map(Rounds::is_left_together).peekable();
        known.peek()?;
        Some(known.any(|is_so| is_so))
    }

    /// The objects with which threads have entered the function.
    pub fn objects(&self) -> impl Iterator<Item = u64> {
        self.objects.keys().copied()
    }

    /// Whether each object was used by one thread alone.
    pub fn is_lonely(&self) -> bool {
        let mut all = self.objects.values();
        all.all(|rounds| rounds.members.len() < 2 && rounds.come.len() < 2)
    }

    /// Whether any thread was seen to enter the function.
    pub fn is_used(&self) -> bool {
        !self.objects.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    /// Feeds (thread, whether it enters, µs).
    fn trial(events: impl IntoIterator<Item = (Tid, bool, u64)>) -> Trial {
        let mut trial = Trial::default();
        for (tid, enters, us) in events {
            if enters {
                trial.arrive(tid, us * US, 0x1000);
            } else {
                trial.depart(tid, us * US);
            }
        }
        trial
    }

    fn tried(events: impl IntoIterator<Item = (Tid, bool, u64)>) -> Verdict {
        trial(events).verdict()
    }

    fn rounds(number: u64, round: impl Fn(u64) -> Vec<(Tid, bool, u64)>) -> Vec<(Tid, bool, u64)> {
        let all = (0..number).flat_map(|n| {
            let events = round(n).into_iter();
            events.map(move |(tid, enters, us)| (tid, enters, n * 1000 + us))
        });
        all.collect()
    }

    fn barrier(_: u64) -> Vec<(Tid, bool, u64)> {
        vec![
            (1, true, 100),
            (2, true, 300),
            (3, true, 500),
            (3, false, 502),
            (1, false, 503),
            (2, false, 504),
        ]
    }

    /// Two threads come; the last leaves at once, the other later: at a barrier for want of a CPU, or
    /// at a lock that the last has until then.
    fn late_for_one(_: u64) -> Vec<(Tid, bool, u64)> {
        vec![
            (1, true, 100),
            (2, true, 300),
            (2, false, 302),
            (1, false, 700),
        ]
    }

    /// A quick thread lets the lock go and comes again before the slow one has seen that it may go.
    #[test]
    fn two_unlike_threads_at_a_lock_do_not_leave_together() {
        let tried = trial(rounds(100, late_for_one));
        assert_eq!(tried.verdict(), Verdict::Barrier);
        assert_eq!(tried.is_left_together(), Some(false));
        assert_eq!(trial(rounds(20, late_for_one)).is_left_together(), None);
    }

    #[test]
    fn threads_that_leave_when_all_have_come_meet_at_a_barrier() {
        assert_eq!(tried(rounds(7, barrier)), Verdict::Open);
        assert_eq!(tried(rounds(8, barrier)), Verdict::Barrier);
        // The first round is seen in part.
        let begun = [(3, true, 0), (3, false, 2)];
        let later = rounds(9, barrier);
        assert_eq!(tried(begun.into_iter().chain(later)), Verdict::Barrier);
    }

    #[test]
    fn a_thread_that_leaves_late_changes_nothing() {
        assert_eq!(tried(rounds(8, late_for_one)), Verdict::Barrier);
    }

    #[test]
    fn threads_that_take_turns_meet_at_no_barrier() {
        // Each lets the other go, and waits: somebody is always inside.
        let turns = |n| {
            let (a, b) = if n % 2 == 0 { (1, 2) } else { (2, 1) };
            vec![(a, true, 500), (b, false, 502)]
        };
        let events = std::iter::once((2, true, 0)).chain(rounds(200, turns));
        assert_eq!(tried(events), Verdict::Prompt);
    }

    #[test]
    fn a_lock_is_no_barrier() {
        let free = |n| {
            let tid = 1 + u32::try_from(n % 3).unwrap();
            vec![(tid, true, 500), (tid, false, 501)]
        };
        assert_eq!(tried(rounds(100, free)), Verdict::Other);
        let contended = |n| {
            let (a, b) = if n % 2 == 0 { (1, 2) } else { (2, 1) };
            vec![(a, false, 10), (a, true, 400), (b, true, 0)]
        };
        assert_ne!(tried(rounds(200, contended)), Verdict::Barrier);
    }

    #[test]
    fn threads_that_leave_a_lock_one_after_the_other_do_not_leave_together() {
        assert_eq!(trial(rounds(8, barrier)).is_left_together(), Some(true));
        // Each has the lock for 500 µs, lets it go and comes again before the other is seen to have
        // it, or just after.
        let contended = |n| {
            let (a, b) = if n % 2 == 0 { (1, 2) } else { (2, 1) };
            if n % 3 == 0 {
                vec![(b, false, 502), (a, true, 503)]
            } else {
                vec![(a, true, 500), (b, false, 502)]
            }
        };
        let mut events = vec![(1, true, 0), (1, false, 1), (2, true, 2)];
        events.extend(rounds(100, contended));
        assert_eq!(trial(events).is_left_together(), None, "no barrier");
        // By chance the other is seen to have it first, several times.
        let lucky = |n| {
            let (a, b) = if n % 2 == 0 { (1, 2) } else { (2, 1) };
            vec![(b, false, 502), (a, true, 503)]
        };
        let mut events = vec![(1, true, 0), (1, false, 1), (2, true, 2)];
        events.extend(rounds(100, lucky));
        let found = trial(events);
        assert_ne!(
            found.is_left_together(),
            Some(true),
            "{:?}",
            found.verdict()
        );
        // Threads that leave a barrier late, for want of a CPU. Two might be at a lock.
        let late = |_| {
            vec![
                (1, true, 100),
                (2, true, 200),
                (3, true, 300),
                (3, false, 302),
                (1, false, 700),
                (2, false, 800),
            ]
        };
        assert_eq!(trial(rounds(8, late)).is_left_together(), None);
        assert_eq!(trial(rounds(70, late)).is_left_together(), Some(true));
    }

    #[test]
    fn workers_that_wait_for_more_work_meet_at_no_barrier() {
        let dock = |_| {
            vec![
                (1, true, 100),
                (2, true, 300),
                (1, false, 800),
                (2, false, 801),
            ]
        };
        assert_eq!(tried(rounds(63, dock)), Verdict::Open);
        assert_eq!(tried(rounds(64, dock)), Verdict::Unclear);
    }

    #[test]
    fn a_team_that_changes_is_tried_longer() {
        let mut events = rounds(4, barrier);
        let two = |_| {
            vec![
                (1, true, 100),
                (2, true, 300),
                (2, false, 302),
                (1, false, 303),
            ]
        };
        let later = rounds(7, two);
        events.extend(
            later
                .iter()
                .map(|(tid, enters, us)| (*tid, *enters, us + 5000)),
        );
        assert_eq!(tried(events.clone()), Verdict::Open);
        let one = two(0).into_iter();
        events.extend(one.map(|(tid, enters, us)| (tid, enters, us + 20_000)));
        assert_eq!(tried(events), Verdict::Barrier);
    }

    #[test]
    fn each_object_has_rounds_of_its_own() {
        let mut trial = Trial::default();
        for n in 0..8 {
            for (object, tids) in [(0x10, [1, 2]), (0x20, [3, 4])] {
                for (tid, us) in tids.into_iter().zip([0, 5]) {
                    trial.arrive(tid, (n * 100 + us) * US, object);
                }
            }
            for tid in [2, 1, 4, 3] {
                assert!(trial.depart(tid, (n * 100 + 6) * US));
            }
        }
        assert_eq!(trial.verdict(), Verdict::Barrier);
        assert!(!trial.depart(9, 0));
    }
}
