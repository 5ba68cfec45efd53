//! Withholds figures that are unknown or cannot be true: no report leaves sbt before.
//!
//! A pure function, and the same for a live snapshot, a recording and a report that is read again.
//! A second pass changes nothing.

use super::{
    EfficiencyReport, Report, Withheld, WithheldReason, WithheldReport, by_name, identities,
    waits::{Gets, LooksReport, WaitPlaceReport},
};
use crate::{looks::FEW, model::efficiency::MOST_INCOMPLETE};

/// Percentage of the threads' time below which a cause is not worth changing a program for: runs of
/// one program differ by as much on a quiet machine. Lost time above this limit is always reported.
pub const WORTH: f64 = 2.0;

/// Percentage of all events that were lost.
pub fn lost_pct(report: &Report) -> f64 {
    let (lost, seen) = (report.lost_events as f64, report.own_cost.events as f64);
    if lost > 0.0 {
        lost / (lost + seen) * 100.0
    } else {
        0.0
    }
}

/// The report without figures that cannot be known or cannot be true; `withheld` lists them.
#[must_use]
pub fn sound(mut report: Report) -> Report {
    if let Some((reason, because)) = unseen(&report) {
        withhold(&mut report, Withheld::Efficiency, reason, because.clone());
        if reason == WithheldReason::EventsLost {
            let figure = Withheld::Compensated;
            withhold(&mut report, figure, reason, because.clone());
        }
        if lost_pct(&report) > WORTH {
            withhold(&mut report, Withheld::OwnCost, reason, because.clone());
            withhold(&mut report, Withheld::Shares, reason, because);
        }
    }
    if let Some(pct) = report.worked_in_barriers_pct() {
        let because = format!(
            "for {pct:.0} % of thread time, threads were on a CPU in barriers of OpenMP, where they \
             execute tasks: how much each worked there is not known"
        );
        let reason = WithheldReason::WorkUnknown;
        withhold(&mut report, Withheld::Efficiency, reason, because);
    }
    if let Some(pct) = report.slept_after_the_last_pct() {
        let because = format!(
            "for {pct:.0} % of thread time, threads slept in barriers after the last one had come: when they \
             began to work is not known"
        );
        let reason = WithheldReason::WorkUnknown;
        withhold(&mut report, Withheld::Efficiency, reason, because);
    }
    withhold_at_barriers_with_work(&mut report);
    if let Some((pct, what)) = spun_in_the_work(&report) {
        let because = format!(
            "for about {pct:.0} % of thread time, threads {what} outside of barriers: how much of it is \
             work, and of which thread, is not known"
        );
        let reason = WithheldReason::WorkUnknown;
        withhold(&mut report, Withheld::Efficiency, reason, because);
    }
    for broken in identities::broken(&report) {
        let because = format!(
            "{}: these figures contradict each other; this is a bug in sbt, or the file was \
             changed",
            broken.text
        );
        let reason = WithheldReason::Contradiction;
        withhold(&mut report, broken.figure, reason, because.clone());
        if broken.figure == Withheld::Shares {
            withhold(&mut report, Withheld::Efficiency, reason, because);
        }
    }
    if let Some(ready_pct) = unshared_ready_pct(&report) {
        let because = format!(
            "threads were ready without a CPU for {ready_pct:.0} % of the time for which they lived; that is no \
             work, and how much of it lies in the times between barriers is not known"
        );
        let reason = WithheldReason::WorkUnknown;
        withhold(&mut report, Withheld::Efficiency, reason, because);
    }
    if report.joins_blindly() {
        let because = "sbt joined the program while threads may have waited already, and by this backend it does \
                       not see in which round a thread arrives: which arrivals belong together is not known";
        for figure in [Withheld::Shares, Withheld::Efficiency] {
            withhold(&mut report, figure, WithheldReason::Unseen, because.into());
        }
        for site in &mut report.sites {
            site.straggler = None;
        }
    }
    if let Some(because) = more_than_cpus(&report) {
        let reason = WithheldReason::WorkUnknown;
        withhold(&mut report, Withheld::Efficiency, reason, because);
    }
    if report.efficiency.is_none() {
        let (reason, because) = too_little(&report);
        withhold(&mut report, Withheld::Efficiency, reason, because);
    }
    for figure in [
        Withheld::Efficiency,
        Withheld::Shares,
        Withheld::OwnCost,
        Withheld::Compensated,
    ] {
        if report.why_withheld(figure).is_some() {
            clear(&mut report, figure);
        }
    }
    report
}

