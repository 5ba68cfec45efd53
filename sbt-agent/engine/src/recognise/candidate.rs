//! One condition variable: what it is taken for, and what comes out of it.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    Code, Relation, Unclear,
    proof::{Proof, Record, Relations},
    round::{Ended, Role, Round, Step, Waiter},
};
use crate::event::{CallersId, Clocks, Event, Evidence, Recognition, Tid};

/// Early parts that are kept of what is recognised late.
const MAX_EARLY: usize = 4096;

/// Rounds after which a user may be asked what it is.
const UNCLEAR_ROUNDS: u64 = 8;

/// What contradicts a barrier this often, and not one time in eight, makes it none.
const MAX_BAD: u64 = 4;

/// Rounds after which what is undecided stays so.
const MAX_ROUNDS: u32 = 128;

/// Waits without a wake, each of a thread that waited already, after which it is
/// only a way to sleep; by how many threads wait, for those of a barrier may look now
/// and then whether they may go on.
const MAX_AGAIN: usize = 64;

/// For how long it is not looked at after it was found to be no barrier, ns. It
/// doubles each time.
const SILENCE_NS: u64 = 1_000_000_000;
const MAX_SILENCE_DOUBLED: u32 = 6;

/// A barrier's contradictions after which it is none after all, if they are more
/// than half of its rounds.
const MAX_STRANGE: u64 = 16;

/// One wait or wake.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub tid: Tid,
    pub clocks: Clocks,
    pub key: u64,
    pub of: Evidence,
    pub callers: CallersId,
    pub role: Role,
    /// Its place in the queue.
    pub number: u64,
}

impl Part {
    pub const fn new(tid: Tid, clocks: Clocks, key: u64, of: Evidence, callers: CallersId) -> Self {
        Self {
            tid,
            clocks,
            key,
            of,
            callers,
            role: Role::Again,
            number: 0,
        }
    }

    pub const fn waiter(&self) -> Waiter {
        Waiter {
            tid: self.tid,
            clocks: self.clocks,
            callers: self.callers,
        }
    }
}

/// What a thread does.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    /// It waits.
    Waits,
    /// It wakes so many at most, or all.
    Wakes(Option<u32>),
}

/// What it is taken for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Undecided,
    Barrier,
    /// No barrier: not looked at until then.
    Silenced {
        until_ns: u64,
    },
}

/// What has been decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is a barrier.
    Barrier,
    /// It is none, and not to be looked at until then, ns.
    Silence(u64),
    /// It was taken for one, wrongly.
    Revoke(u64),
}

/// What became of a wait or a wake.
#[derive(Debug)]
pub struct Taken {
    pub role: Role,
    /// What an earlier one turned out to be, by its number.
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

/// A condition variable.
#[derive(Debug, Default)]
pub struct Candidate {
    pub state: State,
    /// What it is, once it has been heard of.
    pub of: Option<Evidence>,
    /// How many of its parts are in the queue.
    pub held: usize,
    /// When it was last heard of, ns.
    pub heard_ns: u64,
    round: Round,
    proof: Proof,
    record: Record,
    wakes: Wakes,
    /// Waiters are woken one after the other.
    by_signals: bool,
    last_waker: Option<Tid>,
    bad: u64,
    tries: u32,
    /// It has held the others back for long enough.
    overdue: bool,
    /// What came before is of no interest any more, ns.
    begun_ns: u64,
    /// What was to be asked of it before it was silenced.
    was_unclear: Option<Unclear>,
    early: Vec<Part>,
    fed: Fed,
}

/// What the model was told.
#[derive(Debug, Default)]
struct Fed {
    /// Members that have come, in the round that goes on.
    present: u32,
    /// How many it believes there are.
    count: u32,
    /// How many there were in the last round.
    size: u32,
    last: Option<Tid>,
}

/// Callers that have completed the rounds of a condition variable.
#[derive(Debug, Default)]
struct Wakes {
    /// In the order in which they came.
    all: Vec<CallersId>,
    known: FxHashSet<CallersId>,
    /// By the functions that they are in: see [`Code::functions`].
    by_function: FxHashMap<(usize, u64), Vec<CallersId>>,
}

impl Wakes {
    fn has(&self, callers: CallersId) -> bool {
        self.known.contains(&callers)
    }

