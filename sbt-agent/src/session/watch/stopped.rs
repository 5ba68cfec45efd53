//! Measures how long signals kept the program stopped, or a frozen control group kept it from
//! running: all figures count that time as work or waiting, for which no thread is to blame. Pure.

use sbt_engine::report::StandsReport;

/// Sums the time for which the program was seen to stand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stopped {
    /// The number of arrivals at the last look.
    arrivals: u64,
    /// The time of the last look, ns; `None` before the first.
    looked_ns: Option<u64>,
    /// Whether the program stood at the last look.
    stands: bool,
    total: StandsReport,
}

impl Stopped {
    /// Checks whether the program stands, unless threads have arrived since the last check: a
    /// program that stands has no arrivals.
    pub fn tick(&mut self, now_ns: u64, arrivals: u64, does_stand: impl FnOnce() -> bool) {
        let moves = std::mem::replace(&mut self.arrivals, arrivals) != arrivals;
        let stands = !moves && does_stand();
        let stood = std::mem::replace(&mut self.stands, stands);
        let before_ns = self.looked_ns.replace(now_ns).unwrap_or(now_ns);
        let passed_ns = now_ns.saturating_sub(before_ns);
        self.total.times += u64::from(stands && !stood);
        if stands && stood {
            self.total.total_ns += passed_ns;
        }
        if stands || stood {
            self.total.at_most_ns += passed_ns;
        }
    }

    /// The number of times that the program was seen to stand, and for how long.
    pub const fn report(&self) -> StandsReport {
        self.total
    }

    /// Counts from now on.
    pub fn reset(&mut self) {
        self.total = StandsReport::default();
    }

    /// The note for the report; `None` if the program was never seen to stand. `what` kept it.
    pub fn note(&self, what: &str) -> Option<String> {
        let times = match self.total.times {
            0 => return None,
            1 => String::new(),
            times => format!(", {times} times,"),
        };
        let seconds = std::time::Duration::from_nanos(self.total.total_ns).as_secs_f64();
        Some(format!(
            "{what} the program{times} for at least {seconds:.1} s: the times of work and of \
             waiting include this (--states full shows it separately)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_is_told() {
        let note = |stopped: &Stopped| stopped.note("a signal stopped");
        let mut stopped = Stopped::default();
        stopped.tick(1_000, 5, || unreachable!("somebody has come"));
        stopped.tick(2_000, 5, || false);
        assert_eq!(note(&stopped), None);
        for (now, stands) in [
            (1, true),
            (2, true),
            (3, true),
            (4, false),
            (5, true),
            (6, true),
        ] {
            stopped.tick(now * 1_000_000_000, 5, || stands);
        }
        let total = stopped.report();
        assert_eq!((total.times, total.total_ns), (2, 3_000_000_000));
        // The program may have stood from just after the look before, until just before the look
        // after.
        assert_eq!(total.at_most_ns, 5_999_998_000);
        let text = note(&stopped).unwrap_or_default();
        assert!(text.contains(", 2 times, for at least 3.0 s"), "{text}");
        // An arrival ends the stop without a look.
        stopped.tick(7_000_000_000, 6, || unreachable!("somebody has come"));
        assert!(!stopped.stands);
        stopped.reset();
        assert_eq!(note(&stopped), None);
    }
}
