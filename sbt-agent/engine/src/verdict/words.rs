//! Threads, costs and advice in the words of verdicts.

use super::lack;
use crate::{
    report::{BarrierKind, LateReport, Report, SiteReport},
    words::time,
};

/// A computed duration as a whole number; never negative.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "durations in ns are positive here and far below 2^63"
)]
pub fn whole(ns: f64) -> u64 {
    ns.round().max(0.0) as u64
}

/// A thread in the notation of the text report.
pub fn who(report: &Report, id: u32) -> String {
    match report.thread(id) {
        Some(thread) if !thread.name.is_empty() => format!("{} {}", thread.label, thread.name),
        _ => report.label(id),
    }
}

/// A number with its noun.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The threads that wait for the last one, in words: a team of two has one other thread.
#[derive(Clone, Copy, Debug)]
pub struct Others {
    is_one: bool,
}

impl Others {
    /// Of the teams that meet at a site.
    pub fn of(site: &SiteReport) -> Self {
        let late = site.straggler.as_ref().and_then(|last| last.late.as_ref());
        let in_team = late.map_or(site.threads.len() as f64, |late| late.participants);
        Self {
            is_one: in_team <= 2.0,
        }
    }

    /// Of the teams that meet at several sites.
    pub fn of_all<'a>(mut sites: impl Iterator<Item = &'a SiteReport>) -> Self {
        Self {
            is_one: sites.all(|site| Self::of(site).is_one),
        }
    }

    /// Whether it is one thread.
    pub const fn is_one(self) -> bool {
        self.is_one
    }

    /// The words for these threads.
    pub const fn the(self) -> &'static str {
        self.choose("the other", "the others")
    }

    /// The words for these threads before what is theirs.
    pub const fn whose(self) -> &'static str {
        self.choose("the other's", "the others'")
    }

    /// `of_one` in a team of two, else `of_several`.
    pub const fn choose(self, of_one: &'static str, of_several: &'static str) -> &'static str {
        if self.is_one { of_one } else { of_several }
    }
}

/// How to spread work over threads that share it by chance.
pub const fn hand_out(kind: BarrierKind) -> &'static str {
    match kind {
        BarrierKind::Gomp | BarrierKind::Kmp => {
            "Hand the work out in smaller pieces (if it is an `omp for` loop: schedule(dynamic)), or do more between \
             barriers"
        }
        BarrierKind::Mpi => "Divide the work by what it costs, or let the ranks meet less often",
        _ => "Hand the work out in smaller pieces as threads get done, or do more between barriers",
    }
}

/// What to do about a thread that always has more to do.
pub const fn give_less(kind: BarrierKind) -> &'static str {
    match kind {
        BarrierKind::Gomp | BarrierKind::Kmp => {
            "Give it less of the work (if it is an `omp for` loop: another schedule, as schedule(dynamic))"
        }
        BarrierKind::Mpi => "Give that rank less of the work",
        _ => "Give it less of the work",
    }
}

/// What to do about work that one thread does while all others wait. Of a loop the last iterations may
/// be that work.
pub const fn share_out(kind: BarrierKind, others: Others) -> &'static str {
    match kind {
        BarrierKind::Gomp | BarrierKind::Kmp => others.choose(
            "Divide that work (if it is an `omp for` loop: by another schedule, as schedule(dynamic)), or let \
             the other go on with something else",
            "Divide that work (if it is an `omp for` loop: by another schedule, as schedule(dynamic)), or let \
             the others go on with something else",
        ),
        _ => others.choose(
            "Divide that work, or let the other go on with something else",
            "Divide that work, or let the others go on with something else",
        ),
    }
}

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
        let cpus = lack::cpus_of_team(report).or(report.run.cpus);
        let others = lack::others_cpus(report);
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

    /// What mending would save, as a part of a sentence.
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

/// A saving, as a part of a sentence.
pub fn saves(report: &Report, gain_ns: u64) -> String {
    format!(
        "that would save up to {} of {} {}",
        time(gain_ns),
        time(report.seen_ns()),
        report.seen_called()
    )
}
