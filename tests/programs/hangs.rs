//! `std::sync::Barrier` at which two threads are missing: one waits for a mutex that
//! another has taken along to the barrier, the other for a message.

use std::{
    io::Write as _,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, sleep},
    time::Duration,
};

static LOCK: Mutex<u32> = Mutex::new(0);
/// Whether the mutex has been taken, however late that is on a busy machine.
static IS_HELD: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn meet(barrier: &Barrier) {
    barrier.wait(); // SITE meet
    println!("met");
}

#[inline(never)]
fn take(barrier: &Barrier) {
    while !IS_HELD.load(Ordering::Acquire) {
        sleep(Duration::from_millis(1));
    }
    *LOCK.lock().unwrap() += 1; // SITE take
    meet(barrier);
}

fn main() {
    let barrier = Barrier::new(4);
    let (_sender, receiver) = mpsc::channel::<u32>();
    thread::scope(|scope| {
        let start = |name: &str| thread::Builder::new().name(name.into());
        start("holder")
            .spawn_scoped(scope, || {
                let _held = LOCK.lock().unwrap();
                IS_HELD.store(true, Ordering::Release);
                meet(&barrier);
            })
            .unwrap();
        start("one").spawn_scoped(scope, || meet(&barrier)).unwrap();
        start("wanter").spawn_scoped(scope, || take(&barrier)).unwrap();
        let barrier = &barrier;
        start("receiver")
            .spawn_scoped(scope, move || {
                let _message = receiver.recv();
                meet(barrier);
            })
            .unwrap();
        sleep(Duration::from_millis(200));
        println!("stuck {}", std::process::id());
        std::io::stdout().flush().unwrap();
    });
}
