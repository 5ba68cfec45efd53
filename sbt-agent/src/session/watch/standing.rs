//! Looks whether the whole target stands still: stopped by a signal, or in a frozen control group.

use super::stopped::Stopped;
use sbt_engine::report::SchedulingReport;
use sbt_program::{process, scheduling::Scheduling};

/// The times in which the target stood still, as far as seen.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    stopped: Stopped,
    frozen: Stopped,
    /// The control group that was seen frozen last.
    group: Option<String>,
}

impl Standing {
    /// Looks at the target. `arrivals`: all arrivals so far.
    pub fn tick(&mut self, now_ns: u64, arrivals: u64, pid: u32, scheduling: &Scheduling) {
        self.stopped
            .tick(now_ns, arrivals, || process::is_stopped(pid));
        let group = &mut self.group;
        self.frozen.tick(now_ns, arrivals, || {
            let found = scheduling.frozen(pid);
            let is_frozen = found.is_some();
            *group = found.or_else(|| group.take());
            is_frozen
        });
    }

    /// Counts from now on.
    pub fn reset(&mut self) {
        self.stopped.reset();
        self.frozen.reset();
    }

    /// The report on the target's scheduling so far.
    pub fn report(&self, scheduling: &Scheduling) -> SchedulingReport {
        let frozen = (self.frozen.report(), self.group.clone());
        scheduling.report(self.stopped.report(), frozen)
    }

    /// The notes for the report.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let group = self.group.as_deref().unwrap_or_default();
        let frozen = format!("control group {group} was frozen, which stopped");
        [
            self.stopped.note("a signal stopped"),
            self.frozen.note(&frozen),
        ]
        .into_iter()
        .flatten()
    }
}
