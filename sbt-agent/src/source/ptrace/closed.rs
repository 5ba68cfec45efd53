//! Opens the memory of new processes that may not be opened, although this memory is a copy with
//! sbt's breakpoints in it.
//!
//! A program may forbid looking into it (`PR_SET_DUMPABLE`), and its forked children inherit that.
//! An ordinary user may not open the memory of such a process, but a tracer may change its
//! registers. So the tracer makes the process allow the look itself, before its first instruction,
//! and forbid it again as soon as the memory is open.

use super::{inject, stop::Stop};
use sbt_program::{arch::Registers, process};

/// The result of `PR_GET_DUMPABLE` for a process whose memory may be read.
const OPEN: u64 = 1;

/// System calls by which a new thread or process begins.
const BEGINNINGS: [libc::c_long; 4] = [
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_fork,
    libc::SYS_vfork,
];

/// Address of the system call instruction by which this thread has come into being, if it has run
/// no instruction since.
fn call_of(registers: &Registers) -> Option<u64> {
    let is_new = BEGINNINGS.contains(&registers.system_call()) && registers.result() == 0;
    is_new.then(|| registers.at_system_call())
}

/// Runs `work` while a new process, which has run no instruction yet, is open to the tracer. The
/// returned stop is `None` if the thread has been killed meanwhile. `work` is not run if the
/// process cannot be opened.
pub fn while_open<T>(stop: Stop, work: impl FnOnce() -> T) -> (Option<Stop>, Option<T>) {
    if inject::is_forbidden(stop.id()) {
        return (Some(stop), None);
    }
    let registers = stop.registers().ok();
    let Some((registers, at)) =
        registers.and_then(|registers| Some((registers, call_of(&registers)?)))
    else {
        return (Some(stop), None);
    };
    let prctl = |stop, what: libc::c_int, value| {
        let arguments = [what.unsigned_abs().into(), value, 0, 0, 0, 0];
        inject::call_by_step(stop, &registers, at, (libc::SYS_prctl, arguments))
    };
    // `PR_GET_DUMPABLE` returns a number that the thread would take for the pid of a forked child,
    // if it were let go right then. `PR_SET_DUMPABLE` returns 0, as the fork has.
    let (stop, is_closed) = match process::is_closed(stop.id().cast_unsigned()) {
        Some(is_closed) => (stop, is_closed),
        None => match prctl(stop, libc::PR_GET_DUMPABLE, 0) {
            Ok((stop, before)) => (stop, before != OPEN),
            Err((stop, _)) => return (stop, None),
        },
    };
    // If the process is open, something else may hinder: then `work` tries what it can.
    if !is_closed {
        return (Some(stop), Some(work()));
    }
    let stop = match prctl(stop, libc::PR_SET_DUMPABLE, OPEN) {
        Ok((stop, _)) => stop,
        Err((stop, _)) => return (stop, None),
    };
    let done = work();
    // Restores the flag; or sets a stricter one where the machine lets only root have core dumps
    // (2), which a process cannot set itself.
    match prctl(stop, libc::PR_SET_DUMPABLE, 0) {
        Ok((stop, _)) => (Some(stop), Some(done)),
        Err((stop, _)) => (stop, Some(done)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_just_been_forked_stands_behind_the_call() {
        for (call, result, expected) in [
            (libc::SYS_clone, 0, Some(0x1000)),
            (libc::SYS_fork, 0, Some(0x1000)),
            (libc::SYS_clone3, 0, Some(0x1000)),
            (libc::SYS_vfork, 0, Some(0x1000)),
            // The parent, another call, no call.
            (libc::SYS_clone, 77, None),
            (libc::SYS_mmap, 0, None),
            (-1, 0, None),
        ] {
            let mut registers = Registers::none();
            registers.set_at(0x1002);
            registers.set_system_call(call, result);
            assert_eq!(call_of(&registers), expected, "{call}");
        }
    }
}
