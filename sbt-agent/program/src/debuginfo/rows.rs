//! Where the code of a source line is: the line tables, read from line to address.

use std::collections::BTreeSet;

use gimli::{LineProgramHeader, UnitRef};

use super::units::Bytes;
use sbt_engine::pattern::is_file;

/// The most rows of one line that are looked at.
pub(super) const MAX_ROWS: usize = 1 << 14;

/// The most rows and bytes of paths that are read for one question: some seconds.
const MAX_READ: usize = 1 << 28;

/// The most bytes of a part of a path.
const MAX_PATH: usize = 4096;

/// The beginning of code that belongs to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The first address of the code.
    pub(super) start: u64,
    /// One past the last address of the code that follows without another line in between.
    pub(super) end: u64,
    /// Whether a line of another file claims all code that begins there: then it is not certain
    /// that the code belongs to this line.
    pub(super) hidden: bool,
}

/// The rows of the line tables for one source line.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Where statements of the line begin.
    pub(super) runs: Vec<Run>,
    /// Whether the source file is known.
    pub(super) has_file: bool,
    /// The nearest lines before and after the line that have code.
    pub(super) nearest: (Option<u32>, Option<u32>),
    read: usize,
}

impl Search {
    /// Adds the rows of a unit's table. True if the table has code of the line.
    pub(super) fn add(&mut self, unit: UnitRef<'_, Bytes>, file: &str, line: u32) -> bool {
        let Some(program) = unit.line_program.clone() else {
            return false;
        };
        let mut path = String::new();
        let mut is_named = |index| {
            let is_path = render(unit, program.header(), index, &mut path).is_some();
            self.read += path.len();
            is_path && self.read <= MAX_READ && is_file(&path, file)
        };
        let is_meant: Vec<bool> = (0..)
            .map_while(|index| match (program.header().file(index), index) {
                // Before version 5 files are counted from 1.
                (None, 0) => Some(false),
                (None, _) => None,
                (Some(_), _) => Some(file.is_empty() || is_named(index)),
            })
            .collect();
        if !is_meant.contains(&true) {
            return false;
        }
        self.has_file = true;
        let known = self.runs.len();
        let mut rows = program.rows();
        let mut run: Option<Run> = None;
        let mut is_first = true;
        let mut is_nowhere = false;
        while let Ok(Some((_, row))) = rows.next_row() {
            self.read += 1;
            if self.read > MAX_READ || self.runs.len() > MAX_ROWS {
                break;
            }
            // Code that the linker has thrown away stays at address 0.
            is_nowhere = if is_first {
                row.address() == 0
            } else {
                is_nowhere
            };
            is_first = row.end_sequence();
            if is_nowhere {
                continue;
            }
            let is_here = !row.end_sequence()
                && usize::try_from(row.file_index())
                    .is_ok_and(|index| is_meant.get(index) == Some(&true));
            let number = row.line().and_then(|line| u32::try_from(line.get()).ok());
            if is_here && number == Some(line) {
                if run.is_none() && row.is_stmt() {
                    run = Some(Run {
                        start: row.address(),
                        end: row.address(),
                        hidden: false,
                    });
                }
                continue;
            }
            if let Some(mut run) = run.take() {
                run.end = row.address();
                self.runs.push(run);
            }
            if let Some(last) = self.runs.last_mut()
                && (last.start, last.end) == (row.address(), row.address())
            {
                last.hidden |= !is_here && !row.end_sequence();
            }
            if let (true, true, Some(number)) = (is_here, row.is_stmt(), number) {
                self.see(number, line);
            }
        }
        self.runs.len() > known
    }

    fn see(&mut self, number: u32, line: u32) {
        let (before, after) = &mut self.nearest;
        if number < line {
            *before = (*before).max(Some(number));
        } else {
            *after = Some(after.map_or(number, |after| after.min(number)));
        }
    }
}

/// Adds the last `depth` components of the paths of a unit's source files, until `files` has
/// `limit` paths.
pub(super) fn add_files(
    unit: UnitRef<'_, Bytes>,
    depth: usize,
    limit: usize,
    files: &mut BTreeSet<String>,
) {
    let Some(program) = &unit.line_program else {
        return;
    };
    let header = program.header();
    let mut path = String::new();
    for index in 0..=header.file_names().len() as u64 {
        if files.len() >= limit {
            return;
        }
        if render(unit, header, index, &mut path).is_some() {
            let start = path.rmatch_indices('/').nth(depth.saturating_sub(1));
            files.insert(super::names::clean(
                &path[start.map_or(0, |(slash, _)| slash + 1)..],
            ));
        }
    }
}

/// The path of a file in a table, as [`super::Frame::file`] shows it.
fn render(
    unit: UnitRef<'_, Bytes>,
    header: &LineProgramHeader<Bytes>,
    index: u64,
    path: &mut String,
) -> Option<()> {
    let file = header.file(index)?;
    path.clear();
    if let Some(folder) = unit.comp_dir {
        push(path, folder);
    }
    // Folder 0 is the unit's own.
    if file.directory_index() != 0
        && let Some(folder) = file.directory(header)
    {
        push(path, unit.attr_string(folder).ok()?);
    }
    push(path, unit.attr_string(file.path_name()).ok()?);
    Some(())
}

fn push(path: &mut String, part: Bytes) {
    let part = part.slice();
    let part = String::from_utf8_lossy(&part[..part.len().min(MAX_PATH)]);
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(&part);
}
