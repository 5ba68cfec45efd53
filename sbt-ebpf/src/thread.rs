//! What the BPF programs keep of each thread: among others a sequence number, and which barrier
//! objects have been read lately.
//!
//! A table indexed by the low bits of the thread id costs a few nanoseconds, a lookup in a map
//! fifty. Only the thread itself uses its slot, so there are no locks. Two live threads whose ids
//! differ by a multiple of [`SLOTS`] take the slot from each other: each is then announced again
//! and again, which triples the number of records, but all records are right.

use core::cell::UnsafeCell;

use sbt_common::{Caller, State, Stay, Thread, kind};

use crate::{
    head,
    memory::Own,
    ring::{Wake, send},
    target, task,
    task::Task,
    walk::Seen,
    word,
};

/// Number of slots, a power of two. With twice as many the table would be larger than Linux 5.15
/// allows for a map's value.
const SLOTS: usize = 16384;
const CACHED: usize = 4;

#[derive(Clone, Copy)]
#[repr(C)]
struct Cached {
    object: u64,
    trust: u64,
    layout: u64,
}

/// What is known of one thread.
#[repr(C)]
pub struct Slot {
    tid: u32,
    seq: u32,
    /// The generation of the probes that the thread hit last.
    generation: u16,
    reserved: u16,
    /// When the speed of the thread's CPU was measured last, in ticks of the kernel's clock, modulo 2³².
    pub speed_at: u32,
    pub stay: Stay,
    /// Where on the stack the return address of the known barrier lies that the thread entered
    /// last; 0 if none.
    entered_at: u64,
    /// That return address.
    entered_return: u64,
    /// The futex on which the thread sleeps; 0 if it does not.
    sleeps_on: u64,
    /// Since when, ns.
    sleeps_since: u64,
    cached: [Cached; CACHED],
    pub seen: Seen,
}

#[repr(transparent)]
struct Shared<T>(UnsafeCell<T>);

// SAFETY: only its own thread uses a slot; the words of STATE are read and stored whole.
unsafe impl<T> Sync for Shared<T> {}

