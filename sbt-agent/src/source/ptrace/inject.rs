//! System calls that a thread of the target makes for us, while it stands in its own code.

use std::io;

use super::stop::Stop;
use crate::target::{
    process,
    trace::{self, Registers},
};

/// The length of the instruction that calls the kernel, bytes.
pub const LENGTH: u64 = 2;

/// The thread, if it is there still, and why it did not work.
pub type Failed = (Option<Stop>, String);

/// Whether a process has a filter that might end it for a call that it does not make itself. One
/// that we have as well, as all of a container have, lets it be.
pub fn is_forbidden(process: u32) -> bool {
    process::filters(process) > process::filters(std::process::id())
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
