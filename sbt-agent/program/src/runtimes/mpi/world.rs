//! Finds out what sbt knows of a process that is a rank of an MPI program: from the environment of the
//! process, and from the symbols of its library.

use object::{LittleEndian, read::elf::ElfFile64};

use super::families::Rank;
use crate::{
    elf::{self, names},
    memory::Memory,
    process::{self, Mapping, job},
};

/// `MPI_COMM_WORLD`, `MPI_COMM_SELF` and `MPI_COMM_NULL` in programs for MPICH and its kin.
const NUMBERED: [u64; 3] = [0x4400_0000, 0x4400_0001, 0x0400_0000];

/// `MPI_COMM_WORLD`, `MPI_COMM_SELF` and `MPI_COMM_NULL` in the standard binary interface (MPI 5.0,
/// appendix A).
const STANDARD: [u64; 3] = [0x101, 0x102, 0x100];

/// The variables of Open MPI's library that hold the addresses of `MPI_COMM_WORLD`, `MPI_COMM_SELF` and
/// `MPI_COMM_NULL`. Symbols of the communicators themselves do not tell: programs may have copies of
/// them, as of other data of libraries.
const ADDRESSES: [&[u8]; 3] = [
    b"ompi_mpi_comm_world_addr",
    b"ompi_mpi_comm_self_addr",
    b"ompi_mpi_comm_null_addr",
];

/// Describes the process `pid` as a rank. `is_numbered`: whether the library's communicators are numbers;
/// `is_complete`: see [`Rank::is_complete`].
pub fn rank(pid: u32, is_numbered: bool, is_complete: bool) -> Rank {
    let constants = if is_numbered { NUMBERED } else { STANDARD };
    let open_mpi = if is_numbered { None } else { open_mpi(pid) };
    // Each library knows some launchers. Started by another launcher, each process is a program of its
    // own.
    let ranks = if open_mpi.is_some() {
        job::ranks_of_open_mpi(pid)
    } else {
        job::ranks_of_mpich(pid)
    };
    let (addresses, is_readable) = open_mpi.unwrap_or((constants, false));
    let [world, alone, none] = addresses;
    Rank {
        job: job::name(pid),
        rank: job::rank(pid),
        ranks,
        world,
        alone,
        none,
        is_readable,
        is_complete,
    }
}

/// The addresses of `MPI_COMM_WORLD`, `MPI_COMM_SELF` and `MPI_COMM_NULL` in a process with Open MPI, and
/// whether the library is Open MPI 4; `None` if the process has another library, or has ended.
fn open_mpi(pid: u32) -> Option<([u64; 3], bool)> {
    let mappings = process::mappings(pid);
    let is_of_mpi = |mapping: &&Mapping| {
        let name = mapping.path.file_name().unwrap_or_default();
        name.to_string_lossy().contains("mpi")
    };
    // The library, or the program that it was linked into.
    let mut all = mappings.iter().filter(is_of_mpi).chain(mappings.first());
    all.find_map(|mapping| in_file(pid, mapping))
}

fn in_file(pid: u32, mapping: &Mapping) -> Option<([u64; 3], bool)> {
    let image = elf::map(&mapping.file(pid).ok()?).ok()?;
    let bias = bias(mapping, &image)?;
    let file = ElfFile64::<LittleEndian>::parse(&*image).ok()?;
    let memory = Memory { thread: pid };
    let (mut found, mut is_newer) = ([None; 3], false);
    // Sessions came with MPI 4.0, and so with Open MPI 5.
    for symbol in names::defined(&file) {
        if let Some(which) = ADDRESSES.iter().position(|name| *name == symbol.name) {
            found[which] = memory.word(bias.wrapping_add(symbol.address()));
        }
        is_newer |= symbol.name == b"MPI_Session_init";
    }
    match found {
        [Some(world), Some(alone), Some(none)] => Some(([world, alone, none], !is_newer)),
        _ => None,
    }
}

/// The difference between a file's addresses in memory and those in the file.
fn bias(mapping: &Mapping, image: &[u8]) -> Option<u64> {
    let segments = elf::load_segments(image).ok()?;
    let mut of_mapping = segments
        .iter()
        .filter_map(|segment| segment.address(mapping.offset));
    Some(mapping.start.wrapping_sub(of_mapping.next()?))
}
