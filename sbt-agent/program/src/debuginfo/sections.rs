//! DWARF sections, and what addr2line finds in them.

use std::sync::{Arc, Mutex, PoisonError};

use addr2line::Context;
use gimli::{AbbreviationsCacheStrategy, Dwarf, EndianSlice, SectionId};
use object::read::elf::ElfFile64;
use object::{CompressionFormat, LittleEndian, Object, ObjectSection};

use super::checked::Checked;
use super::proportion::is_in_proportion;
use super::units::{Bytes, Info};
use super::{Frame, names};

/// The largest ratio of a section's uncompressed size to its compressed size. Real ratios stay
/// below ten; the limit keeps a small file from filling the memory.
const MAX_RATIO: u64 = 128;

/// The most uncompressed bytes of all sections of a file.
const MAX_UNCOMPRESSED: u64 = 1 << 30;

/// The sections that lead from an address to names and lines; others are not even decompressed.
const NEEDED: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// The sections with the locations of variables, which are seldom needed.
const LOCATIONS: [SectionId; 2] = [SectionId::DebugLoc, SectionId::DebugLocLists];

/// The functions and lines that one file's DWARF describes.
pub(super) struct Lines {
    // `context` borrows from `dwarf`, and so has to be dropped before it.
    /// Only one thread may ask at a time: the context keeps what it has read.
    context: Mutex<Context<Bytes>>,
    dwarf: Arc<Info>,
    /// Where functions can be looked up; elsewhere only lines. Made on first use.
    checked: Mutex<Option<Checked>>,
    _decompressed: Vec<Vec<u8>>,
}

impl Lines {
    /// Reads the index of a file's DWARF and of its supplementary file's. `None` if the DWARF is
    /// damaged or out of proportion. `locations`: whether to read the locations of variables, too.
    ///
    /// # Safety
    /// Both images must stay where they are, unchanged, as long as the result lives.
    pub(super) unsafe fn load(
        image: &[u8],
        supplementary: Option<&[u8]>,
        locations: bool,
    ) -> Option<Self> {
        let mut decompressed = Vec::new();
        let mut load = |image: &[u8]| {
            let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
            let section = |id: SectionId| {
                let is_needed = NEEDED.contains(&id) || locations && LOCATIONS.contains(&id);
                let bytes = if is_needed {
                    section(&file, id, &mut decompressed)
                } else {
                    &[]
                };
                // SAFETY: the bytes are either the image's, which stays as the caller promises, or
                // in `decompressed`, which the result keeps until after the last use; moving a
                // vector does not move its bytes.
                let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
                Ok::<_, gimli::Error>(EndianSlice::new(bytes, gimli::LittleEndian))
            };
            Dwarf::load(section).ok()
        };
        let mut dwarf = load(image)?;
        if let Some(supplementary) = supplementary.and_then(load) {
            dwarf.set_sup(supplementary);
        }
        let supplementary = dwarf.sup().is_none_or(is_in_proportion);
        if !supplementary || !is_in_proportion(&dwarf) {
            return None;
        }
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let dwarf = Arc::new(dwarf);
        Some(Self {
            checked: Mutex::default(),
            context: Mutex::new(Context::from_arc_dwarf(Arc::clone(&dwarf)).ok()?),
            dwarf,
            _decompressed: decompressed,
        })
    }

    /// The DWARF that functions and lines are read from.
    pub(super) fn dwarf(&self) -> &Info {
        &self.dwarf
    }

    /// The functions and lines at an address, innermost first, at most `limit`.
    pub(super) fn frames(&self, vaddr: u64, limit: usize) -> Vec<Frame> {
        let has_functions = {
            // A thread that failed leaves results that are true: each is kept when it is complete.
            let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
            let checked = checked.get_or_insert_with(|| Checked::of(&self.dwarf));
            checked.allow(&self.dwarf, vaddr)
        };
        // The context stays whole if a thread fails: it keeps only what was read to the end.
        let context = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        if !has_functions {
            return line(&context, vaddr);
        }
        // Loads would be of split DWARF, from paths that the file names: they are skipped.
        let Ok(mut found) = context.find_frames(vaddr).skip_all_loads() else {
            return line(&context, vaddr);
        };
        let mut frames = Vec::new();
        while let (true, Ok(Some(frame))) = (frames.len() < limit, found.next()) {
            let function = frame.function.as_ref();
            let name = function.and_then(|function| function.raw_name().ok());
            let location = frame.location.as_ref();
            frames.push(Frame {
                function: name.map(|name| names::of_function(&name)),
                inlined: true,
                ..located(location)
            });
        }
        if frames.is_empty() {
            return line(&context, vaddr);
        }
        if let Some(outermost) = frames.last_mut() {
            outermost.inlined = false;
        }
        frames
    }
}

/// The line alone, for places where the functions are damaged or not described.
fn line(context: &Context<Bytes>, vaddr: u64) -> Vec<Frame> {
    let location = context.find_location(vaddr).ok().flatten();
    location
        .as_ref()
        .map_or_else(Vec::new, |location| vec![located(Some(location))])
}

fn located(location: Option<&addr2line::Location<'_>>) -> Frame {
    Frame {
        file: location
            .and_then(|location| location.file)
            .map(names::clean),
        // Line 0 means that there is no line.
        line: location
            .and_then(|location| location.line)
            .filter(|&line| line > 0),
        ..Frame::default()
    }
}

/// Whether a file has DWARF of its own.
pub(super) fn has_lines(image: &[u8]) -> bool {
    ElfFile64::<LittleEndian>::parse(image).is_ok_and(|file| {
        [SectionId::DebugInfo, SectionId::DebugLine]
            .iter()
            .any(|id| {
                let section = file.section_by_name(id.name());
                section.is_some_and(|section| section.data().is_ok_and(|data| !data.is_empty()))
            })
    })
}

/// The bytes of a section; empty if the section is missing or damaged.
fn section<'a>(
    file: &ElfFile64<'a, LittleEndian>,
    id: SectionId,
    decompressed: &'a mut Vec<Vec<u8>>,
) -> &'a [u8] {
    let Some(section) = file.section_by_name(id.name()) else {
        return &[];
    };
    let Ok(data) = section.compressed_data() else {
        return &[];
    };
    if data.format == CompressionFormat::None {
        return data.data;
    }
    let ratio_limit = (data.data.len() as u64).saturating_mul(MAX_RATIO);
    let known = decompressed.iter().map(|known| known.len() as u64);
    let left = MAX_UNCOMPRESSED.saturating_sub(known.sum());
    if data.uncompressed_size > ratio_limit.min(left) {
        return &[];
    }
    match data.decompress() {
        Ok(bytes) => {
            decompressed.push(bytes.into_owned());
            decompressed.last().map_or(&[], Vec::as_slice)
        }
        Err(_) => &[],
    }
}
