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

/// Functions with a barrier that compilers call: where such a call is the last act of a region's
/// function, an optimising compiler makes a jump of it, and the barrier returns into the runtime.
pub(crate) const BARRIERS: [&str; 9] = [
    "GOMP_barrier",
    "GOMP_barrier_cancel",
    "GOMP_loop_end",
    "GOMP_loop_end_cancel",
    "GOMP_sections_end",
    "GOMP_sections_end_cancel",
    "GOMP_workshare_task_reduction_unregister",
    "__kmpc_barrier",
    "__kmpc_cancel_barrier",
];

/// The function of libomp that calls the function of a region (`z_Linux_asm.S`).
pub(crate) const CALLS_REGION: &str = "__kmp_invoke_microtask";

/// The function of libomp by which the functions that begin a region do so (`kmp_runtime.cpp`).
pub(crate) const FORKS: &str = "__kmp_fork_call";

/// The number, from 0, of the argument that is the region's function, for a function that begins a
/// region (libgomp's `parallel.c`, `kmp_csupport.cpp`).
pub(crate) fn argument(name: &str) -> Option<usize> {
    begins(name).then_some(if name.starts_with("__kmpc") { 2 } else { 0 })
}

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
        assert_eq!(argument("GOMP_parallel"), Some(0));
        assert_eq!(argument("__kmpc_fork_call"), Some(2));
        assert_eq!(argument("GOMP_barrier"), None);
    }
}
