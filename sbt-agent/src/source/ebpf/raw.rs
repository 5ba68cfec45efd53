//! Parses the bytes of a ring into records.

use sbt_common::{
    Arrive, Asleep, Away, Callers, Condvar, Counts, Depart, Head, Init, Made, Make, Mapping,
    Memory, Speed, Sums, Taker, Thread, Woken, kind, read,
};

/// One record of the ring, its kind and length checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// A thread entered a barrier.
    Arrive(Arrive),
    /// The addresses of a chain of callers. Boxed, because it is long and rare.
    Callers(Box<Callers>),
    /// A thread left a barrier, ended or passed a mark, or the agent calibrates: see the record's
    /// kind.
    Depart(Depart),
    /// A thread waits, wakes waiting threads or takes a lock: see the record's kind.
    Condvar(Condvar),
    /// What the memory of a barrier object held.
    Memory(Memory),
    /// A barrier object is being initialised.
    Init(Init),
    /// A thread enters a function of MPI that makes or ends a communicator or a group. Boxed, because
    /// it is long and rare.
    Make(Box<Make>),
    /// A thread leaves a function of MPI that makes or ends a communicator or a group.
    Made(Made),
    /// A thread is seen for the first time.
    Thread(Thread),
    /// A process mapped a file, executed a program, forked or ended: see the record's kind.
    Mapping(Mapping),
    /// Counters that the kernel keeps of each thread.
    Counts(Box<Counts>),
    /// Values of perf events. Boxed, because it is long and sent only if asked for.
    Sums(Box<Sums>),
    /// A thread returns to a CPU.
    Away(Away),
    /// The threads that ran while a thread was ready. Boxed, because it is long and sent only if asked
    /// for.
    Taker(Box<Taker>),
    /// A sample of the sleeps of threads. Boxed, because it is long.
    Asleep(Box<Asleep>),
    /// The end of a sampled sleep.
    Woken(Woken),
    /// How fast the CPU of a thread is.
    Speed(Speed),
}

impl Raw {
    /// Parses a record. `None` if no record has this kind and length.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let head: Head = read(bytes.get(..size_of::<Head>())?)?;
        match head.kind {
            kind::ARRIVE => read(bytes).map(Self::Arrive),
            kind::DEPART | kind::EXIT | kind::CALIBRATE | kind::MARK => {
                read(bytes).map(Self::Depart)
            }
            kind::WAIT | kind::WAKE | kind::LOCK => read(bytes).map(Self::Condvar),
            kind::CALLERS => read(bytes).map(|callers| Self::Callers(Box::new(callers))),
            kind::MEMORY => read(bytes).map(Self::Memory),
            kind::INIT => read(bytes).map(Self::Init),
            kind::MAKE => read(bytes).map(|make| Self::Make(Box::new(make))),
            kind::MADE => read(bytes).map(Self::Made),
            kind::THREAD => read(bytes).map(Self::Thread),
            kind::MAPPED | kind::EXEC | kind::FORK | kind::END => read(bytes).map(Self::Mapping),
            kind::COUNTS => read(bytes).map(|counts| Self::Counts(Box::new(counts))),
            kind::SUMS => read(bytes).map(|sums| Self::Sums(Box::new(sums))),
            kind::AWAY => read(bytes).map(Self::Away),
            kind::TAKER => read(bytes).map(|taker| Self::Taker(Box::new(taker))),
            kind::ASLEEP => read(bytes).map(|asleep| Self::Asleep(Box::new(asleep))),
            kind::WOKEN => read(bytes).map(Self::Woken),
            kind::SPEED => read(bytes).map(Self::Speed),
            _ => None,
        }
    }

    /// When the record was made, `CLOCK_MONOTONIC` ns.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::Arrive(record) => record.clocks.time_ns,
            Self::Condvar(record) => record.clocks.time_ns,
            Self::Callers(record) => record.time_ns,
            Self::Depart(record) => record.clocks.time_ns,
            Self::Thread(record) => record.clocks.time_ns,
            Self::Memory(record) => record.time_ns,
            Self::Init(record) => record.time_ns,
            Self::Make(record) => record.time_ns,
            Self::Made(record) => record.time_ns,
            Self::Mapping(record) => record.time_ns,
            Self::Counts(record) => record.time_ns,
            Self::Sums(record) => record.time_ns,
            Self::Away(record) => record.time_ns,
            Self::Taker(record) => record.time_ns,
            Self::Asleep(record) => record.time_ns,
            Self::Woken(record) => record.time_ns,
            Self::Speed(record) => record.time_ns,
        }
    }
}
