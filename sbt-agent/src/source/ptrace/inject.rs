//! System calls that a thread of the target makes for sbt, while it stands in its own code.
//!
//! A call begins with a complete signal frame on the thread's own stack and returns into
//! `rt_sigreturn`. So the thread finds its way back with all of its registers, even if sbt is
//! killed meanwhile.

use std::{fs::File, io, os::unix::fs::FileExt as _};

use super::stop::{Stop, StopReason};
use sbt_program::{
    arch::{InjectionCode, Registers, frame},
    process,
    trace::{self, Id},
};

mod stack;

/// Offset of `rseq_cs` in `struct rseq` (linux/rseq.h), bytes.
const SEQUENCE: u64 = 8;

/// The error where [`InjectionCode`] are missing.
pub const NO_WAYS: &str =
    "the program has no code with which a thread could make a system call and return";

/// The thread, if it still exists, and why the call did not work.
pub type Failed = (Option<Stop>, String);

/// The number of a system call, and its arguments.
pub type Call = (libc::c_long, [u64; 6]);

/// Whether a thread may have a seccomp filter that kills it for a call that it does not make
/// itself.
///
/// Only the number of filters is known, not what they allow. A process that sbt has started has
/// inherited all filters of sbt, as all processes of a container have theirs; so an equal number is
/// taken for the same filters. A process that sbt attaches to may have as many others.
pub fn is_forbidden(thread: Id) -> bool {
    let ours = process::filters(std::process::id());
    is_foreign(process::filters(thread.cast_unsigned()), ours)
}

fn is_foreign(theirs: Option<u32>, ours: Option<u32>) -> bool {
    theirs != Some(0) && (theirs.is_none() || theirs != ours)
}

/// How much code of each mapping is searched for a way into the kernel, bytes.
const SEARCHED: u64 = 4 << 20;

/// Finds code of a process by which a thread can make a system call and get back, in the mapping at
/// `near` first. `is_clean` tells for an address and a length whether no breakpoint lies there.
pub fn ways(
    process: u32,
    memory: &File,
    near: u64,
    is_clean: impl Fn(u64, usize) -> bool,
) -> InjectionCode {
    let mut mappings = process::mappings(process);
    // The C library has such code, and mostly is what is watched.
    mappings.sort_by_key(|mapping| !(mapping.start..mapping.end).contains(&near));
    let mut ways = InjectionCode::default();
    for mapping in mappings {
        let length = (mapping.end - mapping.start).min(SEARCHED);
        let mut code = vec![0; usize::try_from(length).unwrap_or(0)];
        let count = memory.read_at(&mut code, mapping.start).unwrap_or(0);
        ways.add(&code[..count], mapping.start, &is_clean);
        if ways.call.is_some() && ways.back.is_some() {
            break;
        }
    }
    ways
}

/// Makes a thread do a system call, and stand again where it stood, with these registers and for
/// the same reason. Returns the result of the call. `memory` is the memory of the thread's process.
///
/// # Errors
/// The thread has ended; or it cannot make the call, and is unchanged.
pub fn call(
    stop: Stop,
    registers: &Registers,
    memory: &File,
    ways: InjectionCode,
    call: Call,
) -> Result<(Stop, u64), Failed> {
    match prepare(&stop, registers, memory, ways) {
        Ok(prepared) => prepared.run(stop, registers, memory, call),
        Err(why) => Err((Some(stop), why)),
    }
}

/// A call that is ready to begin: the frame is on the stack.
struct Prepared {
    frame: frame::Frame,
    /// The bytes that were in the frame's place before.
    below: Vec<u8>,
    /// The thread's mask of blocked signals.
    mask: u64,
    /// Address of the instruction that calls the kernel.
    at: u64,
}

