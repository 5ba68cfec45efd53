//! Function names and source lines of one ELF file.
//!
//! The file and what it refers to belong to the target and may be anything.
//! Whatever is missing or damaged makes the answer shorter: never an error,
//! and no other file is read than those that debuggers look for, so split
//! DWARF (`.dwo` files at paths that the file names) gives lines but not inlined
//! functions.

mod copies;
mod inlined;
mod lookup;
mod names;
mod parameters;
mod places;
mod proportion;
mod rows;
mod scopes;
mod sections;
mod separate;
mod symbols;
mod units;

use std::cell::OnceCell;
use std::io;
use std::path::Path;

use memmap2::Mmap;

pub(super) use gimli::Range;

pub(super) use self::copies::{has_other_parameters, is_part};
pub use self::lookup::{Line, Spot};
use self::sections::Lines;
use self::symbols::{ByAddress, Symbols};
pub use self::symbols::{Symbol, TooMany};
use crate::access::target::open_as_sbt;
use crate::elf::{ElfError, load_segments, map};

/// Deeper inlining than this is not shown.
const MAX_FRAMES: usize = 64;

/// Why a file has no names and lines at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be read.
    #[error("cannot read it: {0}")]
    Unreadable(#[from] io::Error),
    /// The file is not a program or library of this machine.
    #[error(transparent)]
    NotElf(#[from] ElfError),
}

/// A function at an address, one of several where functions are inlined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The function's name, demangled, without parameters.
    pub function: Option<String>,
    /// The source file as the compiler was given it, usually a full path.
    pub file: Option<String>,
    /// The line in `file`, from 1.
    pub line: Option<u32>,
    /// Whether the function was inlined into the next frame's.
    pub inlined: bool,
}

/// The symbols and lines of one file, read when they are first asked for.
pub struct DebugInfo {
    // Both borrow from the files below, and so have to be dropped before them.
    lines: OnceCell<Option<Lines>>,
    /// The same with the locations of variables.
    located: OnceCell<Option<Lines>>,
    /// The functions of the symbol tables.
    functions: OnceCell<ByAddress>,
    file: Mmap,
    /// The separate debug file.
    separate: Option<Mmap>,
    /// What dwz has moved out of either of them.
    supplementary: Option<Mmap>,
}

impl DebugInfo {
    /// Opens a file, and what separate debug files there are for it.
    ///
    /// `path` opens the file with the rights of sbt: a link of the kernel, as
    /// `/proc/self/fd/N` is, to what was opened before; `logical` is its path as the target sees it, beside
    /// which debug files lie; `root` is where the target's `/` is, for example
    /// `/proc/PID/root`.
    ///
    /// # Errors
    /// The file cannot be read or is not a 64-bit x86 ELF file.
    pub fn open(path: &Path, logical: &Path, root: &Path) -> Result<Self, OpenError> {
        let opened = open_as_sbt(path)?;
        let file = map(&opened)?;
        load_segments(&file)?;
        let place = separate::Place { logical, root };
        let mut info = Self {
            lines: OnceCell::new(),
            located: OnceCell::new(),
            functions: OnceCell::new(),
            file,
            separate: None,
            supplementary: None,
        };
        let mut path = logical.to_owned();
        if !sections::has_lines(&info.file)
            && let Some(separate) = place.separate(&info.file, &opened.metadata()?)
        {
            path = separate.path;
            info.separate = Some(separate.map);
        }
        info.supplementary = place.supplementary(info.lines_file(), &path);
        Ok(info)
    }

    /// What is at an address, innermost function first; the last one is not
    /// inlined. Empty if nothing is known.
    ///
    /// `vaddr` is in the file's own numbering, without load bias. For a caller
    /// give its return address - 1: the return address itself may already
    /// belong to the next line or function.
    pub fn frames(&self, vaddr: u64) -> Vec<Frame> {
        // addr2line adds one to it.
        if vaddr == u64::MAX {
            return Vec::new();
        }
        let mut frames = match self.lines() {
            Some(lines) => lines.frames(vaddr, MAX_FRAMES),
            None => Vec::new(),
        };
        if frames.last().is_none_or(|outer| outer.function.is_none()) {
            // Without inlined frames in between, the symbol is the function.
            let symbol = self.function(vaddr);
            match frames.last_mut() {
                Some(outer) => outer.function = symbol.and_then(|symbol| symbol.function),
                None => frames.extend(symbol),
            }
        }
        frames
    }

    /// The function that spans the address by the symbol tables: without a line, and whatever
    /// is inlined into it.
    pub fn function(&self, vaddr: u64) -> Option<Frame> {
        let (_, name) = self.symbol_at(vaddr)?;
        Some(Frame {
            function: Some(name),
            ..Frame::default()
        })
    }

    /// Where the function begins that spans the address, by the symbol tables.
    pub fn function_start(&self, vaddr: u64) -> Option<u64> {
        self.by_address().start(vaddr)
    }

    /// By the symbol tables: where the function begins that spans the address, and its name.
    fn symbol_at(&self, vaddr: u64) -> Option<(u64, String)> {
        self.symbols().at(vaddr, self.by_address())
    }

    /// Where the functions of the symbol tables are: the tables are read for it once.
    fn by_address(&self) -> &ByAddress {
        self.functions.get_or_init(|| self.symbols().by_address())
    }

    /// The file that DWARF is read from.
    fn lines_file(&self) -> &[u8] {
        self.separate.as_deref().unwrap_or(&self.file)
    }

    fn lines(&self) -> Option<&Lines> {
        self.lines.get_or_init(|| self.load(false)).as_ref()
    }

    /// What also knows where variables are.
    fn located(&self) -> Option<&Lines> {
        self.located.get_or_init(|| self.load(true)).as_ref()
    }

    fn load(&self, locations: bool) -> Option<Lines> {
        let supplementary = self.supplementary.as_deref();
        // SAFETY: `file`, `separate` and `supplementary` are set when the value
        // is made and never changed; moving a mapping's handle does not move
        // its bytes; and what is loaded is kept in fields that are dropped
        // before them.
        unsafe { Lines::load(self.lines_file(), supplementary, locations) }
    }

    /// The symbol tables of both files.
    fn symbols(&self) -> Symbols<'_> {
        let images = self.separate.iter().chain([&self.file]);
        Symbols::of(images.map(|image| &image[..]))
    }
}

#[cfg(test)]
#[path = "debuginfo_tests.rs"]
mod tests;
