//! The settings of one source: the file, the environment or the command line.

pub use super::declared::Layer;

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
