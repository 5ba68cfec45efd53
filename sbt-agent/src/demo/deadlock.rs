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
use super::rounds::Size;
use super::{random, say, scaled, team};

const ROUNDS: usize = 400;
/// Items that the short input lacks.
const MISSING: usize = 50;
/// How long it hangs: long enough for a monitor to find out, on a loaded machine too.
const STUCK_LIMIT: Duration = Duration::from_secs(10);
/// For how long the program hangs at least, where it hangs for a part of a given time.
const STUCK_AT_LEAST: Duration = Duration::from_secs(6);
/// For how long the program hangs where a user looks at the live screen meanwhile.
const PATIENT_LIMIT: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(250);

/// How long a thread has items to work on.
#[derive(Clone, Copy)]
enum Input {
    /// For so many.
    Items(usize),
    /// Until this time.
    Until(Instant),
}

impl Input {
    fn has(self, item: usize) -> bool {
        match self {
            Self::Items(items) => item < items,
            Self::Until(time) => Instant::now() < time,
        }
    }
}

struct Pipeline {
    /// Of each thread.
    inputs: Vec<Input>,
    /// Items worked off by all threads together.
    done: Arc<AtomicU64>,
    barrier: Barrier,
    /// Steps of work per item.
    effort: u64,
}

/// Runs into the deadlock; after some seconds in it, or if `patient` after a minute, the process
/// ends with status 1. Of a time the first third passes before the deadlock.
pub fn run(threads: usize, size: Size, patient: bool) -> Result<String> {
    ensure!(threads > 1, "a deadlock needs at least two threads");
    let leaver = threads / 2;
    let (inputs, rounds, limit) = match size {
        Size::Scale(scale) => {
            let rounds = scaled(ROUNDS, scale, 2 * MISSING);
            let mut inputs = vec![Input::Items(rounds); threads];
            inputs[leaver] = Input::Items(rounds - MISSING);
            (inputs, format!(", {rounds} rounds"), STUCK_LIMIT)
        }
        Size::Time(time) => {
            let mut inputs = vec![Input::Items(usize::MAX); threads];
            inputs[leaver] = Input::Until(Instant::now() + time / 3);
            (inputs, String::new(), (time / 3 * 2).max(STUCK_AT_LEAST))
        }
    };
    say(&format!(
        "{threads} threads{rounds}; worker-{leaver} will leave early"
    ))?;

    let limit = if patient { PATIENT_LIMIT } else { limit };
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
    fn new(inputs: Vec<Input>, effort: u64) -> Result<Self> {
        Ok(Self {
            barrier: Barrier::new(inputs.len())?,
            inputs,
            done: Arc::default(),
            effort,
        })
    }

    fn run(&self) -> Result<()> {
        team::run("worker", self.inputs.len(), |me| {
            for item in (0..).take_while(|item| self.inputs[me].has(*item)) {
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
        let pipeline = Pipeline::new(vec![Input::Items(20); 3], 10).unwrap();
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
