//! What SIGPIPE meant when sbt was started. Rust's runtime ignores it before
//! `main`, and what is ignored stays so through exec; the program is to find
//! it as the shell left it.

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Run by the dynamic linker, before the runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = {
    extern "C" fn look() {
        // SAFETY: a structure of integers and a pointer, which the call fills;
        // the call only reads a disposition.
        let ignored = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
        };
        WAS_IGNORED.store(ignored, Ordering::Relaxed);
    }
    look
};

/// Puts it back, in a child that is about to execute its program.
pub fn restore() {
    if !WAS_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: restores a default action.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
}
