//! The machine, and the process of a parallel program, of which a recording was made.

use serde::{Deserialize, Serialize};

/// The longest name of a barrier, and of a clock, that recordings of a job may have, bytes.
const LONGEST_NAME: usize = 512;
const LONGEST_CLOCK: usize = 64;

/// Stands in names of communicators for the ranks of one machine: the communicators of two machines
/// that differ only in that are two.
pub const MACHINE: &str = "machine";

/// The machine on which a recording was made, and the process's place in a parallel program, as its
/// launcher tells in the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The name of the machine.
    pub host: String,
    /// Identifies the kernel's `CLOCK_MONOTONIC`, by which the recording's times are: the machine's
    /// boot.
    pub clock: String,
    /// The name of the job; `None` if the launcher gives none.
    pub job: Option<String>,
    /// The rank; `None` if the launcher gives none.
    pub rank: Option<u32>,
    /// The number of ranks of the job, if known.
    pub ranks: Option<u32>,
}

impl Origin {
    /// The name of a communicator in the job for its name in a recording; `None` if the recording is of no
    /// rank.
    pub fn name_in_job(&self, name: &str) -> Option<String> {
        self.rank?;
        // Files may be damaged, and the clock may stand in the name many times.
        if name.len() > LONGEST_NAME || self.clock.len() > LONGEST_CLOCK {
            return None;
        }
        Some(name.replace(MACHINE, &format!("{MACHINE} {}", self.clock)))
    }

    /// The name of the recording's process in sentences.
    pub fn called(&self) -> String {
        match self.rank {
            Some(rank) => format!("rank {rank}"),
            None => format!("a process on {}", self.host),
        }
    }
}
