//! Finds what each thread waits for: by its system call, the names of the functions that it is in,
//! and the memory of the object.

use std::collections::{HashMap, HashSet};

use super::{
    KnownBarrier,
    barriers::{Barriers, FoundBarrier},
    call::Call,
    ends::{Awaited, Ends, named},
    file_locks,
    futex::Futex,
    holder::{Numbers, has_our_numbers},
    musl,
    seen::{InspectedThread, functions, held},
    teams::Regions,
};
use sbt_engine::{
    event::Kind,
    hang::scene::{BarrierSeen, Doing, Holder, Section, WaitFor},
};
use sbt_program::{
    backing, criticals,
    memory::Memory,
    process,
    runtimes::{
        glibc::{self, Version},
        gomp::{self, Construct},
        waits::{Wants, wants},
    },
    sites::{CLibrary, Resolver},
    trace,
};

/// The activity of each thread, in the order of `threads`, and the barriers at which threads wait.
/// `is_frozen`: whether a control group holds a process.
pub fn all(
    threads: &[InspectedThread],
    resolver: &mut Resolver,
    known: &[KnownBarrier],
    is_frozen: impl Fn(u32) -> bool,
) -> (Vec<Doing>, Vec<BarrierSeen>) {
    let alive = threads.iter().filter(|seen| !seen.glance.has_ended());
    let numbers = Numbers::of(alive.map(|seen| (seen.id, seen.glance.own_number)));
    let mut libraries = HashMap::new();
    for seen in threads {
        let process = seen.id.process;
        libraries.entry(process).or_insert_with(|| {
            resolver.turn_to(process);
            resolver.c_library()
        });
    }
    let mut waits = Waits {
        stopped: stopped(threads),
        numbers,
        libraries,
        known,
        barriers: Barriers::default(),
        regions: Regions::default(),
        unknown_teams: HashMap::new(),
        own: HashMap::new(),
        ends: Ends::default(),
        names_sections: true,
    };
    // Sleeping threads first: they give the addresses of barriers, at which spinning threads are
    // then found.
    let sleeps = |seen: &InspectedThread| seen.glance.call.standing().is_some();
    let mut doings = vec![Doing::Unknown; threads.len()];
    for sleeping in [true, false] {
        for (seen, doing) in threads.iter().zip(&mut doings) {
            if sleeps(seen) == sleeping {
                *doing = waits.doing(seen);
            }
        }
    }
    for (seen, doing) in threads.iter().zip(&mut doings) {
        waits.name_holders(seen, doing);
        if let Some(index) = waits.between_regions(seen, doing) {
            *doing = Doing::Waiting(WaitFor::Barrier(index));
        }
    }
    for (seen, doing) in threads.iter().zip(&mut doings) {
        if is_frozen(seen.id.process) && *doing != Doing::Ended {
            *doing = Doing::Frozen;
        }
    }
    (doings, waits.barriers.list())
}

/// Processes that a signal has stopped while another sbt traces them: to the kernel all of their
/// threads are in the state of a thread at a breakpoint.
fn stopped(threads: &[InspectedThread]) -> HashSet<u32> {
    let alive = || threads.iter().filter(|seen| !seen.glance.has_ended());
    let processes: HashSet<u32> = alive().map(|seen| seen.id.process).collect();
    let stands = |seen: &InspectedThread| match seen.glance.state {
        'T' => true,
        't' => trace::is_server(seen.glance.tracer),
        _ => false,
    };
    let all_stand = |process: &u32| {
        alive()
            .filter(|seen| seen.id.process == *process)
            .all(stands)
    };
    processes.into_iter().filter(all_stand).collect()
}

pub(super) struct Waits<'a> {
    stopped: HashSet<u32>,
    numbers: Numbers,
    libraries: HashMap<u32, CLibrary>,
    known: &'a [KnownBarrier],
    pub(super) barriers: Barriers,
    pub(super) regions: Regions,
    /// The number that stands for the barrier of a team in a runtime of an unknown version, by
    /// process.
    pub(super) unknown_teams: HashMap<u32, u64>,
    /// Whether memory is a process's own, by process and address.
    own: HashMap<(u32, u64), bool>,
    ends: Ends,
    /// Whether the names of critical sections are looked up, which takes time.
    names_sections: bool,
}

