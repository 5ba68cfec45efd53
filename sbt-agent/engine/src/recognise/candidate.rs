//! A candidate: one object that threads wait on. Decides whether it is a barrier, and turns its
//! waits and wakes into events.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    code::{Code, Relation},
    part::{Deed, Role, WaitOrWake, Waiter},
    proof::{Proof, Record, Relations},
    round::{Ended, Round, Step},
};
use crate::event::{CallersId, Event, Evidence, Recognition, Tid};

/// Largest number of early parts that are kept of a candidate recognised late.
const MAX_EARLY: usize = 4096;

/// Rounds after which the user may be asked what the object is.
const UNCLEAR_ROUNDS: u64 = 8;

/// Contradictions beyond this number, plus one in eight rounds, show that the object is no barrier.
const MAX_BAD: u64 = 4;

/// Rounds after which an undecided candidate is taken for no barrier.
const MAX_ROUNDS: u32 = 128;

/// Repeated waits of waiting threads, without a wake, after which the object counts as a mere way
/// to sleep. The limit is multiplied by the number of waiting threads, because threads at a barrier
/// may check now and then whether they may go on.
const MAX_AGAIN: usize = 64;

/// For how long a candidate is ignored after it was found to be no barrier, ns. The time doubles
/// with each attempt.
const SILENCE_NS: u64 = 1_000_000_000;
const MAX_SILENCE_DOUBLED: u32 = 6;

/// The number of its waits and wakes that are ignored here before the probes are told to: telling them costs
/// more than some events, and many objects are used only once.
pub const IGNORED_HERE: u32 = 4;

/// Contradictions after which a recognised barrier is given up, if they are more than half of its
/// rounds.
const MAX_STRANGE: u64 = 16;

/// The present verdict on the candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Undecided,
    Barrier,
    /// No barrier: ignored until this time, ns.
    Silenced {
        until_ns: u64,
    },
}

/// A decision about a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The candidate is a barrier.
    Barrier,
    /// The candidate is no barrier, and is ignored for a while.
    Silence,
    /// The candidate was wrongly taken for a barrier, and is ignored for a while.
    Revoke,
}

/// The role that a wait or a wake was found to have.
#[derive(Debug)]
pub struct Taken {
    pub role: Role,
    /// The new role of an earlier wake, by its position in the queue.
    pub amended: Option<(u64, Role)>,
}

impl From<Role> for Taken {
    fn from(role: Role) -> Self {
        Self {
            role,
            amended: None,
        }
    }
}

/// Calls through which threads wait for each other, and which may or may not be those of a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear {
    /// The kind of object on which they wait.
    pub of: Evidence,
    /// The calls that wait.
    pub waits: Vec<CallersId>,
    /// The calls that wake.
    pub wakes: Vec<CallersId>,
    /// Whether every thread that has woken the others has also waited there.
    pub wakers_waited: bool,
}

/// An object that threads wait on, and which may be a barrier.
#[derive(Debug, Default)]
pub struct Candidate {
    pub state: State,
    /// The kind of object, known from its first wait or wake on.
    pub of: Option<Evidence>,
    /// Number of its parts in the queue.
    pub held: usize,
    /// Time of its latest wait or wake, ns.
    pub heard_ns: u64,
    round: Round,
    proof: Proof,
    record: Record,
    wakes: Wakes,
    /// Whether waiters are woken one after the other.
    by_signals: bool,
    last_waker: Option<Tid>,
    bad: u64,
    tries: u32,
    /// Number of its waits and wakes that were ignored since it was last silenced.
    ignored: u32,
    /// Whether the candidate has held back other events for long enough.
    overdue: bool,
    /// Parts from before this time are ignored, ns.
    begun_ns: u64,
    /// The question for the user about the candidate, from the time before it was silenced.
    was_unclear: Option<Unclear>,
    early: Vec<WaitOrWake>,
    fed: Fed,
}

/// The model's knowledge of a barrier.
#[derive(Debug, Default)]
struct Fed {
    /// Members that have arrived in the current round.
    present: u32,
    /// Number of members that the model was told.
    count: u32,
    /// Number of members in the last round.
    size: u32,
    last: Option<Tid>,
}

