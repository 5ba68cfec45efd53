//! Whether watching costs the target more than it may: a pure decision, and what is
//! left out then.
//!
//! What counts is the busiest thread: a parallel program goes at the pace of its
//! slowest. Its share is what the probes have cost it, by their number, of the time
//! that has passed. Above the budget departures go first. If that is not enough, the
//! probes are on for spans of time only: long enough to see whole episodes, and with so
//! much time between them that the budget is met over both together.

/// Ticks above the budget before anything is left out,
const PATIENCE: u32 = 2;

/// but one is enough so many times above it.
const FAR: f64 = 5.0;

/// Once that much was paid as all of the budget of so long a run would be, ns, it is not waited
/// for a tick: a short program would be over.
const EARLY_NS: f64 = 1e9;

/// How long the probes are on at a time, ns.
const ON_NS: u64 = 50_000_000;

/// And for the first time where they hit far too often: long enough for what is needed to thin
/// out, ns.
const FIRST_NS: u64 = 10_000_000;

/// How long they are off at least: to put them on and take them off has its price, ns.
const OFF_NS: u64 = 100_000_000;

/// And at most, however much they cost, ns.
const LONGEST_NS: u64 = 10_000_000_000;

/// What was paid too much before is made up for by being off longer, but no longer than
/// this, ns: who looks on wants to see something.
const REPAY_NS: u64 = 2_000_000_000;

/// Thinned out the costs are to be that far below the budget: it is a limit.
const MARGIN: f64 = 0.9;

/// What should be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Departures are to be watched no longer.
    DropDepartures,
    /// From now on the probes are on for spans only; they are still on.
    Thin,
    /// They go off.
    Off,
    /// They come on.
    On,
    /// They stay on: it is cheap again.
    Whole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// All the time.
    Whole,
    /// On since a time, in spans.
    On { since_ns: u64 },
    /// Off, after a span that began then; until when is known once its costs are.
    Off {
        since_ns: u64,
        until_ns: Option<u64>,
    },
}

/// See the module.
#[derive(Debug)]
pub struct Governor {
    /// Percent; `None` if there is none.
    budget: Option<f64>,
    state: State,
    over: u32,
    /// When it began, ns.
    begun_ns: u64,
    /// When the costs of threads were last looked at, and what they were, ns.
    last: (u64, Vec<f64>),
    /// Since when departures are no longer watched, and since when it is thinned, ns.
    dropped_ns: Option<u64>,
    thinned_ns: Option<u64>,
    /// Off at all, ns, up to when they came on last; and since when they are off.
    off_ns: u64,
    went_off_ns: u64,
    spans: u64,
}

impl Governor {
    /// Begins at `now_ns`; `budget` in percent.
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

    /// What the busiest thread has paid since this was last asked, ns, and how much
    /// time that was.
    fn paid(&mut self, now_ns: u64, costs: impl Iterator<Item = f64>) -> (f64, u64) {
        let (then_ns, last) = &mut self.last;
        let mut most = 0.0_f64;
        for (index, now) in costs.enumerate() {
            if index == last.len() {
                last.push(0.0);
            }
            // Less than before after a reset.
            most = most.max(now - std::mem::replace(&mut last[index], now));
        }
        let passed_ns = now_ns.saturating_sub(*then_ns);
        *then_ns = now_ns;
        (most, passed_ns)
    }

    /// Every now and then: `costs` of all threads so far, ns. `departures`: whether they
    /// are watched and may be dropped.
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

    /// The same between ticks, while the run is young.
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

    /// Whether [`Governor::look`] is worth it.
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

    /// The probes count from now on, ns: to put them on takes a while.
    pub fn came_on(&mut self, now_ns: u64) {
        if let State::On { since_ns } = &mut self.state {
            *since_ns = now_ns;
        }
    }

    /// The user has taken the probes off; when they come back all is watched again.
    pub fn interrupt(&mut self, now_ns: u64) {
        if self.is_off() {
            self.off_ns += now_ns.saturating_sub(self.went_off_ns);
        }
        self.state = State::Whole;
        self.over = 0;
    }

    /// Counts from zero on; what is done goes on.
    pub fn reset(&mut self, now_ns: u64) {
        self.begun_ns = now_ns;
        self.off_ns = 0;
        self.thinned_ns = self.thinned_ns.map(|_| now_ns);
        if self.is_off() {
            self.went_off_ns = now_ns;
        }
        self.last = (now_ns, Vec::new());
    }

    /// When something is to be done next, ns.
    pub fn due_ns(&self) -> Option<u64> {
        match self.state {
            State::Whole => None,
            State::On { since_ns } => Some(since_ns + ON_NS),
            State::Off { until_ns, .. } => Some(until_ns.unwrap_or(self.went_off_ns + OFF_NS)),
        }
    }

