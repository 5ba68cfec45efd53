//! Threads and costs in the words of verdicts.

use crate::{
    report::{LateReport, Report, SiteReport},
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

/// The cost of a site, without the program's start.
pub struct Cost {
    /// Percentage of the threads' time that they wait here for the last thread.
    pub share_pct: f64,
    /// Wall time that would be saved if the last thread had as much work as the mean of all.
    pub gain_ns: u64,
}

impl Cost {
    /// The cost; `None` if it is too small to mention, or unknown.
    pub fn of<'a>(report: &Report, site: &'a SiteReport) -> Option<(Self, &'a LateReport)> {
        let late = site.straggler.as_ref()?.late.as_ref()?;
        let lost_pct = site.lost_wall_pct?;
        if late.episodes < super::FEW || site.lost_ns == 0 {
            return None;
        }
        let lost_ns = site.lost_ns as f64;
        let share_pct = lost_pct * late.idle_ns as f64 / lost_ns;
        // Of several teams at the same time, each gains separately.
        let of_one_team = lost_ns / (late.participants * report.seen_ns() as f64) * 100.0;
        let teams = (of_one_team / lost_pct).max(1.0);
        let excess = late.last.work_ns as f64 - late.others.work_ns as f64;
        let gain = excess * (1.0 - 1.0 / late.participants) / teams;
        (share_pct >= super::WORTH).then_some((
            Self {
                share_pct,
                gain_ns: whole(gain),
            },
            late,
        ))
    }

    /// Whether the additional work of the last thread is worth mentioning. If not, that thread came
    /// last because it was woken late.
    pub fn is_of_work(&self, report: &Report) -> bool {
        self.gain_ns as f64 * 100.0 >= super::WORTH * report.seen_ns() as f64
    }

    /// The end of a sentence, before the advice.
    pub fn words(&self, report: &Report) -> String {
        let share = self.share_pct;
        if self.gain_ns == 0 {
            return format!("the wait is {share:.0} % of thread time");
        }
        format!(
            "the wait is {share:.0} % of thread time, up to {} of {} {}",
            time(self.gain_ns),
            time(report.seen_ns()),
            report.seen_called()
        )
    }
}