impl WithheldReport {
    /// An entry for a figure, and the reason why it is withheld.
    pub const fn new(figure: Withheld, reason: WithheldReason, because: String) -> Self {
        Self {
            figure,
            reason,
            because,
        }
    }
}

impl Report {
    /// Why a figure is withheld; `None` if it is not.
    pub fn why_withheld(&self, figure: Withheld) -> Option<&WithheldReport> {
        self.withheld
            .iter()
            .find(|withheld| withheld.figure == figure)
    }

    /// The efficiencies, or why they are unknown.
    ///
    /// # Errors
    /// The reason, as a part of a sentence.
    pub fn known_efficiency(&self) -> Result<&EfficiencyReport, &str> {
        self.efficiency.as_ref().ok_or_else(|| {
            let withheld = self.why_withheld(Withheld::Efficiency);
            withheld.map_or("too little was seen", |withheld| withheld.because.as_str())
        })
    }
}

/// Adds an entry for a figure, unless there is one already: the first reason stands.
fn withhold(report: &mut Report, figure: Withheld, reason: WithheldReason, because: String) {
    if report.why_withheld(figure).is_none() {
        let withheld = WithheldReport::new(figure, reason, because);
        report.withheld.push(withheld);
    }
}

/// Sets a figure, and all figures made from it, to null.
fn clear(report: &mut Report, figure: Withheld) {
    match figure {
        Withheld::Efficiency => {
            report.efficiency = None;
            for phase in &mut report.conceptual_phases {
                phase.efficiency = None;
            }
        }
        Withheld::Shares => {
            let time = &mut report.thread_time;
            (time.work_pct, time.idle_pct) = (None, None);
            (time.release_pct, time.between_pct) = (None, None);
            for site in &mut report.sites {
                (site.lost_wall_pct, site.imbalance_pct) = (None, None);
                (site.path_pct, site.weighted_path_pct) = (None, None);
            }
        }
        Withheld::OwnCost => report.own_cost.share_pct = None,
        Withheld::Compensated => {
            report.compensated = None;
            for site in &mut report.sites {
                site.compensated = None;
            }
        }
        Withheld::Other => {}
    }
}

/// Sets to null, at barriers in which threads may have executed tasks, what is made from how much each
/// worked outside.
fn withhold_at_barriers_with_work(report: &mut Report) {
    let works = |site| report.worked_in_barrier_ns(site) > 0;
    let of_work: Vec<bool> = report.sites.iter().map(works).collect();
    for (site, _) in report.sites.iter_mut().zip(of_work).filter(|of| of.1) {
        (site.imbalance_pct, site.parallelism) = (None, None);
        (site.path_pct, site.weighted_path_pct) = (None, None);
    }
}

/// Why the work of the threads cannot be what it seems, if it is more than all CPUs can do: for how long
/// threads lacked a CPU is then not known well enough.
fn more_than_cpus(report: &Report) -> Option<String> {
    const ROUNDING: f64 = 1.05;
    if !report.run.has_stopped_threads() {
        return None;
    }
    let speedup = report.efficiency.as_ref()?.speedup;
    let cpus = report.run.cpus.filter(|cpus| *cpus > 0)?;
    (speedup > f64::from(cpus) * ROUNDING).then(|| {
        format!(
            "the threads cannot have worked as much as it seems, with {cpus} CPUs: for how long each \
             lacked a CPU is not known well enough"
        )
    })
}

