//! Why threads were late: sentences that a person can act on, from the figures of a report. Pure
//! functions: only the report is read.
//!
//! Each kind of verdict is one function. For a site, the first function in [`AT_A_SITE`] that
//! applies gives the verdict. Causes come before shapes, because a thread that sleeps or has no CPU
//! looks like imbalance. The verdicts are sorted by the thread time that they explain.

use crate::report::{
    Figure, Report, SiteReport, StandstillReport, VerdictKind, VerdictReport, WORTH, Withheld,
    by_name,
};

use spread::Loss;

mod asleep;
mod away;
mod completion;
mod cost;
mod counted;
mod culprit;
mod drift;
mod excess;
mod kernel;
mod lack;
mod late;
mod noise;
mod regions;
mod related;
mod shape;
mod short;
mod speed;
mod spread;
mod start;
mod team;
#[cfg(test)]
pub(crate) mod tests;
mod unaccounted;
mod unexplained;
mod waiting;
pub(crate) mod words;

/// Number of complete episodes below which a site shows no pattern, and a run is not called free of
/// problems: as with patterns of stragglers, fewer show nothing that chance does not.
const FEW: u64 = 4;

/// Largest number of verdicts; nobody reads more.
const MOST: usize = 5;

type OfRun = fn(&Report) -> Option<VerdictReport>;
type OfSite = fn(&Report, &SiteReport) -> Option<VerdictReport>;

/// Verdicts on the whole run.
const OF_THE_RUN: [OfRun; 8] = [
    lack::stood::still,
    lack::of_the_run,
    start::serial_start,
    start::serial_end,
    start::between_teams,
    regions::serial_part,
    asleep::in_the_work,
    kernel::page_faults,
];

/// Verdicts on the whole run of a program without barriers.
const WITHOUT_BARRIERS: [OfRun; 3] = [
    lack::stood::still,
    lack::without_barriers,
    kernel::page_faults_without_barriers,
];

/// Why there is no verdict on a program that hung.
const HUNG: &str = "the program hung, and that matters more than how its work is spread";

/// Verdicts on a site, in the order in which they are tried.
const AT_A_SITE: [OfSite; 11] = [
    short::phase_too_short,
    late::blocked,
    waiting::straggler,
    shape::serial_phase,
    drift::grows,
    counted::instructions,
    shape::persistent,
    shape::alternating,
    shape::rotating,
    speed::slow_cpu,
    late::lost_its_cpu,
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
    if has_hung_for_most(report) {
        return Err(HUNG.into());
    }
    if let Err(because) = measured(report) {
        let mut found = Vec::new();
        if report.sites.is_empty() {
            found.extend(WITHOUT_BARRIERS.iter().filter_map(|kind| kind(report)));
        }
        // Looks need no barriers.
        waiting::add(report, &mut found);
        // A lack of CPUs says nothing of how the threads wait for each other.
        if let [only] = &mut found[..]
            && only.kind == VerdictKind::OthersTakeCpus
            && let Some(wait) = unexplained::longest_wait(report)
        {
            only.text = format!("{} Besides, {wait}.", only.text);
        }
        return match (
            found.is_empty(),
            report.has_looks_without_barriers() && is_known(report),
        ) {
            (false, _) => Ok(ranked(found)),
            (true, true) => Err(unexplained::of(report)),
            (true, false) => Err(because),
        };
    }
    let of_run = OF_THE_RUN.iter().filter_map(|kind| kind(report));
    let at_sites = report.sites.iter().filter_map(|site| {
        let mut kinds = AT_A_SITE.iter();
        kinds.find_map(|kind| kind(report, site))
    });
    let stands = |verdict: &VerdictReport| {
        lack::stands(report, verdict)
            && lack::stood::stands(report, verdict)
            && shape::stands(report, verdict)
    };
    let mut found: Vec<VerdictReport> = of_run.chain(at_sites).filter(stands).collect();
    let in_barriers = report.sites.iter();
    found.extend(in_barriers.filter_map(|site| completion::of_site(report, site)));
    related::add(report, &mut found);
    waiting::add(report, &mut found);
    // Looks tell where the threads sleep.
    if found.iter().any(waiting::tells_of_sleep) {
        found.retain(|verdict| verdict.kind != VerdictKind::AsleepInTheWork || rank(verdict) < 3);
    }
    // Short phases at many places are one fault.
    if let Some(many) = short::at_many_places(report, &found).filter(stands) {
        found.retain(|verdict| verdict.kind != many.kind);
        found.push(many);
    }
    // One thread that is late at many places, or for long in few episodes, is told once.
    let loss = Loss::of(report).filter(|loss| loss.is_worth(report));
    if let Some(loss) = loss
        && !loss.is_told_by(&found)
    {
        found.retain(|verdict| !loss.covers(verdict));
        found.extend(Some(loss.verdict(report)).filter(stands));
    }
    let mut found = ranked(found);
    if found.is_empty() {
        found.push(no_problem(report)?);
    }
    Ok(found)
}

