//! Tells that a thread which is at the same place at every look has gone on between them: threads
//! that get a contended lock thousands of times a second are nearly always seen where they wait for
//! it, since a look holds the thread that would have it.

use sbt_program::sites::{CallAt, Called, KnownRegisters};

/// The most functions whose variables are compared.
const FUNCTIONS: usize = 4;

/// The variables that a function of the program keeps in registers while it calls another: nobody
/// else can write them, unlike its stack, which it may share with other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Registers {
    /// Where the function goes on after the call.
    address: u64,
    /// The function's stack pointer.
    sp: u64,
    /// The registers that called functions preserve.
    kept: KnownRegisters,
    /// The frame pointer, which may hold a variable as well.
    bp: Option<u64>,
}

impl Registers {
    /// `None` if nothing is known of them.
    fn of(call: &CallAt) -> Option<Self> {
        // Where the unwinding rules of an inner function are unknown, the frame pointer may be its own.
        call.kept.iter().any(Option::is_some).then_some(Self {
            address: call.address,
            sp: call.sp,
            kept: call.kept,
            bp: call.bp,
        })
    }

    fn differ(&self, before: &Self) -> bool {
        let differ = |pair: (&Option<u64>, &Option<u64>)| match pair {
            (Some(a), Some(b)) => a != b,
            _ => false,
        };
        self.kept.iter().zip(&before.kept).any(differ) || differ((&self.bp, &before.bp))
    }
}

/// The variables of the program's own functions that a thread is in, where the innermost of them has
/// called a function of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variables(Vec<Registers>);

impl Variables {
    /// The variables of the innermost functions of the program's own code; `None` if these are not
    /// in a call of a library.
    pub fn of(calls: &[CallAt], is_library: impl Fn(&Called) -> bool) -> Option<Self> {
        let own = calls.iter().position(|call| !is_library(&call.called))?;
        if own == 0 {
            return None;
        }
        let functions = calls[own..]
            .iter()
            .take_while(|call| !is_library(&call.called));
        let known = functions.take(FUNCTIONS).map_while(Registers::of);
        Some(Self(known.collect()))
    }

    /// Whether the thread has gone on from `before` until now and come back to the same place.
    pub fn follow(&self, before: &Self) -> bool {
        let place = |it: &Registers| (it.address, it.sp);
        let mut pairs = self.0.iter().zip(&before.0);
        let is_same_place = pairs
            .clone()
            .all(|(now, before)| place(now) == place(before));
        is_same_place && pairs.any(|(now, before)| now.differ(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_value_of_a_variable_tells_that_the_thread_went_on() {
        let inner = Registers {
            address: 1,
            sp: 2,
            kept: [Some(7); _],
            bp: Some(3),
        };
        let outer = |kept, sp| Registers {
            address: 9,
            sp,
            kept: [kept; _],
            bp: None,
        };
        let first = Variables(vec![inner, outer(Some(1), 8)]);
        let follows = |now| Variables(now).follow(&first);
        assert!(!follows(vec![inner, outer(Some(1), 8)]));
        assert!(follows(vec![inner, outer(Some(5), 8)]));
        assert!(follows(vec![Registers {
            bp: Some(4),
            ..inner
        }]));
        assert!(!follows(vec![inner, outer(None, 8)]), "unknown");
        assert!(
            !follows(vec![inner, outer(Some(5), 6)]),
            "told by the places"
        );
    }
}
