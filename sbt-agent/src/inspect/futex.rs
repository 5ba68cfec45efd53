//! The futex that a thread sleeps on.

use super::call::{Call, LOCK_PI2, futex_operation};
use sbt_program::{memory::Memory, syscalls};

/// A futex that a thread sleeps on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts, each of which may be so or not"
)]
pub struct Futex {
    /// Its address.
    pub address: u64,
    /// What its word must be for the thread to sleep.
    pub expected: u32,
    /// Of a mutex that the kernel knows.
    pub inherits: bool,
    /// It was asked for as C libraries do to wait for locks, not for other threads' deeds.
    pub plain: bool,
    /// The wait ends by itself after some time.
    pub timed: bool,
    /// Other processes do not share it.
    pub private: bool,
}

impl Futex {
    /// Of a system call; `None` if it does not wait for one.
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
                // The first of several: value, address, flags.
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
}
