//! What makes a barrier of a condition variable.
//!
//! In every round of a barrier all members come, each once; the one that comes
//! last wakes the others, and anybody can be the last. Other uses look like that
//! for a while: threads that take turns, a lock of one's own that is always
//! wanted, a worker that is given one piece after the other. What tells them
//! apart, strongest first:
//!
//! - **The code.** In a barrier one test decides between waiting and waking, and it asks how
//!   many have come ([`Relation::Alternatives`]). Where it asks something else, such as whose
//!   part a thread plays ([`Relation::Either`]), the code says nothing. A monitor wakes after it has waited
//!   ([`Relation::InTurn`]); queues, locks and pools wait in one function and wake
//!   in another. With the first three rounds of the same members are enough.
//! - **Who wakes.** Every waker has waited here in another round, and it is not
//!   always the same.
//! - **Work.** Whoever is woken for nothing waits again at once. In a barrier of
//!   working threads most have used the CPU between two waits.
//!
//! Without the code the last two are asked for together, of three threads or more, in many
//! rounds. So what stays unrecognised then is a barrier of two threads, one at which always the
//! same thread is last, and one whose threads do nothing but sleep.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    Code, Functions, Relation,
    round::{Ended, Waiter},
};
use crate::event::{CallersId, Tid};

/// Rounds of the same members in a row, where the code is that of a barrier.
const ROUNDS: u32 = 3;
/// The same at the end of the run.
const ROUNDS_AT_END: u32 = 2;
/// Rounds of members that are not always the same, where the code is.
const MIXED_ROUNDS: u32 = 8;
/// Rounds where nothing is known of the code.
const ROUNDS_UNKNOWN: u32 = 16;
/// Rounds where the code is not that of a barrier, as far as it can be seen
/// through functions of the program's own around those of the C library.
const ROUNDS_APART: u32 = 32;
/// Members where the code is not seen to be a barrier's: two threads that take turns, and sleep
/// only if the other one is slow, cannot be told from two at a barrier by what they do.
const MEMBERS_UNKNOWN: usize = 3;
/// More rounds for each time that it was looked at in vain.
const ROUNDS_MORE: u32 = 4;
/// CPU time between two waits above which a thread has worked, ns: to wait
/// again at once takes a tenth of that.
const WORK_NS: u64 = 50_000;
/// How often a thread must have worked between two waits of its own.
const WORKED: u32 = 8;
/// Chains of callers of waits that are compared with those of wakes.
const MAX_WAIT_CALLERS: usize = 32;

/// How calls stand to each other, asked once each.
#[derive(Debug, Default)]
pub struct Relations {
    known: FxHashMap<(CallersId, CallersId), Relation>,
    /// With which others each chain of callers was compared.
    compared: FxHashMap<CallersId, FxHashSet<CallersId>>,
    functions: FxHashMap<CallersId, Functions>,
    /// Callers of wakes that have completed rounds of barriers.
    pub proven: FxHashSet<CallersId>,
}

impl Relations {
    pub fn get(&mut self, wait: CallersId, wake: CallersId, code: &mut dyn Code) -> Relation {
        if let Some(known) = self.known.get(&(wait, wake)) {
            return *known;
        }
        let relation = code.relation(wait, wake);
        self.known.insert((wait, wake), relation);
        self.compared.entry(wait).or_default().insert(wake);
        self.compared.entry(wake).or_default().insert(wait);
        relation
    }

    /// See [`Code::functions`].
    pub fn functions(
        &mut self,
        callers: CallersId,
        code: &mut dyn Code,
    ) -> impl Iterator<Item = (usize, u64)> + use<> {
        let known = self.functions.entry(callers);
        let functions: Functions = *known.or_insert_with(|| code.functions(callers));
        functions.into_iter().flatten()
    }

    /// Whether a wait and a wake may be those of a barrier that keeps threads out.
    fn may_be_phases(&mut self, wait: CallersId, wake: CallersId, code: &mut dyn Code) -> bool {
        let mut of_wait = self.functions(wait, code);
        let of_wake: Vec<_> = self.functions(wake, code).collect();
        of_wait.any(|function| of_wake.contains(&function))
    }

