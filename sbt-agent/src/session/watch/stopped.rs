//! Measures how long signals kept the program stopped: all figures count that time as work or
//! waiting, for which no thread is to blame. Pure.

/// Sums the time for which the program was seen stopped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stopped {
    /// The number of arrivals at the last look.
    arrivals: u64,
    /// The time of the last look at which the program stood stopped, ns; `None` while the program
    /// runs.
    since_ns: Option<u64>,
    total_ns: u64,
    times: u32,
}

impl Stopped {
    /// Checks whether the program is stopped, unless threads have arrived since the last check: a
    /// stopped program has no arrivals.
    pub fn tick(&mut self, now_ns: u64, arrivals: u64, is_stopped: impl FnOnce() -> bool) {
        let moves = std::mem::replace(&mut self.arrivals, arrivals) != arrivals;
        let stands = !moves && is_stopped();
        match (self.since_ns, stands) {
            (None, true) => {
                self.times += 1;
                self.since_ns = Some(now_ns);
            }
            (Some(since_ns), true) => {
                self.total_ns += now_ns.saturating_sub(since_ns);
                self.since_ns = Some(now_ns);
            }
            (_, false) => self.since_ns = None,
        }
    }

    /// The note for the report; `None` if the program was never seen stopped.
    pub fn note(&self) -> Option<String> {
        let times = match self.times {
            0 => return None,
            1 => String::new(),
            times => format!(", {times} times,"),
        };
        let seconds = std::time::Duration::from_nanos(self.total_ns).as_secs_f64();
        Some(format!(
            "a signal stopped the program{times} for at least {seconds:.1} s: the times of work \
             and of waiting include this (--states full shows it separately)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_is_told() {
        let mut stopped = Stopped::default();
        stopped.tick(1_000, 5, || unreachable!("somebody has come"));
        stopped.tick(2_000, 5, || false);
        assert_eq!(stopped.note(), None);
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
        assert_eq!((stopped.times, stopped.total_ns), (2, 3_000_000_000));
        let note = stopped.note().unwrap_or_default();
        assert!(note.contains(", 2 times, for at least 3.0 s"), "{note}");
        // An arrival ends the stop without a look.
        stopped.tick(7_000_000_000, 6, || unreachable!("somebody has come"));
        assert_eq!(stopped.since_ns, None);
    }
}
