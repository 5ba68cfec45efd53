//! Single episodes, warnings and phase times, printed while the program runs: the lines that the
//! thesis prints for a watched barrier.

use std::fmt::Write as _;

use crate::show::table::{Style, UNKNOWN, count, duration};
use sbt_engine::{
    counters::{Counter, Source},
    event::Count,
    model::{
        ids::ThreadId,
        told::{Arrival, ToldEpisode},
    },
};

/// The data that a line needs besides the episode.
pub struct Context<'a> {
    /// Name of the site.
    pub site: &'a str,
    /// Name of the site before, if there was one and it is known.
    pub from: Option<&'a str>,
    /// Start of watching, `CLOCK_MONOTONIC` ns.
    pub start_ns: u64,
    /// Formats a time (`CLOCK_MONOTONIC` ns) as time of day.
    pub time_of_day: &'a dyn Fn(u64) -> String,
    /// Formats the name of a thread.
    pub thread: &'a dyn Fn(ThreadId) -> String,
    /// The counters, in the order of an arrival's counts.
    pub counters: &'a [(Counter, Source)],
    /// The style of the terminal.
    pub style: Style,
}

impl Context<'_> {
    fn since_start(&self, time_ns: u64) -> String {
        format!(
            "{:.6} s",
            time_ns.saturating_sub(self.start_ns) as f64 / 1e9
        )
    }

    fn duration(&self, ns: u64) -> String {
        duration(Some(ns), self.style)
    }

    /// The counts of the work before an arrival: `, page-faults 12, task-clock 1.2 ms`.
    fn counted(&self, arrival: &Arrival) -> String {
        let value = |at: usize| arrival.counts.as_ref().and_then(|counts| *counts.get(at)?);
        let one = |(at, (counter, _)): (usize, &(Counter, Source))| {
            let value = value(at).map(Count::scaled);
            let text = match value {
                Some(ns) if counter.is_time() => self.duration(ns),
                Some(value) => count(value),
                None => UNKNOWN.into(),
            };
            format!("  {} {text}", counter.name)
        };
        self.counters.iter().enumerate().map(one).collect()
    }

    /// `phase 37, factor lu.c:40, episode 12`.
    fn which(&self, told: &ToldEpisode) -> String {
        format!(
            "{}{}, episode {}",
            numbered(told),
            self.site,
            told.index + 1
        )
    }

    fn phase(&self, told: &ToldEpisode) -> String {
        let phase_ns = told.done.phase.map(|(_, phase_ns)| phase_ns);
        duration(phase_ns, self.style)
    }
}

/// The number of the phase among those of all sites: `phase 37, `; empty if it is unknown.
fn numbered(told: &ToldEpisode) -> String {
    if told.number == 0 {
        return String::new();
    }
    format!("phase {}, ", told.number)
}

/// An episode with its arrivals in order.
pub fn episode(told: &ToldEpisode, context: &Context<'_>) -> String {
    let mut out = context.style.bold(&format!(
        "sbt: {}: barrier {}, phase time {}, total {}, {}",
        context.which(told),
        context.duration(told.done.barrier_ns()),
        context.phase(told),
        context.since_start(told.done.last_ns),
        (context.time_of_day)(told.done.last_ns),
    ));
    out.push('\n');
    let threads: Vec<String> = told
        .arrivals
        .iter()
        .map(|arrival| (context.thread)(arrival.thread))
        .collect();
    let width = threads.iter().map(|name| name.chars().count()).max();
    for ((gap_ns, arrival), thread) in told.in_order().zip(&threads) {
        let _infallible = writeln!(
            out,
            "       {thread:<width$}  +{:<9}  idle {:<9}  release {:<9}  at {}  {}{}",
            context.duration(gap_ns),
            context.duration(arrival.idle_ns),
            duration(arrival.release_ns, context.style),
            context.since_start(arrival.time_ns),
            (context.time_of_day)(arrival.time_ns),
            context.counted(arrival),
            width = width.unwrap_or(0),
        );
    }
    out
}

/// A warning that a barrier time exceeds the limit (ns), printed the first time at a site.
pub fn warning(told: &ToldEpisode, limit_ns: u64, context: &Context<'_>) -> String {
    let last = told.arrivals.last().map_or_else(String::new, |arrival| {
        format!("; {} came last", (context.thread)(arrival.thread))
    });
    format!(
        "sbt: warning: {}: barrier {}, limit {}{last} (repeats are counted)\n",
        context.which(told),
        context.duration(told.done.barrier_ns()),
        context.duration(limit_ns),
    )
}

