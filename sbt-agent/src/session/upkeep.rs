//! Decisions that the session renews at each tick.

use super::Session;
use sbt_program::clock;

impl Session {
    /// Decides what is worth watching, and looks at what no event shows.
    pub(super) fn tick(&mut self) {
        let notes = self.reporting.notes();
        if let Some(passed) = self.watch.passed() {
            let now_ns = clock::now_ns();
            let (uses, has_barriers) = self.understanding.release(now_ns);
            let seen = (now_ns, uses + passed, has_barriers);
            self.watch
                .govern_condvars(seen, &mut self.understanding, notes);
        }
        self.watch.keep_to_budget(&mut self.understanding, notes);
        self.watch.govern_departures(&mut self.understanding, notes);
        self.watch.count_cpus();
        if let Some(looking) = &self.looking {
            looking.set_processes(self.watch.living());
        }
        self.watch.notice_stops(self.understanding.arrivals());
        self.watch.notice_end_of_first(notes);
        let seen = self.watch.govern_futexes(&mut self.understanding, notes);
        // Without probes it is unknown whether barriers are hit.
        if let Some(seen) = seen.filter(|_| self.is_watching()) {
            let now_ns = clock::now_ns();
            self.understanding.look_for_spins(now_ns, seen);
            let notes = self.reporting.notes();
            self.watch.try_spins(now_ns, &mut self.understanding, notes);
        }
        self.look_for_hangs();
        self.end_what_hangs();
        // Last, so that the recording includes what was found in this tick.
        self.write_down();
    }

    /// Whether the probes are on, or off for the budget alone.
    fn is_watching(&self) -> bool {
        self.watch.is_on() && !self.watch.is_off()
    }

    /// Decides again whether anything hangs.
    fn look_for_hangs(&mut self) {
        if self.is_watching() {
            let lines = self.understanding.look_for_hangs(
                self.watch.start_ns(),
                self.watch.living(),
                &self.settings,
            );
            self.tell_hangs(lines);
            let now_ns = clock::now_ns();
            if let Some(saver) = self.reporting.saver() {
                let found = self.understanding.hang_report(now_ns);
                let hangs = found.is_some_and(|one| one.is_alarming());
                saver.look_at_hang(hangs);
            }
        }
    }

    /// Ends the program if it has hung for longer than the user allows.
    fn end_what_hangs(&mut self) {
        let Some(limit) = self.settings.end_hangs else {
            return;
        };
        let now_ns = clock::now_ns();
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let hang = if self.program.may_hang() {
            self.understanding.hang_report(now_ns)
        } else {
            None
        };
        let hang = hang.filter(|hang| hang.outcome == "lasts" && hang.is_too_long(limit_ns));
        let hung_ns = hang.map(|hang| hang.lasted_ns);
        if hung_ns.is_some() {
            self.understanding.expect_end(now_ns);
        }
        let notes = self.reporting.notes();
        self.program.end_what_hangs(now_ns, hung_ns, notes);
    }
}