    /// Whether it is new.
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
    /// One that may have been in use before it was seen.
    pub fn known_late() -> Self {
        Self {
            round: Round::begun_before(),
            ..Self::default()
        }
    }

    /// Whether it is not looked at; if that is over, it begins anew.
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
            // Once is enough.
            overdue: true,
            was_unclear: self.was_unclear.take(),
            ..Self::default()
        };
        false
    }

    /// Whether its parts do not go into the queue any more.
    pub fn is_overdue(&self) -> bool {
        self.overdue && self.state == State::Undecided
    }

    /// Something of a thread, or of all, was not seen.
    pub fn doubt(&mut self, tid: Option<Tid>) {
        let is_foreign =
            tid.is_some_and(|tid| self.state == State::Barrier && !self.proof.has(tid));
        if !is_foreign {
            self.round.doubt(tid);
        }
    }

    /// Takes a wait in, or a wake.
    pub fn take(
        &mut self,
        part: &Part,
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
            // The first of several signals is when the last one has come.
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

    /// Whether it belongs to a barrier and to no round of it: who waits comes in only when
    /// those have left who were there before, and who wakes is the last to leave.
    fn is_beside(
        &self,
        part: &Part,
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

    /// Whether members may come unseen: a thread looks at a futex before it waits on
    /// it, and if the last has just come it does not wait; nor does one that has spun before.
    fn may_lack(&self) -> bool {
        self.of == Some(Evidence::Futex) || self.record.may_lack
    }

    /// Whether a wake from there has completed rounds before.
    fn completes(&self, callers: CallersId) -> bool {
        self.state == State::Barrier && self.wakes.has(callers)
    }

    fn complete(&mut self, ended: &Ended, relations: &mut Relations, code: &mut dyn Code) -> Role {
        let Waiter { tid, callers, .. } = ended.waker;
        let is_barrier = self.state == State::Barrier;
        if is_barrier && !self.proof.has(tid) && !self.wakes.has(callers) {
            // Someone from outside lets all go.
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

    /// Decides, if that is possible now.
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
                is_hopeless.then(|| Decision::Silence(self.silence()))
            }
            State::Barrier if self.bad > MAX_STRANGE && self.bad > self.record.rounds / 2 => {
                Some(Decision::Revoke(self.silence()))
            }
            _ => None,
        }
    }

    /// Until when, ns.
    fn silence(&mut self) -> u64 {
        let length_ns = SILENCE_NS << self.tries.min(MAX_SILENCE_DOUBLED);
        self.tries += 1;
        self.was_unclear = self.unclear();
        let until_ns = self.heard_ns.saturating_add(length_ns);
        self.state = State::Silenced { until_ns };
        self.early = Vec::new();
        until_ns
    }

    /// What it may be, if threads have met here often enough to ask.
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

    /// Nothing will be decided any more.
    pub fn give_up(&mut self) {
        if self.state == State::Undecided {
            self.state = State::Silenced { until_ns: 0 };
        }
    }

    /// It has held the others back for too long: a part is kept here.
    pub fn keep(&mut self, part: Part) {
        self.overdue = true;
        if part.clocks.time_ns < self.begun_ns {
            return;
        }
        if self.early.len() >= MAX_EARLY {
            self.early.clear();
        }
        self.early.push(part);
    }

    /// Tells of what came before it was recognised, when its turn was over: such
    /// episodes are incomplete, since what their threads did meanwhile has been
    /// told without them.
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

    /// Tells of one part in its turn.
    pub fn feed(&mut self, part: &Part, out: &mut dyn FnMut(&Event)) {
        match part.role {
            Role::Again => {}
            // Not all have come: whoever wakes them is missing.
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
                // Each time: at the end its threads may be gone that say whose it is.
                self.tell(part.key, out);
            }
            Role::Ends => {
                self.arrive(part, self.fed.present.saturating_add(2), out);
                self.abandon(part, out);
            }
            Role::Breaks => self.abandon(part, out),
        }
    }

    fn arrive(&mut self, part: &Part, count: u32, out: &mut dyn FnMut(&Event)) {
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

    /// The round will not be completed.
    fn abandon(&mut self, part: &Part, out: &mut dyn FnMut(&Event)) {
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

    /// Tells by what it was recognised.
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
