//! Functions of MPI that wait for a message, or for its being taken, and with whom they exchange it; and
//! those that wait for all ranks of a communicator.

use super::openmpi::{Communicator, FoundCommunicator, at};

/// The functions, and the numbers of the arguments that are the other rank, the tag and the
/// communicator (MPI 3.1, chapter 3).
const FUNCTIONS: [(&str, [usize; 3]); 7] = [
    ("MPI_Recv", [3, 4, 5]),
    ("MPI_Send", [3, 4, 5]),
    ("MPI_Ssend", [3, 4, 5]),
    ("MPI_Rsend", [3, 4, 5]),
    ("MPI_Bsend", [3, 4, 5]),
    ("MPI_Probe", [0, 1, 2]),
    ("MPI_Mprobe", [0, 1, 2]),
];

/// Functions that end only when all ranks of a communicator have come to them, and the number of the
/// argument that is the communicator (MPI 3.1, chapter 5).
const FOR_ALL: [(&str, usize); 4] = [
    ("MPI_Barrier", 0),
    ("MPI_Allreduce", 5),
    ("MPI_Reduce_scatter", 5),
    ("MPI_Reduce_scatter_block", 5),
];

/// The functions in which a rank may wait for others and that are no barrier of all ranks (MPI 3.1,
/// chapters 3, 5 and 11).
const WAITS: [&str; 26] = [
    "MPI_Recv",
    "MPI_Send",
    "MPI_Ssend",
    "MPI_Rsend",
    "MPI_Bsend",
    "MPI_Sendrecv",
    "MPI_Sendrecv_replace",
    "MPI_Probe",
    "MPI_Mprobe",
    "MPI_Mrecv",
    "MPI_Wait",
    "MPI_Waitall",
    "MPI_Waitany",
    "MPI_Waitsome",
    "MPI_Bcast",
    "MPI_Reduce",
    "MPI_Gather",
    "MPI_Gatherv",
    "MPI_Scatter",
    "MPI_Scatterv",
    "MPI_Scan",
    "MPI_Exscan",
    "MPI_Win_fence",
    "MPI_Win_wait",
    "MPI_Win_complete",
    "MPI_Win_unlock",
];

/// `MPI_ANY_SOURCE` of Open MPI and of libraries with MPICH's interface.
const ANY: [i32; 2] = [-1, -2];

/// `MPI_ANY_TAG`, the same in both.
const ANY_TAG: i32 = -1;

/// The message for which a rank waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The rank that sends or gets the message; `None` if any rank may.
    pub rank: Option<u32>,
    /// Whether the communicator is `MPI_COMM_WORLD`, so that the rank is that of the program.
    pub is_of_world: bool,
    /// The tag; `None` if any tag will do, or if it is not known.
    pub tag: Option<i32>,
    /// Whether the rank waits for no message but for all other ranks of the communicator.
    pub of_all: bool,
}

/// The numbers of the arguments of interest of a function with this name: the other rank, the tag and
/// the communicator, or the communicator alone if the function waits for all of its ranks.
pub fn arguments(name: &str) -> Option<Vec<usize>> {
    let name = name.strip_prefix('P').unwrap_or(name);
    let mut messages = FUNCTIONS.iter();
    let message = messages.find(|(known, _)| *known == name);
    let mut all = FOR_ALL.iter();
    let for_all = all.find(|(known, _)| *known == name);
    let message = message.map(|(_, arguments)| arguments.to_vec());
    message.or_else(|| for_all.map(|(_, communicator)| vec![*communicator]))
}

/// The function in which a rank may wait for others, by the name under which a program calls it: in
/// Fortran its letters are small, and `_` follows.
pub fn waits_in(called: &str) -> Option<&'static str> {
    let name = called.strip_prefix(['P', 'p']).unwrap_or(called);
    let name = name.trim_end_matches('_');
    let is_fortran = name.starts_with("mpi_");
    let mut known = WAITS.into_iter();
    known.find(|known| *known == name || is_fortran && known.eq_ignore_ascii_case(name))
}

