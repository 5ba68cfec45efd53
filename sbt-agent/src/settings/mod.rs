//! What the user wants, from whatever source: built-in defaults, `sbt.toml`,
//! the environment, the command line, weakest first. See docs/settings.md.
//!
//! Each source becomes a [`layer::Layer`]; [`merge`] makes one [`Settings`] of
//! them, and a table that tells where each value came from.

use std::time::Duration;

use sbt_engine::{
    choices::{Backend, Departures, Futexes, States},
    counters::Counter,
    pattern::Pattern,
};
use sbt_program::access;

mod add;
mod check;
mod effective;
mod environment;
mod file;
mod find;
mod known;
pub mod layer;
pub(crate) mod merge;
mod show;
pub mod spec;

pub use add::add_name;
pub use check::Gate;
pub use effective::{Effective, check_file, effective};
pub use environment::Environment;
pub use known::{CONTROLS, Known, SETTINGS};
pub use merge::{MAX_BARRIERS, MAX_MARKS, MAX_PHASES, Row};
pub use show::{Detail, table};

/// See [`Settings::budget`], percent.
pub const DEFAULT_BUDGET: f64 = 2.0;

/// See [`Settings::hang_time`].
pub const DEFAULT_HANG_TIME: Duration = Duration::from_secs(10);

/// How to watch and what to tell.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub struct Settings {
    /// Whether to watch departures.
    pub departures: Departures,
    /// How much of its time watching may cost a thread, percent; without it any.
    pub budget: Option<f64>,
    /// How the program is watched.
    pub backend: Backend,
    /// Whether to watch the system calls of futexes.
    pub futex: Futexes,
    /// How closely is looked at what threads do between barriers.
    pub states: States,
    /// Whether processes that the target starts are watched too; without it those of
    /// a program that sbt starts.
    pub children: Option<bool>,
    /// For how long to watch; without it until the target ends.
    pub duration: Option<Duration>,
    /// Names of sites; no site twice, a name perhaps.
    pub names: Vec<Named>,
    /// Sites, or names of sites or phases, whose episodes are told one by one.
    pub watch: Vec<Pattern>,
    /// All of them are.
    pub watch_all: bool,
    /// Whether long episodes are warned of.
    pub warnings: bool,
    /// A barrier time above this is long.
    pub warn_time: Duration,
    /// A barrier at which threads wait for longer than this, and nobody comes, may be a
    /// hang; without it nobody looks.
    pub hang_time: Option<Duration>,
    /// A program that hangs for so long is ended; without it none is.
    pub end_hangs: Option<Duration>,
    /// Whether the time of each phase is told as it ends.
    pub phase_times: bool,
    /// Conceptual phases; no name twice, at most [`MAX_PHASES`].
    pub phases: Vec<Conceptual>,
    /// Marks; no place twice, at most [`MAX_MARKS`].
    pub marks: Vec<Mark>,
    /// Functions of the program's own that are barriers; none twice, at most
    /// [`MAX_BARRIERS`].
    pub barriers: Vec<UserBarrier>,
    /// Counters to be read with every event of a thread.
    pub events: Vec<Counter>,
    /// Whether others may be chosen while the program runs, as on the live screen.
    pub may_choose: bool,
    /// Samples a second of a thread's time on a CPU; 0: none.
    pub sample: u32,
    /// Where folded stacks of the samples go.
    pub folded: Option<access::Named>,
    /// The live screen leaves when the program ends, and does not wait for a key.
    pub exit_with_program: bool,
    /// The rules of `sbt check`.
    pub check: Gate,
}

/// A name for a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Which barrier call.
    pub site: Pattern,
    /// Not empty, fit to print.
    pub name: String,
}

/// A phase from one barrier to another, whatever lies between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conceptual {
    /// Not empty, fit to print.
    pub name: String,
    /// It begins with the last arrival here; a site or the name of one.
    pub from: Pattern,
    /// It ends with the next last arrival here; likewise.
    pub to: Pattern,
}

/// A place in the program whose passing is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What to call it, if not as it is written.
    pub name: Option<String>,
    /// A function's beginning, or a line of a file.
    pub at: Pattern,
}

/// A function of the program's own that is a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserBarrier {
    /// It; never a line.
    pub function: Pattern,
    /// Which of its arguments is the barrier, from 1 to 6; 0 if the function is
    /// the one barrier. Without it debug information decides: the first
    /// argument if that is a pointer.
    pub object: Option<u8>,
    /// Which of its arguments is the number of participants, from 1 to 6.
    pub count: Option<u8>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            departures: Departures::Auto,
            budget: Some(DEFAULT_BUDGET),
            backend: Backend::Auto,
            futex: Futexes::Auto,
            states: States::Light,
            children: None,
            duration: None,
            names: Vec::new(),
            watch: Vec::new(),
            watch_all: false,
            warnings: true,
            warn_time: Duration::from_secs(1),
            hang_time: Some(DEFAULT_HANG_TIME),
            end_hangs: None,
            phase_times: false,
            phases: Vec::new(),
            marks: Vec::new(),
            barriers: Vec::new(),
            events: Vec::new(),
            may_choose: false,
            sample: 0,
            folded: None,
            exit_with_program: false,
            check: Gate::default(),
        }
    }
}

impl Settings {
    /// Every pattern that ought to match a barrier call some time, with the
    /// option that it belongs to. A name that these settings give is not among
    /// them where it is used: what it stands for is.
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

    /// Whether a pattern stands for the site of this name, and not for what it
    /// reads like.
    pub fn is_name_of_site(&self, pattern: &Pattern) -> bool {
        self.names.iter().any(|named| pattern.is_name(&named.name))
    }

    /// Likewise for a phase, where one may be meant.
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
                // Of a site this is no name.
                "--phase solve",
            ]
        );
    }
}
