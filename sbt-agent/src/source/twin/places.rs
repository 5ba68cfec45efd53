//! The programs that run at each offset of a target's files.

use sbt_common::Kmp;
use serde::{Deserialize, Serialize};

use super::Program;
use crate::source::ebpf::points::cookie;
use sbt_program::point::{Function, Point};

/// A place in a file at which a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramPlace {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// The program that runs there.
    pub program: Program,
    /// The program's cookie.
    pub cookie: u64,
    /// Whether the place is watched only while departures are.
    pub for_departures: bool,
}

/// The places of a point. `ways`: the ways to teams that places need, by index; new ones are added.
pub fn places(point: &Point, ways: &mut Vec<Kmp>) -> Vec<ProgramPlace> {
    if let Function::Kmp(place) = point.function
        && !ways.contains(&place.way)
    {
        ways.push(place.way);
    }
    let way = |way: &Kmp| {
        let index = ways.iter().position(|known| known == way)?;
        u16::try_from(index).ok()
    };
    let place = |program: &Program| {
        let (offset, stack_moved) = match program {
            // At the entry of the function its return address is on top of the stack.
            Program::Leave => (point.return_offset, 0),
            _ => (point.entry_offset, point.stack_moved),
        };
        ProgramPlace {
            offset,
            program: *program,
            // No instruction is single-stepped.
            cookie: cookie(point, stack_moved, (false, 0), way),
            for_departures: program.is_for_departures(point),
        }
    };
    Program::of(point.function).iter().map(place).collect()
}
