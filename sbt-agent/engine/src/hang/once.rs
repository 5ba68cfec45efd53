//! What is done once: which thread executes the routine of `pthread_once`, or initialises the static
//! variable, for whose end others wait.

use super::{
    names::View,
    scene::{CallSeen, Doing, WaitFor},
};

/// What is done once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once {
    /// The first use of a static variable (Itanium C++ ABI, 3.3.3).
    Variable,
    /// The routine of `pthread_once`, with which `std::call_once` works.
    Routine,
}

impl Once {
    fn of(function: &str) -> Option<Self> {
        match function {
            "__cxa_guard_acquire" => Some(Self::Variable),
            "pthread_once" | "__pthread_once" | "call_once" => Some(Self::Routine),
            _ => None,
        }
    }
}

/// For what that is done once a thread waits, and the thread that does it: the only one that is further in
/// than the place at which this one waits. `None` if it is not known.
pub fn runner(view: &View, at: usize) -> Option<(Once, usize)> {
    let thread = view.thread(at);
    let address = awaited(view, at)?;
    let own = thread.stack.iter().position(|call| !call.of_system)?;
    let mut inner = thread.stack[..own].iter().rev();
    let once = inner.find_map(|call| Once::of(call.function.as_deref()?))?;
    let here = &thread.stack[own];
    let is_here = |call: &CallSeen| {
        let is_same = (&call.function, &call.binary) == (&here.function, &here.binary);
        // The routine is called from the same instruction, and the variable initialised further on.
        is_same && (once == Once::Variable || call.offset == here.offset)
    };
    let is_in = |other: &usize| {
        let seen = view.thread(*other);
        if seen.id.process != thread.id.process || seen.doing == Doing::Ended {
            return false;
        }
        // Where it waits for the same, it is not in yet.
        let waits = awaited(view, *other) == Some(address);
        let from = if waits || once == Once::Variable {
            1
        } else {
            0
        };
        let outer = seen.stack.iter().filter(|call| !call.of_system);
        outer.skip(from).any(is_here)
    };
    let mut all = (0..view.scene.threads.len()).filter(is_in);
    let one = all.next().filter(|_| here.function.is_some())?;
    all.next().is_none().then_some((once, one))
}

fn awaited(view: &View, at: usize) -> Option<u64> {
    match view.thread(at).doing {
        Doing::Waiting(WaitFor::Futex { address, .. }) => Some(address),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        hang::{
            samples::Seen,
            scene::{Doing, WaitFor},
        },
        report::HangCause,
    };

    fn word(address: u64) -> Doing {
        Doing::Waiting(WaitFor::Futex {
            address,
            shared: false,
        })
    }

    #[test]
    fn static_variables_that_need_each_other_are_a_circle() {
        let mut seen = Seen::new();
        let calls = |last: &str, first: &str| {
            format!(
                "*__cxa_guard_acquire < {last} s.cpp:11 < Make s.cpp:7 < {first} s.cpp:9 < run s.cpp:13"
            )
        };
        seen.thread(1, "one", word(0x88), &calls("registry", "config"));
        seen.thread(2, "two", word(0x98), &calls("config", "registry"));
        let hang = seen.hang();
        assert_eq!(hang.because, Some(HangCause::Cycle), "{hang:?}");
        assert_eq!(
            hang.text,
            "one waits in registry() s.cpp:11 for the static variable (0x88) that two initialises, which \
             waits in config() s.cpp:11 for the static variable (0x98) that one initialises: they wait \
             for each other for ever"
        );
        // Two threads could be the one.
        seen.thread(3, "three", word(0x77), &calls("config", "registry"));
        assert_eq!(seen.hang().because, Some(HangCause::NobodyWakes));
    }

    #[test]
    fn a_routine_that_wants_itself_waits_for_itself() {
        let mut seen = Seen::new();
        let calls = "*pthread_once < lookup s.cpp:10 < build s.cpp:11 < *pthread_once < lookup s.cpp:10 < \
                     run s.cpp:13";
        seen.thread(1, "one", word(0x88), calls);
        let hang = seen.hang();
        assert_eq!(hang.because, Some(HangCause::OwnLock), "{hang:?}");
        assert!(
            hang.text.starts_with(
                "one waits in lookup() s.cpp:10 for the routine of pthread_once() (0x88) that it executes \
                 itself"
            ),
            "{}",
            hang.text
        );
    }
}
