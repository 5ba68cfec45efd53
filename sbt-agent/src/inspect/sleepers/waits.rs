//! The kind of a sleeper's wait, its object and its place, by the system call and the functions of the
//! stack.

use super::super::seen::{InspectedThread, functions, library_calls};
use sbt_engine::{
    event::ThreadId,
    hang::scene::{CallSeen, Doing, Section, WaitFor},
    java,
    looks::{CodePlace, Kind, Wait},
};
use sbt_program::runtimes::{
    python::waits_for_interpreter,
    waits::{Wants, wants},
};

/// The most calls of the program's own code that are kept of a thread.
const MOST_CALLS: usize = 6;

pub(super) fn wait(seen: &InspectedThread, doing: &Doing) -> Wait {
    let functions = functions(seen);
    let names: Vec<&str> = functions
        .iter()
        .map(|(name, _, _)| name.split('@').next().unwrap_or(name))
        .collect();
    let in_runtime = library_calls(seen).any(|call| call.called.runtime.is_some());
    let (kind, object, awaits) = kind(seen, doing, in_runtime);
    let (own, in_library) = calls(seen);
    let inner = own.iter().find_map(|at| at.function.as_deref());
    let by_name = named(kind, &names, wants(&functions))
        .or_else(|| of_python(kind, names.iter().copied().chain(inner)))
        .or_else(|| of_java(kind, own.iter().filter_map(|at| at.function.as_deref())));
    // The mutex of a condition variable is not what the thread waits for.
    let is_other = kind == Kind::Mutex && by_name == Some(Kind::Condvar);
    let object = object.filter(|_| !is_other);
    let of_language = of_language(&functions).filter(|name| match kind {
        Kind::Futex => by_name.is_none(),
        // Some barriers sleep until all have come.
        Kind::Sleep => name.contains("barrier"),
        _ => false,
    });
    let is_semaphore = |name: &String| name.starts_with("std::counting_semaphore");
    let by_name = by_name.or_else(|| {
        let semaphore = of_language.as_ref().filter(|name| is_semaphore(name));
        semaphore.map(|_| Kind::Semaphore)
    });
    let kind = by_name.unwrap_or(kind);
    let (called, what) = match doing {
        Doing::Call { name, what } => (Some(name.as_str()), what.as_deref()),
        Doing::Waiting(WaitFor::Data { call, what, .. }) => {
            (Some(call.as_str()), Some(what.as_str()))
        }
        _ => (None, None),
    };
    // The outermost function is the one that the program calls.
    let c = functions.iter().rposition(|function| function.2);
    let call = of_language.as_deref().or(c.map(|at| names[at])).or(called);
    Wait {
        process: seen.id.process,
        kind,
        call: call.map(str::to_owned),
        what: match kind {
            Kind::Io | Kind::Poll => what.map(without_number),
            _ => None,
        },
        object,
        awaits,
        stack: own,
        in_library,
    }
}

/// The function of a language's library that the program calls, without its parameters and those of its
/// templates: it is inlined into the program, or has instances there.
fn of_language(functions: &[(&str, Option<&str>, bool)]) -> Option<String> {
    let (name, _, _) = functions.iter().rfind(|function| !function.2)?;
    let begins = ["std::", "core::", "alloc::"];
    if !begins.iter().any(|begin| name.starts_with(begin)) {
        return None;
    }
    let mut depth = 0_u32;
    let mut short = String::new();
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => break,
            _ if depth == 0 => short.push(letter),
            _ => {}
        }
    }
    Some(short)
}

/// `a pipe` of `pipe:[4242]`: the numbers tell nobody anything.
fn without_number(what: &str) -> String {
    match what.split_once(":[") {
        Some((kind @ ("pipe" | "socket"), _)) => format!("a {kind}"),
        _ => what.to_owned(),
    }
}

