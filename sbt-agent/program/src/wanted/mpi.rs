//! The collective operations of MPI that are barriers: each process leaves them with data from all
//! others.

use sbt_common::layout;

use super::Binary;
use crate::point::{Function, Point};

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

impl Binary<'_> {
    /// The points where these operations begin and end, in the library of Open MPI. The Fortran
    /// library calls these functions.
    pub(crate) fn collectives(&self) -> Vec<Point> {
        let points = COLLECTIVES.iter().filter_map(|(name, object)| {
            let symbols = self.debug.functions(name).ok()?;
            let function = Function::Call {
                object: *object,
                count: 0,
            };
            self.points(symbols.first()?, function, layout::MPI, true)
        });
        points.flatten().collect()
    }
}
