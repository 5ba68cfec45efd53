//! Whether a thread is in a barrier: what is remembered of a thread from one hit to the next.

use crate::Reader;

/// The thread is in the barrier that it entered last.
const INSIDE: u32 = 0;
/// The thread has left that barrier.
const LEFT: u32 = 1;
/// The thread is in that barrier, and in a task also in a barrier where it is alone.
const ALONE: u32 = 2;

/// Whether a thread is in the barrier that it entered last, and whether it is in a function that
/// the user has named as a barrier. Barriers on which such a function is built do not count.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Stay {
    /// Where on the stack the return address of the user's function lies; 0 outside of any.
    call_at: u64,
    /// That return address.
    call_return: u64,
    /// [`INSIDE`], [`LEFT`] or [`ALONE`].
    left: u32,
    /// Zero.
    reserved: u32,
}

impl Stay {
    /// A thread of which nothing is known yet.
    pub const NEW: Self = Self {
        call_at: 0,
        call_return: 0,
        left: INSIDE,
        reserved: 0,
    };

    /// Forgets what is known.
    #[inline(always)]
    pub fn begin_anew(&mut self) {
        self.left = INSIDE;
        self.call_at = 0;
    }

    /// The thread enters a barrier.
    #[inline(always)]
    pub fn enter(&mut self) {
        self.left = INSIDE;
    }

    /// The thread comes to a barrier where it is alone: the end of that barrier looks like the end
    /// of the one in which the thread may be.
    #[inline(always)]
    pub fn comes_alone(&mut self) {
        if self.left == INSIDE {
            self.left = ALONE;
        }
    }

    /// Nothing will show when the thread leaves the barrier that it has entered.
    #[inline(always)]
    pub fn pass(&mut self) {
        self.left = LEFT;
    }

    /// The thread leaves what it entered. False if it has left already: for a moment two probes
    /// may be on the same place.
    #[inline(always)]
    fn leave(&mut self) -> bool {
        let was = self.left;
        self.left = if was == ALONE { INSIDE } else { LEFT };
        was == INSIDE
    }

    /// Whether the thread was in a function of the user's when it was last seen.
    #[inline(always)]
    pub const fn was_in_call(&self) -> bool {
        self.call_at != 0
    }

    /// Whether the thread, which calls a function with the return address at `at`, is in a function
    /// of the user's: deeper than its call, or in its place, by a tail call.
    ///
    /// A function that is left by an exception, by a jump, or at an end without a probe shows no
    /// return. But then the next call from that depth or above overwrites the return address.
    #[inline(always)]
    pub fn is_in_call(&mut self, at: u64, memory: &impl Reader) -> bool {
        if self.call_at == 0 {
            return false;
        }
        let held = memory.word(self.call_at);
        let still = at <= self.call_at && held == self.call_return;
        if !still {
            self.call_at = 0;
        }
        still
    }

    /// Whether a function of the user's is called in the place of the last one, and not inside of
    /// it.
    #[inline(always)]
    pub const fn calls_anew(&self, at: u64) -> bool {
        at == self.call_at
    }

    /// The thread enters a function of the user's.
    #[inline(always)]
    pub fn enter_call(&mut self, at: u64, returns_to: u64) {
        self.call_at = at;
        self.call_return = returns_to;
        self.left = INSIDE;
    }

    /// A function with the return address at `at` ends. False if it was called by a function of the
    /// user's, or has ended already.
    #[inline(always)]
    pub fn leave_from(&mut self, at: u64) -> bool {
        if at < self.call_at {
            return false;
        }
        self.call_at = 0;
        self.leave()
    }

    /// Whether an instruction that may end several functions ends the user's function in which the
    /// thread is.
    #[inline(always)]
    pub const fn ends_call(&self, at: u64) -> bool {
        at == self.call_at
    }
}