static TABLE: Shared<[Slot; SLOTS]> = Shared(UnsafeCell::new(
    [const {
        Slot {
            tid: 0,
            seq: 0,
            generation: 0,
            reserved: 0,
            speed_at: 0,
            stay: Stay::NEW,
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

/// The generation of the probes that count now.
#[inline(always)]
pub fn generation() -> u16 {
    // SAFETY: an aligned word that lives as long as the program.
    unsafe { core::ptr::read_volatile(&raw const (*STATE.0.get()).generation) as u16 }
}

/// See [`State::trust`]. A stale value only delays a reading.
#[inline(always)]
pub fn trust() -> u64 {
    // SAFETY: as above.
    unsafe { core::ptr::read_volatile(&raw const (*STATE.0.get()).trust) }
}

/// Makes all threads forget what is remembered of barrier objects.
#[inline(always)]
pub fn distrust() {
    // The time is a value that was never stored before, so a plain store is enough: for this target
    // Rust offers no atomic addition.
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

/// See [`State::counts`].
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

/// From now on, other code may lie at known addresses.
#[inline(always)]
pub fn renew_walks() {
    if walks() != 0 {
        // SAFETY: as in `distrust`.
        unsafe { core::ptr::write_volatile(&raw mut (*STATE.0.get()).walks, task::now()) }
    }
}

/// The slot of the current thread. Another thread whose id has the same low bits may be in it.
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

/// The current thread's slot. Announces the thread if it is new. `None` if the thread belongs to
/// another process.
#[inline(always)]
pub fn slot(task: &Task) -> Option<&'static mut Slot> {
    let slot = place(task);
    // With other probes the thread begins anew: while there were no probes, it may have left the
    // barrier that it had entered.
    if slot.tid != task.tid() || slot.generation != generation() {
        // Some probes cannot be limited to the target, so other processes hit them too.
        if !target::owns(task, true) {
            return None;
        }
        announce(task, slot);
    }
    Some(slot)
}

/// Whether the current thread has been announced.
#[inline(always)]
pub fn is_known(task: &Task) -> bool {
    place(task).tid == task.tid()
}

/// Layouts and addresses of the objects that the current thread has read lately; 0 in unused
/// elements.
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

/// See [`Stay::comes_alone`].
#[inline(always)]
pub fn comes_alone() {
    // Also if the thread is new: it has entered nothing.
    if let Some(slot) = slot(&Task::current()) {
        slot.stay.comes_alone();
    }
}

/// The current thread leaves a system call. Returns the futex on which the thread slept, and since
/// when, ns; `None` if it did not.
#[inline(always)]
pub fn wakes(task: &Task) -> Option<(u64, u64)> {
    let slot = place(task);
    if slot.tid != task.tid() || slot.sleeps_on == 0 {
        return None;
    }
    let object = core::mem::replace(&mut slot.sleeps_on, 0);
    Some((object, slot.sleeps_since))
}

/// Announces the current thread again with its next record.
pub fn announce_again() {
    let task = Task::current();
    forget(task.tid());
}

/// The number may be given to another thread.
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
    // If the record was not sent, the next one tries again.
    slot.tid = if sent { task.tid() } else { 0 };
    slot.generation = generation();
    slot.seq = 0;
    slot.stay.begin_anew();
    slot.entered_at = 0;
    slot.sleeps_on = 0;
    for cached in &mut slot.cached {
        cached.object = 0;
    }
}

impl Slot {
    /// Takes the number of the thread's next record.
    #[inline(always)]
    pub fn next_seq(&mut self) -> u32 {
        let seq = self.seq;
        self.seq = seq.wrapping_add(1);
        seq
    }

    /// Remembers the call of a known barrier: by its return address it is known later whether the
    /// thread is still inside.
    #[inline(always)]
    pub fn enter_from(&mut self, caller: Caller) {
        self.entered_at = caller.at;
        self.entered_return = caller.address;
    }

    /// Whether a call whose return address lies at `at` happens inside of a known barrier.
    #[inline(always)]
    pub fn is_in_barrier(&self, at: u64) -> bool {
        /// The page to which return probes redirect returns: the last one of the address space.
        const TRAMPOLINE: u64 = 0x7fff_ffff_e;
        if self.entered_at == 0 || at > self.entered_at {
            return false;
        }
        let held = word(self.entered_at);
        held == self.entered_return || held >> 12 == TRAMPOLINE
    }

    /// Remembers that the thread is about to sleep on a futex.
    #[inline(always)]
    pub fn sleep(&mut self, object: u64, now: u64) {
        self.sleeps_on = object;
        self.sleeps_since = now;
    }

    /// See [`Stay::is_in_call`].
    #[inline(always)]
    pub fn is_in_call(&mut self, at: u64) -> bool {
        self.stay.was_in_call() && self.is_still_in_call(at)
    }

    /// The rest of [`Slot::is_in_call`], kept out of the common path.
    #[inline(never)]
    fn is_still_in_call(&mut self, at: u64) -> bool {
        self.stay.is_in_call(at, &Own)
    }

    #[inline(always)]
    fn cached(&mut self, object: u64) -> &mut Cached {
        // Objects are at least 32 bytes long. The second shift separates objects that lie a page
        // apart.
        let index = ((object >> 5) ^ (object >> 12)) as usize & (CACHED - 1);
        // SAFETY: in bounds by the mask, which the verifier sees as well.
        unsafe { self.cached.get_unchecked_mut(index) }
    }

    /// Forgets what was read of the object.
    #[inline(always)]
    pub fn forget(&mut self, object: u64) {
        let cached = self.cached(object);
        if cached.object == object {
            cached.object = 0;
        }
    }

    /// Whether the object's memory must be read at this arrival.
    #[inline(always)]
    pub fn must_read(&mut self, object: u64) -> bool {
        self.must_tell(object, trust())
    }

    /// Whether a record of the object must be sent: the last one was sent with another tag, or long
    /// ago.
    #[inline(always)]
    pub fn must_tell(&mut self, object: u64, tag: u64) -> bool {
        // For one in 32 or 64 arrivals: if departures are watched, the numbers of arrivals are all
        // even or all odd.
        let refresh = self.seq & 62 == 62;
        let cached = self.cached(object);
        refresh || cached.object != object || cached.trust != tag
    }

    /// Remembers that the object's memory has been sent, as it was while `trust` held.
    #[inline(always)]
    pub fn has_read(&mut self, object: u64, trust: u64, layout: u8) {
        let cached = self.cached(object);
        cached.object = object;
        cached.trust = trust;
        cached.layout = u64::from(layout);
    }
}
