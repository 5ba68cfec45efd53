// Two threads book into one account, whose lock is held for most of the work.
//
// must: contended lock: threads wait
// must: settle bank_mutex.rs:
// never: syscall
// never: imbalance at
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
fn work(n: u64) -> f64 { let mut s = 0.0; for i in 1..n { s += 1.0 / (i as f64 + s); } s }
#[inline(never)]
fn settle(ledger: &Mutex<f64>) { for _ in 0..10 { let mut l = ledger.lock().unwrap(); *l += work(100_000); } }
fn main() {
    let meet = Arc::new(Barrier::new(2));
    let ledger = Arc::new(Mutex::new(0.0));
    let w: Vec<_> = (0..2).map(|_| { let m = meet.clone(); let l = ledger.clone(); thread::spawn(move || { let mut s = 0.0; for _ in 0..60 { s += work(200_000); settle(&l); m.wait(); } s }) }).collect();
    let s: f64 = w.into_iter().map(|w| w.join().unwrap()).sum();
    println!("{s} {}", ledger.lock().unwrap());
}
