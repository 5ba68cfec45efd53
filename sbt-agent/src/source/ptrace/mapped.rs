//! The files in the memory of a process.

use std::io;

use sbt_program::{file_id::FileId, process};

/// A mapping of a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// First address.
    pub start: u64,
    /// End address, exclusive.
    pub end: u64,
    /// Offset in the file of the first address.
    pub offset: u64,
    /// The identity of the file.
    pub id: FileId,
}

impl Mapped {
    /// The address of the byte at an offset of the file; `None` if it is not mapped here.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let at = self.start.checked_add(offset.checked_sub(self.offset)?)?;
        (at < self.end).then_some(at)
    }
}

/// All executable mappings of files in a process; empty if the process is gone.
///
/// # Errors
/// They cannot be read; `PermissionDenied` if this user may not look into the process.
pub fn of(process: u32) -> io::Result<Vec<Mapped>> {
    let mappings = process::readable_mappings(process)?.into_iter();
    let mapped = mappings.filter_map(|mapping| {
        let file = mapping.file(process).ok()?;
        Some(Mapped {
            start: mapping.start,
            end: mapping.end,
            offset: mapping.offset,
            id: FileId::of(&file).ok()?,
        })
    });
    Ok(mapped.collect())
}

/// The file and the offset of the byte at an address.
pub fn file_at(all: &[Mapped], at: u64) -> Option<(FileId, u64)> {
    let one = all
        .iter()
        .find(|mapping| (mapping.start..mapping.end).contains(&at))?;
    Some((one.id, one.offset.wrapping_add(at - one.start)))
}

/// Whether two processes may have the same code at an address. True also where this cannot be
/// known: for memory that is no file's, and for files mapped after the lists were read.
pub fn is_alike(one: &[Mapped], other: &[Mapped], at: u64) -> bool {
    let known = file_at(one, at);
    other.is_empty() || known.is_none() || known == file_at(other, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(start: u64, offset: u64, inode: u64) -> Mapped {
        Mapped {
            start,
            end: start + 0x1000,
            offset,
            id: FileId { device: 1, inode },
        }
    }

    #[test]
    fn what_lies_elsewhere_or_is_another_file_is_not_alike() {
        let ours = [mapped(0x40_0000, 0x1000, 7), mapped(0x50_0000, 0, 8)];
        let at = 0x40_0010;
        assert!(is_alike(&ours, &ours, at));
        assert!(is_alike(&ours, &ours[..1], at));
        for theirs in [
            // Another program at the same addresses; another part of the same file; nothing there.
            mapped(0x40_0000, 0x1000, 9),
            mapped(0x40_0000, 0x2000, 7),
            mapped(0x50_0000, 0x1000, 7),
        ] {
            assert!(!is_alike(&ours, &[theirs], at), "{theirs:?}");
        }
        // The same byte, in a mapping that was split since.
        assert!(is_alike(&ours, &[mapped(0x40_0010, 0x1010, 7)], at));
        // Not known in one of the two lists.
        assert!(is_alike(&ours, &[], at));
        assert!(is_alike(&ours, &[mapped(0x40_0000, 0x1000, 9)], 0x60_0000));
    }
}
