//! Function names and source lines of one ELF file.
//!
//! The file and what it refers to belong to the target and may be anything. Whatever is missing or
//! damaged makes the answer shorter: there is no error. sbt reads only the additional files that
//! debuggers look for, so split DWARF (`.dwo` files at paths that the file names) gives lines but
//! not inlined functions.

mod checked;
mod copies;
mod inlined;
mod left;
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

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use memmap2::Mmap;

pub(super) use gimli::Range;

pub(super) use self::copies::{has_other_parameters, is_part};
pub use self::lookup::{Line, Spot};
pub(crate) use self::names::of_function as demangled;
use self::sections::Lines;
use self::symbols::{ByAddress, Symbols};
pub use self::symbols::{Symbol, TooMany};
use crate::access::target::open_as_sbt;
use crate::elf::{ElfError, load_segments, map};

/// The most frames at one address; deeper inlining is not shown.
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

/// A function at an address; where functions are inlined, an address has several frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The function's name, demangled, without parameters.
    pub function: Option<String>,
    /// The source file as the compiler was given it, usually a full path.
    pub file: Option<String>,
    /// The line in `file`, from 1.
    pub line: Option<u32>,
    /// Whether the function was inlined into the function of the next frame.
    pub inlined: bool,
}

/// The symbols and lines of one file, read on first use.
pub struct DebugInfo {
    // `lines` and `located` borrow from the files below, and so have to be dropped before them.
    lines: OnceLock<Option<Lines>>,
    /// Like `lines`, with the locations of variables.
    located: OnceLock<Option<Lines>>,
    /// The functions of the symbol tables.
    functions: OnceLock<ByAddress>,
    file: Mmap,
    /// The separate debug file.
    separate: Option<Mmap>,
    /// The file to which dwz has moved common parts of the DWARF.
    supplementary: Option<Mmap>,
    /// The file of symbols inside of the stripped file.
    left: OnceLock<Option<Vec<u8>>>,
}

impl fmt::Debug for DebugInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DebugInfo").finish_non_exhaustive()
    }
}

impl DebugInfo {
    /// Opens a file, and the separate debug files that exist for it.
    ///
    /// `path` opens the file with the rights of sbt: a link of the kernel to a file that was opened
    /// before, such as `/proc/self/fd/N`. `logical` is the file's path as the target sees it; debug
    /// files lie beside that path. `root` is where sbt finds the target's `/`, for example
    /// `/proc/PID/root`.
    ///
    /// # Errors
    /// The file cannot be read or is not a 64-bit x86 ELF file.
    pub fn open(path: &Path, logical: &Path, root: &Path) -> Result<Self, OpenError> {
        let opened = open_as_sbt(path)?;
        let file = map(&opened)?;
        load_segments(&file)?;
        let place = separate::FileLocation { logical, root };
        let mut info = Self {
            lines: OnceLock::new(),
            located: OnceLock::new(),
            functions: OnceLock::new(),
            file,
            separate: None,
            supplementary: None,
            left: OnceLock::new(),
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

    /// The functions and lines at an address, innermost function first; the last frame is not
    /// inlined. Empty if nothing is known.
    ///
    /// `vaddr` is in the file's own numbering, without load bias. For a caller give its return
    /// address - 1: the return address itself may already belong to the next line or function.
    pub fn frames(&self, vaddr: u64) -> Vec<Frame> {
        // addr2line adds 1 to the address.
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

    /// The function that spans the address by the symbol tables; the frame has no line, and inlined
    /// functions are ignored.
    pub fn function(&self, vaddr: u64) -> Option<Frame> {
        let (_, name) = self.symbol_at(vaddr)?;
        Some(Frame {
            function: Some(name),
            ..Frame::default()
        })
    }

    /// The start of the function that spans the address by the symbol tables.
    pub fn function_start(&self, vaddr: u64) -> Option<u64> {
        self.by_address().start(vaddr)
    }

    /// Start and name of the function that spans the address by the symbol tables.
    fn symbol_at(&self, vaddr: u64) -> Option<(u64, String)> {
        self.symbols().at(vaddr, self.by_address())
    }

    /// The functions of the symbol tables by address; the tables are read once.
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

    /// Like [`Self::lines`], with the locations of variables.
    fn located(&self) -> Option<&Lines> {
        self.located.get_or_init(|| self.load(true)).as_ref()
    }

    fn load(&self, locations: bool) -> Option<Lines> {
        let supplementary = self.supplementary.as_deref();
        // SAFETY: `file`, `separate` and `supplementary` are set when the value is made and never
        // changed; moving a mapping's handle does not move its bytes; and the loaded lines are kept
        // in fields that are dropped before the mappings.
        unsafe { Lines::load(self.lines_file(), supplementary, locations) }
    }

    /// The symbol tables of the debug file and of the file itself.
    fn symbols(&self) -> Symbols<'_> {
        let images = self.separate.iter().chain([&self.file]);
        let images = images.map(|image| &image[..]);
        Symbols::of(images.chain(self.left()))
    }

    /// The file of symbols that was left in a stripped file, if it is needed.
    fn left(&self) -> Option<&[u8]> {
        let mut images = self.separate.iter().chain([&self.file]);
        let read = || {
            let is_stripped = !images.any(|image| left::is_whole(image));
            is_stripped.then(|| left::file(&self.file)).flatten()
        };
        self.left.get_or_init(read).as_deref()
    }
}

#[cfg(test)]
#[path = "debuginfo_tests.rs"]
mod tests;
