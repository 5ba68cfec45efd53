//! What is kept per thread in the kernel: a sequence number, and which
//! barrier objects have been read lately.
//!
//! A table indexed by the low bits of the thread id costs a few nanoseconds
//! where a map lookup costs fifty. Only the thread itself touches its slot, so
//! nothing is locked. Two live threads whose ids differ by a multiple of
//! [`SLOTS`] take the slot from each other: each then announces itself again
//! and again, which triples the records; nothing is wrong but the cost.

use core::cell::UnsafeCell;

use sbt_common::{State, Thread, kind};

use crate::{
    head,
    ring::{Wake, send},
    target, task,
    task::Task,
    walk::Seen,
    word,
};

/// A power of two. Twice as many would be more than Linux 5.15 lets a map of one value have.
const SLOTS: usize = 16384;
const CACHED: usize = 4;

#[derive(Clone, Copy)]
#[repr(C)]
struct Cached {
    object: u64,
    trust: u64,
    layout: u64,
}

/// The thread is in a barrier.
const INSIDE: u32 = 0;
/// It has left it.
const LEFT: u32 = 1;
/// It is in one, and meanwhile, in a task, also in one where it is alone.
const ALONE: u32 = 2;

/// One thread's slot.
#[repr(C)]
pub struct Slot {
    tid: u32,
    seq: u32,
    /// Whether it has left what it entered last: [`INSIDE`], [`LEFT`], [`ALONE`].
    left: u32,
    /// Of the probes that it hit last.
    generation: u16,
    reserved: u16,
    /// Where on its stack the address lies to which the barrier of the user's own
    /// returns in which it is, as far as we know; 0 outside.
    call_at: u64,
    /// That address.
    call_return: u64,
    /// The same of the known barrier that it entered last.
    entered_at: u64,
    entered_return: u64,
    /// The futex on which it sleeps, and since when, ns; 0 if it does not.
    sleeps_on: u64,
    sleeps_since: u64,
    cached: [Cached; CACHED],
    /// See [`crate::walk`].
    pub seen: Seen,
}

#[repr(transparent)]
struct Shared<T>(UnsafeCell<T>);

// SAFETY: a slot is touched by its own thread alone; the words of STATE
// are only ever read and stored whole.
unsafe impl<T> Sync for Shared<T> {}

static TABLE: Shared<[Slot; SLOTS]> = Shared(UnsafeCell::new(
    [const {
        Slot {
            tid: 0,
            seq: 0,
            left: INSIDE,
            generation: 0,
            reserved: 0,
            call_at: 0,
            call_return: 0,
            entered_at: 0,
            entered_return: 0,
            sleeps_on: 0,
            sleeps_since: 0,
            cached: [Cached {
                object: 0,
                trust: 0,
                layout: 0,
            }; CACHED],
            seen: Seen::NOTHING,
        }
    }; SLOTS],
));

static STATE: Shared<State> = Shared(UnsafeCell::new(State {
    trust: 1,
    generation: 0,
    epoch: 1,
    walks: 0,
    futexes: 0,
    counts: 0,
    events: 0,
}));

/// Which probes count at present.
#[inline(always)]
pub fn generation() -> u16 {
    // SAFETY: an aligned word that lives as long as the program.
    unsafe { core::ptr::read_volatile(&raw const (*STATE.0.get()).generation) as u16 }
}

/// See [`State::trust`]; a stale value only delays a reading.
#[inline(always)]
pub fn trust() -> u64 {
    // SAFETY: as above.
    unsafe { core::ptr::read_volatile(&raw const (*STATE.0.get()).trust) }
}

/// Forget, in all threads, what is remembered of barrier objects.
#[inline(always)]
pub fn distrust() {
    // The time serves as a value never stored before, so that a plain store
    // does; this target has no atomic add that Rust offers.
    // SAFETY: an aligned word that lives as long as the program.
    unsafe { core::ptr::write_volatile(&raw mut (*STATE.0.get()).trust, task::now()) }
}

/// See [`State::epoch`].
#[inline(always)]
pub fn epoch() -> u64 {
    // SAFETY: as above.
    unsafe { core::ptr::read_volatile(&raw const (*STATE.0.get()).epoch) }
}

/// See [`State::walks`].
#[inline(always)]
pub fn walks() -> u64 {
    // SAFETY: as above.
    unsafe { core::ptr::read_volatile(&raw const (*STATE.0.get()).walks) }
}

/// See [`State::futexes`].
#[inline(always)]
pub fn futexes() -> u64 {
    // SAFETY: as above.
    unsafe { core::ptr::read_volatile(&raw const (*STATE.0.get()).futexes) }
}

