//! What a process's memory says of a communicator of Open MPI.
//!
//! The library has no debug information where it is installed, but its structure
//! shows itself (ompi/communicator/communicator.h of Open MPI 4): a communicator has
//! its name in it, 64 bytes that the library fills in; right behind it stand the
//! number that its ranks have agreed on, and which of them this process is; and soon
//! after that a pointer to the group of its ranks, which says the latter again.

use std::{fs::File, os::unix::fs::FileExt as _};

use sbt_common::{
    Mpi,
    mpi::{GROUP_RANKS, MOST_RANKS, PROCESS_NAME},
};

/// How much of a communicator is looked at, bytes.
const SIZE: usize = 640;

/// Length of its name, bytes: `MPI_MAX_OBJECT_NAME`.
const NAME: usize = 64;

/// How the library's own names begin.
const NAMES: [&[u8]; 2] = [b"MPI_COMM_", b"MPI COMMUNICATOR "];

/// How far behind its name the pointer to its group lies at most, bytes.
const GROUP: usize = 64;

/// What tells communicators apart in all processes: the number that the ranks have
/// agreed on, and the first of them. Those into which one is split have the same
/// number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Communicator {
    /// That number.
    pub number: u32,
    /// That rank, as the world numbers it.
    pub first: u32,
}

/// What lies at an address of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A communicator, how many ranks it has, and where that stands.
    Communicator(Communicator, u32, Mpi),
    /// None of Open MPI 4.
    Other,
    /// The process has ended, or its memory cannot be read.
    Unread,
}

/// Reads what should be a communicator. `known`: what was found of another one.
pub fn at(pid: u32, address: u64, known: Option<Mpi>) -> Found {
    let Ok(memory) = File::open(format!("/proc/{pid}/mem")) else {
        return Found::Unread;
    };
    if memory.read_exact_at(&mut [0], address).is_err() {
        return Found::Unread;
    }
    let read: Read<'_> = &|at, bytes| memory.read_exact_at(bytes, at).ok();
    read_as(address, known, read).map_or(Found::Other, |((communicator, ranks), mpi)| {
        Found::Communicator(communicator, ranks, mpi)
    })
}

/// What a communicator is, how many ranks it has, and where that stands: `known` of another
/// one, which holds also for those to which the program has given another name.
pub fn read_as(
    address: u64,
    known: Option<Mpi>,
    read: Read<'_>,
) -> Option<((Communicator, u32), Mpi)> {
    let by_place = known.and_then(|known| Some((describe(address, known, read)?, known)));
    by_place.or_else(|| find(address, read))
}

/// Reads memory into a buffer, all of it or nothing.
pub type Read<'a> = &'a dyn Fn(u64, &mut [u8]) -> Option<()>;

fn describe(address: u64, at: Mpi, read: Read<'_>) -> Option<(Communicator, u32)> {
    let mut bytes = [0; 8];
    read(address.checked_add(at.number.into())?, &mut bytes)?;
    let (number, rank) = (word(&bytes, 0)?, word(&bytes, 4)?);
    read(address.checked_add(at.group.into())?, &mut bytes)?;
    let (ranks, first) = group(pointer(&bytes, 0)?, rank, read)?;
    Some((Communicator { number, first }, ranks))
}

/// By the name that the library has given it.
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

/// The number of ranks of a group, and the first of them in the world; `None` if it
/// is none in which this process has that rank.
fn group(address: u64, rank: u32, read: Read<'_>) -> Option<(u32, u32)> {
    let mut bytes = [0; 24];
    // Behind what all of the library's objects begin with: how many ranks, which of
    // them this is, a number for Fortran, and pointers to the ranks' processes.
    read(address.checked_add(GROUP_RANKS)?, &mut bytes)?;
    let (size, mine) = (word(&bytes, 0)?, word(&bytes, 4)?);
    if mine != rank || rank >= size || size > MOST_RANKS {
        return None;
    }
    let mut first = [0; 8];
    read(pointer(&bytes, 16)?, &mut first)?;
    let first = u64::from_ne_bytes(first);
    // Of a process that nobody has spoken to there is only the name, and the lowest
    // bit says so.
    let first = if first & 1 == 1 {
        u32::try_from(first >> 1 & u64::from(u32::MAX)).ok()?
    } else {
        let mut name = [0; 8];
        read(first.checked_add(PROCESS_NAME)?, &mut name)?;
        word(&name, 4)?
    };
    Some((size, first))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn pointer(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?)).filter(|pointer| *pointer != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x1000;

    /// A process's memory with one communicator in it, of ranks that begin with the
    /// third of the world. `known`: whether this process has spoken to that one.
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
        // The group: four ranks, of which this is the second.
        put(0x2000 + 16, &4_u32.to_ne_bytes());
        put(0x2000 + 20, &1_u32.to_ne_bytes());
        put(0x2000 + 32, &0x2100_u64.to_ne_bytes());
        let first: u64 = if known { 0x2200 } else { 3 << 1 | 1 };
        put(0x2100, &first.to_ne_bytes());
        put(0x2200 + 44, &3_u32.to_ne_bytes());
        memory
    }

    /// Reads it.
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
        // The group says that this is another rank of it.
        let mut other = memory(b"MPI_COMM_WORLD", true);
        other[0x1000 + 20] = 2;
        assert_eq!(found(&other), None);
        assert_eq!(found(&[]), None);
    }
}
