//! Draws the cost of watching, and the figures without that cost.

use super::{
    super::{CompensatedReport, KindCost, OwnCost, ThinnedReport, ThreadTimeReport},
    Draw, ns,
};
use crate::model::{
    cost::{Class, Sum},
    ids::SiteId,
    virtual_time::Sums,
};

/// Why the share of a short run on a busy machine is unknown: what a hit costs is measured apart from
/// the run.
const TOO_DEAR: &str = "the estimated cost of all hits exceeds the threads' total time, because one hit is \
                        measured outside of the run";

impl Draw<'_> {
    pub(super) fn own_cost(&self, time: &ThreadTimeReport) -> OwnCost {
        let tariff = self.facts.tariff.as_ref();
        let rows = self.model.threads().rows();
        let mut sum = Sum::default();
        for row in rows {
            sum.merge(&row.paid);
        }
        let all_ns = tariff.map(|tariff| sum.ns(tariff));
        let hits = sum.events();
        // While the probes are off, the threads' time is not measured. Take the wall time for each
        // thread that was hit.
        let time_ns = if time.total_ns == 0 || self.facts.thinned.is_some() {
            let hit = rows.iter().filter(|row| row.paid.events() > 0).count();
            hit as f64 * self.facts.run.wall_ns as f64
        } else {
            time.total_ns as f64
        };
        let share_pct = all_ns
            .filter(|_| time_ns > 0.0)
            .map(|all_ns| all_ns / time_ns * 100.0);
        let is_too_dear = share_pct.is_some_and(|share| share > 100.0);
        OwnCost {
            events: hits,
            ns_per_event: all_ns
                .filter(|_| hits > 0)
                .map(|all_ns| ns(all_ns / hits as f64)),
            share_pct: share_pct.filter(|share| *share <= 100.0),
            by_kind: Class::ALL
                .into_iter()
                .filter(|class| sum.hits[*class as usize] > 0)
                .map(|class| KindCost {
                    kind: class.into(),
                    events: sum.hits[class as usize],
                    ns_each: tariff.map(|tariff| ns(tariff.each[class as usize])),
                })
                .collect(),
            ns_per_step: tariff.map(|tariff| ns(tariff.step)),
            stepped: sum.stepped,
            ns_per_walk: tariff.map(|tariff| ns(tariff.walk)),
            walked: sum.walked,
            unknown_because: (self.facts.cost_unknown_because.clone())
                .or_else(|| is_too_dear.then(|| TOO_DEAR.to_owned())),
            budget_pct: self.facts.budget_pct,
            thinned: self.thinned(),
            cpu_ns: self.facts.own_cpu_ns,
        }
    }

    fn thinned(&self) -> Option<ThinnedReport> {
        let (since_ns, off_ns) = self.facts.thinned?;
        let wall_ns = self.facts.run.wall_ns.max(1) as f64;
        Some(ThinnedReport {
            since_ns: self.since_start(since_ns),
            off_ns,
            observed_pct: (1.0 - off_ns as f64 / wall_ns).max(0.0) * 100.0,
            arrivals_seen: self.model.totals().arrivals,
            arrivals_exact: self.model.knows_all_arrivals(),
        })
    }

    /// The cost of the probe hits of a thread, ns; `None` if the cost of probes is unknown.
    pub(super) fn paid(&self, paid: &Sum) -> Option<u64> {
        let tariff = self.facts.tariff.as_ref()?;
        Some(ns(paid.ns(tariff)))
    }

    pub(super) fn compensated(&self) -> Option<CompensatedReport> {
        let compensated = self.model.compensated();
        let wall_ns = compensated.wall_ns(self.facts.run.wall_ns)?;
        Some(CompensatedReport {
            wall_ns: Some(ns(wall_ns)),
            ..report(compensated.total()?)
        })
    }

    pub(super) fn compensated_at(&self, site: u32) -> Option<CompensatedReport> {
        self.model.compensated().site(SiteId(site)).map(report)
    }
}

fn report(sums: &Sums) -> CompensatedReport {
    CompensatedReport {
        wall_ns: None,
        episodes: sums.episodes,
        phase_ns: ns(sums.phase_ns),
        phase_mean_ns: (sums.episodes > 0).then(|| ns(sums.phase_ns / sums.episodes as f64)),
        idle_ns: ns(sums.idle_ns),
        work_ns: ns(sums.work_ns),
    }
}
