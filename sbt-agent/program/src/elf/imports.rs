//! The functions of other libraries that the stubs call.

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, RelocationTarget, SymbolIndex};

use super::{Segment, code_at, names};
use crate::arch::{self, Called, Flow};

/// The most instructions of a stub up to its jump: at most a landing pad comes before the jump.
const BEFORE_JUMP: usize = 2;

/// The most relocations that are read; names in later relocations are unknown.
const MAX_RELOCATIONS: usize = 1 << 22;

/// The words of a file that the dynamic linker fills with the addresses of functions by their
/// names. A big library has hundreds of thousands of relocations: they are read once.
#[derive(Debug, Default)]
pub(crate) struct Imports {
    /// Each word once, with the index of its symbol, in the order of addresses.
    words: Vec<(u64, SymbolIndex)>,
}

impl Imports {
    /// Reads the relocations of a file. A file that is not ELF gives no words.
    pub(crate) fn of(image: &[u8]) -> Self {
        let Ok(file) = ElfFile64::<LittleEndian>::parse(image) else {
            return Self::default();
        };
        let named = file
            .dynamic_relocations()
            .into_iter()
            .flatten()
            .take(MAX_RELOCATIONS)
            .filter_map(|(word, relocation)| match relocation.target() {
                RelocationTarget::Symbol(index) => Some((word, index)),
                _ => None,
            });
        Self::of_words(named.collect())
    }

    /// `words` come in the order of the file: of several entries for one word the first counts.
    fn of_words(mut words: Vec<(u64, SymbolIndex)>) -> Self {
        words.sort_by_key(|(word, _)| *word);
        words.dedup_by_key(|(word, _)| *word);
        Self { words }
    }

    fn symbol(&self, word: u64) -> Option<SymbolIndex> {
        let index = self.words.binary_search_by_key(&word, |(word, _)| *word);
        Some(self.words.get(index.ok()?)?.1)
    }

    /// The name of the function that the dynamic linker puts into the word at an address. `image`
    /// must be the file that was given to [`Self::of`].
    pub(crate) fn through(&self, image: &[u8], word: u64) -> Option<String> {
        let index = self.symbol(word)?;
        let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
        names::dynamic_at(&file, index)?.text().map(str::to_owned)
    }

    /// The name of the function of another library to which the code at an address goes on without
    /// doing anything else: by a jump through a word that the dynamic linker fills (the procedure
    /// linkage table, x86-64 ABI 5.2). `None` for other code.
    pub(crate) fn at(&self, image: &[u8], segments: &[Segment], vaddr: u64) -> Option<String> {
        self.through(image, jumps_through(image, segments, vaddr)?)
    }

    /// The name of the function that the call with a return address calls: a function of another
    /// library, or of the same file by way of the dynamic linker. The call is one of
    /// a stub, or through a word.
    pub(crate) fn called_before(
        &self,
        image: &[u8],
        segments: &[Segment],
        returns: u64,
    ) -> Option<String> {
        let before = |length: u64| {
            let start = returns.checked_sub(length)?;
            Some(code_at(image, segments, start, length)?.bytes)
        };
        match arch::called_by(returns, before)? {
            Called::Through(word) => self.through(image, word),
            Called::At(to) => self.at(image, segments, to),
        }
    }
}

/// The address of the word through which the code at an address jumps, without doing anything else.
pub(crate) fn jumps_through(image: &[u8], segments: &[Segment], vaddr: u64) -> Option<u64> {
    let code = code_at(image, segments, vaddr, 32)?;
    let jump = arch::decode(code.bytes, vaddr)
        .take(BEFORE_JUMP)
        .map(|instruction| instruction.flow())
        .find(|flow| *flow != Flow::Next)?;
    match jump {
        Flow::Indirect(word) => word,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_are_found_as_if_all_relocations_were_looked_at(
            relocations in prop::collection::vec((0_u64..40, 1_usize..9), 0..60),
        ) {
            let all: Vec<_> = relocations
                .iter()
                .map(|(word, index)| (*word, SymbolIndex(*index)))
                .collect();
            let imports = Imports::of_words(all.clone());
            for asked in 0..42 {
                let first = all.iter().find(|(word, _)| *word == asked);
                prop_assert_eq!(imports.symbol(asked), first.map(|(_, index)| *index));
            }
        }
    }

    #[test]
    fn a_library_is_read_as_its_relocations_are() {
        let Ok(image) = std::fs::read("/proc/self/exe") else {
            return;
        };
        let imports = Imports::of(&image);
        let file = ElfFile64::<LittleEndian>::parse(&image[..]).unwrap();
        let mut named = 0;
        for (word, relocation) in file.dynamic_relocations().unwrap() {
            let RelocationTarget::Symbol(index) = relocation.target() else {
                assert_eq!(imports.through(&image, word), None);
                continue;
            };
            let name = names::dynamic_at(&file, index).unwrap();
            assert_eq!(imports.through(&image, word).as_deref(), name.text());
            named += 1;
        }
        assert!(named > 10, "{named}");
    }
}
