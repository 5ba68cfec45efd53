//! For what a thread sleeps, found out at a single look, without stopping the thread. Made for looks
//! that are repeated many times a second: what is known of the code is kept.

use std::{collections::HashMap, sync::Arc};

use super::{
    call::Call,
    holder::{Numbers, has_our_numbers},
    permission,
    seen::{Followed, InspectedThread, functions, library_calls},
    thread::Glance,
    wait::Waits,
};
use sbt_engine::{
    hang::scene::{CallSeen, Doing, Holder, Section, ThreadId, WaitFor},
    looks::{At, Kind, Wait, Who},
};
use sbt_program::{
    files::ProbedFile,
    memory::{Memory, Stack},
    process,
    runtimes::waits::{Wants, wants},
    sites::{CLibrary, Resolver, SharedFiles, Stacks, Standing},
    status::Status,
};

/// The most calls of the program's own code that are kept of a thread.
const MOST_CALLS: usize = 6;

/// The number of bytes of a stack that are read at once; words beyond are read one by one.
const TOP: usize = 4096;

/// The system call in which a thread sleeps, by /proc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep(Call);

impl Sleep {
    /// The sleep of a thread in a system call, by its registers there; outside of system calls if
    /// the number is negative.
    pub const fn of(number: i64, arguments: [u64; 6], sp: u64, at: u64) -> Self {
        if number < 0 {
            return Self(Call::Outside { sp, at });
        }
        Self(Call::In {
            number,
            arguments,
            sp,
            at,
        })
    }
}

/// The state of a thread by the content of /proc/PID/task/TID/syscall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The thread is on a CPU or could be.
    Running,
    /// The thread sleeps in a system call.
    Asleep(Sleep),
    /// The kernel does not tell.
    Unknown,
}

impl Seen {
    /// Reads the content of the file.
    pub fn read(text: &str) -> Self {
        match Call::parse(text) {
            Call::Running => Self::Running,
            Call::Unknown => Self::Unknown,
            call => Self::Asleep(Sleep(call)),
        }
    }
}

/// A thread that sleeps, and for what. To be asked again who holds the lock.
pub struct Sleeper {
    seen: InspectedThread,
    /// Whether a thread may hold what it waits for.
    pub has_holder: bool,
}

/// Finds out for what threads sleep.
pub struct Sleepers {
    resolver: Resolver,
    stacks: Stacks,
    waits: Waits<'static>,
    /// Whether a process has the numbers of sbt's process namespace, and may be looked into.
    known: HashMap<u32, Option<bool>>,
    own_numbers: HashMap<(u32, u32), u32>,
    /// Further searches for a process's C library, by process: a program maps the library after
    /// its beginning.
    unknown: HashMap<u32, u32>,
    /// The loops in which running threads spin, by process and address.
    loops: HashMap<(u32, u64), Option<At>>,
}

/// The most addresses of running threads that are kept.
const MOST_LOOPS: usize = 4096;

/// The largest number of times that a process is searched for its C library.
const MOST_SEARCHES: u32 = 50;

impl Sleepers {
    /// For a target with these files. Files that are found later are shared.
    pub fn new(target: u32, files: &[Arc<ProbedFile>], shared: SharedFiles) -> Self {
        let mut resolver = Resolver::sharing(target, None, shared);
        resolver.know(files);
        Self {
            resolver,
            stacks: Stacks::searching(),
            waits: Waits::of_single(Numbers::default(), HashMap::new()),
            known: HashMap::new(),
            own_numbers: HashMap::new(),
            unknown: HashMap::new(),
            loops: HashMap::new(),
        }
    }

    /// The wait of a running thread that spins for a lock or a flag; `None` if it does not. `at`: the
    /// address of its instruction.
    pub fn spins(&mut self, process: u32, at: u64) -> Option<Wait> {
        if self.loops.len() >= MOST_LOOPS {
            self.loops.clear();
        }
        let resolver = &mut self.resolver;
        let known = self.loops.entry((process, at)).or_insert_with(|| {
            resolver.turn_to(process);
            let place = resolver.spins_at(at)?;
            Some(At {
                function: place.function,
                file: place.file,
                offset: if place.line.is_some() {
                    0
                } else {
                    place.offset
                },
                line: place.line,
                binary: place.binary,
            })
        });
        Some(Wait {
            process,
            kind: Kind::Spin,
            call: None,
            what: None,
            object: None,
            awaits: None,
            stack: vec![known.clone()?],
        })
    }

