//! Whether a thread goes round in a loop for ever, as its memory is: found out by simulating the loop
//! until the thread is where it was, with the same values.

use std::collections::HashSet;

use crate::arch::{Registers, rehearsal::Rehearsal};

pub use crate::arch::rehearsal::{Read, Word};

/// The most instructions that are simulated.
const MOST_STEPS: usize = 20_000;

/// The most words that a loop that waits reads.
const MOST_WORDS: usize = 64;

/// A loop that nothing but a change of memory ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forever {
    /// The words that the loop reads, with their values: while these stay, the thread goes round.
    pub words: Vec<Word>,
    /// The words that decide how long the loop goes on, as far as they can be told from addresses
    /// and the thread's own values.
    pub awaited: Vec<u64>,
}

/// The loop in which a thread with these registers goes round, unless the memory changes that `read`
/// reads; `None` if the loop ends, changes memory that others read, or cannot be followed.
pub fn goes_round(registers: &Registers, read: Read) -> Option<Forever> {
    // Once to a state that comes again, and once round from there: only what is read there counts.
    let mut thread = Rehearsal::new(registers, read)?;
    let state = comes_again(&mut thread)?;
    thread.forget();
    let mut steps = 0;
    loop {
        let is_back = thread.step()? && thread.state() == state;
        steps += 1;
        if is_back {
            break;
        }
        if steps > MOST_STEPS {
            return None;
        }
    }
    let words = thread.loads();
    let is_known = !thread.is_seen() && !words.is_empty() && words.len() <= MOST_WORDS;
    is_known.then(|| Forever {
        words,
        awaited: thread.decisive().collect(),
    })
}

/// Goes on to a state that was there before.
fn comes_again(thread: &mut Rehearsal) -> Option<u64> {
    let mut states = HashSet::new();
    for _ in 0..MOST_STEPS {
        if thread.step()? {
            let state = thread.state();
            if !states.insert(state) {
                return Some(state);
            }
        }
    }
    None
}
