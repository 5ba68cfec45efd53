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
use round::Round;
use sbt_engine::looks::{Found, Tally, pace::Pace};
use sbt_program::{clock, files::ProbedFile, sites::SharedFiles};

mod files;
mod round;

/// How long to wait for a program to begin, if nobody says that it has begun.
const BEGINS: Duration = Duration::from_millis(100);

/// From the beginning to the first look, ns.
const FIRST_NS: u64 = 2_000_000;

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
    pub fn begin(target: Target) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
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
    }

    /// Looks no more.
    pub fn end(&self) {
        locked(&self.shared.orders).ends = true;
        self.shared.changed.notify_all();
    }

    /// What the looks have found; `None` if sbt could not look.
    pub fn found(&self) -> Option<Found> {
        let spent_ns = self.shared.spent_ns.load(Ordering::Relaxed);
        let is_allowed = self.shared.allowed.load(Ordering::Relaxed) > 0;
        is_allowed.then(|| locked(&self.shared.tally).found(spent_ns))
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.end();
    }
}

fn run(target: &Target, shared: &Shared) {
    if target.is_started {
        let orders = locked(&shared.orders);
        let waits = |orders: &mut Orders| !orders.has_begun && !orders.ends;
        let _in_time = shared.changed.wait_timeout_while(orders, BEGINS, waits);
    }
    let begun_ns = clock::now_ns();
    let mut pace = Pace::new(target.budget_pct, begun_ns ^ u64::from(target.process));
    let mut round = Round::new(target, begun_ns);
    let mut due_ns = Some(FIRST_NS);
    while let Some(pause_ns) = due_ns {
        let orders = locked(&shared.orders);
        let pause = Duration::from_nanos(pause_ns);
        let waits = |orders: &mut Orders| !orders.ends;
        let woken = shared.changed.wait_timeout_while(orders, pause, waits);
        let (orders, _) = woken.unwrap_or_else(PoisonError::into_inner);
        if orders.ends {
            return;
        }
        let processes = if orders.processes.is_empty() {
            vec![target.process]
        } else {
            orders.processes.clone()
        };
        drop(orders);
        let before_ns = clock::thread_cpu_ns();
        let seen = round.look(&processes, &shared.tally);
        let cost_ns = clock::thread_cpu_ns().saturating_sub(before_ns);
        if seen.is_allowed {
            shared.allowed.fetch_add(1, Ordering::Relaxed);
        }
        let elapsed_ns = clock::now_ns().saturating_sub(begun_ns);
        let busy = seen.ran_ns as f64 / elapsed_ns.max(1) as f64;
        due_ns = pace.after(cost_ns, elapsed_ns, busy);
        shared.spent_ns.store(pace.spent_ns(), Ordering::Relaxed);
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
