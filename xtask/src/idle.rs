//! Measures how much of the CPUs other programs use, since that distorts measurements.

use std::time::Instant;

use anyhow::{Context, Result};
use procfs::{CurrentSI as _, KernelStats, process::Process};

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
        let total = KernelStats::current()
            .context("cannot read /proc/stat")?
            .total;
        // Time taken by a hypervisor counts as busy; guest time is part of user.
        let busy = [Some(total.user), Some(total.nice), Some(total.system)]
            .into_iter()
            .chain([total.irq, total.softirq, total.steal])
            .flatten()
            .sum();
        let own = Process::myself().and_then(|process| process.stat());
        let own = own.context("cannot read /proc/self/stat")?;
        Ok(Self {
            busy,
            ours: (own.cutime + own.cstime).cast_unsigned(),
            all: busy + total.idle + total.iowait.unwrap_or(0),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_one() {
        let begin = Moment::now().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(120));
        let share = begin.others_since().unwrap();
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
}
