//! The places that a user asked to probe, and where they are in a file.

mod exits;
mod find;
mod in_file;
mod inlined;
mod lines;
mod missing;
mod parts;

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use super::{
    debuginfo::DebugInfo,
    elf::{self, Code, Imports, Segment, code_at},
    files::ProbedFile,
};
use crate::{
    files::Offer,
    point::{Function, Point},
};
use sbt_engine::{
    pattern::Pattern,
    place::{printable, short},
};

/// The purpose of a place that a user asked to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A place whose passages are reported: the mark of this number.
    Mark(u8),
    /// A function that is a barrier.
    Barrier {
        /// The number of the argument that points to the barrier object, 1 to 6; 0 if none does;
        /// `None` to find that out.
        object: Option<u8>,
        /// The number of the argument that is the number of participants, 1 to 6.
        count: Option<u8>,
    },
}

/// A place, and its purpose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wish {
    /// The place.
    pub at: Pattern,
    /// The purpose of the place.
    pub purpose: Purpose,
}

impl Wish {
    /// Whether the place may be in this file. The dynamic linker has its own copies of some
    /// functions of the C library, which no user means.
    fn concerns(&self, file: &ProbedFile) -> bool {
        match &self.at.binary {
            Some(binary) => short(binary) == short(&file.shown.to_string_lossy()),
            None => !file.is_linker,
        }
    }
}

/// All places that a user asked to probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted(pub Vec<Wish>);

impl Wanted {
    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The offers of a file for each wish, in the order of the wishes.
    pub(super) fn offers(&self, file: &ProbedFile, binary: &Binary<'_>) -> Vec<Offer> {
        self.0
            .iter()
            .map(|wish| {
                if wish.concerns(file) {
                    binary.offer(wish)
                } else {
                    Offer::Nothing
                }
            })
            .collect()
    }

    /// For each wish, at how many places of a file the function is inlined. `offers`: the file's
    /// offers for the wishes.
    pub(super) fn inlined(&self, binary: &Binary<'_>, offers: &[Offer]) -> Vec<usize> {
        binary.inlined(&self.0, offers)
    }

    /// Whether a file may have any of the places.
    pub(super) fn concerns(&self, file: &ProbedFile) -> bool {
        self.0.iter().any(|wish| wish.concerns(file))
    }

    /// For each wish that no file can fulfil one line, which says why, and what may have been
    /// meant. `files` have been searched for these very wishes ([`ProbedFile::look_for`]), the
    /// program first. A wish for a file that is not among them does not count as missing, because
    /// the file may come later.
    pub fn missing(&self, files: &[Arc<ProbedFile>]) -> Vec<String> {
        self.0
            .iter()
            .enumerate()
            .filter_map(|(index, wish)| missing::explain(index, wish, files))
            .map(|line| printable(&line))
            .collect()
    }
}

impl Wanted {
    /// A line for each wish that can be fulfilled only in part: where the function is inlined, and
    /// in files that refuse the wish, nothing is counted.
    pub fn notes(&self, files: &[&ProbedFile]) -> Vec<String> {
        let notes = self.0.iter().enumerate().filter_map(|(index, wish)| {
            let has_points =
                |file: &&&ProbedFile| matches!(file.offers.get(index), Some(Offer::Points(_)));
            files.iter().find(has_points)?;
            let inlined = files.iter().filter_map(|file| file.inlined.get(index));
            let inlined = match inlined.sum() {
                0 => None,
                1 => Some("is also inlined at 1 place, where it is not counted".to_owned()),
                places => Some(format!(
                    "is also inlined at {places} places, where it is not counted"
                )),
            };
            let refused = files.iter().find_map(|file| match file.offers.get(index)? {
                Offer::Refused(reason) => Some(format!(
                    "is not counted in {}: {reason}",
                    short(&file.shown.to_string_lossy())
                )),
                _ => None,
            });
            let all: Vec<_> = inlined.into_iter().chain(refused).collect();
            let option = match wish.purpose {
                Purpose::Mark(_) => "--mark",
                Purpose::Barrier { .. } => "--barrier",
            };
            let Wish { at, .. } = wish;
            let name = Pattern {
                binary: None,
                code: at.code.clone(),
            };
            (!all.is_empty()).then(|| format!("{option} {at}: {name} {}", all.join("; it ")))
        });
        notes.map(|note| printable(&note)).collect()
    }
}

/// A file that is searched.
pub(crate) struct Binary<'a> {
    /// The file's path as the target sees it.
    shown: &'a Path,
    image: &'a [u8],
    segments: Vec<Segment>,
    debug: &'a DebugInfo,
    imports: OnceCell<Imports>,
}

impl<'a> Binary<'a> {
    /// `None` if the image is not a 64-bit x86 ELF file. `shown`: the file's path as the target
    /// sees it.
    pub(crate) fn new(shown: &'a Path, image: &'a [u8], debug: &'a DebugInfo) -> Option<Self> {
        Some(Self {
            shown,
            image,
            segments: elf::load_segments(image).ok()?,
            debug,
            imports: OnceCell::new(),
        })
    }

    fn name(&self) -> String {
        short(&self.shown.to_string_lossy()).to_owned()
    }

    fn code(&self, vaddr: u64, size: u64) -> Option<Code<'a>> {
        code_at(self.image, &self.segments, vaddr, size)
    }

    /// The function of another library that the code at an address goes on to: see [`Imports::at`].
    fn imported_at(&self, vaddr: u64) -> Option<String> {
        let imports = self.imports.get_or_init(|| Imports::of(self.image));
        imports.at(self.image, &self.segments, vaddr)
    }

    /// The point of an instruction inside of a function.
    fn inside(function: Function, symbol: &str, offset: u64, emulated: bool) -> Point {
        Point {
            function,
            symbol: symbol.to_owned(),
            entry_offset: offset,
            stack_moved: 0,
            return_offset: offset,
            entry_emulated: emulated,
            layout: sbt_common::layout::OPAQUE,
        }
    }
}

#[cfg(test)]
mod tests;
