//! A stopped thread of the target, as a value. Whoever has it must resume the thread in one way or
//! another, or pass the value on. Dropping it resumes the thread as if sbt had not looked, so that
//! no way through the code leaves a thread stopped.

use std::{
    io, mem, thread,
    time::{Duration, Instant},
};

use sbt_program::{
    arch::Registers,
    process,
    trace::{self, Id},
};

/// Why a thread has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The tracer interrupted it, or it is new and has not begun.
    Asked,
    /// Its whole process was stopped, as by SIGSTOP.
    Group,
    /// The thread is about to get a signal.
    Signal {
        /// Number of the signal.
        number: i32,
        /// Whether the kernel sent SIGTRAP because of an `int3`.
        trap: bool,
    },
    /// The thread has run the one instruction that it was told to run.
    Stepped,
    /// The thread enters or leaves a system call (with `PTRACE_O_TRACESYSGOOD`).
    Called,
    /// The thread has started another thread or process.
    Started {
        /// The new thread or process.
        new: Id,
        /// Whether the parent waits until the child gives its memory back (`vfork`).
        borrows: bool,
    },
    /// The thread has executed a program. Before that it had this number.
    Executed(Id),
    /// The thread is about to end.
    Ends,
}

/// The signal number that the kernel reports at a system call.
const CALLED: i32 = libc::SIGTRAP | 0x80;

/// A thread that has stopped, and why.
#[derive(Debug)]
#[must_use = "a thread stands still until it is let go on"]
pub struct Stop {
    id: Id,
    why: StopReason,
}

/// A change in the state of a thread.
#[derive(Debug)]
pub enum News {
    /// The thread has stopped.
    Stopped(Stop),
    /// The thread has ended.
    Ended(Id),
}

/// The next change of any traced thread. `None` if there is none.
///
/// A stop by a signal is not taken from the kernel, only looked at. Once taken, the kernel would
/// let the thread go on without the signal if the caller were killed. A thread that has hit a
/// breakpoint would then go on in the middle of an instruction; this way the signal kills it
/// instead.
///
/// # Errors
/// `ECHILD`: no thread is traced.
pub fn next() -> io::Result<Option<News>> {
    let Some((id, what, status)) = wait_among(libc::P_ALL, 0, LOOK)? else {
        return Ok(None);
    };
    if what == libc::CLD_TRAPPED && status >> 8 == 0 && status != CALLED {
        let why = why(id, status);
        return Ok(Some(News::Stopped(Stop { id, why })));
    }
    news(Some(id), libc::WNOHANG)
}

/// Waits for a change of one thread. Not to be used for a first thread that may end before others
/// of its process: the kernel reports such an end late.
pub fn wait_for(id: Id) -> io::Result<News> {
    loop {
        if let Some(news) = news(Some(id), 0)? {
            return Ok(news);
        }
    }
}

/// Wait only for threads that the calling thread traces, whatever their kind: nobody else can
/// resume them. A thread that executes a program takes the number of its process's first thread. If
/// another thread of sbt traces it, the first thread's tracer has nothing left to wait for.
const OURS: i32 = libc::__WALL | libc::__WNOTHREAD;

fn news(of: Option<Id>, how: i32) -> io::Result<Option<News>> {
    let mut status = 0;
    let id = loop {
        // libc is called directly: nix fails for signals that it has no name for.
        // SAFETY: the kernel writes into a local number.
        let id = unsafe { libc::waitpid(of.unwrap_or(-1), &raw mut status, OURS | how) };
        if id >= 0 {
            break id;
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    };
    if id == 0 || libc::WIFCONTINUED(status) {
        return Ok(None);
    }
    if !libc::WIFSTOPPED(status) {
        return Ok(Some(News::Ended(id)));
    }
    let why = why(id, status >> 8);
    Ok(Some(News::Stopped(Stop { id, why })))
}

/// Look whether anything is new, and leave it for the next wait.
const LOOK: i32 = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::WNOHANG;

/// Whether the calling thread traces this thread and has not yet been told of its end.
pub fn is_ours(id: Id) -> bool {
    !wait(id, LOOK).is_err_and(|error| error.raw_os_error() == Some(libc::ECHILD))
}

/// Waits until a thread has stopped. `None` if it has ended: its end is left for its parent, which
/// may be a thread of sbt, too.
pub fn wait_until_it_stands(id: Id) -> io::Result<Option<Stop>> {
    let ends = [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED];
    loop {
        let news = wait(id, libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT)?;
        if news.is_some_and(|(what, _)| ends.contains(&what)) {
            return Ok(None);
        }
        if let Some(stop) = stop_of(id)? {
            return Ok(Some(stop));
        }
    }
}

/// Waits until a thread has stopped, for at most `longest`. `None` if it has ended: its end is left for
/// its parent.
///
/// # Errors
/// `TimedOut`: it has not stopped, as a thread that waits for its `vfork` child or for a disk.
pub fn stands_within(id: Id, longest: Duration) -> io::Result<Option<Stop>> {
    let begin = Instant::now();
    let [mut pause, most] = LOOK_AFTER;
    loop {
        match wait(id, LOOK)? {
            Some((libc::CLD_TRAPPED | libc::CLD_STOPPED, _)) => {
                if let Some(stop) = stop_of(id)? {
                    return Ok(Some(stop));
                }
            }
            Some(_) => return Ok(None),
            None if process::thread_has_ended(id.cast_unsigned(), id.cast_unsigned()) => {
                return Ok(None);
            }
            None if begin.elapsed() > longest => return Err(io::ErrorKind::TimedOut.into()),
            None => {
                thread::sleep(pause);
                pause = most.min(2 * pause);
            }
        }
    }
}

/// The stop of a thread that was seen stopped. `None` if it has been killed in between.
fn stop_of(id: Id) -> io::Result<Option<Stop>> {
    let stands = wait(id, libc::WSTOPPED | libc::WNOHANG)?;
    Ok(stands.map(|(_, status)| Stop {
        id,
        why: why(id, status),
    }))
}

/// First and longest pause between two looks at a thread that makes one instruction: something may
/// keep it from that.
const LOOK_AFTER: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(5)];

