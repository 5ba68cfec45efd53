//! Texts of the target in a form that is short and safe to print.

use std::path::Path;

/// The last component of a path; the path itself if it has none.
pub fn short(path: &str) -> &str {
    Path::new(path)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or(path)
}

/// Text from the target made safe to print: control characters, and those that end a line
/// or change the direction of writing, become `?`.
pub fn printable(text: &str) -> String {
    let safe = |c| if is_printable(c) { c } else { '?' };
    text.chars().map(safe).collect()
}

/// Whether [`printable`] keeps a character.
pub fn is_printable(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !turns
}
