//! Where the values of the counters are that were asked for. Pure.

use serde::{Deserialize, Serialize};

use super::Counter;

/// Where the values of a counter are, in what comes through the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// The run time that each record has.
    RunTime,
    /// The sum of [`sbt_common::Counts::values`] from the first of these to before the
    /// second.
    Task(usize, usize),
    /// That of [`sbt_common::Sums::events`].
    Event(usize),
    /// Nowhere: it cannot be counted.
    Nowhere,
}

/// What becomes of the counters that were asked for, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan(pub Vec<(Counter, Source)>);

impl Plan {
    /// Whether any of them is counted.
    pub fn counts_something(&self) -> bool {
        self.0.iter().any(|(_, source)| *source != Source::Nowhere)
    }
}