fn prepare(
    stop: &Stop,
    registers: &Registers,
    memory: &File,
    ways: InjectionCode,
) -> Result<Prepared, String> {
    let id = stop.id();
    let process = process::of_thread(id.cast_unsigned()).unwrap_or(id.cast_unsigned());
    let ((at, skipped), back) = ways.call.zip(ways.back).ok_or(NO_WAYS)?;
    if process::has_shadow_stack(process) {
        return Err("the processor uses a shadow stack".into());
    }
    if registers.system_call() >= 0 || registers.makes_steps() {
        return Err("the thread is in a system call, or single-steps itself".into());
    }
    let word = |address| {
        let mut bytes = [0; 8];
        let is_read = memory.read_exact_at(&mut bytes, address).is_ok();
        is_read.then(|| u64::from_le_bytes(bytes))
    };
    let sequence = trace::restartable_sequences(id).and_then(|at| word(at + SEQUENCE));
    if sequence.is_some_and(|sequence| sequence != 0) {
        return Err("the thread is in a restartable sequence".into());
    }
    if !stack::is_own(registers, &process::occupied(process), word) {
        return Err(format!(
            "the thread has no stack of its own with {} KiB free",
            stack::FREE >> 10
        ));
    }
    let gone = |error: io::Error| error.to_string();
    let mask = trace::mask(id).map_err(gone)?;
    let area = trace::extended_registers(id)
        .map_err(|error| format!("the thread's vector registers cannot be read: {error}"))?;
    let frame = frame::of(registers, mask, &area, frame::part, (skipped, back))
        .filter(|frame| registers.stack() - frame.at <= stack::FREE)
        .ok_or("the thread's registers do not fit on its stack")?;
    let mut below = vec![0; frame.bytes.len()];
    memory.read_exact_at(&mut below, frame.at).map_err(gone)?;
    trace::write(memory, &frame.bytes, frame.at).map_err(gone)?;
    Ok(Prepared {
        frame,
        below,
        mask,
        at,
    })
}

impl Prepared {
    fn run(
        self,
        stop: Stop,
        registers: &Registers,
        memory: &File,
        (number, arguments): Call,
    ) -> Result<(Stop, u64), Failed> {
        let lost = |error: io::Error| (None, error.to_string());
        let id = stop.id();
        let mut asking = registers.calling(self.at, number, &arguments);
        asking.set_stack(self.frame.at);
        stop.set_registers(&asking).map_err(lost)?;
        // No signal may come in between: its handler would see registers that are not the
        // program's. The mask is set after the registers, since the frame restores the thread's own
        // mask. SIGTRAP stays possible: a thread that blocks it and gets a trap is killed.
        let all = trace::ALL_SIGNALS & !(1 << (libc::SIGTRAP - 1));
        trace::set_mask(id, all).map_err(lost)?;
        let stop = stop.until_call().map_err(lost)?;
        let (mut stop, mut result) = (stop, None);
        if stop.1 == StopReason::Called {
            // Out of the call, into `rt_sigreturn`, and out of that.
            let back = stop.0.until_call().map_err(lost)?;
            let after = back.0.registers().map_err(lost)?;
            result = after.result_of_call_at(self.at);
            let asks = back.0.until_call().map_err(lost)?;
            stop = asks.0.until_call().map_err(lost)?;
        }
        let stop = stop.0;
        let now = stop.registers().map_err(lost)?;
        let is_back = now.words() == registers.words();
        if !is_back {
            stop.set_registers(registers).map_err(lost)?;
            trace::set_mask(id, self.mask).map_err(lost)?;
        }
        // Restores the bytes below the stack: a conservative garbage collector may look at old
        // words.
        let _gone = trace::write(memory, &self.below, self.frame.at);
        match result.filter(|_| is_back) {
            Some(result) => Ok((stop, result)),
            None => Err((Some(stop), "the thread did not make the system call".into())),
        }
    }
}

/// Makes a thread whose memory cannot be written do a system call by the instruction at `at`, which
/// the thread has just run, and stand again where it stood.
///
/// If sbt is killed meanwhile, nothing restores the thread. So the result should equal that of the
/// thread's own call: then only two registers differ, both of them arguments of a call.
///
/// # Errors
/// The thread has ended, or did not reach the call.
pub fn call_by_step(
    stop: Stop,
    registers: &Registers,
    at: u64,
    (number, arguments): Call,
) -> Result<(Stop, u64), Failed> {
    let lost = |error: io::Error| (None, error.to_string());
    let id = stop.id();
    // No signal may come in between but that of the step: if SIGTRAP were blocked, the kernel would
    // forget how the program handles it.
    let all = trace::ALL_SIGNALS & !(1 << (libc::SIGTRAP - 1));
    let masked = trace::mask(id).and_then(|mask| {
        trace::set_mask(id, all)?;
        Ok(mask)
    });
    let mask = match masked {
        Ok(mask) => mask,
        Err(error) => return Err((Some(stop), error.to_string())),
    };
    // The others are not used, and stay as they are.
    let asking = registers.calling(at, number, &arguments[..2]);
    stop.set_registers(&asking).map_err(lost)?;
    let stop = stop.step().map_err(lost)?;
    let after = stop.registers().map_err(lost)?;
    stop.set_registers(registers).map_err(lost)?;
    trace::set_mask(id, mask).map_err(lost)?;
    match after.result_of_call_at(at) {
        Some(result) => Ok((stop, result)),
        None => Err((Some(stop), "the thread did not make the system call".into())),
    }
}

#[cfg(test)]
mod tests;
