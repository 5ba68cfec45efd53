//! Episodes by the numbers of a report, their times since the start of watching.

use sbt_engine::{
    event::Count,
    model::{
        ids::ThreadId,
        parts::Split,
        told::{Arrival, Told},
    },
    report::{Report, order::Order},
};

/// A complete episode. Times are in ns since watching began.
#[derive(Clone, Debug, PartialEq)]
pub struct Episode {
    /// Its site, as in the report.
    pub site: u32,
    /// How many were completed there before.
    pub index: u64,
    /// First arrival.
    pub first_ns: u64,
    /// Last arrival.
    pub last_ns: u64,
    /// After which site its phase began, and how long it took; `None` if that is unknown.
    pub phase: Option<(Option<u32>, u64)>,
    /// Who came last, and how long after the one before it; `None` if that is unknown.
    pub straggler: Option<(u32, u64)>,
    /// What one of its threads worked alone before, while the others were kept waiting.
    pub alone: Option<Piece>,
    /// Who took part, in order of arrival.
    pub seen: Vec<Seen>,
}

/// Which of a run's episodes are known one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Those from then on, ns since watching began: not 0 if only the end of it was kept.
    pub from_ns: u64,
    /// Arrivals in them.
    pub arrivals: u64,
}

/// One thread in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// As in the report.
    pub thread: u32,
    /// Several threads share that number: what they do overlaps.
    pub is_shared: bool,
    /// When it came.
    pub arrived_ns: u64,
    /// Until the last came.
    pub idle_ns: u64,
    /// From then until it left; `None` if that was not seen.
    pub release_ns: Option<u64>,
    /// Its work before; `None` if its beginning was not seen.
    pub work_ns: Option<u64>,
    /// How that splits up.
    pub split: Split,
    /// What counters said of it, in the order of the report's.
    pub counts: Vec<Option<u64>>,
}

/// What a thread did for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Work between barriers.
    Work(Split),
    /// Work between parallel regions, while the others were kept waiting.
    Alone(Split),
    /// Waiting for others.
    Idle,
    /// Getting going again.
    Release,
}

/// Some time of a thread; ns since watching began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// As in the report.
    pub thread: u32,
    /// From when on.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// What it did.
    pub doing: Doing,
}

impl Seen {
    /// Its work, waiting and getting going again, as far as they are known.
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
    /// L - F, ns.
    pub const fn barrier_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }

    /// Waiting of all its threads, ns.
    pub fn lost_ns(&self) -> u64 {
        let idle = self.seen.iter().map(|seen| seen.idle_ns);
        idle.fold(0, u64::saturating_add)
    }

    /// What its threads did, those with a number of their own.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> {
        let own = self.seen.iter().filter(|seen| !seen.is_shared);
        let all = own.flat_map(|seen| seen.pieces(self.last_ns));
        self.alone.into_iter().chain(all)
    }
}

/// The numbers of a report.
pub struct Numbers {
    order: Order,
    start_ns: u64,
    /// By number: several threads share it.
    shared: Vec<bool>,
}

impl Numbers {
    /// Those of a report and the order that it was drawn up in.
    pub fn new(report: &Report, order: Order) -> Self {
        Self {
            order,
            start_ns: report.start_ns,
            shared: report.threads.iter().map(|it| it.threads > 1).collect(),
        }
    }

    /// An episode by these numbers; `None` if the report does not count it, since counting
    /// began anew after it.
    pub fn episode(&self, told: &Told) -> Option<Episode> {
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
            seen: told.arrivals.iter().map(|it| self.seen(it)).collect(),
        })
    }

    fn since(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.start_ns)
    }

    /// Also of one without a number, which no report has.
    fn is_shared(&self, thread: ThreadId) -> bool {
        let number = self.order.number(thread) as usize;
        self.shared.get(number).copied().unwrap_or(true)
    }

    fn seen(&self, arrival: &Arrival) -> Seen {
        let counts = arrival.counts.iter().flatten();
        Seen {
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
