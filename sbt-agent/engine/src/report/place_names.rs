//! The notation of places in reports.

use crate::place::{Place, printable, short, shortened};

/// `function file:line` as far as known, else `binary+0xoffset`. Long names of functions are
/// shortened.
pub fn label(place: &Place, frame: usize) -> String {
    let address = || place.written_address(frame);
    let Some(frame) = place.frames.get(frame) else {
        return address();
    };
    let function = frame.function.as_deref();
    let function = function.map(|name| printable(&shortened(name)));
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

/// The names of a site's places, without repetition: for each place the frame that names it, and
/// its caller if only the caller tells it apart from other places.
pub fn labels<'a>(places: impl Iterator<Item = &'a Place>, all: &[&Place]) -> Vec<String> {
    let (own, runtime): (Vec<_>, Vec<_>) = places.partition(|place| !place.of_runtime);
    let mine = if own.is_empty() { runtime } else { own };
    let others = others(&mine, all);
    let mut labels: Vec<String> = mine.iter().map(|place| name(place, &others)).collect();
    // In one order, whoever came first to the barrier.
    labels.sort();
    labels.dedup();
    labels
}

/// The name of a place: the frame that names it, and its callers if needed.
pub fn name(place: &Place, others: &[&Place]) -> String {
    let frame = place.naming_frame(others);
    let label = label(place, frame);
    let around = || Some(place.written_at(place.named_around(frame)?));
    match place.told_apart_by(others).or_else(around) {
        Some(caller) => format!("{label} from {caller}"),
        None => label,
    }
}

/// The places of other sites. Places of the same site need not be told apart: its threads come from
/// different places to the same barrier.
pub fn others<'a>(mine: &[&Place], all: &[&'a Place]) -> Vec<&'a Place> {
    let is_mine = |other: &Place| mine.iter().any(|place| std::ptr::eq(*place, other));
    all.iter()
        .filter(|other| !is_mine(other))
        .copied()
        .collect()
}
