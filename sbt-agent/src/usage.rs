//! Errors of usage: arguments that make no sense.

use thiserror::Error;

/// An error of usage, which leads to the exit status [`Usage::EXIT`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Usage(pub String);

impl Usage {
    /// Exit status of sbt for an error of usage.
    pub const EXIT: u8 = 2;
}
