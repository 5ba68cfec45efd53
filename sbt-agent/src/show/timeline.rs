//! The activity of each thread over the whole run, in bounded memory: equal pieces of time for
//! every thread, and some complete episodes.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, VecDeque},
};

use super::{Doing, Episode, Piece, columns::Columns, counted::Counted};
use sbt_engine::report::Report;

/// Maximum number of threads that are drawn: the first threads of the report.
pub const MOST_THREADS: usize = 256;

/// Maximum number of pieces of all threads together.
pub const MOST_CELLS: usize = 160_000;
/// Maximum number of pieces of one thread.
pub const MOST_COLUMNS: usize = 8192;

/// Maximum number of arrivals in the last episodes, which are kept complete. As many are kept again
/// in the episodes before that lost the most time.
const MOST_ARRIVALS: usize = 6000;

/// The time of a thread in each state within a piece of time, ns. Missing time is unknown, or lies
/// between parallel regions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    /// Outside of barriers, on a CPU or with unknown CPU use.
    pub work: f64,
    /// Outside of barriers, waiting for a CPU.
    pub ready: f64,
    /// Outside of barriers, asleep.
    pub blocked: f64,
    /// From the last arrival to the thread's departure.
    pub release: f64,
    /// Waiting for the last thread to arrive.
    pub idle: f64,
}

impl Cell {
    /// Adds `part` ns of a span that is `whole` ns long. The parts of work are assumed to be spread
    /// evenly over the span.
    fn add(&mut self, doing: Doing, part: f64, whole: f64) {
        match doing {
            Doing::Work(split) | Doing::Alone(split) => {
                let of = |ns: Option<u64>| ns.unwrap_or(0) as f64 * part / whole;
                let (ready, blocked) = (of(split.ready_ns), of(split.blocked_ns));
                self.ready += ready;
                self.blocked += blocked;
                self.work += (part - ready - blocked).max(0.0);
            }
            Doing::Idle => self.idle += part,
            Doing::Release => self.release += part,
        }
    }

    /// Total of all kinds of time, ns.
    pub fn sum(&self) -> f64 {
        self.work + self.ready + self.blocked + self.release + self.idle
    }
}

/// A complete episode, ordered by its lost time.
#[derive(Debug)]
struct Kept {
    lost_ns: u64,
    /// Of two equal episodes the later one is kept.
    serial: u64,
    episode: Episode,
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Kept {}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kept {
    /// The episode to be discarded first is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |kept: &Self| (kept.lost_ns, kept.serial);
        key(other).cmp(&key(self))
    }
}

/// The timeline of a run.
#[derive(Debug)]
pub struct Timeline {
    /// The pieces of time. They cover only the end of the run if only this was kept.
    pub columns: Columns,
    /// Pieces by thread, the earliest first.
    pub lanes: Vec<Vec<Cell>>,
    /// Counts of the counters over the run; `None` if nothing was counted.
    pub counted: Option<Counted>,
    /// The last episodes, with their arrivals.
    last: VecDeque<Episode>,
    last_arrivals: usize,
    worst: BinaryHeap<Kept>,
    worst_arrivals: usize,
    serial: u64,
}

impl Timeline {
    /// An empty timeline for the run of this report, from `from_ns` on.
    pub fn of(report: &Report, from_ns: u64) -> Self {
        Self {
            counted: Counted::new(report, from_ns),
            ..Self::new(from_ns, report.run.wall_ns, report.threads.len())
        }
    }

    /// An empty timeline for a run of this duration and number of threads, from `from_ns` on.
    fn new(from_ns: u64, wall_ns: u64, threads: usize) -> Self {
        let threads = threads.min(MOST_THREADS);
        let most = (MOST_CELLS / threads.max(1)).min(MOST_COLUMNS);
        let columns = Columns::new(from_ns, wall_ns, most);
        Self {
            columns,
            lanes: vec![vec![Cell::default(); columns.number]; threads],
            counted: None,
            last: VecDeque::new(),
            last_arrivals: 0,
            worst: BinaryHeap::new(),
            worst_arrivals: 0,
            serial: 0,
        }
    }

    /// Adds an episode.
    pub fn add(&mut self, episode: Episode) {
        for piece in episode.pieces() {
            self.draw(piece);
        }
        if let Some(counted) = &mut self.counted {
            counted.add(&episode);
        }
        self.last_arrivals += episode.seen.len();
        self.last.push_back(episode);
        while self.last_arrivals > MOST_ARRIVALS {
            let Some(oldest) = self.last.pop_front() else {
                return;
            };
            self.last_arrivals -= oldest.seen.len();
            self.offer(oldest);
        }
    }

    fn offer(&mut self, episode: Episode) {
        self.serial += 1;
        self.worst_arrivals += episode.seen.len();
        self.worst.push(Kept {
            lost_ns: episode.lost_ns(),
            serial: self.serial,
            episode,
        });
        while self.worst_arrivals > MOST_ARRIVALS {
            let Some(least) = self.worst.pop() else {
                return;
            };
            self.worst_arrivals -= least.episode.seen.len();
        }
    }

