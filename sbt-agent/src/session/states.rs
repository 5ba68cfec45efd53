//! How closely is looked at what threads do between barriers.

use serde::{Deserialize, Serialize};

/// What the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum States {
    /// Running, ready and blocked, from two clocks that every event carries.
    #[default]
    Light,
    /// Likewise by every switch of its threads: blocked on what, and who took the CPU.
    Full,
    /// Not at all: the clocks are not read.
    Off,
}

impl States {
    /// As it is typed, and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Full => "full",
            Self::Off => "off",
        }
    }
}