    /// The number of a chain of callers means another one from here on.
    pub fn forget(&mut self, callers: CallersId) {
        for other in self.compared.remove(&callers).into_iter().flatten() {
            self.known.remove(&(callers, other));
            self.known.remove(&(other, callers));
        }
        self.functions.remove(&callers);
        self.proven.remove(&callers);
    }

    /// How a wake stands to some waits: the one that says most.
    fn best(&mut self, waits: &[CallersId], wake: CallersId, code: &mut dyn Code) -> Relation {
        let mut best = Relation::Unknown;
        for wait in waits {
            match self.get(*wait, wake, code) {
                relation @ (Relation::InTurn | Relation::Counted) => return relation,
                relation if relation.decides() => best = relation,
                Relation::Either if !best.decides() => best = Relation::Either,
                Relation::Apart if best == Relation::Unknown => best = Relation::Apart,
                _ => {}
            }
        }
        best
    }
}

/// What a thread did here last.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// In which round.
    round: u32,
    waited: bool,
    run_ns: Option<u64>,
}

/// What a member has done.
#[derive(Clone, Copy, Debug)]
struct Member {
    has_waited: bool,
    has_woken: bool,
    last: Option<Last>,
}

/// Evidence from rounds of the same members in a row.
#[derive(Debug, Default)]
pub struct Proof {
    members: FxHashMap<Tid, Member>,
    rounds: u32,
    /// Rounds of which the code is a barrier's.
    of_code: u32,
    /// Rounds of which the code is seen, and is not.
    of_other_code: u32,
    /// A thread that waited in one round worked until it waited in the next.
    worked: u32,
    /// It did not, but who woke it did.
    idled: u32,
    waits: Vec<CallersId>,
}

/// Evidence over all rounds, also if the members change.
#[derive(Debug, Default)]
pub struct Record {
    /// Rounds that were completed.
    pub rounds: u64,
    /// Those of which the code is a barrier's, in a row, of as many members.
    of_code: u32,
    size: usize,
    /// The code is that of something else than a barrier to be recognised.
    pub is_other: bool,
    /// Threads may come to it without waiting there.
    pub may_lack: bool,
}

impl Proof {
    /// How many members there are.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Rounds of these members.
    pub const fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Calls from which threads have waited.
    pub fn waits(&self) -> &[CallersId] {
        &self.waits
    }

    /// Whether a thread is a member.
    pub fn has(&self, tid: Tid) -> bool {
        self.members.contains_key(&tid)
    }

    /// Whether every thread that woke the others was woken by one of them in
    /// another round.
    pub fn wakers_waited(&self) -> bool {
        self.members
            .values()
            .all(|member| member.has_waited || !member.has_woken)
    }

    /// Whether a wake only lets those in who wait for others to leave: by the code, and where
    /// threads were seen to wait.
    pub fn only_leaves(
        &self,
        waiters: &[Waiter],
        wake: CallersId,
        relations: &mut Relations,
        code: &mut dyn Code,
    ) -> bool {
        let now = waiters.iter().map(|waiter| waiter.callers);
        let mut waits = self.waits.iter().copied().chain(now);
        waits.any(|wait| {
            relations.may_be_phases(wait, wake, code)
                && relations.get(wait, wake, code) == Relation::Leaves
        })
    }

    /// Whether the code of all its rounds is a barrier's, as far as it is known: who has called
    /// may be learned only after some of them.
    pub const fn is_by_code(&self) -> bool {
        self.of_code > 0 && self.of_other_code == 0
    }

