//! The barriers that are measured: number of threads, load, and distance between arrivals.

use std::fmt;

/// How a thread spends its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Asleep: works with any number of threads.
    Sleep,
    /// On a CPU.
    Spin,
}

impl Load {
    /// The name of the load in the program's arguments.
    const fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Spin => "spin",
        }
    }
}

/// The thread that comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Straggler {
    /// No particular thread.
    None,
    /// Always the same thread.
    Fixed,
    /// The next thread in every round.
    Rotating,
}

/// One run of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Threads that meet.
    pub threads: u32,
    /// The work of the threads before they meet.
    pub load: Load,
    /// Difference in load from one thread to the next, µs.
    pub skew_us: u32,
    /// The thread with the greatest load.
    pub straggler: Straggler,
    /// Number of meetings.
    pub rounds: u32,
}

/// The least load, µs. It keeps the rate of arrivals below the limit at which sbt stops to watch
/// departures.
const BASE_US: u32 = 300;

pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |threads, load, skew_us, rounds| {
        let stragglers: &[Straggler] = match skew_us {
            0 => &[Straggler::None],
            _ => &[Straggler::Fixed, Straggler::Rotating],
        };
        cases.extend(stragglers.iter().map(|straggler| Case {
            threads,
            load,
            skew_us,
            straggler: *straggler,
            rounds,
        }));
    };
    for load in [Load::Sleep, Load::Spin] {
        for (skew_us, rounds) in [
            (0, 1000),
            (20, 1000),
            (200, 1000),
            (2_000, 500),
            (20_000, 150),
        ] {
            add(2, load, skew_us, rounds);
        }
    }
    for (skew_us, rounds) in [(0, 1000), (20, 1000), (200, 800), (2_000, 200)] {
        add(4, Load::Sleep, skew_us, rounds);
    }
    for (skew_us, rounds) in [(0, 1000), (20, 1000), (200, 500), (2_000, 100)] {
        add(8, Load::Sleep, skew_us, rounds);
    }
    cases
}

impl Case {
    /// The program's arguments.
    pub fn arguments(&self) -> Vec<String> {
        vec![
            format!("threads={}", self.threads),
            format!("rounds={}", self.rounds),
            format!("base={BASE_US}"),
            format!("skew={}", self.skew_us),
            format!("turn={}", u8::from(self.straggler == Straggler::Rotating)),
            format!("load={}", self.load.name()),
        ]
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, ", self.threads, self.load.name())?;
        match (self.skew_us, self.straggler) {
            (0, _) => write!(f, "no skew"),
            (us, straggler) => {
                if us < 1000 {
                    write!(f, "{us} µs, ")?;
                } else {
                    write!(f, "{} ms, ", us / 1000)?;
                }
                f.write_str(match straggler {
                    Straggler::Rotating => "rotating",
                    Straggler::Fixed | Straggler::None => "fixed",
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_run_is_longer_than_what_sbt_keeps() {
        let cases = all();
        assert!(cases.iter().all(|case| case.rounds < 10_000));
        let mut names: Vec<String> = cases.iter().map(ToString::to_string).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), cases.len());
        assert!(names.contains(&"4 sleep, 2 ms, rotating".to_owned()));
    }
}
