//! Decides when to look at barriers that stand still, and when a hang is over. Pure.

use sbt_engine::model::still::{Since, Still};

/// The time from the first to the second look while nothing moves, ns; it doubles with each look.
const FIRST_PAUSE_NS: u64 = 2_000_000_000;
/// The longest time between two looks, ns. A look stops the threads for moments.
const LONGEST_PAUSE_NS: u64 = 30_000_000_000;

/// The longest time from a change to the next look, ns.
const SETTLED_NS: u64 = 500_000_000;

/// How long to wait when nothing stands still any more but no thread was seen to arrive, ns: the
/// process may be about to end.
const GONE_NS: u64 = 1_000_000_000;

/// The result of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookResult<R> {
    /// The findings of the look.
    pub what: R,
    /// Nothing moves: the program is stuck, not merely slow.
    pub is_stuck: bool,
}

/// How a standstill goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The standstill still lasts.
    Lasts,
    /// The standstill is over: threads have arrived, or run again.
    Over,
    /// Unknown: it was no longer watched.
    Unknown,
}

/// A standstill, present or past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hang<R> {
    /// The result of the last look.
    pub found: LookResult<R>,
    /// The time of the last arrival before it, ns.
    pub since_ns: u64,
    /// The time until which the standstill is known to last, ns.
    pub until_ns: u64,
    /// How the standstill goes on.
    pub outcome: Outcome,
}

impl<R> Hang<R> {
    /// The duration, ns.
    pub const fn lasted_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.since_ns)
    }
}

#[derive(Clone, Debug)]
struct Standing<R> {
    /// All that stands still, the longest wait first.
    all: Vec<Still>,
    since_ns: u64,
    /// The later start of what stands still now, ns, if it is not what the standstill began with;
    /// the next look takes it over.
    next_since_ns: Option<u64>,
    due_ns: u64,
    pause_ns: u64,
    found: Option<LookResult<R>>,
    gone_ns: Option<u64>,
}

impl<R> Standing<R> {
    /// `None` if nothing stands still.
    fn begin(all: Vec<Still>, now_ns: u64) -> Option<Self> {
        let since_ns = all.first()?.since_ns;
        Some(Self {
            all,
            since_ns,
            next_since_ns: None,
            due_ns: now_ns,
            pause_ns: FIRST_PAUSE_NS,
            found: None,
            gone_ns: None,
        })
    }
}

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<R> {
    /// Nothing to do.
    Wait,
    /// Look at these waits.
    Look(Vec<Still>),
    /// A hang is over, and the user should be told.
    Over(Hang<R>),
}

/// Tracks what stands still, from tick to tick.
#[derive(Clone, Debug)]
pub struct Watch<R> {
    limit_ns: Option<u64>,
    standing: Option<Standing<R>>,
    /// The longest hang that is over.
    kept: Option<Hang<R>>,
}

impl<R: Clone> Watch<R> {
    /// `limit_ns`: the time without an arrival after which threads have waited for too long; `None`
    /// for no limit.
    pub const fn new(limit_ns: Option<u64>) -> Self {
        Self {
            limit_ns,
            standing: None,
            kept: None,
        }
    }

    /// The time after which a wait is too long, ns.
    pub const fn limit_ns(&self) -> Option<u64> {
        self.limit_ns
    }

    /// Decides again. `still`: what stands still for too long; `since`: what has become of an
    /// earlier wait.
    pub fn tick(
        &mut self,
        now_ns: u64,
        still: Vec<Still>,
        since: impl Fn(&Still) -> Since,
    ) -> Step<R> {
        let Some(standing) = &mut self.standing else {
            self.standing = Standing::begin(still, now_ns);
            return self.look(now_ns);
        };
        let all = || standing.all.iter().map(&since);
        if !all().any(|since| since == Since::Still) {
            let gone_ns = *standing.gone_ns.get_or_insert(now_ns);
            let moved = standing
                .all
                .iter()
                .any(|still| since(still) == Since::Moved);
            if moved || now_ns.saturating_sub(gone_ns) >= GONE_NS {
                return self.end(now_ns, Outcome::Over);
            }
            return Step::Wait;
        }
        let later = still
            .first()
            .filter(|still| still.since_ns > standing.since_ns);
        if let Some(first) = later
            && all().next() != Some(Since::Still)
        {
            // The first wait is over, and what stands still now began later. The findings may
            // belong to either: a new look decides.
            let next_since_ns = first.since_ns;
            standing.next_since_ns = Some(next_since_ns);
            standing.all = still;
            standing.due_ns = now_ns;
            return self.look(now_ns);
        }
        if !still.is_empty() && still != standing.all {
            standing.all = still;
            standing.due_ns = standing.due_ns.min(now_ns + SETTLED_NS);
        }
        self.look(now_ns)
    }

