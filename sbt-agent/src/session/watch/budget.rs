//! Decides whether watching costs the target more than its budget, and what to leave out then: a
//! pure decision.
//!
//! The busiest thread counts: a parallel program runs at the pace of its slowest thread. Its share
//! is the cost of the probes it hit, divided by the time passed. Above the budget, departures are
//! dropped first. If that is not enough, the probes are on in spans only: each span is long enough
//! to see whole episodes, and the pause between two spans is long enough to meet the budget over
//! both together.

/// The number of ticks above the budget before anything is left out.
const PATIENCE: u32 = 2;

/// The multiple of the budget above which one tick is enough.
const FAR: f64 = 5.0;

/// The time whose whole budget has to be spent before the costs are judged without waiting for a
/// tick, ns: a short program would be over by then.
const EARLY_NS: f64 = 1e9;

/// The length of a span with the probes on, ns.
const ON_NS: u64 = 50_000_000;

/// The length of the first span if the costs are far above the budget, ns: long enough to gather
/// what thinning needs.
const FIRST_NS: u64 = 10_000_000;

/// The shortest pause with the probes off, ns: switching probes has a price too.
const OFF_NS: u64 = 100_000_000;

/// The longest pause, however high the costs, ns.
const LONGEST_NS: u64 = 10_000_000_000;

/// The longest pause to make up for earlier overspending, ns: a user who looks on wants to see
/// something.
const REPAY_NS: u64 = 2_000_000_000;

/// The share of the budget that a thinned run may use: the budget is an upper limit.
const MARGIN: f64 = 0.9;

/// The action to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stop watching departures.
    DropDepartures,
    /// Begin to watch in spans; the probes are still on.
    Thin,
    /// Switch the probes off.
    Off,
    /// Switch the probes on for a span.
    On,
    /// Switch the probes on for good: watching is cheap again.
    Whole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The probes are on all the time.
    Whole,
    /// The probes are on for a span that began at `since_ns`.
    On { since_ns: u64 },
    /// The probes are off after a span that began at `since_ns`; `until_ns` is known once the costs
    /// of the span are.
    Off {
        since_ns: u64,
        until_ns: Option<u64>,
    },
}

/// Keeps the costs of a run below the budget.
#[derive(Debug)]
pub struct Governor {
    /// In percent; `None` if there is no budget.
    budget: Option<f64>,
    state: State,
    over: u32,
    /// The time from which costs count, ns.
    begun_ns: u64,
    /// The time of the last look at the costs, and the cost of each thread then, both in ns.
    last: (u64, Vec<f64>),
    /// The time at which departures were dropped, ns.
    dropped_ns: Option<u64>,
    /// The time at which thinning began, ns.
    thinned_ns: Option<u64>,
    /// The total time with the probes off, up to the last time they came on, ns.
    off_ns: u64,
    /// The last time the probes went off, ns.
    went_off_ns: u64,
    spans: u64,
}

impl Governor {
    /// Starts at `now_ns`; `budget` is in percent, `None` for no budget.
    pub fn new(budget: Option<f64>, now_ns: u64) -> Self {
        Self {
            budget,
            state: State::Whole,
            over: 0,
            begun_ns: now_ns,
            last: (now_ns, Vec::new()),
            dropped_ns: None,
            thinned_ns: None,
            off_ns: 0,
            went_off_ns: now_ns,
            spans: 0,
        }
    }

    /// The cost of the busiest thread since the last call, and the time passed since then, both in
    /// ns.
    fn paid(&mut self, now_ns: u64, costs: impl Iterator<Item = f64>) -> (f64, u64) {
        let (then_ns, last) = &mut self.last;
        let mut most = 0.0_f64;
        for (index, now) in costs.enumerate() {
            if index == last.len() {
                last.push(0.0);
            }
            // After a reset a cost is lower than before.
            most = most.max(now - std::mem::replace(&mut last[index], now));
        }
        let passed_ns = now_ns.saturating_sub(*then_ns);
        *then_ns = now_ns;
        (most, passed_ns)
    }

