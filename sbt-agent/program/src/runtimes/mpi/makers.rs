//! The functions of MPI that make or end communicators and groups of ranks.

use sbt_common::{Make, TOO_LONG};

use crate::point::Function;

/// The purpose of a function that makes or ends a communicator or a group (MPI 4.1, chapters 7 and 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// The process becomes a rank.
    Init,
    /// A communicator is made of all ranks of another.
    Dup,
    /// A communicator is made of all ranks of another, with a graph of neighbours, by which the ranks may
    /// be numbered anew.
    DistGraph,
    /// A communicator is made of the ranks that give the same colour.
    Split,
    /// A communicator is made of the ranks that share something, such as memory.
    SplitType,
    /// A communicator is made of the ranks of a group, and all ranks of the old communicator call.
    Create,
    /// A communicator is made of the ranks of a group, and these ranks alone call.
    CreateGroup,
    /// A communicator is made whose ranks form a grid.
    Cart,
    /// A communicator is made of each part of a grid.
    CartSub,
    /// A communicator is made of the first ranks, which are the nodes of a graph.
    Graph,
    /// A communicator ends.
    Free,
    /// The group of the ranks of a communicator is made.
    GroupOf,
    /// A group is made of the ranks of another that are in a list.
    Incl,
    /// A group is made of the ranks of another that are not in a list.
    Excl,
    /// A group is made of the ranks of another that are in a list of ranges.
    RangeIncl,
    /// A group is made of the ranks of another that are not in a list of ranges.
    RangeExcl,
    /// A group is made of the ranks of two groups.
    Union,
    /// A group is made of the ranks that are in both of two groups.
    Intersection,
    /// A group is made of the ranks of one group that are not in another.
    Difference,
    /// A group ends.
    GroupFree,
}

/// A function that makes or ends a communicator or a group, and what its probe has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MakerFunction {
    /// The name of the function.
    pub name: &'static str,
    /// The function's purpose.
    pub maker: Maker,
    /// The number of the argument that points to where the function stores what it makes, or to what it
    /// ends; 0 if no argument does.
    pub out: u8,
    /// The number of the argument that is a list; 0 if no argument is. The argument before the list is
    /// its length.
    pub list: u8,
    /// How many numbers an element of the list has; 0 if no argument tells the length.
    pub width: u16,
}

const fn function(name: &'static str, maker: Maker, out: u8, list: (u8, u16)) -> MakerFunction {
    MakerFunction {
        name,
        maker,
        out,
        list: list.0,
        width: list.1,
    }
}

/// The list of a function without one.
const NONE: (u8, u16) = (0, 0);

/// All functions that make or end a communicator or a group; the number of a function is its index here.
pub static FUNCTIONS: [MakerFunction; 26] = [
    function("MPI_Init", Maker::Init, 0, NONE),
    function("MPI_Init_thread", Maker::Init, 0, NONE),
    function("MPI_Comm_dup", Maker::Dup, 2, NONE),
    function("MPI_Comm_dup_with_info", Maker::Dup, 3, NONE),
    function("MPI_Comm_idup", Maker::Dup, 2, NONE),
    function("MPI_Comm_idup_with_info", Maker::Dup, 3, NONE),
    function("MPI_Comm_split", Maker::Split, 4, NONE),
    function("MPI_Comm_split_type", Maker::SplitType, 5, NONE),
    function("MPI_Comm_create", Maker::Create, 3, NONE),
    function("MPI_Comm_create_group", Maker::CreateGroup, 4, NONE),
    function("MPI_Cart_create", Maker::Cart, 6, (3, 1)),
    function("MPI_Cart_sub", Maker::CartSub, 3, (2, 0)),
    function("MPI_Graph_create", Maker::Graph, 6, NONE),
    function("MPI_Dist_graph_create", Maker::DistGraph, 9, NONE),
    function("MPI_Dist_graph_create_adjacent", Maker::DistGraph, 10, NONE),
    function("MPI_Comm_free", Maker::Free, 1, NONE),
    function("MPI_Comm_disconnect", Maker::Free, 1, NONE),
    function("MPI_Comm_group", Maker::GroupOf, 2, NONE),
    function("MPI_Group_incl", Maker::Incl, 4, (3, 1)),
    function("MPI_Group_excl", Maker::Excl, 4, (3, 1)),
    function("MPI_Group_range_incl", Maker::RangeIncl, 4, (3, 3)),
    function("MPI_Group_range_excl", Maker::RangeExcl, 4, (3, 3)),
    function("MPI_Group_union", Maker::Union, 3, NONE),
    function("MPI_Group_intersection", Maker::Intersection, 3, NONE),
    function("MPI_Group_difference", Maker::Difference, 3, NONE),
    function("MPI_Group_free", Maker::GroupFree, 1, NONE),
];

