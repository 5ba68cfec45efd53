//! The state of the search for hangs.

use std::{collections::HashSet, rc::Rc, sync::Arc, time::Duration};

use sbt_engine::{hang::Scene, model::ids::BarrierId};
use sbt_program::stopped::Tracer;

use super::{
    asleep::Asleep,
    looking::Looking,
    sight::Sight,
    watch::{Outcome, Watch},
};

/// The longest wait for the end of a look. A look that takes longer is blocked in a system call.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long after a signal to end it a program is not looked at, ns: meanwhile its threads are ending.
pub(super) const ENDING_NS: u64 = 10_000_000_000;

/// The scene of a look, completed with the model's barriers.
pub(super) struct Seen {
    pub(super) scene: Scene,
    /// Pairs of an index into the scene's barriers and the model's barrier.
    pub(super) barriers: Vec<(usize, BarrierId)>,
    /// The time of the look, ns.
    pub(super) at_ns: u64,
    /// Whether all threads had slept for long before the look.
    pub(super) is_asleep: bool,
    /// Whether the program had only come to no barrier for long before the look.
    pub(super) is_spinning: bool,
    /// Whether all threads had come to the barriers that stood still.
    pub(super) is_full: bool,
}

/// The state of the search for hangs.
pub struct Hangs {
    pub(super) watch: Watch<Rc<Seen>>,
    /// The look under way.
    pub(super) looking: Option<Looking>,
    /// The times in which hangs could not be seen because the probes were off.
    pub(super) sight: Sight,
    /// Whether a look at the waits that began before watching found no hang.
    pub(super) is_idle: bool,
    /// The time since which all threads have slept.
    pub(super) asleep: Asleep,
    /// Whether a program that waits for the outside is reported, although it does not hang.
    pub(super) tells_outside: bool,
    /// The tracer that traces the target's threads for sbt, if there is one.
    pub(super) tracer: Option<Arc<dyn Tracer>>,
    /// The threads that ran shortly before the last look began.
    pub(super) restless: HashSet<u32>,
    /// When the last look was over, ns.
    looked_ns: Option<u64>,
    /// The time at which the program was sent a signal to end it, ns.
    told_ns: Option<u64>,
}

impl Hangs {
    /// `limit`: the time without an arrival after which threads have waited for too long; `None`
    /// never looks for hangs. `tells_outside`: a program that waits for the outside is reported,
    /// too. `tracer` traces the target's threads for sbt, if there is one.
    pub fn new(
        limit: Option<Duration>,
        tells_outside: bool,
        tracer: Option<Arc<dyn Tracer>>,
    ) -> Self {
        let ns = |limit: Duration| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Self {
            watch: Watch::new(limit.map(ns)),
            looking: None,
            sight: Sight::default(),
            is_idle: false,
            asleep: Asleep::default(),
            tells_outside,
            tracer,
            restless: HashSet::new(),
            looked_ns: None,
            told_ns: None,
        }
    }

    /// The time without an arrival after which to look, ns; `None` never looks.
    pub fn limit_ns(&self) -> Option<u64> {
        self.watch.limit_ns()
    }

    /// The time of the last look at the current or longest hang, ns, and its outcome.
    pub fn state(&self, now_ns: u64) -> Option<(u64, Outcome)> {
        let hang = self.watch.hang(now_ns)?;
        Some((hang.found.what.at_ns, hang.outcome))
    }

    /// Notes that the probes go off.
    pub fn lose_sight(&mut self, now_ns: u64) {
        if let Some(looking) = &mut self.looking {
            looking.forget();
        }
        self.watch.lose_sight(now_ns);
        self.sight.lose(now_ns);
    }

    /// Notes that the probes are on again. `arrivals`: the number of arrivals seen so far.
    pub fn regain_sight(&mut self, now_ns: u64, arrivals: u64) {
        self.sight.regain(now_ns, arrivals);
    }

    /// The longest time in which a barrier may have stood still unseen, ns; `None` if sbt does not
    /// look for hangs.
    pub fn unwatched_ns(&self, until_ns: u64) -> Option<u64> {
        self.limit_ns().map(|_| self.sight.longest_ns(until_ns))
    }

    /// Notes that the program was sent a signal to end it.
    pub(super) fn expect_end(&mut self, now_ns: u64) {
        self.told_ns = Some(now_ns);
        if let Some(looking) = &mut self.looking {
            looking.forget();
        }
    }

    pub(super) fn is_ending(&self, now_ns: u64) -> bool {
        let told_ns = self.told_ns;
        told_ns.is_some_and(|told_ns| now_ns.saturating_sub(told_ns) < ENDING_NS)
    }

    /// Notes which threads ran shortly before the look that begins now. A thread that others wake again
    /// and again does not sleep for half of the limit, nor from one look to the next.
    pub(super) fn note_restless(&mut self, now_ns: u64) {
        let half_ns = self.limit_ns().unwrap_or(0) / 2;
        let looked_ns = self.looked_ns.unwrap_or(now_ns);
        let since_ns = looked_ns.min(now_ns.saturating_sub(half_ns));
        self.restless = self.asleep.ran_since(since_ns);
    }

    /// Notes that a look is over.
    pub(super) const fn note_look(&mut self, now_ns: u64) {
        self.looked_ns = Some(now_ns);
        self.asleep.disturb();
    }

    /// Waits for the end of the look under way, if there is one, but not longer than [`PATIENCE`].
    pub(super) async fn let_look_end(&self) {
        if let Some(looking) = &self.looking {
            looking.over(PATIENCE).await;
        }
    }
}
