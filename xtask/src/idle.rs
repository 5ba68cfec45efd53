//! Measures how much of the CPUs other programs use, since that distorts measurements.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};

/// The kernel's CPU accounting at a moment, in ticks.
pub struct Moment {
    /// Busy ticks of all CPUs.
    busy: u64,
    /// Ticks of our children that have ended and been waited for.
    ours: u64,
    /// Busy and idle ticks of all CPUs.
    all: u64,
    time: Instant,
}

impl Moment {
    pub fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        let (busy, all) = cpu_ticks(&text).context("/proc/stat is not as expected")?;
        let text = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
        Ok(Self {
            busy,
            ours: children_ticks(&text).context("/proc/self/stat is not as expected")?,
            all,
            time: Instant::now(),
        })
    }

    /// The fraction of all CPUs that other programs have used since, 0 to 1.
    pub fn others_since(&self) -> Result<f64> {
        let now = Self::now()?;
        // In a shorter time, a single tick would count too much.
        if self.time.elapsed().as_millis() < 100 {
            return Ok(0.0);
        }
        let busy = now.busy.saturating_sub(self.busy);
        let others = busy.saturating_sub(now.ours - self.ours);
        let all = now.all.saturating_sub(self.all).max(1);
        Ok(others as f64 / all as f64)
    }
}

/// Busy ticks and all ticks of all CPUs. Time taken by a hypervisor counts as busy.
fn cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    // The fields are user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of
    // user.
    let all: u64 = ticks.get(..8)?.iter().sum();
    Some((all - ticks[3] - ticks[4], all))
}

/// Ticks of the children, user and system.
fn children_ticks(stat: &str) -> Option<u64> {
    // The process name in parentheses may contain any character.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: Vec<u64> = fields
        .split_whitespace()
        .skip(13)
        .take(2)
        .map_while(|field| field.parse().ok())
        .collect();
    (ticks.len() == 2).then(|| ticks.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accounting_is_read() {
        let stat = "cpu  10 1 5 100 7 2 3 4 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(cpu_ticks(stat), Some((25, 132)));
        assert_eq!(cpu_ticks("cpu  1 2"), None);
        let stat = "12 (a) b) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
        assert_eq!(children_ticks(stat), Some(13 + 14));
        assert_eq!(children_ticks("12 (a) R 1"), None);
    }

    #[test]
    fn a_share_is_one() {
        let begin = Moment::now().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(120));
        let share = begin.others_since().unwrap();
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
}
