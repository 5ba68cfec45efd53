//! Threads stopped for a moment, for their registers and what lies on their stacks.
//!
//! Whatever happens, the target goes on: the kernel lets a traced thread go when the one
//! that traces it ends, and that is a thread that does nothing else. Nothing is asked of
//! the kernel that would kill the target with us (`PTRACE_O_EXITKILL`).

use std::{
    io, thread,
    time::{Duration, Instant},
};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

use super::call::Call;
use sbt_engine::hang::scene::ThreadId;
use sbt_program::{
    memory::{Memory, STACK, Stack},
    trace::{self, EVENT_STOP},
};

/// A thread in a sleep that nothing interrupts is not waited for longer.
const PATIENCE: Duration = Duration::from_millis(20);

/// It is asked for without a pause for so long: one on another CPU stops at once. Later
/// with pauses, since the thread may need ours.
const BRISK: Duration = Duration::from_micros(40);
const PAUSE: Duration = Duration::from_micros(20);

/// What was found when a thread was stopped.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Its registers.
    pub registers: libc::user_regs_struct,
    /// The top of its stack.
    pub stack: Stack,
    /// From the request to stop until it was let go again.
    #[cfg(test)]
    pub held: Duration,
}

/// Why a thread was not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has ended, or sleeps in a system call that would notice.
    Left,
    /// The kernel forbids it: another traces it, or we have no right.
    Refused,
    /// It did not stop in time.
    Late,
}

/// All of them together are not waited for longer: where there are many more threads than
/// CPUs each waits long for its turn.
const PATIENCE_FOR_ALL: Duration = Duration::from_millis(150);

/// Stops threads, one after the other.
pub fn all(threads: &[ThreadId]) -> Vec<Result<Stopped, Why>> {
    undisturbed(|| in_parts(threads))
}

/// Does something that is not to be put off by Ctrl-Z: whoever is stopped while it holds a
/// thread of the target holds it until it is continued. The signal comes afterwards. Of
/// several threads another one would get it: who has those has to wait for the end of this.
fn undisturbed<T>(act: impl FnOnce() -> T) -> T {
    let stops = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];
    let stops: SigSet = stops.into_iter().collect();
    let before = stops.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    // The threads that it starts have the same mask.
    let result = act();
    let _unchanged = before.and_then(|before| before.thread_set_mask());
    result
}

fn in_parts(threads: &[ThreadId]) -> Vec<Result<Stopped, Why>> {
    let begun = Instant::now();
    let mut found = Vec::new();
    while let Some(rest) = threads.get(found.len()..).filter(|rest| !rest.is_empty()) {
        if begun.elapsed() > PATIENCE_FOR_ALL {
            found.push(Err(Why::Late));
            continue;
        }
        // One that did not stop in time is let go by the end of who has asked for it.
        let part = thread::scope(|scope| scope.spawn(|| until_late(rest, begun)).join());
        match part {
            Ok(part) if !part.is_empty() => found.extend(part),
            _ => found.push(Err(Why::Refused)),
        }
    }
    found
}

/// The same up to the first that is late.
fn until_late(threads: &[ThreadId], begun: Instant) -> Vec<Result<Stopped, Why>> {
    let mut found = Vec::new();
    // Written once, so that no page of it is missing while a thread is held.
    let mut room = vec![1; STACK];
    // SAFETY: asks for pauses that are as short as they are meant to be; numbers only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    for thread in threads {
        found.push(one(*thread, &mut room));
        let is_late = matches!(found.last(), Some(Err(Why::Late)));
        if is_late || begun.elapsed() > PATIENCE_FOR_ALL {
            break;
        }
    }
    found
}

fn one(thread: ThreadId, room: &mut [u8]) -> Result<Stopped, Why> {
    let id = thread.thread.cast_signed();
    // What it did when it was last looked at may be long ago.
    if !Call::of(thread).may_be_interrupted(thread.thread) {
        return Err(Why::Left);
    }
    let refused = |error: io::Error| match error.raw_os_error() {
        Some(libc::ESRCH) => Why::Left,
        _ => Why::Refused,
    };
    trace::seize(id, 0).map_err(refused)?;
    let asked = Instant::now();
    trace::interrupt(id).map_err(|_| Why::Late)?;
    let Some(status) = stopped(id, asked) else {
        return Err(Why::Late);
    };
    let found = trace::registers(id).map(|registers| {
        let memory = Memory {
            thread: thread.thread,
        };
        (registers, memory.fill(registers.rsp, room).unwrap_or(0))
    });
    // It may have gone on to another call since it was looked at.
    if let Ok((mut registers, _)) = found
        && status >> 8 == EVENT_STOP
        && trace::begin_again(&mut registers)
    {
        let _gone = trace::set_registers(id, &registers);
    }
    // A signal that came first is passed on.
    let signal = match status >> 8 {
        EVENT_STOP => 0,
        _ => status & 0x7f,
    };
    if trace::detach(id, signal).is_err() {
        return Err(Why::Late);
    }
    #[cfg(test)]
    let held = asked.elapsed();
    let (registers, length) = found.map_err(|_| Why::Left)?;
    let stack = Stack {
        from: registers.rsp,
        bytes: room[..length].to_vec(),
        beyond: None,
    };
    Ok(Stopped {
        registers,
        stack,
        #[cfg(test)]
        held,
    })
}

/// Waits until a thread has stopped: why.
fn stopped(id: libc::pid_t, asked: Instant) -> Option<i32> {
    loop {
        // SAFETY: a structure of numbers, for which zeros are values.
        let mut news: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // Only stops are asked for: the end of a thread that is a child of ours is for
        // others to take notice of.
        let how = libc::WSTOPPED | libc::WNOHANG | libc::__WALL | libc::__WNOTHREAD;
        // SAFETY: the kernel writes into a structure of ours.
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
        // SAFETY: of a structure that is all zeros but for what the kernel wrote for a
        // child.
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
