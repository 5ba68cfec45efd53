//! Reads and writes the text forms of names, phases, marks and barriers.
//!
//! Names of C++ functions may contain `:`, `=`, `.` and more, so each form is split where only one
//! reading is possible.

use std::fmt;

use super::{Conceptual, Mark, SiteName, UserBarrier, Watched};
use sbt_engine::{
    pattern::{Code, Pattern},
    place::printable,
};

/// The number of arguments that a function gets in registers.
const ARGUMENTS: u8 = 6;

/// Reads `SITE=NAME`. A site may contain `=`, a name may not.
pub fn named(text: &str) -> Result<SiteName, String> {
    let (site, name) = text
        .rsplit_once('=')
        .ok_or("expected SITE=NAME, such as lu.c:120=factor")?;
    Ok(SiteName {
        site: site.parse()?,
        name: self::name(name)?,
    })
}

/// Checks a name given by the user.
pub fn name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("the name is empty".into());
    }
    let safe = printable(text);
    if safe != text {
        return Err(format!(
            "the name `{safe}` contains control characters; use letters, digits and the like"
        ));
    }
    Ok(safe)
}

/// Reads `NAME=SITE..SITE`. A site may contain `=`, a name may not.
pub fn phase(text: &str) -> Result<Conceptual, String> {
    let (name, sites) = text
        .split_once('=')
        .ok_or("expected NAME=SITE..SITE, such as solve=lu.c:10..lu.c:20")?;
    phase_of(name, sites)
}

/// Reads `SITE..SITE` for the phase `name`.
pub fn phase_of(name: &str, sites: &str) -> Result<Conceptual, String> {
    let name = self::name(name)?;
    let (from, to) = span(sites).ok_or_else(|| {
        format!("`{sites}` is not SITE..SITE, such as lu.c:10..lu.c:20 or init..solve")
    })?;
    Ok(Conceptual { name, from, to })
}

/// Splits at the last `..` that can stand between two sites: outside of
/// parentheses (`f(int, ...)`) and not part of a path (`a/../b.c`).
fn span(text: &str) -> Option<(Pattern, Pattern)> {
    let whole = |side: &str| {
        side.matches('(').count() == side.matches(')').count() && !side.ends_with(['/', '.'])
    };
    (0..text.len())
        .rev()
        .filter(|&at| text.as_bytes()[at..].starts_with(b".."))
        .map(|at| (&text[..at], &text[at + 2..]))
        .filter(|(from, to)| whole(from) && whole(to))
        .find_map(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)))
}

/// Reads `FUNCTION` or `FILE:LINE`, each optionally followed by `=NAME`.
pub fn mark(text: &str) -> Result<Mark, String> {
    let (at, name) = match split_name(text) {
        Some((at, name)) => (at, Some(self::name(name)?)),
        None => (text, None),
    };
    let at: Pattern = at.parse()?;
    if matches!(&at.code, Code::Line { file, .. } if file.is_empty()) {
        return Err(format!(
            "`{at}` names no file: write FILE:LINE, such as lu.c{at}"
        ));
    }
    Ok(Mark { name, at })
}

/// Reads `SITE` or `SITE=NAME`.
pub fn watched(text: &str) -> Result<Watched, String> {
    let (site, name) = match split_name(text) {
        Some((site, name)) => (site, Some(self::name(name)?)),
        None => (text, None),
    };
    Ok(Watched {
        site: site.parse()?,
        name,
    })
}

/// Splits at the last `=` that is not part of an operator's name (`operator==`).
fn split_name(text: &str) -> Option<(&str, &str)> {
    /// The signs between `operator` and a further `=` in an operator's name.
    const SIGNS: [&str; 15] = [
        "", "=", "!", "<", ">", "+", "-", "*", "/", "%", "^", "&", "|", "<<", ">>",
    ];
    let in_operator = |before: &str| {
        SIGNS.iter().any(|sign| {
            before
                .strip_suffix(sign)
                .is_some_and(|word| word.ends_with("operator"))
        })
    };
    text.rmatch_indices('=')
        .map(|(at, _)| (&text[..at], &text[at + 1..]))
        .find(|(before, _)| !in_operator(before))
}

