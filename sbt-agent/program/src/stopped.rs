//! How a thread stood when it was stopped for a moment, and who can stop it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{arch::Registers, memory::Stack};

/// The state of a thread when it was stopped.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Its registers.
    pub registers: Registers,
    /// The top of its stack.
    pub stack: Stack,
    /// Time from the request to stop until the thread was released.
    pub held: Duration,
}

/// Why a thread was not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotStopped {
    /// The thread has ended or gone on, or is in a system call that would notice the stop.
    Left,
    /// The kernel forbids it: another process traces it, or sbt has no right to.
    Refused,
    /// The thread did not stop in time.
    Late,
}

/// A process that traces threads for sbt. Nobody else can stop these.
pub trait Tracer: Send + Sync {
    /// The id of the process.
    fn process(&self) -> u32;

    /// Stops a thread for a moment. Returns how it stood.
    fn stop(&self, thread: u32) -> Result<Stopped, NotStopped>;
}
