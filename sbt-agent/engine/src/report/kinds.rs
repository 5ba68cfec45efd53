//! Words that reports choose from, each list once: the JSON Schema is made of these enums.

use crate::{
    choices::States,
    event::{self, Kind, Taker},
    looks,
    model::{
        cost::Class,
        straggler::{Pattern, Sequence},
    },
    place::LockKind,
};

pub mod hang;

/// Declares an enum whose variants have names in reports.
///
/// - A name that this sbt does not know, as a report of a newer one may have, is read as `Other`.
/// - `of MODEL`: the enum is made of `MODEL`, which has the same variants.
/// - `and Other`: `Other` is also a name that this sbt writes.
/// - `closed`: there is no `Other`, and the enum is only written.
macro_rules! kinds {
    ($(#[$about:meta])* closed pub enum $kind:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        pub enum $kind {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        $crate::report::kinds::kinds! { @names $kind { $($variant = $name,)* } {} }
    };
    ($(#[$about:meta])* pub enum $kind:ident of $model:path { $($variants:tt)* }) => {
        $crate::report::kinds::kinds! { $(#[$about])* pub enum $kind { $($variants)* } }
        $crate::report::kinds::kinds! { @of $model, $kind { $($variants)* } {} }
    };
    ($(#[$about:meta])* pub enum $kind:ident of $model:path { $($variants:tt)* } and Other) => {
        $crate::report::kinds::kinds! {
            @open [
                /// Something else, unknown, or a kind that this version of sbt does not know.
            ]
            $(#[$about])* pub enum $kind { $($variants)* }
        }
        $crate::report::kinds::kinds! { @of $model, $kind { $($variants)* } { Other } }
    };
    ($(#[$about:meta])* pub enum $kind:ident { $($variants:tt)* }) => {
        $crate::report::kinds::kinds! {
            @open [
                /// A kind that this version of sbt does not know.
                #[cfg_attr(test, schemars(skip))]
            ]
            $(#[$about])* pub enum $kind { $($variants)* }
        }
    };
    (@open [$(#[$other:meta])*] $(#[$about:meta])* pub enum $kind:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        pub enum $kind {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
            $(#[$other])*
            #[serde(other, rename = "other")]
            Other,
        }

        $crate::report::kinds::kinds! { @names $kind { $($variant = $name,)* } { Other = "other" } }
    };
    (@of $model:path, $kind:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* } { $($other:ident)? }) => {
        impl From<$model> for $kind {
            fn from(model: $model) -> Self {
                use $model as Model;
                match model {
                    $(Model::$variant => Self::$variant,)*
                    $(Model::$other => Self::$other,)?
                }
            }
        }
    };
    (@names $kind:ident { $($variant:ident = $name:literal,)* } { $($other:ident = $unknown:literal)? }) => {
        impl $kind {
            /// All kinds, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    $(Self::$other => $unknown,)?
                }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl PartialEq<&str> for $kind {
            fn eq(&self, name: &&str) -> bool {
                self.name() == *name
            }
        }
    };
}
pub(crate) use kinds;

kinds! {
    /// Why threads waited for each other; docs/verdicts.md has the conditions of each.
    pub enum VerdictKind {
        /// In the whole run: threads spin at barriers while others are ready without a CPU.
        SpinningWhileOthersLackCpus = "spinning-while-others-lack-cpus",
        /// In the whole run of a program without barriers: threads spin in a loop that may be a lock, a
        /// flag or a barrier.
        Spinning = "spinning",
        /// In the whole run: ranks of MPI spin for each other in functions that are no barriers of all.
        WaitsForRanks = "waits-for-ranks",
        /// In the whole run of a program without barriers: two threads work one after the other.
        WorkInTurns = "work-in-turns",
        /// In the whole run: more threads than CPUs.
        MoreThreadsThanCpus = "more-threads-than-cpus",
        /// In the whole run: a CPU quota of a control group stops the threads.
        CpuQuota = "cpu-quota",
        /// In the whole run: a signal had stopped the program, or its control group was frozen.
        ProgramStopped = "program-stopped",
        /// In the whole run: a thread with a lower priority than others of the program lacks a CPU.
        LowPriority = "low-priority",
        /// In the whole run: more busy threads than CPUs on which they may run, while others of the
        /// program's CPUs are not allowed to them.
        BoundToFewCpus = "bound-to-few-cpus",
        /// In the whole run: threads of the program that come to no barrier take the CPUs.
        OwnThreadsTakeCpus = "own-threads-take-cpus",
        /// In the whole run: other processes take the CPUs.
        OthersTakeCpus = "others-take-cpus",
        /// In the whole run: threads first meet late.
        SerialStart = "serial-start",
        /// In the whole run: one thread works between parallel regions.
        SerialPart = "serial-part",
        /// At a site: threads sleep on in the barrier after the last one has come.
        SerialInBarrier = "serial-in-barrier",
        /// In the whole run: threads are idle or gone after the last episode.
        SerialEnd = "serial-end",
        /// In the whole run: threads wait for a lock.
        LockContention = "lock-contention",
        /// In the whole run: threads sleep in their work.
        AsleepInTheWork = "asleep-in-the-work",
        /// In the whole run: one thread works all the time while the others wait for its news.
        Bottleneck = "bottleneck",
        /// In the whole run: the kernel hands out memory for a large part of the CPU time.
        PageFaults = "page-faults",
        /// In the whole run: the others wait for one thread at several places, or in few long
        /// episodes.
        StragglerAtManySites = "straggler-at-many-sites",
        /// In the whole run: nothing was found.
        NoProblem = "no-problem",
        /// At a site: the barrier takes longer than the phase before it.
        PhaseTooShort = "phase-too-short",
        /// At a site: the last thread was blocked in the kernel.
        StragglerBlocked = "straggler-blocked",
        /// At a site: the last thread was ready without a CPU.
        StragglerLostItsCpu = "straggler-lost-its-cpu",
        /// At a site: the last thread's CPU was slower than those of the others.
        SlowCpu = "slow-cpu",
        /// At a site: the last thread executes more instructions than the others.
        StragglerExecutesMore = "straggler-executes-more",
        /// At a site: the last thread executes as many instructions, and needs longer for each.
        StragglerExecutesSlower = "straggler-executes-slower",
        /// At a site: the imbalance grows over the run.
        GrowingImbalance = "growing-imbalance",
        /// At a site: one thread works while all others wait.
        SerialPhase = "serial-phase",
        /// At a site: the same thread is last nearly always.
        PersistentStraggler = "persistent-straggler",
        /// At a site: a few threads are last in turns.
        AlternatingStragglers = "alternating-stragglers",
        /// At a site: any thread may be last.
        RotatingStraggler = "rotating-straggler",
    }
}

impl VerdictKind {
    /// Whether a verdict of this kind says that a thread has more work than others.
    pub const fn is_of_work(self) -> bool {
        matches!(
            self,
            Self::SerialPhase
                | Self::GrowingImbalance
                | Self::PersistentStraggler
                | Self::AlternatingStragglers
                | Self::RotatingStraggler
                | Self::StragglerAtManySites
                | Self::StragglerExecutesMore
        )
    }
}

kinds! {
    /// How a barrier was recognised.
    pub enum BarrierKind of Kind {
        /// `pthread_barrier_wait` of a C library.
        Pthread = "pthread",
        /// A team of GNU OpenMP.
        Gomp = "gomp",
        /// A team of LLVM's OpenMP.
        Kmp = "kmp",
        /// `std::barrier` of C++.
        Std = "std::barrier",
        /// `std::sync::Barrier` of Rust.
        Rust = "rust",
        /// A communicator of MPI.
        Mpi = "mpi",
        /// A barrier made of a condition variable.
        Condvar = "condvar",
        /// A barrier made of a futex.
        Futex = "futex",
        /// A function of the program that spins.
        Spin = "spin",
        /// A function that the user named (`--barrier`).
        User = "user",
    }
}

impl BarrierKind {
    /// Whether the barrier belongs to a team of OpenMP.
    pub const fn is_of_openmp(self) -> bool {
        matches!(self, Self::Gomp | Self::Kmp)
    }
}

kinds! {
    /// The pattern of the threads that arrive last.
    pub enum StragglerPattern of Pattern {
        /// One thread more often than all others together.
        Persistent = "persistent",
        /// A few threads, at most half of all, or two that take turns.
        Alternating = "alternating",
        /// Any thread, at random or in turns.
        Rotating = "rotating",
        /// Too few episodes or too little waiting to tell, or the last threads are unknown.
        None = "none",
    }
}

kinds! {
    /// How last threads follow each other.
    pub enum StragglerSequence of Sequence {
        /// `repeats` are less than half as frequent as by chance.
        Turns = "turns",
        /// `changes` are less than half as frequent as by chance.
        Stretches = "stretches",
        /// Neither, or too few episodes to tell.
        None = "none",
    }
}

kinds! {
    /// The kind of a lock.
    pub enum LockReportKind of LockKind {
        /// A lock that one thread holds at a time.
        Mutex = "mutex",
        /// A lock that readers share.
        RwLock = "rwlock",
        /// A semaphore that counts.
        Semaphore = "semaphore",
        /// An internal lock of the C library.
        Library = "libc",
    }
}

kinds! {
    /// For what a thread sleeps.
    pub enum WaitKind of looks::Kind {
        /// A mutex.
        Mutex = "mutex",
        /// A read-write lock.
        RwLock = "rwlock",
        /// An `omp critical` section.
        Critical = "omp-critical",
        /// A lock of OpenMP (`omp_set_lock`).
        OmpLock = "omp-lock",
        /// A lock inside of `malloc`, `free` and the like.
        Allocator = "allocator",
        /// The lock of Python's interpreter (GIL).
        Interpreter = "interpreter",
        /// A monitor of Java (`synchronized`); which one is not known.
        Monitor = "monitor",
        /// A semaphore.
        Semaphore = "semaphore",
        /// A condition variable.
        Condvar = "condition-variable",
        /// The end of another thread.
        Join = "join",
        /// The end of a child process.
        Child = "child",
        /// The other threads of a barrier, or the next parallel region of a runtime.
        Barrier = "barrier",
        /// A time to pass (`nanosleep` and the like).
        Sleep = "sleep",
        /// Input or output.
        Io = "io",
        /// News from outside (`poll`, `epoll_wait`, `accept` and the like).
        Poll = "poll",
        /// A page of memory.
        Fault = "page-fault",
        /// A lock or a flag for which threads spin instead of sleeping.
        Spin = "spin",
        /// A futex of unknown purpose.
        Futex = "futex",
    } and Other
}

kinds! {
    /// The likely purpose of a loop that waits for memory to change.
    pub enum SpinKind {
        /// A loop that looks like a barrier.
        Barrier = "barrier",
        /// A loop that may be a barrier, a lock or a flag.
        Unclear = "unclear",
    }
}

kinds! {
    /// The kind of a probe.
    pub enum ProbeKind of Class {
        /// At functions that wait.
        Wait = "arrival",
        /// At barriers of OpenMP, C++ and Rust.
        Team = "team-arrival",
        /// At functions named with `--barrier`, and at those of MPI.
        Call = "call",
        /// At the ends of such functions.
        CallEnd = "call-end",
        /// At returns from barriers.
        Return = "departure",
        /// At functions of condition variables.
        Condvar = "condvar",
        /// At places named with `--mark`.
        Mark = "mark",
        /// Where a parallel region of OpenMP begins.
        Region = "region",
    }
}

kinds! {
    /// How closely sbt watched what threads do between barriers.
    pub enum StatesLevel of States {
        /// Running, ready and blocked times.
        Light = "light",
        /// The times of `light`, what threads were blocked on, and what took their CPUs.
        Full = "full",
        /// How threads spend their time is not watched.
        Off = "off",
    }
}

kinds! {
    /// The reason for which a thread was blocked.
    pub enum BlockedReason of event::Reason {
        /// Locks, condition variables, joins.
        Futex = "futex",
        /// Files and disks.
        File = "file",
        /// A page of memory that had to be fetched or waited for.
        Fault = "page-fault",
        /// A requested sleep.
        Sleep = "sleep",
        /// One of several descriptors.
        Poll = "poll",
        /// A pipe, socket or terminal.
        Stream = "stream",
        /// The end of a process.
        Child = "child",
        /// Changing the mappings of memory.
        Memory = "memory",
        /// A signal or debugger stopped the thread.
        Stopped = "stopped",
    } and Other
}

impl BlockedReason {
    /// The words that follow `blocked in` in sentences.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Futex => "a futex (lock)",
            Self::File => "file I/O",
            Self::Fault => "page faults",
            Self::Sleep => "sleep (nanosleep)",
            Self::Poll => "poll, select or epoll",
            Self::Stream => "a pipe or socket",
            Self::Child => "wait (for a child process)",
            Self::Memory => "mapping memory",
            Self::Stopped => "being stopped (signal or debugger)",
            Self::Other => "something else",
        }
    }
}

kinds! {
    /// The kind of task that ran on a CPU for which a thread was ready.
    pub enum TakerKind {
        /// A thread of another process.
        Process = "process",
        /// Another thread of the target.
        Own = "own",
        /// A kernel thread.
        Kernel = "kernel",
        /// Nothing, because a quota held the thread back.
        Idle = "idle",
    }
}

impl From<Taker> for TakerKind {
    fn from(taker: Taker) -> Self {
        match taker {
            Taker::Other => Self::Process,
            Taker::Own => Self::Own,
            Taker::Kernel => Self::Kernel,
            Taker::Nobody => Self::Idle,
        }
    }
}

kinds! {
    /// The unit of a counter.
    pub enum CounterUnit {
        /// A time in nanoseconds.
        Ns = "ns",
        /// A number of events.
        Count = "count",
    }
}

kinds! {
    /// The kind of gap in a recording.
    pub enum IncompleteKind {
        /// The recording breaks off before watching ended.
        NoEnd = "no-end",
        /// A part of the recording is not as it was written; it was left out together with all that
        /// follows.
        Damaged = "damaged",
        /// There is no recording of some ranks of a job.
        NoRecording = "no-recording",
    }
}

#[cfg(test)]
mod tests {
    use super::{hang::*, *};
    use crate::report::WithheldReason;

    fn names<K: Copy>(all: &[K], name: fn(K) -> &'static str) -> Vec<&'static str> {
        all.iter().copied().map(name).collect()
    }

    #[test]
    fn each_kind_is_in_the_documents() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/");
        for (page, names) in [
            ("verdicts.md", names(VerdictKind::ALL, VerdictKind::name)),
            ("hangs.md", names(HangKind::ALL, HangKind::name)),
            ("hangs.md", names(HangCause::ALL, HangCause::name)),
            ("json.md", names(HangKind::ALL, HangKind::name)),
            ("json.md", names(HangOutcome::ALL, HangOutcome::name)),
            ("json.md", names(IncompleteKind::ALL, IncompleteKind::name)),
            ("json.md", names(WithheldReason::ALL, WithheldReason::name)),
            ("runtimes.md", names(BarrierKind::ALL, BarrierKind::name)),
        ] {
            let text = std::fs::read_to_string(format!("{docs}{page}")).unwrap();
            for name in names {
                assert!(text.contains(&format!("`{name}`")), "{page} lacks {name}");
            }
        }
    }

    #[test]
    fn a_kind_of_a_newer_version_is_read_as_another() {
        let read = |text: &str| serde_json::from_str::<VerdictKind>(text).unwrap();
        for kind in VerdictKind::ALL {
            assert_eq!(read(&serde_json::to_string(kind).unwrap()), *kind);
        }
        assert_eq!(read("\"what-comes-later\""), VerdictKind::Other);
        let reason = serde_json::from_str::<BlockedReason>("\"what-comes-later\"").unwrap();
        assert_eq!(reason, BlockedReason::Other);
    }

    #[test]
    fn reports_and_recordings_call_barriers_the_same() {
        for kind in Kind::ALL {
            assert_eq!(BarrierKind::from(kind).name(), kind.name());
        }
    }

    #[test]
    fn reports_call_levels_and_locks_as_the_rest_of_sbt_does() {
        for level in [States::Light, States::Full, States::Off] {
            assert_eq!(StatesLevel::from(level).name(), level.name());
        }
        for lock in [
            LockKind::Mutex,
            LockKind::RwLock,
            LockKind::Semaphore,
            LockKind::Library,
        ] {
            assert_eq!(LockReportKind::from(lock).name(), lock.name());
        }
    }
}