/// The kind of a thread's wait, the address of the object, and the thread that must act first.
fn kind(
    seen: &InspectedThread,
    doing: &Doing,
    in_runtime: bool,
) -> (Kind, Option<u64>, Option<ThreadId>) {
    let process = seen.id.process;
    match doing {
        Doing::Waiting(wait) => match wait {
            WaitFor::Barrier(_) => (Kind::Barrier, None, None),
            WaitFor::Mutex { address, .. } => (Kind::Mutex, Some(*address), None),
            WaitFor::RwLock { address, .. } => (Kind::RwLock, Some(*address), None),
            WaitFor::Semaphore { address, .. } => (Kind::Semaphore, Some(*address), None),
            // A runtime's threads wait for the next region, or for each other.
            WaitFor::Futex { .. } | WaitFor::Condvar { .. } if in_runtime => {
                (Kind::Barrier, None, None)
            }
            WaitFor::Condvar { address, .. } => (Kind::Condvar, Some(*address), None),
            WaitFor::Join { thread } => {
                let awaits = thread.map(|thread| ThreadId { process, thread });
                (Kind::Join, None, awaits)
            }
            WaitFor::Child { process } => {
                let awaits = process.map(|process| ThreadId {
                    process,
                    thread: process,
                });
                (Kind::Child, None, awaits)
            }
            WaitFor::Data { call, .. } => (of_call(call), None, None),
            WaitFor::Section {
                address,
                section: Section::Critical,
                ..
            } => (Kind::Critical, Some(*address), None),
            // A thread waits for its turn, and no thread keeps it out.
            WaitFor::Section { .. } | WaitFor::Memory { .. } => (Kind::Other, None, None),
            WaitFor::Futex { address, .. } => (Kind::Futex, Some(*address), None),
        },
        Doing::Call { name, .. } => (of_call(name), None, None),
        _ => (Kind::Other, None, None),
    }
}

/// The kind of wait in a system call.
fn of_call(name: &str) -> Kind {
    const IO: [&str; 27] = [
        "read",
        "write",
        "pread64",
        "pwrite64",
        "readv",
        "writev",
        "preadv",
        "pwritev",
        "preadv2",
        "pwritev2",
        "open",
        "openat",
        "close",
        "fsync",
        "fdatasync",
        "sync",
        "syncfs",
        "msync",
        "sync_file_range",
        "sendfile",
        "splice",
        "copy_file_range",
        "getdents64",
        "sendto",
        "sendmsg",
        "sendmmsg",
        "io_getevents",
    ];
    const POLL: [&str; 18] = [
        "poll",
        "ppoll",
        "select",
        "pselect6",
        "epoll_wait",
        "epoll_pwait",
        "epoll_pwait2",
        "accept",
        "accept4",
        "connect",
        "recvfrom",
        "recvmsg",
        "recvmmsg",
        "pause",
        "rt_sigtimedwait",
        "rt_sigsuspend",
        "mq_timedreceive",
        "msgrcv",
    ];
    match name {
        "page fault" => Kind::Fault,
        _ if name.contains("sleep") => Kind::Sleep,
        _ if IO.contains(&name) => Kind::Io,
        _ if POLL.contains(&name) => Kind::Poll,
        _ => Kind::Other,
    }
}

/// The kind of a wait for a lock, if the names of functions tell more than the memory.
fn named(kind: Kind, names: &[&str], wants: Option<Wants>) -> Option<Kind> {
    let has = |begins: &[&str]| {
        let mut all = names.iter();
        all.any(|name| begins.iter().any(|begin| name.starts_with(begin)))
    };
    let is = |all: &[&str]| names.iter().any(|name| all.contains(name));
    let of_futex = matches!(
        kind,
        Kind::Futex | Kind::Mutex | Kind::Barrier | Kind::Condvar
    );
    if !of_futex {
        return None;
    }
    if has(&["GOMP_critical", "__kmpc_critical"]) {
        return Some(Kind::Critical);
    }
    if has(&[
        "omp_set_lock",
        "omp_set_nest_lock",
        "__kmpc_set_lock",
        "__kmpc_set_nest_lock",
    ]) {
        return Some(Kind::OmpLock);
    }
    let waits_for_lock = kind == Kind::Futex && matches!(wants, None | Some(Wants::Mutex));
    let allocates = is(&ALLOCATING) || has(&["operator new", "operator delete", "__libc_malloc"]);
    if waits_for_lock && allocates {
        return Some(Kind::Allocator);
    }
    // A thread that was woken takes the mutex again: that is still its wait for the condition.
    (kind == Kind::Mutex && has(&["pthread_cond_", "__pthread_cond_"])).then_some(Kind::Condvar)
}

/// The lock of Python's interpreter is made of a condition variable.
fn of_python<'a>(kind: Kind, mut names: impl Iterator<Item = &'a str>) -> Option<Kind> {
    (kind == Kind::Condvar && names.any(waits_for_interpreter)).then_some(Kind::Interpreter)
}

/// A monitor of Java is made of a mutex and a condition variable for each thread.
fn of_java<'a>(kind: Kind, names: impl Iterator<Item = &'a str>) -> Option<Kind> {
    (kind == Kind::Condvar && java::waits_for_monitor(names)).then_some(Kind::Monitor)
}

/// The functions of the C library that take an arena's lock.
const ALLOCATING: [&str; 13] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "cfree",
    "valloc",
    "__libc_free",
    "__libc_calloc",
    "__libc_realloc",
];

