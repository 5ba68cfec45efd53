//! The futex on which a thread sleeps.

use super::call::{Call, LOCK_PI2, futex_operation};
use sbt_program::{memory::Memory, syscalls};

/// A futex on which a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Futex {
    /// Address of the futex word.
    pub address: u64,
    /// The value that the word must have for the thread to sleep.
    pub expected: u32,
    /// Whether it is a mutex with priority inheritance, which the kernel manages.
    pub inherits: bool,
    /// Whether the call is the plain `FUTEX_WAIT` by which C libraries wait for locks.
    pub plain: bool,
    /// Whether the wait ends by itself after some time.
    pub timed: bool,
    /// Whether only one process uses it.
    pub private: bool,
}

impl Futex {
    /// The futex of a system call; `None` if the call does not wait for one.
    pub fn of(call: Call, memory: Memory) -> Option<Self> {
        let Call::In {
            number, arguments, ..
        } = call
        else {
            return None;
        };
        #[allow(clippy::cast_possible_truncation, reason = "it is a number of 32 bits")]
        let word = |value: u64| value as u32;
        match number {
            libc::SYS_futex => {
                let operation = futex_operation(arguments[1]);
                let inherits = matches!(operation, libc::FUTEX_LOCK_PI | LOCK_PI2);
                let waits = matches!(operation, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET);
                (waits || inherits).then(|| Self {
                    address: arguments[0],
                    expected: word(arguments[2]),
                    inherits,
                    plain: operation == libc::FUTEX_WAIT,
                    timed: arguments[3] != 0,
                    private: arguments[1] & 128 != 0,
                })
            }
            syscalls::FUTEX_WAIT => Some(Self {
                address: arguments[0],
                expected: word(arguments[1]),
                inherits: false,
                plain: false,
                timed: arguments[4] != 0,
                private: arguments[3] & 128 != 0,
            }),
            libc::SYS_futex_waitv => Some(Self {
                // The first of several: each has value, address and flags.
                address: memory.word(arguments[0].checked_add(8)?)?,
                expected: word(memory.word(arguments[0])?),
                inherits: false,
                plain: false,
                timed: arguments[3] != 0,
                private: memory.word(arguments[0].checked_add(16)?)? & 128 != 0,
            }),
            _ => None,
        }
        .filter(|futex| futex.address != 0)
    }

    /// Whether a thread that waits here may wait for the end of the thread with the expected number:
    /// the word holds the number, and the kernel wakes such waiters without regard to processes.
    /// `memory`: of the thread.
    pub fn may_be_join(&self, memory: Memory) -> bool {
        let word = memory.bytes(self.address).map(u32::from_ne_bytes);
        !self.private && !self.inherits && word == Some(self.expected)
    }
}
