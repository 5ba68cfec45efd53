//! Barriers inside of runtimes that no exported function marks: they are found in the code of the
//! runtime, in a program or in a library.

mod frames;
mod gomp;
mod kmp;
mod language;
mod regions;

use object::{LittleEndian, Object as _, ObjectSection as _, read::elf::ElfFile64};

use sbt_common::layout;

use crate::{
    arch::{
        Code, Stubs,
        prologue::{self, Stand, is_emulated},
    },
    elf::{Segment, names},
    point::{Function, Point},
};
use frames::Frames;

pub use kmp::JOIN as KMP_JOIN;
pub use language::functions_of_libraries;

/// Where to put probes for the barriers of the runtimes in a file. Empty for a file without a
/// runtime, or with a runtime that is not recognised.
pub fn points(image: &[u8], segments: &[Segment]) -> Vec<Point> {
    let Ok(file) = ElfFile64::<LittleEndian>::parse(image) else {
        return Vec::new();
    };
    let text = file.section_by_name(".text");
    let Some(text) = text.and_then(|section| Some((section.address(), section.data().ok()?)))
    else {
        return Vec::new();
    };
    let text = Code::new(text.0, text.1);
    let mut points = language::points(&file, image, segments, &text);
    let (gomp, kmp) = (gomp::Start::of(&file), kmp::Start::of(&file));
    if gomp.is_none() && kmp.is_none() {
        return points;
    }
    let Some(frames) = Frames::of(&file) else {
        return points;
    };
    let mut barriers = Vec::new();
    // LLVM's runtime also has GNU's functions, for programs built by gcc.
    if let Some(start) = kmp {
        let stubs = Stubs::of(&file);
        let found = kmp::points(&start, &text, &frames, &stubs, segments);
        barriers.extend(found.unwrap_or_default());
    } else if let Some(start) = gomp {
        barriers.extend(gomp::points(&start, &text, &frames, segments));
    }
    if !barriers.is_empty() {
        points.append(&mut barriers);
        points.extend(regions::points(&file, image, segments));
    }
    points
}

/// Whether a file defines the functions of OpenMP from which the search for its barriers starts.
pub fn is_openmp(image: &[u8]) -> bool {
    const BARRIERS: [&[u8]; 2] = [b"GOMP_barrier", b"__kmpc_barrier"];
    ElfFile64::<LittleEndian>::parse(image).is_ok_and(|file| {
        BARRIERS.iter().any(|name| names::may_hold(&file, name))
            && names::defined(&file).any(|symbol| BARRIERS.contains(&symbol.name))
    })
}

/// The end of a function that waits: where to put a return probe.
fn leaves(
    symbol: &str,
    function: u64,
    code: &Code<'_>,
    frames: &Frames<'_>,
    segments: &[Segment],
) -> Option<Point> {
    let (start, end) = frames.function(function)?;
    // The first instruction that is emulated; rsp must not have moved there.
    let at = code
        .instructions(start, end)
        .take(4)
        .find(|instruction| is_emulated(code.bytes_of(instruction)))?
        .at();
    if frames.stack_moved(at) != Some(0) {
        return None;
    }
    point(Function::TeamEnd, symbol, (code, at), 0, segments)
}

/// A point at an instruction, if a probe may stand there.
fn point(
    function: Function,
    symbol: &str,
    (code, vaddr): (&Code<'_>, u64),
    stack_moved: u16,
    segments: &[Segment],
) -> Option<Point> {
    let stand = prologue::stand(code.from(vaddr)).ok()?;
    let offset = segments
        .iter()
        .find_map(|segment| segment.file_offset(vaddr))?;
    Some(Point {
        function,
        symbol: symbol.to_owned(),
        entry_offset: offset,
        stack_moved,
        return_offset: offset,
        entry_emulated: stand == Stand::Emulated,
        layout: match function {
            Function::Team(_) => layout::GOMP,
            Function::Kmp(_) => layout::KMP,
            _ => layout::OPAQUE,
        },
    })
}

/// Whether a point stands on an instruction of an image that the kernel emulates.
#[cfg(test)]
fn stands_on_emulated(image: &[u8], point: &Point) -> bool {
    let at = usize::try_from(point.entry_offset).unwrap_or(usize::MAX);
    let code = Code::new(0, image.get(at..).unwrap_or_default());
    let first = code.all().next();
    first.is_some_and(|first| is_emulated(code.bytes_of(&first)))
}
