//! Where parallel regions of OpenMP begin: exported functions, called by the thread that begins a
//! region. Between regions the runtime keeps the other threads of a team waiting, which is neither
//! work nor a barrier.

use std::collections::BTreeMap;

use object::{LittleEndian, read::elf::ElfFile64};
use sbt_common::layout;

use crate::{
    elf::{Segment, code_at, names},
    point::{Function, Point},
};

/// The most bytes of a function that are read.
const CODE: u64 = 4096;

/// Whether a function of this name begins a region: functions of libgomp (libgomp.map), which
/// libomp has too, and of libomp (`kmp_csupport.cpp`).
fn begins(name: &str) -> bool {
    match name {
        "__kmpc_fork_call" | "__kmpc_fork_call_if" | "__kmpc_fork_teams" | "GOMP_teams_reg" => true,
        _ => name.starts_with("GOMP_parallel") && !name.starts_with("GOMP_parallel_end"),
    }
}

/// A point for each function of a file that begins a region.
pub fn points(
    file: &ElfFile64<'_, LittleEndian>,
    image: &[u8],
    segments: &[Segment],
) -> Vec<Point> {
    let functions = names::defined(file).filter(|symbol| symbol.is_function() && symbol.size() > 0);
    // Several versions of a name have one address.
    let found: BTreeMap<u64, (&str, u64)> = functions
        .filter_map(|symbol| {
            let name = symbol.text().filter(|name| begins(name))?;
            Some((symbol.address(), (name, symbol.size().min(CODE))))
        })
        .collect();
    let points = found.iter().filter_map(|(address, (name, size))| {
        let code = code_at(image, segments, *address, *size)?;
        Point::of_function(Function::Region, name, &code, layout::OPAQUE)
    });
    points.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_that_begin_one() {
        for name in [
            "GOMP_parallel",
            "GOMP_parallel_start",
            "GOMP_parallel_loop_nonmonotonic_dynamic",
            "GOMP_parallel_reductions",
            "__kmpc_fork_call",
        ] {
            assert!(begins(name), "{name}");
        }
        for name in ["GOMP_parallel_end", "GOMP_barrier", "__kmpc_barrier"] {
            assert!(!begins(name), "{name}");
        }
    }
}
