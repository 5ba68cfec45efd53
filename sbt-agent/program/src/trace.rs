//! The requests of ptrace(2), as functions.
//!
//! Except for [`seize`], each is for the thread that has seized the target's thread, and most
//! require that the target's thread stands still. Errors are the kernel's: `ESRCH` mostly means
//! that the target's thread has ended meanwhile, or runs.

use std::{ffi::CStr, fs::File, io, os::unix::fs::FileExt as _};

use super::{
    arch::{OTHER_REGISTERS, Registers},
    process,
};

/// Lets tests kill sbt after any of these calls. Release builds do not contain this module.
#[cfg(debug_assertions)]
pub mod fault;

/// The name of the process that serves breakpoints for an sbt. The name is not "sbt": `pkill -9
/// sbt` would otherwise end the server as well, and with it the target.
pub const SERVER: &CStr = c"breakpoints";

/// Whether a process has that name.
pub fn is_server(process: u32) -> bool {
    let name = process::text(format!("/proc/{process}/comm"));
    name.is_ok_and(|name| name.trim_end().as_bytes() == SERVER.to_bytes())
}

/// The id of a thread, in sbt's own pid namespace.
pub type Id = libc::pid_t;

/// `PTRACE_EVENT_STOP`: the stop after [`interrupt`], the first stop of a new thread, or the stop
/// by a signal such as SIGSTOP.
pub const EVENT_STOP: i32 = 128;

/// `NT_PRSTATUS`: the general registers.
const GENERAL: usize = 1;

/// `PTRACE_GET_RSEQ_CONFIGURATION`, from Linux 5.13 on.
const GET_RSEQ: Request = 0x420f;

/// All signals, as a mask in the kernel's format.
pub const ALL_SIGNALS: u64 = u64::MAX;

/// Traces a thread from now on, without stopping it. `options`: some of `PTRACE_O_*`.
pub fn seize(id: Id, options: libc::c_int) -> io::Result<()> {
    let options = usize::try_from(options).map_err(io::Error::other)?;
    request(libc::PTRACE_SEIZE, id, 0, options)
}

/// Asks a thread to stop.
pub fn interrupt(id: Id) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, id, 0, 0)
}

/// Lets a thread go on, with a signal or 0.
pub fn resume(id: Id, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, id, 0, number(signal))
}

/// Lets a thread execute one instruction, with a signal or 0.
pub fn step(id: Id, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SINGLESTEP, id, 0, number(signal))
}

/// Lets a thread go on until it enters or leaves a system call, with a signal or 0.
pub fn resume_to_call(id: Id, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, id, 0, number(signal))
}

/// Leaves a thread stopped that a signal such as SIGSTOP has stopped, until another process
/// continues it.
pub fn listen(id: Id) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, id, 0, 0)
}

/// Ends the tracing of a thread and lets it go on, with a signal or 0.
pub fn detach(id: Id, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, id, 0, number(signal))
}

