//! The state at some moment, as steps for a model that is told only what follows. To that model it
//! is as if watching began in the middle of the run.

use std::collections::BTreeMap;

use super::rows::{Begin, Row};
use sbt_engine::{
    event::{CallersId, Event, Kind, Tid},
    model::{cost::Tariff, tape::Step},
    place::Place,
};

/// The largest number of barriers that are remembered. Counts of others have to be found out again.
const MOST_BARRIERS: usize = 4096;

/// The rows that still matter of all rows so far.
#[derive(Debug)]
pub struct Recap {
    begin: Begin,
    latest_ns: u64,
    places: Vec<Place>,
    /// The place of each chain of callers.
    callers: BTreeMap<CallersId, Step>,
    ranks: BTreeMap<u32, u32>,
    /// Living threads: the process, and the event that introduced each.
    threads: BTreeMap<Tid, (u32, Event)>,
    /// Barriers by process and address.
    barriers: BTreeMap<(u32, u64), Barrier>,
    tariff: Option<Tariff>,
    expects_gaps: bool,
    is_off: bool,
}

/// The state of a barrier.
#[derive(Clone, Copy, Debug, Default)]
struct Barrier {
    kind: Option<Kind>,
    count: Option<u32>,
}

impl Recap {
    /// With nothing told yet. `begin`: how the first model is begun.
    pub const fn new(begin: Begin) -> Self {
        Self {
            begin,
            latest_ns: begin.start_ns,
            places: Vec::new(),
            callers: BTreeMap::new(),
            ranks: BTreeMap::new(),
            threads: BTreeMap::new(),
            barriers: BTreeMap::new(),
            tariff: None,
            expects_gaps: false,
            is_off: false,
        }
    }

    /// Adds the next place.
    pub fn place(&mut self, place: &Place) {
        self.places.push(place.clone());
    }

    /// Takes note of a step.
    pub fn take(&mut self, step: &Step) {
        self.latest_ns = self.latest_ns.max(step.time_ns().unwrap_or(0));
        match step {
            Step::Event(event) => self.event(event),
            Step::Place { callers, .. } => {
                self.callers.insert(*callers, step.clone());
            }
            Step::Rank { process, rank } => {
                self.ranks.insert(*process, *rank);
            }
            Step::Tariff(tariff) => self.tariff = Some(*tariff),
            Step::ExpectGaps => self.expects_gaps = true,
            Step::Off(off) => self.is_off = *off,
            Step::Reset { .. } => {}
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Thread { tid, shown, .. } => {
                self.threads.insert(*tid, (shown.1, event.clone()));
            }
            Event::Exit { tid, .. } => {
                self.threads.remove(tid);
            }
            Event::Arrive {
                tid, object, kind, ..
            } => {
                if let Some(barrier) = self.barrier(*tid, *object) {
                    barrier.kind = Some(*kind);
                }
            }
            Event::Memory {
                tid, object, count, ..
            } => {
                if let Some(barrier) = self.barrier(*tid, *object) {
                    barrier.count = Some(*count);
                }
            }
            Event::Init {
                tid,
                object,
                kind,
                count,
                ..
            } => {
                if let Some(barrier) = self.barrier(*tid, *object) {
                    *barrier = Barrier {
                        kind: Some(*kind),
                        count: Some(*count),
                    };
                }
            }
            Event::Exec { process, .. } => self.forget(*process),
            Event::Ended { process, .. } => {
                self.forget(*process);
                self.threads.retain(|_, (theirs, _)| theirs != process);
                self.ranks.remove(process);
            }
            Event::Departures { on } => self.begin.departures = *on,
            _ => {}
        }
    }

    fn barrier(&mut self, tid: Tid, object: u64) -> Option<&mut Barrier> {
        let (process, _) = self.threads.get(&tid)?;
        let key = (*process, object);
        if self.barriers.len() >= MOST_BARRIERS && !self.barriers.contains_key(&key) {
            self.barriers.clear();
        }
        Some(self.barriers.entry(key).or_default())
    }

    /// Forgets the barriers of a process: nothing lies any more where it lay.
    fn forget(&mut self, process: u32) {
        self.barriers.retain(|(theirs, _), _| *theirs != process);
    }

    /// How to begin a model that is told only what follows.
    pub const fn begin(&self) -> Begin {
        Begin {
            start_ns: self.latest_ns,
            ..self.begin
        }
    }

    /// The rows that such a model needs first.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let places = self.places.iter();
        let places = places.map(|place| Row::Place(Box::new(place.clone())));
        places.chain(self.steps().map(Row::Step))
    }

    fn steps(&self) -> impl Iterator<Item = Step> {
        let time_ns = self.latest_ns;
        let ranks = self.ranks.iter();
        let ranks = ranks.map(|(process, rank)| Step::Rank {
            process: *process,
            rank: *rank,
        });
        let threads = self.threads.values();
        let threads = threads.map(|(_, event)| Step::Event(event.clone()));
        let counts = self.barriers.iter().filter_map(move |(key, barrier)| {
            let (process, object) = *key;
            let mut living = self.threads.iter();
            let (tid, _) = living.find(|(_, (theirs, _))| *theirs == process)?;
            Some(Step::Event(Event::Init {
                time_ns,
                object,
                kind: barrier.kind?,
                tid: *tid,
                count: barrier.count?,
            }))
        });
        // Where each thread is, and the rounds of the barriers, are not known.
        let gap = Step::Event(Event::Gap { time_ns });
        let gap = (!self.threads.is_empty()).then_some(gap);
        let tariff = self.tariff.map(Step::Tariff);
        let expects_gaps = self.expects_gaps.then_some(Step::ExpectGaps);
        let off = self.is_off.then_some(Step::Off(true));
        let callers = self.callers.values().cloned();
        (callers.chain(ranks).chain(threads).chain(counts))
            .chain(gap)
            .chain(tariff)
            .chain(expects_gaps)
            .chain(off)
    }
}
