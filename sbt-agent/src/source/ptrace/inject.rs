//! System calls that a thread of the target makes for us, while it stands in its own code.

use std::io;

use super::stop::Stop;
use crate::target::{
    process,
    trace::{self, Id, Registers},
};

/// The length of the instruction that calls the kernel, bytes.
pub const LENGTH: u64 = 2;

/// The thread, if it is there still, and why it did not work.
pub type Failed = (Option<Stop>, String);

/// Whether a thread may have a filter that ends it for a call that it does not make itself.
///
/// Only numbers of filters are known, not what they say. A process that sbt has started has all
/// those of sbt, as all of a container have; so as many are taken for the same ones. Who is
/// attached to may have as many others.
pub fn is_forbidden(thread: Id) -> bool {
    let ours = process::filters(std::process::id());
    is_foreign(process::filters(thread.cast_unsigned()), ours)
}

fn is_foreign(theirs: Option<u32>, ours: Option<u32>) -> bool {
    theirs != Some(0) && (theirs.is_none() || theirs != ours)
}

/// Has a thread call the kernel by the instruction at `at`, and stand where it stood, with
/// these registers and for the same reason. Gives what the kernel says.
///
/// # Errors
/// It has ended, or did not come to call.
pub fn call(
    stop: Stop,
    registers: &Registers,
    at: u64,
    (number, arguments): (libc::c_long, [u64; 6]),
) -> Result<(Stop, u64), Failed> {
    let lost = |error: io::Error| (None, error.to_string());
    let id = stop.id();
    // No signal may come between, but that of the step: to have it blocked would have the
    // kernel forget what the program does with it.
    let all = trace::ALL_SIGNALS & !(1 << (libc::SIGTRAP - 1));
    let masked = trace::mask(id).and_then(|mask| {
        trace::set_mask(id, all)?;
        Ok(mask)
    });
    let mask = match masked {
        Ok(mask) => mask,
        Err(error) => return Err((Some(stop), error.to_string())),
    };
    let [rdi, rsi, rdx, r10, r8, r9] = arguments;
    let asking = Registers {
        rip: at,
        rax: number.cast_unsigned(),
        orig_rax: u64::MAX,
        rdi,
        rsi,
        rdx,
        r10,
        r8,
        r9,
        ..*registers
    };
    stop.set_registers(&asking).map_err(lost)?;
    let stop = stop.step().map_err(lost)?;
    let after = stop.registers().map_err(lost)?;
    stop.set_registers(registers).map_err(lost)?;
    trace::set_mask(id, mask).map_err(lost)?;
    if after.rip != at + LENGTH {
        return Err((Some(stop), "it did not call the kernel".into()));
    }
    Ok((stop, after.rax))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_none_and_as_many_filters_as_ours_are_harmless() {
        for (theirs, ours, expected) in [
            (Some(0), Some(0), false),
            (Some(0), Some(2), false),
            (Some(2), Some(2), false),
            (Some(1), Some(0), true),
            // Fewer than ours are others than ours.
            (Some(1), Some(2), true),
            (Some(3), Some(2), true),
            // It has ended, or there is no file left to open.
            (None, Some(0), true),
            (None, None, true),
            (Some(1), None, true),
        ] {
            assert_eq!(is_foreign(theirs, ours), expected, "{theirs:?} {ours:?}");
        }
    }

    #[test]
    fn a_filter_is_that_of_its_thread() {
        let tid = nix::unistd::gettid().as_raw();
        assert!(!is_forbidden(tid));
        let allow_all = libc::sock_filter {
            code: 0x06,
            jt: 0,
            jf: 0,
            k: libc::SECCOMP_RET_ALLOW,
        };
        let filtered = move || {
            let mut all = [allow_all];
            let program = libc::sock_fprog {
                len: 1,
                filter: all.as_mut_ptr(),
            };
            // SAFETY: a program of one instruction, which the kernel copies.
            unsafe {
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                let mode = libc::SECCOMP_MODE_FILTER;
                assert_eq!(
                    libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program),
                    0
                );
            }
            is_forbidden(nix::unistd::gettid().as_raw())
        };
        assert!(std::thread::spawn(filtered).join().unwrap());
        assert!(!is_forbidden(tid));
    }
}
