//! When to sum up sleeps, so that this costs the program little; and how many samples of sleeps to
//! look at.

/// The cost of summing up one sleep, ns: its beginning, its end, and the switches of other programs
/// meanwhile.
const SLEEP_NS: f64 = 400.0;

/// The part of the program's CPU time, or of one CPU if it uses less, that the sums may cost.
const MOST: f64 = 0.01;

/// Costs are judged after this time at the earliest, ns.
const JUDGED_NS: u64 = 50_000_000;

/// The longest pause, ns.
const LONGEST_NS: u64 = 2_000_000_000;

/// Decides when sleeps are summed up.
#[derive(Clone, Debug)]
pub struct Duty {
    most: f64,
    /// When the sums were last switched on, ns, with the number of sleeps until then and the CPU
    /// time of the program.
    on: Option<(u64, u64, u64)>,
    /// Until when they are off, ns.
    off_until_ns: u64,
}

/// The next step of the session: whether the kernel goes on summing up sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Leave the sums on or off.
    Stay,
    /// Switch them on.
    On,
    /// Switch them off.
    Off,
}

impl Duty {
    /// The sums are on from `now_ns` on. `budget_pct`: the user's limit for the cost of watching,
    /// percent.
    pub fn new(budget_pct: Option<f64>, now_ns: u64) -> Self {
        let budget = budget_pct.map_or(MOST, |pct| pct / 100.0 / 2.0);
        Self {
            most: MOST.min(budget),
            on: Some((now_ns, 0, 0)),
            off_until_ns: 0,
        }
    }

    /// `sleeps`: number of sleeps summed up so far. `ran_ns`: CPU time of the program so far.
    pub fn judge(&mut self, now_ns: u64, sleeps: u64, ran_ns: u64) -> Turn {
        let Some((on_ns, before, ran_before)) = self.on else {
            if now_ns < self.off_until_ns {
                return Turn::Stay;
            }
            self.on = Some((now_ns, sleeps, ran_ns));
            return Turn::On;
        };
        let since_ns = now_ns.saturating_sub(on_ns);
        if since_ns < JUDGED_NS {
            return Turn::Stay;
        }
        let busy_ns = ran_ns.saturating_sub(ran_before).max(since_ns) as f64;
        let part = sleeps.saturating_sub(before) as f64 * SLEEP_NS / busy_ns;
        if part <= self.most {
            self.on = Some((now_ns, sleeps, ran_ns));
            return Turn::Stay;
        }
        let pause_ns = since_ns as f64 * (part / self.most - 1.0);
        let pause_ns = if pause_ns < LONGEST_NS as f64 {
            super::pace::whole(pause_ns)
        } else {
            LONGEST_NS
        };
        self.on = None;
        self.off_until_ns = now_ns.saturating_add(pause_ns);
        Turn::Off
    }
}

/// Looks at samples may cost this part of the program's CPU time, or of one CPU if it uses less.
const MOST_OF_SAMPLES: f64 = 0.002;

/// CPU time that looks at samples may cost beyond that, ns.
const TO_BEGIN_NS: f64 = 20_000_000.0;

/// Limits what looks at samples cost.
#[derive(Clone, Debug)]
pub struct Allowance {
    most: f64,
    begin_ns: f64,
    spent_ns: u64,
}

impl Allowance {
    /// `budget_pct`: the user's limit for the cost of watching, percent.
    pub fn new(budget_pct: Option<f64>) -> Self {
        let budget = budget_pct.map_or(MOST_OF_SAMPLES, |pct| pct / 100.0 / 5.0);
        Self {
            most: MOST_OF_SAMPLES.min(budget),
            begin_ns: if budget > 0.0 { TO_BEGIN_NS } else { 0.0 },
            spent_ns: 0,
        }
    }

    /// Whether one more sample may be looked at, `elapsed_ns` after the beginning; `busy` CPUs are
    /// used by the program.
    pub fn has_room(&self, elapsed_ns: u64, busy: f64) -> bool {
        let allowed_ns = self.begin_ns + self.most * busy.max(1.0) * elapsed_ns as f64;
        (self.spent_ns as f64) < allowed_ns
    }

    /// A look at a sample has cost `cost_ns` of CPU time.
    pub const fn spend(&mut self, cost_ns: u64) {
        self.spent_ns += cost_ns;
    }

    /// The cost of all samples so far, ns.
    pub const fn spent_ns(&self) -> u64 {
        self.spent_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn few_sleeps_are_always_summed_up_and_many_now_and_then() {
        for (per_ms, at_least, at_most) in [(1, 1.0, 1.0), (24, 1.0, 1.0), (250, 0.08, 0.13)] {
            let mut duty = Duty::new(None, 0);
            let (mut sleeps, mut on, mut on_ms) = (0, true, 0);
            for ms in 1..=20_000 {
                sleeps += if on { per_ms } else { 0 };
                on_ms += u64::from(on);
                match duty.judge(ms * MS, sleeps, ms * MS) {
                    Turn::On => on = true,
                    Turn::Off => on = false,
                    Turn::Stay => {}
                }
            }
            let part = on_ms as f64 / 20_000.0;
            assert!(part >= at_least && part <= at_most, "{per_ms} {part}");
        }
    }

    #[test]
    fn samples_cost_no_more_than_they_may() {
        let mut all = Allowance::new(None);
        let mut looked = 0;
        for ms in 0..10_000 {
            if all.has_room(ms * MS, 1.0) {
                all.spend(MS);
                looked += 1;
            }
        }
        assert_eq!(looked, 40);
        assert!(!Allowance::new(Some(0.0)).has_room(MS, 1.0));
    }
}
