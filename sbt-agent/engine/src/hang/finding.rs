//! Findings at a barrier, before the sentences are made of them.

use super::end::Grade;
use crate::report::{HangCause, HangKind};

/// What is found at one barrier, or among threads that wait for locks only. Threads are indices
/// into the scene.
pub struct Finding {
    /// Index of the barrier in the scene; `None` if no barrier is concerned.
    pub barrier: Option<usize>,
    pub grade: Grade,
    pub because: Option<HangCause>,
    /// Whether nothing that may still happen changes the finding.
    pub for_ever: bool,
    /// The thread to be described first, if one can be named.
    pub lead: Option<usize>,
    /// Whether the cause lies at another barrier.
    pub elsewhere: bool,
    /// The missing threads, the worst first; without a barrier, the waiting threads.
    pub who: Vec<usize>,
    /// Whether something outside of the program decides whether the threads go on.
    pub outside: bool,
}

impl Finding {
    /// Whether the waiting threads will ever go on.
    pub fn kind(&self) -> HangKind {
        match self.grade {
            Grade::Stuck | Grade::Unclear if self.outside => HangKind::Outside,
            Grade::Lost if self.for_ever => HangKind::Never,
            Grade::Lost | Grade::Stuck => HangKind::Stuck,
            Grade::Unclear => HangKind::Unclear,
            Grade::Slow => HangKind::Slow,
        }
    }
}
