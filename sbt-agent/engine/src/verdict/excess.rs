//! By how much the last thread's times exceed the others'.

use crate::report::LateReport;

/// By how much the last thread's times exceeded the others' mean, ns, summed over the episodes.
pub struct Excess {
    /// Time on a CPU.
    pub running: f64,
    /// Time ready without a CPU.
    pub ready: f64,
    /// Time asleep in the kernel.
    pub blocked: f64,
}

impl Excess {
    /// The excess; `None` if it is unknown, or not positive in total.
    pub fn of(late: &LateReport) -> Option<Self> {
        let by = |last: Option<u64>, others: Option<u64>| Some(last? as f64 - others? as f64);
        let (last, others) = (&late.last, &late.others);
        let excess = Self {
            running: by(last.running_ns, others.running_ns)?,
            ready: by(last.ready_ns, others.ready_ns)?,
            blocked: by(last.blocked_ns, others.blocked_ns)?,
        };
        (excess.all() > 0.0).then_some(excess)
    }

    /// The lateness, ns.
    pub fn all(&self) -> f64 {
        self.running + self.ready + self.blocked
    }

    /// The fraction of the lateness that a part explains, 0 to 1. The part itself may be negative
    /// or exceed the total.
    pub fn explained(&self, part: f64) -> f64 {
        (part / self.all()).clamp(0.0, 1.0)
    }
}
