//! Functions in which threads spin, tried as barriers one after the other: probes are put on a
//! function, and its use decides. What a function does before it is proven is not counted.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use sbt_engine::{
    event::{Event, Kind},
    recognise::trial::{Trial, Verdict},
};
use sbt_program::{
    files::ProbedFile,
    sites::{Resolver, WaitId, Way},
};

/// The longest time to wait for the first thread to enter the function, ns.
const UNUSED_NS: u64 = 3_000_000_000;

/// The longest trial, ns.
const LONGEST_NS: u64 = 30_000_000_000;

/// A change of probes.
#[derive(Debug)]
pub enum TrialStep {
    /// Probes are put on this file.
    Begin(Arc<ProbedFile>),
    /// The probes of this file are taken off.
    Withdraw(Arc<ProbedFile>),
}

/// The result of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The function is a barrier, and is counted since then, ns.
    Barrier {
        since_ns: u64,
        /// How it is watched.
        way: Way,
    },
    /// The function has a part of a barrier that is counted.
    Part,
    /// The use fits a barrier, but the code does not tell.
    Fits,
    /// Nothing was proven.
    Unclear,
    /// The function is no barrier.
    Other,
}

/// A function to be tried.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The function that is tried.
    pub id: WaitId,
    /// How it can be watched.
    pub way: Way,
    /// Whether the function's code is that of a barrier.
    pub by_code: bool,
}

struct Running {
    candidate: Candidate,
    file: Arc<ProbedFile>,
    trial: Trial,
    since_ns: u64,
    /// All functions that have a part of the barrier.
    of: Vec<WaitId>,
}

impl Running {
    /// The result of the trial; `None` if it goes on.
    fn outcome(&self, now_ns: u64) -> Option<Outcome> {
        let Candidate { way, by_code, .. } = self.candidate;
        let barrier = Outcome::Barrier {
            since_ns: now_ns,
            way,
        };
        let lasted_ns = now_ns.saturating_sub(self.since_ns);
        match self.trial.verdict() {
            Verdict::Barrier | Verdict::Prompt if by_code => Some(barrier),
            Verdict::Barrier if self.trial.is_left_together() == Some(true) => Some(Outcome::Fits),
            Verdict::Barrier if self.trial.is_left_together() == Some(false) => {
                Some(Outcome::Unclear)
            }
            Verdict::Other => Some(Outcome::Other),
            Verdict::Unclear | Verdict::Prompt => Some(Outcome::Unclear),
            Verdict::Open | Verdict::Barrier => {
                let is_late =
                    lasted_ns >= LONGEST_NS || lasted_ns >= UNUSED_NS && !self.trial.is_used();
                is_late.then_some(Outcome::Unclear)
            }
        }
    }
}

/// All trials of a run.
#[derive(Default)]
pub struct Trials {
    queue: VecDeque<Candidate>,
    running: Option<Running>,
    /// Whether any function was tried so far.
    has_tried: bool,
    outcomes: BTreeMap<WaitId, Outcome>,
    /// The objects of barriers that are counted, and of functions that are not.
    counted: BTreeSet<u64>,
    refused: BTreeSet<u64>,
}

impl Trials {
    /// Adds a function, unless it is known already.
    pub fn add(&mut self, candidate: Candidate) {
        let id = candidate.id;
        let running = self.running.as_ref().map(|running| running.candidate);
        let mut known = self.queue.iter().chain(&running);
        if !self.outcomes.contains_key(&id) && !known.any(|other| other.id == id) {
            self.queue.push_back(candidate);
        }
    }

    /// Whether the function that is tried has shown enough not to be a barrier.
    pub fn is_over(&self, now_ns: u64) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| running.outcome(now_ns).is_some())
    }

    /// Whether a function is tried at present.
    pub const fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The result of the trial of a function; `None` if there was none so far.
    pub fn outcome(&self, id: WaitId) -> Option<Outcome> {
        self.outcomes.get(&id).copied()
    }

    /// The change of probes that is due at `now_ns`, if any.
    pub fn step(&mut self, now_ns: u64, resolver: &mut Resolver) -> Option<TrialStep> {
        if let Some(running) = &self.running {
            let outcome = running.outcome(now_ns)?;
            return self.end(outcome).map(TrialStep::Withdraw);
        }
        while let Some(candidate) = self.queue.pop_front() {
            let Candidate { id, way, .. } = candidate;
            if self.outcomes.contains_key(&id) {
                continue;
            }
            let watched = match way {
                Way::Function(object) => {
                    let file = resolver.watches_wait(id, object);
                    file.map(|file| (file, Vec::new()))
                }
                Way::Inside(counts_at) => resolver.watches_inside(id, counts_at),
            };
            if let Some((file, of)) = watched {
                let file = Arc::new(file);
                self.has_tried = true;
                self.running = Some(Running {
                    candidate,
                    file: Arc::clone(&file),
                    trial: Trial::default(),
                    since_ns: now_ns,
                    of,
                });
                return Some(TrialStep::Begin(file));
            }
            self.outcomes.insert(id, Outcome::Unclear);
        }
        None
    }

    /// The probes of the trial that has begun could not be put on.
    pub fn fail(&mut self) {
        let _file = self.end(Outcome::Unclear);
    }

    /// Ends the trial that is running.
    fn end(&mut self, outcome: Outcome) -> Option<Arc<ProbedFile>> {
        let running = self.running.take()?;
        let candidate = running.candidate;
        let is_counted = matches!(outcome, Outcome::Barrier { .. });
        let objects = if is_counted {
            &mut self.counted
        } else {
            &mut self.refused
        };
        objects.extend(running.trial.objects());
        let is_given = matches!(candidate.way, Way::Function(object) if object != 0);
        if !is_counted && is_given && running.trial.is_lonely() {
            // Each thread passes a pointer of its own.
            let all = Candidate {
                way: Way::Function(0),
                ..candidate
            };
            self.queue.push_front(all);
        } else {
            let of_part = if is_counted { Outcome::Part } else { outcome };
            for part in running.of {
                self.outcomes.entry(part).or_insert(of_part);
            }
            self.outcomes.insert(candidate.id, outcome);
        }
        Some(running.file)
    }

    /// Takes in an event of a function that is tried. Returns whether the event is of no other use,
    /// and when a barrier was proven by this event, ns.
    pub fn take(&mut self, event: &Event) -> (bool, Option<u64>) {
        match event {
            Event::Arrive {
                tid,
                clocks,
                object,
                kind: Kind::Spin,
                ..
            } => {
                if self.counted.contains(object) {
                    return (false, None);
                }
                match &mut self.running {
                    Some(running) if !self.refused.contains(object) => {
                        running.trial.arrive(*tid, clocks.time_ns, *object);
                        (true, None)
                    }
                    // Nothing was tried so far: the user has named the line of this barrier.
                    None if !self.has_tried => {
                        self.counted.insert(*object);
                        (false, None)
                    }
                    // Another object of a barrier that is counted, or a last event of a function
                    // that is not.
                    _ => (
                        self.counted.is_empty() || self.refused.contains(object),
                        None,
                    ),
                }
            }
            Event::Depart { tid, clocks } => {
                let Some(running) = &mut self.running else {
                    return (false, None);
                };
                if !running.trial.depart(*tid, clocks.time_ns) {
                    return (false, None);
                }
                let outcome = running.outcome(clocks.time_ns);
                let Some(barrier @ Outcome::Barrier { since_ns, .. }) = outcome else {
                    return (true, None);
                };
                let _file = self.end(barrier);
                (true, Some(since_ns))
            }
            _ => (false, None),
        }
    }
}
