//! Functions of MPI that wait for a message, or for its being taken, and with whom they exchange it.

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

/// `MPI_ANY_SOURCE` of Open MPI and of libraries with MPICH's interface.
const ANY: [i32; 2] = [-1, -2];

/// `MPI_ANY_TAG`, the same in both.
const ANY_TAG: i32 = -1;

/// The message for which a rank waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The other rank; `None` if it may be any.
    pub rank: Option<u32>,
    /// Whether the communicator is `MPI_COMM_WORLD`, so that the rank is that of the program.
    pub is_of_world: bool,
    /// The tag; `None` if it may be any, or is not known.
    pub tag: Option<i32>,
}

/// The numbers of the arguments of interest of a function with this name: the other rank, the tag and
/// the communicator.
pub fn arguments(name: &str) -> Option<[usize; 3]> {
    let name = name.strip_prefix('P').unwrap_or(name);
    let mut known = FUNCTIONS.iter();
    known
        .find(|(known, _)| *known == name)
        .map(|(_, arguments)| *arguments)
}

/// The message by the values of these arguments in a process; `None` if the other rank is not known.
pub fn awaited(pid: u32, given: &[Option<u64>]) -> Option<Awaited> {
    let [Some(rank), tag, Some(communicator)] = given else {
        return None;
    };
    of(*rank, *tag, &at(pid, *communicator, None))
}

fn of(rank: u64, tag: Option<u64>, communicator: &FoundCommunicator) -> Option<Awaited> {
    const WORLD: Communicator = Communicator {
        number: 0,
        first: 0,
    };
    // An `int`: what the other half of the register holds is not defined.
    let low = |value: u64| u32::try_from(value & u64::from(u32::MAX)).unwrap_or(0);
    let int = |value: u64| low(value).cast_signed();
    let (is_of_world, any) = match communicator {
        FoundCommunicator::Communicator(found, ..) => (*found == WORLD, ANY[0]),
        FoundCommunicator::World => (true, ANY[1]),
        FoundCommunicator::Other | FoundCommunicator::Unread => return None,
    };
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_library_and_of_its_profiling_interface() {
        assert_eq!(arguments("MPI_Recv"), Some([3, 4, 5]));
        assert_eq!(arguments("PMPI_Probe"), Some([0, 1, 2]));
        assert_eq!(arguments("MPI_Irecv"), None);
    }

    #[test]
    fn the_other_rank_and_the_tag() {
        let world = FoundCommunicator::World;
        let found = |rank: i32, tag| of(u64::from(rank.cast_unsigned()), tag, &world);
        let known = Awaited {
            rank: Some(3),
            is_of_world: true,
            tag: Some(77),
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
