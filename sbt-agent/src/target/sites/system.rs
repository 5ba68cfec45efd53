//! Who makes a system call, and what for.

use std::sync::Arc;

use super::{Module, Resolver, SYSCALL};
use crate::{
    model::site::PlaceId,
    place::Frame,
    target::{
        locks::{self, LockKind},
        walks::Owner,
    },
};

/// Who makes a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemCaller {
    /// The program, or a library that is not one of the following.
    Program,
    /// The C library's function for system calls: whoever has called it.
    Syscall,
    /// Another function of the C library, or of a runtime: a mutex, a condition
    /// variable, a barrier that is known in another way.
    Library,
}

/// How the functions of the C library begin that wait on futexes, in a program
/// that they are linked into.
pub(super) const WAITING: [&str; 8] = [
    "pthread_",
    "__pthread_",
    "__lll_",
    "__futex_",
    "futex_",
    "sem_",
    "__new_sem_",
    "__timedwait",
];

impl Resolver {
    /// Whether the call that returns to an address is one of OpenMP's own.
    pub fn is_openmp(&mut self, address: u64) -> bool {
        let found = self.find(address.wrapping_sub(1));
        found.is_some_and(|(module, _)| self.modules[module].file.is_openmp())
    }

    /// Who makes a system call, by the address behind it.
    pub fn system_caller(&mut self, address: u64) -> SystemCaller {
        if !self.walks.follows_system_calls() {
            return SystemCaller::Program;
        }
        let call = address.wrapping_sub(1);
        if self.find(call).is_none() {
            self.refresh();
        }
        let Some((module, vaddr)) = self.find(call).or_else(|| self.find_in_program(call)) else {
            return SystemCaller::Program;
        };
        let frames = self.frames(module, vaddr);
        let name = frames.last().and_then(|frame| frame.function.as_deref());
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

    /// What a wait on a futex is for, if that is a lock, and the place in the program
    /// from which the thread has come to it.
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
            // A function that has left by a jump shows in the call of it only.
            let module = &self.modules[module];
            let number = self.by_id.get(&module.file.id).copied().unwrap_or_default();
            let file = Arc::clone(&module.file);
            let by_call = of_c_library
                .then(|| self.walks.called_by(number, &file, vaddr + 1))
                .flatten();
            // What the compiler has inlined of a library's lock.
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
        // Without the call nobody knows whether it is a lock of the library itself.
        (kind.filter(|kind| *kind != LockKind::Library), None)
    }
}
