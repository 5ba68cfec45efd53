//! From names and lines to addresses.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use gimli::Range;

use super::rows::{self, Run, Search};
use super::scopes::{self, Scope};
use super::symbols::{Symbol, TooMany};
use super::{DebugInfo, inlined, parameters, places, units};

/// How many source files are named to somebody who has mistaken one.
const MAX_FILES: usize = 1 << 16;

/// Some of the code of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Its first address.
    pub start: u64,
    /// One past the last of what follows without another line in between.
    pub end: u64,
    /// Whether another file's line has all that begins there: then it is not
    /// certain that this line belongs there.
    pub is_hidden: bool,
    /// What tells the function that it is in from others, inlined functions
    /// and each copy of them included.
    pub scope: Vec<(usize, usize)>,
    /// First address of the function around it, which is not inlined, and one
    /// past the last: of that part of it that DWARF has here.
    pub function: Option<(u64, u64)>,
}

/// What is known of a source line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its code, by address.
    pub spots: Vec<Spot>,
    /// Whether there is any such file.
    pub has_file: bool,
    /// The nearest lines before and after it that have code.
    pub nearest: (Option<u32>, Option<u32>),
}

impl DebugInfo {
    /// The functions that a name may mean, demangled or not, and the copies
    /// that a compiler has made of them, by their addresses.
    ///
    /// # Errors
    /// There are more than are worth anything.
    pub fn functions(&self, written: &str) -> Result<Vec<Symbol>, TooMany> {
        self.symbols().functions(written)
    }

    /// Of a function that is chosen among variants when the program starts,
    /// their names as far as they are known; `None` if it is no such function.
    pub fn variants(&self, written: &str) -> Option<Vec<String>> {
        self.symbols().variants(written)
    }

    /// Those of exactly this name in a symbol table.
    ///
    /// # Errors
    /// As above.
    pub fn functions_exactly(&self, written: &str) -> Result<Vec<Symbol>, TooMany> {
        self.symbols().exactly(written)
    }

    /// The function around an address.
    pub fn spanning(&self, vaddr: u64) -> Option<Symbol> {
        self.symbols().spanning(vaddr, self.by_address())
    }

    /// The parts of the functions of these names, as in a symbol table, that
    /// lie apart because they are seldom executed.
    pub fn cold_parts(&self, functions: &HashSet<&str>) -> Vec<Symbol> {
        self.symbols().cold_parts(functions)
    }

    /// At most so many functions' names, demangled.
    pub fn some_functions(&self, limit: usize) -> Vec<String> {
        self.symbols().some(limit)
    }

    /// Where the code of a line is. `file` is a path, or the end of one, or
    /// empty for any.
    ///
    /// # Errors
    /// In more places than are worth anything.
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
            // Several units may share a table, and one of them the functions.
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

    /// The source files' names, with as many folders before them as make
    /// `depth` components; so that they can be shown to somebody.
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

    /// Whether the first parameter of the function that begins at `vaddr` is a
    /// pointer or a reference; `None` if DWARF does not have the function.
    pub fn first_is_pointer(&self, vaddr: u64) -> Option<bool> {
        parameters::first_is_pointer(self.lines()?.dwarf(), vaddr)
    }

    /// In which argument register, from 1, a compiler's copy of a function
    /// gets what is the function's parameter of the given number, from 1.
    /// `None` if in none, or DWARF does not tell.
    pub fn register(&self, vaddr: u64, number: u8) -> Option<u8> {
        parameters::register(self.located()?.dwarf(), vaddr, number)
    }

    /// The places where functions of these names were inlined: calls `found`
    /// with the index of the name and the code of the place, by its addresses.
    /// For none where there is too much to read.
    pub fn inlined_places(&self, written: &[&str], found: impl FnMut(usize, &[Range])) {
        if let Some(lines) = self.lines() {
            places::of(lines.dwarf(), written, found);
        }
    }

    /// The line where a function begins that was inlined; 0 if DWARF does not
    /// tell it, `None` if there is no such function.
    pub fn inlined(&self, written: &str) -> Option<u64> {
        inlined::line_of(self.lines()?.dwarf(), written)
    }
}
