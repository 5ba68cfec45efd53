//! Takes the snapshots that the live screen shows.

use std::{collections::VecDeque, sync::Arc};

use super::{
    counted::{self, CounterRates},
    rest::Rests,
};
use sbt_engine::{
    counters::Plan,
    live::{
        Doing, Histogram, LEVELS, Lane, Lanes, Offer, Output, PACE_STEP_NS, PACE_STEPS, PIECES,
        Piece, Snapshot, TimedLine, Watching,
    },
    model::{Model, Present, ids::ThreadId, lanes, parts::Split},
    place::Place,
    report::{Report, order::Order, place_names::name},
};
use sbt_program::clock;

/// The most lines about episodes and warnings that are kept.
const TOLD: usize = 1000;

/// The longest delay of the source's events, ns: the rings are read more often than that.
const LATE_NS: u64 = 100_000_000;

/// The shortest time over which sbt's own share of a CPU is computed, ns.
const SHARE_NS: u64 = 1_000_000_000;

/// The state kept from one snapshot to the next.
pub struct Observer {
    origin_ns: u64,
    /// The time at which events were last taken in, ns.
    pub heard_ns: u64,
    /// The zoom of the lanes, an index into [`LEVELS`].
    level: usize,
    /// The time at which the probes went off, ns; `None` while they are on.
    pub off_ns: Option<u64>,
    /// The time at which the program or watching began, ns, if the totals have been reset since.
    began_ns: Option<u64>,
    gaps: Vec<(u64, u64)>,
    pace: VecDeque<u32>,
    step: u64,
    episodes: u64,
    /// The time at which the share was last computed, and the CPU time used by then, ns; `None` for
    /// a recording, which has no such share.
    used: Option<(u64, u64)>,
    share_pct: Option<f64>,
    rates: CounterRates,
    rests: Rests,
    /// The counters offered to the user, as in [`Snapshot::offers`].
    pub offers: Option<Arc<Vec<Offer>>>,
    told: VecDeque<TimedLine>,
    told_drawn: Arc<Vec<TimedLine>>,
    notice: Option<(u64, String)>,
}

impl Observer {
    /// An observer of a run that begins at `origin_ns`.
    pub fn new(origin_ns: u64) -> Self {
        Self {
            origin_ns,
            heard_ns: origin_ns,
            level: 1,
            off_ns: None,
            began_ns: None,
            gaps: Vec::new(),
            pace: VecDeque::from([0]),
            step: 0,
            episodes: 0,
            used: Some((clock::now_ns(), clock::process_cpu_ns())),
            share_pct: None,
            rates: CounterRates::default(),
            rests: Rests::default(),
            offers: None,
            told: VecDeque::new(),
            told_drawn: Arc::default(),
            notice: None,
        }
    }

    /// An observer of a recording that begins at `origin_ns`.
    pub fn of_recording(origin_ns: u64) -> Self {
        Self {
            used: None,
            ..Self::new(origin_ns)
        }
    }

    /// Starts the same recording from its beginning, and keeps the user's choices.
    pub fn begin_again(&mut self) {
        *self = Self {
            level: self.level,
            notice: self.notice.take(),
            ..Self::of_recording(self.origin_ns)
        };
    }

    /// Shortens or lengthens the pieces of time in the lanes.
    pub fn zoom(&mut self, closer: bool) {
        self.level = if closer {
            self.level.saturating_sub(1)
        } else {
            (self.level + 1).min(LEVELS.len() - 1)
        };
    }

    /// Sets the answer to the user's request.
    pub fn notice(&mut self, text: String) {
        let number = self.notice.as_ref().map_or(0, |(number, _)| number + 1);
        self.notice = Some((number, text));
    }

    /// Keeps lines that would have gone to standard error, each text with its time
    /// (`CLOCK_MONOTONIC`, ns).
    pub fn told(&mut self, texts: &[(u64, String)]) {
        for (at_ns, text) in texts {
            self.told.extend(text.lines().map(|line| TimedLine {
                at_ns: *at_ns,
                text: line.to_owned(),
            }));
        }
        let old = self.told.len().saturating_sub(TOLD);
        self.told.drain(..old);
        self.told_drawn = Arc::new(self.told.iter().cloned().collect());
    }

    /// The kept lines.
    pub fn into_told(self) -> impl Iterator<Item = String> {
        self.told.into_iter().map(|line| line.text)
    }