/// Reads `SYMBOL[:ARG[:COUNT]]`, from the right, or `FILE:LINE`.
pub fn barrier(text: &str) -> Result<UserBarrier, String> {
    if let Ok(function) = text.parse::<Pattern>()
        && let Code::Line { file, .. } = &function.code
        && is_source(file)
    {
        return Ok(UserBarrier {
            function,
            object: None,
            count: None,
        });
    }
    let (symbol, numbers) = match trailing_number(text)? {
        None => (text, vec![]),
        Some((rest, last)) => match trailing_number(rest)? {
            None => (rest, vec![last]),
            Some((symbol, first)) => (symbol, vec![first, last]),
        },
    };
    let function: Pattern = symbol.parse()?;
    if matches!(function.code, Code::Line { .. }) {
        return Err(format!(
            "`{text}` is not SYMBOL[:ARG[:COUNT]], such as barrier or bar_wait:1:2"
        ));
    }
    let in_range = |what: &str, least: u8, number: &str| {
        number
            .parse()
            .ok()
            .filter(|number| (least..=ARGUMENTS).contains(number))
            .ok_or_else(|| {
                let none = if least == 0 { ", or 0 for none" } else { "" };
                format!("{what} is the number of an argument, 1 to {ARGUMENTS}{none}, not {number}")
            })
    };
    let object = numbers
        .first()
        .map(|number| in_range("ARG", 0, number))
        .transpose()?;
    let count = numbers
        .get(1)
        .map(|number| in_range("COUNT", 1, number))
        .transpose()?;
    if count.is_some() && object == count {
        return Err(format!(
            "in `{text}` one argument is both the barrier and the number of participants"
        ));
    }
    Ok(UserBarrier {
        function,
        object,
        count,
    })
}

/// Whether a name is that of a source file, and not of a function: the names of copies that
/// compilers make of functions end in a number or in `cold` behind their last dot.
fn is_source(file: &str) -> bool {
    let kind = file.rsplit_once('.').map_or("", |(_, kind)| kind);
    let is_word = kind
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'+');
    let begins = kind.starts_with(|first: char| first.is_ascii_alphabetic());
    is_word && begins && kind != "cold" && !file.contains(':')
}

/// The text before and the number after the last colon; `None` if there is no colon, or only colons
/// of a C++ name.
fn trailing_number(text: &str) -> Result<Option<(&str, &str)>, String> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match text.rsplit_once(':') {
        None => Ok(None),
        Some((rest, scoped)) if rest.ends_with(':') && !is_number(scoped) => Ok(None),
        // Parameters follow the last colon, as in `app::wait(std::pair<a::b, int>)`.
        Some((_, number)) if number.ends_with(')') => Ok(None),
        Some((rest, number)) if is_number(number) => {
            if rest.is_empty() || rest.ends_with(':') || number.is_empty() {
                return Err(format!(
                    "`{text}` is not SYMBOL[:ARG[:COUNT]], such as barrier or bar_wait:1:2"
                ));
            }
            Ok(Some((rest, number)))
        }
        Some((_, word)) => Err(format!(
            "`{word}` is not the number of an argument; expected SYMBOL[:ARG[:COUNT]]"
        )),
    }
}

impl fmt::Display for SiteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.site, self.name)
    }
}

impl fmt::Display for Conceptual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}..{}", self.name, self.from, self.to)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.at)?;
        match &self.name {
            Some(name) => write!(f, "={name}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for UserBarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.function)?;
        match (self.object, self.count) {
            (None, None) => Ok(()),
            (Some(object), None) => write!(f, ":{object}"),
            (object, Some(count)) => write!(f, ":{}:{count}", object.unwrap_or(0)),
        }
    }
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
