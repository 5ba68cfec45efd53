//! libstdc++ (include/std/barrier): `std::barrier` is inlined into the program. An arriving thread
//! first hashes its id to find its place in the tree, by a call with a seed that stands in the code.
//! Then it loads the barrier's phase, a byte, and the number of threads, a word, of the object whose
//! address is in one and the same register. The probe goes on that call. Without optimisation
//! `__tree_barrier::arrive` is a function.

use sbt_common::layout;
use sbt_engine::event::Kind;

use super::{
    Role, Runtime,
    language::{Language, MAX_POINTS, of_first_argument},
    waits::NO_WAITS,
};
use crate::{
    arch::{
        self, Instruction, awaits, patterns,
        prologue::{Stand, stand},
    },
    elf::Segment,
    point::{Function, Point, Team},
};

/// Departures are not watched: release times are unknown. An object begins with the number of
/// threads.
pub static RUNTIME: Runtime = Runtime {
    name: "libstdc++",
    kind: Kind::Std,
    role: Role::Language,
    barriers: Some("std::barrier"),
    layouts: &[layout::STD, layout::STD_INLINED],
    is_library: false,
    libraries: &["libstdc++"],
    ways: &[],
    prefix: None,
    object: None,
    rounds: None,
    language: Some(Language {
        part: b"barrier",
        is_named: |name| {
            name.starts_with(b"_ZNSt14__tree_barrierI") && name.ends_with(b"E6arriveEl")
        },
        points: |_, code, _| {
            let arrives = of_first_argument(0, true);
            let point = Point::of_function(arrives, ARRIVES, code, layout::STD);
            point.into_iter().collect()
        },
        inlined_calls: &WAITS,
        inlined_with: HASHES,
        inlined,
    }),
    is_barrier,
    waits: NO_WAITS,
};

/// What a barrier calls to wait or to wake: the function of the C library for system calls, or, from
/// GCC 16 on, functions of libstdc++ (`include/bits/atomic_wait.h`).
const WAITS: [&[u8]; 3] = [b"syscall", b"__wait_impl", b"__notify_impl"];

/// The call that hashes a thread's id; and the name of a type that is linked into each program with
/// a barrier, whose memory comes from `operator new`.
const HASHES: (&[u8], &[u8]) = (b"_Hash_bytes", b"St9bad_alloc");

/// What sites of it are called.
const ARRIVES: &str = "std::barrier::arrive";

/// The name of places where threads begin to wait after their arrival.
const AWAITS: &str = "std::barrier::wait";

/// Whether a function, by its name and file, is one of `std::barrier`, of this library or of libc++.
pub(super) fn is_barrier(name: &str, file: Option<&str>) -> bool {
    // A header of the C++ standard library, which has no extension.
    let in_header = file.is_some_and(|file| {
        file.ends_with("/barrier") && (file.contains("/c++/") || file.contains("/include/"))
    });
    in_header
        || name.starts_with("std::")
            && (name.contains("::barrier<") || name.contains("tree_barrier"))
}

/// Where arrivals at barriers of libstdc++ are inlined; and, if a thread may do something between
/// arriving and waiting, where it begins to wait.
fn inlined(text: &arch::Code<'_>, segments: &[Segment]) -> Vec<Point> {
    let arrivals = patterns::arrivals_of_libstdcxx(text).take(MAX_POINTS);
    let arrivals: Vec<_> = arrivals.flatten().collect();
    let arrives = arrivals.iter().filter_map(|(call, held)| {
        let team = Team {
            register: held.register,
            spilled: held.spilled,
            displacement: held.displacement,
            has_count: true,
            ends: false,
        };
        point(text, segments, call, Function::Team(team), ARRIVES)
    });
    let mut points: Vec<Point> = arrives.collect();
    if !points.is_empty() {
        let calls: Vec<Instruction> = arrivals.iter().map(|(call, _)| *call).collect();
        let waits = awaits::waits_of_libstdcxx(text, &calls);
        let is_apart = |(call, _): &_| awaits::is_apart(text, call, &waits);
        if arrivals.iter().any(is_apart) {
            let begins = waits.iter().take(MAX_POINTS);
            points.extend(
                begins.filter_map(|begin| {
                    point(text, segments, &begin.place, Function::Awaits, AWAITS)
                }),
            );
        }
    }
    points
}

/// A probe on an instruction.
fn point(
    text: &arch::Code<'_>,
    segments: &[Segment],
    instruction: &Instruction,
    function: Function,
    symbol: &str,
) -> Option<Point> {
    let stand = stand(text.bytes_of(instruction)).ok()?;
    let offset = segments
        .iter()
        .find_map(|segment| segment.file_offset(instruction.at()))?;
    Some(Point::inside(
        function,
        symbol,
        offset,
        stand == Stand::Emulated,
    ))
}
