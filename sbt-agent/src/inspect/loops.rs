//! Threads that go round in loops that only wait for memory to change: found by executing the loops
//! on copies of the registers of the stopped threads, with their memory as it is.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use sbt_engine::hang::scene::WaitFor;
use sbt_program::{
    arch::Registers,
    criticals,
    memory::Memory,
    spin::forever::{Forever, Word, goes_round},
};

use super::seen::InspectedThread;

/// How long all threads together may take at one look.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// How often the words are read at the end, and the pause between two readings: threads that hand
/// over to each other change them.
const READINGS: u32 = 50;
const PAUSE: Duration = Duration::from_micros(200);

/// A loop that nothing but a change of memory ends.
#[derive(Clone, Debug)]
pub struct Looping {
    found: Forever,
    /// Number of the look since which the thread is in the loop and the memory has not changed.
    since: u32,
}

impl Looping {
    /// A loop found at the look `turn`. `before`: the loop of earlier looks, which goes on if it is the
    /// same.
    pub fn of(found: Forever, turn: u32, before: Option<&Self>) -> Self {
        let same = before.filter(|before| before.found == found);
        Self {
            since: same.map_or(turn, |before| before.since),
            found,
        }
    }

    /// Whether the thread was in the loop at a look before the last, `turn`. It has not left the loop
    /// since if the memory has not changed.
    pub const fn lasts(&self, turn: u32) -> bool {
        self.since < turn
    }

    /// Whether all words that the loop reads have their values still.
    fn is_same(&self, memory: Memory) -> bool {
        let is_same = |word: &Word| {
            let mut bytes = [0; 8];
            let read = memory.fill(word.address, &mut bytes[..word.size]);
            read.is_ok_and(|count| count == word.size) && u64::from_le_bytes(bytes) == word.value
        };
        self.found.words.iter().all(is_same)
    }

    /// The wait of the thread. `is_own`: whether memory is the process's own. `naps`: whether the
    /// thread sleeps in each turn.
    pub fn wait(&self, process: u32, naps: bool, mut is_own: impl FnMut(u64) -> bool) -> WaitFor {
        let address = match self.found.awaited.as_slice() {
            [one] => Some(*one),
            _ => None,
        };
        let shared = self.found.words.iter().any(|word| !is_own(word.address));
        WaitFor::Memory {
            address,
            name: address.and_then(|address| criticals::variable(process, address)),
            shared,
            naps,
            is_endless: self.found.is_endless,
        }
    }
}

/// The loop in which a stopped thread goes round. `is_own`: whether the instruction at an address is the
/// program's own. `naps`: whether the thread sleeps in each turn; what ends such a loop must be known then,
/// since a program may sleep for no other purpose.
pub fn found(
    registers: &Registers,
    memory: Memory,
    is_own: impl FnMut(u64) -> bool,
    naps: bool,
) -> Option<Forever> {
    let read = |address: u64, bytes: &mut [u8]| {
        let read = memory.fill(address, bytes);
        read.is_ok_and(|count| count == bytes.len())
    };
    let found = goes_round(registers, &read, is_own)?;
    let is_reserved = |word: &u64| {
        let name = criticals::variable(memory.thread, *word);
        // Names that C leaves to its library (C17 7.1.3).
        name.is_some_and(|name| name.starts_with("__"))
    };
    let is_sleep = naps && !found.is_endless && found.awaited.iter().all(is_reserved);
    (!is_sleep).then_some(found)
}

/// Whether the words of all these threads' loops keep their values for a while; those threads whose
/// words do not are no longer in their loops.
pub fn watch(threads: &mut [InspectedThread], turn: u32) {
    let lasts = |seen: &InspectedThread| seen.lasting_loop(turn).is_some();
    let mut all: Vec<&mut InspectedThread> =
        threads.iter_mut().filter(|seen| lasts(seen)).collect();
    let begun = Instant::now();
    for _ in 0..READINGS {
        if all.is_empty() || begun.elapsed() > PATIENCE {
            return;
        }
        for seen in &mut all {
            seen.check_loop();
        }
        sleep(PAUSE);
    }
}

/// Whether a thread's loop has all its values still.
pub fn is_same(seen: &InspectedThread, looping: &Looping) -> bool {
    looping.is_same(Memory {
        thread: seen.id.thread,
    })
}