/// Waits until a resumed thread stops again. `None` if it ends instead, or another thread has
/// executed a program in its place; that is left for the next wait.
///
/// Does not block in the kernel: the kernel reports the end of a first thread only after the ends
/// of all others, and these may be stopped before their end until the caller resumes them.
fn wait_while_it_goes_on(id: Id) -> io::Result<Option<Stop>> {
    let [mut pause, most] = LOOK_AFTER;
    loop {
        match wait(id, LOOK)? {
            Some((libc::CLD_TRAPPED | libc::CLD_STOPPED, status)) => {
                if matches!(why(id, status), StopReason::Ends | StopReason::Executed(_)) {
                    return Ok(None);
                }
                if let Some(stop) = stop_of(id)? {
                    return Ok(Some(stop));
                }
            }
            Some(_) => return Ok(None),
            None if process::thread_has_ended(id.cast_unsigned(), id.cast_unsigned()) => {
                return Ok(None);
            }
            None => {
                thread::sleep(pause);
                pause = most.min(2 * pause);
            }
        }
    }
}

/// The code and status of a change of one thread (waitid(2)).
fn wait(id: Id, how: i32) -> io::Result<Option<(i32, i32)>> {
    let news = wait_among(libc::P_PID, id.cast_unsigned(), how)?;
    Ok(news.map(|(_, what, status)| (what, status)))
}

