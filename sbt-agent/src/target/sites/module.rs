//! A file that code lies in.

use std::{cell::OnceCell, sync::Arc};

use crate::target::{
    debuginfo::{DebugInfo, Symbol},
    elf,
    files::ProbedFile,
    unwind::Unwind,
    walks::Owner,
};

pub(super) struct Module {
    pub(super) file: Arc<ProbedFile>,
    pub(super) segments: Vec<elf::Segment>,
    pub(super) owner: Owner,
    /// It can be executed by itself.
    pub(super) is_program: bool,
    pub(super) debug: OnceCell<Option<DebugInfo>>,
}

impl Module {
    pub(super) fn new(file: Arc<ProbedFile>) -> Self {
        let image = file.image().ok();
        let image = image.as_deref().unwrap_or_default();
        let is_program = elf::interpreter(image).is_some();
        let owner = Owner::of(&file.shown, is_program);
        Self {
            segments: elf::load_segments(image).unwrap_or_default(),
            owner,
            is_program,
            file,
            debug: OnceCell::new(),
        }
    }

    /// Whether a call may end there.
    pub(super) fn is_after_call(&self, vaddr: u64) -> bool {
        self.file
            .image()
            .is_ok_and(|image| elf::is_after_call(&image, &self.segments, vaddr))
    }

    /// File offset → the file's own address.
    pub(super) fn vaddr(&self, offset: u64) -> Option<u64> {
        let mut segments = self.segments.iter();
        segments.find_map(|segment| segment.address(offset))
    }
}

/// The function that an address lies in. Without its symbols it still has its entry for
/// unwinding.
pub(super) fn function_at(
    debug: Option<&DebugInfo>,
    unwind: Option<&Unwind>,
    address: u64,
) -> Option<Symbol> {
    let named = debug.and_then(|debug| debug.spanning(&[address]).pop().flatten());
    named.or_else(|| {
        let function = unwind?.function(address)?;
        Some(Symbol {
            name: String::new(),
            start: function.start,
            size: function.end - function.start,
        })
    })
}
