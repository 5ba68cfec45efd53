//! Events → episodes, phases and sums. Pure: no clock, no I/O, no privilege;
//! the same events give the same answer.
//!
//! Words and formulas are those of docs/model.md. How an arrival finds its
//! episode, in short: with a known count, arrivals at one barrier in the order
//! of time fill episodes n at a time; where that cannot be trusted (we came in
//! the middle, events were lost) the barrier's own round number decides, or a
//! thread that arrives again, or one that leaves before all have come. The
//! cost of an event depends neither on the number of threads nor of sites: what
//! is done for a whole episode is done once for each of its members.

pub mod away;
pub mod barrier;
pub mod busy;
mod closing;
pub mod conceptual;
pub mod cost;
pub mod counts;
pub mod efficiency;
pub mod episode;
pub mod gains;
pub mod histogram;
pub mod ids;
mod intake;
pub mod lanes;
pub mod late;
mod lives;
pub mod marks;
mod moves;
pub mod parts;
pub mod rates;
mod regions;
mod restart;
mod rows;
pub mod sampled;
pub mod site;
pub mod sites;
pub mod stats;
pub mod still;
pub mod straggler;
pub mod tape;
pub mod thread;
pub mod told;
pub mod trend;
mod turns;
pub mod virtual_time;
pub mod waits;
pub mod within;

#[cfg(test)]
mod tests;

use rustc_hash::FxHashMap;

use crate::event::{CallersId, Kind, SHARED, Tid, space};
use crate::model::ids::BarrierId;
use crate::model::ids::ChainId;
use crate::model::ids::ThreadId;
use crate::model::rows::Rows;
use crate::model::{
    ids::{PlaceId, SiteId},
    parts::Part,
};
use away::Tracks;
use barrier::{Barrier, Barriers, Entry};
use busy::{Busy, Sweep};
use conceptual::Conceptual;
use cost::Tariff;
use efficiency::{Efficiency, Usage};
#[cfg(test)]
use episode::Episode;
use episode::Member;
use lanes::Lanes;
use marks::Marks;
use sampled::Samples;
use site::Roles;
use sites::Sites;
use tape::{Step, Tape};
use thread::Threads;
use told::{Telling, Told};
use turns::Turns;
use virtual_time::Virtual;

/// Counts over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Arrivals seen.
    pub arrivals: u64,
    /// Departures seen.
    pub departures: u64,
    /// Complete episodes.
    pub episodes: u64,
    /// Others: begun before we came, cut short, or spoilt by a loss.
    pub incomplete: u64,
    /// Events known to be lost, thread by thread.
    pub lost: u64,
    /// Arrivals while the probes were off, by what barriers themselves count.
    pub unseen: u64,
}

/// An episode that had arrivals but had not ended when watching did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Its barrier.
    pub barrier: BarrierId,
    /// Where its threads wait.
    pub site: SiteId,
    /// Who had arrived, and when (ns), in order.
    pub arrived: Vec<(ThreadId, u64)>,
    /// Who took part in the barrier's last complete episode but not in this.
    pub missing: Vec<ThreadId>,
    /// Participants whose arrival was not seen.
    pub unseen: u32,
}

/// The episode that fills at a barrier.
fn unfinished(id: BarrierId, site: SiteId, barrier: &Barrier) -> Unfinished {
    let members = barrier.open.members.iter();
    let arrived: Vec<_> = members
        .map(|member| (member.row, member.arrived.time_ns))
        .collect();
    let mut missing = barrier.last_members.clone();
    missing.retain(|row| arrived.iter().all(|(here, _)| here != row));
    missing.sort_unstable();
    Unfinished {
        barrier: id,
        site,
        arrived,
        missing,
        unseen: barrier.open.unseen,
    }
}

/// What a thread does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present {
    /// It waits in an episode that is not complete.
    Waiting {
        /// Since when, ns.
        since_ns: u64,
        /// From where it called.
        place: PlaceId,
    },
    /// It is kept waiting by its runtime until a parallel region begins.
    Between {
        /// Since when, ns: at most its last arrival.
        since_ns: u64,
    },
    /// It works, or is on its way out of a barrier.
    Working {
        /// Since when, ns: at most its last arrival.
        since_ns: u64,
    },
    /// Not known.
    Unknown,
}

/// What a barrier is known by: in whose memory it lies, and where.
fn key(process: u32, object: u64) -> (u32, u64) {
    let owner = if space(object) == SHARED { 0 } else { process };
    (owner, object)
}

/// For how many episodes the number of busy threads is by what they did on CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exact {
    /// So many.
    pub episodes: u64,
    /// For these not all of it was seen: threads are taken to be busy between barriers.
    pub others: u64,
}

