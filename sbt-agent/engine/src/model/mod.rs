//! The model turns events into episodes, phases and sums. It is pure: no clock, no I/O, no
//! privilege; the same events give the same answer.
//!
//! docs/model.md defines the words and formulas. In short, this is how an arrival finds its
//! episode: if the barrier's count n is known, the arrivals at one barrier, ordered by time, fill
//! episodes n at a time. Where that cannot be trusted (watching began in the middle, or events were
//! lost), an episode ends when the barrier's own round number says so, when a thread arrives a
//! second time, or when a thread leaves before all have arrived. The cost of an event depends
//! neither on the number of threads nor on the number of sites: work for a whole episode is done
//! once for each of its members.

pub mod apart;
pub mod away;
pub mod barrier;
mod begun;
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
pub mod related;
mod restart;
mod rows;
pub mod sampled;
pub mod site;
pub mod sites;
pub mod speed;
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
pub mod window;
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
    parts::EpisodePart,
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
use speed::Shortest;
use tape::{Step, Tape};
use thread::Threads;
use told::{Telling, ToldEpisode};
use turns::Turns;
use virtual_time::Virtual;
use window::Window;

/// Counts over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Arrivals seen.
    pub arrivals: u64,
    /// Departures seen.
    pub departures: u64,
    /// Complete episodes.
    pub episodes: u64,
    /// Incomplete episodes: begun before watching began, cut short, or spoilt by lost events.
    pub incomplete: u64,
    /// Events known to be lost, summed over the threads.
    pub lost: u64,
    /// Arrivals while the probes were off, derived from the barriers' own round numbers.
    pub unseen: u64,
}

/// An episode with arrivals that had not ended when watching ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The barrier that the episode uses.
    pub barrier: BarrierId,
    /// The site at which its threads wait.
    pub site: SiteId,
    /// Threads that had arrived, in order, each with its arrival time in ns.
    pub arrived: Vec<(ThreadId, u64)>,
    /// Threads that took part in the barrier's last complete episode but have not arrived in this
    /// one.
    pub missing: Vec<ThreadId>,
    /// Participants whose arrival was not seen.
    pub unseen: u32,
}

/// Describes the episode that is filling at a barrier.
fn unfinished(id: BarrierId, site: SiteId, barrier: &Barrier) -> Unfinished {
    let members = barrier.open.members.iter();
    let mut arrived: Vec<_> = members
        .map(|member| (member.row, member.arrived.time_ns))
        .collect();
    arrived.sort_by_key(|(_, time_ns)| *time_ns);
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

/// The present state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present {
    /// The thread waits in an episode that is not complete.
    Waiting {
        /// The time at which it arrived, ns.
        since_ns: u64,
        /// The place from which it called the barrier.
        place: PlaceId,
    },
    /// The runtime keeps the thread waiting until the next parallel region begins.
    Between {
        /// The time at which this began, ns; where departures are not watched, at the last arrival
        /// of the thread's previous episode.
        since_ns: u64,
    },
    /// The thread works, or is on its way out of a barrier.
    Working {
        /// The time at which this began, ns; where departures are not watched, at the last arrival
        /// of the thread's previous episode.
        since_ns: u64,
    },
    /// The thread's state is not known.
    Unknown,
}

/// Identifies a barrier: the process whose memory holds it (0 if shared), and its address.
fn key(process: u32, object: u64) -> (u32, u64) {
    let owner = if space(object) == SHARED { 0 } else { process };
    (owner, object)
}

/// The number of episodes that counted busy threads by their actual time on CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exact {
    /// Episodes in which all switches of all members were seen.
    pub episodes: u64,
    /// All others: their threads are assumed to be busy whenever they are between barriers.
    pub others: u64,
}

/// The model: takes events in, keeps the sums.
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
    window: Window,
    usage: Usage,
    busy: Busy,
    /// `None` unless samples are taken.
    samples: Option<Samples>,
    compensated: Virtual,
    turns: Turns,
    /// `None` unless the live screen is on.
    lanes: Option<Lanes>,
    /// `None` unless switches are watched.
    away: Option<Tracks>,
    exact: Exact,
    shortest: Shortest,
    telling: Telling,
    told: Vec<ToldEpisode>,
    unfinished: Vec<Unfinished>,
    /// Serial number of the newest episode.
    serial: u64,
    /// Earliest time at which a complete episode had all its arrivals, ns.
    first_end_ns: Option<u64>,
    /// Latest arrival in an incomplete episode, ns: a thread first seen before then may have taken
    /// part in that episode unseen.
    blurred_ns: Option<u64>,
    /// Emptied lists of members for reuse, which saves an allocation for each episode.
    spare: Vec<Vec<Member>>,
    sweep: Sweep,
    tape: Tape,
    parts: Vec<EpisodePart>,
    set: Vec<PlaceId>,
    /// Every complete episode.
    #[cfg(test)]
    log: Vec<Episode>,
}

impl Model {
    /// Creates a model of what happens from `start_ns` on. `departures`: whether departures are
    /// reported; see [`Event::Departures`].
    pub fn new(start_ns: u64, departures: bool) -> Self {
        Self {
            start_ns,
            departures,
            usage: Usage::new(start_ns),
            ..Self::default()
        }
    }

    /// Counts over the whole run.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// All threads, living and ended.
    pub const fn threads(&self) -> &Threads {
        &self.threads
    }

    /// The shortest measurement of the speed of a CPU.
    pub const fn shortest(&self) -> Shortest {
        self.shortest
    }

    /// All barriers that are kept.
    pub const fn barriers(&self) -> &Barriers {
        &self.barriers
    }