    fn look(&mut self, now_ns: u64) -> Step<R> {
        let Some(standing) = self
            .standing
            .as_mut()
            .filter(|standing| standing.due_ns <= now_ns)
        else {
            return Step::Wait;
        };
        standing.due_ns = now_ns + standing.pause_ns;
        standing.pause_ns = (2 * standing.pause_ns).min(LONGEST_PAUSE_NS);
        Step::Look(standing.all.clone())
    }

    /// Takes the result of a look at what still stands still. Returns a hang to tell the user: a
    /// new one, or one that is over because its threads run again.
    pub fn looked(&mut self, now_ns: u64, found: Option<LookResult<R>>) -> Option<Hang<R>> {
        let was = self.found(now_ns);
        let standing = self.standing.as_mut()?;
        let was_stuck = standing.found.as_ref().is_some_and(|found| found.is_stuck);
        let is_stuck = found.as_ref().is_some_and(|found| found.is_stuck);
        standing.found = found;
        let next_since_ns = standing.next_since_ns.take();
        standing.since_ns = next_since_ns.unwrap_or(standing.since_ns);
        match (was_stuck, is_stuck) {
            (false, true) => self.hang(now_ns),
            (true, true) => {
                // The earlier hang is over, though a later one goes on: the earlier one has lasted
                // longer.
                let over = was.filter(|_| next_since_ns.is_some())?;
                self.keep(Hang {
                    outcome: Outcome::Over,
                    ..over
                });
                None
            }
            (true, false) => {
                let mut over = was?;
                over.outcome = Outcome::Over;
                self.keep(over.clone());
                Some(over)
            }
            (false, false) => None,
        }
    }

    /// Ends the standstill with an unknown outcome: watching stops, or the waits cannot be seen any
    /// more.
    pub fn lose_sight(&mut self, now_ns: u64) {
        let _untold = self.end(now_ns, Outcome::Unknown);
    }

    /// Settles at the end of watching: a hang whose threads have moved on is over even if no tick
    /// noticed; a hang whose threads have only ended is not.
    pub fn settle(&mut self, now_ns: u64, since: impl Fn(&Still) -> Since) -> Step<R> {
        let all = self
            .standing
            .iter()
            .flat_map(|standing| &standing.all)
            .map(since);
        let all: Vec<Since> = all.collect();
        if all.contains(&Since::Moved) && !all.contains(&Since::Still) {
            return self.end(now_ns, Outcome::Over);
        }
        Step::Wait
    }

    /// The present standstill, if a look has seen it.
    pub fn present(&self, now_ns: u64) -> Option<Hang<R>> {
        let mut hang = self.found(now_ns)?;
        // The findings may belong to the earlier or the later standstill: report the shorter
        // duration.
        let next_since_ns = self
            .standing
            .as_ref()
            .and_then(|standing| standing.next_since_ns);
        hang.since_ns = next_since_ns.unwrap_or(hang.since_ns);
        Some(hang)
    }

    /// The result of the last look.
    fn found(&self, now_ns: u64) -> Option<Hang<R>> {
        let standing = self.standing.as_ref()?;
        Some(Hang {
            found: standing.found.clone()?,
            since_ns: standing.since_ns,
            until_ns: now_ns,
            outcome: Outcome::Lasts,
        })
    }

    /// The standstill to report: a present hang, else the longest past hang, else a present
    /// standstill that is merely slow.
    pub fn hang(&self, now_ns: u64) -> Option<Hang<R>> {
        let present = self.present(now_ns);
        let is_stuck = present.as_ref().is_some_and(|hang| hang.found.is_stuck);
        match &self.kept {
            Some(kept) if !is_stuck => Some(kept.clone()),
            _ => present,
        }
    }

    fn end(&mut self, now_ns: u64, outcome: Outcome) -> Step<R> {
        let hang = self.found(now_ns);
        self.standing = None;
        match hang.filter(|hang| hang.found.is_stuck) {
            Some(hang) => {
                let hang = Hang { outcome, ..hang };
                self.keep(hang.clone());
                Step::Over(hang)
            }
            None => Step::Wait,
        }
    }