    /// Whether sbt may look into a process.
    pub fn may(&mut self, process: u32) -> bool {
        if let Some(known) = self.known.get(&process) {
            return known.is_some();
        }
        let has_numbers = permission::check(process)
            .is_ok()
            .then(|| has_our_numbers(process));
        self.known.insert(process, has_numbers);
        if has_numbers.is_some() {
            self.resolver.turn_to(process);
            self.map(process);
        }
        has_numbers.is_some()
    }

    /// A process has executed a program: what is known of its memory is wrong.
    pub fn executed(&mut self, process: u32) {
        self.resolver.turn_to(process);
        self.resolver.executed();
        self.map(process);
    }

    fn map(&mut self, process: u32) {
        self.loops.retain(|(of, _), _| *of != process);
        self.resolver.refresh();
        self.unknown.insert(process, MOST_SEARCHES);
        self.find_library(process);
    }

    /// Looks for the C library of the process that the resolver has turned to, unless it is known.
    fn find_library(&mut self, process: u32) {
        let Some(left) = self.unknown.get_mut(&process) else {
            return;
        };
        *left -= 1;
        let is_last = *left == 0;
        let library = self.resolver.c_library();
        self.waits.set_library(process, library);
        if is_last || library != CLibrary::Unknown {
            self.unknown.remove(&process);
        }
    }

    /// Forgets a process that has ended.
    pub fn ended(&mut self, process: u32) {
        self.known.remove(&process);
        self.unknown.remove(&process);
        self.own_numbers.retain(|(of, _), _| *of != process);
        self.loops.retain(|(of, _), _| *of != process);
        self.resolver.ended(process);
    }

    /// Takes the threads that are alive now.
    pub fn set_threads(&mut self, threads: &[Who]) {
        let known = &self.known;
        let own = &mut self.own_numbers;
        let numbered = threads.iter().map(|who| {
            let id = ThreadId {
                process: who.process,
                thread: who.thread,
            };
            let has_ours = known.get(&who.process).copied().flatten();
            if has_ours == Some(true) {
                return (id, who.thread);
            }
            let number = own
                .entry((who.process, who.thread))
                .or_insert_with(|| own_number(id).unwrap_or(who.thread));
            (id, *number)
        });
        let numbers = Numbers::of(numbered);
        self.waits.set_numbers(numbers);
    }

    /// Finds out for what a thread sleeps, and which thread holds that. `None` if the thread does
    /// not sleep by itself: it stands at a breakpoint, or was stopped.
    pub fn look(&mut self, who: Who, Sleep(call): Sleep) -> Option<(Sleeper, Wait, Option<Who>)> {
        let id = ThreadId {
            process: who.process,
            thread: who.thread,
        };
        if matches!(call, Call::Outside { .. }) && state(id)? != 'D' {
            return None;
        }
        let (sp, _) = call.standing()?;
        let memory = Memory { thread: id.thread };
        let stack = Stack {
            from: sp,
            bytes: memory.read(sp, TOP),
            beyond: Some(memory),
        };
        self.asleep(id, call, &stack)
    }

    /// For what a thread slept at a moment of which the top of its stack was kept.
    pub fn sampled(&mut self, who: Who, Sleep(call): Sleep, top: Vec<u8>) -> Option<Wait> {
        let id = ThreadId {
            process: who.process,
            thread: who.thread,
        };
        let stack = Stack {
            from: call.standing()?.0,
            bytes: top,
            beyond: None,
        };
        Some(self.asleep(id, call, &stack)?.1)
    }

    fn asleep(
        &mut self,
        id: ThreadId,
        call: Call,
        stack: &Stack,
    ) -> Option<(Sleeper, Wait, Option<Who>)> {
        let (sp, at) = call.standing()?;
        let standing = Standing {
            process: id.process,
            at,
            sp,
            bp: None,
        };
        let mut seen = InspectedThread::new(id);
        seen.glance = Glance {
            state: 'S',
            call,
            ..seen.glance
        };
        let (resolver, stacks) = (&mut self.resolver, &mut self.stacks);
        seen.followed = Some(Followed::of(standing, stack, None, resolver, stacks));
        self.find_library(id.process);
        let doing = self.waits.single(&seen);
        let wait = wait(&seen, &doing);
        let holder = holder(&doing);
        let has_holder = wait.kind.is_lock();
        Some((Sleeper { seen, has_holder }, wait, holder))
    }

