//! Messages about places that are in no file.

use std::sync::Arc;

use super::{Purpose, Wish};
use crate::debuginfo::DebugInfo;
use crate::files::Offer;
use crate::files::ProbedFile;
use sbt_engine::pattern::{Code, alike, nearest};
use sbt_engine::place::short;

/// The most functions of a file that are compared with the user's name.
const MAX_FUNCTIONS: usize = 100_000;

/// The longest names that are compared, bytes.
const MAX_NAME: usize = 256;

/// Why no file has the place that was wished for; `None` if a file has it, or if it may be in a
/// file that is not there yet.
pub(super) fn explain(index: usize, wish: &Wish, files: &[Arc<ProbedFile>]) -> Option<String> {
    let concerned: Vec<_> = files.iter().filter(|file| wish.concerns(file)).collect();
    let offers = || concerned.iter().filter_map(|file| file.offers.get(index));
    if concerned.is_empty() || offers().any(|offer| matches!(offer, Offer::Points(_))) {
        return None;
    }
    let refused = offers().find_map(|offer| match offer {
        Offer::Refused(reason) => Some(reason),
        _ => None,
    });
    if let Some(reason) = refused {
        return Some(format!("cannot probe {}: {reason}", wish.at));
    }
    let search = Searched::new(&concerned, wish.at.binary.is_none());
    Some(match &wish.at.code {
        Code::Line { file, line } => search.line(file, *line),
        Code::Name(name)
        | Code::Offset {
            function: Some(name),
            ..
        } => search.function(name, wish.purpose),
        Code::Offset {
            function: None,
            offset,
        } => format!("there is no code at {offset:#x} in {}", search.place),
    })
}

/// The files that the place could be in.
struct Searched {
    /// The description of where was searched.
    place: String,
    /// The name of the first file.
    first: String,
    /// Whether the wish names no file.
    any: bool,
    debug: Vec<DebugInfo>,
}

impl Searched {
    fn new(files: &[&Arc<ProbedFile>], any: bool) -> Self {
        let first = files.first().map_or_else(String::new, |file| {
            short(&file.shown.to_string_lossy()).to_owned()
        });
        Self {
            place: if any && files.len() > 1 {
                format!("{first} or the libraries it loads")
            } else {
                first.clone()
            },
            first,
            any,
            debug: files.iter().filter_map(|file| file.debug_info()).collect(),
        }
    }

    /// A hint for wishes without a file: a wrapper executes another program, and libraries may be
    /// loaded later.
    fn later(&self, what: &str) -> String {
        if self.any {
            format!(" (in a program or library that is loaded later, name it FILE!{what})")
        } else {
            String::new()
        }
    }

    fn function(&self, name: &str, purpose: Purpose) -> String {
        let (place, first) = (&self.place, &self.first);
        let inlined = self
            .debug
            .iter()
            .take(1)
            .find_map(|debug| debug.inlined(name));
        if let Some(line) = inlined {
            let line = match line {
                0 => String::new(),
                line => format!(" (it begins at line {line} of its file)"),
            };
            let instead = match purpose {
                Purpose::Mark(_) => "mark one of its lines instead",
                Purpose::Barrier { .. } => {
                    "name the function around it, or keep the compiler \
                                            from inlining it"
                }
            };
            return format!(
                "\"{name}\" is inlined at all its calls in {first}, so there is no function to \
                 probe: {instead}{line}"
            );
        }
        let near = self.debug.iter().find_map(|debug| {
            let known = debug.some_functions(MAX_FUNCTIONS);
            let known: Vec<_> = known
                .iter()
                .filter(|known| known.len() <= MAX_NAME)
                // Compilers append to a name: `main._omp_fn.0`.
                .map(|known| known.split_once('.').map_or(&known[..], |(known, _)| known))
                .flat_map(|known| alike(known, name))
                .collect();
            nearest(name, known.iter().map(String::as_str)).map(str::to_owned)
        });
        match near {
            Some(near) => {
                format!("no function \"{name}\" in {place}; the nearest is \"{near}\"")
            }
            None => format!("no function \"{name}\" in {place}{}", self.later(name)),
        }
    }

    fn line(&self, file: &str, line: u32) -> String {
        let first = &self.first;
        let lines = self
            .debug
            .iter()
            .filter_map(|debug| debug.line(file, line).ok())
            .filter(|found| found.has_file);
        let nearest_lines = lines.map(|found| found.nearest).reduce(|a, b| {
            let after = [a.1, b.1].into_iter().flatten().min();
            (a.0.max(b.0), after)
        });
        match nearest_lines {
            Some((Some(before), Some(after))) => format!(
                "{file}:{line} has no code of its own; the nearest lines with code are {before} \
                 and {after}"
            ),
            Some((Some(one), None) | (None, Some(one))) => {
                format!("{file}:{line} has no code of its own; the nearest line with code is {one}")
            }
            Some((None, None)) => format!("no line of {file} has code in {}", self.place),
            None => {
                let depth = file.matches('/').count() + 1;
                let near = self.debug.iter().find_map(|debug| {
                    let known = debug.files(depth);
                    nearest(file, known.iter().map(|known| &known[..])).map(str::to_owned)
                });
                let near = near.map_or_else(String::new, |near| format!(" (nearest: {near})"));
                format!(
                    "{first} has no debug information of a source file \"{file}\"{near}; was it \
                     compiled with -g?"
                )
            }
        }
    }
}