/// Whether somebody wants to know now what threads have counted: see [`State::counts`].
#[inline(always)]
pub fn counts() -> bool {
    // SAFETY: as above.
    unsafe { core::ptr::read_volatile(&raw const (*STATE.0.get()).counts) != 0 }
}

/// See [`State::events`].
#[inline(always)]
pub fn events() -> usize {
    // SAFETY: as above.
    unsafe { core::ptr::read_volatile(&raw const (*STATE.0.get()).events) as usize }
}

/// Other code may stand at known addresses from here on.
#[inline(always)]
pub fn renew_walks() {
    if walks() != 0 {
        // SAFETY: as in `distrust`.
        unsafe { core::ptr::write_volatile(&raw mut (*STATE.0.get()).walks, task::now()) }
    }
}

/// The slot in which the current thread is, or another of which the number ends
/// alike.
#[inline(always)]
fn place(task: &Task) -> &'static mut Slot {
    at(task.tid())
}

#[inline(always)]
fn at(tid: u32) -> &'static mut Slot {
    let index = tid as usize & (SLOTS - 1);
    // SAFETY: the index is in bounds, and no other thread uses this slot
    // while it bears the id of the current thread.
    unsafe { &mut *TABLE.0.get().cast::<Slot>().add(index) }
}

/// The current thread's slot; announces the thread if it is new here. `None`
/// for a thread of another process.
#[inline(always)]
pub fn slot(task: &Task) -> Option<&'static mut Slot> {
    let slot = place(task);
    // Under other probes it begins anew: while there were none it may have left
    // what it had entered.
    if slot.tid != task.tid() || slot.generation != generation() {
        // Where probes could not be put on the target alone, others hit them.
        if !target::owns(task, true) {
            return None;
        }
        announce(task, slot);
    }
    Some(slot)
}

/// Whether the current thread has announced itself.
#[inline(always)]
pub fn is_known(task: &Task) -> bool {
    place(task).tid == task.tid()
}

/// Layout and address of the objects that the current thread has read lately; 0 where
/// there are none.
#[inline(always)]
pub fn has_read(task: &Task) -> [(u64, u64); CACHED] {
    let slot = place(task);
    let known = slot.tid == task.tid();
    let of = |cached: &Cached| {
        if known {
            (cached.layout, cached.object)
        } else {
            (0, 0)
        }
    };
    let [a, b, c, d] = &slot.cached;
    [of(a), of(b), of(c), of(d)]
}

/// The current thread comes to a barrier where nobody else does: its end looks
/// like that of the one in which the thread may be.
#[inline(always)]
pub fn comes_alone() {
    // Also of a thread that comes for the first time: it has entered nothing.
    if let Some(slot) = slot(&Task::current())
        && slot.left == INSIDE
    {
        slot.left = ALONE;
    }
}

/// The current thread, of the target, ends whatever system call it was in: the
/// futex on which it has slept, and since when; `None` if it has not.
#[inline(always)]
pub fn wakes(task: &Task) -> Option<(u64, u64)> {
    let slot = place(task);
    if slot.tid != task.tid() || slot.sleeps_on == 0 {
        return None;
    }
    let object = core::mem::replace(&mut slot.sleeps_on, 0);
    Some((object, slot.sleeps_since))
}

/// Makes the current thread's next record announce it again.
pub fn announce_again() {
    let task = Task::current();
    forget(task.tid());
}

/// The current thread does not bear this number any more.
pub fn forget(tid: u32) {
    let slot = at(tid);
    if slot.tid == tid {
        slot.tid = 0;
    }
}

#[inline(never)]
fn announce(task: &Task, slot: &mut Slot) {
    let sent = send(Wake::No, || {
        let (ns_tid, ns_tgid) = target::ids(task).unwrap_or((0, 0));
        Thread {
            head: head(kind::THREAD, 0, task.tid()),
            clocks: task.clocks_at_leisure(),
            start_ns: task.start_ns(),
            start_code: task.start_code(),
            ns_tid,
            ns_tgid,
            comm: task.comm(),
        }
    });
    // Unsent, the slot stays foreign and the next record tries again.
    slot.tid = if sent { task.tid() } else { 0 };
    slot.generation = generation();
    slot.seq = 0;
    slot.left = INSIDE;
    slot.call_at = 0;
    slot.entered_at = 0;
    slot.sleeps_on = 0;
    for cached in &mut slot.cached {
        cached.object = 0;
    }
}

impl Slot {
    /// The number of the thread's next record.
    #[inline(always)]
    pub fn next_seq(&mut self) -> u32 {
        let seq = self.seq;
        self.seq = seq.wrapping_add(1);
        seq
    }

    /// The thread enters a barrier.
    #[inline(always)]
    pub fn enter(&mut self) {
        self.left = INSIDE;
    }

