//! What the tools of languages tell of threads, where a look does not.

use super::{
    names::View,
    scene::{CallSeen, Doing, Language, WaitFor},
};
use crate::java::JAVA;

/// The beginnings of the names of the functions of Python's interpreter in which a thread waits for a lock of
/// the program.
const PYTHON_LOCKS: [&str; 3] = ["PyThread_acquire_lock", "PyMutex_Lock", "_PyMutex_Lock"];

/// How many of the innermost calls are searched for such a function.
const INNER: usize = 4;

/// Advice for a program whose language has a tool that tells more than a look; empty for others.
pub fn advice(view: &View, process: u32) -> String {
    match view.process(process).and_then(|seen| seen.language) {
        Some(Language::Java) => format!(
            "; `jstack {process}` prints for which lock each thread of Java waits and which thread holds \
             it, and so does the program itself after `kill -QUIT {process}`"
        ),
        Some(Language::Python) => format!(
            "; `py-spy dump --pid {process}` prints the functions of Python that each thread is in"
        ),
        None => String::new(),
    }
}

/// The address of the lock of Python for which a thread waits, if it waits for one.
pub fn python_lock(view: &View, at: usize) -> Option<u64> {
    let seen = view.thread(at);
    let address = match &seen.doing {
        Doing::Waiting(
            WaitFor::Semaphore { address, .. }
            | WaitFor::Condvar { address, .. }
            | WaitFor::Futex { address, .. },
        ) => *address,
        _ => return None,
    };
    let mut inner = seen.stack.iter().take(INNER);
    let is_lock = inner.any(|call| {
        let name = call.function.as_deref().unwrap_or_default();
        PYTHON_LOCKS.iter().any(|begin| name.starts_with(begin))
    });
    is_lock.then_some(address)
}

/// Whether a thread only executes code of libraries, or of a language's runtime, such as the threads that
/// collect garbage for Java.
pub fn is_helper(view: &View, at: usize) -> bool {
    let seen = view.thread(at);
    let of_library = |call: &CallSeen| call.of_system || call.binary == JAVA;
    seen.is_whole && !seen.stack.is_empty() && seen.stack.iter().all(of_library)
}
