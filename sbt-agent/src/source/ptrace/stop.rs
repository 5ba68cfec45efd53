//! A thread of the target that stands still, as a value: whoever has it must let it go on,
//! in one way or another, or hand it on. One that is dropped goes on as if nobody had
//! looked, so that no way through the code leaves a thread standing.

use std::{io, mem, thread, time::Duration};

use sbt_program::{
    process,
    trace::{self, Id, Registers},
};

/// Why a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was asked to, or is new and has not begun.
    Asked,
    /// Its whole process was stopped, as by SIGSTOP.
    Group,
    /// It would get a signal. The kernel sent it because of an instruction if `trap`.
    Signal {
        /// Its number.
        number: i32,
        /// It is SIGTRAP for `int3`.
        trap: bool,
    },
    /// It has made one instruction, as it was told to.
    Stepped,
    /// It calls the kernel, or comes back from there: with `PTRACE_O_TRACESYSGOOD`.
    Called,
    /// It has started another thread or process.
    Started {
        /// That one.
        new: Id,
        /// It waits until that gives its memory back.
        borrows: bool,
    },
    /// It has executed a program. The thread that did it bore this number.
    Executed(Id),
    /// It is about to end.
    Ends,
}

/// What stands in the place of a signal's number there.
const CALLED: i32 = libc::SIGTRAP | 0x80;

/// See above.
#[derive(Debug)]
#[must_use = "a thread stands still until it is let go on"]
pub struct Stop {
    id: Id,
    why: Why,
}

/// What is new of a thread.
#[derive(Debug)]
pub enum News {
    /// It stands.
    Stopped(Stop),
    /// It is no more.
    Ended(Id),
}

/// What the kernel has to say next, of any thread that is traced; `None` if there is nothing.
///
/// # Errors
/// `ECHILD`: none is traced.
///
/// A stop by a signal is only looked at: from its being taken notice of on, the kernel would let the
/// thread go on without the signal if the caller were killed. One that has hit a breakpoint would do
/// so amid an instruction, and come to anything; so it ends by the signal instead.
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

/// Waits for one thread: not for a first one that may end before others of its process do.
pub fn wait_for(id: Id) -> io::Result<News> {
    loop {
        if let Some(news) = news(Some(id), 0)? {
            return Ok(news);
        }
    }
}

/// Who is waited for: whom the calling thread traces, of whatever kind, since nobody else can
/// let a thread go on. One that executes a program takes the number of its process's first
/// thread: who traced that one has nobody left then, and another of ours may trace the new one.
const OURS: i32 = libc::__WALL | libc::__WNOTHREAD;

