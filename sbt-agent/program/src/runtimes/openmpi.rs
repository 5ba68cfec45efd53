//! Open MPI 4: the collective operations of MPI that are barriers. Each process leaves them with
//! data from all others.
//!
//! The object is a communicator; `communicator.rs` finds in its memory what is the same in all
//! processes. What threads wait for inside of such an operation is not known.

use sbt_common::layout;
use sbt_engine::event::Kind;

use super::{
    Role, Runtime,
    waits::{NO_BARRIER, NO_WAITS},
};
use crate::point::Function;

/// Departures are always watched, on the instructions by which the functions end.
pub static RUNTIME: Runtime = Runtime {
    name: "Open MPI",
    kind: Kind::Mpi,
    role: Role::Mpi,
    barriers: None,
    layouts: &[layout::MPI],
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

/// Their names, and the number of the communicator's argument (MPI 3.1, chapter 5). Operations
/// whose data flow one way, from one rank or to one, are not among them.
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

/// The operations by their names, and the functions that points of them have. MPI's library for
/// Fortran calls these functions.
pub fn collectives() -> impl Iterator<Item = (&'static str, Function)> {
    COLLECTIVES.into_iter().map(|(name, object)| {
        let function = Function::Call { object, count: 0 };
        (name, function)
    })
}