    /// That time has come; `costs` as for [`Governor::tick`].
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

    /// When the budget is met over the whole run, if nothing more is paid, but not too
    /// late, ns.
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

    /// Whether the last tick was above the budget: what is needed to thin out should be
    /// gathered.
    pub const fn is_over(&self) -> bool {
        self.over > 0
    }

    /// Whether the probes are off.
    pub const fn is_off(&self) -> bool {
        matches!(self.state, State::Off { .. })
    }

    /// Whether they are on for spans only.
    pub fn is_thinning(&self) -> bool {
        self.state != State::Whole
    }

    /// Since when, ns, and for how long they were off until `now_ns`; `None` if they
    /// never were.
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

    /// Percent.
    pub const fn budget(&self) -> Option<f64> {
        self.budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 250_000_000;

    /// Costs of two threads.
    fn costs(a: f64, b: f64) -> impl Iterator<Item = f64> {
        [a, b].into_iter()
    }

    #[test]
    fn what_is_cheap_is_never_thinned() {
        let mut governor = Governor::new(Some(2.0), 0);
        for tick in 1..100_u32 {
            // 1.9 % of the busiest.
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
        // 5 ms were paid in 50: at 1.8 % that is worth 278 ms. But there were 50 before, and
        // 55 are worth three seconds.
        let look = governor.due_ns().unwrap();
        assert_eq!(look, off + OFF_NS);
        let paid = at as f64 * 0.1 + 5e6;
        assert_eq!(governor.turn(look, costs(paid, 0.0)), None);
        let on = governor.due_ns().unwrap();
        assert_eq!(on, off + REPAY_NS);
        assert_eq!(governor.turn(on, costs(paid, 0.0)), Some(Step::On));
        assert_eq!(governor.thinned(on), Some((at, on - off)));
        // Then it is cheap again.
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
            // While they are on, half of the time.
            if governor.turn(now, costs(paid, 0.0)) == Some(Step::Off) {
                paid += ON_NS as f64 * 0.5;
            }
        }
        assert!(paid / (now as f64) < 0.02, "{paid} {now}");
        // From then on it is the budget that counts.
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
        // Half of the time: 20 ms, a second's budget, are paid after 40.
        let half = |now: u64| costs(now as f64 * 0.5, 0.0);
        assert_eq!(governor.look(ms(25), half(ms(25))), None);
        assert!(governor.is_young(ms(25)));
        assert_eq!(governor.look(ms(50), half(ms(50))), Some(Step::Thin));
        assert!(!governor.is_young(ms(50)));
        assert_eq!(governor.due_ns(), Some(ms(50) + FIRST_NS));
        // As much in a longer time is for the ticks to judge.
        let mut governor = Governor::new(Some(2.0), 0);
        assert_eq!(governor.look(ms(250), costs(2.1e7, 0.0)), None);
        assert!(governor.is_young(ms(999)) && !governor.is_young(ms(1000)));
    }

    /// Thinned since a time, and off after a span; the costs until then were looked at.
    fn off(budget: f64) -> (Governor, u64) {
        let mut governor = Governor::new(Some(budget), 0);
        let nearly = TICK as f64 * 0.2;
        assert_eq!(
            governor.tick(TICK, costs(nearly, 0.0), false),
            Some(Step::Thin)
        );
        // What was paid before is forgotten, so that nothing is to be made up for.
        governor.reset(1000 * TICK);
        governor.begun_ns = 0;
        governor.came_on(1000 * TICK);
        let off_ns = 1000 * TICK + ON_NS;
        assert_eq!(governor.turn(off_ns, costs(0.0, 0.0)), Some(Step::Off));
        (governor, off_ns)
    }

    #[test]
    fn it_is_cheap_again_below_nine_tenths_of_the_budget() {
        // Of 50 ms, 2 % are 1 ms; nine tenths of that are 0.9 ms.
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
        // 5 ms in 50: to be 1.8 % of the whole they need 277.8 ms, from when it came on.
        let (mut governor, off_ns) = off(2.0);
        assert_eq!(governor.turn(off_ns + OFF_NS, costs(5e6, 0.0)), None);
        let period_ns = governor.due_ns().unwrap() - (off_ns - ON_NS);
        assert!(period_ns.abs_diff(277_777_777) <= 1, "{period_ns}");
        // So over the period it is nine tenths of the budget.
        let share_pct = 5e6 / period_ns as f64 * 100.0;
        assert!((share_pct - 1.8).abs() < 1e-6, "{share_pct}");
    }

    #[test]
    fn what_was_paid_too_much_is_made_up_for_with_a_tenth_to_spare() {
        let (mut governor, off_ns) = off(2.0);
        // Over the run until now 1.9 % were paid: within the budget, but not below nine
        // tenths of it. The last span alone, of 2 %, needs no pause that is longer than it was.
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