    /// Decides at a tick. `costs`: the cost of each thread so far, ns; `departures`: departures are
    /// watched and may be dropped.
    pub fn tick(
        &mut self,
        now_ns: u64,
        costs: impl Iterator<Item = f64>,
        departures: bool,
    ) -> Option<Step> {
        let budget = self.budget?;
        if self.state != State::Whole {
            return None;
        }
        let (paid, passed_ns) = self.paid(now_ns, costs);
        let share = if passed_ns > 0 {
            paid / passed_ns as f64 * 100.0
        } else {
            0.0
        };
        self.over = if share > budget { self.over + 1 } else { 0 };
        let is_far = share > FAR * budget;
        if self.over >= 1 && departures && !is_far {
            self.dropped_ns.get_or_insert(now_ns);
            return Some(Step::DropDepartures);
        }
        if self.over < PATIENCE && !is_far {
            return None;
        }
        Some(self.begin(now_ns, is_far))
    }

    /// Decides between ticks, while the run is young.
    pub fn look(&mut self, now_ns: u64, costs: impl Iterator<Item = f64>) -> Option<Step> {
        let budget = self.budget?;
        if self.state != State::Whole {
            return None;
        }
        let costs: Vec<f64> = costs.collect();
        let most = costs.iter().copied().fold(0.0, f64::max);
        let share = most / now_ns.saturating_sub(self.begun_ns).max(1) as f64 * 100.0;
        if most * 100.0 < budget * EARLY_NS || share <= FAR * budget {
            return None;
        }
        self.paid(now_ns, costs.into_iter());
        Some(self.begin(now_ns, true))
    }

    /// Whether the run is so young that [`Governor::look`] should be called.
    pub fn is_young(&self, now_ns: u64) -> bool {
        self.state == State::Whole
            && self.thinned_ns.is_none()
            && (now_ns.saturating_sub(self.begun_ns) as f64) < EARLY_NS
    }

    fn begin(&mut self, now_ns: u64, is_far: bool) -> Step {
        self.over = 0;
        self.thinned_ns.get_or_insert(now_ns);
        let ago = if is_far { ON_NS - FIRST_NS } else { 0 };
        self.state = State::On {
            since_ns: now_ns.saturating_sub(ago),
        };
        Step::Thin
    }

    /// The span begins now: switching the probes on took a while.
    pub fn came_on(&mut self, now_ns: u64) {
        if let State::On { since_ns } = &mut self.state {
            *since_ns = now_ns;
        }
    }

    /// The user has switched the probes off; when they come back, everything is watched again.
    pub fn interrupt(&mut self, now_ns: u64) {
        if self.is_off() {
            self.off_ns += now_ns.saturating_sub(self.went_off_ns);
        }
        self.state = State::Whole;
        self.over = 0;
    }

    /// Resets all totals; thinning goes on.
    pub fn reset(&mut self, now_ns: u64) {
        self.begun_ns = now_ns;
        self.off_ns = 0;
        self.thinned_ns = self.thinned_ns.map(|_| now_ns);
        if self.is_off() {
            self.went_off_ns = now_ns;
        }
        self.last = (now_ns, Vec::new());
    }

    /// The time at which to call [`Governor::turn`] next, ns; `None` if the run is not thinned.
    pub fn due_ns(&self) -> Option<u64> {
        match self.state {
            State::Whole => None,
            State::On { since_ns } => Some(since_ns + ON_NS),
            State::Off { until_ns, .. } => Some(until_ns.unwrap_or(self.went_off_ns + OFF_NS)),
        }
    }

