//! Patterns with which a user names a place in the program: `file.c:120`, `120` for that line of
//! any file, `function`, `binary!function+0x1f`, or a name given to a site.

use std::{fmt, str::FromStr};

use crate::place::{CallView, Frame, Place, short};

/// The code that a pattern names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// A line of a source file.
    Line {
        /// The file's name or the end of its path, as written; empty for any file.
        file: String,
        /// The line number, from 1.
        line: u32,
    },
    /// The name of a function, demangled or not, or the name of a site.
    Name(String),
    /// The call at an address.
    Offset {
        /// The function from whose start the offset counts; `None` if the offset is in the file's
        /// own numbering, as `nm` prints it.
        function: Option<String>,
        /// The offset in bytes.
        offset: u64,
    },
}

/// A place as a user writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// File name of the program or library; `None` for all.
    pub binary: Option<String>,
    /// The code in that file.
    pub code: Code,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (binary, rest) = match text.split_once('!') {
            // C++ has functions named `operator!` and `operator!=`.
            Some((name, _)) if name.ends_with("operator") => (None, text),
            Some((binary, rest)) if !binary.is_empty() => (Some(binary.to_owned()), rest),
            Some(_) => return Err(format!("no program or library before `!` in `{text}`")),
            None => (None, text),
        };
        if rest.is_empty() {
            return Err("expected file.c:120, a function, binary!function+0x1f or a name".into());
        }
        Ok(Self {
            binary,
            code: code(rest)?,
        })
    }
}

fn code(text: &str) -> Result<Code, String> {
    let starts_with_digit = |line: &str| line.starts_with(|c: char| c.is_ascii_digit());
    // The last colon counts: C++ names contain many. A number alone is a line.
    let line = match text.rsplit_once(':') {
        Some((file, line)) if !file.ends_with(':') && starts_with_digit(line) => Some((file, line)),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => Some(("", text)),
        _ => None,
    };
    if let Some((file, line)) = line {
        return match line.parse() {
            Ok(line) if line > 0 => Ok(Code::Line {
                file: file.to_owned(),
                line,
            }),
            _ => Err(format!("`{line}` is not the number of a line in `{text}`")),
        };
    }
    let hex = |digits: &str| u64::from_str_radix(digits, 16);
    if let Some((function, digits)) = text.rsplit_once("+0x") {
        let offset = hex(digits).map_err(|_| format!("`0x{digits}` is not a number"))?;
        let function = (!function.is_empty()).then(|| function.to_owned());
        return Ok(Code::Offset { function, offset });
    }
    if let Some(digits) = text.strip_prefix("0x") {
        let offset = hex(digits).map_err(|_| format!("`{text}` is not a number"))?;
        let function = None;
        return Ok(Code::Offset { function, offset });
    }
    Ok(Code::Name(text.to_owned()))
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(binary) = &self.binary {
            write!(f, "{binary}!")?;
        }
        match &self.code {
            Code::Line { file, line } => write!(f, "{file}:{line}"),
            Code::Name(name) => f.write_str(name),
            Code::Offset { function, offset } => match function {
                Some(function) => write!(f, "{function}+{offset:#x}"),
                None => write!(f, "{offset:#x}"),
            },
        }
    }
}

/// Whether `path` is the written one, or ends with it: `lu.c` and `src/lu.c` both match
/// `/home/me/src/lu.c`.
pub fn is_file(path: &str, written: &str) -> bool {
    path.strip_suffix(written).is_some_and(|folder| {
        folder.is_empty() || folder.ends_with('/') || written.starts_with('/')
    })
}

/// Whether a function's name matches the written one: with all scopes or without outer ones
/// (`Team::wait` matches `app::Team::wait`), and with or without template arguments. A method in
/// Rust also matches with its type or its trait as the scope: see [`method`].
pub fn is_function(name: &str, written: &str) -> bool {
    let ends = |name: &str| {
        name.strip_suffix(written)
            .is_some_and(|scope| scope.is_empty() || scope.ends_with("::"))
    };
    let is_it = |name: &str| {
        ends(name) || name.contains('<') && !written.contains('<') && ends(&bare(name))
    };
    is_it(name) || method(name).is_some_and(|forms| forms.iter().any(|form| is_it(form)))
}

/// For Rust's names of methods, `<Type>::name` and `<Type as Trait>::name`, the forms `Type::name`
/// and `Trait::name`; `None` for other functions.
fn method(name: &str) -> Option<Vec<String>> {
    let (end, ..) = depths(name).find(|(.., depth)| *depth == 0)?;
    let (scope, rest) = name.split_at(end);
    let scope = scope.strip_prefix('<')?.strip_suffix('>')?;
    let between = " as ";
    let of_trait = depths(scope)
        .find(|(at, _, depth)| *depth == 0 && scope[*at..].starts_with(between))
        .map(|(at, ..)| at);
    let scopes = match of_trait {
        Some(at) => vec![&scope[..at], &scope[at + between.len()..]],
        None => vec![scope],
    };
    Some(
        scopes
            .iter()
            .map(|scope| format!("{scope}{rest}"))
            .collect(),
    )
}