fn news(of: Option<Id>, how: i32) -> io::Result<Option<News>> {
    let mut status = 0;
    let id = loop {
        // Not by a library that has names for signals: there are some that have none.
        // SAFETY: the kernel writes into a number of ours.
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

/// Whether there is anything new, which is left for whoever waits.
const LOOK: i32 = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::WNOHANG;

/// Whether a thread is traced by the calling one, and its end has not been heard of.
pub fn is_ours(id: Id) -> bool {
    !wait(id, LOOK).is_err_and(|error| error.raw_os_error() == Some(libc::ECHILD))
}

/// Waits until a thread stands; `None` if it has ended, which is for its parent to hear: that
/// may be a thread of ours, too.
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

/// The stop of a thread that was seen to stand; `None` if it has been killed in between.
fn stop_of(id: Id) -> io::Result<Option<Stop>> {
    let stands = wait(id, libc::WSTOPPED | libc::WNOHANG)?;
    Ok(stands.map(|(_, status)| Stop {
        id,
        why: why(id, status),
    }))
}

/// For how long a thread is left alone that makes one instruction, the first time, and at most:
/// something may keep it from that.
const LOOK_AFTER: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(5)];

/// Waits until a thread stands after it was let go on. `None` if it ends instead, or another one
/// has executed a program in its place: that is left for whoever waits next.
///
/// The kernel does not tell of the end of a first thread before all others have ended, and those
/// may stand about to end until the caller lets them. So nothing here waits for what it tells.
fn wait_while_it_goes_on(id: Id) -> io::Result<Option<Stop>> {
    let [mut pause, most] = LOOK_AFTER;
    loop {
        match wait(id, LOOK)? {
            Some((libc::CLD_TRAPPED | libc::CLD_STOPPED, status)) => {
                if matches!(why(id, status), Why::Ends | Why::Executed(_)) {
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

/// What is new of one thread, and its status (waitid(2)).
fn wait(id: Id, how: i32) -> io::Result<Option<(i32, i32)>> {
    let news = wait_among(libc::P_PID, id.cast_unsigned(), how)?;
    Ok(news.map(|(_, what, status)| (what, status)))
}

/// The same of any of some threads, and of which.
fn wait_among(
    kind: libc::idtype_t,
    number: libc::id_t,
    how: i32,
) -> io::Result<Option<(Id, i32, i32)>> {
    // SAFETY: a structure of numbers, for which zeros are values.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into a structure of ours.
    while unsafe { libc::waitid(kind, number, &raw mut info, how | OURS) } != 0 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
    // SAFETY: of a structure that is all zeros but for what the kernel wrote for a child.
    let (who, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok((who != 0).then_some((who, info.si_code, status)))
}

/// Why one stands that has left this status for whoever waits.
fn why(id: Id, status: i32) -> Why {
    let message = || Id::try_from(trace::message(id).unwrap_or(0)).unwrap_or(0);
    let number = status & 0xff;
    match status >> 8 {
        0 if number == CALLED => Why::Called,
        0 => signalled(id, number),
        event @ (libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK) => {
            Why::Started {
                new: message(),
                borrows: event == libc::PTRACE_EVENT_VFORK,
            }
        }
        libc::PTRACE_EVENT_EXEC => Why::Executed(message()),
        libc::PTRACE_EVENT_EXIT => Why::Ends,
        trace::EVENT_STOP if number != libc::SIGTRAP => Why::Group,
        _ => Why::Asked,
    }
}

fn signalled(id: Id, number: i32) -> Why {
    let code = if number == libc::SIGTRAP {
        trace::signal_code(id).unwrap_or(0)
    } else {
        0
    };
    if code == libc::TRAP_TRACE {
        return Why::Stepped;
    }
    Why::Signal {
        number,
        trap: code == libc::SI_KERNEL,
    }
}

impl Stop {
    /// Which thread.
    pub const fn id(&self) -> Id {
        self.id
    }

    /// Why it stands.
    pub const fn why(&self) -> Why {
        self.why
    }

    /// It stands for longer: what comes next is not to be that it stands.
    pub fn keep(&self) {
        let _taken_notice_of = wait(self.id, libc::WSTOPPED | libc::WNOHANG);
    }

    /// Whether it stands by something that would not have woken it, were it not traced: what
    /// was asked of it, or a signal, of which nobody knows yet whether it is handled.
    pub const fn interrupts_calls(&self) -> bool {
        match self.why {
            Why::Asked => true,
            Why::Signal { number, trap } => {
                let stops = matches!(
                    number,
                    libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU
                );
                !trap && !stops
            }
            _ => false,
        }
    }

    /// A system call that has ended by this alone begins again: see [`trace::begin_again`].
    pub fn begin_call_again(&self) {
        if self.interrupts_calls()
            && let Ok(mut registers) = self.registers()
            && trace::begin_again(&mut registers)
        {
            let _gone = self.set_registers(&registers);
        }
    }

    /// Whether it is the one that has stopped, and stands there: it may have been killed
    /// meanwhile, and another may have taken its number.
    pub fn is_traced(&self) -> bool {
        let gone = |error: io::Error| error.raw_os_error() == Some(libc::ESRCH);
        // Nothing comes of one that stands, but that it is killed: it stands once more then,
        // about to end.
        !self.registers().is_err_and(gone) && matches!(wait(self.id, LOOK), Ok(None))
    }

    /// Its registers.
    pub fn registers(&self) -> io::Result<Registers> {
        trace::registers(self.id)
    }

    /// Changes them.
    pub fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        trace::set_registers(self.id, registers)
    }

    /// It goes on: with its signal, if it would get one; stopped further, if all of its
    /// process is.
    pub fn pass(self) {
        drop(self);
    }

    /// It goes on, and what it was stopped by was for us alone.
    pub fn resume(self) {
        // An error means that it is being killed.
        let _gone = trace::resume(self.id, 0);
        mem::forget(self);
    }

    /// As [`Stop::pass`], but it stops when it calls the kernel next, or comes back.
    pub fn pass_to_call(self) {
        // An error means that it is being killed.
        let _gone = match self.why {
            Why::Group => trace::listen(self.id),
            _ => trace::resume_to_call(self.id, self.signal()),
        };
        mem::forget(self);
    }

    /// It makes one instruction, and is waited for meanwhile; then it stands for the reason for
    /// which it stood. What comes between and cannot be held back, SIGSTOP and SIGCONT, is done
    /// after.
    ///
    /// # Errors
    /// It ends, or another thread of it has executed a program, which is left for whoever waits
    /// next.
    pub fn step(self) -> io::Result<Self> {
        // The kernel calls a step that was a system call another thing.
        let is_trap = |why| {
            let trap = libc::SIGTRAP;
            why == Why::Stepped || matches!(why, Why::Signal { number, .. } if number == trap)
        };
        self.go_on_until(|id| trace::step(id, 0), is_trap)
            .map(|(stop, _)| stop)
    }

    /// The same until it calls the kernel or comes back from there, or a trap is in the way:
    /// which. With `PTRACE_O_TRACESYSGOOD`.
    ///
    /// # Errors
    /// As for [`Stop::step`].
    pub fn until_call(self) -> io::Result<(Self, Why)> {
        let is_there = |why| {
            let trap = libc::SIGTRAP;
            matches!(why, Why::Called | Why::Stepped)
                || matches!(why, Why::Signal { number, .. } if number == trap)
        };
        self.go_on_until(|id| trace::resume_to_call(id, 0), is_there)
    }

    fn go_on_until(
        self,
        go_on: impl Fn(Id) -> io::Result<()>,
        is_there: impl Fn(Why) -> bool,
    ) -> io::Result<(Self, Why)> {
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
            stopped |= matches!(reason, Why::Group | Why::Signal { .. });
        };
        // Others' may not be sent one without a privilege: then it is not stopped.
        if stopped
            && let Err(error) = trace::stop_process_of(id)
            && error.raw_os_error() == Some(libc::ESRCH)
        {
            return Err(error);
        }
        Ok((self, reached))
    }

    /// It is traced no longer, and goes on as with [`Stop::pass`], but for `swallow`: then
    /// what it was stopped by was for us alone.
    pub fn let_go(self, swallow: bool) {
        let signal = if swallow { 0 } else { self.signal() };
        // What stopped the whole process stops the thread further, by itself.
        let _gone = trace::detach(self.id, signal);
        mem::forget(self);
    }

    const fn signal(&self) -> i32 {
        match self.why {
            Why::Signal { number, .. } => number,
            Why::Stepped => libc::SIGTRAP,
            _ => 0,
        }
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        // An error means that it is being killed.
        let _gone = match self.why {
            Why::Group => trace::listen(self.id),
            _ => trace::resume(self.id, self.signal()),
        };
    }
}

#[cfg(test)]
mod tests;
