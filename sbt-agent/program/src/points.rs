//! All points of a file.

use crate::{
    elf::{self, ElfError},
    point::Point,
    runtimes,
};

/// The functions to probe that the file defines, in the order of their offsets.
///
/// Several names or versions at one address give one point. A file without section headers or with
/// all symbols stripped gives no points.
///
/// # Errors
/// The file is not a sound 64-bit x86 ELF file.
pub fn points(image: &[u8]) -> Result<Vec<Point>, ElfError> {
    Ok(Found::of(image)?.points)
}

/// The functions of a file that sbt looks for.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The functions to probe, in the order of their offsets.
    pub(super) points: Vec<Point>,
    /// The names of the C library's functions that begin with instructions on which no probe may
    /// stand.
    pub(super) unfit: Vec<&'static str>,
    /// Whether the file defines the barriers of an OpenMP runtime, of whatever version.
    pub(super) defines_openmp: bool,
}

impl Found {
    /// # Errors
    /// The file is not a sound 64-bit x86 ELF file.
    pub(super) fn of(image: &[u8]) -> Result<Self, ElfError> {
        let segments = elf::load_segments(image)?;
        let (mut points, unfit) = elf::of_c_library(image, &segments)?;
        let (of_runtimes, defines_openmp) = runtimes::points(image, &segments);
        points.extend(of_runtimes);
        points.sort_by_key(|point| (point.entry_offset, point.function));
        Ok(Self {
            points,
            unfit,
            defines_openmp,
        })
    }
}