    /// The thread that now holds what a thread waits for, if known.
    pub fn holder(&mut self, sleeper: &Sleeper) -> Option<Who> {
        holder(&self.waits.single(&sleeper.seen))
    }
}

fn own_number(id: ThreadId) -> Option<u32> {
    let folder = process::folder(id.process).join(format!("task/{}", id.thread));
    let status = Status::in_folder(&folder)?;
    let own = status.field("NSpid")?;
    own.split_whitespace().last()?.parse().ok()
}

fn state(id: ThreadId) -> Option<char> {
    let folder = process::folder(id.process).join(format!("task/{}", id.thread));
    Status::in_folder(&folder)?.field("State")?.chars().next()
}

fn holder(doing: &Doing) -> Option<Who> {
    let Doing::Waiting(WaitFor::Mutex { holder, .. } | WaitFor::RwLock { writer: holder, .. }) =
        doing
    else {
        return None;
    };
    match holder {
        Holder::Thread(id) => Some(Who {
            process: id.process,
            thread: id.thread,
        }),
        _ => None,
    }
}

fn wait(seen: &InspectedThread, doing: &Doing) -> Wait {
    let functions = functions(seen);
    let names: Vec<&str> = functions
        .iter()
        .map(|(name, _, _)| name.split('@').next().unwrap_or(name))
        .collect();
    let in_runtime = library_calls(seen).any(|call| call.called.runtime.is_some());
    let (kind, object, awaits) = kind(seen, doing, in_runtime);
    let own = own_calls(seen);
    let inner = own.iter().find_map(|at| at.function.as_deref());
    let kind = named(kind, &names, wants(&functions))
        .or_else(|| of_python(kind, names.iter().copied().chain(inner)))
        .unwrap_or(kind);
    let (called, what) = match doing {
        Doing::Call { name, what } => (Some(name.as_str()), what.as_deref()),
        Doing::Waiting(WaitFor::Data { call, what, .. }) => {
            (Some(call.as_str()), Some(what.as_str()))
        }
        _ => (None, None),
    };
    // The outermost function is the one that the program calls.
    let c = functions.iter().rposition(|function| function.2);
    let call = c.map(|at| names[at]).or(called);
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
    }
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
) -> (Kind, Option<u64>, Option<Who>) {
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
                let awaits = thread.map(|thread| Who { process, thread });
                (Kind::Join, None, awaits)
            }
            WaitFor::Child { process } => {
                let awaits = process.map(|process| Who {
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
    const WAITING: [&str; 5] = [
        "take_gil",
        "PyCOND_TIMEDWAIT",
        "PyEval_RestoreThread",
        "PyEval_Acquire",
        "_PyEval_EvalFrame",
    ];
    let is_waiting = |name: &str| WAITING.iter().any(|begin| name.starts_with(begin));
    (kind == Kind::Condvar && names.any(is_waiting)).then_some(Kind::Interpreter)
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
/// other than the C library: a library began the thread. Else one of the C library's.
fn own_calls(seen: &InspectedThread) -> Vec<At> {
    let all = seen.latest_calls();
    let own = |call: &&CallSeen| !call.of_system && !call.after_signal;
    let mut calls: Vec<At> = all.iter().filter(own).take(MOST_CALLS).map(at).collect();
    if calls.is_empty() && library_calls(seen).all(|call| call.called.runtime.is_none()) {
        let beyond = seen.calls_of_libraries();
        calls.extend(beyond.iter().take(MOST_CALLS).map(at));
    }
    if calls.is_empty() {
        let named = all.iter().filter(|call| call.function.is_some());
        calls.extend(named.take(1).map(at));
    }
    calls
}

fn at(call: &CallSeen) -> At {
    At {
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

    #[test]
    fn what_the_kernel_says_of_a_thread() {
        assert_eq!(Seen::read("running\n"), Seen::Running);
        assert_eq!(Seen::read(""), Seen::Unknown);
        assert!(matches!(Seen::read("-1 0x10 0x20\n"), Seen::Asleep(_)));
    }
}
