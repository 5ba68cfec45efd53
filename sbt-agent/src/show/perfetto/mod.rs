//! A trace for Perfetto (ui.perfetto.dev) in its native format of track events. Each thread has a
//! track with what it did. Further tracks show phases, episodes, the number of busy threads, and
//! counters. Arrows lead from the last thread to arrive to the threads that it released.
//!
//! The trace is written as episodes are read. Packets need not be sorted by time, except for
//! packets of one track at the same time.

use std::{
    borrow::Cow,
    io::{self, Write},
    ops::Range,
    rc::Rc,
};

use super::{Doing, Episode, KnownPart, Participant, Piece, rates::Rates};
use sbt_engine::{model::parts::Split, report::Report};

mod busy;
mod packets;
#[allow(
    missing_docs,
    reason = "their names and meanings are Perfetto's, and documented there"
)]
mod proto;
#[cfg(test)]
mod tests;
mod tracks;

use busy::Busy;
use packets::{Arg, Packets, Value, count, text};
use tracks::{Lanes, Tracks};

/// Maximum number of arrivals that are drawn, which browsers can still open with ease. A longer run
/// is drawn in stretches that are spread evenly over it.
const MOST_ARRIVALS: u64 = 400_000;

/// Number of consecutive episodes in a stretch.
const STRETCH: u64 = 200;

/// Writer of a trace.
pub struct Trace<'a, W> {
    packets: Packets<W>,
    tracks: Tracks,
    report: &'a Report,
    busy: Busy,
    episodes: Lanes,
    phases: Lanes,
    /// Names of sites by id.
    sites: Vec<Option<Rc<str>>>,
    labels: Vec<Rc<str>>,
    counters: Vec<String>,
    /// One of this many stretches is drawn.
    every: u64,
    serial: u64,
    /// Number of episodes not drawn since `drawn_until_ns`.
    left_out: u64,
    drawn_until_ns: u64,
    /// By thread: the end of the last drawn span, ns.
    until_ns: Vec<u64>,
    rates: Rates,
    flow: u64,
}

impl<'a, W: Write> Trace<'a, W> {
    /// Writes the tracks. `known` tells which part of the run will be added.
    ///
    /// # Errors
    /// Writing to `out` fails.
    pub fn new(report: &'a Report, known: KnownPart, out: W) -> io::Result<Self> {
        Self::with_at_most(report, known, out, MOST_ARRIVALS)
    }

    fn with_at_most(report: &'a Report, known: KnownPart, out: W, most: u64) -> io::Result<Self> {
        let mut packets = Packets::new(out)?;
        let busy = Busy::new(known.from_ns, report.run.wall_ns);
        let mut tracks = Tracks::new(report, &mut packets, busy.step_ns())?;
        if known.from_ns > 0 {
            let track = tracks.left_out(&mut packets)?;
            packets.slice(track, (0, known.from_ns), "not recorded", &[])?;
        }
        let every = known.arrivals.div_ceil(most).max(1);
        let most = report.sites.iter().map(|site| site.id).max();
        let mut sites = vec![None; most.map_or(0, |most| most as usize + 1)];
        for site in &report.sites {
            sites[site.id as usize] = Some(site.called().into());
        }
        let labels = report.threads.iter().map(tracks::thread_name);
        Ok(Self {
            packets,
            busy,
            episodes: Lanes::new(tracks.episodes),
            phases: Lanes::new(tracks.phases),
            labels: labels.map(Rc::from).collect(),
            counters: report
                .counters
                .iter()
                .map(|counter| counter.name.clone())
                .collect(),
            until_ns: vec![0; report.threads.len()],
            rates: Rates::new(report),
            tracks,
            report,
            sites,
            every,
            serial: 0,
            left_out: 0,
            drawn_until_ns: known.from_ns,
            flow: 0,
        })
    }

