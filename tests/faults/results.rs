// All results go into one list, and each is made while its mutex is held.
//
// must: contended lock: threads wait
// must: record results.rs:
// never: imbalance at
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

fn burn(us: u64) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(us) {}
}

#[inline(never)]
fn record(all: &Mutex<Vec<u64>>, value: u64) {
    let mut held = all.lock().unwrap();
    burn(3000);
    held.push(value);
}

fn main() {
    let all = Arc::new(Mutex::new(Vec::new()));
    let meet = Arc::new(Barrier::new(2));
    let start = |me: u64| {
        let (all, meet) = (Arc::clone(&all), Arc::clone(&meet));
        std::thread::spawn(move || {
            for round in 0..40 {
                for _ in 0..5 {
                    burn(1000);
                    record(&all, me * round);
                }
                meet.wait();
            }
        })
    };
    let threads: Vec<_> = (0..2).map(start).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