    /// Ends the current on or off span. `costs`: as for [`Governor::tick`].
    pub fn turn(&mut self, now_ns: u64, costs: impl Iterator<Item = f64>) -> Option<Step> {
        let budget = self.budget?;
        match self.state {
            State::Whole => None,
            State::On { since_ns } => {
                self.state = State::Off {
                    since_ns,
                    until_ns: None,
                };
                self.went_off_ns = now_ns;
                self.spans += 1;
                Some(Step::Off)
            }
            State::Off {
                since_ns,
                until_ns: None,
            } => {
                let (paid, _) = self.paid(now_ns, costs);
                let on_ns = self.went_off_ns.saturating_sub(since_ns);
                if paid / on_ns.max(1) as f64 * 100.0 < budget * MARGIN {
                    self.come_on(now_ns);
                    self.state = State::Whole;
                    return Some(Step::Whole);
                }
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "positive, and bounded in the same line"
                )]
                let period_ns = (paid * 100.0 / (budget * MARGIN)).min(LONGEST_NS as f64) as u64;
                let until_ns = (since_ns + period_ns).max(self.repaid_ns(budget));
                if until_ns > now_ns {
                    self.state = State::Off {
                        since_ns,
                        until_ns: Some(until_ns),
                    };
                    return None;
                }
                self.come_on(now_ns);
                Some(Step::On)
            }
            State::Off { .. } => {
                self.come_on(now_ns);
                Some(Step::On)
            }
        }
    }

    /// The time at which the run as a whole meets its budget if nothing more is spent, ns; at most
    /// [`REPAY_NS`] after the last switch to off.
    fn repaid_ns(&self, budget: f64) -> u64 {
        let most = self.last.1.iter().copied().fold(0.0, f64::max);
        let latest_ns = self.went_off_ns + REPAY_NS;
        let whole_ns = (most * 100.0 / (budget * MARGIN)).min(latest_ns as f64);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and bounded in the line before"
        )]
        latest_ns.min(self.begun_ns + whole_ns as u64)
    }

    fn come_on(&mut self, now_ns: u64) {
        self.off_ns += now_ns.saturating_sub(self.went_off_ns);
        self.state = State::On { since_ns: now_ns };
    }

    /// Whether the last tick was above the budget, so that the model should prepare for thinning.
    pub const fn is_over(&self) -> bool {
        self.over > 0
    }

    /// Whether the probes are off.
    pub const fn is_off(&self) -> bool {
        matches!(self.state, State::Off { .. })
    }

    /// Whether the probes are on in spans only.
    pub fn is_thinning(&self) -> bool {
        self.state != State::Whole
    }

    /// The time at which thinning began and how long the probes have been off until `now_ns`, both
    /// in ns; `None` if no span has ended.
    pub fn thinned(&self, now_ns: u64) -> Option<(u64, u64)> {
        let since_ns = self.thinned_ns.filter(|_| self.spans > 0)?;
        let open = self.is_off();
        let open_ns = if open {
            now_ns.saturating_sub(self.went_off_ns)
        } else {
            0
        };
        Some((since_ns, self.off_ns + open_ns))
    }

    /// Whether departures were dropped for the budget.
    pub const fn has_dropped_departures(&self) -> bool {
        self.dropped_ns.is_some()
    }

    /// In percent; `None` if there is no budget.
    pub const fn budget(&self) -> Option<f64> {
        self.budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 250_000_000;

    /// The costs of two threads, ns.
    fn costs(a: f64, b: f64) -> impl Iterator<Item = f64> {
        [a, b].into_iter()
    }

    #[test]
    fn what_is_cheap_is_never_thinned() {
        let mut governor = Governor::new(Some(2.0), 0);
        for tick in 1..100_u32 {
            // The busiest thread pays 1.9 %.
            let paid = f64::from(tick) * TICK as f64 * 0.019;
            assert_eq!(
                governor.tick(u64::from(tick) * TICK, costs(0.0, paid), true),
                None
            );
        }
        assert_eq!(governor.due_ns(), None);
        assert_eq!(governor.thinned(1 << 40), None);
    }

    #[test]
    fn without_a_budget_nothing_is() {
        let mut governor = Governor::new(None, 0);
        for tick in 1..10 {
            let paid = tick as f64 * TICK as f64;
            assert_eq!(governor.tick(tick * TICK, costs(paid, paid), true), None);
        }
    }

    #[test]
    fn departures_go_first_and_then_the_rest() {
        let mut governor = Governor::new(Some(2.0), 0);
        let ten_percent = |ns: u64| costs(ns as f64 * 0.1, ns as f64 * 0.01);
        let dropped = governor.tick(TICK, ten_percent(TICK), true);
        assert_eq!(dropped, Some(Step::DropDepartures));
        assert!(governor.has_dropped_departures());
        let at = 2 * TICK;
        assert_eq!(governor.tick(at, ten_percent(at), false), Some(Step::Thin));
        assert_eq!(governor.due_ns(), Some(at + ON_NS));
        let off = at + ON_NS;
        assert_eq!(governor.turn(off, costs(0.0, 0.0)), Some(Step::Off));
        // The span of 50 ms cost 5 ms: at 1.8 % that needs 278 ms. With the 50 ms paid before, 55
        // ms need three seconds.
        let look = governor.due_ns().unwrap();
        assert_eq!(look, off + OFF_NS);
        let paid = at as f64 * 0.1 + 5e6;
        assert_eq!(governor.turn(look, costs(paid, 0.0)), None);
        let on = governor.due_ns().unwrap();
        assert_eq!(on, off + REPAY_NS);
        assert_eq!(governor.turn(on, costs(paid, 0.0)), Some(Step::On));
        assert_eq!(governor.thinned(on), Some((at, on - off)));
        // Watching is cheap again.
        let off = on + ON_NS;
        assert_eq!(governor.turn(off, costs(paid, 0.0)), Some(Step::Off));
        assert!(governor.is_off());
        let look = governor.due_ns().unwrap();
        assert_eq!(
            governor.turn(look, costs(paid + 1e4, 0.0)),
            Some(Step::Whole)
        );
        assert_eq!(governor.due_ns(), None);
        assert!(!governor.is_thinning());
    }

    #[test]
    fn far_above_nothing_is_waited_for_and_what_was_paid_is_made_up_for() {
        let mut governor = Governor::new(Some(2.0), 0);
        let half = TICK as f64 * 0.5;
        assert_eq!(
            governor.tick(TICK, costs(half, 0.0), true),
            Some(Step::Thin)
        );
        let mut paid = half;
        let mut now = TICK;
        while now < 100 * TICK {
            now = governor.due_ns().unwrap();
            // The probes take half of the time while they are on.
            if governor.turn(now, costs(paid, 0.0)) == Some(Step::Off) {
                paid += ON_NS as f64 * 0.5;
            }
        }
        assert!(paid / (now as f64) < 0.02, "{paid} {now}");
        // From here on the budget alone decides.
        let (then, before) = (now, paid);
        while now < 400 * TICK {
            now = governor.due_ns().unwrap();
            if governor.turn(now, costs(paid, 0.0)) == Some(Step::Off) {
                paid += ON_NS as f64 * 0.5;
            }
        }
        let share = (paid - before) / (now - then) as f64;
        assert!((0.015..0.02).contains(&share), "{share}");
    }

    #[test]
    fn far_above_it_is_not_waited_for_a_tick() {
        let mut governor = Governor::new(Some(2.0), 0);
        let ms = |ms: u64| ms * 1_000_000;
        // Half of the time: after 40 ms the 20 ms of a second's budget are spent.
        let half = |now: u64| costs(now as f64 * 0.5, 0.0);
        assert_eq!(governor.look(ms(25), half(ms(25))), None);
        assert!(governor.is_young(ms(25)));
        assert_eq!(governor.look(ms(50), half(ms(50))), Some(Step::Thin));
        assert!(!governor.is_young(ms(50)));
        assert_eq!(governor.due_ns(), Some(ms(50) + FIRST_NS));
        // The ticks judge the same cost spent over a longer time.
        let mut governor = Governor::new(Some(2.0), 0);
        assert_eq!(governor.look(ms(250), costs(2.1e7, 0.0)), None);
        assert!(governor.is_young(ms(999)) && !governor.is_young(ms(1000)));
    }

    /// A governor that thins and whose first span has ended, and the time of that end; all costs so
    /// far have been looked at.
    fn off(budget: f64) -> (Governor, u64) {
        let mut governor = Governor::new(Some(budget), 0);
        let nearly = TICK as f64 * 0.2;
        assert_eq!(
            governor.tick(TICK, costs(nearly, 0.0), false),
            Some(Step::Thin)
        );
        // The reset forgets earlier costs, so that there is nothing to make up for.
        governor.reset(1000 * TICK);
        governor.begun_ns = 0;
        governor.came_on(1000 * TICK);
        let off_ns = 1000 * TICK + ON_NS;
        assert_eq!(governor.turn(off_ns, costs(0.0, 0.0)), Some(Step::Off));
        (governor, off_ns)
    }

    #[test]
    fn it_is_cheap_again_below_nine_tenths_of_the_budget() {
        // 2 % of 50 ms are 1 ms; nine tenths of that are 0.9 ms.
        for (paid_ns, expected) in [
            (899_000.0, Some(Step::Whole)),
            (901_000.0, Some(Step::On)),
            (950_000.0, Some(Step::On)),
            (1_000_001.0, Some(Step::On)),
        ] {
            let (mut governor, off_ns) = off(2.0);
            let now_ns = off_ns + OFF_NS;
            let step = governor.turn(now_ns, costs(paid_ns, 0.0));
            assert_eq!(step, expected, "{paid_ns}");
            assert_eq!(governor.is_thinning(), expected == Some(Step::On));
        }
    }

    #[test]
    fn the_pause_leaves_a_tenth_of_the_budget() {
        // 5 ms in a span of 50 ms are 1.8 % of 277.8 ms from the start of the span.
        let (mut governor, off_ns) = off(2.0);
        assert_eq!(governor.turn(off_ns + OFF_NS, costs(5e6, 0.0)), None);
        let period_ns = governor.due_ns().unwrap() - (off_ns - ON_NS);
        assert!(period_ns.abs_diff(277_777_777) <= 1, "{period_ns}");
        // Over the whole period the share is nine tenths of the budget.
        let share_pct = 5e6 / period_ns as f64 * 100.0;
        assert!((share_pct - 1.8).abs() < 1e-6, "{share_pct}");
    }

    #[test]
    fn what_was_paid_too_much_is_made_up_for_with_a_tenth_to_spare() {
        let (mut governor, off_ns) = off(2.0);
        // 1.9 % of the run so far were spent: within the budget, but above nine tenths of it. The
        // last span alone cost 2 %, which needs no pause longer than the pause that has passed.
        let before = off_ns as f64 * 0.019;
        governor.last.1 = vec![before];
        let now_ns = off_ns + OFF_NS;
        assert_eq!(governor.turn(now_ns, costs(before + 1e6, 0.0)), None);
        assert_eq!(governor.due_ns(), Some(off_ns + REPAY_NS));
        governor.last.1 = vec![off_ns as f64 * 0.018];
        let repaid_ns = governor.repaid_ns(2.0);
        assert!(repaid_ns.abs_diff(off_ns) <= 2, "{repaid_ns} {off_ns}");
    }

    #[test]
    fn at_the_budget_nothing_is_left_out() {
        let mut governor = Governor::new(Some(2.0), 0);
        for tick in 1..20_u64 {
            let paid = tick as f64 * TICK as f64 * 0.02;
            assert_eq!(governor.tick(tick * TICK, costs(paid, 0.0), true), None);
            assert!(!governor.is_over());
        }
        let before = 19.0 * TICK as f64 * 0.02;
        let paid = before + TICK as f64 * 0.0201;
        let step = governor.tick(20 * TICK, costs(paid, 0.0), true);
        assert_eq!(step, Some(Step::DropDepartures));
        assert!(governor.is_over());
    }

    #[test]
    fn far_above_begins_above_five_times_the_budget() {
        for (share, expected) in [(0.1, None), (0.1001, Some(Step::Thin))] {
            let mut governor = Governor::new(Some(2.0), 0);
            let paid = TICK as f64 * share;
            assert_eq!(governor.tick(TICK, costs(paid, 0.0), false), expected);
        }
    }

    #[test]
    fn who_stops_watching_ends_the_spans() {
        let mut governor = Governor::new(Some(2.0), 0);
        governor.tick(TICK, costs(TICK as f64 * 0.5, 0.0), false);
        governor.came_on(TICK + 10);
        assert_eq!(governor.due_ns(), Some(TICK + 10 + ON_NS));
        governor.turn(TICK + 10 + ON_NS, costs(0.0, 0.0));
        assert!(governor.is_off());
        governor.interrupt(TICK + 20 + ON_NS);
        assert!(!governor.is_off() && !governor.is_thinning());
        assert_eq!(governor.due_ns(), None);
        assert_eq!(governor.thinned(2 * TICK), Some((TICK, 10)));
    }

    #[test]
    fn one_moment_above_is_not_enough() {
        let mut governor = Governor::new(Some(2.0), 0);
        assert_eq!(governor.tick(TICK, costs(1e7, 0.0), false), None);
        assert_eq!(governor.tick(2 * TICK, costs(1e7, 0.0), false), None);
        assert_eq!(governor.tick(3 * TICK, costs(2e7, 0.0), false), None);
    }
}
