//! Finds what keeps a program from getting faster with more threads.

use super::table::{AtCount, Limit, PhaseAt, PhaseScaling};
use crate::report::{Report, SiteReport, VerdictKind, VerdictReport};

/// Scaling efficiency from which a program counts as scaling. POP calls 0.8 acceptable.
pub const GOOD: f64 = 0.8;
/// Fraction of its ideal gain that a step must reach to be worth it.
const WORTH: f64 = 0.5;

/// Finds the limit. `phases` are sorted by descending loss; `reference` is the run with the largest
/// number of threads.
pub fn limit(counts: &[AtCount], phases: &[PhaseScaling], reference: &Report) -> Option<Limit> {
    let last = counts.last().filter(|_| counts.len() > 1)?;
    if last.scaling_efficiency? >= GOOD {
        return None;
    }
    let worst = phases.first()?;
    let lost_ns = worst.lost_ns.filter(|ns| *ns > 0)?;
    Some(Limit {
        from: worst.from.clone(),
        to: worst.to.clone(),
        scales_to: scales_to(&worst.at),
        lost_ns,
        lost_pct: worst.lost_pct,
        why: why(worst, reference),
    })
}

/// The number of threads before the first step that is not worth it.
fn scales_to(at: &[PhaseAt]) -> Option<u32> {
    let known: Vec<(u32, f64)> = at
        .iter()
        .filter_map(|at| Some((at.threads, at.speedup?)))
        .collect();
    let is_worth = |step: &[(u32, f64)]| {
        let could = f64::from(step[1].0) / f64::from(step[0].0) - 1.0;
        step[1].1 / step[0].1 - 1.0 >= WORTH * could
    };
    let steps = known.windows(2).take_while(|step| is_worth(step)).count();
    (steps > 0).then(|| known[steps].0)
}

fn why(worst: &PhaseScaling, reference: &Report) -> Vec<VerdictReport> {
    let verdicts = || reference.verdicts.iter().flatten();
    let is_there = |verdict: &&VerdictReport| {
        let site = verdict.site.and_then(|id| reference.site(id));
        worst.to.is_some() && site.map(SiteReport::called) == worst.to
    };
    let there: Vec<VerdictReport> = verdicts().filter(is_there).cloned().collect();
    let whole = verdicts()
        .filter(|verdict| verdict.site.is_none() && verdict.kind != VerdictKind::NoProblem);
    // What is wrong with the whole run may be why no phase gets faster.
    there.into_iter().chain(whole.cloned()).collect()
}
