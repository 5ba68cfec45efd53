//! What goes into a model, kept so that it can be written down and go into another one.
//! The same steps give the same model.

use super::{Model, cost::Tariff, ids::PlaceId, site::Roles};
use crate::event::{CallersId, Event};

/// One thing that a model was told.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// See [`Model::push`].
    Event(Event),
    /// See [`Model::define_place`].
    Place {
        /// Which chain of callers
        callers: CallersId,
        /// is which place,
        place: PlaceId,
        /// and what is wanted there.
        roles: Roles,
    },
    /// See [`Model::set_rank`].
    Rank {
        /// A process
        process: u32,
        /// is this rank.
        rank: u32,
    },
    /// See [`Model::set_tariff`].
    Tariff(Tariff),
    /// See [`Model::expect_gaps`].
    ExpectGaps,
    /// See [`Model::set_off`].
    Off(bool),
    /// See [`Model::reset`].
    Reset {
        /// From when on it counts, ns.
        time_ns: u64,
    },
}

impl Step {
    /// When it happened, ns; `None` of what is told of no moment.
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

/// Keeps what comes in, if anybody wants it.
#[derive(Debug, Default)]
pub(super) struct Tape(Option<Vec<Step>>);

impl Tape {
    /// `step` is made only if it is kept.
    pub(super) fn keep(&mut self, step: impl FnOnce() -> Step) {
        if let Some(steps) = &mut self.0 {
            steps.push(step());
        }
    }
}

impl Model {
    /// Begins to keep what comes in, for [`Self::take_tape`].
    pub fn keep_tape(&mut self) {
        self.tape.0.get_or_insert_default();
    }

    /// Ends that.
    pub fn drop_tape(&mut self) {
        self.tape = Tape::default();
    }

    /// What has come in since this was last called, in its order; nothing if it is not
    /// kept.
    pub fn take_tape(&mut self) -> Vec<Step> {
        self.tape.0.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes in what another model was told.
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
