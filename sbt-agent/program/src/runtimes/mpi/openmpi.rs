//! Communicators of Open MPI, as they are found in a process's memory.
//!
//! Open MPI is usually installed without debug information, but its structure can be recognised
//! (ompi/communicator/communicator.h of Open MPI 4). A communicator contains its name, 64 bytes
//! that the library fills in. Right behind the name stand the number that the communicator's ranks
//! have agreed on, and the rank of this process. Soon after that stands a pointer to the group of
//! the ranks, which holds the rank of this process again.

use std::{fs::File, os::unix::fs::FileExt as _};

use sbt_common::{Mpi, Reader, mpi::Described};

/// Bytes of a communicator that are looked at.
const SIZE: usize = 640;

/// Length of a communicator's name, bytes: `MPI_MAX_OBJECT_NAME`.
const NAME: usize = 64;

/// How the names that the library gives to communicators begin.
const NAMES: [&[u8]; 2] = [b"MPI_COMM_", b"MPI COMMUNICATOR "];

/// The longest distance from the end of the name to the pointer to the group, bytes.
const GROUP: usize = 64;

/// `MPI_COMM_WORLD` of MPICH and of all libraries with its interface for programs: no address, but
/// this number, the same in all ranks.
const WORLD: u64 = 0x4400_0000;

/// The kinds of numbers by which MPICH names communicators (`MPI_Comm` in MPICH's `mpi.h`): the highest
/// byte.
const HANDLES: [u64; 3] = [0x44, 0x84, 0xc4];

/// Whether a value is a number by which MPICH names a communicator. No Open MPI communicator lies
/// at such a low address in a process whose memory cannot be read there.
pub const fn is_handle(value: u64) -> bool {
    let kind = value >> 24;
    kind == HANDLES[0] || kind == HANDLES[1] || kind == HANDLES[2]
}

/// Identifies a communicator in all processes: by the number that its ranks have agreed on and by
/// its first rank. The parts of a split communicator have the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Communicator {
    /// The number that the ranks have agreed on.
    pub number: u32,
    /// The first rank, as `MPI_COMM_WORLD` numbers it.
    pub first: u32,
}

/// What lies at an address of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundCommunicator {
    /// A communicator, its number of ranks, and the offsets of its fields.
    Communicator(Communicator, u32, Mpi),
    /// `MPI_COMM_WORLD` of MPICH: all ranks.
    World,
    /// Not a communicator of Open MPI 4, and not the world of MPICH.
    Other,
    /// The process has ended, or its memory cannot be read.
    Unread,
}

/// Reads what should be a communicator. `known`: the offsets that were found in another
/// communicator.
pub fn at(pid: u32, address: u64, known: Option<Mpi>) -> FoundCommunicator {
    let Ok(memory) = File::open(format!("/proc/{pid}/mem")) else {
        return FoundCommunicator::Unread;
    };
    if memory.read_exact_at(&mut [0], address).is_err() {
        return match address {
            WORLD => FoundCommunicator::World,
            handle if is_handle(handle) => FoundCommunicator::Other,
            _ => FoundCommunicator::Unread,
        };
    }
    let read: Read<'_> = &|at, bytes| memory.read_exact_at(bytes, at).ok();
    read_as(address, known, read)
        .map_or(FoundCommunicator::Other, |((communicator, ranks), mpi)| {
            FoundCommunicator::Communicator(communicator, ranks, mpi)
        })
}

/// The communicator at `address`, its number of ranks, and the offsets of its fields. `known`: the
/// offsets that were found in another communicator; they also serve for communicators that the
/// program has renamed.
pub fn read_as(
    address: u64,
    known: Option<Mpi>,
    read: Read<'_>,
) -> Option<((Communicator, u32), Mpi)> {
    let by_place = known.and_then(|known| Some((describe(address, known, read)?, known)));
    by_place.or_else(|| find(address, read))
}

/// Reads memory into a buffer: all of the buffer or nothing.
pub type Read<'a> = &'a dyn Fn(u64, &mut [u8]) -> Option<()>;

/// Memory that a function reads.
struct Bytes<'a>(Read<'a>);