/// The engine.
#[derive(Debug, Default)]
pub struct Model {
    start_ns: u64,
    departures: bool,
    totals: Totals,
    threads: Threads,
    barriers: Barriers,
    sites: Sites,
    places: FxHashMap<CallersId, PlaceId>,
    ranks: FxHashMap<u32, u32>,
    conceptual: Conceptual,
    marks: Marks,
    usage: Usage,
    busy: Busy,
    /// Kept only if there are any.
    samples: Option<Samples>,
    compensated: Virtual,
    turns: Turns,
    /// Kept only for whoever looks on.
    lanes: Option<Lanes>,
    /// Kept only where switches are watched.
    away: Option<Tracks>,
    exact: Exact,
    telling: Telling,
    told: Vec<Told>,
    unfinished: Vec<Unfinished>,
    /// Of the episode that was opened last.
    serial: u64,
    /// When the first complete episode had all its arrivals, ns.
    first_end_ns: Option<u64>,
    /// Last arrival in an incomplete episode, ns: threads that had shown nothing
    /// by then may have been in it.
    blurred_ns: Option<u64>,
    /// Kept to be filled again: no allocation per episode.
    spare: Vec<Vec<Member>>,
    sweep: Sweep,
    tape: Tape,
    parts: Vec<Part>,
    set: Vec<PlaceId>,
    /// All that was ever counted as complete.
    #[cfg(test)]
    log: Vec<Episode>,
}

impl Model {
    /// A model of what happens from `start_ns` on. `departures`: whether they
    /// are reported; see [`Event::Departures`].
    pub fn new(start_ns: u64, departures: bool) -> Self {
        Self {
            start_ns,
            departures,
            usage: Usage::new(start_ns),
            ..Self::default()
        }
    }

    /// Counts.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Threads.
    pub const fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Barriers.
    pub const fn barriers(&self) -> &Barriers {
        &self.barriers
    }

    /// Sites and phases.
    pub const fn sites(&self) -> &Sites {
        &self.sites
    }

    /// Episodes that had not ended; known after [`Model::finish`].
    pub fn unfinished(&self) -> &[Unfinished] {
        &self.unfinished
    }

    /// Episodes that have arrivals and have not ended yet; none after
    /// [`Model::finish`].
    pub fn under_way(&self) -> Vec<Unfinished> {
        let all = (0..).zip(self.barriers.all());
        all.filter_map(|(id, barrier)| {
            let members = &barrier.open.members;
            let mut places: Vec<_> = members.iter().map(|member| member.place).collect();
            places.sort_unstable();
            places.dedup();
            // Before all have come it is known as what it has been before.
            let site = self.sites.known(&places)?;
            Some(unfinished(BarrierId(id), site, barrier))
        })
        .collect()
    }

    /// How well the threads were used until `now_ns`; `None` where too little was seen.
    pub fn efficiency(&self, now_ns: u64) -> Option<Efficiency> {
        let working = self.threads.all_living().filter_map(|live| {
            let since = live
                .since
                .filter(|_| live.seat.is_none() && !live.regions.is_kept)?;
            Some((live.chain, since.clocks.time_ns))
        });
        let counts = (self.totals.episodes, self.totals.incomplete);
        self.usage.efficiency(now_ns, working, counts)
    }

    /// Time by the number of busy threads, each episode's for itself.
    pub const fn busy(&self) -> &Busy {
        &self.busy
    }

    /// Begins to take samples, each of which stands for so much run time, ns. `cpus`: how
    /// many threads can be on a CPU at once, if that is known.
    pub fn keep_samples(&mut self, period_ns: u64, cpus: Option<u32>) {
        self.samples = Some(Samples::new(period_ns, cpus));
    }

    /// What became of the samples, if there are any.
    pub const fn samples(&self) -> Option<&Samples> {
        self.samples.as_ref()
    }

    /// A thread, by its number as the user sees it, was seen on a CPU. To be said before
    /// the events that came later.
    pub fn sampled(&mut self, thread: u32, time_ns: u64, chain: ChainId) {
        if let Some(samples) = &mut self.samples
            && time_ns >= self.start_ns
        {
            samples.push(thread, time_ns, chain);
        }
    }

    /// Says what probes cost the threads that hit them.
    pub fn set_tariff(&mut self, tariff: Tariff) {
        self.tape.keep(|| Step::Tariff(tariff));
        self.compensated.set_tariff(tariff);
    }

    /// What would have been without that.
    pub const fn compensated(&self) -> &Virtual {
        &self.compensated
    }

    /// Probes may be off for spans of time from here on: arrivals are reckoned.
    pub fn expect_gaps(&mut self) {
        self.tape.keep(|| Step::ExpectGaps);
        self.turns.begin();
    }

    /// They go off for a while, or have come on.
    pub fn set_off(&mut self, off: bool) {
        self.tape.keep(|| Step::Off(off));
        if off {
            let heard = self
                .barriers
                .all()
                .iter()
                .map(|barrier| barrier.heard_ns)
                .max();
            self.turns.go_off(heard.unwrap_or(self.start_ns));
        } else {
            self.turns.come_on();
        }
    }

    /// Whether they are off.
    pub const fn is_off(&self) -> bool {
        self.turns.is_off()
    }

