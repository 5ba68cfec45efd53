//! Threads: what is kept while one lives, and the row that stays of it.

use rustc_hash::FxHashMap;

use super::{
    away,
    cost::{Paid, Sum},
    counts::{Sums, Track},
    efficiency::Chain,
    episode::Seat,
    ids::{BarrierId, MAX_ROWS, ThreadId},
    parts::{Before, Since, SplitSum},
    regions::Regions,
    stats::KnownSum,
    waits::Waits,
};
use crate::event::{Clocks, MarkId, Round, Tid};

/// What stays of a thread: sums over the whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Thread and process id, as the user sees them.
    pub shown: (u32, u32),
    /// The kernel's name of the thread, as it is.
    pub name: String,
    /// When watching it began, ns: with its number the order of its birth.
    pub since_ns: u64,
    /// How many threads share this row; more than one only in the last.
    pub threads: u64,
    /// Arrivals, of complete and incomplete episodes.
    pub arrivals: u64,
    /// Those while the probes were off, as far as its barriers count them.
    pub unseen: u64,
    /// Hits of probes.
    pub paid: Sum,
    /// Complete episodes it took part in.
    pub episodes: u64,
    /// How often it came last in them.
    pub last: u64,
    /// Work: from the start of each phase to the arrival, and from the last
    /// departure to the thread's end.
    pub work: KnownSum,
    /// Waiting for others.
    pub idle_ns: u64,
    /// From the last arrival to this thread's departure.
    pub release: KnownSum,
    /// When its last known work ended, ns; 0 before the first.
    pub worked_until_ns: u64,
    /// Kept waiting by its runtime between parallel regions, ns.
    pub between_ns: u64,
    /// How it waited, where the departure was seen.
    pub waits: Waits,
    /// How `work` splits up.
    pub split: SplitSum,
    /// Of `split`, the work before the thread's first barrier.
    pub begin: SplitSum,
    /// Of `split`, the work after the thread's last barrier.
    pub end: SplitSum,
    /// Its normalised processor time: see [`super::busy`], ns.
    pub normalised_ns: f64,
    /// Its work where it came last, on which all others waited, ns.
    pub path_ns: u64,
    /// The same, each moment counted as often as threads did not work, and once more, ns.
    pub weighted_path_ns: f64,
    /// What counters said of `work`.
    pub counts: Sums,
    /// What they said of all that it did, in barriers too.
    pub counted: Sums,
    /// What it did in `work` while it was on no CPU, where switches are watched.
    pub away: away::Sum,
    /// It has ended; not told of a row that several share.
    pub ended: bool,
}

/// A thread that lives.
#[derive(Clone, Debug)]
pub struct Live {
    /// Its row.
    pub row: ThreadId,
    /// Its process.
    pub process: u32,
    /// When watching it began, ns; `None` if it has not introduced itself.
    pub born_ns: Option<u64>,
    /// Where it sits waiting, or sat and was not seen to leave.
    pub seat: Option<Seat>,
    /// Serial number of the episode that it arrived in last.
    pub last_episode: u64,
    /// At which barrier that was, and in which round by the barrier's number.
    pub last_round: Option<(BarrierId, u32)>,
    /// Since when it works; `None` while it waits, and after an episode whose
    /// end is unknown.
    pub since: Option<Since>,
    /// What the memory of the object it is about to enter held.
    pub hint: Option<Hint>,
    /// Events of it are missing since its last arrival.
    pub lost: bool,
    /// When it left a barrier that it was not seen to enter, ns.
    pub unseated_ns: Option<u64>,
    /// The mark that it passed last, and when.
    pub mark: Option<(MarkId, Clocks)>,
    /// Where it stands for the efficiencies.
    pub chain: Chain,
    /// Parallel regions that it has begun, and whether it is kept for one.
    pub regions: Regions,
    /// What counters say of it.
    pub counts: Track,
    /// What it has paid since its last arrival.
    pub paid: Paid,
    /// What it entered last was a function that the user has named, or one of MPI's.
    pub in_call: bool,
}

/// See [`crate::event::Event::Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Address of the object.
    pub object: u64,
    /// Number of participants.
    pub count: u32,
    /// The running round, if the object tells.
    pub round: Option<Round>,
}

/// All threads.
#[derive(Debug, Default)]
pub struct Threads {
    live: FxHashMap<Tid, Live>,
    rows: Vec<Row>,
    /// Whose threads they are, as far as it is known: the process of the last
    /// that introduced itself.
    process: u32,
}

impl Threads {
    /// The rows, by [`ThreadId`].
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The row that several threads share, if one is.
    pub fn shared(&self) -> Option<ThreadId> {
        let last = self.rows.len().checked_sub(1)?;
        (self.rows[last].threads > 1).then(|| ThreadId(u32::try_from(last).unwrap_or(u32::MAX)))
    }

    /// A row.
    pub fn row(&mut self, id: ThreadId) -> &mut Row {
        &mut self.rows[id.index()]
    }

    /// A living thread.
    pub fn live(&mut self, tid: Tid) -> Option<&mut Live> {
        self.live.get_mut(&tid)
    }

    /// Both a living thread and its row.
    pub fn both(&mut self, tid: Tid) -> Option<(&mut Live, &mut Row)> {
        let live = self.live.get_mut(&tid)?;
        let row = &mut self.rows[live.row.index()];
        Some((live, row))
    }

    /// Every living thread, and its number.
    pub fn living(&mut self) -> impl Iterator<Item = (Tid, &mut Live)> {
        self.live.iter_mut().map(|(tid, live)| (*tid, live))
    }

    /// The same, to look at.
    pub fn all_living(&self) -> impl Iterator<Item = &Live> {
        self.live.values()
    }

    /// How many live.
    pub fn count_living(&self) -> usize {
        self.live.len()
    }

    /// All sums from zero on; who there is stays.
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

    /// Whether the number now belongs to another thread than it did: the end
    /// of the one before was not seen.
    pub fn is_another(&self, tid: Tid, since: Clocks) -> bool {
        self.live
            .get(&tid)
            .and_then(|live| live.born_ns)
            .is_some_and(|born_ns| born_ns != since.time_ns)
    }

    /// A thread introduces itself. Again by one that is known: only its name
    /// is taken.
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

    /// A thread is met, which may not have introduced itself: that was lost.
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
            row: ThreadId(u32::try_from(last).unwrap_or(u32::MAX)),
            process: shown.1,
            born_ns: None,
            seat: None,
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
