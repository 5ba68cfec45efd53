//! The list of the system's libraries that `ldconfig` writes, `/etc/ld.so.cache`: names, and the
//! files that glibc's dynamic linker loads for them. Written after sysdeps/generic/dl-cache.h and
//! elf/dl-cache.c of glibc.

use std::collections::HashMap;

use memchr::memchr;

use crate::arch::files::IN_CACHE;

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

/// Names of libraries, each with the path of its file for every processor.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cache(HashMap<Vec<u8>, Vec<u8>>);

impl Cache {
    /// Reads the bytes of the list. Anything unintelligible is left out: damaged bytes give an empty
    /// list, or a list with fewer names.
    pub fn read(bytes: &[u8]) -> Self {
        Self::read_all(bytes).unwrap_or_default()
    }

    /// The file of a library.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    fn read_all(bytes: &[u8]) -> Option<Self> {
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
        let mut all = HashMap::new();
        for entry in bytes.get(HEADER..)?.chunks_exact(ENTRY).take(count) {
            if let Some((name, path)) = read_entry(bytes, entry) {
                // Of two equal entries glibc takes the first.
                all.entry(name.to_vec()).or_insert_with(|| path.to_vec());
            }
        }
        Some(Self(all))
    }
}

/// Name and path. `None` for libraries of other processors, and for those in subdirectories for some
/// processors.
fn read_entry<'a>(bytes: &'a [u8], entry: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let is_for_all = word(entry, 16)? == 0 && word(entry, 20)? == 0;
    if word(entry, 0)? != IN_CACHE || !is_for_all {
        return None;
    }
    Some((text(bytes, word(entry, 4)?)?, text(bytes, word(entry, 8)?)?))
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
