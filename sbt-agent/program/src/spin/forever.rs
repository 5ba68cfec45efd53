//! Whether a thread goes round in a loop for ever, as its memory is: found out by simulating the loop
//! until the thread is where it was, with the same values.

use std::collections::{BTreeMap, HashSet};

use crate::arch::{Registers, rehearsal::Rehearsal};

pub use crate::arch::rehearsal::{Read, Word, begun_by};

/// The most instructions that are simulated.
const MOST_STEPS: usize = 20_000;

/// The most words that a loop that waits reads.
const MOST_WORDS: usize = 64;

/// The most branches of a loop that are tried out.
const MOST_CHOICES: usize = 16;

/// A loop that nothing but a change of memory ends, if that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forever {
    /// The words that the loop reads, with their values: while these stay, the thread goes round.
    pub words: Vec<Word>,
    /// The words that decide in the program's own code how long the loop goes on, as far as they can be
    /// told from addresses and the thread's own values.
    pub awaited: Vec<u64>,
    /// Whether no change of memory ends it: whichever way those branches go that memory decides, the
    /// thread comes back, and has changed nothing.
    pub is_endless: bool,
}

/// The loop in which a thread with these registers goes round, unless the memory changes that `read`
/// reads; `None` if the loop ends, changes memory that others read, or cannot be followed. `is_own`:
/// whether the instruction at an address is the program's own: a C library looks at words for itself.
pub fn goes_round(
    registers: &Registers,
    read: Read,
    mut is_own: impl FnMut(u64) -> bool,
) -> Option<Forever> {
    // Once to a state that comes again, and once round from there: only what is read there counts.
    let mut thread = Rehearsal::new(registers, read)?;
    let state = comes_again(&mut thread)?;
    thread.forget();
    let mut steps = 0;
    let mut states = HashSet::from([state]);
    let mut choices: BTreeMap<u64, Rehearsal> = BTreeMap::new();
    loop {
        if choices.len() <= MOST_CHOICES
            && let Some(at) = thread.choice()
        {
            choices.entry(at).or_insert_with(|| thread.clone());
        }
        if thread.step()? {
            let now = thread.state();
            if now == state {
                break;
            }
            states.insert(now);
        }
        steps += 1;
        if steps > MOST_STEPS {
            return None;
        }
    }
    let is_endless =
        choices.len() <= MOST_CHOICES && choices.into_values().all(|at| is_idle(at, &states));
    let words = thread.loads();
    let is_known = !thread.is_seen() && !words.is_empty() && words.len() <= MOST_WORDS;
    let decisive = thread.decisive().filter(|(branch, _)| is_own(*branch));
    let mut awaited: Vec<u64> = decisive.map(|(_, word)| word).collect();
    awaited.sort_unstable();
    awaited.dedup();
    is_known.then_some(Forever {
        words,
        awaited,
        is_endless,
    })
}

/// Whether it makes no difference that a branch goes the other way: the thread comes back to one of
/// these states.
fn is_idle(mut thread: Rehearsal, states: &HashSet<u64>) -> bool {
    if thread.turn().is_none() {
        return false;
    }
    for _ in 0..MOST_STEPS {
        match thread.step() {
            None => return false,
            Some(true) if states.contains(&thread.state()) => return !thread.is_seen(),
            Some(_) => {}
        }
    }
    false
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
