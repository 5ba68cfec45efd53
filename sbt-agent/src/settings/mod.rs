//! The user's settings from all sources: built-in defaults, `sbt.toml`, the environment and the
//! command line, weakest first. See docs/settings.md.
//!
//! Each source becomes a [`layer::Layer`]; `merge` makes one [`Settings`] of them, and a table of
//! where each value came from.

use std::time::Duration;

use sbt_engine::pattern::Pattern;

mod add;
mod check;
mod declared;
mod effective;
mod environment;
mod file;
mod find;
mod known;
pub mod layer;
pub(crate) mod merge;
mod show;
pub mod spec;
mod window;

pub use add::add_name;
pub use check::Gate;
pub use declared::{SETTINGS, Settings};
pub use effective::{Effective, check_file, effective};
pub use environment::Environment;
pub use known::{CONTROLS, SettingNames};
pub use merge::{MAX_BARRIERS, MAX_MARKS, MAX_PHASES, Row};
pub use show::{Detail, table};

/// The default of [`Settings::budget`], in percent.
pub const DEFAULT_BUDGET: f64 = 2.0;

/// The default of [`Settings::hang_time`].
pub const DEFAULT_HANG_TIME: Duration = Duration::from_secs(10);

/// A name for a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteName {
    /// The barrier calls that get the name.
    pub site: Pattern,
    /// Not empty, and safe to print.
    pub name: String,
}

/// A barrier whose episodes are printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The site, or the name of a site or phase.
    pub site: Pattern,
    /// The name that the site gets; `None` leaves it as it is.
    pub name: Option<String>,
}

/// A phase from one barrier to another, whatever lies between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conceptual {
    /// Not empty, and safe to print.
    pub name: String,
    /// The barrier with whose last arrival the phase begins: a site or the name of a site.
    pub from: Pattern,
    /// The barrier with whose next last arrival the phase ends: a site or the name of a site.
    pub to: Pattern,
}

/// A place in the program; sbt reports each time that a thread passes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The name of the mark; `None` to call it by its place.
    pub name: Option<String>,
    /// The beginning of a function, or a line of a file.
    pub at: Pattern,
}

/// A function of the user's own that is a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserBarrier {
    /// The function; never a line.
    pub function: Pattern,
    /// The number of the argument that is the barrier object, from 1 to 6; 0 if the function itself
    /// is the only barrier. With `None` debug information decides: the first argument if it is a
    /// pointer.
    pub object: Option<u8>,
    /// The number of the argument that is the count of participants, from 1 to 6.
    pub count: Option<u8>,
}

impl Settings {
    /// The patterns that should match a barrier call during the run, each with its option. A
    /// pattern that is the name of a site or phase in these settings is left out: the pattern
    /// behind the name is checked instead.
    pub fn patterns(&self) -> impl Iterator<Item = (&'static str, &Pattern)> {
        let names = self.names.iter().map(|named| ("--name", &named.site));
        let watch = self
            .watch
            .iter()
            .filter(|pattern| !self.is_name_of_site(pattern) && !self.is_name_of_phase(pattern))
            .map(|pattern| ("--watch", pattern));
        let phases = self
            .phases
            .iter()
            .flat_map(|phase| [&phase.from, &phase.to])
            .filter(|pattern| !self.is_name_of_site(pattern))
            .map(|pattern| ("--phase", pattern));
        names.chain(watch).chain(phases)
    }

    /// Whether a pattern is the name of a site in these settings, even if it reads like a place.
    pub fn is_name_of_site(&self, pattern: &Pattern) -> bool {
        self.names.iter().any(|named| pattern.is_name(&named.name))
    }

    /// Whether a pattern is the name of a phase in these settings, where a phase may be meant.
    pub fn is_name_of_phase(&self, pattern: &Pattern) -> bool {
        self.phases.iter().any(|phase| pattern.is_name(&phase.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_like_a_line_may_be_a_name() {
        let settings = Settings {
            names: vec![
                spec::named("ph.c:14=step:2").unwrap(),
                spec::named("ph.c:15=lib!f+0x1").unwrap(),
            ],
            watch: ["step:2", "lib!f+0x1", "solve:1", "step:3"]
                .map(|text| text.parse().unwrap())
                .to_vec(),
            phases: vec![spec::phase("solve:1=step:2..ph.c:20").unwrap()],
            ..Settings::default()
        };
        let found: Vec<_> = settings
            .patterns()
            .map(|(option, pattern)| format!("{option} {pattern}"))
            .collect();
        assert_eq!(
            found,
            [
                "--name ph.c:14",
                "--name ph.c:15",
                "--watch step:3",
                "--phase ph.c:20",
            ]
        );
    }

    #[test]
    fn patterns_are_those_of_sites_and_not_of_names() {
        let settings = Settings {
            names: vec![spec::named("lu.c:690=factor").unwrap()],
            watch: ["factor", "solve", "lu.c:7", "other"]
                .map(|text| text.parse().unwrap())
                .to_vec(),
            phases: vec![
                spec::phase("solve=lu.c:10..lu.c:20").unwrap(),
                spec::phase("again=factor..solve").unwrap(),
            ],
            ..Settings::default()
        };
        let found: Vec<_> = settings
            .patterns()
            .map(|(option, pattern)| format!("{option} {pattern}"))
            .collect();
        assert_eq!(
            found,
            [
                "--name lu.c:690",
                "--watch lu.c:7",
                "--watch other",
                "--phase lu.c:10",
                "--phase lu.c:20",
                // `solve` is not the name of a site.
                "--phase solve",
            ]
        );
    }
}
