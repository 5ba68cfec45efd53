//! Follows a process while it loads its program: libraries lie at other addresses each time, and
//! their places must be watched before the first barrier.
//!
//! The process is traced only that long. It stops at its system calls, as those that map libraries,
//! and then what it has mapped is watched: the process has a single thread, which runs none of that
//! code. At the first system call that does not come from the dynamic linker, the program runs, and
//! is let go for good. If sbt ends meanwhile, the kernel lets the process go on.
//!
//! Tracing belongs to a thread. This is a separate thread, and all that it traces is let go when it
//! ends, in whatever way.

use std::{
    fs, io,
    sync::{Arc, Mutex, mpsc},
};

use super::{
    polled::{Polling, lock},
    ptrace::stop::{self, Stop, StopReason},
};
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
pub fn follow(process: u32, held: bool, watch: Arc<Mutex<impl Polling>>) -> io::Result<()> {
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
        lock(&watch).is_loaded();
    };
    std::thread::Builder::new()
        .name("sbt-load".into())
        .spawn(traced)?;
    told.recv()
        .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

fn load(id: Id, mut held: bool, watch: &Mutex<impl Polling>) -> io::Result<()> {
    let process = id.cast_unsigned();
    let mut linker = None;
    // Whether the next stop at a system call is at its end.
    let mut is_in_call = false;
    while let Some(stop) = stop::wait_until_it_stands(id)? {
        let is_linker = |stop: &Stop, linker: Option<(u64, u64)>| {
            let (Some((from, until)), Ok(registers)) = (linker, stop.registers()) else {
                return false;
            };
            (from..until).contains(&registers.at())
        };
        match stop.why() {
            // A signal has stopped it before `exec`, and it goes on.
            StopReason::Asked if held => stop.pass(),
            why @ (StopReason::Executed(_) | StopReason::Asked) => {
                held = false;
                linker = linker_of(process);
                let mut watch = lock(watch);
                if !watch.begin_program(process, &stop) {
                    return Ok(());
                }
                if !is_linker(&stop, linker) {
                    if why == StopReason::Asked {
                        watch.note(LATE);
                    }
                    watch.let_run(process, stop);
                    return Ok(());
                }
                // `exec` itself is a call that has not ended yet.
                is_in_call = matches!(why, StopReason::Executed(_));
                stop.pass_to_call();
            }
            StopReason::Called => {
                let has_ended = is_in_call;
                is_in_call = !is_in_call;
                let mut watch = lock(watch);
                if !is_linker(&stop, linker) {
                    watch.let_run(process, stop);
                    return Ok(());
                }
                let Some(stop) = watch.called(process, stop, has_ended) else {
                    return Ok(());
                };
                stop.pass_to_call();
            }
            _ if held => stop.pass(),
            _ => stop.pass_to_call(),
        }
    }
    Ok(())
}

/// First address and end of the dynamic linker's code in a process; `None` if there is none.
fn linker_of(process: u32) -> Option<(u64, u64)> {
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
