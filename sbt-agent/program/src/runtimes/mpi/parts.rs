//! Which ranks of a communicator a call puts together into a new communicator.

use super::{
    groups::Group,
    makers::{Maker, MakerCall},
};

/// The colour of ranks that get no communicator: `MPI_UNDEFINED` of Open MPI, of MPICH and its kin, and
/// of the standard binary interface.
pub const UNDEFINED: i32 = -32766;

/// `MPI_COMM_TYPE_SHARED` in MPICH and its kin, whose communicators are numbers.
const SHARED_OF_NUMBERED: [i32; 1] = [1];

/// `MPI_COMM_TYPE_SHARED` in Open MPI, where 1 means something else, and in the standard binary
/// interface.
const SHARED: [i32; 2] = [0, 221];

/// A part of the ranks of a communicator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// All ranks of the communicator.
    All,
    /// The ranks that give the same colour.
    Colour(i32),
    /// The ranks that share memory.
    Machine,
    /// The ranks of a group.
    Group(Group),
    /// The first ranks of the communicator, and how many.
    First(u32),
    /// The ranks of a grid with these coordinates in the dropped dimensions, and how many ranks these
    /// are.
    Row(Vec<u32>, u32),
    /// Ranks of which sbt does not know which they are.
    Unknown,
}

/// The part in which the caller of a function is. `group`: the group that the call names; `sides`: the
/// sides of the grid that is made or divided; `rank`: the caller's number in the old communicator.
pub fn of_caller(
    call: &MakerCall<'_>,
    group: Option<Group>,
    sides: Option<&[u32]>,
    rank: Option<u32>,
) -> Part {
    let known = match call.maker {
        Maker::Dup | Maker::DistGraph => Some(Part::All),
        Maker::Split => Some(Part::Colour(call.int(2))),
        Maker::SplitType if call.int(2) == UNDEFINED => Some(Part::Colour(UNDEFINED)),
        Maker::SplitType if is_shared(call) => Some(Part::Machine),
        Maker::Create | Maker::CreateGroup => group.map(Part::Group),
        Maker::Graph => u32::try_from(call.int(2)).ok().map(Part::First),
        Maker::Cart => sides.and_then(product).map(Part::First),
        Maker::CartSub => row(sides, call.list, rank).map(|(others, size)| Part::Row(others, size)),
        _ => None,
    };
    known.unwrap_or(Part::Unknown)
}

/// Whether `MPI_Comm_split_type` is called to put ranks together that share memory.
fn is_shared(call: &MakerCall<'_>) -> bool {
    let shared: &[i32] = if call.is_numbered {
        &SHARED_OF_NUMBERED
    } else {
        &SHARED
    };
    shared.contains(&call.int(2))
}

/// The product of the numbers; `None` if it exceeds 32 bits.
fn product(numbers: &[u32]) -> Option<u32> {
    numbers
        .iter()
        .try_fold(1_u32, |all, number| all.checked_mul(*number))
}

/// The coordinates of a rank of a grid in the dimensions that are dropped (`keeps` is 0), and how many
/// ranks have the same coordinates there. Ranks are in row-major order (MPI 4.1, section 8.5).
fn row(sides: Option<&[u32]>, keeps: Option<&[u32]>, rank: Option<u32>) -> Option<(Vec<u32>, u32)> {
    let (sides, rank) = (sides?, rank?);
    let keeps = keeps?.get(..sides.len())?;
    let (mut rest, mut others, mut size) = (rank, Vec::new(), 1_u32);
    for (side, keep) in sides.iter().zip(keeps).rev() {
        let coordinate = rest.checked_rem(*side)?;
        rest /= side;
        if *keep == 0 {
            others.push(coordinate);
        } else {
            size = size.checked_mul(*side)?;
        }
    }
    (rest == 0).then_some((others, size))
}