    fn draw(&mut self, piece: Piece) {
        let Some(lane) = self.lanes.get_mut(piece.thread as usize) else {
            return;
        };
        let whole = (piece.to_ns - piece.from_ns).max(1) as f64;
        for (at, part_ns) in self.columns.parts(piece.from_ns, piece.to_ns) {
            lane[at].add(piece.doing, part_ns as f64, whole);
        }
    }

    /// The complete episodes: the last ones, and the worst before them. Sorted by their last
    /// arrival.
    pub fn kept(&self) -> Vec<&Episode> {
        let worst = self.worst.iter().map(|kept| &kept.episode);
        let mut all: Vec<&Episode> = worst.chain(&self.last).collect();
        all.sort_by_key(|episode| (episode.last_ns, episode.site, episode.index));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::Participant;
    use sbt_engine::model::parts::Split;

    fn seen(thread: u32, work: (u64, u64), last_ns: u64) -> Participant {
        Participant {
            thread,
            is_shared: false,
            arrived_ns: work.1,
            idle_ns: last_ns - work.1,
            release_ns: Some(10),
            work_ns: Some(work.1 - work.0),
            split: Split::default(),
            counts: Vec::new(),
        }
    }

    fn episode(index: u64, begin_ns: u64, idle_ns: u64) -> Episode {
        let last_ns = begin_ns + 500;
        Episode {
            site: 0,
            index,
            first_ns: last_ns - idle_ns,
            last_ns,
            phase: None,
            straggler: None,
            alone: None,
            seen: vec![
                seen(0, (begin_ns, last_ns - idle_ns), last_ns),
                seen(1, (begin_ns, last_ns), last_ns),
            ],
        }
    }

    #[test]
    fn all_times_are_in_the_pieces() {
        let mut timeline = Timeline::new(0, 81_920_000, 2);
        for at in 0..50 {
            timeline.add(episode(at, 1_000_000 * at + 777, 100));
        }
        assert_eq!(timeline.lanes[0].len(), 8192);
        let sum = |thread: usize, of: fn(&Cell) -> f64| -> f64 {
            timeline.lanes[thread].iter().map(of).sum()
        };
        assert!((sum(0, |cell| cell.work) - 400.0 * 50.0).abs() < 1e-6);
        assert!((sum(0, |cell| cell.idle) - 100.0 * 50.0).abs() < 1e-6);
        assert!((sum(1, |cell| cell.work) - 500.0 * 50.0).abs() < 1e-6);
        assert!((sum(1, Cell::sum) - 510.0 * 50.0).abs() < 1e-6);
        assert_eq!(timeline.kept().len(), 50);
    }

    #[test]
    fn ready_and_blocked_times_are_spread_over_the_work() {
        let mut timeline = Timeline::new(0, 1000, 1);
        let mut one = episode(0, 0, 0);
        one.seen.truncate(1);
        one.seen[0].split = Split {
            running_ns: Some(250),
            ready_ns: Some(50),
            blocked_ns: Some(200),
        };
        timeline.add(one);
        assert_eq!(timeline.columns.step_ns, 1);
        let cell = timeline.lanes[0][100];
        assert!((cell.ready - 0.1).abs() < 1e-9 && (cell.blocked - 0.4).abs() < 1e-9);
        assert!((cell.work - 0.5).abs() < 1e-9);
    }

    #[test]
    fn of_many_episodes_the_last_and_the_worst_are_kept() {
        let mut timeline = Timeline::new(0, 1_000_000_000, 2);
        for at in 0..100_000 {
            let idle_ns = if at == 17 { 450 } else { at % 100 };
            timeline.add(episode(at, 10_000 * at, idle_ns));
        }
        let kept = timeline.kept();
        assert_eq!(kept.len(), MOST_ARRIVALS);
        assert_eq!(kept[0].index, 17, "the worst of all");
        assert!(
            kept[..MOST_ARRIVALS / 2]
                .iter()
                .all(|episode| episode.lost_ns() >= 96)
        );
        assert_eq!(kept.last().map(|episode| episode.index), Some(99_999));
        let last = &kept[MOST_ARRIVALS / 2..];
        assert!(last.is_sorted_by(|a, b| a.index + 1 == b.index));
        assert_eq!(timeline.lanes[0].len(), 8192);
    }

    #[test]
    fn of_a_run_whose_end_was_kept_only_that_is_in_the_pieces() {
        let mut timeline = Timeline::new(9_000, 10_000, 2);
        assert_eq!(
            (timeline.columns.step_ns, timeline.lanes[0].len()),
            (1, 1000)
        );
        timeline.add(episode(0, 8_900, 100));
        timeline.add(episode(1, 9_410, 100));
        let work: f64 = timeline.lanes[1].iter().map(|cell| cell.work).sum();
        assert!((work - 900.0).abs() < 1e-6, "{work}");
        assert!((timeline.lanes[1][399].work - 1.0).abs() < 1e-9);
        assert!((timeline.lanes[1][405].release - 1.0).abs() < 1e-9);
    }

    #[test]
    fn many_threads_have_fewer_pieces_each() {
        let timeline = Timeline::new(0, 1_000_000_000, 4096);
        assert_eq!(timeline.lanes.len(), MOST_THREADS);
        assert!(timeline.lanes[0].len() <= MOST_CELLS / MOST_THREADS);
    }
}