/// Callers of the wakes that completed rounds.
#[derive(Debug, Default)]
struct Wakes {
    /// The callers, in order of first appearance.
    all: Vec<CallersId>,
    known: FxHashSet<CallersId>,
    /// The callers by the functions that contain them: see [`Code::functions`].
    by_function: FxHashMap<(usize, u64), Vec<CallersId>>,
}

impl Wakes {
    fn has(&self, callers: CallersId) -> bool {
        self.known.contains(&callers)
    }

    /// Adds callers; returns whether they are new.
    fn add(&mut self, callers: CallersId) -> bool {
        let is_new = self.known.insert(callers);
        if is_new {
            self.all.push(callers);
        }
        is_new
    }

    fn add_of(&mut self, function: (usize, u64), callers: CallersId) {
        self.by_function.entry(function).or_default().push(callers);
    }

    fn of(&self, function: (usize, u64)) -> &[CallersId] {
        self.by_function.get(&function).map_or(&[], Vec::as_slice)
    }
}

impl Candidate {
    /// A candidate that may have been in use before it was seen.
    pub fn known_late() -> Self {
        Self {
            round: Round::begun_before(),
            ..Self::default()
        }
    }

    /// Whether the candidate is ignored at the moment. When that time is over, it starts afresh.
    pub fn is_silenced(&mut self, now_ns: u64) -> bool {
        let State::Silenced { until_ns } = self.state else {
            return false;
        };
        if now_ns < until_ns {
            return true;
        }
        *self = Self {
            tries: self.tries,
            held: self.held,
            round: Round::begun_before(),
            begun_ns: now_ns,
            // The candidate held back events before; it does so only once.
            overdue: true,
            was_unclear: self.was_unclear.take(),
            ..Self::default()
        };
        false
    }

    /// Counts a wait or wake that was ignored. Returns until when the probes should ignore the candidate, ns, if
    /// they are to be told now.
    pub fn ignore(&mut self) -> Option<u64> {
        let State::Silenced { until_ns } = self.state else {
            return None;
        };
        self.ignored = self.ignored.saturating_add(1);
        (self.ignored == IGNORED_HERE).then_some(until_ns)
    }

    /// Whether the probes were told to ignore the candidate.
    pub const fn is_told(&self) -> bool {
        self.ignored >= IGNORED_HERE
    }

    /// Whether new parts of the candidate no longer go into the queue.
    pub fn is_overdue(&self) -> bool {
        self.overdue && self.state == State::Undecided
    }

    /// Notes that something was not seen, of one thread or of all (`None`).
    pub fn doubt(&mut self, tid: Option<Tid>) {
        let is_foreign =
            tid.is_some_and(|tid| self.state == State::Barrier && !self.proof.has(tid));
        if !is_foreign {
            self.round.doubt(tid);
        }
    }

    /// Processes a wait or a wake.
    pub fn take(
        &mut self,
        part: &WaitOrWake,
        deed: Deed,
        relations: &mut Relations,
        code: &mut dyn Code,
    ) -> Taken {
        self.heard_ns = part.clocks.time_ns;
        self.of = Some(part.of);
        if self.is_beside(part, deed, relations, code) {
            return Role::Again.into();
        }
        let step = match deed {
            Deed::Waits => self.round.wait(part),
            // The first of several single wakes shows that all have come: it counts as a wake of all.
            Deed::Wakes(_) if self.by_signals && self.state == State::Barrier => {
                self.round.wake(part, None)
            }
            Deed::Wakes(most) => self.round.wake(part, most),
        };
        match step {
            Step::On(role) => role.into(),
            Step::Nobody if self.by_signals && self.last_waker == Some(part.tid) => {
                Role::Again.into()
            }
            Step::Nobody if self.completes(part.callers) => Role::Completes { count: 1 }.into(),
            Step::Nobody => {
                self.bad += 1;
                Role::Again.into()
            }
            Step::Broken => {
                self.bad += 1;
                Role::Breaks.into()
            }
            Step::Unsure if self.completes(part.callers) => Role::Ends.into(),
            Step::Unsure => Role::Breaks.into(),
            Step::Complete(ended, number) => {
                let role = self.complete(&ended, relations, code);
                self.last_waker = Some(ended.waker.tid);
                match number {
                    Some(number) => {
                        self.by_signals = true;
                        Taken {
                            role: Role::Again,
                            amended: Some((number, role)),
                        }
                    }
                    None => role.into(),
                }
            }
        }
    }

