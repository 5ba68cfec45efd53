//! Makes all threads of the target stand for a moment, and one of them do system calls for sbt.
//!
//! Tracing belongs to a thread of sbt, so all of this happens in a thread of its own. When that
//! thread ends, in whatever way, the kernel lets go of whatever it still traces.

use std::{
    collections::BTreeSet,
    fs::File,
    io, thread,
    time::{Duration, Instant},
};

use crate::source::ptrace::{
    inject,
    stop::{self, Stop, StopReason},
};
use sbt_program::{
    arch::{InjectionCode, Registers},
    process,
    trace::{self, Id},
};

/// How long a thread may take to stop: it may wait for its `vfork` child or for a disk.
const LONGEST: Duration = Duration::from_millis(500);

/// How long to wait for the end of a thread's system call, and for how many threads.
const LONGEST_CALL: Duration = Duration::from_millis(300);
const MOST_TRIED: usize = 8;

/// How many rounds to look for threads that have begun meanwhile.
const ROUNDS: usize = 64;

/// The reason if all threads are in system calls that only the kernel can go on with: a moment later
/// one may be elsewhere.
pub const SLEEP: &str = "all of its threads sleep in system calls with a time limit";

/// Errors of the kernel are results from here on.
const ERRORS: u64 = u64::MAX - 4094;

/// Runs something on a thread of its own: what that thread traces is let go when it ends.
pub fn traced<T: Send>(run: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("sbt-inject".into());
        let thread = thread.spawn_scoped(scope, run);
        thread.ok().and_then(|thread| thread.join().ok())
    })
}

/// Stops all threads of a process. `stops`: threads that the calling thread has stopped already.
///
/// # Errors
/// One may not be traced, or does not stop. All go on then, at the latest when the calling thread ends.
pub fn stop_all(process: u32, mut stops: Vec<Stop>) -> io::Result<Vec<Stop>> {
    let mut known: BTreeSet<Id> = stops.iter().map(Stop::id).collect();
    for _ in 0..ROUNDS {
        let mut new = Vec::new();
        for tid in process::thread_ids(process) {
            let id = Id::try_from(tid).map_err(io::Error::other)?;
            if !known.insert(id) {
                continue;
            }
            match trace::seize(id, libc::PTRACE_O_TRACESYSGOOD).and_then(|()| trace::interrupt(id))
            {
                Ok(()) => new.push(id),
                Err(_) if process::thread_has_ended(process, tid) => {}
                Err(error) => return Err(error),
            }
        }
        // A thread that stands still starts no other.
        if new.is_empty() {
            return Ok(stops);
        }
        for id in new {
            stops.extend(stop::stands_within(id, LONGEST)?);
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Lets all threads go, as if they had never been stopped.
pub fn let_all_go(stops: Vec<Stop>) {
    for stop in stops {
        stop.begin_call_again();
        stop.let_go(false);
    }
}

/// Waits until a thread of a process comes to the end of a system call, and stops it there: then it can
/// do calls for sbt. For threads that sleep all the time, and otherwise could not. `None` if no thread
/// does within some time.
pub fn at_end_of_call(process: u32) -> Option<Stop> {
    process::thread_ids(process)
        .take(MOST_TRIED)
        .find_map(|tid| stop_at_end(Id::try_from(tid).ok()?))
}

fn stop_at_end(id: Id) -> Option<Stop> {
    let begin = Instant::now();
    trace::seize(id, libc::PTRACE_O_TRACESYSGOOD).ok()?;
    trace::interrupt(id).ok()?;
    let mut stop = stop::stands_within(id, LONGEST).ok()??;
    while begin.elapsed() < LONGEST_CALL {
        let registers = stop.registers().ok()?;
        let can_call = match stop.why() {
            StopReason::Called => !registers.begins_call() && registers.behind_call().is_some(),
            StopReason::Asked => registers.before_call().is_some(),
            _ => false,
        };
        if can_call {
            return Some(stop);
        }
        stop.begin_call_again();
        stop.pass_to_call();
        stop = if let Ok(stop) = stop::stands_within(id, LONGEST_CALL) {
            stop?
        } else {
            trace::interrupt(id).ok()?;
            stop::stands_within(id, LONGEST).ok()??
        };
    }
    stop.begin_call_again();
    stop.let_go(false);
    None
}

/// A thread that does system calls for sbt. Its registers are the same before and after each.
pub struct Caller<'a> {
    /// `None` if the thread has ended.
    stop: Option<Stop>,
    registers: Registers,
    memory: &'a File,
    ways: InjectionCode,
}

impl<'a> Caller<'a> {
    /// Chooses a thread that can do calls, of those that stand. It is taken out of `stops`; put it back
    /// with [`Caller::end`].
    ///
    /// # Errors
    /// None can: the reason of the last one that was asked.
    pub fn choose(
        stops: &mut Vec<Stop>,
        memory: &'a File,
        ways: InjectionCode,
    ) -> Result<Self, String> {
        let mut why = SLEEP.to_owned();
        for index in 0..stops.len() {
            if !matches!(stops[index].why(), StopReason::Asked | StopReason::Called) {
                continue;
            }
            if inject::is_forbidden(stops[index].id()) {
                why = "it has a system call filter that sbt does not have".into();
                continue;
            }
            let Some(registers) = stops[index].registers().ok() else {
                continue;
            };
            let registers = match stops[index].why() {
                StopReason::Called => registers.behind_call(),
                _ => registers.before_call(),
            };
            let Some(registers) = registers else {
                continue;
            };
            let mut this = Self {
                stop: Some(stops.remove(index)),
                registers,
                memory,
                ways,
            };
            // A call without effect shows whether the thread can do calls.
            match this.call(libc::SYS_getpid, [0; 6]) {
                Ok(_) => return Ok(this),
                Err(error) => why = error,
            }
            match this.stop.take() {
                Some(stop) => stops.insert(index, stop),
                None => return Err("a thread has ended while it stood".into()),
            }
        }
        Err(why)
    }

    /// Does a system call, and returns its result.
    ///
    /// # Errors
    /// The kernel's error, or the thread could not do the call.
    pub fn call(&mut self, number: libc::c_long, arguments: [u64; 6]) -> Result<u64, String> {
        let stop = self.stop.take().ok_or("the thread has ended")?;
        let call = (number, arguments);
        let called = inject::call(stop, &self.registers, self.memory, self.ways, call);
        match called {
            Ok((stop, result)) => {
                self.stop = Some(stop);
                if result >= ERRORS {
                    let error = i32::try_from(result.wrapping_neg()).unwrap_or(0);
                    return Err(io::Error::from_raw_os_error(error).to_string());
                }
                Ok(result)
            }
            Err((stop, why)) => {
                self.stop = stop;
                Err(why)
            }
        }
    }

    /// Gives the thread back.
    pub fn end(self, stops: &mut Vec<Stop>) {
        stops.extend(self.stop);
    }
}
