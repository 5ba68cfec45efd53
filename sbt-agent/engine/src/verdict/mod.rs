//! Why threads were late: sentences that a person can act on, from the figures of a report. Pure
//! functions: only the report is read.
//!
//! Each kind of verdict is one function. For a site, the first function in [`AT_A_SITE`] that
//! applies gives the verdict. Causes come before shapes, because a thread that sleeps or has no CPU
//! looks like imbalance. The verdicts are sorted by the thread time that they explain.

use crate::report::{
    Figure, Report, SiteReport, StandstillReport, VerdictKind, VerdictReport, WORTH, Withheld,
};

mod away;
mod counted;
mod excess;
mod lack;
mod late;
mod shape;
mod short;
mod start;
#[cfg(test)]
pub(crate) mod tests;
mod unaccounted;
pub(crate) mod words;

/// Number of complete episodes below which there is no verdict, neither on the run nor on a site:
/// as with patterns of stragglers, fewer show nothing that chance does not.
const FEW: u64 = 4;

/// Largest number of verdicts; nobody reads more.
const MOST: usize = 5;

type OfRun = fn(&Report) -> Option<VerdictReport>;
type OfSite = fn(&Report, &SiteReport) -> Option<VerdictReport>;

/// Verdicts on the whole run.
const OF_THE_RUN: [OfRun; 4] = [
    lack::stood::still,
    lack::of_the_run,
    start::serial_start,
    start::serial_end,
];

/// Verdicts on a site, in the order in which they are tried.
const AT_A_SITE: [OfSite; 9] = [
    start::serial_part,
    short::phase_too_short,
    late::blocked,
    late::lost_its_cpu,
    shape::serial_phase,
    counted::instructions,
    shape::persistent,
    shape::alternating,
    shape::rotating,
];

/// The report with its verdicts, or with the reason why there are none.
pub fn with(mut report: Report) -> Report {
    match judge(&report) {
        Ok(verdicts) => report.verdicts = Some(verdicts),
        Err(because) => report.no_verdict_because = Some(because),
    }
    report
}

/// A report that was read, perhaps written by an older sbt, without the verdict `no-problem` if its
/// figures do not support it.
pub fn again(mut report: Report) -> Report {
    let denies = |verdict: &VerdictReport| verdict.kind == VerdictKind::NoProblem;
    if report.verdicts.iter().flatten().any(denies)
        && let Err(because) = measured(&report).and_then(|()| no_problem(&report))
    {
        report.verdicts = None;
        report.no_verdict_because = Some(because);
    }
    report
}

/// All verdicts on a report, sorted by the thread time that they explain; `no-problem` alone if
/// nothing was found. The error says why there can be no verdict.
pub fn judge(report: &Report) -> Result<Vec<VerdictReport>, String> {
    measured(report)?;
    let of_run = OF_THE_RUN.iter().filter_map(|kind| kind(report));
    let at_sites = report.sites.iter().filter_map(|site| {
        let mut kinds = AT_A_SITE.iter();
        kinds.find_map(|kind| kind(report, site))
    });
    let stands = |verdict: &VerdictReport| {
        lack::stands(report, verdict) && lack::stood::stands(report, verdict)
    };
    let mut found: Vec<VerdictReport> = of_run.chain(at_sites).filter(stands).collect();
    let order = |a: &VerdictReport, b: &VerdictReport| explained(b).total_cmp(&explained(a));
    found.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| order(a, b)));
    found.truncate(MOST);
    if found.is_empty() {
        found.push(no_problem(report)?);
    }
    Ok(found)
}

/// Whether enough was measured for verdicts; the error says what is missing.
fn measured(report: &Report) -> Result<(), String> {
    if let Some(withheld) = report.why_withheld(Withheld::Shares) {
        return Err(withheld.because.clone());
    }
    if report.episodes < FEW {
        return Err(format!(
            "{} complete {}: too few to tell",
            report.episodes,
            if report.episodes == 1 {
                "episode"
            } else {
                "episodes"
            }
        ));
    }
    if report.incomplete_episodes > report.episodes {
        return Err(format!(
            "{} of {} episodes were not seen as a whole",
            report.incomplete_episodes,
            report.incomplete_episodes + report.episodes
        ));
    }
    Ok(())
}

/// What comes first whatever it explains: what stopped the threads from outside is part of all
/// other figures. And what comes last: what other processes do is no fault of the program.
const fn rank(verdict: &VerdictReport) -> u8 {
    match verdict.kind {
        VerdictKind::ProgramStopped | VerdictKind::CpuQuota => 0,
        VerdictKind::OthersTakeCpus => 2,
        _ => 1,
    }
}

/// The percentage of the threads' time that a verdict explains.
fn explained(verdict: &VerdictReport) -> f64 {
    match verdict.evidence.get("share_pct") {
        Some(Figure::Real(share)) => *share,
        _ => 0.0,
    }
}

fn no_problem(report: &Report) -> Result<VerdictReport, String> {
    if let Some(missing) = report.incomplete.first() {
        return Err(format!(
            "nothing was found in what was recorded, but {}",
            missing.text
        ));
    }
    if report
        .run
        .hang
        .as_ref()
        .is_some_and(StandstillReport::is_hang)
    {
        return Err(
            "its threads stood still at a barrier: the hang is what there is to say".into(),
        );
    }
    let lost = unaccounted::of(report)?;
    if lost.pct() > WORTH {
        return Err(lost.sentence());
    }
    let waiting_pct = lost.waiting_pct();
    Ok(VerdictReport {
        kind: VerdictKind::NoProblem,
        site: None,
        thread: None,
        text: format!(
            "no problem found: in {} episodes the threads waited {waiting_pct:.1} % of their time \
             for each other",
            report.episodes
        ),
        evidence: [
            ("episodes", Figure::Whole(report.episodes)),
            ("waiting_pct", Figure::Real(waiting_pct)),
        ]
        .into(),
    })
}
