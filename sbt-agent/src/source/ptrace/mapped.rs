//! Which files lie where in a memory.

use crate::target::{files::FileId, process};

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Offset in the file of the first address.
    pub offset: u64,
    /// Which file it is.
    pub id: FileId,
}

/// All that can be executed in a process; none if it is gone, or may not be looked into.
pub fn of(process: u32) -> Vec<Mapped> {
    let mappings = process::mappings(process).into_iter();
    let mapped = mappings.filter_map(|mapping| {
        let file = mapping.file(process).ok()?;
        Some(Mapped {
            start: mapping.start,
            end: mapping.end,
            offset: mapping.offset,
            id: FileId::of(&file).ok()?,
        })
    });
    mapped.collect()
}
