//! Names as people read them.

use std::fmt::{self, Write};

use cpp_demangle::DemangleOptions;

/// Longer names are cut, bytes. A mangled name of this length can stand for
/// gigabytes, and demangling stops at it too.
const MAX_NAME: usize = 4096;

/// The name in a symbol table, up to its end or its version.
pub(super) fn of_symbol(text: &[u8]) -> String {
    let text = &text[..text.len().min(MAX_NAME)];
    let end = text.iter().position(|&byte| byte == 0 || byte == b'@');
    of_function(&String::from_utf8_lossy(&text[..end.unwrap_or(text.len())]))
}

/// A function's name, demangled if it is mangled by Rust or C++.
pub(super) fn of_function(name: &str) -> String {
    clean(&demangle(name).unwrap_or_else(|| name.to_owned()))
}

/// Text for a terminal: short enough, without control characters.
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
    // Rust first: its older mangling is a valid one of C++ with a hash.
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
    fn names_that_explode() {
        // Each level stands for two of the one before.
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
