//! Decides whether an object on which threads wait is a barrier.
//!
//! In every round of a barrier each member comes once. The last one wakes the others, and any
//! member can be the last. Other uses look the same for a while: threads that take turns, a lock
//! that is always contended, a worker that is given one piece of work after the other. What tells
//! them apart, strongest first:
//!
//! - **The code.** In a barrier, one test decides between waiting and waking, and it asks how many
//!   have come ([`Relation::Alternatives`]). Where the test asks something else, such as the
//!   thread's role ([`Relation::Either`]), the code says nothing. A monitor wakes after it has
//!   waited ([`Relation::InTurn`]); queues, locks and pools wait in one function and wake in
//!   another. With the code of a barrier, the first three rounds of the same members are enough.
//! - **Who wakes.** Every waker has waited here in another round, and the waker is not always the
//!   same.
//! - **Work.** A thread that is woken for nothing waits again at once. In a barrier of working
//!   threads, most have used the CPU between two waits.
//!
//! Without knowledge of the code, the last two are required together, with three threads or more,
//! in many rounds. Not recognised in this case are a barrier of two threads, a barrier at which
//! always the same thread is last, and a barrier whose threads do nothing but sleep.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    code::{Code, Functions, Relation},
    part::Waiter,
    round::Ended,
};
use crate::event::{CallersId, Tid};

/// Required number of consecutive rounds of the same members if the code is that of a barrier.
const ROUNDS: u32 = 3;
/// As [`ROUNDS`], at the end of the run.
const ROUNDS_AT_END: u32 = 2;
/// Required number of rounds with changing members if the code is that of a barrier.
const MIXED_ROUNDS: u32 = 8;
/// Required number of rounds if nothing is known about the code.
const ROUNDS_UNKNOWN: u32 = 16;
/// Required number of rounds if the code is not that of a barrier, as far as it can be seen through
/// the program's own functions around those of the C library.
const ROUNDS_APART: u32 = 32;
/// Required number of members unless the code is that of a barrier. Two threads that take turns,
/// and sleep only if the other one is slow, behave like two threads at a barrier.
const MEMBERS_UNKNOWN: usize = 3;
/// Additional rounds required for each earlier attempt in vain.
const ROUNDS_MORE: u32 = 4;
/// CPU time between two waits from which a thread counts as having worked, ns. Waiting again at
/// once takes a tenth of that.
const WORK_NS: u64 = 50_000;
/// Required number of intervals between two waits of a thread in which the thread worked.
const WORKED: u32 = 8;
/// Largest number of wait callers that are compared with wake callers.
const MAX_WAIT_CALLERS: usize = 32;

/// Relations between calls; each is asked for once.
#[derive(Debug, Default)]
pub struct Relations {
    known: FxHashMap<(CallersId, CallersId), Relation>,
    /// For each chain of callers, the chains with which it was compared.
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

    /// The functions of a chain of callers: see [`Code::functions`].
    pub fn functions(
        &mut self,
        callers: CallersId,
        code: &mut dyn Code,
    ) -> impl Iterator<Item = (usize, u64)> + use<> {
        let known = self.functions.entry(callers);
        let functions: Functions = *known.or_insert_with(|| code.functions(callers));
        functions.into_iter().flatten()
    }

    /// Whether a wait and a wake may be those with which a barrier keeps threads out.
    fn may_be_phases(&mut self, wait: CallersId, wake: CallersId, code: &mut dyn Code) -> bool {
        let mut of_wait = self.functions(wait, code);
        let of_wake: Vec<_> = self.functions(wake, code).collect();
        of_wait.any(|function| of_wake.contains(&function))
    }

    /// Forgets a number of a chain of callers, which stands for another chain from now on.
    pub fn forget(&mut self, callers: CallersId) {
        for other in self.compared.remove(&callers).into_iter().flatten() {
            self.known.remove(&(callers, other));
            self.known.remove(&(other, callers));
        }
        self.functions.remove(&callers);
        self.proven.remove(&callers);
    }

    /// The most telling relation between a wake and several waits.
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

/// The latest round of a member.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// The number of the round.
    round: u32,
    waited: bool,
    run_ns: Option<u64>,
}

/// The record of a member over all rounds.
#[derive(Clone, Copy, Debug)]
struct Member {
    has_waited: bool,
    has_woken: bool,
    last: Option<Last>,
}

/// Evidence from consecutive rounds of the same members.
#[derive(Debug, Default)]
pub struct Proof {
    members: FxHashMap<Tid, Member>,
    rounds: u32,
    /// Rounds in which the code was that of a barrier.
    of_code: u32,
    /// Rounds in which the code was known and not that of a barrier.
    of_other_code: u32,
    /// The number of times that a thread that waited in two consecutive rounds worked in between.
    worked: u32,
    /// The number of times that such a thread did not work, but the waker did.
    idled: u32,
    waits: Vec<CallersId>,
}

/// Evidence from all rounds, even if the members change.
#[derive(Debug, Default)]
pub struct Record {
    /// Number of completed rounds.
    pub rounds: u64,
    /// Number of consecutive rounds with the code of a barrier and the same number of members.
    of_code: u32,
    size: usize,
    /// Whether the code is that of something other than a barrier, or of a barrier that other
    /// probes see.
    pub is_other: bool,
    /// Whether threads may arrive without waiting.
    pub may_lack: bool,
}

impl Proof {
    /// Number of members.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Number of rounds of these members.
    pub const fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Callers from which threads have waited.
    pub fn waits(&self) -> &[CallersId] {
        &self.waits
    }

    /// Whether a thread is a member.
    pub fn has(&self, tid: Tid) -> bool {
        self.members.contains_key(&tid)
    }

    /// Whether every thread that woke the others has waited in another round.
    pub fn wakers_waited(&self) -> bool {
        self.members
            .values()
            .all(|member| member.has_waited || !member.has_woken)
    }

    /// Whether, according to the code, a wake only lets in threads that wait for others to leave.
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

    /// Whether the code of all rounds is that of a barrier, as far as it is known: the callers of
    /// the first rounds may be unknown.
    pub const fn is_by_code(&self) -> bool {
        self.of_code > 0 && self.of_other_code == 0
    }

    /// Adds a round. Returns false if its members differ from the previous ones; the evidence then
    /// starts afresh. With `may_lack`, members that came just before the last may not have been
    /// seen.
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
            // Either all that came are known, or all known members came; and they are the majority.
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
        // Waits of this round first: a barrier may be used from many places.
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

    /// Counts which waiters have worked since their previous round.
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

    /// Whether the evidence suffices for a barrier. `tries` is the number of attempts in vain;
    /// `is_proven` says whether the same calls have completed rounds of another barrier.
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
