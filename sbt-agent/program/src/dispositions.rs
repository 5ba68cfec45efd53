//! What signals meant when sbt was started: what is ignored stays so through exec, and the
//! program is to find it as its caller left it.
//!
//! Rust's runtime ignores SIGPIPE before `main`. SIGXFSZ, which ends whoever writes beyond a limit
//! for files, is ignored here: the write fails then, as on a full disk. Who is started by one that ignores SIGCHLD, as
//! some daemons and batch systems do, would have no children to wait for: the kernel keeps
//! nothing of those that end.

use std::sync::atomic::{AtomicBool, Ordering};

use libc::{SIG_DFL, SIG_IGN, SIGCHLD, SIGPIPE, SIGXFSZ};

static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static CHILD_IGNORED: AtomicBool = AtomicBool::new(false);
static SIZE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Run by the dynamic linker, before the runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = {
    extern "C" fn look() {
        PIPE_IGNORED.store(is_ignored(SIGPIPE), Ordering::Relaxed);
        SIZE_IGNORED.store(is_ignored(SIGXFSZ), Ordering::Relaxed);
        set(SIGXFSZ, SIG_IGN);
        let child_ignored = is_ignored(SIGCHLD);
        CHILD_IGNORED.store(child_ignored, Ordering::Relaxed);
        if child_ignored {
            set(SIGCHLD, SIG_DFL);
        }
    }
    look
};

fn is_ignored(signal: i32) -> bool {
    // SAFETY: a structure of integers and a pointer, which the call fills; the call
    // only reads a disposition.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == SIG_IGN
    }
}

fn set(signal: i32, to: libc::sighandler_t) {
    // SAFETY: no function of ours is called by it.
    unsafe { libc::signal(signal, to) };
}

/// Puts them back, in a child that is about to execute its program. Nothing but system calls,
/// as is fit for a child of a process with threads.
pub fn restore() {
    if !PIPE_IGNORED.load(Ordering::Relaxed) {
        set(SIGPIPE, SIG_DFL);
    }
    if !SIZE_IGNORED.load(Ordering::Relaxed) {
        set(SIGXFSZ, SIG_DFL);
    }
    if CHILD_IGNORED.load(Ordering::Relaxed) {
        set(SIGCHLD, SIG_IGN);
    }
}
