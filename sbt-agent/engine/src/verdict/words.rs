//! Threads, savings and advice in the words of verdicts.

use crate::{
    report::{BarrierKind, Report, SiteReport},
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

/// A saving, as a part of a sentence.
pub fn saves(report: &Report, gain_ns: u64) -> String {
    format!(
        "that would save up to {} of {} {}",
        time(gain_ns),
        time(report.seen_ns()),
        report.seen_called()
    )
}