impl Waits<'static> {
    /// Prepares to look at single threads, one after the other: see [`super::sleepers`]. `numbers`: all
    /// threads that are alive.
    pub(super) fn of_single(numbers: Numbers, libraries: HashMap<u32, CLibrary>) -> Self {
        Self {
            stopped: HashSet::new(),
            numbers,
            libraries,
            known: &[],
            barriers: Barriers::default(),
            regions: Regions::default(),
            unknown_teams: HashMap::new(),
            own: HashMap::new(),
            ends: Ends::default(),
            names_sections: false,
        }
    }

    /// The activity of a thread that sleeps, from memory as it is now.
    pub(super) fn single(&mut self, seen: &InspectedThread) -> Doing {
        self.barriers = Barriers::default();
        self.regions = Regions::default();
        let doing = self.doing(seen);
        match self.between_regions(seen, &doing) {
            Some(index) => Doing::Waiting(WaitFor::Barrier(index)),
            None => doing,
        }
    }

    /// Takes the threads that are alive now.
    pub(super) fn set_numbers(&mut self, numbers: Numbers) {
        self.numbers = numbers;
        // Memory may have been mapped and unmapped meanwhile.
        self.own.clear();
    }

    /// Takes the C library of a process.
    pub(super) fn set_library(&mut self, process: u32, library: CLibrary) {
        self.libraries.insert(process, library);
    }
}