    /// Whether all arrivals were seen or could be reckoned.
    pub const fn knows_all_arrivals(&self) -> bool {
        self.turns.is_exact() && self.totals.lost == 0
    }

    /// Conceptual phases, in the order of the bits of [`Roles`].
    pub const fn conceptual(&self) -> &Conceptual {
        &self.conceptual
    }

    /// Marks.
    pub const fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Events tell when threads are on no CPU.
    pub fn watch_switches(&mut self) {
        self.away.get_or_insert_default();
    }

    /// For how many episodes [`Self::busy`] is by what threads did on CPUs; `None` where
    /// switches are not watched.
    pub fn exact(&self) -> Option<Exact> {
        self.away.as_ref().map(|_| self.exact)
    }

    /// Begins to keep what the threads did lately.
    pub fn keep_lanes(&mut self) {
        self.lanes.get_or_insert_default();
    }

    /// What they did lately, if that is kept.
    pub const fn lanes(&self) -> Option<&Lanes> {
        self.lanes.as_ref()
    }

    /// What every living thread does now.
    pub fn present(&self) -> impl Iterator<Item = (ThreadId, Present)> {
        self.threads.all_living().map(|live| {
            let waiting = live.seat.and_then(|seat| {
                let open = &self.barriers.all()[seat.barrier.index()].open;
                let member = open.members.get(seat.index);
                member.filter(|_| open.serial == seat.episode)
            });
            let present = match (waiting, live.since) {
                (Some(member), _) => Present::Waiting {
                    since_ns: member.arrived.time_ns,
                    place: member.place,
                },
                (None, Some(since)) if live.regions.is_kept => Present::Between {
                    since_ns: since.clocks.time_ns,
                },
                (None, Some(since)) => Present::Working {
                    since_ns: since.clocks.time_ns,
                },
                (None, None) => Present::Unknown,
            };
            (live.row, present)
        })
    }

    /// Says which place a chain of callers is, and what is wanted there. To be
    /// said before its first arrival; otherwise each chain is a place of its own.
    pub fn define_place(&mut self, callers: CallersId, place: PlaceId, roles: Roles) {
        self.tape.keep(|| Step::Place {
            callers,
            place,
            roles,
        });
        self.places.insert(callers, place);
        self.sites.assign(place, roles);
    }

    /// Says how many conceptual phases there are, and which episodes are to be
    /// told beside those of watched places.
    pub fn observe(&mut self, conceptual: usize, telling: Telling) {
        self.conceptual = Conceptual::new(conceptual);
        self.telling = telling;
    }

    /// The episodes to be told that were completed since this was last called,
    /// in the order of their completion. They are kept until then.
    pub fn take_told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }

    /// No more events will come. Settles what is still open.
    pub fn finish(&mut self) {
        self.turns.end(self.threads.all_living().next().is_some());
        // What is open now was not missed: such spans are unfinished.
        let conceptual = std::mem::take(&mut self.conceptual);
        for id in self.barriers.ids() {
            self.settle_leaving(id);
            if !self.barriers.get(id).open.members.is_empty() {
                self.note_unfinished(id);
                self.close_open(id);
            }
        }
        self.conceptual = conceptual;
        if let Some(samples) = &mut self.samples {
            samples.finish();
        }
    }

    fn note_unfinished(&mut self, id: BarrierId) {
        let open = std::mem::take(&mut self.barriers.get(id).open);
        let site = self.site_of(id, &open);
        self.barriers.get(id).open = open;
        let unfinished = unfinished(id, site, self.barriers.get(id));
        self.unfinished.push(unfinished);
    }

    /// The barrier at an address, which may be new.
    fn barrier(&mut self, key: (u32, u64), kind: Kind) -> BarrierId {
        match self.barriers.entry(key) {
            Entry::Known(id) => id,
            Entry::Free => self.barriers.insert(key, kind, None),
            Entry::Taken(old) => {
                self.settle_leaving(old);
                self.close_open(old);
                self.barriers.insert(key, kind, Some(old))
            }
        }
    }

    fn init(&mut self, tid: Tid, time_ns: u64, object: u64, kind: Kind, count: u32) {
        self.threads.meet(tid, time_ns);
        let Some(live) = self.threads.live(tid) else {
            return;
        };
        let key = key(live.process, object);
        self.turns.init(key);
        let id = self.barrier(key, kind);
        self.settle_leaving(id);
        self.close_open(id);
        let barrier = self.barriers.get(id);
        barrier.count = Some(count);
        // Another team may use it from here on.
        barrier.ever = Rows::default();
        barrier.open.round = None;
        barrier.before = self.serial;
    }

    /// Says which rank of a parallel program a process is.
    pub fn set_rank(&mut self, process: u32, rank: u32) {
        self.tape.keep(|| Step::Rank { process, rank });
        self.ranks.insert(process, rank);
    }

    /// Which it is, if that is known.
    pub fn rank(&self, process: u32) -> Option<u32> {
        self.ranks.get(&process).copied()
    }
}
