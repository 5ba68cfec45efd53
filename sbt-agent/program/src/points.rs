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
    Ok(points_and_unfit(image)?.0)
}

/// The functions to probe as from [`points`], and the names of the C library's functions that begin
/// with instructions on which no probe may stand.
///
/// # Errors
/// The file is not a sound 64-bit x86 ELF file.
pub fn points_and_unfit(image: &[u8]) -> Result<(Vec<Point>, Vec<&'static str>), ElfError> {
    let segments = elf::load_segments(image)?;
    let (mut points, unfit) = elf::of_c_library(image, &segments)?;
    points.extend(runtimes::points(image, &segments));
    points.sort_by_key(|point| (point.entry_offset, point.function));
    Ok((points, unfit))
}
