//! Draws how well the threads were used.

use super::{
    super::{BusyReport, EfficiencyReport, ParallelismReport, WhatIfReport},
    Draw,
};
use crate::model::{busy::Busy, efficiency::Efficiency, gains::Gains};

impl Draw<'_> {
    pub(super) fn efficiency(&self) -> Option<EfficiencyReport> {
        let end_ns = self
            .facts
            .run
            .start_ns
            .saturating_add(self.facts.run.wall_ns);
        self.model.efficiency(end_ns).map(efficiency)
    }

    /// The critical path through all sites: its length, ns, and its weighted length.
    pub(super) fn paths(&self) -> (f64, f64) {
        let sites = self.model.sites().all().iter();
        sites.fold((0.0, 0.0), |(path, weight), site| {
            let gains = &site.gains;
            (path + gains.path_ns as f64, weight + gains.weighted_ns)
        })
    }
}

pub(super) fn efficiency(it: Efficiency) -> EfficiencyReport {
    EfficiencyReport {
        parallel: it.parallel,
        load_balance: it.load_balance,
        serialisation: it.serialisation,
        transfer: it.transfer,
        cpu_availability: it.cpu_availability,
        speedup: it.speedup,
        granularity: it.granularity,
        threads: u32::try_from(it.threads).unwrap_or(u32::MAX),
        path_ns: it.path_ns,
    }
}

/// A part of the whole, in percent; `None` if the whole is 0.
pub(super) fn pct(part: f64, all: f64) -> Option<f64> {
    (all > 0.0).then(|| part / all * 100.0)
}

pub(super) fn parallelism(busy: &Busy) -> Option<ParallelismReport> {
    Some(ParallelismReport {
        mean_busy: busy.mean()?,
        busy_ns: busy.any_ns(),
        times: times(busy),
    })
}

pub(super) fn times(busy: &Busy) -> Vec<BusyReport> {
    busy.times()
        .map(|(busy, ns)| BusyReport {
            busy: u32::try_from(busy).unwrap_or(u32::MAX),
            ns,
        })
        .collect()
}

pub(super) fn what_if(gains: &Gains) -> WhatIfReport {
    let [tenth, quarter, half] = gains.faster_ns;
    WhatIfReport {
        straggler_10_pct_faster_ns: tenth,
        straggler_25_pct_faster_ns: quarter,
        straggler_50_pct_faster_ns: half,
        no_release_ns: gains.release.get(),
    }
}
