//! The names among a file's symbols for the dynamic linker.

use std::hash::BuildHasher as _;

use object::LittleEndian;
use object::read::elf::ElfFile64;
use rustc_hash::FxBuildHasher;

use super::names;

/// The names that a file uses or defines, as hashes: a search of many files for a few names need
/// not read their symbols each time. Two names may have the same hash.
#[derive(Debug, Default)]
pub(crate) struct DynamicNames {
    /// Hashes of the names that other files must define, in ascending order.
    undefined: Vec<u64>,
    /// Hashes of the names that the file defines, in ascending order.
    defined: Vec<u64>,
}

impl DynamicNames {
    /// The hash of a name.
    pub(crate) fn number(name: &str) -> u64 {
        FxBuildHasher.hash_one(name)
    }

    /// Reads the names of a file; empty for a file that is not ELF.
    pub(crate) fn of(image: &[u8]) -> Self {
        let mut this = Self::default();
        let Ok(file) = ElfFile64::<LittleEndian>::parse(image) else {
            return this;
        };
        for symbol in names::dynamic(&file) {
            if let Some(name) = symbol.text() {
                let list = if symbol.is_undefined() {
                    &mut this.undefined
                } else {
                    &mut this.defined
                };
                list.push(Self::number(name));
            }
        }
        for list in [&mut this.undefined, &mut this.defined] {
            list.sort_unstable();
            list.dedup();
        }
        this
    }

    /// Whether the file may use another file's symbol with this hash.
    pub(crate) fn may_import(&self, number: u64) -> bool {
        self.undefined.binary_search(&number).is_ok()
    }

    /// Whether the file may use or define a symbol with this hash.
    pub(crate) fn may_have(&self, number: u64) -> bool {
        self.may_import(number) || self.defined.binary_search(&number).is_ok()
    }

    /// The hashes of all names.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.undefined.iter().chain(&self.defined).copied()
    }
}
