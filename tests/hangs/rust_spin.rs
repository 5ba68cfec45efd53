// Threads of a barrier made of a counter spin for one that does not count.
// build: rustc -g
// busy: yes
// outcome: hung
// must: no thread of the process is left that could change it
// never: slow, or a loop without end
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

#[inline(never)]
fn wait_for(count: &AtomicUsize, all: usize) {
    while count.load(Ordering::Acquire) < all {
        std::hint::spin_loop();
    }
}

fn main() {
    let count = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..3)
        .map(|number| {
            let count = Arc::clone(&count);
            thread::spawn(move || {
                if number != 1 {
                    count.fetch_add(1, Ordering::AcqRel);
                }
                wait_for(&count, 3);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