    /// Whether a part belongs to a barrier, but to none of its rounds. Such waits come before the
    /// barrier, until the threads of the previous round have left; such wakes come from the last
    /// thread to leave.
    fn is_beside(
        &self,
        part: &WaitOrWake,
        deed: Deed,
        relations: &mut Relations,
        code: &mut dyn Code,
    ) -> bool {
        match deed {
            Deed::Waits => {
                let mut functions = relations.functions(part.callers, code);
                functions.any(|function| {
                    let mut wakes = self.wakes.of(function).iter();
                    wakes.any(|wake| relations.get(part.callers, *wake, code) == Relation::Enters)
                })
            }
            Deed::Wakes(_) => {
                let waiters = self.round.waiters();
                self.proof
                    .only_leaves(waiters, part.callers, relations, code)
            }
        }
    }

    /// Whether members may arrive unseen. A thread checks a futex before it waits, and does not
    /// wait if the last thread has just arrived; nor does a thread that spins first.
    fn may_lack(&self) -> bool {
        self.of == Some(Evidence::Futex) || self.record.may_lack
    }

    /// Whether a wake with these callers has completed rounds before.
    fn completes(&self, callers: CallersId) -> bool {
        self.state == State::Barrier && self.wakes.has(callers)
    }

    fn complete(&mut self, ended: &Ended, relations: &mut Relations, code: &mut dyn Code) -> Role {
        let Waiter { tid, callers, .. } = ended.waker;
        let is_barrier = self.state == State::Barrier;
        if is_barrier && !self.proof.has(tid) && !self.wakes.has(callers) {
            // A thread from outside wakes all members.
            self.bad += 1;
            return Role::Breaks;
        }
        let is_first = self.record.rounds == 0;
        let may_lack = self.may_lack();
        let same = self
            .proof
            .add(ended, may_lack, &mut self.record, relations, code);
        if !same && !is_first && !is_barrier {
            self.bad += 1;
        }
        if self.wakes.add(callers) {
            for function in relations.functions(callers, code) {
                self.wakes.add_of(function, callers);
            }
        }
        Role::Completes {
            count: u32::try_from(ended.waiters.len() + 1).unwrap_or(u32::MAX),
        }
    }

    /// Decides about the candidate, if possible by now.
    pub fn decide(&mut self, at_end: bool, relations: &mut Relations) -> Option<Decision> {
        match self.state {
            State::Undecided => {
                let wakes = self.wakes.all.iter();
                let is_proven = wakes.clone().all(|wake| relations.proven.contains(wake));
                let suffices = self
                    .proof
                    .suffices(&self.record, at_end, self.tries, is_proven);
                if suffices && self.bad <= MAX_BAD {
                    self.state = State::Barrier;
                    self.bad = 0;
                    self.fed.size = u32::try_from(self.proof.size()).unwrap_or(u32::MAX);
                    if self.proof.is_by_code() {
                        relations.proven.extend(self.wakes.all.iter().copied());
                    }
                    return Some(Decision::Barrier);
                }
                let is_hopeless = self.record.is_other
                    || self.bad > MAX_BAD + self.record.rounds / 8
                    || self.proof.rounds() >= MAX_ROUNDS
                    || self.round.again >= MAX_AGAIN * self.round.waiters().len().max(1);
                is_hopeless.then(|| {
                    self.silence();
                    Decision::Silence
                })
            }
            State::Barrier if self.bad > MAX_STRANGE && self.bad > self.record.rounds / 2 => {
                self.silence();
                Some(Decision::Revoke)
            }
            _ => None,
        }
    }

    /// Silences the candidate.
    fn silence(&mut self) {
        let length_ns = SILENCE_NS << self.tries.min(MAX_SILENCE_DOUBLED);
        self.tries += 1;
        self.ignored = 0;
        self.was_unclear = self.unclear();
        let until_ns = self.heard_ns.saturating_add(length_ns);
        self.state = State::Silenced { until_ns };
        self.early = Vec::new();
    }

