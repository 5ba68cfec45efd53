//! A file that contains code.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
};

use super::tail::Ways;

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
    /// Whether the file can only be loaded at the addresses that it names.
    is_fixed: bool,
    imports: OnceCell<Imports>,
    /// The decoded functions that wait or wake.
    pub(super) graphs: Graphs,
    /// How pairs of calls relate: see [`super::relation`].
    pub(super) relations: RefCell<HashMap<(u64, u64, bool), Relation>>,
    /// The role of calls in a condition variable, by address: see [`super::relation`].
    pub(super) conditions: RefCell<HashMap<u64, InCondition>>,
    /// The results of [`Self::works_before`], by its arguments.
    works: RefCell<HashMap<(u64, u64), bool>>,
    /// The ways by jumps to barriers, by function and number of files: see [`super::tail`].
    pub(super) tails: RefCell<HashMap<(u64, usize), Rc<Ways>>>,
    found: work::KnownWork,
}

impl Module {
    pub(super) fn new(file: Arc<ProbedFile>) -> Self {
        let image = file.image();
        let is_program = elf::is_program(image);
        let owner = Owner::of(&file.shown, is_program);
        Self {
            segments: elf::load_segments(image).unwrap_or_default(),
            owner,
            is_program,
            is_fixed: elf::is_fixed(image),
            file,
            imports: OnceCell::new(),
            graphs: Graphs::default(),
            relations: RefCell::default(),
            conditions: RefCell::default(),
            works: RefCell::default(),
            tails: RefCell::default(),
            found: work::KnownWork::default(),
        }
    }

    /// The file's bytes.
    pub(super) fn image(&self) -> &[u8] {
        self.file.image()
    }

    /// The functions of other files that the file calls.
    pub(super) fn imports(&self) -> &Imports {
        self.imports.get_or_init(|| Imports::of(self.image()))
    }

    /// Whether the file is a program whose code may have been mapped at `start`: at any whole
    /// number of pages from the named address, or exactly there for a program that cannot be moved.
    pub(super) fn is_program_at(&self, start: u64) -> bool {
        const PAGE: u64 = 4096;
        let code = self.segments.iter().find(|segment| segment.executable);
        self.is_program
            && code.is_some_and(|code| {
                let moved = start.wrapping_sub(code.vaddr);
                moved == 0 || !self.is_fixed && moved.is_multiple_of(PAGE)
            })
    }

    /// Whether another file has the same build id.
    pub(super) fn is_copy(&self, other: &Self) -> bool {
        let build = |module: &Self| elf::build_id(module.image());
        let own = build(self);
        own.is_some() && own == build(other)
    }

    /// The function of another file that the call with a return address calls.
    pub(super) fn called_by(&self, returns: u64) -> Option<String> {
        let imports = self.imports();
        imports.called_before(self.image(), &self.segments, returns)
    }

    /// The function of another file to which a stub at an address leads.
    pub(super) fn stub_at(&self, vaddr: u64) -> Option<String> {
        self.imports().at(self.image(), &self.segments, vaddr)
    }

    /// Whether a call may end at an address.
    pub(super) fn is_after_call(&self, vaddr: u64) -> bool {
        elf::is_after_call(self.image(), &self.segments, vaddr)
    }

    /// Whether a direct call may end at an address. Such a call is usually of a function of the
    /// same file, and not of a function that other code has passed in.
    pub(super) fn is_after_direct_call(&self, vaddr: u64) -> bool {
        elf::is_after_direct_call(self.image(), &self.segments, vaddr)
    }

    /// Whether the code is a library's, and calls a function which other code has given to the library, as where a
    /// library begins a thread. If the function has gone on by a jump, the call returns there from elsewhere.
    pub(super) fn calls_back(&self, returns: u64) -> bool {
        self.owner == Owner::System
            && !self.is_after_direct_call(returns)
            && self.called_by(returns).is_none()
    }

    /// The address that the direct call with this return address calls; `None` for other calls.
    pub(super) fn called_directly(&self, returns: u64) -> Option<u64> {
        elf::called_directly(self.image(), &self.segments, returns)
    }

    /// The distance from a return address to the word of memory through which the call goes.
    pub(super) fn called_through(&self, returns: u64) -> Option<i64> {
        elf::called_through(self.image(), &self.segments, returns)
    }

    /// Whether a function works before the call that returns to an address. Functions of the C
    /// library never count as working, because they are only the way to the call.
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

    /// File offset → the file's own address.
    pub(super) fn vaddr(&self, offset: u64) -> Option<u64> {
        let mut segments = self.segments.iter();
        segments.find_map(|segment| segment.address(offset))
    }
}

/// The role of a call in the condition variable of a library.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InCondition {
    /// Whether any function at the call, inlined ones included, belongs to a condition variable.
    pub(super) is_of_it: bool,
    /// Whether the outermost function at the call belongs to a condition variable, or lies below
    /// one: then its caller counts.
    pub(super) is_inside: bool,
    /// Whether the outermost function at the call is one of C11's.
    pub(super) is_of_c: bool,
}

impl Functions for Module {
    fn is_own(&self, start: u64) -> bool {
        let frames = self.file.opened().map(|debug| debug.frames(start));
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
        self.file.opened()?.function_start(address)
    }
}

/// The function that contains an address. A function without symbols still has its entry for
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
