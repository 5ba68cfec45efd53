//! What the kernel does for a debugger (ptrace(2)), as functions.
//!
//! Each but [`seize`] is for the thread that has seized, and most of them for a thread of
//! the target that stands still. Errors are the kernel's: `ESRCH` mostly means that it has
//! ended meanwhile, or runs.

use std::{ffi::CStr, io};

use super::process;

/// Tests end sbt behind any of these calls. What is released has no such thing.
#[cfg(debug_assertions)]
pub mod fault;

/// What the process is called that serves breakpoints for an sbt. Not after sbt: who ends that by
/// its name (`pkill -9 sbt`) would end this one with it, and so the target.
pub const SERVER: &CStr = c"breakpoints";

/// Whether a process is called so.
pub fn is_server(process: u32) -> bool {
    let name = process::text(format!("/proc/{process}/comm"));
    name.is_ok_and(|name| name.trim_end().as_bytes() == SERVER.to_bytes())
}

/// A thread, as sbt's own pid namespace numbers it.
pub type Id = libc::pid_t;

/// The general registers of x86-64.
pub type Registers = libc::user_regs_struct;

/// `PTRACE_EVENT_STOP`: the stop that was asked for, that of a thread which begins, or that
/// by a signal such as SIGSTOP.
pub const EVENT_STOP: i32 = 128;

/// `NT_PRSTATUS`: the general registers.
const GENERAL: usize = 1;

/// `NT_X86_XSTATE`: all registers of the XSAVE area, in the standard format.
const EXTENDED: usize = 0x202;

/// `PTRACE_GET_RSEQ_CONFIGURATION`, from Linux 5.13 on.
const GET_RSEQ: Request = 0x420f;

/// All signals, as a mask of the kernel's own.
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

/// Lets one go on, with a signal or 0.
pub fn resume(id: Id, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, id, 0, number(signal))
}

/// Lets one go on for one instruction, with a signal or 0.
pub fn step(id: Id, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SINGLESTEP, id, 0, number(signal))
}

/// Lets one go on until it calls the kernel or comes back from there, with a signal or 0.
pub fn resume_to_call(id: Id, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, id, 0, number(signal))
}

/// Leaves one stopped that a signal such as SIGSTOP has stopped, until another lets it go on.
pub fn listen(id: Id) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, id, 0, 0)
}

/// Traces one no longer, and lets it go on, with a signal or 0.
pub fn detach(id: Id, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, id, 0, number(signal))
}

