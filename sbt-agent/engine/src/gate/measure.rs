//! The figures that rules are about, taken from a report, or why they are unknown.

use super::{Amount, Measure};
use crate::report::{
    ConceptualReport, EfficiencyReport, Report, SiteReport, StatReport, Withheld, WithheldReason,
};

/// Number of episodes or phases from which the watched spans of time stand for the whole run.
const ENOUGH: u64 = 100;

/// Why a figure is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// There is nothing to measure, or it was not watched: the rule is broken.
    Absent(String),
    /// Too much was lost or unseen to judge.
    Lost(String),
}

impl From<String> for Unknown {
    fn from(why: String) -> Self {
        Self::Absent(why)
    }
}

impl From<&str> for Unknown {
    fn from(why: &str) -> Self {
        Self::Absent(why.into())
    }
}

/// A measured figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The value that is compared with the limit.
    pub amount: Amount,
    /// For times, the mean, ns.
    pub mean_ns: Option<u64>,
}

impl From<Amount> for Measured {
    fn from(amount: Amount) -> Self {
        let mean_ns = None;
        Self { amount, mean_ns }
    }
}

/// The value of a measure at a site, or why it is unknown.
pub fn of_site(measure: Measure, site: &SiteReport, report: &Report) -> Result<Measured, Unknown> {
    if measure == Measure::Episodes {
        return Ok(Amount::Count(site.episodes).into());
    }
    if let Some(withheld) = report.why_withheld(Withheld::Shares) {
        return Err(Unknown::Lost(withheld.because.clone()));
    }
    if site.episodes == 0 {
        let why = format!(
            "no complete episode was seen there (incomplete: {})",
            site.incomplete
        );
        return Err(if site.incomplete > 0 {
            Unknown::Lost(why)
        } else {
            Unknown::Absent(why)
        });
    }
    if site.incomplete > site.episodes {
        return Err(Unknown::Lost(format!(
            "most episodes there are incomplete: {} of {}",
            site.incomplete,
            site.incomplete.saturating_add(site.episodes)
        )));
    }
    if measure == Measure::Phase {
        has_enough_phases(site, report)?;
    }
    is_enough(site.episodes, "episodes", site.estimated, report)?;
    match measure {
        Measure::Imbalance => {
            let known = site.imbalance_pct.map(Amount::Percent);
            known.map(Into::into).ok_or_else(|| {
                "no episode has two threads whose work is known from its beginning".into()
            })
        }
        Measure::Idle => {
            let times = Times::of(site)?;
            Ok(Amount::Percent(times.idle / times.total * 100.0).into())
        }
        Measure::Efficiency => {
            let times = Times::of(site)?;
            Ok(Amount::Share(times.useful / times.total).into())
        }
        Measure::LoadBalance => load_balance(site),
        Measure::BarrierTime => time(site.barrier_ns.as_ref()),
        Measure::Phase => time(site.phase_ns.as_ref()),
        Measure::Episodes => Ok(Amount::Count(site.episodes).into()),
    }
}

/// Checks that enough phases were seen at a site to stand for all. A phase is known only if the
/// previous episode was seen too.
pub fn has_enough_phases(site: &SiteReport, report: &Report) -> Result<(), Unknown> {
    let seen = site.phase_ns.as_ref().map_or(0, |phases| phases.count);
    let estimated = site.estimated && site.phase_ns.is_some();
    is_enough(seen, "phases", estimated, report)
}

/// The value of a measure in a conceptual phase, or why it is unknown.
pub fn of_phase(
    measure: Measure,
    phase: &ConceptualReport,
    report: &Report,
) -> Result<Measured, Unknown> {
    if measure != Measure::Episodes {
        let whole = phase.phase_ns.as_ref().map_or(0, |whole| whole.count);
        if phase.abandoned > whole {
            let all = phase.abandoned.saturating_add(whole);
            let remedy = if report.estimated {
                "; --budget off watches everything"
            } else {
                ""
            };
            return Err(Unknown::Lost(format!(
                "most of these phases were abandoned: {} of {all}{remedy}",
                phase.abandoned
            )));
        }
        let estimated = report.estimated && whole > 0;
        is_enough(whole, "whole phases", estimated, report)?;
    }
    let none = || format!("a phase from barrier to barrier has no {}", of(measure));
    match measure {
        Measure::Phase => {
            time(phase.phase_ns.as_ref()).map_err(|_| "the phase never came to an end".into())
        }
        Measure::Efficiency | Measure::LoadBalance => {
            let efficiency = phase.efficiency.as_ref().ok_or_else(|| {
                lost(report).unwrap_or_else(|| {
                    "the threads of this phase changed, or some of their work is unknown".into()
                })
            })?;
            of_efficiency(measure, efficiency).ok_or_else(|| none().into())
        }
        Measure::Idle => {
            let (idle, work) = (phase.idle_ns as f64, phase.work_ns as f64);
            if idle + work > 0.0 {
                Ok(Amount::Percent(idle / (idle + work) * 100.0).into())
            } else {
                Err("the phase never came to an end".into())
            }
        }
        Measure::Episodes => Ok(Amount::Count(phase.episodes).into()),
        Measure::Imbalance | Measure::BarrierTime => Err(none().into()),
    }
}