    /// Notes a reset of all totals, which had begun at `start_ns`.
    pub fn reset(&mut self, start_ns: u64) {
        self.began_ns.get_or_insert(start_ns);
    }

    /// Notes that the probes are on again.
    pub fn resumed(&mut self, now_ns: u64) {
        if let Some(off_ns) = self.off_ns.take() {
            self.gaps
                .push((self.since_origin(off_ns), self.since_origin(now_ns)));
        }
    }

    /// Updates the number of episodes, the counters and sbt's own share of a CPU.
    pub fn count(&mut self, now_ns: u64, model: &Model) {
        self.rates.push(now_ns, model);
        let episodes = model.totals().episodes;
        let step = self.since_origin(now_ns) / PACE_STEP_NS;
        for _ in self.step..step.min(self.step + PACE_STEPS as u64) {
            self.pace.push_back(0);
        }
        self.step = step;
        while self.pace.len() > PACE_STEPS {
            self.pace.pop_front();
        }
        // After a reset the number of episodes starts again from zero.
        let new = episodes.checked_sub(self.episodes).unwrap_or(episodes);
        self.episodes = episodes;
        if let Some(newest) = self.pace.back_mut() {
            *newest = newest.saturating_add(u32::try_from(new).unwrap_or(u32::MAX));
        }
        let Some((then_ns, used_ns)) = self.used else {
            return;
        };
        let passed_ns = now_ns.saturating_sub(then_ns);
        if passed_ns >= SHARE_NS {
            let now_used_ns = clock::process_cpu_ns();
            let share = now_used_ns.saturating_sub(used_ns) as f64 / passed_ns as f64;
            self.share_pct = Some(100.0 * share);
            self.used = Some((now_ns, now_used_ns));
        }
    }

    /// The time up to which all events are known, ns: threads may have changed their state since.
    fn seen_until(&self, now_ns: u64) -> u64 {
        self.heard_ns.clamp(now_ns.saturating_sub(LATE_NS), now_ns)
    }

    fn since_origin(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.origin_ns)
    }

    /// A snapshot of the current state. `present`: what the threads of the model are doing.
    pub fn snapshot(
        &mut self,
        now_ns: u64,
        model: &Model,
        present: Vec<(ThreadId, Present)>,
        places: &[&Place],
        (report, counted): (Report, &Plan),
        output: Option<Arc<Output>>,
    ) -> Snapshot {
        if let Some(looks) = &report.waits {
            self.rests.look(looks, now_ns);
        }
        let order = Order::new(model);
        let present = order.sorted(present);
        let watching = if report.run.ended {
            Watching::Ended {
                status: report.run.exit_status,
                ran_ns: self.began_ns.map_or(report.run.wall_ns, |began_ns| {
                    now_ns.saturating_sub(began_ns)
                }),
            }
        } else if let Some(off_ns) = self.off_ns {
            let since_ns = self.since_origin(off_ns);
            Watching::Off { since_ns }
        } else {
            Watching::On
        };
        Snapshot {
            now_ns: self.since_origin(now_ns),
            doing: self.doing(now_ns, &report, &present, places),
            histograms: report
                .sites
                .iter()
                .map(|site| Histogram(model.sites().all()[site.id as usize].barrier.octaves()))
                .collect(),
            counters: counted::figures(&report, counted, model, &order, &self.rates),
            lanes: self.lanes(self.seen_until(now_ns), model, &order, &present),
            pace: self.pace.iter().copied().collect(),
            watching,
            gaps: self.gaps.clone(),
            own_share_pct: self.share_pct,
            output,
            told: Arc::clone(&self.told_drawn),
            offers: self.offers.clone(),
            notice: self.notice.clone(),
            replay: None,
            report,
        }
    }

    fn doing(
        &self,
        now_ns: u64,
        report: &Report,
        present: &[(u32, Present)],
        places: &[&Place],
    ) -> Vec<Doing> {
        let mut doing: Vec<Doing> = report
            .threads
            .iter()
            .map(|thread| {
                if thread.ended {
                    Doing::Ended
                } else {
                    Doing::Unknown
                }
            })
            .collect();
        if self.off_ns.is_some() {
            return doing;
        }
        for (number, present) in present {
            let Some(slot) = doing.get_mut(*number as usize) else {
                continue;
            };
            *slot = match *present {
                Present::Waiting { since_ns, place } => Doing::Waiting {
                    since_ns: self.since_origin(since_ns),
                    at: places
                        .get(place.0 as usize)
                        .map_or_else(|| "?".into(), |place| name(place, places)),
                },
                Present::Working { since_ns } => {
                    match self.rests.since(*number, since_ns, now_ns) {
                        Some(asleep_ns) => Doing::Asleep {
                            since_ns: self.since_origin(asleep_ns),
                        },
                        None => Doing::Working {
                            since_ns: self.since_origin(since_ns),
                        },
                    }
                }
                Present::Between { since_ns } => Doing::Waiting {
                    since_ns: self.since_origin(since_ns),
                    at: "the next parallel region".into(),
                },
                Present::Unknown => Doing::Unknown,
            };
        }
        doing
    }

    fn lanes(
        &self,
        now_ns: u64,
        model: &Model,
        order: &Order,
        present: &[(u32, Present)],
    ) -> Lanes {
        let level = self.level;
        let piece_ns = LEVELS[level];
        let end = now_ns / piece_ns + 1;
        // There is nothing before the origin.
        let from = (end.saturating_sub(PIECES as u64)).max(self.origin_ns / piece_ns);
        let Some(kept) = model.lanes() else {
            return Lanes::default();
        };
        let known = kept.threads().map(|thread| (thread, thread));
        let mut lanes: Vec<Lane> = order
            .sorted(known)
            .into_iter()
            .map(|(number, thread)| Lane {
                thread: number,
                pieces: kept.pieces(thread, level, from, end),
            })
            .collect();
        if self.off_ns.is_none() {
            for (number, present) in present {
                let found = lanes.binary_search_by_key(number, |lane| lane.thread);
                if let Ok(found) = found {
                    let pieces = &mut lanes[found].pieces;
                    let asleep_ns = |since_ns| self.rests.since(*number, since_ns, now_ns);
                    go_on(pieces, (from, piece_ns), *present, now_ns, asleep_ns);
                }
            }
        }
        Lanes {
            piece_ns,
            end_ns: self.since_origin(end * piece_ns),
            lanes,
        }
    }
}

