//! Looks at the threads of the target at random moments while it is watched: where they sleep, for
//! what, and who holds that. No thread is stopped, and nothing is done to the target: /proc and
//! memory are read. A thread of sbt does this, which nothing has to wait for.

use std::{
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use crate::signals;
use crate::source::ebpf::sleeps::{Sample, Sleeps};
use round::Round;
use sbt_engine::looks::{
    Found, Tally,
    duty::{Allowance, Duty, Turn},
    pace::Pace,
    sums::Sums,
};
use sbt_program::{clock, files::ProbedFile, sites::SharedFiles};

mod files;
mod round;
mod samples;
mod spins;

/// How long to wait for a program to begin, if nobody says that it has begun.
const BEGINS: Duration = Duration::from_millis(100);

/// From the beginning to the first look, ns.
const FIRST_NS: u64 = 2_000_000;

/// The time after which samples of sleeps are looked at, ns: their process may end soon.
const SAMPLES_NS: u64 = 25_000_000;

/// What to look at.
pub struct Target {
    /// The id of the process that is watched.
    pub process: u32,
    /// The files of its code, the program first.
    pub files: Vec<Arc<ProbedFile>>,
    /// Where the session keeps the files that are found later.
    pub shared: SharedFiles,
    /// Whether sbt starts the program: then the looks begin when it does.
    pub is_started: bool,
    /// The limit for the cost of watching, percent; `None` without a limit.
    pub budget_pct: Option<f64>,
    /// The kernel's sums of sleeps, if there are any.
    pub sleeps: Option<Sleeps>,
}

/// What the looking thread shares with the session.
#[derive(Default)]
struct Shared {
    tally: Mutex<Tally>,
    orders: Mutex<Orders>,
    changed: Condvar,
    spent_ns: AtomicU64,
    /// Looks in which sbt was allowed to look into the target.
    allowed: AtomicU64,
    /// The kernel's sums of sleeps, if there are any.
    sleeps: Mutex<Option<Sleeps>>,
    /// The sums at the end of the looks.
    last: Mutex<Option<Sums>>,
}

#[derive(Default)]
struct Orders {
    has_begun: bool,
    ends: bool,
    /// The processes to look at; empty for the target alone.
    processes: Vec<u32>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Counts are whole after each operation.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The looks at one target.
pub struct Looking {
    shared: Arc<Shared>,
}

impl Looking {
    /// Begins to look.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn begin(mut target: Target) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut sleeps = target.sleeps.take();
        if sleeps.as_mut().is_some_and(|sleeps| sleeps.on().is_err()) {
            sleeps = None;
        }
        *locked(&shared.sleeps) = sleeps;
        let of_thread = Arc::clone(&shared);
        let named = thread::Builder::new().name("looks".into());
        signals::apart(|| named.spawn(move || run(&target, &of_thread)))?;
        Ok(Self { shared })
    }

    /// The program that sbt starts has begun.
    pub fn begins(&self) {
        locked(&self.shared.orders).has_begun = true;
        self.shared.changed.notify_all();
    }

    /// The processes to look at.
    pub fn set_processes(&self, processes: impl Iterator<Item = u32>) {
        let mut orders = locked(&self.shared.orders);
        orders.processes.clear();
        orders.processes.extend(processes);
    }

    /// Counts begin anew.
    pub fn reset(&self, time_ns: u64) {
        locked(&self.shared.tally).reset(time_ns);
        if let Some(sleeps) = locked(&self.shared.sleeps).as_mut() {
            sleeps.reset(time_ns);
        }
    }

    /// Looks no more.
    pub fn end(&self) {
        let sums = self.sums();
        let mut last = locked(&self.shared.last);
        if last.is_none() {
            *last = sums;
        }
        drop(last);
        locked(&self.shared.orders).ends = true;
        self.shared.changed.notify_all();
    }

    /// The sums now.
    fn sums(&self) -> Option<Sums> {
        let threads = locked(&self.shared.tally).threads();
        let sleeps = locked(&self.shared.sleeps);
        sleeps.as_ref()?.sums(&threads).ok()
    }

    /// What the looks have found; `None` if sbt could not look.
    pub fn found(&self) -> Option<Found> {
        let spent_ns = self.shared.spent_ns.load(Ordering::Relaxed);
        let is_allowed = self.shared.allowed.load(Ordering::Relaxed) > 0;
        if !is_allowed {
            return None;
        }
        let last = locked(&self.shared.last).clone();
        let sums = last.or_else(|| self.sums());
        Some(locked(&self.shared.tally).found(spent_ns, sums.as_ref()))
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.end();
    }
}

fn run(target: &Target, shared: &Shared) {
    look(target, shared);
    if let Some(sleeps) = locked(&shared.sleeps).as_mut() {
        sleeps.off();
    }
}

fn look(target: &Target, shared: &Shared) {
    if target.is_started {
        let orders = locked(&shared.orders);
        let waits = |orders: &mut Orders| !orders.has_begun && !orders.ends;
        let _in_time = shared.changed.wait_timeout_while(orders, BEGINS, waits);
    }
    let begun_ns = clock::now_ns();
    let mut pace = Pace::new(target.budget_pct, begun_ns ^ u64::from(target.process));
    let mut duty = Duty::new(target.budget_pct, begun_ns);
    let mut allowance = Allowance::new(target.budget_pct);
    let mut round = Round::new(target, begun_ns);
    let has_sleeps = locked(&shared.sleeps).is_some();
    let mut due_ns = begun_ns + FIRST_NS;
    let mut busy = 1.0;
    loop {
        let now_ns = clock::now_ns();
        let mut pause_ns = due_ns.saturating_sub(now_ns);
        if has_sleeps {
            pause_ns = pause_ns.min(SAMPLES_NS);
        }
        let Some(processes) = pause(target, shared, pause_ns) else {
            return;
        };
        let now_ns = clock::now_ns();
        let elapsed_ns = now_ns.saturating_sub(begun_ns);
        if now_ns >= due_ns {
            let before_ns = clock::thread_cpu_ns();
            let seen = round.look(&processes, &shared.tally);
            let cost_ns = clock::thread_cpu_ns().saturating_sub(before_ns);
            if seen.is_allowed {
                shared.allowed.fetch_add(1, Ordering::Relaxed);
            }
            busy = seen.ran_ns as f64 / elapsed_ns.max(1) as f64;
            let Some(pause_ns) = pace.after(cost_ns, elapsed_ns, busy) else {
                return;
            };
            due_ns = now_ns + pause_ns;
            judge(&mut duty, now_ns, seen.ran_ns, shared);
        }
        while allowance.has_room(elapsed_ns, busy)
            && let Some(sample) = next_sample(shared)
        {
            let before_ns = clock::thread_cpu_ns();
            round.sample(&sample, &shared.tally);
            allowance.spend(clock::thread_cpu_ns().saturating_sub(before_ns));
        }
        let spent_ns = pace.spent_ns() + allowance.spent_ns();
        shared.spent_ns.store(spent_ns, Ordering::Relaxed);
    }
}

/// Waits; returns the processes to look at, or `None` if the looks end.
fn pause(target: &Target, shared: &Shared, pause_ns: u64) -> Option<Vec<u32>> {
    let orders = locked(&shared.orders);
    let pause = Duration::from_nanos(pause_ns);
    let waits = |orders: &mut Orders| !orders.ends;
    let woken = shared.changed.wait_timeout_while(orders, pause, waits);
    let (orders, _) = woken.unwrap_or_else(PoisonError::into_inner);
    if orders.ends {
        return None;
    }
    Some(if orders.processes.is_empty() {
        vec![target.process]
    } else {
        orders.processes.clone()
    })
}

fn next_sample(shared: &Shared) -> Option<Sample> {
    let sleeps = locked(&shared.sleeps);
    sleeps.as_ref()?.samples.try_recv().ok()
}

/// Switches the sums of sleeps off for a while if they cost too much.
fn judge(duty: &mut Duty, now_ns: u64, ran_ns: u64, shared: &Shared) {
    let mut sleeps = locked(&shared.sleeps);
    let Some(known) = sleeps.as_mut() else {
        return;
    };
    match duty.judge(now_ns, known.count(), ran_ns) {
        Turn::Stay => {}
        Turn::Off => known.off(),
        Turn::On => {
            if known.on().is_err() {
                // The sums so far stay.
                known.off();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Instant};

    use super::*;

    #[test]
    fn a_sleeper_of_this_process_is_seen_and_the_looks_end_at_once() {
        let (say, told) = mpsc::channel::<()>();
        let sleeper = thread::Builder::new().name("sleeper".into());
        let sleeper = sleeper.spawn(move || told.recv()).unwrap();
        let looking = Looking::begin(Target {
            process: std::process::id(),
            files: Vec::new(),
            shared: SharedFiles::default(),
            is_started: false,
            budget_pct: None,
            sleeps: None,
        })
        .unwrap();
        let begun = Instant::now();
        let asleep = |found: &Found| {
            let mut threads = found.threads.iter();
            threads.any(|thread| thread.name == "sleeper" && thread.asleep >= 2)
        };
        loop {
            let found = looking.found();
            if found.as_ref().is_some_and(asleep) {
                break;
            }
            assert!(begun.elapsed() < Duration::from_mins(1), "{found:?}");
            thread::sleep(Duration::from_millis(5));
        }
        looking.end();
        drop(say);
        let _ended = sleeper.join();
    }
}