    /// Where on its stack the address lies to which the barrier returns, and that
    /// address: by that it is known later whether the thread is still inside.
    #[inline(always)]
    pub fn enter_from(&mut self, at: u64, returns_to: u64) {
        self.entered_at = at;
        self.entered_return = returns_to;
    }

    /// Whether the thread, which would return to the address at `at`, is in a
    /// barrier that is known.
    #[inline(always)]
    pub fn is_in_barrier(&self, at: u64) -> bool {
        /// Where the kernel puts what return probes return to: the last page.
        const TRAMPOLINE: u64 = 0x7fff_ffff_e;
        if self.entered_at == 0 || at > self.entered_at {
            return false;
        }
        let held = word(self.entered_at);
        held == self.entered_return || held >> 12 == TRAMPOLINE
    }

    /// It is about to sleep on a futex.
    #[inline(always)]
    pub fn sleep(&mut self, object: u64, now: u64) {
        self.sleeps_on = object;
        self.sleeps_since = now;
    }

    /// The thread leaves what it entered; false if it has left already, which
    /// happens when two probes are on the same place for a moment.
    #[inline(always)]
    fn leave(&mut self) -> bool {
        let was = self.left;
        self.left = if was == ALONE { INSIDE } else { LEFT };
        was == INSIDE
    }

    /// When the thread leaves what it has entered will not be seen.
    #[inline(always)]
    pub fn pass(&mut self) {
        self.left = LEFT;
    }

    /// Whether the thread, which calls something that will return to the address
    /// at `at`, is inside of a barrier of the user's own: deeper than its call,
    /// or in its place, by a tail call.
    #[inline(always)]
    pub fn is_in_call(&mut self, at: u64) -> bool {
        if self.call_at == 0 {
            return false;
        }
        self.is_still_in_call(at)
    }

    /// One that was left by an exception or a jump, or by an end that has no
    /// probe, shows no return. But then whoever calls something from that depth
    /// or above writes over the address.
    #[inline(never)]
    fn is_still_in_call(&mut self, at: u64) -> bool {
        let held = word(self.call_at);
        let still = at <= self.call_at && held == self.call_return;
        if !still {
            self.call_at = 0;
        }
        still
    }

    /// Whether it calls one in the place of the last, and not inside of it.
    #[inline(always)]
    pub fn calls_anew(&self, at: u64) -> bool {
        at == self.call_at
    }

    /// It enters one.
    #[inline(always)]
    pub fn enter_call(&mut self, at: u64, returns_to: u64) {
        self.call_at = at;
        self.call_return = returns_to;
        self.left = INSIDE;
    }

    /// What was called with the return address at `at` ends; false if it is
    /// inside of a barrier of the user's own, or has ended already.
    #[inline(always)]
    pub fn leave_from(&mut self, at: u64) -> bool {
        if at < self.call_at {
            return false;
        }
        self.call_at = 0;
        self.leave()
    }

    /// Whether an instruction that may end several functions ends the barrier of
    /// the user's own in which the thread is.
    #[inline(always)]
    pub fn ends_call(&self, at: u64) -> bool {
        at == self.call_at
    }

    #[inline(always)]
    fn cached(&mut self, object: u64) -> &mut Cached {
        // Objects are at least 32 bytes long; the fold spreads those that
        // stand a page or a cache line apart.
        let index = ((object >> 5) ^ (object >> 12)) as usize & (CACHED - 1);
        // SAFETY: in bounds by the mask, which the verifier sees as well.
        unsafe { self.cached.get_unchecked_mut(index) }
    }

    /// What was read of the object is no longer true.
    #[inline(always)]
    pub fn forget(&mut self, object: u64) {
        let cached = self.cached(object);
        if cached.object == object {
            cached.object = 0;
        }
    }

    /// Whether the object's memory has to be read with this arrival.
    #[inline(always)]
    pub fn must_read(&mut self, object: u64) -> bool {
        self.must_tell(object, trust())
    }

    /// Whether something is to be sent of the object, of which it was sent last
    /// while it was `tag`.
    #[inline(always)]
    pub fn must_tell(&mut self, object: u64, tag: u64) -> bool {
        // One in thirty-two or sixty-four: with departures watched, the
        // numbers of the arrivals are all even or all odd.
        let refresh = self.seq & 62 == 62;
        let cached = self.cached(object);
        refresh || cached.object != object || cached.trust != tag
    }

    /// The object's memory, as it was while `trust` held, has been sent.
    #[inline(always)]
    pub fn has_read(&mut self, object: u64, trust: u64, layout: u8) {
        let cached = self.cached(object);
        cached.object = object;
        cached.trust = trust;
        cached.layout = u64::from(layout);
    }
}
