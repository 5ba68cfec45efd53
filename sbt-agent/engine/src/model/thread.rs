//! Threads: the state of living threads, and the row of sums that remains of each thread.

use rustc_hash::FxHashMap;

use super::{
    away,
    begun::Regions,
    cost::{Paid, Sum},
    counts::{Sums, Track},
    efficiency::Chain,
    episode::Seat,
    ids::{BarrierId, MAX_ROWS, ThreadId},
    parts::{Before, Since, SplitSum},
    speed::{Measured, Speeds},
    stats::KnownSum,
    waits::Waits,
};
use crate::event::{Clocks, MarkId, Round, Tid};

/// Sums of a thread over the whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Thread and process id, as the user sees them.
    pub shown: (u32, u32),
    /// The kernel's name of the thread, unescaped.
    pub name: String,
    /// The time at which watching it began, ns: together with the row's number this gives the order
    /// of birth.
    pub since_ns: u64,
    /// The number of threads that share this row; more than one only in the last row.
    pub threads: u64,
    /// Arrivals in complete and incomplete episodes.
    pub arrivals: u64,
    /// Arrivals while the probes were off, as far as the barriers count them.
    pub unseen: u64,
    /// Probe hits.
    pub paid: Sum,
    /// Complete episodes in which the thread took part.
    pub episodes: u64,
    /// Complete episodes in which the thread came last.
    pub last: u64,
    /// Work: from the start of each phase to the arrival, and from the last departure to the
    /// thread's end.
    pub work: KnownSum,
    /// Time waiting for others, ns.
    pub idle_ns: u64,
    /// From the last arrival to this thread's departure.
    pub release: KnownSum,
    /// The time at which its last known work ended, ns; 0 before the first.
    pub worked_until_ns: u64,
    /// Time for which the runtime kept the thread waiting between parallel regions, ns.
    pub between_ns: u64,
    /// How the thread waited, where its departure was seen.
    pub waits: Waits,
    /// The split of `work` into running, ready and blocked time.
    pub split: SplitSum,
    /// The part of `split` before the thread's first barrier.
    pub begin: SplitSum,
    /// The part of `split` after the thread's last barrier.
    pub end: SplitSum,
    /// Normalised processor time, ns: see [`super::busy`].
    pub normalised_ns: f64,
    /// Work in the episodes in which the thread came last, so that all others waited for it, ns.
    pub path_ns: u64,
    /// The work in `path_ns`, each moment multiplied by 1 + the number of threads that did not work
    /// then, ns.
    pub weighted_path_ns: f64,
    /// Counter values for `work`.
    pub counts: Sums,
    /// Counter values for all that the thread did, including time in barriers.
    pub counted: Sums,
    /// The thread's time off its CPU during `work`, where switches are watched.
    pub away: away::Sum,
    /// How fast the thread's CPUs were.
    pub speeds: Speeds,
    /// Whether the thread has ended; always false for a row that several threads share.
    pub ended: bool,
}

/// The state of a living thread.
#[derive(Clone, Debug)]
pub struct Live {
    /// The thread's row.
    pub row: ThreadId,
    /// The thread's process.
    pub process: u32,
    /// The time at which watching the thread began, ns; `None` if the event that introduces the
    /// thread was lost.
    pub born_ns: Option<u64>,
    /// The episode in which the thread waits, or which it was not seen to leave.
    pub seat: Option<Seat>,
    /// Whether the thread has told, since its last arrival, that it waits: see [`super::apart`].
    pub awaits: bool,
    /// Serial number of the episode in which the thread last arrived.
    pub last_episode: u64,
    /// The barrier of that episode, and the round by the barrier's own number.
    pub last_round: Option<(BarrierId, u32)>,
    /// The time at which the present work began; `None` while the thread waits, and after an
    /// episode whose end is unknown.
    pub since: Option<Since>,
    /// The memory of the next barrier just before the thread's arrival.
    pub hint: Option<Hint>,
    /// Whether events of the thread are missing since its last arrival.
    pub lost: bool,
    /// The time at which the thread left a barrier that it was not seen to enter, ns.
    pub unseated_ns: Option<u64>,
    /// The mark that the thread passed last, and the clocks at that time.
    pub mark: Option<(MarkId, Clocks)>,
    /// The thread's place and path for the efficiencies.
    pub chain: Chain,
    /// Parallel regions that the thread has begun, and whether it is kept for one.
    pub regions: Regions,
    /// The thread's counter readings.
    pub counts: Track,
    /// The probes' cost to the thread since its last arrival.
    pub paid: Paid,
    /// How fast the thread's CPU was when that was measured last.
    pub speed: Option<Measured>,
    /// Whether the thread last entered a function that the user named, or one of MPI's functions.
    pub in_call: bool,
}

/// The content of a barrier's memory: see [`crate::event::Event::Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Address of the barrier.
    pub object: u64,
    /// Number of participants.
    pub count: u32,
    /// The round that runs, if the barrier tells.
    pub round: Option<Round>,
}

