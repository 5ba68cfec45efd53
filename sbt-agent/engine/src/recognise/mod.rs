//! Barriers that nobody calls so: recognised from who waits on what and who
//! wakes them.
//!
//! A stream goes in and a stream comes out, both in the order of time. Events
//! that are no evidence pass. Evidence ([`Event::Wait`], [`Event::Wake`]) of what
//! turns out to be a barrier comes out as arrivals, other evidence not at all. As
//! long as that is open everything behind the first evidence is held back, so that
//! the first rounds are counted too and nothing comes out of turn; but not for
//! long if others are waiting for it: see [`MAX_HELD_NS`].
//!
//! What makes a barrier of something is in [`proof`]; when rounds begin and end
//! in [`round`].

mod candidate;
mod proof;
mod round;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::event::{self, CallersId, Event, Evidence, Tid};
use candidate::{Candidate, Decision, Deed, Part, State};
use proof::Relations;

/// How long events are held back for a decision, ns of the target's time, while
/// there are some among them that others wait for: arrivals at other barriers.
pub const MAX_HELD_NS: u64 = 2_000_000_000;

/// How many events are held back at most.
pub const MAX_HELD: usize = 100_000;

/// More objects than this are not looked at; those silent longest are forgotten.
const MAX_CANDIDATES: usize = 8192;

/// How two calls in the target's code stand to each other, one of a function
/// that waits, one of a function that wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// The code could not be read or understood.
    Unknown,
    /// Neither of the following.
    Apart,
    /// Either one or the other happens, decided by a test between a point that is
    /// common to both and the calls: as in a barrier, where the last one wakes
    /// and all others wait.
    Alternatives,
    /// The same, but the test is not seen to count who has come. It may ask whose part a thread
    /// plays, as where one makes what the other takes.
    Either,
    /// As [`Self::Alternatives`], but who is to wait first looks for a while without the mutex whether it must:
    /// some come without waiting, and nobody sees them.
    Lacking,
    /// The wait is part of what counts as a barrier anyway.
    Counted,
    /// First one and then the other, without doing anything else between: as in a
    /// monitor, where who has waited for its turn wakes the next.
    InTurn,
    /// The wake comes behind the alternatives of a barrier: the last to leave lets those in
    /// who have come to the next round meanwhile, as in `parsec_barrier_wait` of PARSEC.
    Leaves,
    /// The wait comes before the alternatives of a barrier: for those to leave who were there
    /// in the round before.
    Enters,
}

impl Relation {
    /// Whether the calls are those of a barrier, in whichever part of it.
    pub const fn is_of_barrier(self) -> bool {
        self.decides() || matches!(self, Self::Leaves | Self::Enters)
    }

    /// Whether a test decides between the two.
    pub const fn decides(self) -> bool {
        matches!(self, Self::Alternatives | Self::Lacking)
    }
}

/// What is known of the target's code.
pub trait Code {
    /// How the calls stand to each other from which these chains of callers come.
    fn relation(&mut self, wait: CallersId, wake: CallersId) -> Relation;

    /// Of a chain of callers, up to two functions: unless a wait and a wake have one in common,
    /// their relation is neither [`Relation::Enters`] nor [`Relation::Leaves`]. So a program
    /// with many places need not be asked about each pair of them.
    fn functions(&mut self, _callers: CallersId) -> Functions {
        // Without further knowledge all are in one function.
        [Some((0, 0)), None]
    }
}

/// See [`Code::functions`]: each by its file's number and its first address.
pub type Functions = [Option<(usize, u64)>; 2];

/// Nothing is known.
#[derive(Debug, Default)]
pub struct NoCode;

impl Code for NoCode {
    fn relation(&mut self, _wait: CallersId, _wake: CallersId) -> Relation {
        Relation::Unknown
    }
}

/// Counts of what the recogniser did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Waits and wakes seen.
    pub evidence: u64,
    /// Objects that are barriers.
    pub barriers: u64,
}

/// Calls by which threads wait for each other, and of which it is not known whether they are
/// those of a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear {
    /// On what they wait.
    pub of: Evidence,
    /// Calls that wait.
    pub waits: Vec<CallersId>,
    /// Calls that wake.
    pub wakes: Vec<CallersId>,
    /// Every thread that has woken the others has also waited there.
    pub wakers_waited: bool,
}

/// What is held back.
#[derive(Debug)]
enum Held {
    Event(Event),
    Part(Part),
    /// What came of a part.
    Told(Vec<Event>),
}

impl Held {
    fn time_ns(&self) -> Option<u64> {
        match self {
            Self::Event(_) | Self::Told(_) => None,
            Self::Part(part) => Some(part.clocks.time_ns),
        }
    }
}

/// Whether someone waits for an event: it changes what the figures say now.
const fn is_urgent(event: &Event) -> bool {
    matches!(
        event,
        Event::Arrive { .. } | Event::Depart { .. } | Event::Mark { .. }
    )
}

