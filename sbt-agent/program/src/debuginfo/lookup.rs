//! From names and lines to addresses.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use gimli::Range;

use super::rows::{self, Run, Search};
use super::scopes::{self, Scope};
use super::symbols::{Symbol, TooMany};
use super::{DebugInfo, inlined, parameters, places, units};

/// The most source files that are listed for a user who has mistyped one.
const MAX_FILES: usize = 1 << 16;

/// Some of the code of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The first address of the code.
    pub start: u64,
    /// One past the last address of the code that follows without another line in between.
    pub end: u64,
    /// Whether a line of another file claims all code that begins there: then it is not certain
    /// that the code belongs to this line.
    pub is_hidden: bool,
    /// Identifies the function that contains the code, inlined functions and each copy of them
    /// included.
    pub scope: Vec<(usize, usize)>,
    /// First address of the surrounding function that is not inlined, and one past the last; only
    /// the part of the function that contains this code.
    pub function: Option<(u64, u64)>,
}

/// Facts about a source line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The code of the line, in the order of addresses.
    pub spots: Vec<Spot>,
    /// Whether the source file is known.
    pub has_file: bool,
    /// The nearest lines before and after the line that have code.
    pub nearest: (Option<u32>, Option<u32>),
}

impl DebugInfo {
    /// The functions that a name may mean, demangled or not, with the copies that a compiler has
    /// made of them, in the order of addresses.
    ///
    /// # Errors
    /// More functions have the name than can be probed.
    pub fn functions(&self, written: &str) -> Result<Vec<Symbol>, TooMany> {
        self.symbols().functions(written)
    }

    /// The names of the variants, as far as they are known, of a function that is chosen among
    /// variants when the program starts; `None` if no such function has the name.
    pub fn variants(&self, written: &str) -> Option<Vec<String>> {
        self.symbols().variants(written)
    }

    /// The functions of exactly this name in a symbol table.
    ///
    /// # Errors
    /// More functions have the name than can be probed.
    pub fn functions_exactly(&self, written: &str) -> Result<Vec<Symbol>, TooMany> {
        self.symbols().exactly(written)
    }

    /// The function around an address.
    pub fn spanning(&self, vaddr: u64) -> Option<Symbol> {
        self.symbols().spanning(vaddr, self.by_address())
    }

    /// The cold parts of the functions of these names (as in a symbol table): code that lies apart
    /// because it is seldom executed.
    pub fn cold_parts(&self, functions: &HashSet<&str>) -> Vec<Symbol> {
        self.symbols().cold_parts(functions)
    }

    /// The names of at most `limit` functions, demangled.
    pub fn some_functions(&self, limit: usize) -> Vec<String> {
        self.symbols().some(limit)
    }

    /// The code of a line. `file` is a path, or the end of a path, or empty for any file.
    ///
    /// # Errors
    /// The line has code in more places than can be probed.
    pub fn line(&self, file: &str, line: u32) -> Result<Line, TooMany> {
        let Some(lines) = self.lines() else {
            return Ok(Line::default());
        };
        let dwarf = lines.dwarf();
        let mut search = Search::default();
        let mut spots: BTreeMap<u64, (Run, Scope)> = BTreeMap::new();
        for unit in units::units(dwarf) {
            let unit = unit.unit_ref(dwarf);
            if !search.add(unit, file, line) {
                continue;
            }
            if search.runs.len() > rows::MAX_ROWS {
                return Err(TooMany);
            }
            // Several units may share a table, while only one of them describes the functions.
            let mut runs = std::mem::take(&mut search.runs);
            runs.sort_unstable_by_key(|run| run.start);
            let starts: Vec<u64> = runs.iter().map(|run| run.start).collect();
            for (run, scope) in runs.iter().zip(scopes::of(unit, &starts)) {
                let (known, around) = spots
                    .entry(run.start)
                    .or_insert_with(|| (*run, Scope::default()));
                known.end = known.end.max(run.end);
                known.hidden &= run.hidden;
                if around.chain.len() < scope.chain.len() {
                    *around = scope;
                }
            }
            if spots.len() > rows::MAX_ROWS {
                return Err(TooMany);
            }
        }
        let spots = spots.into_values().map(|(run, scope)| Spot {
            start: run.start,
            end: run.end,
            is_hidden: run.hidden,
            scope: scope.chain,
            function: scope.function.map(|range| (range.begin, range.end)),
        });
        Ok(Line {
            spots: spots.collect(),
            has_file: search.has_file,
            nearest: search.nearest,
        })
    }

    /// The paths of the source files, cut to their last `depth` components, made safe to show.
    pub fn files(&self, depth: usize) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        if let Some(lines) = self.lines() {
            let dwarf = lines.dwarf();
            for unit in units::units(dwarf) {
                rows::add_files(unit.unit_ref(dwarf), depth, MAX_FILES, &mut files);
            }
        }
        files
    }

    /// Whether the first parameter of the function that begins at `vaddr` is a pointer or a
    /// reference; `None` if DWARF does not have the function.
    pub fn first_is_pointer(&self, vaddr: u64) -> Option<bool> {
        parameters::first_is_pointer(self.lines()?.dwarf(), vaddr)
    }

    /// The argument register, from 1, in which a compiler's copy of a function gets the function's
    /// parameter `number`, from 1. `None` if the parameter is not passed in a register, or if DWARF
    /// does not tell.
    pub fn register(&self, vaddr: u64, number: u8) -> Option<u8> {
        parameters::register(self.located()?.dwarf(), vaddr, number)
    }

    /// Finds the places where functions of these names were inlined: calls `found` with the index
    /// of the name and the address ranges of the code. Reports no place at all if there is too much
    /// DWARF to read.
    pub fn inlined_places(&self, written: &[&str], found: impl FnMut(usize, &[Range])) {
        if let Some(lines) = self.lines() {
            places::of(lines.dwarf(), written, found);
        }
    }

    /// The line where an inlined function begins; 0 if DWARF does not tell the line, `None` if no
    /// such function exists.
    pub fn inlined(&self, written: &str) -> Option<u64> {
        inlined::line_of(self.lines()?.dwarf(), written)
    }
}
