//! For what a thread sleeps, found out at a single look, without stopping the thread. Made for looks
//! that are repeated many times a second: what is known of the code is kept.

use std::{collections::HashMap, sync::Arc};

use super::{
    call::Call,
    holder::{Numbers, has_our_numbers},
    permission,
    seen::{Followed, InspectedThread},
    thread::Glance,
    wait::Waits,
};
use sbt_common::NO_CALL;
use sbt_engine::{
    event::ThreadId,
    hang::scene::{Doing, Holder, WaitFor},
    looks::{CodePlace, Kind, Wait, sums::Key},
};
use sbt_program::{
    files::ProbedFile,
    memory::{Memory, Stack},
    process,
    sites::{CLibrary, Resolver, SharedFiles, Stacks, Standing},
    status::Status,
    syscalls,
};

mod waits;

use waits::wait;

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

    /// By what the kernel sums up the sleep of a thread.
    pub fn key(&self, who: ThreadId) -> Key {
        let (number, word) = match self.0 {
            Call::In {
                number, arguments, ..
            } => (number, arguments[0]),
            Call::Running | Call::Outside { .. } | Call::Unknown => (-1, 0),
        };
        let is_futex = [libc::SYS_futex, syscalls::FUTEX_WAIT].contains(&number);
        Key {
            who,
            object: if is_futex { word } else { 0 },
            call: u32::try_from(number).unwrap_or(NO_CALL),
        }
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
    loops: HashMap<(u32, u64), Option<CodePlace>>,
    /// The program's own calls of functions that get a lock, by process and return address.
    calls: HashMap<(u32, u64), Option<CodePlace>>,
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
            calls: HashMap::new(),
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
            Some(CodePlace {
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
            in_library: false,
        })
    }

    /// Whether a process uses MPI.
    pub fn uses_mpi(&mut self, process: u32) -> bool {
        self.resolver.turn_to(process);
        self.resolver.uses_mpi()
    }

    /// The wait of a running thread that is getting a lock, its turn or a message in a library's function;
    /// `None` if it does something else. `at`: the address of its instruction; `stack`: the top of its
    /// stack.
    pub fn gets_lock(&mut self, process: u32, at: u64, stack: &[u64]) -> Option<Wait> {
        if self.calls.len() >= MOST_LOOPS {
            self.calls.clear();
        }
        let resolver = &mut self.resolver;
        resolver.turn_to(process);
        let (called, returns_to) = resolver.gets_lock(at, stack)?;
        let known = self.calls.entry((process, returns_to)).or_insert_with(|| {
            let (frame, binary, offset) = resolver.call_before(returns_to)?;
            Some(CodePlace {
                offset: if frame.line.is_some() { 0 } else { offset },
                function: frame.function,
                file: frame.file,
                line: frame.line,
                binary,
            })
        });
        Some(Wait {
            process,
            kind: Kind::Spin,
            call: Some(called.into()),
            what: None,
            object: None,
            awaits: None,
            stack: vec![known.clone()?],
            in_library: false,
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
        self.calls.retain(|(of, _), _| *of != process);
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
        self.calls.retain(|(of, _), _| *of != process);
        self.resolver.ended(process);
    }

    /// Takes the threads that are alive now.
    pub fn set_threads(&mut self, threads: &[ThreadId]) {
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
    pub fn look(
        &mut self,
        who: ThreadId,
        Sleep(call): Sleep,
    ) -> Option<(Sleeper, Wait, Option<ThreadId>)> {
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
    pub fn sampled(&mut self, who: ThreadId, Sleep(call): Sleep, top: Vec<u8>) -> Option<Wait> {
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
    ) -> Option<(Sleeper, Wait, Option<ThreadId>)> {
        let (sp, at) = call.standing()?;
        let standing = Standing {
            process: id.process,
            at,
            sp,
            bp: None,
            kept: None,
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
    pub fn holder(&mut self, sleeper: &Sleeper) -> Option<ThreadId> {
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

fn holder(doing: &Doing) -> Option<ThreadId> {
    let Doing::Waiting(WaitFor::Mutex { holder, .. } | WaitFor::RwLock { writer: holder, .. }) =
        doing
    else {
        return None;
    };
    match holder {
        Holder::Thread(id) => Some(ThreadId {
            process: id.process,
            thread: id.thread,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_a_thread() {
        assert_eq!(Seen::read("running\n"), Seen::Running);
        assert_eq!(Seen::read(""), Seen::Unknown);
        assert!(matches!(Seen::read("-1 0x10 0x20\n"), Seen::Asleep(_)));
    }
}
