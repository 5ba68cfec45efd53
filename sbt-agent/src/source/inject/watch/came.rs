//! Threads as the programs for hits see them.

use crate::source::{inject::ring::Noted, twin::Machine};
use sbt_program::arch::{Registers, trampoline::Capture};

/// A thread that has come to a place: registers and memory as it has noted them. Other memory is not
/// read: it may be another by now.
pub struct Came<'a> {
    /// As far as they were noted.
    pub registers: Registers,
    /// What the thread has written.
    pub noted: &'a Noted,
    /// What was to be noted of the object.
    pub capture: Capture,
}

impl Machine for Came<'_> {
    fn registers(&self) -> &Registers {
        &self.registers
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let Self { noted, capture, .. } = self;
        let mut object = [0; 16];
        for (to, word) in object.chunks_exact_mut(8).zip(noted.memory) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let object_at = capture
            .memory
            .map(|above| noted.object.wrapping_add_signed(above.into()));
        let caller_at = noted.stack.wrapping_add(capture.stack_moved.into());
        let caller = noted.caller.to_le_bytes();
        copied(object_at, &object, address, bytes)
            || copied(Some(caller_at), &caller, address, bytes)
    }
}

/// Copies from bytes that were noted from the address `from` on. False if they do not hold all that is
/// asked for.
fn copied(from: Option<u64>, noted: &[u8], address: u64, bytes: &mut [u8]) -> bool {
    let part = || {
        let above = usize::try_from(address.checked_sub(from?)?).ok()?;
        noted.get(above..above.checked_add(bytes.len())?)
    };
    match part() {
        Some(part) => {
            bytes.copy_from_slice(part);
            true
        }
        None => false,
    }
}

/// A thread that has ended. What its barriers held then is not known.
pub struct Gone(pub Registers);

impl Machine for Gone {
    fn registers(&self) -> &Registers {
        &self.0
    }

    fn read(&self, _address: u64, _bytes: &mut [u8]) -> bool {
        false
    }
}
