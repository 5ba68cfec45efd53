//! Where in the memory of a rank of Open MPI stands which communicator is meant
//! (ompi/communicator/communicator.h and ompi/group/group.h of Open MPI 4).

/// `ompi_group_t` → how many ranks it has, which of them this is, and, 16 bytes after the
/// former, a pointer to pointers to the ranks' processes.
pub const GROUP_RANKS: u64 = 16;
/// `ompi_proc_t` → its number in the job, and that in the world, 32 bits each.
pub const PROCESS_NAME: u64 = 40;
/// No group has more ranks than this.
pub const MOST_RANKS: u32 = 1 << 24;

/// What the agent has learnt of the library's communicators, from the first that it
/// understood: the one value of the map [`crate::name::MPI`]. All 0 before that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Mpi {
    /// `ompi_communicator_t` → the number that the ranks have agreed on, and right behind
    /// it, which of the ranks this process is: 32 bits each.
    pub number: u32,
    /// `ompi_communicator_t` → a pointer to the group of its ranks
    pub group: u32,
}
