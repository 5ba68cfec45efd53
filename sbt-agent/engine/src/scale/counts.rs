//! Numbers of threads as a user types them, and their insertion into a command.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
};

/// The placeholder for the number of threads.
pub const PLACE: &str = "{n}";

/// The largest number of threads.
const MOST: u32 = 4096;

/// Reads a list such as `1,2,4,8` and sorts it.
///
/// # Errors
///
/// The text is no such list, or a number occurs twice.
pub fn list(text: &str) -> Result<Counts, String> {
    let number = |part: &str| -> Option<u32> {
        let number = part.trim().parse().ok()?;
        (1..=MOST).contains(&number).then_some(number)
    };
    let numbers: Option<Vec<u32>> = text.split(',').map(number).collect();
    let mut numbers = numbers
        .ok_or_else(|| format!("expected numbers of threads, 1 to {MOST}, such as 1,2,4,8"))?;
    numbers.sort_unstable();
    let mut pairs = numbers.iter().zip(numbers.iter().skip(1));
    if let Some((twice, _)) = pairs.find(|(one, next)| one == next) {
        return Err(format!(
            "{twice} is given twice; --repeat runs each number of threads several times"
        ));
    }
    Ok(Counts(numbers))
}

/// Numbers of threads, each once, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts(pub Vec<u32>);

/// A variable of the program's environment, `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The name of the variable.
    pub name: String,
    /// The value of the variable, with or without [`PLACE`].
    pub value: String,
}

/// Reads `NAME=VALUE`.
///
/// # Errors
///
/// The text does not have this form.
pub fn variable(text: &str) -> Result<Variable, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.contains('\0') => Ok(Variable {
            name: name.into(),
            value: value.into(),
        }),
        _ => Err("expected NAME=VALUE, such as MY_THREADS={n}".into()),
    }
}

/// `1 thread`, `2 threads`.
pub fn threads_of(number: u32) -> String {
    format!("{number} thread{}", if number == 1 { "" } else { "s" })
}

/// Whether a text contains [`PLACE`].
pub fn has_place(text: &OsStr) -> bool {
    memchr::memmem::find(text.as_bytes(), PLACE.as_bytes()).is_some()
}

/// The text with the number in all places of [`PLACE`].
pub fn put(text: &OsStr, threads: u32) -> OsString {
    let bytes = text.as_bytes();
    let number = threads.to_string();
    let mut out = Vec::with_capacity(bytes.len());
    let mut done = 0;
    for at in memchr::memmem::find_iter(bytes, PLACE.as_bytes()) {
        out.extend_from_slice(&bytes[done..at]);
        out.extend_from_slice(number.as_bytes());
        done = at + PLACE.len();
    }
    out.extend_from_slice(&bytes[done..]);
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_without_repetition() {
        assert_eq!(list("8, 1,2"), Ok(Counts(vec![1, 2, 8])));
        assert_eq!(list("3"), Ok(Counts(vec![3])));
        for wrong in ["", "0", "1,,2", "-1", "1-4", "5000", "two"] {
            assert!(list(wrong).unwrap_err().contains("1,2,4,8"), "{wrong}");
        }
        assert!(list("2,2").unwrap_err().contains("twice"));
    }

    #[test]
    fn numbers_are_put_everywhere_and_nothing_else_is_touched() {
        let put_into = |text: &[u8]| put(OsStr::from_bytes(text), 16).into_vec();
        assert_eq!(put_into(b"-t{n}"), b"-t16");
        assert_eq!(put_into(b"{n}{n}x{n"), b"1616x{n");
        assert_eq!(put_into(b"\xff{n}\xfe"), b"\xff16\xfe");
        assert_eq!(put_into(b""), b"");
        assert!(has_place(OsStr::new("a{n}")) && !has_place(OsStr::new("{N}")));
    }

    #[test]
    fn variables_have_a_name() {
        assert_eq!(variable("A={n}=").unwrap().value, "{n}=");
        for wrong in ["A", "=1", ""] {
            assert!(variable(wrong).unwrap_err().contains("NAME=VALUE"));
        }
    }
}
