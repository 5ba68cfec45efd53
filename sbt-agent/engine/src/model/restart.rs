//! Gaps in the watching, and resets of the totals.

use super::{
    Exact, Model, Totals, away::Tracks, busy::Busy, cost::Paid, efficiency::Usage, marks::Marks,
    tape::Step,
};

impl Model {
    /// Nothing was seen until `time_ns`: every barrier may be in any round, and every thread
    /// anywhere, as when watching begins in the middle of a run.
    pub(super) fn gap(&mut self, time_ns: u64) {
        for id in self.barriers.ids() {
            self.settle_leaving(id);
            self.close_open(id);
            self.barriers.get(id).open.round = None;
        }
        for (_, live) in self.threads.living() {
            live.since = None;
            live.hint = None;
            live.seat = None;
            live.mark = None;
            live.last_round = None;
            live.unseated_ns = None;
            live.counts.forget();
            live.paid = Paid::default();
        }
        // A thread born during the gap may have been in any episode.
        self.blurred_ns = self.blurred_ns.max(Some(time_ns));
        self.conceptual.abandon_all();
        self.usage.interrupt();
        if let Some(tracks) = &mut self.away {
            *tracks = Tracks::default();
        }
        self.compensated.gap();
        self.turns.gap();
    }

    /// Resets all totals to count from `time_ns`. Open episodes and spans stay open, and count when
    /// they end.
    pub fn reset(&mut self, time_ns: u64) {
        self.tape.keep(|| Step::Reset { time_ns });
        for id in self.barriers.ids() {
            self.settle_leaving(id);
            self.barriers.get(id).episodes = 0;
        }
        self.threads.reset();
        self.sites.reset();
        self.conceptual.reset();
        self.marks = Marks::default();
        self.unfinished.clear();
        self.told.clear();
        self.totals = Totals {
            // Past losses still limit what can be trusted.
            lost: self.totals.lost,
            ..Totals::default()
        };
        self.start_ns = time_ns;
        self.busy = Busy::default();
        self.exact = Exact::default();
        if let Some(samples) = &mut self.samples {
            samples.reset();
        }
        self.compensated.reset();
        self.usage.reset(time_ns);
        for (_, live) in self.threads.living() {
            Usage::follow(&mut live.chain, 0);
        }
        #[cfg(test)]
        self.log.clear();
    }
}