/// The transformer.
#[derive(Debug, Default)]
pub struct Recogniser {
    held: VecDeque<Held>,
    /// How many have left the queue: the number of its first.
    gone: u64,
    /// How many of those in it are awaited.
    urgent: usize,
    candidates: FxHashMap<u64, Candidate>,
    /// What is new may have been in use while nobody looked.
    comes_late: bool,
    relations: Relations,
    counts: Counts,
    silenced: Vec<(u64, u64)>,
    notes: Vec<String>,
}

impl Recogniser {
    /// For a target that may run already, or not.
    pub fn new(runs_already: bool) -> Self {
        Self {
            comes_late: runs_already,
            ..Self::default()
        }
    }

    /// Counts so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// What need not be looked at, and until when (ns), since this was last called.
    pub fn take_silenced(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.silenced)
    }

    /// What the user should know.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Of what was used in turns and is neither known to be a barrier nor known to be none.
    pub fn unclear(&self) -> Vec<Unclear> {
        let mut found: Vec<(u64, Unclear)> = self
            .candidates
            .iter()
            .filter_map(|(key, candidate)| Some((*key, candidate.unclear()?)))
            .collect();
        found.sort_unstable_by_key(|(key, _)| *key);
        found.into_iter().map(|(_, unclear)| unclear).collect()
    }

    /// Takes one event in; `out` gets what comes out.
    pub fn push(&mut self, event: &Event, code: &mut dyn Code, out: &mut dyn FnMut(&Event)) {
        match *event {
            Event::Wait {
                tid,
                clocks,
                key,
                of,
                callers,
            } => {
                let part = Part::new(tid, clocks, key, of, callers);
                self.evidence(part, Deed::Waits, code, out);
            }
            Event::Wake {
                tid,
                clocks,
                key,
                of,
                most,
                callers,
            } => {
                let part = Part::new(tid, clocks, key, of, callers);
                self.evidence(part, Deed::Wakes(most), code, out);
            }
            _ => {
                match *event {
                    Event::Gap { .. } => self.blind(),
                    Event::Lost { tid, .. } => self.interrupt(Some(tid)),
                    Event::Callers { id, .. } => self.relations.forget(id),
                    Event::Ended {
                        space: Some(space), ..
                    } => self.leave(space, out),
                    Event::Exec { space, .. } => {
                        self.leave(space, out);
                        self.comes_late &= space != 0;
                    }
                    _ => {}
                }
                if self.held.is_empty() {
                    out(event);
                } else {
                    self.urgent += usize::from(is_urgent(event));
                    self.held.push_back(Held::Event(event.clone()));
                    if self.held.len() > MAX_HELD {
                        self.release(None, out);
                    }
                }
            }
        }
    }

    /// Nothing lies any more where it lay in the memory of a process: decides about
    /// that with what there is. What is held back for others stays held back, and
    /// what came of this process keeps its place among it.
    fn leave(&mut self, space: u16, out: &mut dyn FnMut(&Event)) {
        let all = self.candidates.keys();
        let mut keys: Vec<u64> = all
            .filter(|key| event::space(**key) == space)
            .copied()
            .collect();
        keys.sort_unstable();
        for key in &keys {
            self.decide(*key, true, out);
        }
        if keys.iter().any(|key| self.candidates[key].held > 0) {
            self.settle(space);
        }
        for key in keys {
            match self
                .candidates
                .remove(&key)
                .map(|candidate| candidate.state)
            {
                Some(State::Barrier) => self.counts.barriers -= 1,
                // Something else may come to lie there.
                Some(State::Silenced { until_ns }) if until_ns > 0 => self.silenced.push((key, 0)),
                _ => {}
            }
        }
        self.release(None, out);
    }

    /// Makes events of what is held back of a process.
    fn settle(&mut self, space: u16) {
        for held in &mut self.held {
            let Held::Part(part) = held else {
                continue;
            };
            if event::space(part.key) != space {
                continue;
            }
            let mut told = Vec::new();
            if let Some(candidate) = self.candidates.get_mut(&part.key)
                && candidate.state == State::Barrier
            {
                candidate.feed(part, &mut |event| told.push(event.clone()));
                self.urgent -= usize::from(told.is_empty());
            }
            *held = Held::Told(told);
        }
    }

    /// Time has come to `now_ns`: lets go what is held back for too long.
    pub fn tick(&mut self, now_ns: u64, out: &mut dyn FnMut(&Event)) {
        self.release(Some(now_ns), out);
    }

    /// No more events will come: decides with what there is, and lets everything
    /// go.
    pub fn finish(&mut self, out: &mut dyn FnMut(&Event)) {
        let mut keys: Vec<u64> = self.candidates.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            self.decide(key, true, out);
        }
        for candidate in self.candidates.values_mut() {
            candidate.give_up();
        }
        self.release(None, out);
    }

    /// Nothing was seen for a while.
    pub fn blind(&mut self) {
        self.comes_late = true;
        self.interrupt(None);
    }

    /// Something was not seen, of one thread or of all.
    fn interrupt(&mut self, tid: Option<Tid>) {
        for candidate in self.candidates.values_mut() {
            candidate.doubt(tid);
        }
    }

    fn evidence(
        &mut self,
        part: Part,
        deed: Deed,
        code: &mut dyn Code,
        out: &mut dyn FnMut(&Event),
    ) {
        self.counts.evidence += 1;
        let (key, now_ns) = (part.key, part.clocks.time_ns);
        if self.candidates.len() >= MAX_CANDIDATES && !self.candidates.contains_key(&key) {
            self.forget_some(now_ns);
        }
        let comes_late = self.comes_late;
        let candidate = self.candidates.entry(key).or_insert_with(|| {
            if comes_late {
                Candidate::known_late()
            } else {
                Candidate::default()
            }
        });
        if candidate.is_silenced(now_ns) {
            return;
        }
        let number = self.gone + self.held.len() as u64;
        let part = Part { number, ..part };
        let taken = candidate.take(&part, deed, &mut self.relations, code);
        // One that has left the queue is told of already, or will be without it.
        if let Some((number, role)) = taken.amended
            && let Some(index) = number.checked_sub(self.gone)
            && let Ok(index) = usize::try_from(index)
            && let Some(Held::Part(part)) = self.held.get_mut(index)
            && part.key == key
        {
            part.role = role;
        }
        let part = Part {
            role: taken.role,
            ..part
        };
        if candidate.is_overdue() {
            candidate.keep(part);
        } else {
            self.urgent += usize::from(candidate.state == State::Barrier);
            candidate.held += 1;
            self.held.push_back(Held::Part(part));
        }
        self.decide(key, false, out);
        self.release(Some(now_ns), out);
    }

    /// Decides about a candidate, if that is possible now.
    fn decide(&mut self, key: u64, at_end: bool, out: &mut dyn FnMut(&Event)) {
        let Some(candidate) = self.candidates.get_mut(&key) else {
            return;
        };
        match candidate.decide(at_end, &mut self.relations) {
            None => {}
            Some(Decision::Barrier) => {
                self.counts.barriers += 1;
                self.urgent += candidate.held;
                candidate.feed_early(out);
            }
            Some(Decision::Silence(until_ns)) => self.silenced.push((key, until_ns)),
            Some(Decision::Revoke(until_ns)) => {
                self.counts.barriers -= 1;
                self.urgent -= candidate.held;
                self.silenced.push((key, until_ns));
                self.notes.push(format!(
                    "the {} at {key:#x} was taken for a barrier until it was used in other ways",
                    candidate.of.map_or("object", Evidence::name)
                ));
            }
        }
    }

    /// Lets go what nothing undecided is in front of. `now_ns`: what is held
    /// back for longer goes as well; without it, whatever is too much.
    fn release(&mut self, now_ns: Option<u64>, out: &mut dyn FnMut(&Event)) {
        while let Some(front) = self.held.front() {
            let (age, key) = match front {
                Held::Event(_) | Held::Told(_) => (0, None),
                Held::Part(part) => {
                    let time_ns = front.time_ns().unwrap_or(0);
                    (now_ns.unwrap_or(0).saturating_sub(time_ns), Some(part.key))
                }
            };
            let candidate = key.and_then(|key| self.candidates.get_mut(&key));
            if let Some(candidate) = &candidate
                && candidate.state == State::Undecided
                && !candidate.is_overdue()
            {
                let too_long = self.urgent > 0 && age > MAX_HELD_NS;
                if !too_long && self.held.len() <= MAX_HELD {
                    return;
                }
            }
            let Some(front) = self.held.pop_front() else {
                return;
            };
            self.gone += 1;
            match (front, candidate) {
                (Held::Event(event), _) => {
                    self.urgent -= usize::from(is_urgent(&event));
                    out(&event);
                }
                (Held::Told(events), _) => {
                    self.urgent -= usize::from(!events.is_empty());
                    events.iter().for_each(&mut *out);
                }
                (Held::Part(part), Some(candidate)) => {
                    candidate.held -= 1;
                    match candidate.state {
                        State::Barrier => {
                            self.urgent -= 1;
                            candidate.feed(&part, out);
                        }
                        State::Undecided => candidate.keep(part),
                        State::Silenced { .. } => {}
                    }
                }
                (Held::Part(_), None) => {}
            }
        }
    }

    /// Makes room: what is no barrier and not undecided in the queue.
    fn forget_some(&mut self, now_ns: u64) {
        let is_fresh = |candidate: &Candidate| {
            candidate.state == State::Barrier
                || candidate.held > 0
                || now_ns.saturating_sub(candidate.heard_ns) < MAX_HELD_NS
        };
        self.candidates.retain(|_, candidate| is_fresh(candidate));
        if self.candidates.len() >= MAX_CANDIDATES {
            self.candidates
                .retain(|_, candidate| candidate.state == State::Barrier || candidate.held > 0);
        }
    }
}
