//! Draws how counters go with lateness.

use super::{super::RelatedReport, Draw, ns};
use crate::{
    counters::{Says, says},
    model::related::AllRelated,
};

impl Draw<'_> {
    /// By descending correlation; counters without one stand last.
    pub(super) fn related(&self, all: &AllRelated) -> Vec<RelatedReport> {
        let named = (0..).zip(&self.facts.counters.0);
        let mut found: Vec<RelatedReport> = named
            .map(|(at, (counter, _))| {
                let related = all.of(at);
                let means = related.means();
                RelatedReport {
                    counter: counter.name.clone(),
                    episodes: related.episodes(),
                    correlation: related.correlation(),
                    effective_episodes: related.effective_episodes(),
                    made_by_lateness: says(&counter.name) == Says::Nothing,
                    last: means.map(|(last, _)| last),
                    others: means.map(|(_, others)| others),
                    late_ns: related.late_ns().map(ns),
                }
            })
            .collect();
        let size = |it: &RelatedReport| it.correlation.unwrap_or(f64::NEG_INFINITY);
        found.sort_by(|a, b| size(b).total_cmp(&size(a)));
        found
    }
}
