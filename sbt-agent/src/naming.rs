//! The user's names for sites, and the roles of each site.

use std::collections::BTreeSet;

use crate::settings::{MAX_PHASES, Settings};
use sbt_engine::{
    model::site::Roles,
    pattern::{Code, Pattern, alike, is_file, nearest},
    place::{Place, printable, short},
};

/// Answers questions about sites from the settings.
pub struct Naming<'a>(pub &'a Settings);

impl Naming<'_> {
    /// The name that the user has given to a place; of several the last one counts.
    pub fn name(&self, place: &Place) -> Option<&str> {
        let names = self.0.names.iter().rev();
        names
            .filter(|named| named.site.matches(place))
            .map(|named| named.name.as_str())
            .next()
    }

    /// Whether a pattern means a place. A pattern that is a name from the settings means the places
    /// with that name.
    pub fn is_meant(&self, pattern: &Pattern, place: &Place) -> bool {
        if self.0.is_name_of_site(pattern) {
            self.name(place).is_some_and(|name| pattern.is_name(name))
        } else {
            pattern.matches(place)
        }
    }

    fn is_watched(&self, place: &Place) -> bool {
        self.0.watch_all
            || self.0.watch.iter().any(|watch| {
                let is_phase = self.0.is_name_of_phase(watch);
                (!is_phase || self.0.is_name_of_site(watch)) && self.is_meant(watch, place)
            })
    }

    /// The user's wishes for the episodes at a place.
    pub fn roles(&self, place: &Place) -> Roles {
        let mut roles = Roles {
            watched: self.is_watched(place),
            ..Roles::default()
        };
        // `Roles` has one bit for each phase.
        for (number, phase) in self.0.phases.iter().take(MAX_PHASES).enumerate() {
            let bit = 1 << number;
            let (begins, ends) = (
                self.is_meant(&phase.from, place),
                self.is_meant(&phase.to, place),
            );
            roles.begins |= if begins { bit } else { 0 };
            roles.ends |= if ends { bit } else { 0 };
            // Watching a phase means watching its two ends.
            let by_name = |watch: &Pattern| watch.is_name(&phase.name);
            roles.watched |= (begins || ends) && self.0.watch.iter().any(by_name);
        }
        roles
    }

    /// A line for each pattern that no place has matched.
    pub fn unmatched(&self, places: &[&Place]) -> Vec<String> {
        self.0
            .patterns()
            .filter(|(_, pattern)| !places.iter().any(|place| pattern.matches(place)))
            .map(|(option, pattern)| {
                let near = match &pattern.code {
                    Code::Line { file, line } => nearest_line(file, *line, places),
                    _ => None,
                };
                let pattern = pattern.to_string();
                let known: BTreeSet<String> = places
                    .iter()
                    .flat_map(|place| written(place, &pattern))
                    .collect();
                let near = near.or_else(|| {
                    nearest(&pattern, known.iter().map(String::as_str)).map(str::to_owned)
                });
                let near = near.map_or_else(String::new, |near| format!("; the nearest is {near}"));
                format!("{option} {pattern}: no barrier was called from there{near}")
            })
            .collect()
    }
}

/// The nearest line with a barrier: in the file that the user wrote or, if there is no barrier in
/// it, in the file with the most similar name.
fn nearest_line(file: &str, line: u32, places: &[&Place]) -> Option<String> {
    let lines = || {
        let frames = places.iter().flat_map(|place| &place.frames);
        frames.filter_map(|frame| frame.file.as_deref().zip(frame.line))
    };
    let here = |path: &str| file.is_empty() || is_file(path, file);
    let other = if lines().any(|(path, _)| here(path)) {
        None
    } else {
        Some(nearest(short(file), lines().map(|(path, _)| short(path)))?)
    };
    lines()
        .filter(|(path, _)| other.map_or_else(|| here(path), |other| short(path) == other))
        .min_by_key(|(_, at)| (at.abs_diff(line), *at))
        .map(|(path, at)| format!("{}:{at}", printable(short(path))))
}

