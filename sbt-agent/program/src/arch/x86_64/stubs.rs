//! The procedure linkage table: a library calls its own exported functions through it.

use std::collections::BTreeMap;

use iced_x86::Mnemonic;
use object::{
    LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _,
    RelocationTarget, read::elf::ElfFile64,
};

use super::{
    code::Code,
    instruction::{Flow, Instruction},
};

/// For each entry of the table that leads to the file itself: the address of the entry and its
/// target.
pub struct Stubs(BTreeMap<u64, u64>);

impl Stubs {
    /// Reads the tables of a file; x86-64 ABI 5.2.
    pub fn of(file: &ElfFile64<'_, LittleEndian>) -> Self {
        let words = words(file);
        let mut stubs = BTreeMap::new();
        let tables = file.sections().filter(|section| {
            let name = section.name().unwrap_or_default();
            name.starts_with(".plt")
        });
        for table in tables {
            let code = Code::new(table.address(), table.data().unwrap_or_default());
            let mut before: Option<Instruction> = None;
            for instruction in code.all() {
                if let Flow::Indirect(Some(word)) = instruction.flow()
                    && let Some(to) = words.get(&word)
                {
                    stubs.insert(instruction.at(), *to);
                    let mark =
                        before.filter(|instruction| instruction.0.mnemonic() == Mnemonic::Endbr64);
                    stubs.extend(mark.map(|mark| (mark.at(), *to)));
                }
                before = Some(instruction);
            }
        }
        Self(stubs)
    }

    /// The target of a stub at an address, or the address itself if there is no stub.
    pub fn behind(&self, vaddr: u64) -> u64 {
        self.0.get(&vaddr).copied().unwrap_or(vaddr)
    }
}

/// The functions of the file whose addresses the dynamic linker writes into words, provided that no
/// other library defines them first.
fn words(file: &ElfFile64<'_, LittleEndian>) -> BTreeMap<u64, u64> {
    let relocations = file.dynamic_relocations().into_iter().flatten();
    let symbols = file.dynamic_symbol_table();
    let function = |target| match target {
        RelocationTarget::Symbol(index) => {
            let symbol = symbols.as_ref()?.symbol_by_index(index).ok()?;
            symbol.is_definition().then(|| symbol.address())
        }
        _ => None,
    };
    relocations
        .filter_map(|(word, relocation)| Some((word, function(relocation.target())?)))
        .collect()
}