    /// Of two equally long hangs the later one is kept.
    fn keep(&mut self, hang: Hang<R>) {
        let longest = self.kept.as_ref().map_or(0, Hang::lasted_ns);
        if hang.lasted_ns() >= longest {
            self.kept = Some(hang);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::model::ids::BarrierId;

    const S: u64 = 1_000_000_000;

    const fn still(barrier: u32, since_s: u64) -> Still {
        Still {
            since_ns: since_s * S,
            barrier: BarrierId(barrier),
            episode: since_s,
        }
    }

    const fn found(what: &'static str, is_stuck: bool) -> LookResult<&'static str> {
        LookResult { what, is_stuck }
    }

    const fn stays(_: &Still) -> Since {
        Since::Still
    }

    const fn moves(_: &Still) -> Since {
        Since::Moved
    }

    const fn is_lost(_: &Still) -> Since {
        Since::Lost
    }

    fn watch() -> Watch<&'static str> {
        Watch::new(Some(10 * S))
    }

    #[test]
    fn it_looks_at_once_and_then_less_and_less_often() {
        let mut watch = watch();
        assert_eq!(watch.tick(0, Vec::new(), stays), Step::Wait);
        let mut looks = Vec::new();
        for second in 10..150 {
            let all = vec![still(0, 0)];
            if let Step::Look(at) = watch.tick(second * S, all, stays) {
                assert_eq!(at, [still(0, 0)]);
                looks.push(second);
                watch.looked(second * S, Some(found("a", true)));
            }
        }
        assert_eq!(looks, [10, 12, 16, 24, 40, 70, 100, 130]);
    }

    #[test]
    fn a_hang_is_told_once_and_then_its_end() {
        let mut watch = watch();
        watch.tick(10 * S, vec![still(0, 0)], stays);
        let hang = watch.looked(10 * S, Some(found("a", true))).unwrap();
        assert_eq!((hang.outcome, hang.lasted_ns()), (Outcome::Lasts, 10 * S));
        assert_eq!(watch.looked(12 * S, Some(found("b", true))), None);
        assert_eq!(watch.hang(13 * S).unwrap().found.what, "b");
        let Step::Over(over) = watch.tick(14 * S, Vec::new(), moves) else {
            panic!("it is over");
        };
        assert_eq!((over.outcome, over.lasted_ns()), (Outcome::Over, 14 * S));
        assert_eq!(watch.hang(99 * S), Some(over));
        assert_eq!(watch.present(99 * S), None);
    }

    #[test]
    fn what_is_slow_is_no_hang() {
        let mut watch = watch();
        watch.tick(10 * S, vec![still(0, 0)], stays);
        assert_eq!(watch.looked(10 * S, Some(found("slow", false))), None);
        assert!(!watch.hang(11 * S).unwrap().found.is_stuck);
        assert_eq!(watch.tick(12 * S, Vec::new(), moves), Step::Wait);
        assert_eq!(watch.hang(13 * S), None);
    }

    #[test]
    fn it_may_be_slow_first_and_stuck_then_and_the_other_way_round() {
        let mut watch = watch();
        watch.tick(10 * S, vec![still(0, 0)], stays);
        watch.looked(10 * S, Some(found("slow", false)));
        let hang = watch.looked(12 * S, Some(found("stuck", true))).unwrap();
        assert_eq!(hang.outcome, Outcome::Lasts);
        let over = watch.looked(16 * S, Some(found("slow", false))).unwrap();
        assert_eq!((over.found.what, over.outcome), ("stuck", Outcome::Over));
        assert_eq!(watch.hang(17 * S), Some(over));
    }

    #[test]
    fn the_longest_is_kept_and_the_present_one_comes_first() {
        let mut watch = watch();
        for (from, to, what) in [(0, 20, "long"), (30, 41, "short")] {
            watch.tick((from + 10) * S, vec![still(0, from)], stays);
            watch.looked((from + 10) * S, Some(found(what, true)));
            watch.tick(to * S, Vec::new(), moves);
        }
        assert_eq!(watch.hang(50 * S).unwrap().found.what, "long");
        watch.tick(60 * S, vec![still(0, 50)], stays);
        watch.looked(60 * S, Some(found("now", true)));
        assert_eq!(watch.hang(61 * S).unwrap().found.what, "now");
    }

    #[test]
    fn a_process_that_dies_does_not_go_on() {
        let mut watch = watch();
        watch.tick(10 * S, vec![still(0, 0)], stays);
        watch.looked(10 * S, Some(found("a", true)));
        // The threads end one by one, then the process does.
        assert_eq!(watch.tick(11 * S, Vec::new(), is_lost), Step::Wait);
        assert_eq!(watch.hang(11 * S).unwrap().outcome, Outcome::Lasts);
        // Otherwise the threads have ended while the process goes on.
        let step = watch.tick(13 * S, Vec::new(), is_lost);
        assert!(matches!(step, Step::Over(_)));
    }

    #[test]
    fn what_was_over_at_the_end_is_over() {
        let begun = || {
            let mut watch = watch();
            watch.tick(10 * S, vec![still(0, 0)], stays);
            watch.looked(10 * S, Some(found("a", true)));
            watch
        };
        for (since, expected) in [
            (moves as fn(&Still) -> Since, Outcome::Over),
            (stays, Outcome::Lasts),
            (is_lost, Outcome::Lasts),
        ] {
            let mut watch = begun();
            let step = watch.settle(11 * S, since);
            let is_told = matches!(step, Step::Over(_));
            assert_eq!(is_told, expected == Outcome::Over);
            assert_eq!(watch.hang(11 * S).unwrap().outcome, expected);
        }
    }

    #[test]
    fn one_of_several_goes_on() {
        let mut watch = watch();
        let (a, b) = (still(0, 0), still(1, 1));
        watch.tick(11 * S, vec![a, b], stays);
        watch.looked(11 * S, Some(found("both", true)));
        let since = |still: &Still| {
            if *still == b {
                Since::Moved
            } else {
                Since::Still
            }
        };
        assert_eq!(watch.tick(12 * S, vec![a], since), Step::Wait);
        assert_eq!(watch.tick(13 * S, vec![a], stays), Step::Look(vec![a]));
        watch.looked(13 * S, Some(found("a", true)));
        assert_eq!(watch.hang(14 * S).unwrap().lasted_ns(), 14 * S);
    }

    #[test]
    fn what_stands_still_since_later_has_not_stood_for_as_long() {
        let b = still(1, 5);
        for gone in [Since::Moved, Since::Lost] {
            let since = |still: &Still| if *still == b { Since::Still } else { gone };
            let begun = |is_stuck| {
                let mut watch = watch();
                watch.tick(15 * S, vec![still(0, 0), b], stays);
                watch.looked(15 * S, Some(found("first", is_stuck)));
                // The look is at once; until then nothing is reported as over.
                assert_eq!(watch.tick(16 * S, vec![b], since), Step::Look(vec![b]));
                let told = watch.hang(16 * S).unwrap();
                assert_eq!((told.found.what, told.outcome), ("first", Outcome::Lasts));
                assert_eq!(told.lasted_ns(), 11 * S, "for less nobody is ended");
                watch
            };
            // Another hang or the same: the lasting one comes first, and the other is kept.
            let mut watch = begun(true);
            assert_eq!(watch.looked(17 * S, Some(found("second", true))), None);
            let hang = watch.hang(17 * S).unwrap();
            assert_eq!((hang.found.what, hang.lasted_ns()), ("second", 12 * S));
            watch.tick(18 * S, Vec::new(), moves);
            let kept = watch.hang(19 * S).unwrap();
            assert_eq!((kept.found.what, kept.lasted_ns()), ("first", 17 * S));
            // The findings belonged to the first hang, which has lasted longer.
            let mut watch = begun(true);
            let over = watch.looked(17 * S, None).unwrap();
            assert_eq!((over.outcome, over.lasted_ns()), (Outcome::Over, 17 * S));
            // The second standstill was over before any look.
            let mut watch = begun(true);
            let step = watch.tick(17 * S, Vec::new(), moves);
            let Step::Over(over) = step else {
                panic!("{step:?}");
            };
            assert_eq!((over.found.what, over.lasted_ns()), ("first", 17 * S));
            // A standstill that was never reported needs no end.
            let mut watch = begun(false);
            let hang = watch.looked(17 * S, Some(found("second", true))).unwrap();
            assert_eq!(hang.lasted_ns(), 12 * S);
        }
    }

    #[test]
    fn unwatched_nobody_knows_how_it_goes_on() {
        let mut watch = watch();
        watch.tick(10 * S, vec![still(0, 0)], stays);
        watch.looked(10 * S, Some(found("a", true)));
        watch.lose_sight(12 * S);
        let hang = watch.hang(20 * S).unwrap();
        assert_eq!((hang.outcome, hang.until_ns), (Outcome::Unknown, 12 * S));
        assert_eq!(watch.tick(21 * S, Vec::new(), is_lost), Step::Wait);
    }
}
