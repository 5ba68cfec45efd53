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
    has(text, PLACE)
}

/// Whether a text contains another.
pub fn has(text: &OsStr, place: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), place.as_bytes()).is_some()
}

/// The text with each value in all places of its placeholder. What is put in is not replaced again.
/// `places`: placeholders, each in braces, and their values.
pub fn put(text: &OsStr, places: &[(String, String)]) -> OsString {
    let mut rest = text.as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    while let Some(at) = memchr::memchr(b'{', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let here = places
            .iter()
            .find(|(place, _)| rest.starts_with(place.as_bytes()));
        let (put_in, length) = here.map_or((&rest[..1], 1), |(place, value)| {
            (value.as_bytes(), place.len())
        });
        out.extend_from_slice(put_in);
        rest = &rest[length..];
    }
    out.extend_from_slice(rest);
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
        let places = [(PLACE.to_owned(), "16".to_owned())];
        let put_into = |text: &[u8]| put(OsStr::from_bytes(text), &places).into_vec();
        assert_eq!(put_into(b"-t{n}"), b"-t16");
        assert_eq!(put_into(b"{n}{n}x{n"), b"1616x{n");
        assert_eq!(put_into(b"\xff{n}\xfe"), b"\xff16\xfe");
        assert_eq!(put_into(b"{{n}}"), b"{16}");
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
