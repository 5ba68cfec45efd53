//! A barrier of the C library behind a generic function.
//!
//! chains [ROUNDS=20]

use std::{cell::UnsafeCell, env, hint::black_box, thread};

unsafe extern "C" {
    fn pthread_barrier_init(barrier: *mut u64, attributes: *const u8, count: u32) -> i32;
    fn pthread_barrier_wait(barrier: *mut u64) -> i32;
}

struct Barrier(UnsafeCell<[u64; 8]>);

// SAFETY: made to be used by several threads.
unsafe impl Sync for Barrier {}

trait Step {
    fn run(&self) -> usize;
}

struct Small(usize);
struct Big([usize; 4]);

impl Step for Small {
    fn run(&self) -> usize {
        self.0
    }
}

impl Step for Big {
    fn run(&self) -> usize {
        self.0.iter().sum()
    }
}

impl Barrier {
    #[inline(never)]
    fn after<S: Step>(&self, step: &S) -> usize {
        let done = black_box(step.run());
        // SAFETY: initialised before any thread began.
        let result = unsafe { pthread_barrier_wait(self.0.get().cast()) }; // SITE after
        black_box(result as usize).wrapping_add(done)
    }
}

fn work(barrier: &Barrier, rounds: usize) {
    for round in 0..rounds {
        black_box(barrier.after(&Small(round))); // CALL small first
        black_box(barrier.after(&Small(round + 1))); // CALL small second
        black_box(barrier.after(&Big([round; 4]))); // CALL big
    }
}

fn main() {
    let rounds = env::args().nth(1).and_then(|rounds| rounds.parse().ok());
    let rounds: usize = rounds.unwrap_or(20);
    let barrier = Barrier(UnsafeCell::new([0; 8]));
    // SAFETY: there is room for a barrier.
    unsafe { pthread_barrier_init(barrier.0.get().cast(), std::ptr::null(), 3) };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| work(&barrier, rounds));
        }
    });
}
