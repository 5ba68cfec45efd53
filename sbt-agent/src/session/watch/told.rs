//! The notes for the user on what was not watched, and why.

use super::Watch;

impl Watch {
    /// The notes on the target's processes.
    pub fn notes_of_processes(&self) -> Vec<String> {
        self.processes.notes()
    }

    /// The notes on what was watched until `until_ns`. `all_arrivals`: arrivals are known even where
    /// the probes were off.
    pub fn notes(&self, until_ns: u64, all_arrivals: bool) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.condvars.note());
        notes.extend(self.standing.notes());
        notes.extend(self.departures.note());
        notes.extend(self.note_of_budget(until_ns, all_arrivals));
        notes.extend(self.futexes.note());
        notes.extend(self.locks.note());
        if self.lost() > 0 {
            notes.extend(self.locks.note_of_loss());
        }
        notes
    }

    /// The note on what was not watched to keep to the budget.
    fn note_of_budget(&self, until_ns: u64, all_arrivals: bool) -> Option<String> {
        let budget = self.budget.budget()?;
        let Some((since_ns, off_ns)) = self.budget.thinned(until_ns) else {
            return self.budget.has_dropped_departures().then(|| {
                format!(
                    "watching took more than {budget} % of a thread's time: departures were no \
                    longer watched (--budget off watches everything)"
                )
            });
        };
        let since = since_ns.saturating_sub(self.start_ns) as f64 / 1e9;
        let all_ns = until_ns.saturating_sub(self.start_ns).max(1);
        let seen = 100.0 - off_ns as f64 / all_ns as f64 * 100.0;
        let totals = if all_arrivals {
            "but all arrivals are counted, since the barriers count their rounds"
        } else {
            "and too few arrivals are counted, since some barriers do not count their rounds"
        };
        Some(format!(
            "watching took more than {budget} % of a thread's time: from {since:.1} s on the \
            probes were switched off for part of the run, and were on for {seen:.0} % of it; episodes, \
            times and shares cover what they saw, {totals} (--budget off watches everything)"
        ))
    }
}