/// The thread, code and status of a change of any of the threads selected (waitid(2)).
fn wait_among(
    kind: libc::idtype_t,
    number: libc::id_t,
    how: i32,
) -> io::Result<Option<(Id, i32, i32)>> {
    // SAFETY: a structure of numbers, for which zeros are valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into a local structure.
    while unsafe { libc::waitid(kind, number, &raw mut info, how | OURS) } != 0 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
    // SAFETY: the structure is all zeros but for what the kernel wrote for a child.
    let (who, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok((who != 0).then_some((who, info.si_code, status)))
}

/// Why a thread has stopped, by the status of its stop.
fn why(id: Id, status: i32) -> StopReason {
    let message = || Id::try_from(trace::message(id).unwrap_or(0)).unwrap_or(0);
    let number = status & 0xff;
    match status >> 8 {
        0 if number == CALLED => StopReason::Called,
        0 => signalled(id, number),
        event @ (libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK) => {
            StopReason::Started {
                new: message(),
                borrows: event == libc::PTRACE_EVENT_VFORK,
            }
        }
        libc::PTRACE_EVENT_EXEC => StopReason::Executed(message()),
        libc::PTRACE_EVENT_EXIT => StopReason::Ends,
        trace::EVENT_STOP if number != libc::SIGTRAP => StopReason::Group,
        _ => StopReason::Asked,
    }
}

fn signalled(id: Id, number: i32) -> StopReason {
    let code = if number == libc::SIGTRAP {
        trace::signal_code(id).unwrap_or(0)
    } else {
        0
    };
    if code == libc::TRAP_TRACE {
        return StopReason::Stepped;
    }
    StopReason::Signal {
        number,
        trap: code == libc::SI_KERNEL,
    }
}

impl Stop {
    /// The thread.
    pub const fn id(&self) -> Id {
        self.id
    }

    /// Why it has stopped.
    pub const fn why(&self) -> StopReason {
        self.why
    }

    /// Takes the stop from the kernel, so that later waits do not report it again.
    pub fn keep(&self) {
        let _taken_notice_of = wait(self.id, libc::WSTOPPED | libc::WNOHANG);
    }

    /// Whether the thread stopped for a reason that would not have interrupted a system call
    /// without a tracer: a request of the tracer, or a signal, of which it is not known whether it
    /// is handled.
    pub const fn interrupts_calls(&self) -> bool {
        match self.why {
            StopReason::Asked => true,
            StopReason::Signal { number, trap } => {
                let stops = matches!(
                    number,
                    libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU
                );
                !trap && !stops
            }
            _ => false,
        }
    }

    /// Restarts a system call that this stop alone has interrupted: see [`Registers::begin_again`].
    pub fn begin_call_again(&self) {
        if self.interrupts_calls()
            && let Ok(mut registers) = self.registers()
            && registers.begin_again()
        {
            let _gone = self.set_registers(&registers);
        }
    }

    /// Whether this very thread is still stopped here. It may have been killed meanwhile, and
    /// another thread may have taken its number.
    pub fn is_traced(&self) -> bool {
        let gone = |error: io::Error| error.raw_os_error() == Some(libc::ESRCH);
        // A stopped thread reports nothing new, unless it is killed: then it stops once more, about
        // to end.
        !self.registers().is_err_and(gone) && matches!(wait(self.id, LOOK), Ok(None))
    }

    /// The thread's registers.
    pub fn registers(&self) -> io::Result<Registers> {
        trace::registers(self.id)
    }

    /// Changes the thread's registers.
    pub fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        trace::set_registers(self.id, registers)
    }

    /// Resumes the thread as without a tracer: with its signal, if it has stopped at one; still
    /// stopped, if its whole process is.
    pub fn pass(self) {
        drop(self);
    }

    /// Resumes the thread, and drops the signal: what it stopped for concerned sbt alone.
    pub fn resume(self) {
        // An error means that the thread is being killed.
        let _gone = trace::resume(self.id, 0);
        mem::forget(self);
    }

    /// As [`Stop::pass`], but the thread stops at its next entry into or exit from a system call.
    pub fn pass_to_call(self) {
        // An error means that the thread is being killed.
        let _gone = match self.why {
            StopReason::Group => trace::listen(self.id),
            _ => trace::resume_to_call(self.id, self.signal()),
        };
        mem::forget(self);
    }

    /// Makes the thread run one instruction, and waits for it. The returned stop has the reason of
    /// the old one. SIGSTOP and SIGCONT, which cannot be held back, take effect after that.
    ///
    /// # Errors
    /// The thread ends, or another thread has executed a program in its place; that is
    /// left for the next wait.
    pub fn step(self) -> io::Result<Self> {
        // The kernel reports a step over a system call as a plain SIGTRAP.
        let is_trap = |why| {
            let trap = libc::SIGTRAP;
            why == StopReason::Stepped
                || matches!(why, StopReason::Signal { number, .. } if number == trap)
        };
        self.go_on_until(|id| trace::step(id, 0), is_trap)
            .map(|(stop, _)| stop)
    }

    /// Runs the thread until its next entry into or exit from a system call, or until a trap.
    /// Returns which of them it was. Needs `PTRACE_O_TRACESYSGOOD`.
    ///
    /// # Errors
    /// As for [`Stop::step`].
    pub fn until_call(self) -> io::Result<(Self, StopReason)> {
        let is_there = |why| {
            let trap = libc::SIGTRAP;
            matches!(why, StopReason::Called | StopReason::Stepped)
                || matches!(why, StopReason::Signal { number, .. } if number == trap)
        };
        self.go_on_until(|id| trace::resume_to_call(id, 0), is_there)
    }

    fn go_on_until(
        self,
        go_on: impl Fn(Id) -> io::Result<()>,
        is_there: impl Fn(StopReason) -> bool,
    ) -> io::Result<(Self, StopReason)> {
        let id = self.id;
        let mut stopped = false;
        let reached = loop {
            go_on(id)?;
            let Some(stop) = wait_while_it_goes_on(id)? else {
                mem::forget(self);
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            };
            let reason = stop.why;
            mem::forget(stop);
            if is_there(reason) {
                break reason;
            }
            stopped |= matches!(reason, StopReason::Group | StopReason::Signal { .. });
        };
        // Sending a stop to another user's process needs a privilege: without it the process runs
        // on.
        if stopped
            && let Err(error) = trace::stop_process_of(id)
            && error.raw_os_error() == Some(libc::ESRCH)
        {
            return Err(error);
        }
        Ok((self, reached))
    }

    /// Ends the tracing, and resumes the thread as [`Stop::pass`] does. With `swallow` its signal
    /// is dropped: what it stopped for concerned sbt alone.
    pub fn let_go(self, swallow: bool) {
        let signal = if swallow { 0 } else { self.signal() };
        // If the whole process is stopped, the thread stays stopped by itself.
        let _gone = trace::detach(self.id, signal);
        mem::forget(self);
    }

    const fn signal(&self) -> i32 {
        match self.why {
            StopReason::Signal { number, .. } => number,
            StopReason::Stepped => libc::SIGTRAP,
            _ => 0,
        }
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        // An error means that the thread is being killed.
        let _gone = match self.why {
            StopReason::Group => trace::listen(self.id),
            _ => trace::resume(self.id, self.signal()),
        };
    }
}

#[cfg(test)]
mod tests;
