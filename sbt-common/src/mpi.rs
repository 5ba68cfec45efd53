//! Where the memory of an Open MPI rank tells which communicator is meant
//! (ompi/communicator/communicator.h and ompi/group/group.h of Open MPI 4).

use crate::Reader;

/// `ompi_group_t` → the number of ranks and, behind it, this process's rank. 16 bytes behind the
/// former is a pointer to pointers to the ranks' processes.
const GROUP_RANKS: u64 = 16;
/// `ompi_proc_t` → the process's number of the job and its number in the world, 32 bits each.
const PROCESS_NAME: u64 = 40;
/// The largest number of ranks in a group.
const MOST_RANKS: u32 = 1 << 24;

/// What the agent knows about the library's communicators, from the first one that it understood:
/// the only value of the map [`crate::name::MPI`]. All 0 before that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Mpi {
    /// `ompi_communicator_t` → the number on which the ranks have agreed and, right behind it, this
    /// process's rank: 32 bits each.
    pub number: u32,
    /// `ompi_communicator_t` → a pointer to the group of its ranks.
    pub group: u32,
}

/// A communicator, as one of its ranks describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// How many ranks it has.
    pub ranks: u32,
    /// The number on which its ranks have agreed.
    pub number: u32,
    /// Its first rank, as the world numbers it.
    pub first: u32,
}

impl Mpi {
    /// Reads the communicator at an address; `None` if there is none, or if memory cannot be read.
    #[inline(always)]
    pub fn describe(self, object: u64, memory: &impl Reader) -> Option<Described> {
        let [number, rank] = memory.try_halves(object.wrapping_add(u64::from(self.number)))?;
        let group = memory.word(object.wrapping_add(u64::from(self.group)));
        let [ranks, mine, _, _, low, high] = memory.try_halves(group.wrapping_add(GROUP_RANKS))?;
        if mine != rank || rank >= ranks || ranks > MOST_RANKS {
            return None;
        }
        let first = memory.word(u64::from(high) << 32 | u64::from(low));
        // For a process that nobody has communicated with, only the name stands there, with the
        // lowest bit set.
        let first = if first & 1 == 1 {
            (first >> 1) as u32
        } else {
            let [_, number] = memory.try_halves(first.wrapping_add(PROCESS_NAME))?;
            number
        };
        Some(Described {
            ranks,
            number,
            first,
        })
    }
}
