//! Recognises barriers that the program does not call barriers, from who waits on what and who
//! wakes whom.
//!
//! A stream of events goes in and a stream comes out, both in order of time. Events
//! other than evidence pass through. Evidence ([`Event::Wait`], [`Event::Wake`]) of an object that turns out
//! to be a barrier comes out as arrivals; other evidence is dropped. While an object is undecided,
//! everything behind its first evidence is held back, so that the first rounds are counted too and
//! events stay in order. If others need the events behind, they are not held back for long: see
//! [`MAX_HELD_NS`].
//!
//! [`proof`] decides what is a barrier, and [`round`] when rounds begin and end.

mod candidate;
mod code;
mod part;
mod proof;
mod round;
pub mod trial;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::event::{self, Event, Evidence, Tid};
use candidate::{Candidate, Decision, State};
use part::{Deed, WaitOrWake};
use proof::Relations;

pub use candidate::{IGNORED_HERE, Unclear};
pub use code::{Code, Functions, NoCode, Relation};

/// The longest time for which events are held back for a decision, in ns of the target's time, if
/// urgent events such as arrivals at other barriers are among them.
pub const MAX_HELD_NS: u64 = 2_000_000_000;

/// The largest number of events that are held back.
pub const MAX_HELD: usize = 100_000;

/// The largest number of candidates. Beyond it, those that were inactive for longest are forgotten.
const MAX_CANDIDATES: usize = 8192;

/// Counts of what the recogniser did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of waits and wakes seen.
    pub evidence: u64,
    /// Number of objects that are barriers.
    pub barriers: u64,
}

/// An entry that is held back in the queue.
#[derive(Debug)]
enum Held {
    Event(Event),
    Part(WaitOrWake),
    /// The events that a part has become.
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

/// Whether the event changes figures that are shown now, so that it should not be held back for
/// long.
const fn is_urgent(event: &Event) -> bool {
    matches!(
        event,
        Event::Arrive { .. } | Event::Awaits { .. } | Event::Depart { .. } | Event::Mark { .. }
    )
}

/// Turns a stream with evidence into a stream with arrivals.
#[derive(Debug, Default)]
pub struct Recogniser {
    held: VecDeque<Held>,
    /// Number of entries that have left the queue: the position of its first entry.
    gone: u64,
    /// Number of urgent entries in the queue.
    urgent: usize,
    candidates: FxHashMap<u64, Candidate>,
    /// The number of candidates from which on some are forgotten, if it is more than [`MAX_CANDIDATES`].
    forgets_from: usize,
    /// Whether an object that is new here may have been in use before.
    comes_late: bool,
    relations: Relations,
    counts: Counts,
    silenced: Vec<(u64, u64)>,
    notes: Vec<String>,
}

impl Recogniser {
    /// A recogniser for a target that may be running already.
    pub fn new(runs_already: bool) -> Self {
        Self {
            comes_late: runs_already,
            ..Self::default()
        }
    }

    /// Counts of the recogniser's decisions so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Objects that need not be watched, each with the time until when (ns), added since the last
    /// call.
    pub fn take_silenced(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.silenced)
    }

    /// Remarks for the user.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Objects at which threads met often enough, and which are neither known to be barriers nor
    /// known not to be.
    pub fn unclear(&self) -> Vec<Unclear> {
        let mut found: Vec<(u64, Unclear)> = self
            .candidates
            .iter()
            .filter_map(|(key, candidate)| Some((*key, candidate.unclear()?)))
            .collect();
        found.sort_unstable_by_key(|(key, _)| *key);
        found.into_iter().map(|(_, unclear)| unclear).collect()
    }

    /// Whether `out` has not heard yet of something that figures show now, such as an arrival.
    pub const fn holds_back(&self) -> bool {
        self.urgent > 0
    }

