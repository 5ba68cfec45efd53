//! Rust's own barrier, and a method around it.
//!
//! barrier [ROUNDS=20]

use std::{env, sync::Barrier, thread};

struct Team {
    barrier: Barrier,
}

trait Meeting {
    fn meet(&self, round: usize);
}

impl Meeting for Team {
    #[inline(never)]
    fn meet(&self, round: usize) {
        std::hint::black_box(round);
        self.barrier.wait(); // SITE meet
    }
}

fn main() {
    let rounds = env::args().nth(1).and_then(|rounds| rounds.parse().ok());
    let rounds: usize = rounds.unwrap_or(20);
    let team = Team {
        barrier: Barrier::new(3),
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..rounds).for_each(|round| team.meet(round)));
        }
    });
}
