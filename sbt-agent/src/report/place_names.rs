//! How places are written in reports.

use crate::place::{Place, printable, short};

/// `function file:line` as far as it is known, else `binary+0xoffset`.
pub fn label(place: &Place, frame: usize) -> String {
    let address = || place.written_address(frame);
    let Some(frame) = place.frames.get(frame) else {
        return address();
    };
    let function = frame.function.as_deref().map(printable);
    let line = match (&frame.file, frame.line) {
        (Some(file), Some(line)) => Some(format!("{}:{line}", printable(short(file)))),
        _ => None,
    };
    match (function, line) {
        (Some(function), Some(line)) => format!("{function} {line}"),
        (Some(function), None) => format!("{function} ({})", address()),
        (None, Some(line)) => line,
        (None, None) => address(),
    }
}

/// The places of a site as the report names it: the frames of each that name
/// it, without repetition.
pub fn labels<'a>(places: impl Iterator<Item = &'a Place>, all: &[&Place]) -> Vec<String> {
    let mut labels: Vec<String> = places
        .map(|place| label(place, place.naming_frame(all)))
        .collect();
    labels.dedup();
    labels
}