    /// Processes one event; `out` receives the resulting events.
    pub fn push(&mut self, event: &Event, code: &mut dyn Code, out: &mut dyn FnMut(&Event)) {
        match *event {
            Event::Wait {
                tid,
                clocks,
                key,
                of,
                callers,
            } => {
                let part = WaitOrWake::new(tid, clocks, key, of, callers);
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
                let part = WaitOrWake::new(tid, clocks, key, of, callers);
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

    /// Decides, with what is known, about the objects of a process whose memory has gone. What is
    /// held back for other objects stays held back, and the events of this process keep their place
    /// in the queue.
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
            let Some(candidate) = self.candidates.remove(&key) else {
                continue;
            };
            match candidate.state {
                State::Barrier => self.counts.barriers -= 1,
                // Another object may come to lie at this address.
                State::Silenced { .. } if candidate.is_told() => self.silenced.push((key, 0)),
                _ => {}
            }
        }
        self.release(None, out);
    }

    /// Turns held parts of a process into events, in place.
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

    /// Releases what has been held back for too long at time `now_ns`.
    pub fn tick(&mut self, now_ns: u64, out: &mut dyn FnMut(&Event)) {
        self.release(Some(now_ns), out);
    }

    /// Ends the stream: decides with what is known, and releases everything.
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

    /// Notes that nothing was seen for a while.
    pub fn blind(&mut self) {
        self.comes_late = true;
        self.interrupt(None);
    }

    /// Notes that something was not seen, of one thread or of all (`None`).
    fn interrupt(&mut self, tid: Option<Tid>) {
        for candidate in self.candidates.values_mut() {
            candidate.doubt(tid);
        }
    }

    fn evidence(
        &mut self,
        part: WaitOrWake,
        deed: Deed,
        code: &mut dyn Code,
        out: &mut dyn FnMut(&Event),
    ) {
        self.counts.evidence += 1;
        let (key, now_ns) = (part.key, part.clocks.time_ns);
        let most = MAX_CANDIDATES.max(self.forgets_from);
        if self.candidates.len() >= most && !self.candidates.contains_key(&key) {
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
            let until_ns = candidate.ignore();
            self.silenced
                .extend(until_ns.map(|until_ns| (key, until_ns)));
            return;
        }
        let number = self.gone + self.held.len() as u64;
        let part = WaitOrWake { number, ..part };
        let taken = candidate.take(&part, deed, &mut self.relations, code);
        // Parts that have left the queue keep their role: they were told already, or were dropped.
        if let Some((number, role)) = taken.amended
            && let Some(index) = number.checked_sub(self.gone)
            && let Ok(index) = usize::try_from(index)
            && let Some(Held::Part(part)) = self.held.get_mut(index)
            && part.key == key
        {
            part.role = role;
        }
        let part = WaitOrWake {
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

    /// Decides about a candidate, if possible by now.
    fn decide(&mut self, key: u64, at_end: bool, out: &mut dyn FnMut(&Event)) {
        let Some(candidate) = self.candidates.get_mut(&key) else {
            return;
        };
        match candidate.decide(at_end, &mut self.relations) {
            None | Some(Decision::Silence) => {}
            Some(Decision::Barrier) => {
                self.counts.barriers += 1;
                self.urgent += candidate.held;
                candidate.feed_early(out);
            }
            Some(Decision::Revoke) => {
                self.counts.barriers -= 1;
                self.urgent -= candidate.held;
                self.notes.push(format!(
                    "the {} at {key:#x} was counted as a barrier until the program used it in \
                     another way",
                    candidate.of.map_or("object", Evidence::name)
                ));
            }
        }
    }

    /// Releases the entries up to the first undecided part. With `now_ns`, parts that were held
    /// back for too long are released too. The queue never keeps more than [`MAX_HELD`] entries.
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

    /// Forgets candidates that are no barriers, have nothing in the queue and were inactive for a
    /// while; if that is not enough, also active ones.
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
        // Those that are held back in the queue stay, and are no more than it has entries. Each look at all of
        // them is paid for by half as many that are new.
        self.forgets_from = self.candidates.len() / 2 * 3;
    }
}
