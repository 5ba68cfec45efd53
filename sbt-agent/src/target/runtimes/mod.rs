//! Barriers of runtimes that no exported function leads to: found in the code of
//! the runtime's library, in the file of a program or in a library.

mod frames;
mod gomp;
mod sweep;

use object::{LittleEndian, Object as _, ObjectSection as _, read::elf::ElfFile64};

use super::elf::{Function, Point, Segment};
use frames::Frames;

/// A barrier of a thread team, as it is called somewhere in the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Team {
    /// Which register holds the address: see [`sbt_common::Cookie::object`].
    pub register: u8,
    /// How many bytes above it the barrier lies.
    pub displacement: u16,
}

/// Where to put probes for the barriers of the runtimes that a file holds.
/// Nothing for a file that holds none, or one that is not understood.
pub fn points(image: &[u8], segments: &[Segment]) -> Vec<Point> {
    let Ok(file) = ElfFile64::<LittleEndian>::parse(image) else {
        return Vec::new();
    };
    let Some(start) = gomp::Start::of(&file) else {
        return Vec::new();
    };
    let text = file.section_by_name(".text");
    let Some(text) = text.and_then(|section| Some((section.address(), section.data().ok()?)))
    else {
        return Vec::new();
    };
    let Some(frames) = Frames::of(&file) else {
        return Vec::new();
    };
    gomp::points(&start, &sweep::Code::new(text.0, text.1), &frames, segments)
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
        layout: sbt_common::layout::GOMP,
    })
}