/// Has the process of a thread stopped, as by a user.
pub fn stop_process_of(id: Id) -> io::Result<()> {
    // SAFETY: numbers only.
    let result = unsafe { libc::syscall(libc::SYS_tkill, id, libc::SIGSTOP) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Whether one is a thread of a process. Needs no file.
pub fn is_thread_of(process: u32, id: Id) -> bool {
    // SAFETY: numbers only; no signal is sent.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, process, id, 0) };
    // Whether one may send it signals, as others' only with a privilege, is asked after that.
    result == 0 || io::Error::last_os_error().kind() == io::ErrorKind::PermissionDenied
}

/// The registers of one that stands.
pub fn registers(id: Id) -> io::Result<Registers> {
    let mut registers = no_registers();
    let mut room = libc::iovec {
        iov_base: (&raw mut registers).cast(),
        iov_len: size_of::<Registers>(),
    };
    let address = (&raw mut room).expose_provenance();
    request(libc::PTRACE_GETREGSET, id, GENERAL, address)?;
    if room.iov_len != size_of::<Registers>() {
        // That of a 32-bit program.
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(registers)
}

/// Registers that hold nothing.
pub const fn no_registers() -> Registers {
    // SAFETY: a structure of numbers, for which zeros are values.
    unsafe { std::mem::zeroed() }
}

/// Them as words, to compare.
pub const fn words(registers: Registers) -> [u64; size_of::<Registers>() / 8] {
    // SAFETY: a structure of words alone.
    unsafe { std::mem::transmute(registers) }
}

/// A system call that has ended with `EINTR` only because its thread was asked to stop begins
/// again, as most do by themselves (signal(7) names the others); whether it is one. If a
/// signal has come as well, and the program handles it, the call ends as it would have. A time
/// limit that is not a moment counts anew.
pub fn begin_again(registers: &mut Registers) -> bool {
    /// `ERESTARTNOHAND` (linux/errno.h): what the kernel does of itself with other calls.
    const UNLESS_HANDLED: i64 = 514;
    let is_in_call = registers.orig_rax.cast_signed() >= 0;
    let is_interrupted = registers.rax.cast_signed() == -i64::from(libc::EINTR);
    if is_in_call && is_interrupted {
        registers.rax = (-UNLESS_HANDLED).cast_unsigned();
    }
    is_in_call && is_interrupted
}

/// Changes them.
pub fn set_registers(id: Id, registers: &Registers) -> io::Result<()> {
    let mut registers = *registers;
    let mut room = libc::iovec {
        iov_base: (&raw mut registers).cast(),
        iov_len: size_of::<Registers>(),
    };
    let address = (&raw mut room).expose_provenance();
    request(libc::PTRACE_SETREGSET, id, GENERAL, address)
}

/// The XSAVE area of one that stands: floating point, vectors, tiles.
pub fn extended_registers(id: Id) -> io::Result<Vec<u8>> {
    /// Larger than the area of any processor, bytes.
    const MOST: usize = 64 << 10;
    let mut area = vec![0_u8; MOST];
    let mut room = libc::iovec {
        iov_base: area.as_mut_ptr().cast(),
        iov_len: MOST,
    };
    let address = (&raw mut room).expose_provenance();
    request(libc::PTRACE_GETREGSET, id, EXTENDED, address)?;
    area.truncate(room.iov_len);
    Ok(area)
}

/// Where a thread that stands keeps its restartable sequences (rseq(2)); `None` if it has none,
/// or the kernel does not tell.
pub fn restartable_sequences(id: Id) -> Option<u64> {
    // `struct ptrace_rseq_configuration` (linux/ptrace.h): the address comes first.
    let mut told = [0_u64; 3];
    let address = (&raw mut told).expose_provenance();
    request(GET_RSEQ, id, size_of_val(&told), address).ok()?;
    (told[0] != 0).then_some(told[0])
}

/// Eight bytes of the memory of one that stands.
pub fn peek(id: Id, address: u64) -> io::Result<u64> {
    let mut word = 0_u64;
    let from = usize::try_from(address).map_err(io::Error::other)?;
    // Not by the C library, which gives the word in the place of an error.
    // SAFETY: the kernel writes the word into a number of ours.
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

/// Changes them, also where the program may not.
pub fn poke(id: Id, address: u64, word: u64) -> io::Result<()> {
    let to = usize::try_from(address).map_err(io::Error::other)?;
    let word = usize::try_from(word).map_err(io::Error::other)?;
    request(libc::PTRACE_POKEDATA, id, to, word)
}

/// Who has ended, and by which signal, of whom a SIGCHLD tells at which one stands, by the number
/// that the thread knows it by; `None` if none has.
pub fn ended_by_signal(id: Id) -> Option<(Id, i32)> {
    // SAFETY: a structure of numbers, for which zeros are values.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let address = (&raw mut info).expose_provenance();
    request(libc::PTRACE_GETSIGINFO, id, 0, address).ok()?;
    let tells = info.si_signo == libc::SIGCHLD
        && matches!(info.si_code, libc::CLD_KILLED | libc::CLD_DUMPED);
    // SAFETY: they are fields of what the kernel tells with such a signal.
    tells.then(|| unsafe { (info.si_pid(), info.si_status()) })
}

/// What belongs to the event at which one stands: mostly the number of another thread.
pub fn message(id: Id) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    let address = (&raw mut message).expose_provenance();
    request(libc::PTRACE_GETEVENTMSG, id, 0, address)?;
    Ok(message)
}

/// Why the signal was sent at which one stands: `si_code`.
pub fn signal_code(id: Id) -> io::Result<i32> {
    // SAFETY: a structure of numbers, for which zeros are values.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let address = (&raw mut info).expose_provenance();
    request(libc::PTRACE_GETSIGINFO, id, 0, address)?;
    Ok(info.si_code)
}

/// Which signals one that stands holds back.
pub fn mask(id: Id) -> io::Result<u64> {
    let mut mask = 0_u64;
    let address = (&raw mut mask).expose_provenance();
    request(libc::PTRACE_GETSIGMASK, id, size_of::<u64>(), address)?;
    Ok(mask)
}

/// Changes that.
pub fn set_mask(id: Id, mask: u64) -> io::Result<()> {
    let address = (&raw const mask).expose_provenance();
    request(libc::PTRACE_SETSIGMASK, id, size_of::<u64>(), address)
}

fn number(signal: i32) -> usize {
    usize::try_from(signal).unwrap_or(0)
}

/// What a request is to the C library that is linked.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
/// Likewise.
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

fn request(what: Request, id: Id, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: requests that take numbers, or the address of room of ours that the kernel
    // fills or reads.
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
        // For most users somebody else's.
        assert!(is_thread_of(1, 1));
        // A number that no thread has.
        assert!(!is_thread_of(own, Id::MAX));
    }
}
