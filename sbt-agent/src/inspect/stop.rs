//! Stops threads for a moment, to read their registers and stacks.
//!
//! The target goes on whatever happens: the kernel releases traced threads when their tracer ends,
//! and the tracer is a thread, or a process of sbt, that does nothing else. `PTRACE_O_EXITKILL`, which would kill the
//! target with sbt, is not used.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

use super::call::Call;
use sbt_engine::hang::scene::ThreadId;
use sbt_program::{
    memory::{Memory, STACK, Stack},
    stopped::{NotStopped, Stopped, Tracer},
    trace::{self, EVENT_STOP},
};

/// How long to wait for a thread: it may be in a sleep that nothing interrupts.
const PATIENCE: Duration = Duration::from_millis(20);

/// How long to wait without pauses: a thread on another CPU stops at once. After that with pauses,
/// since the thread may need this CPU.
const BRISK: Duration = Duration::from_micros(40);
const PAUSE: Duration = Duration::from_micros(20);

/// How long to wait for all threads together: if there are many more threads than CPUs, each waits
/// long for its turn.
const PATIENCE_FOR_ALL: Duration = Duration::from_millis(150);

/// Lets the process that traces the threads stop them, one after the other.
pub fn traced(threads: &[ThreadId], by: &dyn Tracer) -> Vec<Result<Stopped, NotStopped>> {
    let begun = Instant::now();
    let each = threads.iter().map(|of| {
        if begun.elapsed() > PATIENCE_FOR_ALL {
            return Err(NotStopped::Late);
        }
        // The last look may be long ago.
        if !Call::of(*of).may_be_interrupted(of.thread) {
            return Err(NotStopped::Left);
        }
        by.stop(of.thread)
    });
    each.collect()
}

/// Stops the threads one after the other, and releases each at once.
pub fn all(threads: &[ThreadId]) -> Vec<Result<Stopped, NotStopped>> {
    undisturbed(|| in_parts(threads))
}

/// Runs `act` with Ctrl-Z put off: if sbt were stopped while it holds a thread of the target, that
/// thread would stay held until sbt continues. The signal takes effect afterwards. In a program
/// with several threads another thread would get it: the caller has to take care of those.
fn undisturbed<T>(act: impl FnOnce() -> T) -> T {
    let stops = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];
    let stops: SigSet = stops.into_iter().collect();
    let before = stops.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    // Threads started here inherit the mask.
    let result = act();
    let _unchanged = before.and_then(|before| before.thread_set_mask());
    result
}

fn in_parts(threads: &[ThreadId]) -> Vec<Result<Stopped, NotStopped>> {
    let begun = Instant::now();
    let mut found = Vec::new();
    while let Some(rest) = threads.get(found.len()..).filter(|rest| !rest.is_empty()) {
        if begun.elapsed() > PATIENCE_FOR_ALL {
            found.push(Err(NotStopped::Late));
            continue;
        }
        // A thread that did not stop in time is released when the thread that asked for the stop
        // ends.
        let part = thread::scope(|scope| scope.spawn(|| until_late(rest, begun)).join());
        match part {
            Ok(part) if !part.is_empty() => found.extend(part),
            _ => found.push(Err(NotStopped::Refused)),
        }
    }
    found
}

/// Stops threads up to the first that does not stop in time.
fn until_late(threads: &[ThreadId], begun: Instant) -> Vec<Result<Stopped, NotStopped>> {
    let mut found = Vec::new();
    // Written once, so that no page is missing while a thread is held.
    let mut room = vec![1; STACK];
    // SAFETY: makes pauses as short as asked for; takes only numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    for thread in threads {
        found.push(one(*thread, &mut room));
        let is_late = matches!(found.last(), Some(Err(NotStopped::Late)));
        if is_late || begun.elapsed() > PATIENCE_FOR_ALL {
            break;
        }
    }
    found
}

fn one(thread: ThreadId, room: &mut [u8]) -> Result<Stopped, NotStopped> {
    let id = thread.thread.cast_signed();
    // The last look may be long ago.
    if !Call::of(thread).may_be_interrupted(thread.thread) {
        return Err(NotStopped::Left);
    }
    let refused = |error: io::Error| match error.raw_os_error() {
        Some(libc::ESRCH) => NotStopped::Left,
        _ => NotStopped::Refused,
    };
    trace::seize(id, 0).map_err(refused)?;
    let asked = Instant::now();
    trace::interrupt(id).map_err(|_| NotStopped::Late)?;
    let Some(status) = stopped(id, asked) else {
        return Err(NotStopped::Late);
    };
    let found = trace::registers(id).map(|registers| {
        let memory = Memory {
            thread: thread.thread,
        };
        (registers, memory.fill(registers.stack(), room).unwrap_or(0))
    });
    // The thread may have gone on to another call since it was looked at.
    if let Ok((mut registers, _)) = found
        && status >> 8 == EVENT_STOP
        && registers.begin_again()
    {
        let _gone = trace::set_registers(id, &registers);
    }
    // A signal that came before the stop is passed on.
    let signal = match status >> 8 {
        EVENT_STOP => 0,
        _ => status & 0x7f,
    };
    if trace::detach(id, signal).is_err() {
        return Err(NotStopped::Late);
    }
    let held = asked.elapsed();
    let (registers, length) = found.map_err(|_| NotStopped::Left)?;
    let stack = Stack {
        from: registers.stack(),
        bytes: room[..length].to_vec(),
        beyond: None,
    };
    Ok(Stopped {
        registers,
        stack,
        held,
    })
}

/// Waits until a thread has stopped. Returns the status of the stop.
fn stopped(id: libc::pid_t, asked: Instant) -> Option<i32> {
    loop {
        // SAFETY: a structure of numbers, for which zeros are valid.
        let mut news: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // Only stops are asked for: if the thread is a child of sbt, its end is left for the code
        // that waits for it.
        let how = libc::WSTOPPED | libc::WNOHANG | libc::__WALL | libc::__WNOTHREAD;
        // SAFETY: the kernel writes into a local structure.
        let result = unsafe {
            libc::waitid(
                libc::P_PID,
                libc::id_t::try_from(id).unwrap_or(0),
                &raw mut news,
                how,
            )
        };
        if result < 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return None;
        }
        // SAFETY: the structure is all zeros but for what the kernel wrote for a child.
        let (who, status) = unsafe { (news.si_pid(), news.si_status()) };
        if result == 0 && who == id {
            return Some(status);
        }
        let waited = asked.elapsed();
        if waited > PATIENCE {
            return None;
        }
        if waited > BRISK {
            thread::sleep(PAUSE);
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctrl_z_waits_for_the_threads_that_are_held() {
        let stops = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];
        let own = || SigSet::thread_get_mask().unwrap();
        let before = own();
        assert!(stops.iter().all(|stop| !before.contains(*stop)));
        let (inside, of_others) = undisturbed(|| (own(), thread::spawn(own).join().unwrap()));
        for stop in stops {
            assert!(inside.contains(stop) && of_others.contains(stop), "{stop}");
        }
        assert_eq!(own(), before);
    }
}
