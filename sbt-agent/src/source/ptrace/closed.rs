//! New processes whose memory may not be opened, though it is a copy of one with our
//! breakpoints in it.
//!
//! A program may forbid that anybody looks into it (`PR_SET_DUMPABLE`), and what it forks then
//! is born so. An ordinary user may not open the memory of such a process; but its registers
//! are there for whoever traces it. So it is made to allow the look itself, before its first
//! instruction, and to forbid it again as soon as the memory is open.

use super::{
    inject::{self, LENGTH},
    stop::Stop,
};
use sbt_program::{process, trace::Registers};

/// What `PR_GET_DUMPABLE` says of one that may be looked into.
const OPEN: u64 = 1;

/// What a thread has called that is new.
const BEGINNINGS: [libc::c_long; 4] = [
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_fork,
    libc::SYS_vfork,
];

/// Where the instruction lies by which a process has come into being that has not made one yet.
fn call_of(registers: &Registers) -> Option<u64> {
    let call = registers.orig_rax.cast_signed();
    let is_new = BEGINNINGS.contains(&call) && registers.rax == 0;
    is_new.then(|| registers.rip.wrapping_sub(LENGTH))
}

/// Does something for which a new process must be open, while it is. It has not made an
/// instruction yet. The thread is gone if it has been killed meanwhile; nothing is done if it
/// cannot be opened.
pub fn while_open<T>(stop: Stop, work: impl FnOnce() -> T) -> (Option<Stop>, Option<T>) {
    if inject::is_forbidden(stop.id()) {
        return (Some(stop), None);
    }
    let registers = stop.registers().ok();
    let Some((registers, at)) = registers.and_then(|it| Some((it, call_of(&it)?))) else {
        return (Some(stop), None);
    };
    let prctl = |stop, what: libc::c_int, value| {
        let arguments = [what.unsigned_abs().into(), value, 0, 0, 0, 0];
        inject::call_by_step(stop, &registers, at, (libc::SYS_prctl, arguments))
    };
    // What asks gives a number that the thread would take for a process that it has forked, were it
    // let go right then; what opens and closes gives 0, as the fork has.
    let (stop, is_closed) = match process::is_closed(stop.id().cast_unsigned()) {
        Some(is_closed) => (stop, is_closed),
        None => match prctl(stop, libc::PR_GET_DUMPABLE, 0) {
            Ok((stop, before)) => (stop, before != OPEN),
            Err((stop, _)) => return (stop, None),
        },
    };
    // Something else than this may hinder: then the work tries what else there is.
    if !is_closed {
        return (Some(stop), Some(work()));
    }
    let stop = match prctl(stop, libc::PR_SET_DUMPABLE, OPEN) {
        Ok((stop, _)) => stop,
        Err((stop, _)) => return (stop, None),
    };
    let done = work();
    // As it was; or stricter, where the machine lets root alone have its core, which a process
    // cannot ask for.
    match prctl(stop, libc::PR_SET_DUMPABLE, 0) {
        Ok((stop, _)) => (Some(stop), Some(done)),
        Err((stop, _)) => (stop, Some(done)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_program::trace::no_registers;

    #[test]
    fn who_has_just_been_forked_stands_behind_the_call() {
        for (call, result, expected) in [
            (libc::SYS_clone, 0, Some(0x1000)),
            (libc::SYS_fork, 0, Some(0x1000)),
            (libc::SYS_clone3, 0, Some(0x1000)),
            (libc::SYS_vfork, 0, Some(0x1000)),
            // The one that has forked, another call, none.
            (libc::SYS_clone, 77, None),
            (libc::SYS_mmap, 0, None),
            (-1, 0, None),
        ] {
            let mut registers = no_registers();
            registers.rip = 0x1002;
            (registers.orig_rax, registers.rax) = (call.cast_unsigned(), result);
            assert_eq!(call_of(&registers), expected, "{call}");
        }
    }
}
