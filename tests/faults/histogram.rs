// A histogram in Rust whose second half has most of the values.
//
// must: static imbalance at 
// must: histogram.rs:
// must: bin-1
// never: dynamic imbalance
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
                    count(if me == 1 { 6_000_000 } else { 2_000_000 });
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
