// A barrier of one's own from Rust's Mutex and Condvar, whose threads only sleep.
//
// condbarrier [threads=3] [rounds=200]
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

struct Meeting {
    state: Mutex<(usize, usize)>,
    changed: Condvar,
    members: usize,
}

impl Meeting {
    #[inline(never)]
    fn meet(&self) {
        let mut state = self.state.lock().unwrap();
        let round = state.1;
        state.0 += 1;
        if state.0 == self.members {
            *state = (0, round + 1);
            self.changed.notify_all(); // SITE notify
        } else {
            while state.1 == round {
                state = self.changed.wait(state).unwrap(); // SITE wait
            }
        }
    }
}

fn option(name: &str, otherwise: usize) -> usize {
    let mut all = std::env::args();
    let found = all.find_map(|it| it.strip_prefix(&format!("{name}="))?.parse().ok());
    found.unwrap_or(otherwise)
}

fn main() {
    let (threads, rounds) = (option("threads", 3), option("rounds", 200));
    let meeting = Arc::new(Meeting {
        state: Mutex::new((0, 0)),
        changed: Condvar::new(),
        members: threads,
    });
    let work = |me: usize| {
        let meeting = Arc::clone(&meeting);
        std::thread::spawn(move || {
            for _ in 0..rounds {
                std::thread::sleep(Duration::from_millis(if me == 1 { 4 } else { 1 }));
                meeting.meet();
            }
        })
    };
    let all: Vec<_> = (0..threads).map(work).collect();
    for thread in all {
        thread.join().unwrap();
    }
}
