//! Where functions begin and end, and how far the stack has moved inside of them, from the tables
//! for unwinding exceptions (`.eh_frame`).

use crate::arch::unwind::{FRAME, STACK};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, RegisterRule, RunTimeEndian, UnwindContext,
    UnwindSection as _, UnwindTableRow,
};
use object::{Object as _, ObjectSection as _, read::elf::ElfFile64};

type Reader<'a> = gimli::EndianSlice<'a, RunTimeEndian>;

/// How far above a register the return address lies, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Above the stack pointer.
    AboveStack(u16),
    /// Above the frame pointer.
    AboveFrame(u16),
}

/// Where a function keeps its caller's rbp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// In the word below the return address.
    Below,
    /// In rbp.
    Held,
}

/// The functions of one file, and the rules to unwind them.
pub struct Frames<'a> {
    table: EhFrame<Reader<'a>>,
    bases: BaseAddresses,
    /// First address and end of each function, in ascending order.
    functions: Vec<(u64, u64)>,
}

impl<'a> Frames<'a> {
    /// `None` if the file has no such table.
    pub fn of(file: &ElfFile64<'a, object::LittleEndian>) -> Option<Self> {
        let section = file.section_by_name(".eh_frame")?;
        let mut table = EhFrame::new(section.data().ok()?, RunTimeEndian::Little);
        table.set_address_size(8);
        let mut bases = BaseAddresses::default().set_eh_frame(section.address());
        if let Some(text) = file.section_by_name(".text") {
            bases = bases.set_text(text.address());
        }
        let mut functions = Vec::new();
        let mut entries = table.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            if let gimli::CieOrFde::Fde(partial) = entry
                && let Ok(entry) = partial.parse(EhFrame::cie_from_offset)
            {
                let start = entry.initial_address();
                functions.push((start, start.saturating_add(entry.len())));
            }
        }
        functions.sort_unstable();
        Some(Self {
            table,
            bases,
            functions,
        })
    }

    /// Start and end of the function that contains an address.
    pub fn function(&self, vaddr: u64) -> Option<(u64, u64)> {
        let after = self.functions.partition_point(|(start, _)| *start <= vaddr);
        let function = *self.functions.get(after.checked_sub(1)?)?;
        (vaddr < function.1).then_some(function)
    }

    /// How far the stack pointer lies below the return address before the instruction at `vaddr` is
    /// executed, bytes. `None` if the return address is found from another register.
    pub fn stack_moved(&self, vaddr: u64) -> Option<u16> {
        match self.caller(vaddr)? {
            Caller::AboveStack(moved) => Some(moved),
            Caller::AboveFrame(_) => None,
        }
    }

    /// Where the return address lies before the instruction at `vaddr` is executed.
    pub fn caller(&self, vaddr: u64) -> Option<Caller> {
        self.at(vaddr, |row| match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                let above = u16::try_from(offset.checked_sub(8)?).ok()?;
                match *register {
                    STACK => Some(Caller::AboveStack(above)),
                    FRAME => Some(Caller::AboveFrame(above)),
                    _ => None,
                }
            }
            CfaRule::Expression(_) => None,
        })
    }

    /// Where the caller's rbp is before the instruction at `vaddr` is executed.
    pub fn callers_frame(&self, vaddr: u64) -> Option<Saved> {
        self.at(vaddr, |row| match row.register(FRAME) {
            // -16: below the return address, which is the first word below the frame.
            Some(RegisterRule::Offset(-16)) => Some(Saved::Below),
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => Some(Saved::Held),
            _ => None,
        })
    }

    fn at<T>(
        &self,
        vaddr: u64,
        read: impl FnOnce(&UnwindTableRow<usize>) -> Option<T>,
    ) -> Option<T> {
        let mut context = UnwindContext::new();
        let from_offset = EhFrame::cie_from_offset;
        let row = self
            .table
            .unwind_info_for_address(&self.bases, &mut context, vaddr, from_offset)
            .ok()?;
        read(row)
    }
}
