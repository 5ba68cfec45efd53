//! The code that makes a system call, and the purpose of the call.

use super::{Module, Resolver, relation::is_condition_of_c};
use crate::syscalls::SYSCALL;
use crate::{locks, point::Function, walks::Owner};
use sbt_engine::{
    model::ids::PlaceId,
    place::{Frame, LockKind},
};

/// The kind of code that makes a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemCaller {
    /// The program, or a library that is not one of the following.
    Program,
    /// The C library's function for system calls: its caller counts.
    Syscall,
    /// Another function of the C library, or of a runtime: a mutex, a condition variable, or a
    /// barrier that is known in another way.
    Library,
}

/// Prefixes of the C library's functions that wait on futexes, for programs that they are linked
/// into.
pub(super) const WAITING: [&str; 10] = [
    "pthread_",
    "__pthread_",
    "__lll_",
    "__futex_",
    "futex_",
    "sem_",
    "__new_sem_",
    "__timedwait",
    "__syscall_cp",
    "__wait",
];

/// The functions that wait for a condition, without leading underscores and without a trailing 64.
const WAITING_FOR_CONDITIONS: [&str; 4] = [
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "pthread_cond_wait_common",
];

/// The prefix of the functions that these functions are split into.
const PARTS_OF_CONDITIONS: &str = "__condvar_";

impl Resolver {
    /// Whether the call that returns to an address is made by the library of OpenMP.
    pub fn is_openmp(&mut self, address: u64) -> bool {
        let found = self.find(address.wrapping_sub(1));
        found.is_some_and(|(module, _)| self.modules[module].file.is_openmp())
    }

    /// The code that makes a system call, by the address behind the call.
    pub fn system_caller(&mut self, address: u64) -> SystemCaller {
        if !self.walks.follows_system_calls() {
            return SystemCaller::Program;
        }
        let Some((module, _, function)) = self.function_of_call(address) else {
            return SystemCaller::Program;
        };
        let name = function
            .as_ref()
            .and_then(|frame| frame.function.as_deref());
        let Module { owner, file, .. } = &self.modules[module];
        let is_runtime = || file.is_runtime() || name.is_some_and(|name| file.is_of_runtime(name));
        let is_waiting = |name: &str| WAITING.iter().any(|begin| name.starts_with(begin));
        match (owner, name) {
            (_, Some(SYSCALL)) => SystemCaller::Syscall,
            (Owner::C, _) => SystemCaller::Library,
            (Owner::User, Some(name)) if file.is_static() && is_waiting(name) => {
                SystemCaller::Library
            }
            _ if is_runtime() => SystemCaller::Library,
            _ => SystemCaller::Program,
        }
    }

    /// Whether the C library itself makes a wake of a condition variable, by the wake's return
    /// address. A thread that gives up waiting when it has just been woken passes the wake on
    /// (glibc `nptl/pthread_cond_wait.c`, `__condvar_cancel_waiting`). Such a wake says nothing
    /// about the program, which has called a wait.
    pub fn is_handed_on(&mut self, address: u64) -> bool {
        let Some((module, vaddr, function)) = self.function_of_call(address) else {
            return false;
        };
        let module = &self.modules[module];
        if !module.file.has(Function::CondWait) {
            return false;
        }
        if module.owner != Owner::C {
            // The C library is linked into a program, so that the file also has the program's own
            // calls.
            let name = function.and_then(|frame| frame.function);
            return name.is_some_and(|name| is_of_waiting(&name));
        }
        // A callback of the program, run by a thread or at exit, may make the wake by a jump as its
        // last action: then the return address lies in the C library, behind an indirect call.
        // C11's functions call those of POSIX in the same library, and count as the program's.
        let is_of_c11 = function.as_ref().is_some_and(is_condition_of_c);
        module.is_after_direct_call(vaddr + 1) && !is_of_c11
    }

    /// The file, the address in it and the outermost function of the call that returns to an
    /// address.
    fn function_of_call(&mut self, address: u64) -> Option<(usize, u64, Option<Frame>)> {
        let call = address.wrapping_sub(1);
        if self.find(call).is_none() {
            self.refresh();
        }
        let (module, vaddr) = self.find(call).or_else(|| self.find_in_program(call))?;
        let function = self.frames(module, vaddr).last().cloned();
        Some((module, vaddr, function))
    }

    /// The kind of lock that a wait on a futex is for, if it is for one, and the place in the
    /// program from which the thread has come to the wait.
    pub fn lock(&mut self, addresses: &[u64]) -> (Option<LockKind>, Option<PlaceId>) {
        // The function of a library that the program has called.
        let mut called: Option<String> = None;
        let mut of_c_library = false;
        for (depth, address) in addresses.iter().enumerate() {
            let call = address.wrapping_sub(1);
            let made_by = self.system_caller(*address);
            let Some((module, vaddr)) = self.find(call).or_else(|| self.find_in_program(call))
            else {
                break;
            };
            let frames = self.frames(module, vaddr);
            let is_library = made_by == SystemCaller::Library
                || !frames.is_empty() && frames.iter().all(Frame::is_of_library);
            if made_by == SystemCaller::Syscall || is_library {
                of_c_library |= made_by == SystemCaller::Library;
                if is_library {
                    called = frames.last().and_then(|frame| frame.function.clone());
                }
                continue;
            }
            // A function that has left by a jump is known only from its call.
            let module = &self.modules[module];
            let by_call = of_c_library.then(|| module.called_by(vaddr + 1)).flatten();
            // The inlined parts of a library's lock.
            let inlined = frames.iter().filter(|frame| frame.is_of_library());
            let names = by_call
                .into_iter()
                .chain(called)
                .chain(inlined.filter_map(|frame| frame.function.clone()));
            let mut kinds = names.map(|name| locks::of_function(&name, of_c_library));
            let kind = kinds.next().flatten();
            return (kind, Some(self.place(&addresses[depth..])));
        }
        let kind = called.and_then(|name| locks::of_function(&name, of_c_library));
        // Without the call it is unknown whether the lock belongs to the library itself.
        (kind.filter(|kind| *kind != LockKind::Library), None)
    }
}

/// Whether a function of the C library waits for conditions, or is a part of such a function.
fn is_of_waiting(name: &str) -> bool {
    let plain = name.trim_start_matches('_').trim_end_matches("64");
    name.starts_with(PARTS_OF_CONDITIONS) || WAITING_FOR_CONDITIONS.contains(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_wait_for_conditions_are_not_the_programs() {
        for name in [
            "pthread_cond_wait",
            "___pthread_cond_timedwait64",
            "__pthread_cond_wait_common",
            "__condvar_cancel_waiting",
        ] {
            assert!(is_of_waiting(name), "{name}");
        }
        for name in [
            "condvar_barrier_wait",
            "pthread_cond_barrier",
            "pthread_cond_broadcast",
            "cnd_signal",
        ] {
            assert!(!is_of_waiting(name), "{name}");
        }
    }
}
