//! Barriers of runtimes that no exported function leads to: found in the code of
//! the runtime's library, in the file of a program or in a library.

mod frames;
mod gomp;
mod kmp;
mod stubs;
mod sweep;
mod values;

use object::{LittleEndian, Object as _, ObjectSection as _, read::elf::ElfFile64};

use sbt_common::layout;

use super::{
    elf::{Function, Point, Segment},
    prologue::is_emulated,
};
use frames::Frames;

/// A barrier of a thread team, as it is called somewhere in the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Team {
    /// Which register holds the address: see [`sbt_common::Cookie::object`].
    pub register: u8,
    /// How many bytes above it the barrier lies.
    pub displacement: u16,
}

/// A place where a thread of LLVM's OpenMP comes to a barrier of its team.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kmp {
    /// Which register holds the thread's number: as for a [`Team`].
    pub register: u8,
    /// The return address is known from rbp, not from rsp.
    pub from_frame: bool,
    /// Nothing shows when the thread leaves.
    pub passes: bool,
    /// How its team is found.
    pub way: sbt_common::Kmp,
}

/// Where to put probes for the barriers of the runtimes that a file holds.
/// Nothing for a file that holds none, or one that is not understood.
pub fn points(image: &[u8], segments: &[Segment]) -> Vec<Point> {
    let Ok(file) = ElfFile64::<LittleEndian>::parse(image) else {
        return Vec::new();
    };
    let (gomp, kmp) = (gomp::Start::of(&file), kmp::Start::of(&file));
    if gomp.is_none() && kmp.is_none() {
        return Vec::new();
    }
    let text = file.section_by_name(".text");
    let Some(text) = text.and_then(|section| Some((section.address(), section.data().ok()?)))
    else {
        return Vec::new();
    };
    let Some(frames) = Frames::of(&file) else {
        return Vec::new();
    };
    let code = sweep::Code::new(text.0, text.1);
    match (gomp, kmp) {
        // LLVM's has GNU's functions too, for programs built by gcc.
        (_, Some(start)) => {
            let stubs = stubs::Stubs::of(&file);
            kmp::points(&start, &code, &frames, &stubs, segments).unwrap_or_default()
        }
        (Some(start), None) => gomp::points(&start, &code, &frames, segments),
        (None, None) => Vec::new(),
    }
}

/// The end of a function that waits: where to put a return probe.
fn leaves(
    symbol: &str,
    function: u64,
    code: &sweep::Code<'_>,
    frames: &Frames<'_>,
    segments: &[Segment],
) -> Option<Point> {
    let (start, end) = frames.function(function)?;
    // The first instruction that is emulated and at which rsp has not moved.
    let at = code
        .instructions(start, end)
        .take(4)
        .find(|instruction| is_emulated(code.bytes_of(instruction)))?
        .ip();
    if frames.stack_moved(at) != Some(0) {
        return None;
    }
    point(Function::TeamEnd, symbol, at, 0, segments)
}

/// A point at an instruction that the kernel emulates.
fn point(
    function: Function,
    symbol: &str,
    vaddr: u64,
    stack_moved: u16,
    segments: &[Segment],
) -> Option<Point> {
    let offset = segments
        .iter()
        .find_map(|segment| segment.file_offset(vaddr))?;
    Some(Point {
        function,
        symbol: symbol.to_owned(),
        entry_offset: offset,
        stack_moved,
        return_offset: offset,
        entry_emulated: true,
        layout: match function {
            Function::Team(_) => layout::GOMP,
            Function::Kmp(_) => layout::KMP,
            _ => layout::OPAQUE,
        },
    })
}
