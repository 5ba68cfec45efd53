//! Where the values of the requested counters come from. Pure.

use serde::{Deserialize, Serialize};

use super::Counter;

/// Where the values of a counter are in the records from the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// The run time in each record.
    RunTime,
    /// The sum of [`sbt_common::Counts::values`] from the first index up to, but not including, the
    /// second.
    Task(usize, usize),
    /// The value with this index in [`sbt_common::Sums::events`].
    Event(usize),
    /// The counter is not available.
    Nowhere,
}

/// The requested counters in their order, with where each value comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan(pub Vec<(Counter, Source)>);

impl Plan {
    /// Whether any of the counters is available.
    pub fn counts_something(&self) -> bool {
        self.0.iter().any(|(_, source)| *source != Source::Nowhere)
    }
}