/// Whether half of the threads or more hung for half of the time or more.
fn has_hung_for_most(report: &Report) -> bool {
    let Some(hung) = report.run.hang.as_ref().filter(|hung| hung.is_hang()) else {
        return false;
    };
    let in_it = hung.found.arrived.iter().chain(&hung.found.missing);
    let in_it = in_it.filter(|thread| thread.who.thread.is_some()).count();
    let living = report.threads.iter().filter(|thread| !thread.ended);
    2 * in_it >= living.count() && hung.lasted_ns.saturating_mul(2) >= report.run.wall_ns
}

/// The verdicts that explain most.
fn ranked(mut found: Vec<VerdictReport>) -> Vec<VerdictReport> {
    let order = |a: &VerdictReport, b: &VerdictReport| explained(b).total_cmp(&explained(a));
    found.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| order(a, b)));
    found.truncate(MOST);
    found
}

/// Whether what was seen can be trusted.
fn is_known(report: &Report) -> bool {
    report.why_withheld(Withheld::Shares).is_none()
}

/// Whether enough was measured for verdicts; the error says what is missing.
fn measured(report: &Report) -> Result<(), String> {
    if let Some(withheld) = report.why_withheld(Withheld::Shares) {
        return Err(withheld.because.clone());
    }
    if report.episodes == 0 {
        return Err("no complete episode: too few to tell".into());
    }
    if report.incomplete_episodes > report.episodes {
        return Err(format!(
            "{} of {} episodes were not seen as a whole{}",
            report.incomplete_episodes,
            report.incomplete_episodes + report.episodes,
            by_name::hint(report)
        ));
    }
    Ok(())
}

/// The figure of the evidence that says how much of a want is known to have a certain cause.
const KNOWN: &str = "known_pct";

/// The order of verdicts. What stopped the threads from outside comes first: it is part of all other
/// figures. Then come the program's own faults, then what other processes do, then what has no known
/// cause: that threads sleep or lack a CPU is a symptom.
fn rank(verdict: &VerdictReport) -> u8 {
    let known = figure(verdict, KNOWN);
    match verdict.kind {
        VerdictKind::ProgramStopped | VerdictKind::CpuQuota => 0,
        VerdictKind::OthersTakeCpus | VerdictKind::SlowCpu => 2,
        _ if known.is_some_and(|known| known <= 0.0) => 3,
        _ => 1,
    }
}

/// The percentage of the threads' time that a verdict explains.
fn explained(verdict: &VerdictReport) -> f64 {
    figure(verdict, "share_pct").unwrap_or(0.0)
}

fn figure(verdict: &VerdictReport, name: &str) -> Option<f64> {
    match verdict.evidence.get(name) {
        Some(Figure::Real(share)) => Some(*share),
        _ => None,
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
        return Err(HUNG.into());
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
    let lost = unaccounted::of(report)?;
    if lost.pct() > WORTH {
        let sentence = lost.sentence();
        return Err(if lost.is_for_lack_of_cpus() {
            format!("{sentence}. {}", lack::unknown(report).1)
        } else {
            sentence
        });
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
