//! Records what goes into a model, so that it can be stored and replayed into another model. The
//! same steps give the same model.

use super::{Model, cost::Tariff, ids::PlaceId, site::Roles};
use crate::event::{CallersId, Event};

/// One input of a model.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// An event: see [`Model::push`].
    Event(Event),
    /// The place of a chain of callers: see [`Model::define_place`].
    Place {
        /// The chain of callers.
        callers: CallersId,
        /// The place.
        place: PlaceId,
        /// The roles of the place.
        roles: Roles,
    },
    /// The rank of a process: see [`Model::set_rank`].
    Rank {
        /// The process.
        process: u32,
        /// The rank of the process.
        rank: u32,
    },
    /// The costs of probes: see [`Model::set_tariff`].
    Tariff(Tariff),
    /// Probes may be off from now on: see [`Model::expect_gaps`].
    ExpectGaps,
    /// Probes go off or come on: see [`Model::set_off`].
    Off(bool),
    /// All totals are reset: see [`Model::reset`].
    Reset {
        /// The time from which the totals count, ns.
        time_ns: u64,
    },
}

impl Step {
    /// When the step happened, ns; `None` for a step without a time.
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
pub(super) struct Tape(Option<Vec<Step>>);

impl Tape {
    /// Records a step; `step` is called only if recording is on.
    pub(super) fn keep(&mut self, step: impl FnOnce() -> Step) {
        if let Some(steps) = &mut self.0 {
            steps.push(step());
        }
    }
}

impl Model {
    /// Starts to record inputs for [`Self::take_tape`].
    pub fn keep_tape(&mut self) {
        self.tape.0.get_or_insert_default();
    }

    /// Stops recording and drops the recorded inputs.
    pub fn drop_tape(&mut self) {
        self.tape = Tape::default();
    }

    /// Returns the inputs since the last call, in order; empty unless recording is on.
    pub fn take_tape(&mut self) -> Vec<Step> {
        self.tape.0.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Replays an input of another model.
    pub fn take(&mut self, step: &Step) {
        match step {
            Step::Event(event) => self.push(event),
            Step::Place {
                callers,
                place,
                roles,
            } => self.define_place(*callers, *place, *roles),
            Step::Rank { process, rank } => self.set_rank(*process, *rank),
            Step::Tariff(tariff) => self.set_tariff(*tariff),
            Step::ExpectGaps => self.expect_gaps(),
            Step::Off(off) => self.set_off(*off),
            Step::Reset { time_ns } => self.reset(*time_ns),
        }
    }
}
