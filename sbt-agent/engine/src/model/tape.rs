//! Records what goes into a model, so that it can be stored and replayed into another model. The
//! same steps give the same model.

use super::{cost::Tariff, ids::PlaceId, site::Roles};
use crate::event::{CallersId, Event};

/// One input of a model.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// An event: see [`super::Model::push`].
    Event(Event),
    /// The place of a chain of callers: see [`super::Model::define_place`].
    Place {
        /// The chain of callers.
        callers: CallersId,
        /// The place.
        place: PlaceId,
        /// The roles of the place.
        roles: Roles,
    },
    /// The rank of a process: see [`super::Model::set_rank`].
    Rank {
        /// The process.
        process: u32,
        /// The rank of the process.
        rank: u32,
    },
    /// The costs of probes: see [`super::Model::set_tariff`].
    Tariff(Tariff),
    /// Probes may be off from now on: see [`super::Model::expect_gaps`].
    ExpectGaps,
    /// Probes go off or come on: see [`super::Model::set_off`].
    Off(bool),
    /// All totals are reset: see [`super::Model::reset`].
    Reset {
        /// The time from which the totals count, ns.
        time_ns: u64,
    },
}

impl Step {
    /// The time at which the step happened, ns; `None` for a step without a time.
    pub const fn time_ns(&self) -> Option<u64> {
        match self {
            Self::Event(event) => event.time_ns(),
            Self::Reset { time_ns } => Some(*time_ns),
            Self::Place { .. }
            | Self::Rank { .. }
            | Self::Tariff(_)
            | Self::ExpectGaps
            | Self::Off(_) => None,
        }
    }
}

/// The recorded steps; `None` unless recording is on.
#[derive(Debug, Default)]
pub(super) struct Tape(pub(super) Option<Vec<Step>>);

impl Tape {
    /// Records a step; `step` is called only if recording is on.
    pub(super) fn keep(&mut self, step: impl FnOnce() -> Step) {
        if let Some(steps) = &mut self.0 {
            steps.push(step());
        }
    }
}