    /// Takes a round in; false if its members are others, who begin anew. `may_lack`:
    /// who came just before the last may not have been seen.
    pub fn add(
        &mut self,
        ended: &Ended,
        may_lack: bool,
        record: &mut Record,
        relations: &mut Relations,
        code: &mut dyn Code,
    ) -> bool {
        let Ended { waiters, waker } = ended;
        let came = waiters.len() + 1;
        let known = waiters.iter().chain([waker]);
        let known = known.filter(|who| self.has(who.tid)).count();
        let same = if may_lack {
            // All are known, or all who are known have come; and most have.
            let more = self.members.len().max(came);
            (known == came || known == self.members.len()) && 2 * known > more
        } else {
            known == came && known == self.members.len()
        };
        if !same {
            let waits = std::mem::take(&mut self.waits);
            *self = Self {
                waits,
                ..Self::default()
            };
        }
        self.rounds += 1;
        let mut waits: Vec<CallersId> = Vec::new();
        for waiter in waiters {
            if waits.len() < MAX_WAIT_CALLERS && !waits.contains(&waiter.callers) {
                waits.push(waiter.callers);
            }
        }
        // Those of this round first: a barrier may be used from many places.
        let mut relation = relations.best(&waits, waker.callers, code);
        if matches!(
            relation,
            Relation::Either | Relation::Apart | Relation::Unknown
        ) {
            let older = relations.best(&self.waits, waker.callers, code);
            if older != Relation::Unknown {
                relation = older;
            }
        }
        for wait in waits {
            if self.waits.len() < MAX_WAIT_CALLERS && !self.waits.contains(&wait) {
                self.waits.push(wait);
            }
        }
        record.add(relation, waiters.len() + 1);
        match relation {
            relation if relation.decides() => self.of_code += 1,
            Relation::Unknown | Relation::Either => {}
            _ => self.of_other_code += 1,
        }
        self.weigh(waiters, waker);
        same
    }

    /// Who has worked.
    fn weigh(&mut self, waiters: &[Waiter], waker: &Waiter) {
        let round = self.rounds;
        let ran = |member: &Member, now: &Waiter| {
            let last = member.last?;
            Some(now.clocks.run_ns?.saturating_sub(last.run_ns?))
        };
        let waker_ran = self
            .members
            .get(&waker.tid)
            .and_then(|member| ran(member, waker));
        for (now, waits) in waiters
            .iter()
            .map(|waiter| (waiter, true))
            .chain([(waker, false)])
        {
            let member = self.members.entry(now.tid).or_insert(Member {
                has_waited: false,
                has_woken: false,
                last: None,
            });
            let waited_before = member
                .last
                .is_some_and(|last| last.waited && last.round + 1 == round);
            if waits && waited_before {
                match (ran(member, now), waker_ran) {
                    (Some(ran_ns), _) if ran_ns >= WORK_NS => self.worked += 1,
                    (Some(_), Some(waker_ns)) if waker_ns >= WORK_NS => self.idled += 1,
                    _ => {}
                }
            }
            member.has_waited |= waits;
            member.has_woken |= !waits;
            member.last = Some(Last {
                round,
                waited: waits,
                run_ns: now.clocks.run_ns,
            });
        }
    }

    /// Whether that is a barrier. `tries`: how often it was looked at in vain;
    /// `is_proven`: whether the same calls have completed rounds of another one.
    pub fn suffices(&self, record: &Record, at_end: bool, tries: u32, is_proven: bool) -> bool {
        if record.is_other || self.rounds == 0 {
            return false;
        }
        let more = ROUNDS_MORE * tries;
        let by_code = if is_proven {
            1
        } else if at_end {
            ROUNDS_AT_END
        } else {
            ROUNDS
        };
        if self.is_by_code()
            && (self.of_code >= by_code + more || record.of_code >= MIXED_ROUNDS + more)
        {
            return true;
        }
        let wakers = self
            .members
            .values()
            .filter(|member| member.has_woken)
            .count();
        let has_worked = self.worked >= WORKED && self.worked / 3 >= self.idled;
        let needed = if self.of_other_code > 0 {
            ROUNDS_APART
        } else {
            ROUNDS_UNKNOWN
        };
        self.size() >= MEMBERS_UNKNOWN
            && self.rounds >= needed + more
            && wakers >= 2
            && self.wakers_waited()
            && has_worked
    }
}

impl Record {
    fn add(&mut self, relation: Relation, size: usize) {
        self.rounds += 1;
        self.is_other |= matches!(relation, Relation::InTurn | Relation::Counted);
        self.may_lack |= relation == Relation::Lacking;
        if !relation.decides() || size != self.size {
            self.of_code = 0;
        }
        self.size = size;
        self.of_code += u32::from(relation.decides());
    }
}