/// The percentage of thread time for which threads spun outside of barriers, by samples, and for what;
/// `None` if that is little or not known.
fn spun_in_the_work(report: &Report) -> Option<(f64, &'static str)> {
    const LEAST_PCT: f64 = 10.0;
    let places = report.waits.iter().flat_map(LooksReport::in_the_work);
    let spinning =
        places.filter(|place| place.spins() && place.sleeps.is_some_and(|samples| samples >= FEW));
    let is_message =
        |place: &&WaitPlaceReport| place.call.as_deref().map(Gets::of) == Some(Gets::Message);
    let (messages, others): (Vec<_>, Vec<_>) = spinning.partition(is_message);
    let what = match (messages.is_empty(), others.is_empty()) {
        (true, _) => "spun for a lock or a flag",
        (false, true) => "waited for other ranks of MPI or exchanged data with them",
        (false, false) => {
            "spun for a lock or a flag, or waited for other ranks of MPI or exchanged data with them"
        }
    };
    let all = messages.iter().chain(&others);
    let pct: f64 = all.map(|place| place.share_pct).sum();
    (pct >= LEAST_PCT).then_some((pct, what))
}

/// The percentage of their time for which threads were ready without a CPU, where it is not known how much of
/// that was in their work; `None` if that is known, or if it is little.
fn unshared_ready_pct(report: &Report) -> Option<f64> {
    const LEAST_PCT: f64 = 5.0;
    let known = report.efficiency.as_ref()?.cpu_availability;
    let pct = report.ready_pct_of_lives();
    pct.filter(|pct| known.is_none() && *pct >= LEAST_PCT)
}

impl Report {
    /// The percentage of their lives for which the program's threads were ready without a CPU, of those of which
    /// that is known.
    pub fn ready_pct_of_lives(&self) -> Option<f64> {
        let tasks = self.run.scheduling.iter().flat_map(|it| &it.tasks);
        let known = tasks.filter_map(|task| Some((task.ready_ns?, task.looked_ns)));
        let (ready_ns, lived_ns) = known.fold((0_u64, 0_u64), |(ready, lived), (more, longer)| {
            (ready.saturating_add(more), lived.saturating_add(longer))
        });
        (lived_ns > 0).then(|| ready_ns as f64 / lived_ns as f64 * 100.0)
    }

    /// Whether sbt joined a program without seeing which arrivals at a barrier belong to one round: neither does
    /// it see departures, nor the barrier's own count of its rounds.
    fn joins_blindly(&self) -> bool {
        let run = &self.run;
        let sees_rounds = !["perf", "ptrace"].contains(&&*run.backend);
        run.started == Some(false) && !sees_rounds && run.departures != Some(true)
    }
}

/// The reason why times over the whole run are unknown: a part of the run was not seen. `None` if
/// all was seen.
fn unseen(report: &Report) -> Option<(WithheldReason, String)> {
    let lost = report.lost_events;
    if lost > 0 {
        let all = lost.saturating_add(report.own_cost.events);
        return Some((
            WithheldReason::EventsLost,
            format!(
                "{lost} of {all} events were lost ({})",
                few_pct(lost_pct(report))
            ),
        ));
    }
    let seen_pct = report.own_cost.thinned.map(|thinned| thinned.observed_pct);
    (report.estimated || seen_pct.is_some()).then(|| {
        let seen = seen_pct.map_or("a part".into(), |pct| format!("{pct:.0} %"));
        (
            WithheldReason::Unseen,
            format!("the probes were on for {seen} of the run; --budget off watches everything"),
        )
    })
}

/// A percentage that may be tiny, as text.
fn few_pct(pct: f64) -> String {
    match pct {
        ..0.01 => "less than 0.01 %".into(),
        0.01..1.0 => format!("{pct:.2} %"),
        _ => format!("{pct:.0} %"),
    }
}

/// Why the model could not tell how well the threads were used.
fn too_little(report: &Report) -> (WithheldReason, String) {
    let (episodes, incomplete) = (report.episodes, report.incomplete_episodes);
    if episodes == 0 {
        return (
            WithheldReason::NoEpisode,
            "no complete episode was seen".to_owned(),
        );
    }
    if incomplete > episodes / MOST_INCOMPLETE {
        let all = episodes.saturating_add(incomplete);
        return (
            WithheldReason::Incomplete,
            format!(
                "{incomplete} of {all} episodes are incomplete{}",
                by_name::hint(report)
            ),
        );
    }
    (
        WithheldReason::WorkUnknown,
        "the work of the threads is unknown: watching was interrupted or has only just begun"
            .to_owned(),
    )
}

#[cfg(test)]
#[path = "sound_tests.rs"]
mod tests;
