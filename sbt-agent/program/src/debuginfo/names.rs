//! Names as people read them.

use std::fmt::{self, Write};

use cpp_demangle::DemangleOptions;

/// The most bytes of a name; longer names are cut. A mangled name of this length can stand for
/// gigabytes, so demangling stops at this length too.
const MAX_NAME: usize = 4096;

/// The name in a symbol table, up to its end or its version.
pub(super) fn raw(text: &[u8]) -> &[u8] {
    let text = &text[..text.len().min(MAX_NAME)];
    let end = text.iter().position(|&byte| byte == 0 || byte == b'@');
    &text[..end.unwrap_or(text.len())]
}

/// The name in a symbol table, demangled and without its version.
pub(super) fn of_symbol(text: &[u8]) -> String {
    of_function(&String::from_utf8_lossy(raw(text)))
}

/// Whether a symbol's name can be demangled.
pub(super) fn is_mangled(name: &[u8]) -> bool {
    name.starts_with(b"_Z") || name.starts_with(b"_R")
}

/// The identifier that ends a function's name, without scopes, arguments and operators: every
/// mangled form of the name contains it. `None` where a mangled form may lack it.
pub(super) fn identifier(name: &str) -> Option<&str> {
    // Other letters may be encoded, and so may the numbers of closures.
    if !name.is_ascii() || name.contains('#') {
        return None;
    }
    let bare = name.split_once('<').map_or(name, |(bare, _)| bare);
    // Behind the arguments of a class template there is more of the name.
    if bare.len() < name.len() && !name.ends_with('>') {
        return None;
    }
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let last = bare.trim_end_matches(|letter| !is_part(letter));
    let start = last.rfind(|letter| !is_part(letter)).map_or(0, |at| at + 1);
    let last = &last[start..];
    // Operators and the most common classes have abbreviations of a letter or two.
    let short = [
        "operator",
        "allocator",
        "string",
        "istream",
        "ostream",
        "iostream",
    ];
    let is_shortened = name.contains("operator") || short.iter().any(|short| last.ends_with(short));
    (!last.is_empty() && !is_shortened).then_some(last)
}

/// The name of a function or variable, demangled if Rust or C++ has mangled it.
pub(crate) fn of_function(name: &str) -> String {
    clean(&demangle(name).unwrap_or_else(|| name.to_owned()))
}

/// Text for a terminal: cut to [`MAX_NAME`] characters, control characters replaced.
pub(super) fn clean(text: &str) -> String {
    let printable = |letter: char| match letter {
        letter if letter.is_control() => char::REPLACEMENT_CHARACTER,
        letter => letter,
    };
    text.chars().take(MAX_NAME).map(printable).collect()
}

fn demangle(name: &str) -> Option<String> {
    if name.len() > MAX_NAME {
        return None;
    }
    let mut text = Limited(String::new());
    // Rust first: its older mangling is valid C++ mangling with a hash.
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        write!(text, "{rust:#}").ok()?;
    } else if name.starts_with("_Z") {
        let options = DemangleOptions::new().no_params().no_return_type();
        let symbol = cpp_demangle::Symbol::new(name).ok()?;
        symbol.structured_demangle(&mut text, &options).ok()?;
    }
    (!text.0.is_empty()).then_some(text.0)
}

/// Text that does not grow beyond [`MAX_NAME`].
struct Limited(String);

impl Write for Limited {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.0.len() + more.len() > MAX_NAME {
            return Err(fmt::Error);
        }
        self.0.push_str(more);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages() {
        for (mangled, name) in [
            ("main", "main"),
            ("main._omp_fn.0", "main._omp_fn.0"),
            ("pthread_barrier_wait@@GLIBC_2.34\0", "pthread_barrier_wait"),
            (
                "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
                "core::fmt::Write::write_fmt",
            ),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_RNvMCs12jkoC9p3aE_1pNtB2_3Foo4step", "<p::Foo>::step"),
            ("_ZN5Space4stepEi", "Space::step"),
            ("_Z3addIiET_S0_S0_", "add<int>"),
            ("_Z", "_Z"),
            ("_ZN", "_ZN"),
            ("\u{1b}[31mred", "\u{fffd}[31mred"),
            ("", ""),
        ] {
            assert_eq!(of_symbol(mangled.as_bytes()), name);
        }
        assert_eq!(of_symbol(b"\xff\n"), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn identifiers_that_mangled_names_contain() {
        for (name, expected) in [
            ("wait", Some("wait")),
            ("app::Team::wait", Some("wait")),
            ("app::Team::~Team", Some("Team")),
            ("add<int>", Some("add")),
            ("Team<int>::wait", None),
            ("Space::operator+", None),
            ("std::string::string", None),
            ("über", None),
            ("core::ops::{{closure}}", Some("closure")),
            ("Foo::step::{closure#1}", None),
            ("<rv::Foo>::step", None),
            ("rv::shared::<u8>", Some("shared")),
            ("::", None),
            ("", None),
        ] {
            assert_eq!(identifier(name), expected, "{name}");
        }
    }

    #[test]
    fn names_that_explode() {
        // Each level stands for two of the level before.
        let mut name = "_Z1fI1aIiiE".to_owned();
        for level in b'0'..=b'9' {
            let twice = format!("S{0}_S{0}_", char::from(level));
            let _ = write!(name, "1bI{twice}E");
        }
        name.push('E');
        assert!(of_symbol(name.as_bytes()).len() <= 4 * MAX_NAME);
        let deep = format!("_Z1f{}i", "P".repeat(100_000));
        assert_eq!(of_symbol(deep.as_bytes()).len(), MAX_NAME);
        let deep = format!("_Z1f{}i", "P".repeat(4000));
        assert!(!of_symbol(deep.as_bytes()).is_empty());
    }
}
