//! What one source says: the file, the environment or the command line.

use std::time::Duration;

use super::{Conceptual, Gate, Mark, Named, UserBarrier};
use sbt_engine::{
    choices::{Backend, Departures, Futexes, States},
    counters::Counter,
    pattern::Pattern,
};
use sbt_program::access;

/// A value, and where it was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Given<T> {
    /// What.
    pub value: T,
    /// Where, as the user calls it: `sbt.toml:12`, `SBT_WATCH`, `--watch`.
    pub origin: String,
}

impl<T> Given<T> {
    /// A value and its origin.
    pub fn new(value: T, origin: impl Into<String>) -> Self {
        Self {
            value,
            origin: origin.into(),
        }
    }
}

/// What one source says; what it does not speak of is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// See [`super::Settings::departures`]; so for all.
    pub departures: Option<Given<Departures>>,
    /// Of watching; `None` in it for none.
    pub budget: Option<Given<Option<f64>>>,
    /// How the program is watched.
    pub backend: Option<Given<Backend>>,
    /// Of barriers made of futexes.
    pub futex: Option<Given<Futexes>>,
    /// Of processors.
    pub states: Option<Given<States>>,
    /// Whether they are watched.
    pub children: Option<Given<bool>>,
    /// Of watching.
    pub duration: Option<Given<Duration>>,
    /// Replaces that of a weaker source.
    pub watch: Option<Given<Vec<Pattern>>>,
    /// Everything.
    pub watch_all: Option<Given<bool>>,
    /// Of long episodes.
    pub warnings: Option<Given<bool>>,
    /// Above which an episode is long.
    pub warn_time: Option<Given<Duration>>,
    /// After which a wait may be a hang; `None` in it for never.
    pub hang_time: Option<Given<Option<Duration>>>,
    /// As they end.
    pub phase_times: Option<Given<bool>>,
    /// Added to those of weaker sources.
    pub names: Vec<Given<Named>>,
    /// Likewise.
    pub phases: Vec<Given<Conceptual>>,
    /// Likewise.
    pub marks: Vec<Given<Mark>>,
    /// Likewise.
    pub barriers: Vec<Given<UserBarrier>>,
    /// Replaces that of a weaker source.
    pub events: Option<Given<Vec<Counter>>>,
    /// A second.
    pub sample: Option<Given<u32>>,
    /// For flame graphs.
    pub folded: Option<Given<access::Named>>,
    /// Of the live screen.
    pub exit_with_program: Option<Given<bool>>,
    /// Rules; those of a stronger source replace those that speak of the same.
    pub check: Gate,
}
