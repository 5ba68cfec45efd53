//! A file that code lies in.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    sync::Arc,
};

use memmap2::Mmap;

use crate::{
    alternatives::Graphs,
    debuginfo::{DebugInfo, Symbol},
    elf::{self, Imports},
    files::ProbedFile,
    unwind::Unwind,
    walks::Owner,
    work::{self, Functions},
};
use sbt_engine::{place, recognise::Relation};

pub(super) struct Module {
    pub(super) file: Arc<ProbedFile>,
    pub(super) segments: Vec<elf::Segment>,
    pub(super) owner: Owner,
    /// See [`elf::is_program`].
    pub(super) is_program: bool,
    /// It lies where it says.
    is_fixed: bool,
    pub(super) debug: OnceCell<Option<DebugInfo>>,
    /// Its bytes, once they have been asked for.
    image: OnceCell<Option<Mmap>>,
    imports: OnceCell<Imports>,
    /// Functions that wait or wake, decoded.
    pub(super) graphs: Graphs,
    /// How calls stand to each other: see [`super::relation`].
    pub(super) relations: RefCell<HashMap<(u64, u64, bool), Relation>>,
    /// What calls are to a condition variable, by their addresses: see [`super::relation`].
    pub(super) conditions: RefCell<HashMap<u64, InCondition>>,
    /// What was found by [`Self::works_before`], by its arguments.
    works: RefCell<HashMap<(u64, u64), bool>>,
    found: work::Found,
}

impl Module {
    pub(super) fn new(file: Arc<ProbedFile>) -> Self {
        let map = file.image().ok();
        let image = map.as_deref().unwrap_or_default();
        let is_program = elf::is_program(image);
        let owner = Owner::of(&file.shown, is_program);
        Self {
            segments: elf::load_segments(image).unwrap_or_default(),
            owner,
            is_program,
            is_fixed: elf::is_fixed(image),
            file,
            debug: OnceCell::new(),
            image: OnceCell::new(),
            imports: OnceCell::new(),
            graphs: Graphs::default(),
            relations: RefCell::default(),
            conditions: RefCell::default(),
            works: RefCell::default(),
            found: work::Found::default(),
        }
    }

    /// The file's bytes, which stay mapped; none if they cannot be.
    pub(super) fn image(&self) -> &[u8] {
        let image = self.image.get_or_init(|| self.file.image().ok());
        image.as_deref().unwrap_or_default()
    }

    /// The functions of other files that it calls.
    pub(super) fn imports(&self) -> &Imports {
        self.imports.get_or_init(|| Imports::of(self.image()))
    }

    /// Whether it is a program whose code may have been mapped there: by whole pages wherever
    /// it likes, or just where it says.
    pub(super) fn is_program_at(&self, start: u64) -> bool {
        const PAGE: u64 = 4096;
        let code = self.segments.iter().find(|segment| segment.executable);
        self.is_program
            && code.is_some_and(|code| {
                let moved = start.wrapping_sub(code.vaddr);
                moved == 0 || !self.is_fixed && moved.is_multiple_of(PAGE)
            })
    }

    /// Whether another file says of itself that it is of the same build.
    pub(super) fn is_copy(&self, other: &Self) -> bool {
        let build = |module: &Self| elf::build_id(module.image());
        let own = build(self);
        own.is_some() && own == build(other)
    }

    /// What function of another file is called by the call with a return address.
    pub(super) fn called_by(&self, returns: u64) -> Option<String> {
        let imports = self.imports();
        imports.called_before(self.image(), &self.segments, returns)
    }

    /// Whether a call may end there.
    pub(super) fn is_after_call(&self, vaddr: u64) -> bool {
        elf::is_after_call(self.image(), &self.segments, vaddr)
    }

    /// Whether a direct call may end there: of a function of the same file, as a rule, and not
    /// of what somebody else has handed over.
    pub(super) fn is_after_direct_call(&self, vaddr: u64) -> bool {
        elf::is_after_direct_call(self.image(), &self.segments, vaddr)
    }

    /// Whether a function works before the call that returns to an address. Those of the C
    /// library are the way to it.
    pub(super) fn works_before(&self, start: u64, returns: u64) -> bool {
        if self.owner == Owner::C {
            return false;
        }
        let known = self.works.borrow().get(&(start, returns)).copied();
        known.unwrap_or_else(|| {
            let (image, at) = (self.image(), (start, returns));
            let works = work::works_before(image, &self.segments, self, &self.found, at);
            self.works.borrow_mut().insert((start, returns), works);
            works
        })
    }

    fn opened(&self) -> Option<&DebugInfo> {
        self.debug.get().and_then(Option::as_ref)
    }

    /// File offset → the file's own address.
    pub(super) fn vaddr(&self, offset: u64) -> Option<u64> {
        let mut segments = self.segments.iter();
        segments.find_map(|segment| segment.address(offset))
    }
}

/// What a call is to the condition variable of a library.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InCondition {
    /// Some of what is inlined there belongs to one.
    pub(super) is_of_it: bool,
    /// The function around it does, or lies under one: whoever has called that is meant.
    pub(super) is_inside: bool,
    /// The function around it is one of C11's.
    pub(super) is_of_c: bool,
}

impl Functions for Module {
    fn is_own(&self, start: u64) -> bool {
        let frames = self.opened().map(|debug| debug.frames(start));
        let frames = frames.unwrap_or_default();
        let mut files = frames
            .iter()
            .filter_map(|frame| frame.file.as_deref())
            .peekable();
        // The C library of a static program has no lines.
        let has_lines = files.peek().is_some();
        files.any(|file| !place::is_of_library(file)) || !has_lines && !self.file.is_static()
    }

    fn start_of(&self, address: u64) -> Option<u64> {
        self.opened()?.function_start(address)
    }
}

/// The function that an address lies in. Without its symbols it still has its entry for
/// unwinding.
pub(super) fn function_at(
    debug: Option<&DebugInfo>,
    unwind: Option<&Unwind>,
    address: u64,
) -> Option<Symbol> {
    let named = debug.and_then(|debug| debug.spanning(address));
    named.or_else(|| {
        let function = unwind?.function(address)?;
        Some(Symbol {
            name: String::new(),
            start: function.start,
            size: function.end - function.start,
        })
    })
}
