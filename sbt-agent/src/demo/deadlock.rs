//! A program that hangs: one of its threads leaves, and the others wait for it at the barrier.
//!
//! Every thread works through its own input, an item per round, and meets the others after each.
//! One input is shorter by some items. Its thread takes that for the end and returns, which is
//! right by its own lights; nobody told the barrier. A watchdog ends the process in the end, so
//! that a demo which nobody watches does not stay for ever.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::barrier::Barrier;
use super::{random, say, scaled, team};

const ROUNDS: usize = 400;
/// Items that the short input lacks.
const MISSING: usize = 50;
/// How long it hangs: long enough for a monitor to find out, on a loaded machine too,
const STUCK_LIMIT: Duration = Duration::from_secs(10);
/// and for somebody to read what that has found.
const PATIENT_LIMIT: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(250);

struct Pipeline {
    /// Items of each thread's input.
    inputs: Vec<usize>,
    /// Items worked off by all threads together.
    done: Arc<AtomicU64>,
    barrier: Barrier,
    /// Steps of work per item.
    effort: u64,
}

/// Runs into the deadlock; after some seconds in it, or if `patient` after a minute, the process
/// ends with status 1.
pub fn run(threads: usize, scale: f64, patient: bool) -> Result<String> {
    ensure!(threads > 1, "a deadlock needs at least two threads");
    let rounds = scaled(ROUNDS, scale, 2 * MISSING);
    let mut inputs = vec![rounds; threads];
    inputs[threads / 2] -= MISSING;
    say(&format!(
        "{threads} threads, {rounds} rounds; worker-{} will leave early",
        threads / 2
    ))?;

    let limit = if patient { PATIENT_LIMIT } else { STUCK_LIMIT };
    let pipeline = Pipeline::new(inputs, 500_000)?;
    let done = Arc::clone(&pipeline.done);
    thread::Builder::new()
        .name("watchdog".to_owned())
        .spawn(move || {
            wait_until_stuck(&done, limit, POLL);
            give_up(done.load(Ordering::Relaxed), limit);
        })
        .context("cannot start the watchdog")?;
    pipeline.run()?;
    Ok("not stuck".to_owned())
}

/// Returns when `done` has not changed for `limit`.
fn wait_until_stuck(done: &AtomicU64, limit: Duration, poll: Duration) {
    let mut last = (done.load(Ordering::Relaxed), Instant::now());
    while last.1.elapsed() < limit {
        thread::sleep(poll);
        let now = done.load(Ordering::Relaxed);
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
}

fn give_up(done: u64, limit: Duration) -> ! {
    // If nobody can read it, the exit status has to say it all.
    let _ = writeln!(
        std::io::stderr(),
        "deadlock: stuck at the barrier for {} s after {done} items, giving up",
        limit.as_secs()
    );
    std::process::exit(1);
}

impl Pipeline {
    fn new(inputs: Vec<usize>, effort: u64) -> Result<Self> {
        Ok(Self {
            barrier: Barrier::new(inputs.len())?,
            inputs,
            done: Arc::default(),
            effort,
        })
    }

    fn run(&self) -> Result<()> {
        team::run("worker", self.inputs.len(), |me| {
            for item in 0..self.inputs[me] {
                self.process_item(me, item);
            }
        })
    }

    #[inline(never)]
    fn process_item(&self, me: usize, item: usize) {
        let first = (me + item) as u64;
        std::hint::black_box((0..self.effort).fold(first, |state, _| random::mix(state)));
        self.done.fetch_add(1, Ordering::Relaxed);
        self.barrier.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_inputs_are_worked_off() {
        let pipeline = Pipeline::new(vec![20; 3], 10).unwrap();
        pipeline.run().unwrap();
        assert_eq!(pipeline.done.load(Ordering::Relaxed), 60);
    }

    #[test]
    fn the_watchdog_waits_while_there_is_progress() {
        let done = AtomicU64::new(0);
        let (limit, poll) = (Duration::from_millis(200), Duration::from_millis(5));
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20 {
                    thread::sleep(Duration::from_millis(15));
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
            wait_until_stuck(&done, limit, poll);
            assert_eq!(done.load(Ordering::Relaxed), 20);
        });
    }
}