/// A function's name without its template arguments, in all of its scopes.
fn bare(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for (_, letter, depth) in depths(name) {
        match (letter, depth) {
            (_, 0) => text.push(letter),
            // Rust writes `f::<i32>` where C++ writes `f<int>`.
            ('<', 1) => text.truncate(text.trim_end_matches("::").len()),
            _ => {}
        }
    }
    text
}

/// For each letter of a function's name: its position, and the number of pairs of angle brackets
/// around it. A bracket counts as inside of its own pair.
fn depths(name: &str) -> impl Iterator<Item = (usize, char, u32)> {
    let (mut depth, mut before) = (0_u32, ' ');
    name.char_indices().map(move |(at, letter)| {
        // The `>` of an arrow is no bracket: `fn() -> i32`.
        let closes = letter == '>' && before != '-';
        before = letter;
        depth += u32::from(letter == '<');
        let here = depth;
        depth = depth.saturating_sub(closes.into());
        (at, letter, here)
    })
}

/// The forms in which a user who wrote `written` would write a function's name: with as many
/// scopes, and with template arguments only if `written` has some. A method in Rust has several
/// forms.
pub fn alike(name: &str, written: &str) -> Vec<String> {
    let scopes = colons(written).count();
    let forms = if written.starts_with('<') {
        None
    } else {
        method(name)
    };
    forms
        .unwrap_or_else(|| vec![name.to_owned()])
        .into_iter()
        .map(|form| {
            let form = if written.contains('<') {
                form
            } else {
                bare(&form)
            };
            let all: Vec<usize> = colons(&form).collect();
            let outer = all.len().checked_sub(scopes + 1);
            outer.map_or(form.clone(), |outer| form[all[outer] + 2..].to_owned())
        })
        .collect()
}

/// The positions of `::` between the scopes of a function.
fn colons(name: &str) -> impl Iterator<Item = usize> {
    depths(name)
        .filter(|(at, _, depth)| *depth == 0 && name[*at..].starts_with("::"))
        .map(|(at, ..)| at)
}

impl Pattern {
    /// Whether the pattern is the given name. A name may look like anything, for example like a
    /// line.
    pub fn is_name(&self, name: &str) -> bool {
        name.parse().as_ref() == Ok(self)
    }

    /// Whether the pattern names this place of a call, or a function into which the call is inlined
    /// or from which it is reached.
    pub fn matches(&self, place: &Place) -> bool {
        place.calls().any(|call| self.matches_call(&call))
    }

    fn matches_call(&self, call: &CallView<'_>) -> bool {
        let in_binary = self
            .binary
            .as_deref()
            .is_none_or(|binary| short(call.binary) == short(binary));
        let any = |test: &dyn Fn(&Frame) -> bool| call.frames.iter().any(test);
        in_binary
            && match &self.code {
                Code::Line { file, line } => any(&|frame| {
                    let here = |path: &str| file.is_empty() || is_file(path, file);
                    frame.line == Some(*line) && frame.file.as_deref().is_some_and(here)
                }),
                Code::Name(name) => any(&|frame| {
                    frame
                        .function
                        .as_deref()
                        .is_some_and(|function| is_function(function, name))
                }),
                // As reports print addresses: the file's name with an offset in the file, or a
                // function with an offset from its start.
                Code::Offset { function, offset } => match function {
                    Some(name) if is_function(short(call.binary), name) => call.offset == *offset,
                    Some(name) => {
                        call.into_function == Some(*offset)
                            && any(&|frame| {
                                !frame.inlined
                                    && frame
                                        .function
                                        .as_deref()
                                        .is_some_and(|function| is_function(function, name))
                            })
                    }
                    None => call.offset == *offset,
                },
            }
    }
}

/// Longer names are not compared: comparing takes time proportional to the product of the lengths,
/// and the lengths come from the target.
const MAX_COMPARED: usize = 256;