impl Waits<'_> {
    fn doing(&mut self, seen: &InspectedThread) -> Doing {
        let glance = &seen.glance;
        let by_call = match glance.call {
            _ if glance.has_ended() => return Doing::Ended,
            Call::In { .. } => match self.of_call(seen) {
                waits @ Doing::Waiting(_) => waits,
                call => self.looping(seen).map_or(call, Doing::Waiting),
            },
            Call::Running => self.running(seen),
            Call::Outside { .. } => Doing::Call {
                name: "page fault".into(),
                what: None,
            },
            Call::Unknown if glance.state == 'R' => Doing::Running,
            Call::Unknown => Doing::Unknown,
        };
        match glance.state {
            'T' => Doing::Stopped,
            't' if self.stopped.contains(&seen.id.process) => Doing::Stopped,
            // At a breakpoint of an sbt, for a moment.
            't' if trace::is_server(glance.tracer) => by_call,
            't' => Doing::Traced { by: glance.tracer },
            _ => by_call,
        }
    }

    fn of_call(&mut self, seen: &InspectedThread) -> Doing {
        let memory = Memory {
            thread: seen.id.thread,
        };
        if let Some(futex) = Futex::of(seen.glance.call, memory) {
            return Doing::Waiting(self.futex(seen, futex, memory));
        }
        if let Some(child) = self.child(seen) {
            return Doing::Waiting(child);
        }
        let described = seen.described();
        if let Some((name, Some(what))) = &described
            && matches!(name.as_str(), "flock" | "fcntl")
            && !process::has_other_numbers(seen.id.thread)
            && let Some(processes) = file_locks::holders(seen.id.process)
            && self.are_known(&processes)
        {
            return Doing::Waiting(WaitFor::Data {
                call: name.clone(),
                what: what.clone(),
                processes,
            });
        }
        if let Some((name, _)) = &described
            && let Some(Awaited {
                what, processes, ..
            }) = self.ends.awaited(seen.id.thread, seen.glance.call)
            && !processes.is_empty()
            && self.are_known(&processes)
        {
            return Doing::Waiting(WaitFor::Data {
                call: name.clone(),
                what,
                processes,
            });
        }
        described.map_or(Doing::Unknown, |(name, what)| Doing::Call { name, what })
    }

    /// Adds to what a thread waits for which processes hold the other end.
    fn name_holders(&self, seen: &InspectedThread, doing: &mut Doing) {
        let Doing::Call {
            name,
            what: Some(what),
        } = doing
        else {
            return;
        };
        if matches!(name.as_str(), "flock" | "fcntl") {
            let holders = file_locks::holders(seen.id.process);
            if let Some(holders) = holders.and_then(|holders| named(&holders, ["has", "have"])) {
                *what = format!("{what}, which {holders} locked");
            }
            return;
        }
        if let Some(holders) = self.ends.holders(seen.id.thread, seen.glance.call) {
            *what = format!("{what}, whose other end {holders}");
        }
    }

    /// Whether all of these processes are looked at.
    fn are_known(&self, processes: &[u32]) -> bool {
        let mut all = processes.iter();
        all.all(|process| self.libraries.contains_key(process))
    }

    fn child(&self, seen: &InspectedThread) -> Option<WaitFor> {
        let Call::In {
            number, arguments, ..
        } = seen.glance.call
        else {
            return None;
        };
        #[allow(
            clippy::cast_possible_truncation,
            reason = "they are numbers of 32 bits"
        )]
        let number = match number {
            libc::SYS_wait4 => i32::try_from(arguments[0] as u32).ok(),
            libc::SYS_waitid if arguments[0] == u64::from(libc::P_PID) => {
                i32::try_from(arguments[1] as u32).ok()
            }
            libc::SYS_waitid => None,
            _ => return None,
        };
        let number = number.and_then(|number| u32::try_from(number).ok());
        let process = number.filter(|number| *number != 0).and_then(|number| {
            let found = self.numbers.process(number);
            found.or_else(|| has_our_numbers(seen.id.process).then_some(number))
        });
        Some(WaitFor::Child { process })
    }

    /// The version of the process's glibc. Outer `None`: another C library; inner `None`: version
    /// not known.
    #[allow(
        clippy::option_option,
        reason = "an unknown version differs from another library"
    )]
    fn version(&self, process: u32) -> Option<Option<Version>> {
        match self.libraries.get(&process) {
            Some(CLibrary::Glibc(version)) => Some(*version),
            _ => None,
        }
    }

    /// Whether only one process uses a futex: what its flag says, or else where it lies. Libraries
    /// leave the flag out although the memory is private.
    fn is_own(&mut self, process: u32, futex: Futex) -> bool {
        let is_own = || process::memory_at(process, futex.address) == backing::Memory::Own;
        futex.private
            || *self
                .own
                .entry((process, futex.address))
                .or_insert_with(is_own)
    }

    fn futex(&mut self, seen: &InspectedThread, futex: Futex, memory: Memory) -> WaitFor {
        let address = futex.address;
        let shared = !self.is_own(seen.id.process, futex);
        let process = seen.id.process;
        if let Some(index) = self.of_runtime(seen, &[address], Some(futex), memory) {
            return WaitFor::Barrier(index);
        }
        if let Some(section) = section(seen) {
            let name = self
                .names_sections
                .then(|| criticals::name(process, address));
            return WaitFor::Section {
                address,
                section,
                name: name.flatten(),
            };
        }
        if self.version(process).is_none()
            && let Some(number) = musl::joined(futex, memory)
            && let Some(joined) = self.numbers.thread(process, number)
        {
            return WaitFor::Join {
                thread: Some(joined.thread),
            };
        }
        if futex.inherits {
            return self.mutex(seen, address, memory);
        }
        let unknown = WaitFor::Futex { address, shared };
        let found = self.version(process);
        let version = found.flatten();
        match wants(&functions(seen)) {
            Some(Wants::Barrier) => {
                let found = self.pthread_barrier(process, futex, memory);
                WaitFor::Barrier(self.barriers.waits(seen.id, found))
            }
            Some(Wants::BarrierOf(kind)) => {
                WaitFor::Barrier(self.barriers.waits(seen.id, unread(address, kind)))
            }
            Some(Wants::Mutex) => self.mutex(seen, address, memory),
            Some(Wants::Condvar) => {
                let word = |address| memory.bytes(address).map(u32::from_ne_bytes);
                let condvar = glibc::condvar(address, version, word);
                // A thread that leaves a wait on a condition variable takes the mutex again.
                if futex.plain && found.is_some() && condvar.is_none() {
                    return self.mutex(seen, address, memory);
                }
                self.condvar(seen, condvar.unwrap_or(address), futex)
            }
            Some(Wants::RustCondvar) => self.condvar(seen, address, futex),
            Some(Wants::RwLock { writes }) => {
                let word = glibc::rwlock_word(writes, futex.expected);
                let begin = address.saturating_sub(word);
                let read = || glibc::rwlock(&memory.read(begin, glibc::RWLOCK), version);
                let lock = read();
                let writes_still = || read() == lock;
                let holder = lock.map(|lock| match lock.writer {
                    Some(writer) => self.numbers.holder(process, writer, true, writes_still),
                    None => Holder::Nobody,
                });
                WaitFor::RwLock {
                    address: if lock.is_some() { begin } else { address },
                    writes: Some(writes),
                    writer: holder.unwrap_or(Holder::Unknown),
                    readers: lock.map(|lock| lock.readers),
                }
            }
            Some(Wants::RustRwLock { writes }) => WaitFor::RwLock {
                address,
                writes: Some(writes),
                writer: Holder::Unknown,
                readers: None,
            },
            Some(Wants::RustMutex) => WaitFor::Mutex {
                address,
                kind: None,
                holder: Holder::Unknown,
            },
            Some(Wants::Semaphore) => WaitFor::Semaphore { address, shared },
            // The futex word is the number of the thread until the thread has ended.
            Some(Wants::Join) => WaitFor::Join {
                thread: found.and_then(|_| {
                    let found = self.numbers.thread(process, futex.expected);
                    found.map(|id| id.thread)
                }),
            },
            None if self.known_kind(process, address).is_some() => {
                self.condvar(seen, address, futex)
            }
            // The kernel clears the number of a thread that has ended, and wakes who waits for that.
            None => match self.numbers.thread(process, futex.expected) {
                Some(joined) if joined != seen.id && futex.may_be_join(memory) => WaitFor::Join {
                    thread: Some(joined.thread),
                },
                _ => unknown,
            },
        }
    }

    fn known_kind(&self, process: u32, address: u64) -> Option<Kind> {
        let mut known = self.known.iter();
        let found = known.find(|known| known.process == process && known.address == address);
        found.map(|known| known.kind)
    }

    fn condvar(&mut self, seen: &InspectedThread, address: u64, futex: Futex) -> WaitFor {
        let shared = !self.is_own(seen.id.process, futex);
        match self.known_kind(seen.id.process, address) {
            Some(kind) => WaitFor::Barrier(self.barriers.waits(seen.id, unread(address, kind))),
            None => WaitFor::Condvar { address, shared },
        }
    }

    fn pthread_barrier(&self, process: u32, futex: Futex, memory: Memory) -> FoundBarrier {
        let Some(version) = self.version(process) else {
            let found = musl::barrier(futex, memory);
            return found.unwrap_or_else(|| unread(futex.address, Kind::Pthread));
        };
        // Threads wait on `current_round`, or on `in` while the numbers begin anew.
        let found = [4, 0].into_iter().find_map(|before| {
            let address = futex.address.checked_sub(before)?;
            let bytes: [u8; glibc::BARRIER] = memory.bytes(address)?;
            let barrier = glibc::barrier(&bytes, version)?;
            (barrier.shared != futex.private && barrier.arrived > 0).then_some(FoundBarrier {
                address,
                kind: Kind::Pthread,
                participants: Some(barrier.count),
                arrived: Some(barrier.arrived),
                shared: barrier.shared,
                at_end: None,
            })
        });
        found.unwrap_or_else(|| unread(futex.address, Kind::Pthread))
    }

    fn mutex(&self, seen: &InspectedThread, address: u64, memory: Memory) -> WaitFor {
        let process = seen.id.process;
        let version = self.version(process);
        let read = || glibc::mutex(&memory.read(address, glibc::MUTEX), version?);
        let mutex = read();
        let holds_still = || read() == mutex;
        let holder = match mutex {
            None => Holder::Unknown,
            Some(mutex) if !mutex.locked => Holder::Nobody,
            Some(mutex) => mutex.owner.map_or(Holder::Unknown, |owner| {
                self.numbers
                    .holder(process, owner, mutex.shared, holds_still)
            }),
        };
        WaitFor::Mutex {
            address,
            kind: mutex.map(|mutex| mutex.kind),
            holder,
        }
    }

    fn running(&mut self, seen: &InspectedThread) -> Doing {
        let held = held(seen);
        let memory = Memory {
            thread: seen.id.thread,
        };
        match self.of_runtime(seen, &held, None, memory) {
            Some(index) => Doing::Waiting(WaitFor::Barrier(index)),
            None => self.looping(seen).map_or(Doing::Running, Doing::Waiting),
        }
    }

    /// The memory for whose change a thread looks in a loop.
    fn looping(&mut self, seen: &InspectedThread) -> Option<WaitFor> {
        let process = seen.id.process;
        let looping = seen.lasting_loop(seen.turn)?;
        let own = &mut self.own;
        Some(looping.wait(process, seen.glance.call.is_nap(), |address| {
            *own.entry((process, address))
                .or_insert_with(|| process::memory_at(process, address) == backing::Memory::Own)
        }))
    }
}

/// The section of OpenMP that a thread waits to enter.
fn section(seen: &InspectedThread) -> Option<Section> {
    let construct = functions(seen)
        .iter()
        .find_map(|(name, _, _)| gomp::construct(name));
    match construct? {
        Construct::Critical => Some(Section::Critical),
        Construct::Ordered => Some(Section::Ordered),
        Construct::Barrier => None,
    }
}

/// A barrier of which only the address and kind are known.
pub(super) fn unread(address: u64, kind: Kind) -> FoundBarrier {
    FoundBarrier {
        address,
        kind,
        participants: None,
        arrived: None,
        shared: false,
        at_end: None,
    }
}
