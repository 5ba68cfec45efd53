//! Tells that a thread which is at the same place at every look has gone on between them: threads
//! that get a contended lock thousands of times a second are nearly always seen where they wait for
//! it, since a look holds the thread that would have it.

use sbt_program::sites::{CallAt, Called, KnownRegisters};

/// The most words of a function's stack that are compared.
const WORDS: u64 = 64;

/// The variables of a function of the program, where it calls a function of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variables {
    /// The return address of the call.
    address: u64,
    /// The function's stack pointer.
    sp: u64,
    /// The registers that called functions preserve.
    kept: KnownRegisters,
    bp: Option<u64>,
    /// The function's stack.
    words: Vec<Option<u64>>,
}

impl Variables {
    /// The variables of the innermost function of the program's own code; `None` if that is not in
    /// a call of a library. `word` reads the word at an address of memory.
    pub fn of(
        calls: &[CallAt],
        word: &dyn Fn(u64) -> Option<u64>,
        is_library: impl Fn(&Called) -> bool,
    ) -> Option<Self> {
        let own = calls.iter().position(|call| !is_library(&call.called))?;
        let call = calls.get(own).filter(|_| own > 0)?;
        // The function's stack ends with the return address to its caller.
        let end = calls.get(own + 1).map_or(call.sp, |outer| outer.sp);
        let words = end.saturating_sub(call.sp) / 8;
        let words = (0..words.min(WORDS)).map(|at| word(call.sp + 8 * at));
        Some(Self {
            address: call.address,
            sp: call.sp,
            kept: call.kept,
            bp: call.bp,
            words: words.collect(),
        })
    }

    /// Whether the thread has gone on from `before` until now and come back to the same place.
    pub fn follow(&self, before: &Self) -> bool {
        let differ = |pair: (&Option<u64>, &Option<u64>)| match pair {
            (Some(a), Some(b)) => a != b,
            _ => false,
        };
        let at_one_place = (self.address, self.sp) == (before.address, before.sp);
        let mut kept = self.kept.iter().zip(&before.kept);
        let mut words = self.words.iter().zip(&before.words);
        let differ_at_all = kept.any(differ) || words.any(differ) || differ((&self.bp, &before.bp));
        at_one_place && differ_at_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_value_of_a_variable_tells_that_the_thread_went_on() {
        let at = |kept, word| Variables {
            address: 1,
            sp: 2,
            kept: [kept; _],
            bp: Some(3),
            words: vec![Some(7), word],
        };
        let first = at(Some(1), Some(2));
        assert!(!first.follow(&first));
        assert!(at(Some(9), Some(2)).follow(&first));
        assert!(at(Some(1), Some(9)).follow(&first));
        assert!(!at(None, None).follow(&first), "unknown");
        let held_in_bp = Variables {
            bp: Some(4),
            ..first.clone()
        };
        assert!(held_in_bp.follow(&first));
        let elsewhere = Variables {
            address: 9,
            ..at(Some(9), None)
        };
        assert!(!elsewhere.follow(&first), "told by the places");
    }
}
