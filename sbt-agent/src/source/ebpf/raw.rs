//! Bytes of a ring → records.

use sbt_common::{
    Arrive, Away, Callers, Condvar, Counts, Depart, Head, Init, Mapping, Memory, Sums, Taker,
    Thread, kind, read,
};

/// One record, checked for kind and length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// A thread entered a barrier.
    Arrive(Arrive),
    /// A chain of callers; boxed because it is long and seldom.
    Callers(Box<Callers>),
    /// A thread left one, ended, passed a mark, or is the agent itself: see its
    /// kind.
    Depart(Depart),
    /// A thread waits on something or wakes those who do: see its kind.
    Condvar(Condvar),
    /// What a barrier object held.
    Memory(Memory),
    /// A barrier object is being initialised.
    Init(Init),
    /// A thread announces itself.
    Thread(Thread),
    /// The mappings have changed.
    Mapping(Mapping),
    /// What the kernel has counted of a thread.
    Counts(Box<Counts>),
    /// What perf events have; boxed because they are long, and nobody's unless asked
    /// for.
    Sums(Box<Sums>),
    /// A thread comes back to a CPU.
    Away(Away),
    /// Who ran meanwhile; boxed as above.
    Taker(Box<Taker>),
}

impl Raw {
    /// Reads a record; `None` if its kind or its length is not one of ours.
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
            kind::THREAD => read(bytes).map(Self::Thread),
            kind::MAPPED | kind::EXEC | kind::FORK | kind::END => read(bytes).map(Self::Mapping),
            kind::COUNTS => read(bytes).map(|counts| Self::Counts(Box::new(counts))),
            kind::SUMS => read(bytes).map(|sums| Self::Sums(Box::new(sums))),
            kind::AWAY => read(bytes).map(Self::Away),
            kind::TAKER => read(bytes).map(|taker| Self::Taker(Box::new(taker))),
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
            Self::Mapping(record) => record.time_ns,
            Self::Counts(record) => record.time_ns,
            Self::Sums(record) => record.time_ns,
            Self::Away(record) => record.time_ns,
            Self::Taker(record) => record.time_ns,
        }
    }
}
