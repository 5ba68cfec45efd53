//! The dispositions of signals when sbt was started. An ignored signal stays ignored through exec,
//! and the program must find the dispositions as its caller left them.
//!
//! Rust's runtime ignores SIGPIPE before `main`. SIGXFSZ, which ends a process that writes beyond a
//! limit for files, is ignored here: the write then fails, as on a full disk. Some daemons and
//! batch systems ignore SIGCHLD. A process that inherits this has no children to wait for, because
//! the kernel keeps nothing of children that end; so SIGCHLD is set to its default here.

use std::sync::atomic::{AtomicBool, Ordering};

use libc::{SIG_DFL, SIG_IGN, SIGCHLD, SIGPIPE, SIGXFSZ};

static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static CHILD_IGNORED: AtomicBool = AtomicBool::new(false);
static SIZE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Run by the dynamic linker, before Rust's runtime.
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
    // SAFETY: a structure of integers and a pointer, which the call fills; the call only reads a
    // disposition.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == SIG_IGN
    }
}

fn set(signal: i32, to: libc::sighandler_t) {
    // SAFETY: the disposition is SIG_DFL or SIG_IGN, so that no function of sbt is called.
    unsafe { libc::signal(signal, to) };
}

/// Restores the dispositions, in a child that is about to execute its program. Makes nothing but
/// system calls, as required in a child of a process with threads.
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
