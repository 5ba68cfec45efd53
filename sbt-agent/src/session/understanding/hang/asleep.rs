//! Programs all of whose threads sleep, whether or not a barrier was ever seen. Pure.

/// The shortest and the longest time between two readings, ns.
const READINGS_NS: [u64; 2] = [100_000_000, 1_000_000_000];

/// The number of readings that fit into the time after which to look.
const READINGS: u64 = 8;

/// The largest share of a CPU of a program that sleeps, as one in so many.
const SHARE: u64 = 100;

/// CPU time that the processes of a program have used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// The processes, in any order that stays.
    pub processes: Vec<u32>,
    /// The sum over their threads that are alive, ns.
    pub cpu_ns: u64,
    /// The number of arrivals at barriers that were seen.
    pub arrivals: u64,
}

/// Since when a program has slept.
#[derive(Clone, Debug, Default)]
pub struct Asleep {
    last: Option<(u64, Used)>,
    since_ns: Option<u64>,
}

impl Asleep {
    /// Whether it is time for a reading. `limit_ns`: the time after which to look.
    pub fn is_due(&self, now_ns: u64, limit_ns: u64) -> bool {
        let [shortest, longest] = READINGS_NS;
        let pause_ns = (limit_ns / READINGS).clamp(shortest, longest);
        let last = self.last.as_ref();
        last.is_none_or(|(then_ns, _)| now_ns.saturating_sub(*then_ns) >= pause_ns)
    }

    /// Takes a reading.
    pub fn see(&mut self, now_ns: u64, used: Used) {
        let Some((then_ns, last)) = self.last.replace((now_ns, used)) else {
            return;
        };
        let Some((_, used)) = &self.last else { return };
        let is_new = used
            .processes
            .iter()
            .any(|process| !last.processes.contains(process));
        let fewer = used.processes.len() < last.processes.len();
        // Threads that end take their times with them: what the others did is not known.
        if !is_new && (fewer || used.cpu_ns < last.cpu_ns) {
            return;
        }
        let did_ns = used.cpu_ns.saturating_sub(last.cpu_ns);
        let sleeps = !is_new
            && used.arrivals == last.arrivals
            && did_ns.saturating_mul(SHARE) <= now_ns.saturating_sub(then_ns);
        self.since_ns = if sleeps {
            self.since_ns.or(Some(then_ns))
        } else {
            None
        };
    }

    /// Since when the program has slept, ns; `None` if it does something.
    pub const fn since_ns(&self) -> Option<u64> {
        self.since_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn used(processes: &[u32], ms: u64) -> Used {
        Used {
            processes: processes.to_vec(),
            cpu_ns: ms * MS,
            arrivals: 0,
        }
    }

    #[test]
    fn it_sleeps_from_the_first_reading_without_work() {
        let mut asleep = Asleep::default();
        assert!(asleep.is_due(0, 2_000 * MS));
        asleep.see(0, used(&[7], 50));
        assert!(!asleep.is_due(200 * MS, 2_000 * MS));
        assert!(asleep.is_due(250 * MS, 2_000 * MS));
        assert_eq!(asleep.since_ns(), None);
        asleep.see(250 * MS, used(&[7], 51));
        assert_eq!(asleep.since_ns(), Some(0));
        asleep.see(500 * MS, used(&[7], 51));
        assert_eq!(asleep.since_ns(), Some(0));
        asleep.see(750 * MS, used(&[7], 151));
        assert_eq!(asleep.since_ns(), None, "it has worked");
    }

    #[test]
    fn who_comes_and_goes() {
        let mut asleep = Asleep::default();
        asleep.see(0, used(&[7], 50));
        asleep.see(250 * MS, used(&[7], 50));
        asleep.see(500 * MS, used(&[], 0));
        assert_eq!(asleep.since_ns(), Some(0), "it was killed in its sleep");
        asleep.see(750 * MS, used(&[7, 8], 50));
        assert_eq!(asleep.since_ns(), None, "a new process does something");
    }
}