/// Draws what a thread has been doing since its last episode and is still doing.
/// `asleep_ns`: since when a thread has been asleep that is in no barrier since then.
fn go_on(
    pieces: &mut [Piece],
    (from, piece_ns): (u64, u64),
    present: Present,
    now_ns: u64,
    asleep_ns: impl Fn(u64) -> Option<u64>,
) {
    let mut draw = |(since_ns, until_ns): (u64, u64), doing: &dyn Fn(u64) -> lanes::Doing| {
        for (number, piece) in (from..).zip(pieces.iter_mut()) {
            let begin = (number * piece_ns).max(since_ns);
            let end = ((number + 1) * piece_ns).min(until_ns);
            if begin < end {
                let part = end - begin;
                piece.add(doing(part), part, part);
            }
        }
    };
    match present {
        Present::Waiting { since_ns, .. } => draw((since_ns, now_ns), &|_| lanes::Doing::Idle),
        Present::Working { since_ns } => {
            let asleep_ns = asleep_ns(since_ns).unwrap_or(now_ns).min(now_ns);
            draw((since_ns, asleep_ns), &|_| {
                lanes::Doing::Work(Split::default())
            });
            draw((asleep_ns, now_ns), &|part| {
                lanes::Doing::Work(Split {
                    blocked_ns: Some(part),
                    ..Split::default()
                })
            });
        }
        Present::Between { .. } | Present::Unknown => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_outside_of_barriers_is_drawn_as_blocked() {
        let mut pieces = [Piece::default(); 4];
        let asleep_ns = |since_ns| {
            assert_eq!(since_ns, 110);
            Some(125)
        };
        let present = Present::Working { since_ns: 110 };
        go_on(&mut pieces, (10, 10), present, 137, asleep_ns);
        let drawn = pieces.map(|piece| (piece.work, piece.blocked));
        assert_eq!(drawn, [(0, 0), (10, 0), (5, 5), (0, 7)]);
        let mut pieces = [Piece::default(); 4];
        go_on(&mut pieces, (10, 10), present, 137, |_| None);
        let drawn = pieces.map(|piece| (piece.work, piece.blocked));
        assert_eq!(drawn, [(0, 0), (10, 0), (10, 0), (7, 0)]);
    }
}