    /// Adds an episode.
    ///
    /// # Errors
    /// Writing to the file fails.
    pub fn add(&mut self, episode: &Episode) -> io::Result<()> {
        self.busy.add(episode);
        let counted = self.rates.spans(episode);
        let drawn = self.serial % (STRETCH * self.every) < STRETCH;
        self.serial += 1;
        if !drawn {
            self.left_out += 1;
            return Ok(());
        }
        self.leave_out(episode.first_ns)?;
        self.drawn_until_ns = self.drawn_until_ns.max(episode.last_ns);
        self.draw_episode(episode)?;
        self.draw_threads(episode)?;
        for (seen, span) in episode.seen.iter().zip(counted) {
            if let Some(span) = span {
                self.counted(seen, span)?;
            }
        }
        Ok(())
    }

    /// Marks the time up to `until_ns` as not drawn if episodes were left out.
    fn leave_out(&mut self, until_ns: u64) -> io::Result<()> {
        let left_out = std::mem::take(&mut self.left_out);
        if left_out == 0 || until_ns <= self.drawn_until_ns {
            return Ok(());
        }
        let span = (self.drawn_until_ns, until_ns);
        let args = [count("episodes", left_out)];
        let track = self.tracks.left_out(&mut self.packets)?;
        self.packets.slice(track, span, "not drawn", &args)
    }

    fn site(&self, id: u32) -> Rc<str> {
        let named = self.sites.get(id as usize).cloned().flatten();
        named.unwrap_or_else(|| "?".into())
    }

    fn label(&self, thread: u32) -> Rc<str> {
        let label = self.labels.get(thread as usize).cloned();
        label.unwrap_or_else(|| "?".into())
    }

    fn draw_episode(&mut self, it: &Episode) -> io::Result<()> {
        let site = self.site(it.site);
        let mut args = vec![
            count("index", it.index),
            count("participants", it.seen.len() as u64),
            count("barrier_ns", it.barrier_ns()),
            count("lost_ns", it.lost_ns()),
        ];
        if let Some((thread, lead_ns)) = it.straggler {
            args.push(text("last", &self.label(thread)));
            args.push(count("lead_ns", lead_ns));
        }
        args.extend(it.phase.map(|(_, ns)| count("phase_ns", ns)));
        let span = (it.first_ns, it.last_ns);
        let track = self.episodes.of(it.site, &site, span, &mut self.packets)?;
        if let Some(track) = track {
            self.packets.slice(track, span, &site, &args)?;
        }
        let Some((from, ns)) = it.phase else {
            return Ok(());
        };
        let from = from.map_or_else(|| "start".into(), |id| self.site(id));
        let span = (it.last_ns.saturating_sub(ns), it.last_ns);
        let track = self.phases.of(it.site, &site, span, &mut self.packets)?;
        if let Some(track) = track {
            let name = format!("{from} → {site}");
            let args = [count("index", it.index)];
            self.packets.slice(track, span, &name, &args)?;
        }
        Ok(())
    }

    fn draw_threads(&mut self, episode: &Episode) -> io::Result<()> {
        let site = self.site(episode.site);
        if let Some(alone) = episode.alone {
            self.draw_piece(alone, &[text("before", &site)])?;
        }
        let last = episode.straggler.map(|(thread, _)| thread);
        // An arrow's start has to be written before its end.
        let mut seen: Vec<_> = episode.seen.iter().filter(|seen| !seen.is_shared).collect();
        seen.sort_by_key(|seen| Some(seen.thread) != last);
        let others = match seen.first() {
            Some(first) if Some(first.thread) == last => seen.len() as u64 - 1,
            _ => 0,
        };
        let flows = self.flow..self.flow + others;
        self.flow = flows.end;
        for (at, it) in seen.into_iter().enumerate() {
            let Some(track) = self.tracks.thread(it.thread) else {
                continue;
            };
            let is_last = others > 0 && at == 0;
            for piece in it.pieces(episode.last_ns) {
                if is_last && piece.doing == Doing::Release {
                    self.arrives(track, episode.last_ns, flows.clone())?;
                }
                self.draw_seen(piece, it, episode, &site)?;
            }
            if is_last && it.release_ns.is_none_or(|ns| ns == 0) {
                self.arrives(track, episode.last_ns, flows.clone())?;
            } else if others > 0 && at > 0 {
                let gone_ns = episode.last_ns + it.release_ns.unwrap_or(0);
                // A thread whose departure is unknown could leave from the last arrival on.
                let name = match it.release_ns {
                    Some(_) => "leaves",
                    None => "may leave",
                };
                let flow = flows.start + at as u64 - 1;
                self.packets
                    .instant(track, gone_ns, name, &[], &[number(flow)])?;
            }
        }
        Ok(())
    }

