//! Outcomes of rules, for people and for CI services.

pub mod annotate;
pub mod junit;
pub mod text;

#[cfg(test)]
mod tests;

use sbt_engine::place::printable;

/// A sentence or name that is safe in every output format: function names from the program may
/// contain anything.
fn safe(text: &str) -> String {
    // These code points are noncharacters, which XML does not allow.
    printable(text).replace(['\u{fffe}', '\u{ffff}'], "?")
}
