//! What Rust's library has for threads that wait for each other, used for other things than
//! barriers.
//!
//! waits KIND [rounds]
//!
//! channel    two threads send each other what they have received
//! rendezvous a channel without room, between two threads
//! park       two threads in turn, by `park` and `unpark`
//! mutex      a lock that is always wanted
//! rwlock     readers and a writer
//! condvar    three threads in turn
//! scope      one thread after the other, which is waited for

use std::{
    env,
    hint::black_box,
    sync::{
        Arc, Condvar, Mutex, RwLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
};

fn work(by: u64) {
    for turn in 0..by * 1000 {
        black_box(turn);
    }
}

fn in_threads(count: usize, act: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for me in 0..count {
            let act = &act;
            scope.spawn(move || act(me));
        }
    });
}

fn channel(rounds: usize) {
    let (to, comes) = mpsc::channel();
    let (back, returns) = mpsc::channel();
    let other = thread::spawn(move || {
        for value in comes {
            work(60);
            if back.send(value).is_err() {
                break;
            }
        }
    });
    for value in 0..rounds {
        work(60);
        to.send(value).expect("it listens");
        returns.recv().expect("it answers");
    }
    drop(to);
    other.join().expect("no panic");
}

fn rendezvous(rounds: usize) {
    let (to, comes) = mpsc::sync_channel(0);
    let other = thread::spawn(move || {
        for value in comes {
            work(value % 3 * 40);
        }
    });
    for value in 0..rounds as u64 {
        work((value + 1) % 3 * 40);
        to.send(value).expect("it listens");
    }
    drop(to);
    other.join().expect("no panic");
}

fn park(rounds: usize) {
    let turn = Arc::new(AtomicUsize::new(0));
    let first = thread::current();
    let theirs = Arc::clone(&turn);
    let other = thread::spawn(move || {
        for _ in 0..rounds {
            while theirs.load(SeqCst) != 1 {
                thread::park();
            }
            work(60);
            theirs.store(0, SeqCst);
            first.unpark();
        }
    });
    for _ in 0..rounds {
        work(60);
        turn.store(1, SeqCst);
        other.thread().unpark();
        while turn.load(SeqCst) != 0 {
            thread::park();
        }
    }
    other.join().expect("no panic");
}

fn mutex(rounds: usize) {
    let held = Mutex::new(0);
    in_threads(3, |me| {
        for _ in 0..rounds {
            *held.lock().expect("no panic") += me;
            let held = held.lock().expect("no panic");
            work(60);
            drop(held);
            work(10 * me as u64);
        }
    });
}

fn rwlock(rounds: usize) {
    let held = RwLock::new(0);
    in_threads(3, |me| {
        for _ in 0..rounds {
            if me == 0 {
                *held.write().expect("no panic") += 1;
                work(60);
            } else {
                let seen = held.read().expect("no panic");
                work(40 + *seen % 2);
            }
            work(20);
        }
    });
}

fn condvar(rounds: usize) {
    let (turn, changed) = (Mutex::new(0), Condvar::new());
    in_threads(3, |me| {
        for _ in 0..rounds {
            let turn = turn.lock().expect("no panic");
            let mut turn = changed
                .wait_while(turn, |turn| *turn != me)
                .expect("no panic");
            work(60);
            *turn = (me + 1) % 3;
            changed.notify_all();
        }
    });
}

fn scope(rounds: usize) {
    for _ in 0..rounds / 4 {
        in_threads(2, |_| work(100));
    }
}

fn main() {
    let mut arguments = env::args().skip(1);
    let kind = arguments.next().unwrap_or_default();
    let rounds = arguments.next().and_then(|text| text.parse().ok());
    let rounds = rounds.unwrap_or(3000);
    match kind.as_str() {
        "channel" => channel(rounds),
        "rendezvous" => rendezvous(rounds),
        "park" => park(rounds),
        "mutex" => mutex(rounds),
        "rwlock" => rwlock(rounds),
        "condvar" => condvar(rounds),
        "scope" => scope(rounds),
        _ => panic!("no such kind: {kind}"),
    }
}