/// The value of a measure in the whole run, or why it is unknown or has no meaning there.
pub fn of_run(measure: Measure, report: &Report) -> Result<Measured, Unknown> {
    if measure == Measure::Episodes {
        return Ok(Amount::Count(report.episodes).into());
    }
    let efficiency = report
        .known_efficiency()
        .map_err(|because| lost(report).unwrap_or_else(|| Unknown::Absent(because.to_owned())))?;
    let none = || format!("the whole run has no {}", of(measure));
    of_efficiency(measure, efficiency).ok_or_else(|| none().into())
}

/// Why efficiencies are unknown, if too much was lost or unseen.
fn lost(report: &Report) -> Option<Unknown> {
    let withheld = report.why_withheld(Withheld::Efficiency)?;
    (withheld.reason != WithheldReason::NoEpisode).then(|| Unknown::Lost(withheld.because.clone()))
}

/// Checks that what was seen stands for what was not seen.
fn is_enough(count: u64, what: &str, estimated: bool, report: &Report) -> Result<(), Unknown> {
    if !estimated || count >= ENOUGH {
        return Ok(());
    }
    Err(Unknown::Lost(format!(
        "only {count} {what} were seen there, since the probes were on for {} of the run; --budget \
         off watches everything",
        part_seen(report)
    )))
}

fn of(measure: Measure) -> &'static str {
    match measure {
        Measure::Imbalance => "imbalance",
        Measure::Idle => "idle share",
        Measure::Efficiency => "efficiency",
        Measure::LoadBalance => "load balance",
        Measure::BarrierTime => "barrier time",
        Measure::Phase => "phase time",
        Measure::Episodes => "number of episodes",
    }
}

fn of_efficiency(measure: Measure, efficiency: &EfficiencyReport) -> Option<Measured> {
    match measure {
        Measure::Efficiency => Some(Amount::Share(efficiency.parallel).into()),
        Measure::LoadBalance => Some(Amount::Share(efficiency.load_balance).into()),
        _ => None,
    }
}

fn time(stat: Option<&StatReport>) -> Result<Measured, Unknown> {
    let stat = stat.ok_or("the end of the previous episode is unknown for all episodes")?;
    Ok(Measured {
        amount: Amount::Time(stat.p95),
        mean_ns: Some(stat.mean),
    })
}

fn part_seen(report: &Report) -> String {
    let thinned = report.own_cost.thinned;
    thinned.map_or_else(
        || "a part".into(),
        |thinned| format!("{:.0} %", thinned.observed_pct),
    )
}

/// Where the time of a site's threads went, ns: in the phases that end there, in waiting for
/// others, and in leaving the barrier.
struct Times {
    total: f64,
    idle: f64,
    useful: f64,
}

impl Times {
    fn of(site: &SiteReport) -> Result<Self, Unknown> {
        let (mut work_ns, mut ready_ns, mut rest_ns) = (0_u64, 0_u64, 0_u64);
        let mut idle_ns = 0_u64;
        for thread in &site.threads {
            let known = thread.work_ns.ok_or_else(work_unknown)?;
            work_ns = work_ns.saturating_add(known);
            // As in the efficiencies of the run: time that is not known to be lost is useful.
            ready_ns = ready_ns.saturating_add(thread.ready_ns.unwrap_or(0));
            idle_ns = idle_ns.saturating_add(thread.idle_ns);
            rest_ns = rest_ns.saturating_add(thread.release_ns.unwrap_or(0));
        }
        let total_ns = work_ns as f64 + idle_ns as f64 + rest_ns as f64;
        if total_ns > 0.0 {
            Ok(Self {
                total: total_ns,
                idle: idle_ns as f64,
                useful: work_ns.saturating_sub(ready_ns) as f64,
            })
        } else {
            Err("no time has passed at this site".into())
        }
    }
}

fn work_unknown() -> Unknown {
    "the start of work is unknown for some threads".into()
}

/// Mean work / largest work of a thread. This has a meaning only if all threads take part in all
/// episodes.
fn load_balance(site: &SiteReport) -> Result<Measured, Unknown> {
    let work = site.threads.iter().map(|thread| thread.work_ns);
    let work: Vec<u64> = work.collect::<Option<_>>().ok_or_else(work_unknown)?;
    let episodes = || site.threads.iter().map(|thread| thread.episodes);
    let (least, most) = (episodes().min(), episodes().max());
    if least != most {
        return Err("some of its threads do not take part in all episodes".into());
    }
    let sum: f64 = work.iter().map(|work| *work as f64).sum();
    let most = work.iter().max().copied().unwrap_or(0);
    if most == 0 || work.len() < 2 {
        return Err("fewer than two threads have work".into());
    }
    Ok(Amount::Share(sum / work.len() as f64 / most as f64).into())
}
