//! The verdict on an imbalance that grows over the run.

use super::{cost::Cost, culprit::Culprit, late, words::who};
use crate::{
    report::{
        Figure, Report, SiteReport, StragglerPattern, TrendReport, VerdictKind, VerdictReport,
    },
    total::total,
};

/// The parts of the run that are compared.
const PARTS: usize = 4;

/// The least number of episodes in each part.
const LEAST: u64 = 5;

/// The wait must grow by this many percent of the threads' time at least, and to so many times as much in an
/// episode. Its share of the threads' time ends at that of a thread that works alone.
const GROWTH: f64 = 10.0;
const TIMES: f64 = 1.5;

/// The wait in a part of the run: as a percentage of the threads' time, and in the mean of an episode, ns.
fn waiting(part: &[TrendReport], threads: f64) -> Option<(f64, f64)> {
    let sum = |f: fn(&TrendReport) -> Option<u64>| {
        let each = part
            .iter()
            .map(|bucket| Some(f(bucket)? as f64 * bucket.episodes as f64));
        each.sum::<Option<f64>>()
    };
    let episodes = total(part.iter().map(|bucket| bucket.episodes));
    let phase = sum(|bucket| bucket.phase_ns)?;
    let idle = sum(|bucket| Some(bucket.idle_ns))?;
    (episodes >= LEAST && phase > 0.0).then(|| {
        let pct = (idle / (phase * threads) * 100.0).min(100.0);
        (pct, idle / episodes as f64)
    })
}

/// The quarters of the run at a site.
fn quarters(site: &SiteReport) -> Option<impl Iterator<Item = &[TrendReport]>> {
    // The first episode follows the program's start.
    let trend = site.trend.get(1..)?;
    let width = trend.len() / PARTS;
    (width > 0).then(|| trend.chunks_exact(width).take(PARTS))
}

/// Whether the phases become shorter, or longer, from each quarter of the run to the next, in all to so
/// many times as little or as much: as where a matrix is factored and less of it is left in each step.
pub fn changes_steadily(site: &SiteReport, times: f64) -> bool {
    let phase = |part: &[TrendReport]| {
        let episodes = total(part.iter().map(|bucket| bucket.episodes));
        let each = part
            .iter()
            .map(|bucket| Some(bucket.phase_ns? as f64 * bucket.episodes as f64));
        let sum = each.sum::<Option<f64>>()?;
        (episodes >= LEAST).then(|| sum / episodes as f64)
    };
    let phases: Option<Vec<f64>> = quarters(site).and_then(|parts| parts.map(phase).collect());
    phases.is_some_and(|phases| {
        let by =
            |at_least: fn(f64, f64) -> bool| phases.windows(2).all(|two| at_least(two[0], two[1]));
        let (first, last) = (phases[0], phases[PARTS - 1]);
        by(|before, after| before > after) && first >= times * last
            || by(|before, after| before < after) && last >= times * first
    })
}

/// How the wait grows from the first part of the run to the last, percent of the threads' time;
/// `None` if it does not grow from each part to the next.
fn growth(site: &SiteReport, threads: f64) -> Option<(f64, f64)> {
    let parts: Option<Vec<(f64, f64)>> =
        quarters(site)?.map(|part| waiting(part, threads)).collect();
    let parts = parts?;
    let grows = parts.windows(2).all(|pair| pair[1].1 > pair[0].1);
    let ((first, first_ns), (last, last_ns)) = (*parts.first()?, *parts.last()?);
    (grows && last - first >= GROWTH && last_ns >= TIMES * first_ns).then_some((first, last))
}

/// Verdict: the imbalance of the work grows.
pub fn grows(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let (all, late) = Cost::of(report, site)?;
    let (cost, _) = late::of_work(report, site, &all, late)?;
    let (from, to) = growth(site, late.participants)?;
    let straggler = site.straggler.as_ref()?;
    let is_one = straggler.pattern != StragglerPattern::Rotating;
    let culprit = Culprit::of(report, site).filter(|_| is_one);
    let whom = culprit.map_or_else(
        || "each other".to_owned(),
        |culprit| who(report, culprit.thread),
    );
    let text = format!(
        "growing imbalance at {}: the threads wait {from:.0} % of their time for {whom} in the \
         first quarter of the run and {to:.0} % in the last; {}. Divide the work anew from time to \
         time: {}.",
        site.called(),
        cost.words(&all),
        cost.saves(report),
    );
    Some(VerdictReport {
        kind: VerdictKind::GrowingImbalance,
        site: Some(site.id),
        thread: culprit.map(|culprit| culprit.thread),
        text,
        evidence: [
            ("share_pct", Figure::Real(cost.share_pct)),
            ("gain_ns", Figure::Whole(cost.saved_ns())),
            ("first_pct", Figure::Real(from)),
            ("last_pct", Figure::Real(to)),
        ]
        .into(),
    })
}
