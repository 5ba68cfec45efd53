//! The C library's own barrier, so that the monitor meets in the demos what it meets in the wild.
//!
//! `std::sync::Barrier` is a mutex and a condition variable and never calls the C library.

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use anyhow::{Context, Result};

/// A `pthread_barrier_t` for a fixed number of participants.
pub struct Barrier {
    /// On the heap: an initialised barrier must not move, and its address identifies it.
    raw: Box<UnsafeCell<MaybeUninit<libc::pthread_barrier_t>>>,
}

// SAFETY: a pthread barrier is made to be shared: its functions synchronise by themselves.
unsafe impl Sync for Barrier {}

impl Barrier {
    /// A barrier that `participants` threads have to reach.
    pub fn new(participants: usize) -> Result<Self> {
        let count = u32::try_from(participants).context("too many participants for a barrier")?;
        let raw = Box::new(UnsafeCell::new(MaybeUninit::uninit()));
        let at: *mut MaybeUninit<libc::pthread_barrier_t> = raw.get();
        // SAFETY: `at` is valid for writes and suitably aligned; null asks for the defaults.
        let status = unsafe { libc::pthread_barrier_init(at.cast(), ptr::null(), count) };
        match status {
            0 => Ok(Self { raw }),
            code => Err(io::Error::from_raw_os_error(code)).context("pthread_barrier_init"),
        }
    }

    /// Waits until all participants have arrived. What they wrote before is visible afterwards.
    ///
    /// Always inlined, so that the call instruction lies in the phase function that waits.
    #[expect(
        clippy::inline_always,
        reason = "the caller's function must be the site"
    )]
    #[inline(always)]
    pub fn wait(&self) {
        // SAFETY: `new` initialised the barrier, and it lives until `drop`.
        let status = unsafe { libc::pthread_barrier_wait(self.raw.get().cast()) };
        // Something to do after the call: a tail call would leave the caller's caller as site.
        black_box(status);
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        // SAFETY: `new` initialised it, and whoever waits borrows it, so nobody does now.
        unsafe { libc::pthread_barrier_destroy(self.raw.get().cast()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn nobody_leaves_before_all_have_come() {
        let barrier = Barrier::new(3).unwrap();
        let arrived = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for episode in 1..=50 {
                        arrived.fetch_add(1, Ordering::Relaxed);
                        barrier.wait();
                        assert!(arrived.load(Ordering::Relaxed) >= 3 * episode);
                    }
                });
            }
        });
    }

    #[test]
    fn none_for_nobody() {
        assert!(Barrier::new(0).is_err());
    }
}
