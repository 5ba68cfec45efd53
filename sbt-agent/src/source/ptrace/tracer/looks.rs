//! Stops threads for looks at hangs: nobody but the tracer can.

use std::time::{Duration, Instant};

use sbt_program::{
    memory::{Memory, STACK},
    process,
    trace::{self, Id},
};

use super::Tracer;
use crate::source::ptrace::{stop::Stop, wire::Stood};

/// How many threads are asked to stop together. Each is held until those before it were read.
const TOGETHER: usize = 8;

/// The longest wait for threads that were asked together, and for all of them.
const PATIENCE: Duration = Duration::from_millis(20);
const PATIENCE_FOR_ALL: Duration = Duration::from_millis(150);

/// A thread that was asked to stop for a look.
pub(super) enum Look {
    /// It has not stopped yet; since when it is asked.
    Asked(Instant),
    /// It has stopped, and stood so.
    Stood(Stood),
}

impl Tracer {
    /// Stops threads, each for a moment. Returns how they stood, in the order of `threads`; `None` for
    /// those that are not traced, have ended or did not stop in time.
    pub(super) fn look(&mut self, threads: &[u32]) -> Vec<Option<Stood>> {
        let begun = Instant::now();
        for part in threads.chunks(TOGETHER) {
            let rest = PATIENCE_FOR_ALL.saturating_sub(begun.elapsed());
            if rest.is_zero() {
                break;
            }
            for thread in part {
                let id = thread.cast_signed();
                let is_traced = self.threads.get(&id).is_some_and(|traced| !traced.ended);
                if is_traced && trace::interrupt(id).is_ok() {
                    self.looks.insert(id, Look::Asked(Instant::now()));
                }
            }
            self.hear_until(rest.min(PATIENCE), |this| {
                let mut asked = part
                    .iter()
                    .map(|thread| this.looks.get(&thread.cast_signed()));
                !asked.any(|look| matches!(look, Some(Look::Asked(_))))
            });
        }
        let mut looks = std::mem::take(&mut self.looks);
        let stood = |thread: &u32| match looks.remove(&thread.cast_signed())? {
            Look::Asked(_) => None,
            Look::Stood(stood) => Some(stood),
        };
        threads.iter().map(stood).collect()
    }

    /// Notes how a thread stands, if it was asked to stop for a look.
    pub(super) fn see(&mut self, stop: &Stop) {
        let id: Id = stop.id();
        let Some(look) = self.looks.get_mut(&id) else {
            return;
        };
        let (Look::Asked(since), Ok(mut registers)) = (&*look, stop.registers()) else {
            return;
        };
        // It has hit a breakpoint and not reported it yet.
        if process::has_pending(id.cast_unsigned(), libc::SIGTRAP) {
            registers.set_at(registers.at_breakpoint());
        }
        let space = self.threads.get(&id).and_then(|traced| traced.space);
        let space = space.and_then(|number| self.spaces.get(&number));
        // It executes the copy of an instruction for which a breakpoint stands.
        if let Some(home) = space.and_then(|space| space.home(registers.at())) {
            registers.set_at(home);
        }
        let memory = Memory {
            thread: id.cast_unsigned(),
        };
        let stack = memory.read(registers.stack(), STACK);
        *look = Look::Stood(Stood::new(registers, &stack, since.elapsed()));
    }
}