impl Reader for Bytes<'_> {
    fn try_halves<const N: usize>(&self, address: u64) -> Option<[u32; N]> {
        let mut bytes = [[0; 4]; N];
        (self.0)(address, bytes.as_flattened_mut())?;
        Some(bytes.map(u32::from_ne_bytes))
    }

    fn word(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        (self.0)(address, &mut bytes).map_or(0, |()| u64::from_ne_bytes(bytes))
    }
}

fn describe(address: u64, at: Mpi, read: Read<'_>) -> Option<(Communicator, u32)> {
    let Described {
        ranks,
        number,
        first,
    } = at.describe(address, &Bytes(read))?;
    Some((Communicator { number, first }, ranks))
}

/// Finds a communicator's fields by the name that the library has given it.
fn find(address: u64, read: Read<'_>) -> Option<((Communicator, u32), Mpi)> {
    let mut bytes = [0; SIZE];
    read(address, &mut bytes)?;
    let begins = |at: &usize| NAMES.iter().any(|name| bytes[*at..].starts_with(name));
    let name = (0..SIZE - NAME - GROUP).step_by(4).find(begins)?;
    let number = name + NAME;
    // Pointers are aligned, as the structure itself is.
    let start = number.next_multiple_of(8);
    (start..start + GROUP).step_by(8).find_map(|group| {
        let mpi = Mpi {
            number: u32::try_from(number).ok()?,
            group: u32::try_from(group).ok()?,
        };
        Some((describe(address, mpi, read)?, mpi))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x1000;

    /// The memory of a process with one communicator, whose first rank is number 3 in
    /// `MPI_COMM_WORLD`. `known`: whether this process has communicated with that rank.
    fn memory(name: &[u8], known: bool) -> Vec<u8> {
        let mut memory = vec![0; 0x3000];
        let mut put = |at: u64, bytes: &[u8]| {
            let at = usize::try_from(at - AT).unwrap();
            memory[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(AT + 0x150, name);
        put(AT + 0x190, &7_u32.to_ne_bytes());
        put(AT + 0x194, &1_u32.to_ne_bytes());
        put(AT + 0x1b0, &0x2000_u64.to_ne_bytes());
        // The group: four ranks; this process has rank 1.
        put(0x2000 + 16, &4_u32.to_ne_bytes());
        put(0x2000 + 20, &1_u32.to_ne_bytes());
        put(0x2000 + 32, &0x2100_u64.to_ne_bytes());
        let first: u64 = if known { 0x2200 } else { 3 << 1 | 1 };
        put(0x2100, &first.to_ne_bytes());
        put(0x2200 + 44, &3_u32.to_ne_bytes());
        memory
    }

    /// Reads from `memory`.
    fn reading(memory: &[u8]) -> impl Fn(u64, &mut [u8]) -> Option<()> {
        |at, bytes| {
            let at = usize::try_from(at.checked_sub(AT)?).ok()?;
            bytes.copy_from_slice(memory.get(at..at.checked_add(bytes.len())?)?);
            Some(())
        }
    }

    fn found(memory: &[u8]) -> Option<(Communicator, u32)> {
        Some(find(AT, &reading(memory))?.0)
    }

    #[test]
    fn one_that_the_program_has_named_is_known_by_the_place() {
        let (as_made, mpi) = find(AT, &reading(&memory(b"MPI_COMM_WORLD", true))).unwrap();
        let named = memory(b"of the rows", true);
        assert_eq!(found(&named), None);
        let known = |at, mpi| read_as(at, Some(mpi), &reading(&named));
        assert_eq!(known(AT, mpi), Some((as_made, mpi)));
        assert_eq!(known(AT, Mpi::default()), None);
        assert_eq!(known(u64::MAX, mpi), None);
    }

    #[test]
    fn a_communicator_is_its_number_and_its_first_rank() {
        let expected = Communicator {
            number: 7,
            first: 3,
        };
        for name in [&b"MPI_COMM_WORLD"[..], b"MPI COMMUNICATOR 7 DUP FROM 0"] {
            for known in [true, false] {
                assert_eq!(found(&memory(name, known)), Some((expected, 4)));
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_none() {
        assert_eq!(found(&memory(b"MPI_WIN_NULL", true)), None);
        // The group says that this process has another rank.
        let mut other = memory(b"MPI_COMM_WORLD", true);
        other[0x1000 + 20] = 2;
        assert_eq!(found(&other), None);
        assert_eq!(found(&[]), None);
    }
}
