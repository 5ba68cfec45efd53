//! What is done once: which thread executes the routine of `pthread_once`, or initialises the static
//! variable, for whose end others wait.

use super::{
    names::View,
    scene::{CallSeen, Doing, WaitFor},
};

/// The two kinds of initialisation that one thread executes, while others wait for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once {
    /// The first use of a static variable (Itanium C++ ABI, 3.3.3).
    Variable,
    /// The routine of `pthread_once`, with which `std::call_once` works.
    Routine,
}

impl Once {
    fn is_of(call: &CallSeen) -> bool {
        call.function.as_deref().and_then(Self::of).is_some()
    }

    fn of(function: &str) -> Option<Self> {
        // Compilers put an ending like `.isra.0` behind the name of a function that they changed.
        match function.split('.').next().unwrap_or(function) {
            "__cxa_guard_acquire" => Some(Self::Variable),
            "pthread_once" | "__pthread_once" | "call_once"
            // To which it jumps: glibc's `pthread_once.c`, musl's `pthread_once.c`.
            | "__pthread_once_slow" | "__pthread_once_full" => Some(Self::Routine),
            _ => None,
        }
    }
}

/// The initialisation that a thread waits for, and the thread that executes it: the only one that can. `None`
/// if there are several, or if the calls of a thread are not known down to its beginning.
pub fn runner(view: &View, at: usize) -> Option<(Once, usize)> {
    let thread = view.thread(at);
    let (once, outside) = awaited(view, at)?;
    let here = &thread.stack.get(outside)?;
    let living = || {
        let all = 0..view.scene.threads.len();
        let of = move |other: &usize| {
            let seen = view.thread(*other);
            seen.id.process == thread.id.process && seen.doing != Doing::Ended
        };
        all.filter(of)
    };
    if view.scene.partial || !living().all(|other| view.thread(other).is_whole) {
        return None;
    }
    // Which variable or flag a thread further in has begun is not known: so it must be the only one.
    let may_run = |other: &usize| {
        let calls = view.thread(*other).stack.iter();
        // A thread that waits for an initialisation has not begun that one.
        let from = awaited(view, *other).map_or(0, |(_, outside)| outside + 1);
        calls.skip(from).any(|call| match once {
            Once::Variable => may_be_same(call, here),
            Once::Routine => Once::is_of(call),
        })
    };
    let mut all = living().filter(may_run);
    let first = all.next()?;
    all.next().is_none().then_some((once, first))
}

/// Whether calls may be of one function: overloaded functions have one name, and inlined ones no beginning of
/// their own.
fn may_be_same(call: &CallSeen, other: &CallSeen) -> bool {
    let is_named = call.function.is_some() && call.function == other.function;
    let is_there = call.begins.is_some() && call.begins == other.begins;
    call.binary == other.binary && (is_named || is_there)
}

/// The initialisation for whose end a thread waits, and how many calls further in it has been called:
/// `std::call_once` calls `pthread_once`.
fn awaited(view: &View, at: usize) -> Option<(Once, usize)> {
    let thread = view.thread(at);
    let Doing::Waiting(WaitFor::Futex { .. }) = thread.doing else {
        return None;
    };
    let inner = thread.stack.iter().position(Once::is_of)?;
    let (further, calls) = thread.stack.split_at(inner);
    let once = Once::of(calls[0].function.as_deref()?)?;
    let of_it = calls.iter().take_while(|call| Once::is_of(call)).count();
    further
        .iter()
        .all(|call| call.of_system)
        .then_some((once, inner + of_it))
}

#[cfg(test)]
mod tests {
    use crate::{
        hang::{
            judge,
            samples::{Seen, call, joins, mutex},
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
        // A thread whose calls are not known could be the one.
        seen.of(0).is_whole = false;
        assert_eq!(seen.hang().because, Some(HangCause::NobodyWakes));
        seen.of(0).is_whole = true;
        // Two threads could be the one.
        seen.thread(3, "three", word(0x77), &calls("config", "registry"));
        assert_eq!(seen.hang().because, Some(HangCause::NobodyWakes));
    }

    #[test]
    fn a_static_variable_is_that_of_the_function_in_a_library_that_has_it() {
        let mut seen = Seen::new();
        seen.thread(
            1,
            "one",
            word(0x88),
            "*__cxa_guard_acquire < *registry < work s.cpp:11 < run s.cpp:13",
        );
        // Executes it.
        let load = "*read < *load < *registry < begin s.cpp:30";
        seen.thread(2, "two", call("read", ""), load);
        // Works in the function that the first one came from.
        let holds = "*pthread_mutex_lock < work s.cpp:15 < run s.cpp:13";
        seen.thread(3, "three", mutex(0x99, 1), holds);
        let found = judge(&seen.0);
        assert!(
            found.is_none_or(|found| found.because != Some(HangCause::Cycle)),
            "two has begun it"
        );
    }

    #[test]
    fn a_routine_that_waits_for_the_end_of_one_that_wants_it_is_a_circle() {
        for inner in ["__pthread_once_slow", "__pthread_once_full"] {
            let mut seen = Seen::new();
            seen.thread(1, "one", word(0x88), "*pthread_once < user s.cpp:6");
            let calls = format!("init s.cpp:5 < *{inner} < start s.cpp:7");
            seen.thread(2, "two", joins(1), &calls);
            let hang = seen.hang();
            assert_eq!(hang.because, Some(HangCause::Cycle), "{hang:?}");
        }
    }

    #[test]
    fn a_routine_that_wants_itself_waits_for_itself() {
        let mut seen = Seen::new();
        let calls = "*pthread_once < lookup s.cpp:10 < build s.cpp:11 < *pthread_once < lookup s.cpp:10 < \
                     run s.cpp:13";
        seen.thread(1, "one", word(0x88), calls);
        let hang = seen.hang();
        assert_eq!(hang.because, Some(HangCause::OwnLock), "{hang:?}");
        // Of several flags another thread may execute the one.
        let mut two = Seen(seen.0.clone());
        two.thread(
            2,
            "two",
            call("clock_nanosleep", ""),
            "*usleep < init s.cpp:20 < *pthread_once < warm s.cpp:3",
        );
        let found = judge(&two.0);
        assert!(found.is_none_or(|found| found.because != Some(HangCause::OwnLock)));
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
