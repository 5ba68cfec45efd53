//! The list of the system's libraries that `ldconfig` writes, `/etc/ld.so.cache`: names, and the
//! files that glibc's dynamic linker loads for them. Written after sysdeps/generic/dl-cache.h and
//! elf/dl-cache.c of glibc.

use std::collections::HashMap;

use memchr::memchr;

use crate::arch::{cpu::Level, files::IN_CACHE};

/// How a list begins that holds only entries of the present form.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";

/// How a list of the old form begins. The list of the present form follows it.
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";

/// Bytes of the header of the old form, and of each of its entries.
const OLD_HEADER: usize = 16;
const OLD_ENTRY: usize = 12;

/// Bytes of the header, and of each entry.
const HEADER: usize = 48;
const ENTRY: usize = 24;

/// Set in an entry's `hwcap` if the lower half is the index of a subdirectory's name.
const IS_NAMED: u64 = 1 << 62;

/// How the list of sections behind the strings begins.
const EXTENSIONS: u32 = 0xeaa4_2174;

/// The section with the names of the subdirectories of `glibc-hwcaps`.
const NAMES_OF_LEVELS: u32 = 1;

/// The most sections, and names in them, that are looked at; `ldconfig` writes two sections.
const MAX_SECTIONS: u32 = 64;

/// Names of libraries, each with the path of the file that suits one processor.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cache(HashMap<Vec<u8>, Vec<u8>>);

impl Cache {
    /// Reads the bytes of the list, for a processor of this level. Anything unintelligible is left
    /// out: damaged bytes give an empty list, or a list with fewer names.
    pub fn read(bytes: &[u8], level: Level) -> Self {
        Self::read_all(bytes, level).unwrap_or_default()
    }

    /// The file of a library.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    fn read_all(bytes: &[u8], level: Level) -> Option<Self> {
        let bytes = if bytes.starts_with(OLD_MAGIC) {
            let entries = usize::try_from(word(bytes, 12)?).ok()?;
            let end = entries.checked_mul(OLD_ENTRY)?.checked_add(OLD_HEADER)?;
            bytes.get(end.checked_next_multiple_of(8)?..)?
        } else {
            bytes
        };
        if !bytes.starts_with(MAGIC) {
            return None;
        }
        let count = usize::try_from(word(bytes, 20)?).ok()?;
        let levels = levels(bytes).unwrap_or_default();
        // For each name, the level that the file needs, and the file.
        let mut best: HashMap<&[u8], (Level, &[u8])> = HashMap::new();
        for entry in bytes.get(HEADER..)?.chunks_exact(ENTRY).take(count) {
            let Some((name, path, needs)) = read_entry(bytes, entry, &levels) else {
                continue;
            };
            if needs > level {
                continue;
            }
            // Of two equal entries glibc takes the first.
            let old = best.entry(name).or_insert((needs, path));
            if needs > old.0 {
                *old = (needs, path);
            }
        }
        let owned = |(name, (_, path)): (&[u8], (Level, &[u8]))| (name.to_vec(), path.to_vec());
        Some(Self(best.into_iter().map(owned).collect()))
    }
}

/// Name, path and the least level of the processor. `None` for libraries of other processors, and
/// for libraries in the subdirectories that glibc had until 2.36.
fn read_entry<'a>(
    bytes: &'a [u8],
    entry: &[u8],
    levels: &[Option<Level>],
) -> Option<(&'a [u8], &'a [u8], Level)> {
    if word(entry, 0)? != IN_CACHE {
        return None;
    }
    let hwcap = u64::from(word(entry, 16)?) | u64::from(word(entry, 20)?) << 32;
    let level = if hwcap == 0 {
        Level::ANY
    } else if hwcap & IS_NAMED != 0 {
        let number = usize::try_from(hwcap & 0xffff_ffff).ok()?;
        (*levels.get(number)?)?
    } else {
        return None;
    };
    Some((
        text(bytes, word(entry, 4)?)?,
        text(bytes, word(entry, 8)?)?,
        level,
    ))
}

/// The levels of the subdirectories that the list names, by their indices; `None` for unknown
/// subdirectories.
fn levels(bytes: &[u8]) -> Option<Vec<Option<Level>>> {
    let start = usize::try_from(word(bytes, 32)?).ok()?;
    let section = |at: usize| word(bytes, start.checked_add(at)?);
    if start == 0 || section(0)? != EXTENSIONS {
        return None;
    }
    let sections = section(4)?.min(MAX_SECTIONS);
    let at = (0..sections)
        .filter_map(|number| usize::try_from(number).ok())
        .map(|number| 8 + 16 * number)
        .find(|at| section(*at) == Some(NAMES_OF_LEVELS))?;
    let offset = usize::try_from(section(at + 8)?).ok()?;
    let names = section(at + 12)? / 4;
    let names = (0..names.min(MAX_SECTIONS)).filter_map(|number| usize::try_from(number).ok());
    Some(
        names
            .map(|number| {
                let name = word(bytes, offset.checked_add(4 * number)?)?;
                Level::of_folder(text(bytes, name)?)
            })
            .collect(),
    )
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// The text at an offset, without the terminating zero.
fn text(bytes: &[u8], offset: u32) -> Option<&[u8]> {
    /// The longest path that the kernel opens, bytes.
    const MAX_PATH: usize = 4096;
    let rest = bytes.get(usize::try_from(offset).ok()?..)?;
    let length = memchr(0, &rest[..rest.len().min(MAX_PATH)])?;
    (length > 0).then(|| &rest[..length])
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
