//! Follows a process while it loads its program, so that its first barrier is noted already.
//!
//! The process is traced only that long. It stops at its system calls, as those that map libraries.
//! When a call of the dynamic linker has ended, what is mapped by then gets its places: the process
//! has a single thread, which runs none of the code that is changed. At the first call that does not
//! come from the dynamic linker, the program runs, and is let go for good.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, mpsc},
};

use super::watch::Watch;
use crate::source::{
    perf::load::linker_of,
    ptrace::stop::{self, Stop, StopReason},
};
use sbt_program::trace::{self, Id};

/// Options of ptrace: which events stop the process.
const OPTIONS: i32 = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD;

/// The note on a program that ran before it could be watched.
const LATE: &str = "a newly executed program was already running when sbt began to watch it: its \
    first barriers may be missing; --backend ptrace misses none";

/// Follows a process until its program runs. `held`: it waits before `exec`; otherwise it has executed
/// its program, and is asked to stop. Returns when the process is traced.
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
        watch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_loaded();
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
    // Whether the next stop at a system call is at its end.
    let mut is_in_call = false;
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
            why @ (StopReason::Executed(_) | StopReason::Asked) => {
                held = false;
                linker = linker_of(process);
                watch().begin_program();
                if !is_linker(&stop, linker) {
                    if why == StopReason::Asked {
                        watch().note(LATE);
                        let _rest = watch().place(vec![stop]);
                    } else {
                        // There is no dynamic linker.
                        stop.let_go(true);
                    }
                    return Ok(());
                }
                // `exec` itself is a call that has not ended yet.
                is_in_call = matches!(why, StopReason::Executed(_));
                stop.pass_to_call();
            }
            StopReason::Called => {
                let has_ended = is_in_call;
                is_in_call = !is_in_call;
                if !is_linker(&stop, linker) {
                    stop.let_go(true);
                    return Ok(());
                }
                let is_mapping = stop
                    .registers()
                    .is_ok_and(|registers| registers.system_call() != libc::SYS_read);
                let stop = if has_ended && is_mapping {
                    let mut stops = watch().place_standing(vec![stop]);
                    match stops.pop() {
                        Some(stop) => stop,
                        // The process has ended meanwhile.
                        None => return Ok(()),
                    }
                } else {
                    stop
                };
                stop.pass_to_call();
            }
            _ if held => stop.pass(),
            _ => stop.pass_to_call(),
        }
    }
    Ok(())
}