/// The known text with the fewest typing errors relative to `written`; `None` if nothing is near.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    let likeness =
        |known: &str| strsim::normalized_damerau_levenshtein(&written, &known.to_lowercase());
    known
        .into_iter()
        .filter(|known| known.len().max(written.len()) <= MAX_COMPARED)
        .map(|known| (likeness(known), known))
        .filter(|(likeness, _)| *likeness > 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Pattern {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn every_form_is_understood_and_printed_as_it_was_written() {
        for text in [
            "lu.c:120",
            "src/lu.c:7",
            "factor",
            "app::Team::wait",
            "lu!factor",
            "libx.so!a.c:3",
            "lu!factor+0x1f",
            "lu!0x4f2",
            "phase one",
            ":120",
            "lu!:120",
            "A::operator!=",
        ] {
            assert_eq!(parse(text).to_string(), text);
        }
        assert!(matches!(
            parse("lu.c:120").code,
            Code::Line { line: 120, .. }
        ));
        assert!(matches!(parse("a::b").code, Code::Name(_)));
        assert!(matches!(parse("A::operator!=").code, Code::Name(_)));
        assert_eq!(parse("120"), parse(":120"));
        assert!(matches!(
            parse("lu!f+0x10").code,
            Code::Offset { offset: 16, .. }
        ));
        for wrong in [
            "", "lu!", "!f", "a.c:0", "0", ":0", "a.c:12x", "f+0xzz", "0xg",
        ] {
            assert!(wrong.parse::<Pattern>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_pattern_matches_any_frame_of_a_place() {
        let frame = |function: &str, file: &str, line| Frame {
            function: Some(function.into()),
            file: Some(file.into()),
            line: Some(line),
            inlined: true,
        };
        let place = Place {
            of_runtime: false,
            binary: "lu".into(),
            offset: 0x4f2,
            into_function: Some(0x12),
            works_before: false,
            outer: Vec::new(),
            frames: vec![
                frame("app::Team<int>::wait", "/src/team.h", 9),
                frame("factor", "/src/lu.c", 120),
            ],
        };
        let mut place = place;
        place.frames[1].inlined = false;
        for text in [
            "lu+0x4f2",
            "factor+0x12",
            "lu!factor+0x12",
            "lu.c:120",
            "src/lu.c:120",
            "/src/lu.c:120",
            ":120",
            "lu!:120",
            "factor",
            "lu!factor",
            "wait",
            "Team<int>::wait",
            "Team::wait",
            "app::Team::wait",
            "lu!0x4f2",
        ] {
            assert!(parse(text).matches(&place), "{text}");
        }
        for text in [
            "u.c:120",
            "lu.c:121",
            ":121",
            "libx!:120",
            "fact",
            "libx!factor",
            "lu!0x4f3",
            "it",
        ] {
            assert!(!parse(text).matches(&place), "{text}");
        }
    }

    #[test]
    fn methods_of_rust_are_meant_by_type_and_by_trait() {
        let name = "<rv::Team<i32> as rv::Step<fn() -> i32>>::go";
        for (name, written) in [
            ("<rv::Foo>::step", "step"),
            ("<rv::Foo>::step", "Foo::step"),
            ("<rv::Foo>::step", "rv::Foo::step"),
            ("<rv::Foo>::step", "<rv::Foo>::step"),
            ("<rv::Foo>::step::{closure#0}", "Foo::step::{closure#0}"),
            (name, "go"),
            (name, "Team::go"),
            (name, "rv::Team::go"),
            (name, "Team<i32>::go"),
            (name, "Step::go"),
            (name, "rv::Step::go"),
            (name, "Step<fn() -> i32>::go"),
            (name, name),
            ("<<rv::A as rv::B>::C as rv::D>::go", "D::go"),
            ("<&[u8] as rv::Step>::go", "rv::Step::go"),
            ("rv::shared::<fn(&u8) -> u8>", "shared"),
            ("rv::shared::<u8>", "rv::shared::<u8>"),
            ("rv::shared::<u8>::{closure#0}", "shared::{closure#0}"),
            ("app::Ptr<int>::operator->", "Ptr::operator->"),
        ] {
            assert!(is_function(name, written), "{name} {written}");
        }
        for (name, written) in [
            ("<rv::Foo>::step", "oo::step"),
            ("<rv::Foo>::step", "rv::step"),
            ("<rv::Foo as rv::Step>::go", "Foo::Step::go"),
            ("<<rv::A as rv::B>::C as rv::D>::go", "B::go"),
            ("", "Foo"),
        ] {
            assert!(!is_function(name, written), "{name} {written}");
        }
    }

    #[test]
    fn names_are_shown_in_the_form_that_was_written() {
        for (name, written, shown) in [
            ("app::Team<int>::wait", "wiat", &["wait"][..]),
            ("app::Team<int>::wait", "Team::wiat", &["Team::wait"]),
            (
                "app::Team<int>::wait",
                "Team<int>::wiat",
                &["Team<int>::wait"],
            ),
            ("wait", "app::Team::wiat", &["wait"]),
            ("<rv::Foo>::step", "Foo::stpe", &["Foo::step"]),
            ("<rv::Foo>::step", "<rv::Foo>::stpe", &["<rv::Foo>::step"]),
            (
                "<rv::T<u8> as rv::Step>::go",
                "a::T::og",
                &["rv::T::go", "rv::Step::go"],
            ),
        ] {
            assert_eq!(alike(name, written), shown, "{name} {written}");
        }
    }

    #[test]
    fn the_nearest_is_near() {
        let known = ["factor", "update", "lu.c:120"];
        assert_eq!(nearest("fcator", known), Some("factor"));
        assert_eq!(nearest("lu.c:121", known), Some("lu.c:120"));
        assert_eq!(nearest("zzz", known), None);
    }
}
