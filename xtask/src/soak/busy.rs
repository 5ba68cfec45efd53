//! Busy loops that compete with the tests for the CPUs.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Busy loops; they end when this is dropped. They are threads of this process, so that they also
/// end if the process is killed.
pub struct Busy {
    stop: Arc<AtomicBool>,
    loops: Vec<JoinHandle<()>>,
}

impl Busy {
    pub fn start(count: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let start_one = |_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    spin_loop();
                }
            })
        };
        let loops = (0..count).map(start_one).collect();
        Self { stop, loops }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for busy in self.loops.drain(..) {
            let _ = busy.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_end_with_their_owner() {
        let busy = Busy::start(2);
        assert!(busy.loops.iter().all(|thread| !thread.is_finished()));
        let stop = Arc::clone(&busy.stop);
        drop(busy);
        // Each loop held a clone.
        assert_eq!(Arc::strong_count(&stop), 1);
    }
}
