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
        notes.extend(self.stopped.note());
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
                    "watching cost more than {budget} % of a thread's time: departures were no \
                     longer watched (--budget off watches all)"
                )
            });
        };
        let since = since_ns.saturating_sub(self.start_ns) as f64 / 1e9;
        let all_ns = until_ns.saturating_sub(self.start_ns).max(1);
        let seen = 100.0 - off_ns as f64 / all_ns as f64 * 100.0;
        let totals = if all_arrivals {
            "all arrivals are counted, by the barriers' own numbers of rounds"
        } else {
            "arrivals in the rest are not known of every barrier, so their number is too low"
        };
        Some(format!(
            "watching cost more than {budget} % of a thread's time: from {since:.1} s on the probes \
             were on for spans of time only, {seen:.0} % of the run in all; episodes, times and \
             shares are of what was seen, {totals} (--budget off watches all)"
        ))
    }
}