/// The texts by which a user may mean a place, in the form of the user's pattern `form`.
fn written(place: &Place, form: &str) -> Vec<String> {
    let lines = place.frames.iter().filter_map(|frame| {
        let (file, line) = frame.file.as_deref().zip(frame.line)?;
        Some(format!("{}:{line}", printable(short(file))))
    });
    let functions = place
        .frames
        .iter()
        .filter_map(|frame| frame.function.as_deref())
        .flat_map(|function| alike(function, form))
        .map(|function| printable(&function));
    let mut all: Vec<String> = lines.chain(functions).collect();
    if all.is_empty() {
        let addresses = place.calls().map(|call| (call.binary, call.offset));
        all.extend(addresses.map(|(binary, offset)| format!("{}+{offset:#x}", printable(binary))));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Conceptual, SiteName};
    use sbt_engine::place::Frame;

    fn place(function: &str, line: u32) -> Place {
        Place {
            of_runtime: false,
            binary: "lu".into(),
            offset: 0x10,
            into_function: None,
            works_before: false,
            outer: Vec::new(),
            frames: vec![Frame {
                function: Some(function.into()),
                file: Some("/src/lu.c".into()),
                line: Some(line),
                inlined: false,
            }],
        }
    }

    fn pattern(text: &str) -> Pattern {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn settings() -> Settings {
        Settings {
            names: vec![SiteName {
                site: pattern("lu.c:40"),
                name: "diagonal".into(),
            }],
            phases: vec![
                Conceptual {
                    name: "solve".into(),
                    from: pattern("diagonal"),
                    to: pattern("update"),
                },
                Conceptual {
                    name: "round".into(),
                    from: pattern("update"),
                    to: pattern("update"),
                },
            ],
            ..Settings::default()
        }
    }

    #[test]
    fn phases_begin_and_end_where_names_say() {
        let settings = settings();
        let naming = Naming(&settings);
        let (a, b) = (place("factor", 40), place("update", 60));
        assert_eq!(naming.name(&a), Some("diagonal"));
        assert_eq!(naming.name(&b), None);
        let roles = |begins, ends| Roles {
            watched: false,
            begins,
            ends,
        };
        assert_eq!(naming.roles(&a), roles(0b01, 0));
        assert_eq!(naming.roles(&b), roles(0b10, 0b11));
    }

    #[test]
    fn what_is_watched_may_be_said_by_any_name() {
        let (a, b) = (place("factor", 40), place("update", 60));
        for (watch, watched) in [
            ("diagonal", (true, false)),
            ("lu.c:60", (false, true)),
            ("factor", (true, false)),
            ("solve", (true, true)),
            ("round", (false, true)),
            ("nothing", (false, false)),
        ] {
            let settings = Settings {
                watch: vec![pattern(watch)],
                ..settings()
            };
            let naming = Naming(&settings);
            let got = (naming.roles(&a).watched, naming.roles(&b).watched);
            assert_eq!(got, watched, "{watch}");
        }
    }

    /// A name wins even if it reads like a line or like an existing function.
    #[test]
    fn a_name_means_what_it_was_given_to() {
        let (a, b) = (place("factor", 40), place("update", 60));
        for name in ["lu.c:60", "update", ":60", "60", "lu!update", "lu+0x10"] {
            let settings = Settings {
                names: vec![SiteName {
                    site: pattern("lu.c:40"),
                    name: name.into(),
                }],
                phases: vec![Conceptual {
                    name: "solve:1".into(),
                    from: pattern(name),
                    to: pattern("lu.c:61"),
                }],
                watch: vec![pattern(name)],
                ..Settings::default()
            };
            let roles = |place: &Place| Naming(&settings).roles(place);
            assert!(roles(&a).watched && roles(&a).begins == 1, "{name}");
            assert!(!roles(&b).watched && roles(&b).begins == 0, "{name}");
            let by_phase = Settings {
                watch: vec![pattern("solve:1")],
                ..settings.clone()
            };
            assert!(Naming(&by_phase).roles(&a).watched, "{name}");
            assert!(!Naming(&by_phase).roles(&b).watched, "{name}");
        }
    }

    #[test]
    fn what_matched_nothing_is_told_with_the_nearest() {
        let settings = Settings {
            watch: vec![pattern("lu.c:41"), pattern("lu.c:60")],
            ..Settings::default()
        };
        let (a, b) = (place("factor", 40), place("update", 60));
        let lines = Naming(&settings).unmatched(&[&a, &b]);
        assert_eq!(
            lines,
            ["--watch lu.c:41: no barrier was called from there; the nearest is lu.c:40"]
        );
    }

    #[test]
    fn a_method_of_rust_is_named_by_its_type() {
        let step = place("<rv::Foo>::step", 40);
        let settings = Settings {
            watch: vec![pattern("Foo::step"), pattern("rv::Foo::stpe")],
            names: vec![SiteName {
                site: pattern("rv::Foo::step"),
                name: "diagonal".into(),
            }],
            ..Settings::default()
        };
        let naming = Naming(&settings);
        assert_eq!(naming.name(&step), Some("diagonal"));
        assert!(naming.roles(&step).watched);
        assert_eq!(
            naming.unmatched(&[&step]),
            [
                "--watch rv::Foo::stpe: no barrier was called from there; the nearest is \
              rv::Foo::step"
            ]
        );
    }

    #[test]
    fn the_nearest_line_is_the_fewest_lines_away() {
        let places = [place("a", 7), place("b", 10), place("c", 13)];
        let places: Vec<&Place> = places.iter().collect();
        for (written, near) in [
            ("lu.c:11", "lu.c:10"),
            ("lu.c:17", "lu.c:13"),
            ("src/lu.c:1", "lu.c:7"),
            ("900", "lu.c:13"),
            // Another file with a similar name.
            ("li.c:12", "lu.c:13"),
        ] {
            let settings = Settings {
                watch: vec![pattern(written)],
                ..Settings::default()
            };
            let lines = Naming(&settings).unmatched(&places);
            assert!(lines[0].ends_with(&format!("is {near}")), "{lines:?}");
        }
        assert_eq!(nearest_line("other.c", 7, &places), None);
    }
}
