//! MPI: the collective operations that are barriers, because each process leaves them with data from all
//! others.
//!
//! The object of such a barrier is a communicator. [`families`] finds out which communicators of
//! different processes are the same, from the calls that made them, alike for every library.
//! [`openmpi`] reads this in the memory of Open MPI 4, also after the calls. What threads wait for
//! inside of such an operation is not known.

pub mod families;
pub mod groups;
pub mod makers;
pub mod messages;
pub mod openmpi;
mod parts;
pub mod world;

use std::path::{Path, PathBuf};

use object::{LittleEndian, read::elf::ElfFile64};
use sbt_common::layout;
use sbt_engine::event::Kind;

use super::{
    Role, Runtime,
    waits::{NO_BARRIER, NO_WAITS},
};
use crate::{elf::names, point::Function};

/// MPI as a runtime. Departures are always watched, on the instructions by which the functions end.
pub static RUNTIME: Runtime = Runtime {
    name: "MPI",
    kind: Kind::Mpi,
    role: Role::Mpi,
    barriers: None,
    layouts: &[layout::MPI, layout::MPI_NUMBERED],
    is_library: true,
    libraries: &["libmpi", "libopen-"],
    ways: &[],
    prefix: None,
    object: None,
    rounds: None,
    language: None,
    is_barrier: NO_BARRIER,
    waits: NO_WAITS,
};

/// The names of the operations that are barriers, and the number of the argument that is the communicator
/// (MPI 3.1, chapter 5). Operations whose data flow one way, from one rank or to one, are no barriers.
const COLLECTIVES: [(&str, u8); 9] = [
    ("MPI_Barrier", 1),
    ("MPI_Allreduce", 6),
    ("MPI_Allgather", 7),
    ("MPI_Allgatherv", 8),
    ("MPI_Alltoall", 7),
    ("MPI_Alltoallv", 9),
    ("MPI_Alltoallw", 9),
    ("MPI_Reduce_scatter", 6),
    ("MPI_Reduce_scatter_block", 6),
];

/// The operations that are barriers by their names, each with the [`Function`] of its points. MPI's
/// library for Fortran calls these operations.
pub fn collectives() -> impl Iterator<Item = (&'static str, Function)> {
    COLLECTIVES.into_iter().map(|(name, object)| {
        let function = Function::Call { object, count: 0 };
        (name, function)
    })
}

/// The number of an operation that is a barrier, from 1; 0 for all other functions.
pub fn number(function: &str) -> u16 {
    let name = function.strip_prefix('P').unwrap_or(function);
    let mut numbered = (1..).zip(COLLECTIVES);
    numbered
        .find(|(_, (known, _))| *known == name)
        .map_or(0, |(number, _)| number)
}

/// The name of the operation with this number.
pub fn numbered(number: u16) -> Option<&'static str> {
    let index = usize::from(number.checked_sub(1)?);
    COLLECTIVES.get(index).map(|(name, _)| *name)
}

/// Whether a file defines MPI's functions for programs in C: a library, or a program that it was linked
/// into. Libraries that stand between, for measurements or for Fortran, use the second names of the
/// functions (MPI 3.1, section 14.2), but do not define them.
pub fn is_defined(image: &[u8]) -> bool {
    const NAME: &[u8] = b"PMPI_Barrier";
    ElfFile64::<LittleEndian>::parse(image).is_ok_and(|file| {
        names::may_hold(&file, NAME) && names::defined(&file).any(|symbol| symbol.name == NAME)
    })
}

/// Why a function cannot be a barrier that the user names; `None` if it can, or if it is not a
/// function of MPI.
pub fn refusal(function: &str) -> Option<String> {
    let name = function.strip_prefix('P').unwrap_or(function);
    let is_counted = COLLECTIVES.iter().any(|(counted, _)| *counted == name);
    (name.starts_with("MPI_") && !is_counted).then(|| {
        let counted = COLLECTIVES.map(|(name, _)| name).join(", ");
        format!(
            "it is a function of MPI in which not all ranks wait for each other, or in which sbt \
             does not know which ranks do; sbt counts {counted}, without --barrier"
        )
    })
}

/// The second name of a function of MPI, of which each has two (MPI 3.1, section 14.2): `PMPI_Barrier`
/// for `MPI_Barrier`, and the other way round.
pub fn second_name(function: &str) -> String {
    match function.strip_prefix('P') {
        Some(first) => first.to_owned(),
        None => format!("P{function}"),
    }
}

/// Whether communicators are numbers in programs for this library: it is MPICH or one of its kin, and not
/// its library with the standard binary interface (MPI 5.0).
pub fn is_numbered(file_name: &str, image: &[u8]) -> bool {
    let is_open_mpi = ElfFile64::<LittleEndian>::parse(image)
        .is_ok_and(|file| names::may_hold(&file, b"ompi_mpi_comm_world"));
    !is_open_mpi && !file_name.starts_with("libmpi_abi.")
}

/// Names of libraries of MPI, as programs are linked to them, and as Python loads them.
const LIBRARIES: [&str; 5] = [
    "libmpi.so",
    "libmpi.so.40",
    "libmpi.so.12",
    "libmpich.so.12",
    "libmpi_abi.so.1",
];

/// How the names of launchers begin.
const LAUNCHERS: [&str; 5] = ["mpiexec", "mpirun", "prterun", "orterun", "srun"];

/// Libraries of MPI in the installation to which a program belongs: an MPI's own folder, or a virtual
/// environment of Python. In folders of the whole system only launchers belong to an MPI.
pub fn beside(program: &Path) -> Vec<PathBuf> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let is_launcher = LAUNCHERS.iter().any(|begin| name.starts_with(begin));
    let Some(prefix) = program.parent().and_then(Path::parent) else {
        return Vec::new();
    };
    if !is_launcher && [Path::new("/"), Path::new("/usr")].contains(&prefix) {
        return Vec::new();
    }
    let folders = ["lib", "lib64", "lib/x86_64-linux-gnu"].map(|folder| prefix.join(folder));
    let paths = folders
        .iter()
        .flat_map(|folder| LIBRARIES.map(|name| folder.join(name)));
    paths.filter(|path| path.exists()).collect()
}
