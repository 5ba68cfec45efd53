//! What the memory of a barrier object says.

use crate::{
    Reader,
    kmp::{self, GONE, LAST},
    layout,
};

/// What the memory of a C library's barrier says when a thread enters it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Number of participants; 0 if the memory cannot be read.
    pub count: u32,
    /// See [`crate::Memory::round`].
    pub round: u32,
    /// See [`crate::Memory::arrived`].
    pub arrived: u32,
    /// Whether processes share the barrier.
    pub shared: bool,
}

impl Held {
    /// Reads a barrier; `None` if its layout is not that of a C library.
    #[inline(always)]
    pub fn read(layout: u8, object: u64, memory: &impl Reader) -> Option<Self> {
        match layout {
            layout::GLIBC => {
                let [arrived, round, count, shared] = memory.halves(object);
                Some(Self {
                    count,
                    round,
                    arrived,
                    shared: shared != 0,
                })
            }
            layout::MUSL => {
                let held = memory.try_halves(object);
                Some(
                    held.map_or(Self::default(), |[_, _, limit]: [u32; 3]| Self {
                        count: (limit & 0x7fff_ffff) + 1,
                        shared: limit >> 31 != 0,
                        ..Self::default()
                    }),
                )
            }
            _ => None,
        }
    }
}

/// Count, round and arrivals of a barrier, as a thread that ends tells them: see
/// [`crate::Memory`]. `None` if objects of this layout do not count their rounds, or if the memory
/// cannot be read.
#[inline(always)]
pub fn at_end(layout: u8, object: u64, memory: &impl Reader) -> Option<[u32; 3]> {
    if layout == layout::KMP {
        let rounds = kmp::rounds_of(object, memory);
        return Some(rounds.map_or([0, 0, GONE], |rounds| [0, rounds, LAST]));
    }
    let [first, second, third] = memory.try_halves(object)?;
    match layout {
        layout::GLIBC => Some([third, second, first]),
        layout::GOMP => Some([first, second, 0]),
        _ => None,
    }
}

/// Whether the attributes with which `pthread_barrier_init` is called say that processes share the
/// barrier. They are a word in which nothing else is said: 1 in glibc, the highest bit in musl.
/// The pointer to them may be null.
#[inline(always)]
pub fn is_to_be_shared(attributes: u64, memory: &impl Reader) -> bool {
    attributes != 0 && memory.word(attributes) as u32 != 0
}
