//! Follows a process while it loads its program: libraries lie at other addresses each time, and
//! their places must be watched before the first barrier.
//!
//! The process is traced only that long. It stops at its system calls, as those that map libraries,
//! and then what it has mapped is watched. At the first system call that does not come from the
//! dynamic linker, the program runs, and is let go for good. Nothing is written into its memory: if
//! sbt ends meanwhile, the kernel lets the process go on.
//!
//! Tracing belongs to a thread. This is a separate thread, and all that it traces is let go when it
//! ends, in whatever way.

use std::{
    fs, io,
    sync::{Arc, Mutex, PoisonError, mpsc},
};

use super::watch::Watch;
use crate::source::ptrace::stop::{self, Stop, StopReason};
use sbt_program::{
    process,
    trace::{self, Id},
};

/// Options of ptrace: which events stop the process.
const OPTIONS: i32 = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD;

/// `AT_BASE`: the address of the dynamic linker (getauxval(3)).
const BASE: u64 = 7;

/// The note on a program that ran before it could be watched.
pub const LATE: &str = "a newly executed program was already running when sbt began to watch it: \
    its first barriers may be missing; --backend ptrace misses none";

/// Follows a process until its program runs. `held`: it waits before `exec`; otherwise it has
/// executed its program, and is asked to stop. Returns when the process is traced.
///
/// # Errors
/// The process may not be traced, or has ended.
pub fn follow(process: u32, held: bool, watch: Arc<Mutex<Watch>>) -> io::Result<()> {
    let id = Id::try_from(process).map_err(io::Error::other)?;
    let (tell, told) = mpsc::channel();
    let traced = move || {
        let seized = trace::seize(id, OPTIONS)
            .and_then(|()| if held { Ok(()) } else { trace::interrupt(id) });
        let works = seized.is_ok();
        // The caller waits for this.
        let _unheard = tell.send(seized);
        if works {
            // Fails at most if the process has ended.
            let _gone = load(id, held, &watch);
        }
    };
    std::thread::Builder::new()
        .name("sbt-load".into())
        .spawn(traced)?;
    told.recv()
        .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

fn load(id: Id, mut held: bool, watch: &Mutex<Watch>) -> io::Result<()> {
    let process = id.cast_unsigned();
    let mut linker = None;
    while let Some(stop) = stop::wait_until_it_stands(id)? {
        let watch = || watch.lock().unwrap_or_else(PoisonError::into_inner);
        let is_linker = |stop: &Stop, linker: Option<(u64, u64)>| {
            let (Some((from, until)), Ok(registers)) = (linker, stop.registers()) else {
                return false;
            };
            (from..until).contains(&registers.at())
        };
        match stop.why() {
            // A signal has stopped it before `exec`, and it goes on.
            StopReason::Asked if held => stop.pass(),
            StopReason::Executed(_) | StopReason::Asked => {
                held = false;
                linker = linker_of(process);
                // If not, another thread has executed a program meanwhile, which is followed next.
                if !watch().begin_program(process, || stop.is_traced()) {
                    return Ok(());
                }
                if !is_linker(&stop, linker) {
                    if stop.why() == StopReason::Asked {
                        watch().note(LATE);
                    }
                    stop.begin_call_again();
                    stop.let_go(true);
                    return Ok(());
                }
                stop.pass_to_call();
            }
            StopReason::Called => {
                if !is_linker(&stop, linker) {
                    watch().try_to_place(process);
                    stop.let_go(true);
                    return Ok(());
                }
                let call = stop
                    .registers()
                    .map_or(-1, |registers| registers.system_call());
                if call == libc::SYS_mmap {
                    watch().try_to_place(process);
                }
                stop.pass_to_call();
            }
            _ if held => stop.pass(),
            _ => stop.pass_to_call(),
        }
    }
    Ok(())
}

/// First address and end of the dynamic linker's code in a process; `None` if there is none.
pub fn linker_of(process: u32) -> Option<(u64, u64)> {
    let vector = fs::read(process::folder(process).join("auxv")).ok()?;
    let base = base(&vector)?;
    let mappings = process::mappings(process).into_iter();
    let mapping = mappings
        .filter(|mapping| mapping.start >= base)
        .min_by_key(|mapping| mapping.start)?;
    Some((mapping.start, mapping.end))
}

/// The address of the dynamic linker by the auxiliary vector.
fn base(vector: &[u8]) -> Option<u64> {
    let (words, _) = vector.as_chunks::<8>();
    let (pairs, _) = words.as_chunks::<2>();
    let mut pairs = pairs.iter().map(|pair| pair.map(u64::from_ne_bytes));
    let [_, base] = pairs.find(|[name, _]| *name == BASE)?;
    (base != 0).then_some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linker_is_where_the_kernel_says() {
        let vector = |words: &[u64]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        assert_eq!(base(&vector(&[3, 7, 7, 0x7000, 0, 0])), Some(0x7000));
        assert_eq!(base(&vector(&[3, 7, 7, 0, 0, 0])), None, "a static program");
        assert_eq!(base(&vector(&[3, 7, 7])), None);
        assert_eq!(base(&[]), None);
    }
}
