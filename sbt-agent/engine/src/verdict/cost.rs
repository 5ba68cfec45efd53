//! The cost of the waits at a site, and the wall time that mending them would save.

use super::{
    team::{cpus_of_team, others_cpus},
    words::{saves, whole},
};
use crate::report::{LateReport, Report, SiteReport};

/// The cost of a site, without the program's start.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Percentage of the threads' time that they wait here for the last thread.
    pub share_pct: f64,
    /// Wall time that would be saved if the last thread had as much work as the mean of all, with a CPU for
    /// each thread.
    pub gain_ns: u64,
    /// The sum of the waits, ns.
    idle_ns: f64,
    /// Mean number of threads that meet, and the number of teams that meet side by side.
    threads: f64,
    teams: f64,
    /// Whether threads may work between their arrival and their wait.
    may_work: bool,
    /// The most that any mending of the site's waits would save, ns: the CPUs have the same work to do.
    most_ns: f64,
}

impl Cost {
    /// The cost; `None` if it is too small to mention, unknown, or of too few episodes.
    pub fn of<'a>(report: &Report, site: &'a SiteReport) -> Option<(Self, &'a LateReport)> {
        let late = site.straggler.as_ref()?.late.as_ref()?;
        if late.episodes < super::FEW {
            return None;
        }
        let cost = Self::of_any(report, site, late)?;
        (cost.share_pct >= super::WORTH).then_some((cost, late))
    }

    /// The cost, however small.
    pub fn of_any(report: &Report, site: &SiteReport, late: &LateReport) -> Option<Self> {
        let lost_pct = site.lost_wall_pct?;
        if site.lost_ns == 0 {
            return None;
        }
        let lost_ns = site.lost_ns as f64;
        let share_pct = lost_pct * late.idle_ns as f64 / lost_ns;
        // Of several teams at the same time, each gains separately.
        let of_one_team = lost_ns / (late.participants * report.seen_ns() as f64) * 100.0;
        let ran_ns = ran_ns(late);
        let cpus = cpus_of_team(report).or(report.run.cpus);
        let others = others_cpus(report);
        let least_ns = ran_ns.zip(cpus).map_or(0.0, |(ran, cpus)| {
            // The threads had this many CPUs, whatever others used.
            let had = ran / (late.phase_ns as f64).max(1.0);
            ran / (f64::from(cpus.max(1)) - others).max(had).max(1.0)
        });
        let all = Self {
            share_pct,
            gain_ns: 0,
            idle_ns: late.idle_ns as f64,
            threads: late.participants,
            teams: (of_one_team / lost_pct).max(1.0),
            may_work: report.may_work_between(site),
            most_ns: (late.phase_ns as f64 - least_ns).max(0.0),
        };
        let excess = late.last.work_ns as f64 - late.others.work_ns as f64;
        Some(Self {
            gain_ns: all.explained(excess).gain_ns,
            ..all
        })
    }

    /// The part of the cost that the last thread explains if it worked longer than the mean of the
    /// others by `excess_ns`, summed over the episodes.
    pub fn explained(&self, excess_ns: f64) -> Self {
        let waits_ns = excess_ns.max(0.0) * (self.threads - 1.0);
        let part = (waits_ns / self.idle_ns.max(1.0)).min(1.0);
        let gain_ns = whole(waits_ns.min(self.idle_ns) / self.threads / self.teams);
        Self {
            share_pct: self.share_pct * part,
            gain_ns,
            ..*self
        }
    }

    /// As [`Cost::explained`], if the last thread's delay can be removed and not only be shared out, as a sleep:
    /// then the whole of it is saved.
    pub fn removed(&self, excess_ns: f64) -> Self {
        let explained = self.explained(excess_ns);
        let all_wait_ns = self.idle_ns / (self.threads - 1.0).max(1.0);
        let gain_ns = whole(excess_ns.max(0.0).min(all_wait_ns) / self.teams);
        Self {
            gain_ns,
            ..explained
        }
    }

    /// Whether to mend this would save so much wall time that it is worth mentioning.
    pub fn is_worth(&self, report: &Report) -> bool {
        self.saves_pct(report) >= super::WORTH
    }

    /// The wall time that mending would save, as a percentage of all.
    pub fn saves_pct(&self, report: &Report) -> f64 {
        self.gain_ns as f64 * 100.0 / report.seen_ns().max(1) as f64
    }

    /// The share of thread time, as a part of a sentence. `all`: all waits at the site.
    pub fn words(&self, all: &Self) -> String {
        let (part, share) = (self.share_pct, all.share_pct);
        // Between `arrive` and `wait` of a `std::barrier` threads may do something else.
        let most = if self.may_work { "at most " } else { "" };
        if part < 0.75 * share {
            format!(
                "that explains {part:.0} of the {most}{share:.0} % of thread time spent waiting here"
            )
        } else {
            format!("the threads wait {most}{share:.0} % of their time here")
        }
    }

    /// The wall time that mending would save, as a part of a sentence.
    pub fn saves(&self, report: &Report) -> String {
        if self.may_work {
            return "what that would save depends on what threads do between arriving and waiting"
                .into();
        }
        let saved_ns = self.saved_ns();
        if self.is_worth(report) && saved_ns as f64 * 100.0 < super::WORTH * report.seen_ns() as f64
        {
            return "that would save little as long as the threads have no more CPUs".into();
        }
        saves(report, saved_ns)
    }

    /// The wall time that mending would save, ns: no more than the CPUs allow.
    pub fn saved_ns(&self) -> u64 {
        self.gain_ns.min(whole(self.most_ns / self.teams))
    }
}

/// How long all threads were on a CPU in their work, ns; `None` if that is unknown in all episodes.
fn ran_ns(late: &LateReport) -> Option<f64> {
    let others_ns = late.others.running_ns? as f64 * (late.participants - 1.0);
    let known_ns = late.last.running_ns? as f64 + others_ns;
    Some(known_ns * late.episodes as f64 / late.split_episodes.max(1) as f64)
}
