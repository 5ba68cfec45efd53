//! The settings of one source: the file, the environment or the command line.

use std::time::Duration;

use super::{Conceptual, Gate, Mark, Named, UserBarrier};
use sbt_engine::{
    choices::{Backend, Departures, Futexes, States},
    counters::Counter,
    pattern::Pattern,
};
use sbt_program::access;

/// A value and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Given<T> {
    /// The value.
    pub value: T,
    /// The place where the value was given, as the user knows it: `sbt.toml:12`, `SBT_WATCH`,
    /// `--watch`.
    pub origin: String,
}

impl<T> Given<T> {
    /// A value given at `origin`.
    pub fn new(value: T, origin: impl Into<String>) -> Self {
        Self {
            value,
            origin: origin.into(),
        }
    }
}

/// The settings of one source; settings that the source does not give are `None` or empty. The
/// meaning of each is described at [`super::Settings`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// Whether to watch departures.
    pub departures: Option<Given<Departures>>,
    /// The budget for the overhead, in percent; the inner `None` means no limit.
    pub budget: Option<Given<Option<f64>>>,
    /// The way to watch the program.
    pub backend: Option<Given<Backend>>,
    /// Whether to watch the system calls of futexes.
    pub futex: Option<Given<Futexes>>,
    /// How closely to watch what threads do between barriers.
    pub states: Option<Given<States>>,
    /// Whether to watch processes that the target starts.
    pub children: Option<Given<bool>>,
    /// The time after which watching ends.
    pub duration: Option<Given<Duration>>,
    /// Barriers whose episodes are printed. Replaces the list of a weaker source.
    pub watch: Option<Given<Vec<Pattern>>>,
    /// Whether to print the episodes of all barriers.
    pub watch_all: Option<Given<bool>>,
    /// Whether to warn of long episodes.
    pub warnings: Option<Given<bool>>,
    /// The barrier time above which an episode is long.
    pub warn_time: Option<Given<Duration>>,
    /// The time after which a wait may be a hang; the inner `None` means never.
    pub hang_time: Option<Given<Option<Duration>>>,
    /// Whether to print the time of each phase as it ends.
    pub phase_times: Option<Given<bool>>,
    /// Names of sites, added to those of weaker sources.
    pub names: Vec<Given<Named>>,
    /// Conceptual phases, added to those of weaker sources.
    pub phases: Vec<Given<Conceptual>>,
    /// Marks, added to those of weaker sources.
    pub marks: Vec<Given<Mark>>,
    /// The user's barriers, added to those of weaker sources.
    pub barriers: Vec<Given<UserBarrier>>,
    /// Counters. Replaces the list of a weaker source.
    pub events: Option<Given<Vec<Counter>>>,
    /// Samples per second.
    pub sample: Option<Given<u32>>,
    /// The file for folded stacks, for flame graphs.
    pub folded: Option<Given<access::Named>>,
    /// Whether the live screen closes when the program ends.
    pub exit_with_program: Option<Given<bool>>,
    /// Rules of `sbt check`; a rule of a stronger source replaces the weaker source's rule on the
    /// same subject.
    pub check: Gate,
}