    /// The question for the user about the candidate; `None` unless threads have met here often
    /// enough.
    pub fn unclear(&self) -> Option<Unclear> {
        if self.state == State::Barrier || self.record.is_other {
            return None;
        }
        let has_met = self.record.rounds >= UNCLEAR_ROUNDS && self.proof.size() > 1;
        if !has_met {
            return self.was_unclear.clone();
        }
        Some(Unclear {
            of: self.of?,
            waits: self.proof.waits().to_vec(),
            wakes: self.wakes.all.clone(),
            wakers_waited: self.proof.wakers_waited(),
        })
    }

    /// Ends the search: an undecided candidate is taken for no barrier.
    pub fn give_up(&mut self) {
        if self.state == State::Undecided {
            self.state = State::Silenced { until_ns: 0 };
        }
    }

    /// Keeps a part that no longer goes into the queue, because the candidate has held back other
    /// events for too long.
    pub fn keep(&mut self, part: WaitOrWake) {
        self.overdue = true;
        if part.clocks.time_ns < self.begun_ns {
            return;
        }
        if self.early.len() >= MAX_EARLY {
            self.early.clear();
        }
        self.early.push(part);
    }

    /// Tells the model what happened before the barrier was recognised, too late to be told in
    /// order. These episodes are incomplete, because the model has already been told what their
    /// threads did in the meantime.
    pub fn feed_early(&mut self, out: &mut dyn FnMut(&Event)) {
        for part in std::mem::take(&mut self.early) {
            match part.role {
                Role::Again => {}
                Role::Comes => self.arrive(&part, self.fed.size.saturating_add(1), out),
                Role::Completes { .. } | Role::Ends => {
                    self.arrive(&part, self.fed.size.saturating_add(1), out);
                    self.abandon(&part, out);
                }
                Role::Breaks => self.abandon(&part, out),
            }
        }
    }

    /// Tells the model about a part whose turn has come.
    pub fn feed(&mut self, part: &WaitOrWake, out: &mut dyn FnMut(&Event)) {
        match part.role {
            Role::Again => {}
            // The round is not complete: at least the thread that will wake the others is missing.
            Role::Comes => {
                let count = self.fed.size.max(self.fed.present.saturating_add(2));
                self.arrive(part, count, out);
            }
            Role::Completes { count }
                if self.may_lack() && (count as usize) < self.proof.size() =>
            {
                self.arrive(part, count.max(self.fed.present).saturating_add(1), out);
                self.abandon(part, out);
            }
            Role::Completes { count } => {
                self.arrive(part, count, out);
                self.fed.present = 0;
                self.fed.size = count;
                // Repeated for each round: at the end, all threads that identify the process may
                // have ended.
                self.tell(part.key, out);
            }
            Role::Ends => {
                self.arrive(part, self.fed.present.saturating_add(2), out);
                self.abandon(part, out);
            }
            Role::Breaks => self.abandon(part, out),
        }
    }

    fn arrive(&mut self, part: &WaitOrWake, count: u32, out: &mut dyn FnMut(&Event)) {
        if self.fed.count != count {
            self.fed.count = count;
            out(&Event::Memory {
                tid: part.tid,
                time_ns: part.clocks.time_ns,
                object: part.key,
                count,
                round: None,
            });
        }
        self.fed.present += 1;
        self.fed.last = Some(part.tid);
        out(&Event::Arrive {
            tid: part.tid,
            clocks: part.clocks,
            object: part.key,
            kind: part.of.kind(),
            callers: part.callers,
        });
    }

    /// Tells the model that the current round will not be completed.
    fn abandon(&mut self, part: &WaitOrWake, out: &mut dyn FnMut(&Event)) {
        if self.fed.present == 0 {
            return;
        }
        self.fed.present = 0;
        self.fed.count = self.fed.size;
        out(&Event::Init {
            time_ns: part.clocks.time_ns,
            object: part.key,
            kind: part.of.kind(),
            tid: part.tid,
            count: self.fed.size,
        });
    }

    /// Tells the model the evidence by which the barrier was recognised.
    fn tell(&self, key: u64, out: &mut dyn FnMut(&Event)) {
        if let (State::Barrier, Some(tid)) = (self.state, self.fed.last) {
            out(&Event::Recognised {
                tid,
                object: key,
                by: Recognition {
                    rounds: self.record.rounds,
                    members: u32::try_from(self.proof.size()).unwrap_or(u32::MAX),
                    wakers_waited: self.proof.wakers_waited(),
                    code: self.proof.is_by_code(),
                },
            });
        }
    }
}
