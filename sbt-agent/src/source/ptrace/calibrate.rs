//! Measures what a breakpoint costs the thread that hits it: how long the thread stands.

use std::{
    arch::asm,
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
};

use nix::unistd::{ForkResult, fork, pipe};

use super::{
    clocks::{self, Usage},
    stop::{News, wait_for},
};
use sbt_program::{
    memory::Memory,
    trace::{self, Id},
};

/// The number of breakpoints that are hit, and how many of the first are not counted.
const HITS: usize = 60;
const FIRST: usize = 10;

/// Measures the cost of one hit with a child process, ns. To be called while this process has only
/// one thread. Errors are the kernel's.
pub fn hit_ns() -> io::Result<f64> {
    let (wait, go) = pipe()?;
    let (result, tell) = pipe()?;
    // SAFETY: no other thread exists, so the child may use what it likes.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop(go);
            drop(result);
            let _unheard = hit_breakpoints(wait, tell);
            // SAFETY: ends the process without running the exit handlers of the parent.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { child } => {
            drop(wait);
            drop(tell);
            let id = child.as_raw();
            let served = trace::seize(id, 0).and_then(|()| {
                File::from(go).write_all(&[0])?;
                serve(id)
            });
            if served.is_err() {
                // SAFETY: numbers only.
                unsafe { libc::kill(id, libc::SIGKILL) };
                let _gone = wait_for(id);
            }
            served?;
            let mut bytes = [0; 8];
            File::from(result).read_exact(&mut bytes)?;
            Ok(u64::from_ne_bytes(bytes) as f64)
        }
    }
}

fn hit_breakpoints(wait: OwnedFd, tell: OwnedFd) -> io::Result<()> {
    File::from(wait).read_exact(&mut [0])?;
    let mut each = [0; HITS];
    for took in &mut each {
        let begun = clocks::now_ns();
        // SAFETY: the tracer takes the signal.
        unsafe { asm!("int3", options(nomem, nostack)) };
        *took = clocks::now_ns().saturating_sub(begun);
    }
    // The median: a hit during which another program gets the CPU takes a thousand times as long.
    let (_, median, _) = each[FIRST..].select_nth_unstable((HITS - FIRST) / 2);
    File::from(tell).write_all(&median.to_ne_bytes())
}

/// Serves each stop as a breakpoint of the target is served.
fn serve(id: Id) -> io::Result<()> {
    let mut usage = Usage::default();
    let process = id.cast_unsigned();
    loop {
        let News::Stopped(stop) = wait_for(id)? else {
            return Ok(());
        };
        if let Ok(registers) = stop.registers() {
            usage.at(process, id, clocks::now_ns());
            let memory = Memory { thread: process };
            let _read = memory.bytes::<16>(registers.stack());
            let _word = memory.word(registers.stack());
            stop.set_registers(&registers)?;
        }
        stop.resume();
    }
}
