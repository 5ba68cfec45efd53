// Two threads take two locks in opposite order.
// build: rustc -O -g
// outcome: hung
// must: mutex
// must: no thread of the process is left that could wake it
// never: no circle of waits
// never: not known
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

fn transfer(first: &Mutex<u32>, second: &Mutex<u32>, both: &Barrier) {
    let mut from = first.lock().unwrap();
    both.wait();
    *from -= 1;
    *second.lock().unwrap() += 1;
}

fn main() {
    let (one, two) = (Arc::new(Mutex::new(10)), Arc::new(Mutex::new(10)));
    let both = Arc::new(Barrier::new(2));
    let other = {
        let (one, two, both) = (one.clone(), two.clone(), both.clone());
        thread::spawn(move || transfer(&two, &one, &both))
    };
    transfer(&one, &two, &both);
    other.join().unwrap();
}