/// All threads, living and ended.
#[derive(Debug, Default)]
pub struct Threads {
    live: FxHashMap<Tid, Live>,
    rows: Vec<Row>,
    /// The process that introduced a thread last: new threads are assumed to belong to it until
    /// they introduce themselves.
    process: u32,
}

impl Threads {
    /// All rows, by [`ThreadId`].
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The row that several threads share, if there is one.
    pub fn shared(&self) -> Option<ThreadId> {
        let last = self.rows.len().checked_sub(1)?;
        (self.rows[last].threads > 1).then(|| ThreadId(u32::try_from(last).unwrap_or(u32::MAX)))
    }

    /// The row of a thread.
    pub fn row(&mut self, id: ThreadId) -> &mut Row {
        &mut self.rows[id.index()]
    }

    /// The state of a living thread.
    pub fn live(&mut self, tid: Tid) -> Option<&mut Live> {
        self.live.get_mut(&tid)
    }

    /// The state and the row of a living thread.
    pub fn both(&mut self, tid: Tid) -> Option<(&mut Live, &mut Row)> {
        let live = self.live.get_mut(&tid)?;
        let row = &mut self.rows[live.row.index()];
        Some((live, row))
    }

    /// Whether this living thread is the first one of its process, which belongs to no team that
    /// another thread has made.
    pub fn is_first(&self, tid: Tid) -> bool {
        self.live.get(&tid).is_some_and(|live| {
            let row = &self.rows[live.row.index()];
            row.threads == 1 && row.shown.0 == row.shown.1
        })
    }

    /// All living threads with their ids.
    pub fn living(&mut self) -> impl Iterator<Item = (Tid, &mut Live)> {
        self.live.iter_mut().map(|(tid, live)| (*tid, live))
    }

    /// All living threads.
    pub fn all_living(&self) -> impl Iterator<Item = &Live> {
        self.live.values()
    }

    /// Number of living threads.
    pub fn count_living(&self) -> usize {
        self.live.len()
    }

    /// Resets all totals; the threads stay known.
    pub fn reset(&mut self) {
        for row in &mut self.rows {
            *row = Row {
                shown: row.shown,
                name: std::mem::take(&mut row.name),
                since_ns: row.since_ns,
                threads: row.threads,
                ended: row.ended,
                ..Row::default()
            };
        }
    }

    /// Whether the id now belongs to another thread, since the end of the previous one was not
    /// seen.
    pub fn is_another(&self, tid: Tid, since: Clocks) -> bool {
        self.live
            .get(&tid)
            .and_then(|live| live.born_ns)
            .is_some_and(|born_ns| born_ns != since.time_ns)
    }

    /// Takes in a thread's introduction. If the thread has introduced itself before, only its name
    /// is updated.
    pub fn introduce(&mut self, tid: Tid, shown: (u32, u32), name: &str, since: Clocks) {
        self.process = shown.1;
        if !self.live.contains_key(&tid) {
            self.begin(tid, shown, since.time_ns).since = Some(Since {
                clocks: since,
                before: Before::Start,
            });
        }
        let Some((live, row)) = self.both(tid) else {
            return;
        };
        if live.born_ns.is_none() {
            live.born_ns = Some(since.time_ns);
            live.process = shown.1;
            if row.threads == 1 {
                row.shown = shown;
                row.since_ns = since.time_ns;
            }
        }
        if row.threads == 1 && !name.is_empty() {
            name.clone_into(&mut row.name);
        }
    }

    /// Makes sure that a thread is known, in case its introduction was lost.
    pub fn meet(&mut self, tid: Tid, time_ns: u64) {
        if !self.live.contains_key(&tid) {
            self.begin(tid, (tid, self.process), time_ns);
        }
    }

    fn begin(&mut self, tid: Tid, shown: (u32, u32), time_ns: u64) -> &mut Live {
        if self.rows.len() < MAX_ROWS {
            self.rows.push(Row {
                shown,
                since_ns: time_ns,
                ..Row::default()
            });
        }
        let last = self.rows.len() - 1;
        self.rows[last].threads += 1;
        self.rows[last].ended = false;
        self.live.entry(tid).or_insert(Live {
            speed: None,
            row: ThreadId(u32::try_from(last).unwrap_or(u32::MAX)),
            process: shown.1,
            born_ns: None,
            seat: None,
            awaits: false,
            last_episode: 0,
            last_round: None,
            since: None,
            hint: None,
            lost: false,
            unseated_ns: None,
            mark: None,
            chain: Chain::default(),
            regions: Regions::default(),
            counts: Track::default(),
            paid: Paid::default(),
            in_call: false,
        })
    }

    /// A thread has ended.
    pub fn bury(&mut self, tid: Tid) {
        if let Some(live) = self.live.remove(&tid) {
            let row = &mut self.rows[live.row.index()];
            row.ended = row.threads == 1;
        }
    }
}
