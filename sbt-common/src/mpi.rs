//! Where the memory of an Open MPI rank tells which communicator is meant
//! (ompi/communicator/communicator.h and ompi/group/group.h of Open MPI 4).

/// `ompi_group_t` → the number of ranks and, behind it, this process's rank. 16 bytes behind the
/// former is a pointer to pointers to the ranks' processes.
pub const GROUP_RANKS: u64 = 16;
/// `ompi_proc_t` → the process's number of the job and its number in the world, 32 bits each.
pub const PROCESS_NAME: u64 = 40;
/// The largest number of ranks in a group.
pub const MOST_RANKS: u32 = 1 << 24;

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
