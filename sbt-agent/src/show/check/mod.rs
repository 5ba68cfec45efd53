//! What came of rules, for people and for CI services.

pub mod annotate;
pub mod junit;
pub mod text;

#[cfg(test)]
mod tests;

use sbt_engine::place::printable;

/// A sentence or name that is safe wherever it is written: what the target calls its
/// functions may hold anything.
fn safe(text: &str) -> String {
    // These are not characters, and not allowed in XML.
    printable(text).replace(['\u{fffe}', '\u{ffff}'], "?")
}
