//! The barriers of the languages' own libraries, which are made of atomics and futexes:
//! `std::barrier` of C++20 and `std::sync::Barrier` of Rust.
//!
//! - libc++ counts a thread in an exported function, `__arrive_barrier_algorithm_base`
//!   (libcxx/src/barrier.cpp). Its argument points to an object that begins with the address of the
//!   number of threads, the first word of the barrier.
//! - Rust waits in `Barrier::wait` (library/std/src/sync/barrier.rs), compiled with the library and
//!   never inlined. Where the number of threads lies in the object is the compiler's choice: the
//!   offset is read from the comparison with the number.
//! - libstdc++ (include/std/barrier) is inlined into the program. An arriving thread first hashes
//!   its id to find its place in the tree, by a call with a seed that stands in the code. Then it
//!   loads the barrier's phase, a byte, and the number of threads, a word, of the object whose
//!   address is in one and the same register. The probe goes on that call. Without optimisation
//!   `__tree_barrier::arrive` is a function.

use memchr::memmem;
use object::{LittleEndian, read::elf::ElfFile64};
use sbt_common::layout;

use crate::{
    arch::{
        Code, patterns,
        prologue::{Stand, stand},
    },
    elf::{Segment, code_at, names},
    point::{Function, Point, Team},
};

/// The most bytes that are read of a function's beginning.
const BEGINNING: u64 = 512;

/// The most points of a file, more than a program has.
const MAX_POINTS: usize = 256;

/// The function that a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    LibCxx,
    LibStdCxx,
    Rust,
}

/// Recognises a function by its mangled name (Itanium C++ ABI; Rust's legacy and v0 schemes, whose
/// hashes differ from compiler to compiler).
fn named(name: &[u8]) -> Option<Named> {
    let has = |part: &[u8]| memmem::find(name, part).is_some();
    if name.starts_with(b"_ZNSt") && has(b"31__arrive_barrier_algorithm_baseE") {
        Some(Named::LibCxx)
    } else if name.starts_with(b"_ZNSt14__tree_barrierI") && name.ends_with(b"E6arriveEl") {
        Some(Named::LibStdCxx)
    } else if name.starts_with(b"_ZN3std4sync7barrier7Barrier4wait17h")
        || (name.starts_with(b"_RNv")
            && has(b"3std4sync7barrier")
            && name.ends_with(b"7Barrier4wait"))
    {
        Some(Named::Rust)
    } else {
        None
    }
}

/// The addresses of the functions of C++'s library that were compiled into a file.
pub fn functions_of_libraries(image: &[u8]) -> Vec<u64> {
    const PREFIXES: [&[u8]; 3] = [b"_ZNSt", b"_ZNKSt", b"_ZSt"];
    let Ok(file) = ElfFile64::<LittleEndian>::parse(image) else {
        return Vec::new();
    };
    let functions = names::full(&file).filter(|symbol| {
        let is = |name: &[u8]| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        symbol.is_function() && symbol.is_definition() && is(symbol.name)
    });
    functions.map(|symbol| symbol.address()).collect()
}

/// The points of a file.
pub fn points(
    file: &ElfFile64<'_, LittleEndian>,
    image: &[u8],
    segments: &[Segment],
    text: &Code<'_>,
) -> Vec<Point> {
    let mut points = inlined(text, segments);
    // `barrier` is a part of each name that `named` accepts.
    if !names::may_hold(file, b"barrier") {
        return points;
    }
    let mut seen = Vec::new();
    for symbol in names::defined(file).filter(names::Named::is_function) {
        let Some((name, named)) = symbol
            .text()
            .and_then(|name| Some((name, named(name.as_bytes())?)))
        else {
            continue;
        };
        let (start, end) = (
            symbol.address(),
            symbol.address().saturating_add(symbol.size()),
        );
        if seen.contains(&start) || points.len() >= MAX_POINTS {
            continue;
        }
        seen.push(start);
        let offsets = segments.iter().find_map(|segment| {
            Some(segment.file_offset(start)?..=segment.file_offset(end.saturating_sub(1))?)
        });
        // A barrier that is inlined into the function is watched there.
        if offsets.is_some_and(|offsets| {
            points
                .iter()
                .any(|point: &Point| offsets.contains(&point.entry_offset))
        }) {
            continue;
        }
        points.extend(of_function(
            named,
            name,
            start,
            symbol.size(),
            image,
            segments,
        ));
    }
    points
}

fn of_function(
    named: Named,
    name: &str,
    start: u64,
    size: u64,
    image: &[u8],
    segments: &[Segment],
) -> Vec<Point> {
    let Some(code) = code_at(image, segments, start, size.min(BEGINNING)) else {
        return Vec::new();
    };
    let team = |displacement: i32, has_count| {
        Function::Team(Team {
            register: 1,
            spilled: None,
            displacement,
            has_count,
            ends: false,
        })
    };
    let point = |function, symbol, layout| Point::of_function(function, symbol, &code, layout);
    match named {
        Named::LibCxx => {
            // Programs import the function by its mangled name.
            point(team(0, true), name, layout::STD_POINTED)
                .into_iter()
                .collect()
        }
        // The number of threads is the first word of the object.
        Named::LibStdCxx => point(team(0, true), "std::barrier::arrive", layout::STD)
            .into_iter()
            .collect(),
        Named::Rust => {
            let count = patterns::count_of_rust(&Code::new(start, code.bytes));
            let symbol = "std::sync::Barrier::wait";
            let enters = team(count.unwrap_or_default().into(), count.is_some());
            let enters = point(enters, symbol, layout::RUST);
            let leaves = point(Function::TeamEnd, symbol, layout::RUST);
            enters.into_iter().chain(leaves).collect()
        }
    }
}

/// Where arrivals at barriers of libstdc++ are inlined.
fn inlined(text: &Code<'_>, segments: &[Segment]) -> Vec<Point> {
    patterns::arrivals_of_libstdcxx(text)
        .take(MAX_POINTS)
        .flatten()
        .filter_map(|(call, held)| {
            let stand = stand(text.bytes_of(&call)).ok()?;
            let offset = segments
                .iter()
                .find_map(|segment| segment.file_offset(call.at()))?;
            let team = Team {
                register: held.register,
                spilled: held.spilled,
                displacement: held.displacement,
                has_count: true,
                ends: false,
            };
            Some(Point {
                function: Function::Team(team),
                symbol: "std::barrier::arrive".to_owned(),
                entry_offset: offset,
                stack_moved: 0,
                return_offset: offset,
                entry_emulated: stand == Stand::Emulated,
                layout: layout::STD_INLINED,
            })
        })
        .collect()
}

#[cfg(test)]
#[path = "language_tests.rs"]
mod tests;
