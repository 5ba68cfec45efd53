//! Stops threads for looks at hangs: nobody but the tracer can.

use std::time::{Duration, Instant};

use sbt_program::{
    memory::{Memory, STACK},
    process,
    stopped::NotStopped,
    trace::{self, Id},
};

use super::Tracer;
use crate::source::ptrace::{
    stop::{Stop, StopReason},
    wire::Stood,
};

/// The longest wait for a thread.
const PATIENCE: Duration = Duration::from_millis(20);

/// The look at a thread that is under way.
pub(super) struct Look {
    thread: Id,
    state: State,
}

enum State {
    /// It has not stopped yet; since when it is asked.
    Asked(Instant),
    /// It has stopped, and stood so.
    Stood(Stood),
    /// It has gone on instead, or ended.
    Left,
}

impl Tracer {
    /// Stops a thread for a moment. Returns how it stood.
    pub(super) fn look(&mut self, thread: u32) -> Result<Stood, NotStopped> {
        let id = thread.cast_signed();
        let is_traced = self.threads.get(&id).is_some_and(|traced| !traced.ended);
        if !is_traced || trace::interrupt(id).is_err() {
            return Err(NotStopped::Left);
        }
        self.looking = Some(Look {
            thread: id,
            state: State::Asked(Instant::now()),
        });
        self.hear_until(PATIENCE, |this| {
            let state = this.looking.as_ref().map(|look| &look.state);
            !matches!(state, Some(State::Asked(_)))
        });
        match self.looking.take().map(|look| look.state) {
            Some(State::Stood(stood)) => Ok(stood),
            Some(State::Asked(_)) => Err(NotStopped::Late),
            Some(State::Left) | None => Err(NotStopped::Left),
        }
    }

    /// A thread has ended: a look at it is over.
    pub(super) fn looks_in_vain(&mut self, id: Id) {
        if let Some(look) = self.looking.as_mut().filter(|look| look.thread == id) {
            look.state = State::Left;
        }
    }

    /// A thread has stopped: notes how it stands, if it was asked to stop for a look. Where it stops
    /// for another reason, such as a breakpoint, it has gone on, and the kernel has forgotten the
    /// request (`ptrace_stop` in kernel/signal.c).
    pub(super) fn see(&mut self, stop: &Stop) {
        let id = stop.id();
        let look = self.looking.as_ref().filter(|look| look.thread == id);
        let Some(State::Asked(since)) = look.map(|look| &look.state) else {
            return;
        };
        let since = *since;
        self.looks_in_vain(id);
        if !matches!(stop.why(), StopReason::Asked | StopReason::Group) {
            return;
        }
        let Ok(mut registers) = stop.registers() else {
            return;
        };
        let space = self.threads.get(&id).and_then(|traced| traced.space);
        let space = space.and_then(|number| self.spaces.get(&number));
        // It has hit a breakpoint and not reported it yet.
        let at_breakpoint = registers.at_breakpoint();
        if space.is_some_and(|space| space.has_breakpoint(at_breakpoint))
            && process::has_pending(id.cast_unsigned(), libc::SIGTRAP)
        {
            registers.set_at(at_breakpoint);
        }
        // It executes the copy of an instruction for which a breakpoint stands.
        if let Some(home) = space.and_then(|space| space.home(registers.at())) {
            registers.set_at(home);
        }
        let memory = Memory {
            thread: id.cast_unsigned(),
        };
        let stack = memory.read(registers.stack(), STACK);
        if let Some(look) = &mut self.looking {
            look.state = State::Stood(Stood::new(registers, &stack, since.elapsed()));
        }
    }
}