    /// Marks the last arrival, from which arrows lead to all other threads.
    fn arrives(&mut self, track: u64, time_ns: u64, flows: Range<u64>) -> io::Result<()> {
        let begins: Vec<u64> = flows.map(number).collect();
        self.packets
            .instant(track, time_ns, "last to arrive", &begins, &[])
    }

    fn draw_seen(
        &mut self,
        piece: Piece,
        it: &Participant,
        episode: &Episode,
        site: &Rc<str>,
    ) -> io::Result<()> {
        let mut args = vec![text("site", site), count("index", episode.index)];
        if let Doing::Work(split) = piece.doing {
            args.extend(split_args(split));
            for (name, value) in self.counters.iter().zip(&it.counts) {
                let value = value.map(Value::Count);
                args.extend(value.map(|value| (Cow::Owned(name.clone()), value)));
            }
        }
        self.draw_piece(piece, &args)
    }

    fn draw_piece(&mut self, piece: Piece, args: &[Arg]) -> io::Result<()> {
        let Some(track) = self.tracks.thread(piece.thread) else {
            return Ok(());
        };
        let until_ns = &mut self.until_ns[piece.thread as usize];
        let Some(span) = fitted((piece.from_ns, piece.to_ns), *until_ns) else {
            return Ok(());
        };
        *until_ns = (*until_ns).max(span.1);
        let name = match piece.doing {
            Doing::Work(_) => "work",
            Doing::Alone(_) => "work alone",
            Doing::Idle => "idle",
            Doing::Release => "release",
        };
        self.packets.slice(track, span, name, args)
    }

    /// Draws the counts of a span of time, as rates per second.
    fn counted(&mut self, seen: &Participant, (from_ns, to_ns): (u64, u64)) -> io::Result<()> {
        let seconds = (to_ns - from_ns) as f64 / 1e9;
        for (at, count) in seen.counts.iter().enumerate() {
            let Some(count) = count else { continue };
            let name = self.counters.get(at).map_or("?", String::as_str);
            let track = self
                .tracks
                .counter(seen.thread, at, name, &mut self.packets)?;
            if let Some(track) = track {
                let value = *count as f64 / seconds;
                self.packets.count(track, from_ns, value)?;
            }
        }
        Ok(())
    }

    /// Writes the number of busy threads, and flushes the output.
    ///
    /// # Errors
    /// Writing to the file fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.leave_out(self.report.run.wall_ns)?;
        for (time_ns, busy) in self.busy.steps() {
            self.packets.count(self.tracks.busy, time_ns, busy)?;
        }
        self.packets.finish()
    }
}

/// Fits a span into a thread's track, which is drawn until `until_ns`. A span that is reported
/// late, and lies before this time, ends 1 ns early: if one span ended where another begins,
/// Perfetto would take this end for the end of the other span.
fn fitted((from_ns, to_ns): (u64, u64), until_ns: u64) -> Option<(u64, u64)> {
    let span = if to_ns <= until_ns {
        (from_ns, to_ns - 1)
    } else {
        (from_ns.max(until_ns), to_ns)
    };
    (span.0 < span.1).then_some(span)
}

/// The number of an arrow in the trace, where 0 stands for no arrow.
const fn number(flow: u64) -> u64 {
    flow + 1
}

fn split_args(split: Split) -> impl Iterator<Item = Arg> {
    let parts = [
        ("running_ns", split.running_ns),
        ("ready_ns", split.ready_ns),
        ("blocked_ns", split.blocked_ns),
    ];
    let known = parts.into_iter();
    known.filter_map(|(name, ns)| Some(count(name, ns?)))
}
