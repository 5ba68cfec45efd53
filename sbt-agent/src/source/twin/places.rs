//! What is put where, in the files of a target.

use sbt_common::Kmp;
use serde::{Deserialize, Serialize};

use super::Program;
use crate::source::ebpf::points::cookie;
use sbt_program::point::{Function, Point};

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// What is done there.
    pub program: Program,
    /// What that is told.
    pub cookie: u64,
    /// Only while departures are watched.
    pub for_departures: bool,
}

/// What is put on a point. `ways`: those to teams that places need, by number; new ones are
/// added.
pub fn places(point: &Point, ways: &mut Vec<Kmp>) -> Vec<Place> {
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
            // On its entry one sees where it returns to.
            Program::Leave => (point.return_offset, 0),
            _ => (point.entry_offset, point.stack_moved),
        };
        Place {
            offset,
            program: *program,
            // Nothing is single-stepped.
            cookie: cookie(point, stack_moved, (false, 0), way),
            for_departures: program.is_for_departures(point),
        }
    };
    Program::of(point.function).iter().map(place).collect()
}
