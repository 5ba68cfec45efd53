// Even work in Rust.
//
// healthy
// never: imbalance
// never: serial
// never: asleep
// never: more threads than CPUs
use std::{hint::black_box, sync::{Arc, Barrier}, thread};

#[inline(never)]
fn count(values: u64) {
    let mut sum = 0.0;
    for value in 1..=black_box(values) {
        sum += 1.0 / value as f64;
    }
    black_box(sum);
}

fn main() {
    let barrier = Arc::new(Barrier::new(2));
    let workers: Vec<_> = (0..2_u64)
        .map(|me| {
            let barrier = Arc::clone(&barrier);
            let name = format!("bin-{me}");
            let run = move || {
                for step in 0..60_u64 {
                    let _ = step;
                    count(8_000_000);
                    barrier.wait();
                }
            };
            thread::Builder::new().name(name).spawn(run).unwrap()
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
}
