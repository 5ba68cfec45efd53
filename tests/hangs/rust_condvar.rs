// A flag is set to the wrong value, and nobody is told.
// build: rustc -O -g
// outcome: hung
// must: condition variable
// must: no thread of the process is left that could wake it
// never: no circle of waits
// never: not known
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

fn main() {
    let state = Arc::new((Mutex::new(false), Condvar::new()));
    let of_worker = state.clone();
    let worker = thread::spawn(move || {
        let (ready, changed) = &*of_worker;
        let mut held = ready.lock().unwrap();
        while !*held {
            held = changed.wait(held).unwrap();
        }
    });
    *state.0.lock().unwrap() = false;
    worker.join().unwrap();
}