/// The message, or the other ranks, by the values of these arguments in a process; `None` if the other
/// rank or the communicator is not known.
pub fn awaited(pid: u32, given: &[Option<u64>]) -> Option<Awaited> {
    match given {
        [Some(rank), tag, Some(communicator)] => of(*rank, *tag, &at(pid, *communicator, None)),
        [Some(communicator)] => of_all(&at(pid, *communicator, None)),
        _ => None,
    }
}

/// Whether a communicator is `MPI_COMM_WORLD`, and `MPI_ANY_SOURCE` of its library; `None` if it is not
/// understood.
fn is_world(communicator: &FoundCommunicator) -> Option<(bool, i32)> {
    const WORLD: Communicator = Communicator {
        number: 0,
        first: 0,
    };
    match communicator {
        FoundCommunicator::Communicator(found, ..) => Some((*found == WORLD, ANY[0])),
        FoundCommunicator::World => Some((true, ANY[1])),
        FoundCommunicator::Other | FoundCommunicator::Unread => None,
    }
}

fn of_all(communicator: &FoundCommunicator) -> Option<Awaited> {
    let (is_of_world, _) = is_world(communicator)?;
    Some(Awaited {
        rank: None,
        is_of_world,
        tag: None,
        of_all: true,
    })
}

fn of(rank: u64, tag: Option<u64>, communicator: &FoundCommunicator) -> Option<Awaited> {
    // An `int`: what the other half of the register holds is not defined.
    let low = |value: u64| u32::try_from(value & u64::from(u32::MAX)).unwrap_or(0);
    let int = |value: u64| low(value).cast_signed();
    let (is_of_world, any) = is_world(communicator)?;
    let rank = int(rank);
    let rank = match u32::try_from(rank) {
        Ok(rank) => Some(rank),
        Err(_) if rank == any => None,
        Err(_) => return None,
    };
    Some(Awaited {
        rank,
        is_of_world,
        tag: tag.map(int).filter(|tag| *tag != ANY_TAG),
        of_all: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_wait_are_known_by_all_their_names() {
        for called in [
            "MPI_Bcast",
            "PMPI_Bcast",
            "mpi_bcast_",
            "pmpi_bcast__",
            "mpi_bcast",
        ] {
            assert_eq!(waits_in(called), Some("MPI_Bcast"), "{called}");
        }
        for called in [
            "MPI_Barrier",
            "MPI_Comm_rank",
            "MPI_BCAST",
            "Bcast",
            "mpi_",
            "",
        ] {
            assert_eq!(waits_in(called), None, "{called}");
        }
    }

    #[test]
    fn names_of_the_library_and_of_its_profiling_interface() {
        assert_eq!(arguments("MPI_Recv"), Some(vec![3, 4, 5]));
        assert_eq!(arguments("PMPI_Probe"), Some(vec![0, 1, 2]));
        assert_eq!(arguments("PMPI_Barrier"), Some(vec![0]));
        assert_eq!(arguments("MPI_Irecv"), None);
    }

    #[test]
    fn who_waits_for_all_ranks_of_the_program() {
        let found = of_all(&FoundCommunicator::World).unwrap();
        assert!(found.of_all && found.is_of_world);
        assert_eq!((found.rank, found.tag), (None, None));
        assert_eq!(of_all(&FoundCommunicator::Other), None);
        assert_eq!(awaited(1, &[None]), None);
    }

    #[test]
    fn the_other_rank_and_the_tag() {
        let world = FoundCommunicator::World;
        let found = |rank: i32, tag| of(u64::from(rank.cast_unsigned()), tag, &world);
        let known = Awaited {
            rank: Some(3),
            is_of_world: true,
            tag: Some(77),
            of_all: false,
        };
        assert_eq!(found(3, Some(77)), Some(known));
        // The upper half of a register may hold anything.
        assert_eq!(of(7 << 32 | 0x3, Some(9 << 32 | 0x4d), &world), Some(known));
        let any = Awaited {
            rank: None,
            tag: None,
            ..known
        };
        assert_eq!(found(-2, Some(u64::MAX)), Some(any));
        // No rank (`MPI_PROC_NULL`), and an unknown communicator.
        assert_eq!(found(-1, None), None);
        assert_eq!(of(3, None, &FoundCommunicator::Other), None);
    }
}
