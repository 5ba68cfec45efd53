//! Conclusions about a parallel program from its events. Pure, without clock, I/O or privilege.
//!
//! [`event`] → [`recognise`] → [`model`] → [`report`] → [`verdict`], [`hang`], [`compare`],
//! [`gate`], [`scale`]. See docs/architecture.md.

pub mod chains;
pub mod choices;
pub mod compare;
pub mod counters;
pub mod event;
pub mod gate;
pub mod hang;
pub mod java;
pub mod job;
pub mod live;
pub mod looks;
pub mod model;
pub mod origin;
pub mod pattern;
pub mod place;
pub mod recognise;
pub mod report;
#[cfg(any(test, feature = "samples"))]
#[allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    clippy::must_use_candidate,
    reason = "for tests alone"
)]
pub mod samples;
pub mod saving;
pub mod scale;
pub mod total;
pub mod value;
pub mod verdict;
pub mod words;
