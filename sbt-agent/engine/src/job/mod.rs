//! A parallel program of many processes, each with a recording of its own: how their clocks, ids and
//! collectives become those of one job.

pub mod clocks;
pub mod facts;
pub mod meetings;
pub mod renumber;

/// The name of `MPI_COMM_WORLD` in [`crate::event::Event::Communicator`].
pub const WORLD: &str = "world";

/// Stands in the name of a barrier between that of the communicator and that of the function of MPI which
/// all ranks call.
pub const BY: &str = " by ";

/// Whether the barrier of this name is one of `MPI_COMM_WORLD`.
pub fn is_on_world(name: &str) -> bool {
    name.split_once(BY)
        .map_or(name, |(communicator, _)| communicator)
        == WORLD
}