/// The duration of the phase that ends with an episode.
pub fn phase(told: &ToldEpisode, context: &Context<'_>) -> String {
    let from = match (told.done.phase, context.from) {
        (_, Some(from)) => from,
        (Some((None, _)), None) => "start",
        _ => "?",
    };
    let arrow = if context.style.unicode { "→" } else { "->" };
    format!(
        "sbt: {}{from} {arrow} {}: {}, barrier {}, total {}\n",
        match numbered(told) {
            number if number.is_empty() => "phase ".into(),
            number => number,
        },
        context.site,
        context.phase(told),
        context.duration(told.done.barrier_ns()),
        context.since_start(told.done.last_ns),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::model::{
        ids::{PlaceId, SiteId},
        parts::{Done, Split},
    };

    fn told() -> ToldEpisode {
        let arrival = |thread, time_ns, release_ns| Arrival {
            thread: ThreadId(thread),
            place: PlaceId(0),
            time_ns,
            idle_ns: 1_002_000_000 - time_ns,
            release_ns,
            work_ns: None,
            split: Split::default(),
            counts: None,
        };
        ToldEpisode {
            site: SiteId(0),
            index: 11,
            number: 37,
            done: Done {
                first_ns: 1_000_000_000,
                last_ns: 1_002_000_000,
                phase: Some((None, 5_000_000)),
                straggler: None,
                alone: None,
            },
            arrivals: vec![
                arrival(1, 1_000_000_000, Some(30_000)),
                arrival(0, 1_002_000_000, None),
            ],
        }
    }

    fn with(write: impl Fn(&ToldEpisode, &Context<'_>) -> String) -> String {
        counting(&[], &told(), write)
    }

    fn counting(
        counters: &[(Counter, Source)],
        told: &ToldEpisode,
        write: impl Fn(&ToldEpisode, &Context<'_>) -> String,
    ) -> String {
        let context = Context {
            site: "factor lu.c:40",
            from: None,
            start_ns: 900_000_000,
            time_of_day: &|time_ns| format!("12:00:0{}", time_ns / 1_000_000_000),
            thread: &|thread| format!("T{} worker", thread.0),
            counters,
            style: Style {
                width: 80,
                color: false,
                unicode: false,
            },
        };
        write(told, &context)
    }

    #[test]
    fn a_watched_episode_reads_as_in_the_thesis() {
        assert_eq!(
            with(episode),
            "sbt: phase 37, factor lu.c:40, episode 12: barrier 2000 us, phase time 5000 us, total 0.102000 s, 12:00:01\n\
             \x20      T1 worker  +0 ns       idle 2000 us    release 30.0 us    at 0.100000 s  12:00:01\n\
             \x20      T0 worker  +2000 us    idle 0 ns       release ?          at 0.102000 s  12:00:01\n"
        );
    }

    #[test]
    fn what_was_counted_stands_beside_each_arrival() {
        let all = sbt_engine::counters::commas("page-faults,task-clock")
            .unwrap()
            .0;
        let counters: Vec<_> = all
            .into_iter()
            .map(|counter| (counter, Source::Nowhere))
            .collect();
        let value = |value| {
            Some(Count {
                value,
                ..Count::default()
            })
        };
        let mut told = told();
        told.arrivals[0].counts = Some([value(12_345), value(1_500_000)].into());
        told.arrivals[1].counts = Some([value(0), None].into());
        let text = counting(&counters, &told, episode);
        let end = |line: &'_ str| line.split_once("12:00:01").map(|(_, end)| end.to_owned());
        let ends: Vec<String> = text.lines().skip(1).filter_map(end).collect();
        assert_eq!(
            ends,
            [
                "  page-faults 12 345  task-clock 1500 us",
                "  page-faults 0  task-clock ?"
            ]
        );
    }

    #[test]
    fn warnings_and_phases_are_one_line_each() {
        assert_eq!(
            with(|told, context| warning(told, 1_000_000, context)),
            "sbt: warning: phase 37, factor lu.c:40, episode 12: barrier 2000 us, limit 1000 us; T0 worker came last (repeats are counted)\n"
        );
        assert_eq!(
            with(phase),
            "sbt: phase 37, start -> factor lu.c:40: 5000 us, barrier 2000 us, total 0.102000 s\n"
        );
    }
}
