//! Episodes with the numbering of a report and times since the start of watching.

use sbt_engine::{
    event::Count,
    model::{
        ids::ThreadId,
        parts::Split,
        told::{Arrival, ToldEpisode},
    },
    report::{Report, order::Order},
};

/// A completed episode. Times are in ns since watching began.
#[derive(Clone, Debug, PartialEq)]
pub struct Episode {
    /// Id of the site in the report.
    pub site: u32,
    /// Number of episodes completed at this site before.
    pub index: u64,
    /// Time of the first arrival.
    pub first_ns: u64,
    /// Time of the last arrival.
    pub last_ns: u64,
    /// The site where the phase before this episode began (`None`: none known), and the duration of
    /// the phase; `None` if the phase is unknown.
    pub phase: Option<(Option<u32>, u64)>,
    /// The last thread to arrive, and the delay since the arrival before; `None` if unknown.
    pub straggler: Option<(u32, u64)>,
    /// Work of one thread alone before the episode, while the others were kept waiting.
    pub alone: Option<Piece>,
    /// The participants, in order of arrival.
    pub seen: Vec<Participant>,
}

/// The part of a run whose episodes are known one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPart {
    /// Start of this part, ns since watching began. Not 0 if only the end of the run was kept.
    pub from_ns: u64,
    /// Number of arrivals in these episodes.
    pub arrivals: u64,
}

/// One participant of an episode.
#[derive(Clone, Debug, PartialEq)]
pub struct Participant {
    /// Number of the thread in the report.
    pub thread: u32,
    /// Whether several threads share this number, so that their times overlap.
    pub is_shared: bool,
    /// Time of arrival.
    pub arrived_ns: u64,
    /// Time from the arrival to the last arrival.
    pub idle_ns: u64,
    /// Time from the last arrival until the thread left; `None` if its departure was not seen.
    pub release_ns: Option<u64>,
    /// Duration of the work before the arrival; `None` if its start was not seen.
    pub work_ns: Option<u64>,
    /// The split of the work into running, ready and blocked time.
    pub split: Split,
    /// Counts of the work, in the order of the report's counters.
    pub counts: Vec<Option<u64>>,
}

/// The activity of a thread during a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Work between barriers.
    Work(Split),
    /// Work between parallel regions, while the others were kept waiting.
    Alone(Split),
    /// Waiting for other threads.
    Idle,
    /// From the last arrival until the thread leaves the barrier.
    Release,
}

/// A span of a thread's time, in ns since watching began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Number of the thread in the report.
    pub thread: u32,
    /// Start of the span.
    pub from_ns: u64,
    /// End of the span.
    pub to_ns: u64,
    /// The activity of the thread.
    pub doing: Doing,
}

impl Participant {
    /// The work, waiting and release of this participant, as far as known.
    pub fn pieces(&self, last_ns: u64) -> impl Iterator<Item = Piece> + use<> {
        let piece = |from_ns, to_ns, doing| Piece {
            thread: self.thread,
            from_ns,
            to_ns,
            doing,
        };
        let work = self.work_ns.map(|work_ns| {
            let from_ns = self.arrived_ns.saturating_sub(work_ns);
            piece(from_ns, self.arrived_ns, Doing::Work(self.split))
        });
        let idle = Some(piece(self.arrived_ns, last_ns, Doing::Idle));
        let release = self.release_ns;
        let release = release.map(|ns| piece(last_ns, last_ns + ns, Doing::Release));
        let all = [work, idle, release].into_iter().flatten();
        all.filter(|piece| piece.from_ns < piece.to_ns)
    }
}

impl Episode {
    /// Time from the first to the last arrival, ns.
    pub const fn barrier_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }

    /// Sum of the participants' waiting times, ns.
    pub fn lost_ns(&self) -> u64 {
        let idle = self.seen.iter().map(|seen| seen.idle_ns);
        idle.fold(0, u64::saturating_add)
    }

    /// The spans of all participants that have a number of their own.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> {
        let own = self.seen.iter().filter(|seen| !seen.is_shared);
        let all = own.flat_map(|seen| seen.pieces(self.last_ns));
        self.alone.into_iter().chain(all)
    }
}

/// Translates ids of the model into the numbers of a report.
pub struct Numbers {
    order: Order,
    start_ns: u64,
    /// By number: whether several threads share the number.
    shared: Vec<bool>,
}

impl Numbers {
    /// The numbers of a report and of the order in which it was drawn up.
    pub fn new(report: &Report, order: Order) -> Self {
        Self {
            order,
            start_ns: report.run.start_ns,
            shared: report
                .threads
                .iter()
                .map(|thread| thread.threads > 1)
                .collect(),
        }
    }

    /// Translates an episode; `None` if the report does not include the episode because totals were
    /// reset after it.
    pub fn episode(&self, told: &ToldEpisode) -> Option<Episode> {
        let done = &told.done;
        (done.last_ns > self.start_ns).then(|| Episode {
            site: self.order.site(told.site),
            index: self.order.index(told.site, told.index),
            first_ns: self.since(done.first_ns),
            last_ns: self.since(done.last_ns),
            phase: done
                .phase
                .map(|(from, ns)| (from.map(|id| self.order.site(id)), ns)),
            straggler: done
                .straggler
                .map(|(thread, lead_ns)| (self.order.number(thread), lead_ns)),
            alone: done
                .alone
                .filter(|alone| !self.is_shared(alone.row) && alone.to_ns > self.start_ns)
                .map(|alone| Piece {
                    thread: self.order.number(alone.row),
                    from_ns: self.since(alone.from_ns),
                    to_ns: self.since(alone.to_ns),
                    doing: Doing::Alone(alone.split),
                }),
            seen: told
                .arrivals
                .iter()
                .map(|arrival| self.seen(arrival))
                .collect(),
        })
    }

    fn since(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.start_ns)
    }

    /// Whether several threads share the number; also `true` for a thread without a number.
    fn is_shared(&self, thread: ThreadId) -> bool {
        let number = self.order.number(thread) as usize;
        self.shared.get(number).copied().unwrap_or(true)
    }

    fn seen(&self, arrival: &Arrival) -> Participant {
        let counts = arrival.counts.iter().flatten();
        Participant {
            thread: self.order.number(arrival.thread),
            is_shared: self.is_shared(arrival.thread),
            arrived_ns: self.since(arrival.time_ns),
            idle_ns: arrival.idle_ns,
            release_ns: arrival.release_ns,
            work_ns: arrival.work_ns,
            split: arrival.split,
            counts: counts.map(|count| count.map(Count::scaled)).collect(),
        }
    }
}
