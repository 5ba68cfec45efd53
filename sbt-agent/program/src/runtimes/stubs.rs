//! The procedure linkage table: through it a library calls what it exports.

use std::collections::BTreeMap;

use iced_x86::{FlowControl, Instruction, Mnemonic};
use object::{
    LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _,
    RelocationTarget, read::elf::ElfFile64,
};

use super::sweep::Code;

/// Where the entries of the table go, of those that lead to the file itself.
pub struct Stubs(BTreeMap<u64, u64>);

impl Stubs {
    /// Of one file; x86-64 ABI 5.2.
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
                if instruction.flow_control() == FlowControl::IndirectBranch
                    && instruction.is_ip_rel_memory_operand()
                    && let Some(to) = words.get(&instruction.ip_rel_memory_address())
                {
                    stubs.insert(instruction.ip(), *to);
                    let mark = before.filter(|it| it.mnemonic() == Mnemonic::Endbr64);
                    stubs.extend(mark.map(|mark| (mark.ip(), *to)));
                }
                before = Some(instruction);
            }
        }
        Self(stubs)
    }

    /// Where whoever goes to an address comes.
    pub fn behind(&self, vaddr: u64) -> u64 {
        self.0.get(&vaddr).copied().unwrap_or(vaddr)
    }
}

/// What the dynamic linker writes into words, as far as it lies in the file: if no
/// other library comes first.
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