/// The bit of a function's number that says that the library's communicators are numbers of 32 bits.
const NUMBERED: u8 = 64;

/// The names of the functions, each with the [`Function`] of its points.
pub fn points(is_numbered: bool) -> impl Iterator<Item = (&'static str, Function)> {
    (0..).zip(&FUNCTIONS).map(move |(index, function)| {
        let point = Function::Make {
            number: number(index, is_numbered),
            out: function.out,
            list: function.list,
            width: function.width,
        };
        (function.name, point)
    })
}

/// The number by which the records of a function with this index in [`FUNCTIONS`] name it.
/// `is_numbered`: whether the library's communicators are numbers of 32 bits.
pub const fn number(index: u8, is_numbered: bool) -> u8 {
    index | if is_numbered { NUMBERED } else { 0 }
}

/// A call of a function that makes or ends a communicator or a group, as its record tells it.
#[derive(Clone, Copy, Debug)]
pub struct MakerCall<'a> {
    /// The function's purpose.
    pub maker: Maker,
    /// Whether the library's communicators are numbers of 32 bits.
    pub is_numbered: bool,
    /// The word of [`Make::held`]: what a function that ends something ends.
    held: u64,
    /// The first six arguments.
    arguments: [u64; 6],
    /// The list of numbers; `None` if it is too long.
    pub list: Option<&'a [u32]>,
}

impl<'a> MakerCall<'a> {
    /// The call that a record tells of; `None` if the record names no function.
    pub fn of(record: &'a Make) -> Option<Self> {
        let index = usize::from(record.head.layout & !NUMBERED);
        let listed = usize::try_from(record.listed).unwrap_or(usize::MAX);
        let list = (record.listed != TOO_LONG).then(|| record.list.get(..listed));
        Some(Self {
            maker: FUNCTIONS.get(index)?.maker,
            is_numbered: record.head.layout & NUMBERED != 0,
            held: record.held,
            arguments: record.arguments,
            list: list.flatten(),
        })
    }

    /// The argument of this number, from 1 on, as a communicator or a group.
    pub fn handle(&self, number: usize) -> u64 {
        handle(self.argument(number), self.is_numbered)
    }

    /// The communicator or the group that the function ends.
    pub fn ended(&self) -> u64 {
        handle(self.held, self.is_numbered)
    }

    /// The argument of this number, from 1 on, as an `int` of C.
    pub fn int(&self, number: usize) -> i32 {
        low(self.argument(number)).cast_signed()
    }

    fn argument(&self, number: usize) -> u64 {
        let index = number.checked_sub(1);
        index
            .and_then(|index| self.arguments.get(index))
            .copied()
            .unwrap_or(0)
    }
}

/// The lower half of a register: what the upper half holds beside an `int` is not defined.
const fn low(value: u64) -> u32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// A communicator or a group as the library names it.
pub const fn handle(value: u64, is_numbered: bool) -> u64 {
    if is_numbered {
        low(value) as u64
    } else {
        value
    }
}

/// The numbers of the ranks in a list of ranges, each of which is given by its first rank, its last
/// rank and the step. `None` if a range is not valid, or if there are more than `most` ranks.
pub fn ranges(list: &[u32], most: usize) -> Option<Vec<u32>> {
    let mut ranks = Vec::new();
    let (triples, []) = list.as_chunks::<3>() else {
        return None;
    };
    for triple in triples {
        let [first, end, step] = triple.map(|number| i64::from(number.cast_signed()));
        if step == 0 || first < 0 || end < 0 {
            return None;
        }
        let mut at = first;
        while (step > 0 && at <= end) || (step < 0 && at >= end) {
            if ranks.len() == most {
                return None;
            }
            ranks.push(u32::try_from(at).ok()?);
            at += step;
        }
    }
    Some(ranks)
}