    /// Sites and phases.
    pub const fn sites(&self) -> &Sites {
        &self.sites
    }

    /// Episodes that had not ended; filled by [`Model::finish`].
    pub fn unfinished(&self) -> &[Unfinished] {
        &self.unfinished
    }

    /// Episodes with arrivals that have not ended yet; none after [`Model::finish`].
    pub fn under_way(&self) -> Vec<Unfinished> {
        let all = (0..).zip(self.barriers.all());
        all.filter_map(|(id, barrier)| {
            let members = &barrier.open.members;
            let mut places: Vec<_> = members.iter().map(|member| member.place).collect();
            places.sort_unstable();
            places.dedup();
            // Until all have arrived, the site is taken from earlier episodes at these places.
            let site = self.sites.known(&places)?;
            Some(unfinished(BarrierId(id), site, barrier))
        })
        .collect()
    }

    /// The efficiency of the threads until `now_ns`; `None` if too little was seen.
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

    /// Time by the number of busy threads, where each episode counts the threads of its own team.
    pub const fn busy(&self) -> &Busy {
        &self.busy
    }

    /// Starts to take samples. Each sample stands for `period_ns` ns of run time. `cpus`: how many
    /// threads can run at once, if known.
    pub fn keep_samples(&mut self, period_ns: u64, cpus: Option<u32>) {
        self.samples = Some(Samples::new(period_ns, cpus));
    }

    /// The samples and their attribution; `None` unless samples are taken.
    pub const fn samples(&self) -> Option<&Samples> {
        self.samples.as_ref()
    }

    /// Takes in a sample: the thread with this number (as the user sees it) was on a CPU. Must be
    /// called before later events are pushed.
    pub fn sampled(&mut self, thread: u32, time_ns: u64, chain: ChainId) {
        if let Some(samples) = &mut self.samples
            && time_ns >= self.start_ns
        {
            samples.push(thread, time_ns, chain);
        }
    }

    /// Sets what each probe costs the thread that hits it.
    pub fn set_tariff(&mut self, tariff: Tariff) {
        self.tape.keep(|| Step::Tariff(tariff));
        self.compensated.set_tariff(tariff);
    }

    /// Figures as they would be without the cost of the probes.
    pub const fn compensated(&self) -> &Virtual {
        &self.compensated
    }

    /// Announces that probes may be off for some time: from now on, unseen arrivals are derived
    /// from the barriers' round numbers.
    pub fn expect_gaps(&mut self) {
        self.tape.keep(|| Step::ExpectGaps);
        self.turns.begin();
    }

    /// Notes that the probes are going off, or are on again.
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

    /// Whether the probes are off.
    pub const fn is_off(&self) -> bool {
        self.turns.is_off()
    }

    /// Whether all arrivals were seen or could be derived.
    pub const fn knows_all_arrivals(&self) -> bool {
        self.turns.is_exact() && self.totals.lost == 0
    }

    /// Conceptual phases, in the order of the bits of [`Roles`].
    pub const fn conceptual(&self) -> &Conceptual {
        &self.conceptual
    }

    /// Passages of marks, and the time between them.
    pub const fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Announces events that tell when threads are on no CPU.
    pub fn watch_switches(&mut self) {
        self.away.get_or_insert_default();
    }

    /// How many episodes [`Self::busy`] counts by actual time on CPUs; `None` if switches are not
    /// watched.
    pub fn exact(&self) -> Option<Exact> {
        self.away.as_ref().map(|_| self.exact)
    }

    /// Starts to keep the recent past of each thread.
    pub fn keep_lanes(&mut self) {
        self.lanes.get_or_insert_default();
    }

    /// The recent past of each thread; `None` unless it is kept.
    pub const fn lanes(&self) -> Option<&Lanes> {
        self.lanes.as_ref()
    }

    /// The present state of every living thread.
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

    /// Maps a chain of callers to a place and sets the place's roles. Must be called before the
    /// first arrival with that chain; a chain without a place becomes a place of its own.
    pub fn define_place(&mut self, callers: CallersId, place: PlaceId, roles: Roles) {
        self.tape.keep(|| Step::Place {
            callers,
            place,
            roles,
        });
        self.places.insert(callers, place);
        self.sites.assign(place, roles);
    }

    /// Sets the number of conceptual phases, and which episodes [`Self::take_told`] returns in
    /// addition to those of watched places.
    pub fn observe(&mut self, conceptual: usize, telling: Telling) {
        self.conceptual = Conceptual::new(conceptual);
        self.telling = telling;
    }

    /// Keeps all episodes for [`Self::take_told`].
    pub const fn tell_all(&mut self) {
        self.telling.all = true;
    }

    /// Returns the episodes completed since the last call that were asked for, in the order of
    /// completion.
    pub fn take_told(&mut self) -> Vec<ToldEpisode> {
        std::mem::take(&mut self.told)
    }

    /// Settles everything that is still open. No more events may follow.
    pub fn finish(&mut self) {
        self.turns.end(self.threads.all_living().next().is_some());
        // Spans that are open now are unfinished, not abandoned: nothing of them was missed.
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

    /// Finds the barrier at an address, or makes a new one.
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
        // A different team may use the barrier from now on.
        barrier.ever = Rows::default();
        barrier.open.round = None;
        barrier.before = self.serial;
    }

    /// Sets the rank of a process in a parallel program.
    pub fn set_rank(&mut self, process: u32, rank: u32) {
        self.tape.keep(|| Step::Rank { process, rank });
        self.ranks.insert(process, rank);
    }

    /// The rank of a process, if known.
    pub fn rank(&self, process: u32) -> Option<u32> {
        self.ranks.get(&process).copied()
    }
}
