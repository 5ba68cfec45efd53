//! Which names stand among a file's symbols for the dynamic linker.

use std::hash::BuildHasher as _;

use object::LittleEndian;
use object::read::elf::ElfFile64;
use rustc_hash::FxBuildHasher;

use super::names;

/// The names that a file uses or defines, as numbers: whoever asks many files for a few names
/// need not read their symbols each time. Two names may have one number.
#[derive(Debug, Default)]
pub(crate) struct DynamicNames {
    /// Those of other files' symbols, rising.
    undefined: Vec<u64>,
    /// Those of its own, rising.
    defined: Vec<u64>,
}

impl DynamicNames {
    /// The number of a name.
    pub(crate) fn number(name: &str) -> u64 {
        FxBuildHasher.hash_one(name)
    }

    /// Of a file that is not ELF there are none.
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

    /// Whether it may use another file's symbol of a name with this number.
    pub(crate) fn may_import(&self, number: u64) -> bool {
        self.undefined.binary_search(&number).is_ok()
    }

    /// The same also of its own.
    pub(crate) fn may_have(&self, number: u64) -> bool {
        self.may_import(number) || self.defined.binary_search(&number).is_ok()
    }

    /// All of them.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.undefined.iter().chain(&self.defined).copied()
    }
}
