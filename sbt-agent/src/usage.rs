//! What was typed, and makes no sense.

use thiserror::Error;

/// What was typed makes no sense: the exit status of usage.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Usage(pub String);

impl Usage {
    /// See [`Usage`].
    pub const EXIT: u8 = 2;
}
