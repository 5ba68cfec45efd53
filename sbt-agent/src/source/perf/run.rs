//! Computes how long a thread has run, by its switches. Pure.

use sbt_common::UNKNOWN;

/// The run time of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Run time until it last got or lost the CPU, ns; `None` if not known.
    before_ns: Option<u64>,
    cpu: Cpu,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cpu {
    /// The thread has a CPU since this time, ns.
    Since(u64),
    /// The thread probably has a CPU since this time, ns. If the next switch is to a CPU, it had
    /// none.
    MaybeSince(u64),
    None,
}

impl Run {
    /// The run time of a thread that has just begun.
    pub const BORN: Self = Self {
        before_ns: Some(0),
        cpu: Cpu::None,
    };

    /// An unknown run time.
    pub const UNKNOWN: Self = Self {
        before_ns: None,
        cpu: Cpu::None,
    };

    /// The run time of a thread that existed before: `ns` at `time_ns`.
    pub const fn existing(ns: Option<u64>, time_ns: u64) -> Self {
        Self {
            before_ns: ns,
            cpu: Cpu::MaybeSince(time_ns),
        }
    }

    /// Whether the run time is not known.
    pub const fn is_unknown(&self) -> bool {
        self.before_ns.is_none()
    }

    /// The run time so far, ns; [`UNKNOWN`] if not known.
    pub fn at(&self, time_ns: u64) -> u64 {
        let now = match self.cpu {
            Cpu::Since(begun) | Cpu::MaybeSince(begun) => time_ns.saturating_sub(begun),
            Cpu::None => 0,
        };
        self.before_ns.map_or(UNKNOWN, |before| before + now)
    }

    /// The thread gets a CPU or loses it.
    pub fn switch(&mut self, on: bool, time_ns: u64) {
        if !on {
            let total = self.at(time_ns);
            self.before_ns = (total != UNKNOWN).then_some(total);
        }
        self.cpu = if on { Cpu::Since(time_ns) } else { Cpu::None };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_on_a_cpu_is_added_up() {
        let mut run = Run::BORN;
        assert_eq!(run.at(5), 0);
        run.switch(true, 10);
        assert_eq!(run.at(13), 3);
        run.switch(false, 20);
        assert_eq!(run.at(30), 10);
        run.switch(true, 40);
        assert_eq!(run.at(41), 11);
    }

    #[test]
    fn what_was_there_before_runs_or_is_to_get_a_cpu() {
        let mut run = Run::existing(Some(100), 1000);
        assert_eq!(run.at(1010), 110);
        run.switch(false, 1020);
        assert_eq!(run.at(2000), 120);
        let mut run = Run::existing(Some(100), 1000);
        run.switch(true, 1500);
        assert_eq!(run.at(1501), 101);
    }

    #[test]
    fn what_is_not_known_stays_so() {
        for mut run in [Run::UNKNOWN, Run::existing(None, 7)] {
            run.switch(true, 10);
            run.switch(false, 20);
            assert_eq!(run.at(30), UNKNOWN);
        }
    }
}
