//! Whether a thread stands on a stack of its own, with free memory below the stack
//! pointer.
//!
//! A coroutine's stack may be a few kilobytes amid other memory, and from outside it cannot be seen
//! where it ends. So only two kinds of stack are used, known by where they lie: the stack that the
//! kernel gives the first thread, and the stack of a C library's thread, which has the thread's own
//! data at its upper end.

use sbt_program::{arch::Registers, process::Occupied};

/// Bytes that must be free below the stack pointer: a frame with AMX tiles takes 11 KiB.
pub const FREE: u64 = 16 << 10;

/// The largest stack of a thread, bytes.
const MOST: u64 = 1 << 32;

/// Whether the stack pointer is on a thread's own stack. `all` are the mappings of its process, `word` reads
/// eight bytes of its memory.
pub fn is_own(
    registers: &Registers,
    all: &[Occupied],
    word: impl FnOnce(u64) -> Option<u64>,
) -> bool {
    let (end, base) = (registers.stack(), registers.thread_data());
    let Some(part) = all
        .iter()
        .find(|mapping| (mapping.start..mapping.end).contains(&end))
    else {
        return false;
    };
    if end - part.start < FREE {
        return false;
    }
    let is_threads = (end..part.end).contains(&base) && base - end < MOST;
    // The System V ABI: the first word of a thread's data is its own address.
    part.grows_down || is_threads && word(base) == Some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_known_by_where_it_lies() {
        let part = |start, end, grows_down| Occupied {
            start,
            end,
            grows_down,
        };
        let all = [
            part(0x10_0000, 0x20_0000, false),
            part(0x7000_0000, 0x7002_0000, true),
        ];
        let is_own = |stack, data, word: Option<u64>| {
            let mut registers = Registers::none();
            registers.set_stack(stack);
            registers.set_thread_data(data);
            super::is_own(&registers, &all, |_| word)
        };
        // The stack of the first thread.
        assert!(is_own(0x7001_0000, 0x15_0000, None));
        assert!(!is_own(0x7000_3fff, 0x15_0000, None), "too little below");
        // The stack of another thread.
        let base = 0x1f_f000;
        assert!(is_own(0x1f_0000, base, Some(base)));
        assert!(!is_own(0x10_3fff, base, Some(base)), "too little below");
        // A coroutine's stack: elsewhere, above the thread's data, or in a language's own memory.
        assert!(!is_own(0x1f_0000, 0x30_0000, Some(0x30_0000)));
        assert!(!is_own(0x1f_0000, 0x1e_0000, Some(0x1e_0000)));
        assert!(!is_own(0x1f_0000, base, Some(0)));
        assert!(!is_own(0x1f_0000, base, None));
        assert!(!is_own(0x5000_0000, base, Some(base)), "nothing is there");
    }
}
