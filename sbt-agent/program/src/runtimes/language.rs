//! The barriers of the languages' own libraries, which are made of atomics and futexes: finds their
//! functions by their mangled names, and those that are inlined by the code.

use object::{LittleEndian, Object as _, ObjectSection as _, read::elf::ElfFile64};

use super::{ALL, Runtime};
use crate::{
    arch,
    elf::{self, Segment, code_at, names},
    point::{Function, Point, Team},
};

/// How the barriers of a language's library are found.
pub struct Language {
    /// A part of all names that `is_named` accepts.
    pub(super) part: &'static [u8],
    /// Whether a mangled name (Itanium C++ ABI; Rust's legacy and v0 schemes, whose hashes differ from
    /// compiler to compiler) is that of a function at which threads arrive.
    pub(super) is_named: fn(&[u8]) -> bool,
    /// The points of such a function, by its mangled name, its code and its address.
    pub(super) points: fn(&str, &elf::Code<'_>, u64) -> Vec<Point>,
    /// What inlined barriers call, one of these, as parts of names for the dynamic linker. Files whose
    /// code calls none of them are not searched.
    pub(super) inlined_calls: &'static [&'static [u8]],
    /// A part of the name of another function that inlined barriers call: one of the library itself.
    /// Where the library is linked in and its names are stripped, a text that it has in its data.
    pub(super) inlined_with: (&'static [u8], &'static [u8]),
    /// The points that the code alone tells.
    pub(super) inlined: fn(&arch::Code<'_>, &[Segment]) -> Vec<Point>,
}

/// For libraries whose barriers are functions.
pub(super) const NEVER_INLINED: fn(&arch::Code<'_>, &[Segment]) -> Vec<Point> = |_, _| Vec::new();

/// The barrier whose address, or what leads to it, is a function's first argument. `displacement`:
/// the distance to the number of threads, bytes.
pub(super) fn of_first_argument(displacement: i32, has_count: bool) -> Function {
    Function::Team(Team {
        register: 1,
        spilled: None,
        displacement,
        has_count,
        ends: false,
    })
}

/// The most bytes that are read of a function's beginning.
const BEGINNING: u64 = 512;

/// The most points of a file, more than a program has.
pub(super) const MAX_POINTS: usize = 256;

/// Whether a file uses the library with this function, or may have it linked in.
fn may_have_library(file: &ElfFile64<'_, LittleEndian>, (function, text): (&[u8], &[u8])) -> bool {
    let data = || file.section_by_name(".rodata")?.data().ok();
    names::may_hold(file, function)
        || data().is_none_or(|data| memchr::memmem::find(data, text).is_some())
}

/// The points of a file.
pub fn points(
    file: &ElfFile64<'_, LittleEndian>,
    image: &[u8],
    segments: &[Segment],
    text: &arch::Code<'_>,
) -> Vec<Point> {
    let languages = || {
        let all = ALL.iter();
        all.filter_map(|runtime: &&Runtime| runtime.language.as_ref())
    };
    let inlined = languages()
        .filter(|language| names::dynamic_may_hold(file, language.inlined_calls))
        .filter(|language| may_have_library(file, language.inlined_with))
        .flat_map(|language| (language.inlined)(text, segments));
    let mut points: Vec<Point> = inlined.collect();
    let mut parts: Vec<_> = languages().map(|language| language.part).collect();
    parts.dedup();
    if !parts.iter().any(|part| names::may_hold(file, part)) {
        return points;
    }
    let mut seen = Vec::new();
    for symbol in names::defined(file).filter(names::NamedSymbol::is_function) {
        let Some((name, language)) = symbol.text().and_then(|name| {
            let language = languages().find(|language| (language.is_named)(name.as_bytes()))?;
            Some((name, language))
        }) else {
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
        let code = code_at(image, segments, start, symbol.size().min(BEGINNING));
        points.extend(code.map_or_else(Vec::new, |code| (language.points)(name, &code, start)));
    }
    points
}

#[cfg(test)]
#[path = "language_tests.rs"]
mod tests;
