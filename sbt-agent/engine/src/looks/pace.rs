//! How often to look, so that the looks cost little.

/// The shortest time between two looks, ns.
const SHORTEST_NS: u64 = 10_000_000;

/// The longest time between two looks, ns.
const LONGEST_NS: u64 = 1_000_000_000;

/// Looks may cost this fraction of the CPU time of the program, or of one CPU if the program uses
/// less.
pub const MOST: f64 = 0.005;

/// CPU time that the looks may cost beyond that, ns: the first reads the program's files, and a short
/// run is to have some looks.
const TO_BEGIN_NS: f64 = 30_000_000.0;

/// Decides when the next look is due.
#[derive(Clone, Debug)]
pub struct Pace {
    /// The fraction of a CPU's time that looks may cost.
    most: f64,
    spent_ns: u64,
    seed: u64,
}

impl Pace {
    /// `budget_pct`: the user's limit for the cost of watching, percent. `seed`: any number.
    pub fn new(budget_pct: Option<f64>, seed: u64) -> Self {
        let budget = budget_pct.map_or(MOST, |pct| pct / 100.0 / 2.0);
        Self {
            most: MOST.min(budget),
            spent_ns: 0,
            seed: seed | 1,
        }
    }

    /// CPU time that the looks have cost so far, ns.
    pub const fn spent_ns(&self) -> u64 {
        self.spent_ns
    }

    /// A look has cost `cost_ns` of CPU time, `elapsed_ns` after the first look began; `busy` CPUs
    /// are used by the program. Returns the time until the next look, ns; `None` if the budget
    /// allows no look.
    pub fn after(&mut self, cost_ns: u64, elapsed_ns: u64, busy: f64) -> Option<u64> {
        self.spent_ns += cost_ns;
        if self.most <= 0.0 {
            return None;
        }
        let per_ns = self.most * busy.max(1.0);
        let allowed_ns = TO_BEGIN_NS + per_ns * elapsed_ns as f64;
        let due = (self.spent_ns as f64 - allowed_ns) / per_ns;
        Some(self.spread(whole(due).clamp(SHORTEST_NS, LONGEST_NS)))
    }

    /// A time between 3/4 and 5/4 of `ns`: a program with a period must not be looked at in the same
    /// part of each.
    const fn spread(&mut self, ns: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let part = (self.seed >> 20) % 1024;
        ns / 4 * 3 + ns / 2 * part / 1024
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion from floats saturates"
)]
pub(super) fn whole(ns: f64) -> u64 {
    ns.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn looks_cost_no_more_than_they_may() {
        for (cost_ns, busy) in [(20_000, 1.0), (300_000, 1.0), (300_000, 8.0), (2 * MS, 2.0)] {
            let mut pace = Pace::new(Some(2.0), 7);
            let mut now_ns = 0;
            // The first look reads the program's files.
            let mut cost = 40 * MS;
            while now_ns < 100_000 * MS {
                now_ns += pace.after(cost, now_ns, busy).unwrap();
                cost = cost_ns;
            }
            let most = 0.005 * busy.max(1.0) * now_ns as f64 + 45e6;
            assert!((pace.spent_ns() as f64) < most, "{cost_ns} {busy}");
        }
    }

    #[test]
    fn cheap_looks_are_frequent_and_not_regular() {
        let mut pace = Pace::new(None, 99);
        let all: Vec<u64> = (0..100)
            .map(|look| pace.after(30_000, look * 10 * MS, 1.0).unwrap())
            .collect();
        assert!(all.iter().all(|ns| (7 * MS..13 * MS).contains(ns)));
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert!(distinct.len() > 50);
    }

    #[test]
    fn the_budget_of_the_user_holds() {
        assert_eq!(Pace::new(Some(0.0), 1).after(1, 1, 1.0), None);
        let mut rare = Pace::new(Some(0.1), 1);
        let _reads_files = rare.after(30 * MS, 1, 1.0);
        let pause = rare.after(100_000, 1, 1.0).unwrap();
        assert!(pause >= 150 * MS, "{pause}");
    }
}