/// The calls of the program's own code that a thread is in. If there are none, those of libraries
/// other than the C library: a library began the thread. Else one of the C library's. And whether they
/// are a library's.
fn calls(seen: &InspectedThread) -> (Vec<CodePlace>, bool) {
    let all = seen.latest_calls();
    let own = |call: &&CallSeen| !call.of_system && !call.after_signal;
    let mut calls: Vec<CodePlace> = all.iter().filter(own).take(MOST_CALLS).map(at).collect();
    let in_library = calls.is_empty();
    if in_library && library_calls(seen).all(|call| call.called.runtime.is_none()) {
        let beyond = seen.calls_of_libraries();
        calls.extend(beyond.iter().take(MOST_CALLS).map(at));
    }
    if calls.is_empty() {
        let named = all.iter().filter(|call| call.function.is_some());
        calls.extend(named.take(1).map(at));
    }
    (calls, in_library)
}

fn at(call: &CallSeen) -> CodePlace {
    CodePlace {
        function: call.function.clone(),
        file: call.file.clone(),
        line: call.line,
        binary: call.binary.clone(),
        // Copies of one line are one place.
        offset: if call.line.is_some() { 0 } else { call.offset },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_the_outermost_function_of_the_languages_library() {
        let inner = ("std::__atomic_wait_address_v<int>", None, false);
        let latch = ("std::latch::wait(long)", None, false);
        let c = ("syscall", None, true);
        let of = |functions: &[_]| of_language(functions);
        assert_eq!(of(&[c, inner, latch]).unwrap(), "std::latch::wait");
        let semaphore = ("std::counting_semaphore<(long)4>::acquire()", None, false);
        let name = "std::counting_semaphore::acquire";
        assert_eq!(of(&[c, semaphore]).unwrap(), name);
        assert_eq!(of_language(&[c]), None);
        assert_eq!(of_language(&[c, ("g_cond_wait", None, false)]), None);
    }

    #[test]
    fn names_tell_locks_of_runtimes_and_libraries() {
        for (kind, names, expected) in [
            (
                Kind::Futex,
                &["GOMP_critical_start"][..],
                Some(Kind::Critical),
            ),
            (
                Kind::Barrier,
                &["GOMP_critical_name_start"],
                Some(Kind::Critical),
            ),
            (
                Kind::Futex,
                &["__lll_lock_wait_private", "malloc"],
                Some(Kind::Allocator),
            ),
            (
                Kind::Futex,
                &["operator new(unsigned long)"],
                Some(Kind::Allocator),
            ),
            (Kind::Futex, &["syscall"], None),
            (Kind::Sleep, &["nanosleep", "free"], None),
            (Kind::Mutex, &["pthread_mutex_lock"], None),
            (Kind::Mutex, &["pthread_cond_wait"], Some(Kind::Condvar)),
            (Kind::Condvar, &["pthread_cond_wait"], None),
        ] {
            assert_eq!(named(kind, names, None), expected, "{names:?}");
        }
        let python = ["pthread_cond_timedwait", "PyCOND_TIMEDWAIT"];
        let of = |kind| of_python(kind, python.into_iter());
        assert_eq!(of(Kind::Condvar), Some(Kind::Interpreter));
        assert_eq!(of(Kind::Semaphore), None);
        let park = "os::PlatformEvent::park()";
        for (names, expected) in [
            (
                [
                    "ObjectMonitor::EnterI(Thread*)",
                    "ObjectMonitor::enter(Thread*)",
                ],
                Some(Kind::Monitor),
            ),
            (
                [
                    "ObjectMonitor::wait(long, bool, Thread*)",
                    "JVM_MonitorWait",
                ],
                None,
            ),
            (
                [
                    "ObjectMonitor::ReenterI(Thread*)",
                    "ObjectMonitor::wait(long, bool, Thread*)",
                ],
                None,
            ),
        ] {
            let names = [park].into_iter().chain(names);
            assert_eq!(of_java(Kind::Condvar, names), expected);
        }
    }

    #[test]
    fn system_calls_have_kinds() {
        for (name, kind) in [
            ("clock_nanosleep", Kind::Sleep),
            ("fsync", Kind::Io),
            ("page fault", Kind::Fault),
            ("epoll_wait", Kind::Poll),
            ("mmap", Kind::Other),
        ] {
            assert_eq!(of_call(name), kind);
        }
        assert_eq!(without_number("pipe:[42]"), "a pipe");
        assert_eq!(without_number("/data/a:[1]"), "/data/a:[1]");
    }
}