/// Stops the process of a thread by SIGSTOP, as a user would.
pub fn stop_process_of(id: Id) -> io::Result<()> {
    // SAFETY: numbers only.
    let result = unsafe { libc::syscall(libc::SYS_tkill, id, libc::SIGSTOP) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Whether a thread belongs to a process. Needs no file.
pub fn is_thread_of(process: u32, id: Id) -> bool {
    // SAFETY: numbers only; no signal is sent.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, process, id, 0) };
    // The kernel checks the permission to send signals only after it has found the thread in the
    // process.
    result == 0 || io::Error::last_os_error().kind() == io::ErrorKind::PermissionDenied
}

/// The general registers of a thread that stands still.
pub fn registers(id: Id) -> io::Result<Registers> {
    let mut registers = Registers::none();
    let mut room = libc::iovec {
        iov_base: (&raw mut registers).cast(),
        iov_len: size_of::<Registers>(),
    };
    let address = (&raw mut room).expose_provenance();
    request(libc::PTRACE_GETREGSET, id, GENERAL, address)?;
    if room.iov_len != size_of::<Registers>() {
        // The registers of a 32-bit program.
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(registers)
}

/// Sets the general registers of a thread that stands still.
pub fn set_registers(id: Id, registers: &Registers) -> io::Result<()> {
    let mut registers = *registers;
    let mut room = libc::iovec {
        iov_base: (&raw mut registers).cast(),
        iov_len: size_of::<Registers>(),
    };
    let address = (&raw mut room).expose_provenance();
    request(libc::PTRACE_SETREGSET, id, GENERAL, address)
}

/// The other registers of a thread that stands still, such as those for floating point and vectors,
/// in the kernel's form for this processor.
pub fn extended_registers(id: Id) -> io::Result<Vec<u8>> {
    /// Bytes; larger than the area of any processor.
    const MOST: usize = 64 << 10;
    let mut area = vec![0_u8; MOST];
    let mut room = libc::iovec {
        iov_base: area.as_mut_ptr().cast(),
        iov_len: MOST,
    };
    let address = (&raw mut room).expose_provenance();
    request(libc::PTRACE_GETREGSET, id, OTHER_REGISTERS, address)?;
    area.truncate(room.iov_len);
    Ok(area)
}

/// The address of a thread's restartable sequences (rseq(2)); the thread stands still. `None` if it
/// has none, or if the kernel does not tell.
pub fn restartable_sequences(id: Id) -> Option<u64> {
    // `struct ptrace_rseq_configuration` (linux/ptrace.h): the address comes first.
    let mut told = [0_u64; 3];
    let address = (&raw mut told).expose_provenance();
    request(GET_RSEQ, id, size_of_val(&told), address).ok()?;
    (told[0] != 0).then_some(told[0])
}

/// Reads eight bytes of the memory of a thread that stands still.
pub fn peek(id: Id, address: u64) -> io::Result<u64> {
    let mut word = 0_u64;
    let from = usize::try_from(address).map_err(io::Error::other)?;
    // By a direct call: the C library's function returns the word instead of the error.
    // SAFETY: the kernel writes the word into a number of this function.
    let result = unsafe {
        libc::syscall(
            libc::SYS_ptrace,
            libc::c_long::from(libc::PTRACE_PEEKDATA),
            libc::c_long::from(id),
            from,
            &raw mut word,
        )
    };
    let error = io::Error::last_os_error();
    #[cfg(debug_assertions)]
    fault::called();
    if result < 0 {
        return Err(error);
    }
    Ok(word)
}

/// Writes eight bytes of the memory of a thread that stands still, even where the program may not
/// write.
pub fn poke(id: Id, address: u64, word: u64) -> io::Result<()> {
    let to = usize::try_from(address).map_err(io::Error::other)?;
    let word = usize::try_from(word).map_err(io::Error::other)?;
    request(libc::PTRACE_POKEDATA, id, to, word)
}

/// The process that has ended and the signal that has ended it, if a thread stands at a SIGCHLD
/// that reports such an end; `None` otherwise. The process is numbered as in the thread's pid
/// namespace.
pub fn ended_by_signal(id: Id) -> Option<(Id, i32)> {
    // SAFETY: a structure of numbers, for which zeros are values.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let address = (&raw mut info).expose_provenance();
    request(libc::PTRACE_GETSIGINFO, id, 0, address).ok()?;
    let tells = info.si_signo == libc::SIGCHLD
        && matches!(info.si_code, libc::CLD_KILLED | libc::CLD_DUMPED);
    // SAFETY: the kernel fills these fields for such a signal.
    tells.then(|| unsafe { (info.si_pid(), info.si_status()) })
}

/// The message of the event at which a thread stands: mostly the id of another thread.
pub fn message(id: Id) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    let address = (&raw mut message).expose_provenance();
    request(libc::PTRACE_GETEVENTMSG, id, 0, address)?;
    Ok(message)
}

/// The reason (`si_code`) of the signal at which a thread stands.
pub fn signal_code(id: Id) -> io::Result<i32> {
    // SAFETY: a structure of numbers, for which zeros are values.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let address = (&raw mut info).expose_provenance();
    request(libc::PTRACE_GETSIGINFO, id, 0, address)?;
    Ok(info.si_code)
}

/// The mask of the signals that a thread that stands still blocks.
pub fn mask(id: Id) -> io::Result<u64> {
    let mut mask = 0_u64;
    let address = (&raw mut mask).expose_provenance();
    request(libc::PTRACE_GETSIGMASK, id, size_of::<u64>(), address)?;
    Ok(mask)
}

/// Sets the mask of the signals that a thread that stands still blocks.
pub fn set_mask(id: Id, mask: u64) -> io::Result<()> {
    let address = (&raw const mask).expose_provenance();
    request(libc::PTRACE_SETSIGMASK, id, size_of::<u64>(), address)
}

fn number(signal: i32) -> usize {
    usize::try_from(signal).unwrap_or(0)
}

/// The type of a request in the linked C library (musl).
#[cfg(target_env = "musl")]
type Request = libc::c_int;
/// The type of a request in the linked C library (glibc).
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// Writes into the memory of a process, by its file `mem`.
///
/// # Errors
/// The kernel's.
pub fn write(memory: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    let result = memory.write_all_at(bytes, at);
    #[cfg(debug_assertions)]
    fault::called();
    result
}

fn request(what: Request, id: Id, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: requests take numbers, or the address of a buffer of the caller that the kernel fills
    // or reads.
    let result = unsafe { libc::ptrace(what, id, address, data) };
    let error = io::Error::last_os_error();
    #[cfg(debug_assertions)]
    fault::called();
    if result < 0 {
        return Err(error);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_those_of_their_process() {
        let own = std::process::id();
        let tid = nix::unistd::gettid().as_raw();
        let first = own.cast_signed();
        assert!(is_thread_of(own, tid));
        assert!(is_thread_of(own, first));
        assert!(!is_thread_of(1, tid));
        // For most users a process of another user.
        assert!(is_thread_of(1, 1));
        // A number that no thread has.
        assert!(!is_thread_of(own, Id::MAX));
    }
}
