//! `std::sync::Barrier`, from two places.
//!
//! rustbarrier [THREADS=4] [ROUNDS=100] [US=20]

use std::{
    env,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

fn work(us: u64) {
    let end = Instant::now() + Duration::from_micros(us);
    while Instant::now() < end {}
}

fn main() {
    let option = |index: usize, otherwise: u64| {
        let value = env::args().nth(index);
        value.map_or(otherwise, |value| value.parse().unwrap())
    };
    let (threads, rounds, us) = (option(1, 4), option(2, 100), option(3, 20));
    let barrier = Barrier::new(threads as usize);
    let leaders: u64 = thread::scope(|scope| {
        let run = |index: u64| {
            let mut led = 0;
            for _ in 0..rounds {
                work(us * (index + 1));
                led += u64::from(barrier.wait().is_leader()); // SITE first
                work(us);
                led += u64::from(barrier.wait().is_leader()); // SITE second
            }
            led
        };
        let all: Vec<_> = (0..threads)
            .map(|index| scope.spawn(move || run(index)))
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(leaders, 2 * rounds);
}
