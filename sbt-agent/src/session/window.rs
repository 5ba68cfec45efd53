//! The part of the run that counts: notices when a mark or the time begins or ends it.

use super::Session;
use sbt_program::clock;

/// Events that are older than this have come, ns.
const QUIET_NS: u64 = 500_000_000;

impl Session {
    /// Whether nothing counts yet.
    pub(super) fn is_before_window(&self) -> bool {
        self.understanding.model().window().is_before()
    }

    /// Sets the time at which counting is to begin by itself, if the user has named one.
    pub(super) fn set_start(&mut self) {
        let by_time = self.is_before_window() && self.settings.start_at.is_none();
        if let Some(after) = self.settings.start_after.filter(|_| by_time) {
            let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
            let start_ns = self.watch.begun_ns().saturating_add(after_ns);
            self.understanding.restart_at(start_ns, false);
        }
    }

    /// Begins to count, because somebody wants it.
    pub(super) fn start_counting(&mut self) {
        self.understanding.restart_at(clock::now_ns(), true);
    }

    /// Begins to count if that is due and no event shows that its time has come.
    pub(super) fn restart_if_quiet(&mut self) {
        let before_ns = clock::now_ns().saturating_sub(QUIET_NS);
        self.understanding.restart_if_due(before_ns);
        self.heed_window();
    }

    /// Acts on a beginning or end of the part that counts. Returns whether it has ended.
    pub(super) fn heed_window(&mut self) -> bool {
        let window = *self.understanding.model().window();
        if let Some(started_ns) = window.started_ns()
            && self.started_ns != Some(started_ns)
        {
            self.started_ns = Some(started_ns);
            self.count_from(started_ns);
            if !window.is_asked() {
                self.view.notice("counting begins here".into());
            }
        }
        let Some(stopped_ns) = window.stopped_ns() else {
            return false;
        };
        self.watch.end_at(stopped_ns);
        true
    }

    /// Watching has ended: if counting never began, what was seen must not count.
    pub(super) fn drop_uncounted(&mut self) {
        self.understanding.restart_if_due(self.watch.end_ns());
        self.heed_window();
        if self.is_before_window() {
            let end_ns = self.watch.end_ns();
            self.understanding.reset(end_ns);
            self.count_from(end_ns);
        }
    }

    /// The model counts from `start_ns` on: so do all others from now on.
    fn count_from(&mut self, start_ns: u64) {
        self.view.reset(self.watch.start_ns());
        self.watch.reset(start_ns);
        self.reporting.count_from(start_ns);
        self.understanding.reset_samples();
        if let Some(looking) = &self.looking {
            looking.reset(start_ns);
        }
    }
}
