//! Adapts a stopped thread of the target to the programs that run at breakpoints.

use super::{counters::Counters, space::Space};
use crate::source::twin::{Machine, Records};
use sbt_program::{arch::Registers, memory::Memory, trace::Id};

/// A stopped thread with its memory, as the programs see it.
pub struct Standing<'a> {
    /// Its registers.
    pub registers: &'a Registers,
    /// The thread.
    pub id: Id,
    /// Its process.
    pub process: u32,
    /// Its memory; `None` before it has executed a program.
    pub space: Option<&'a Space>,
    /// The counters, if any are counted.
    pub counters: Option<&'a Counters>,
}

impl Machine for Standing<'_> {
    fn registers(&self) -> &Registers {
        self.registers
    }

    fn tell_counters(&self, seq: u32, time_ns: u64, out: &mut Records) {
        if let Some(counters) = self.counters {
            counters.tell((self.process, self.id), seq, time_ns, out);
        }
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let memory = Memory {
            thread: self.id.cast_unsigned(),
        };
        let all = memory
            .fill(address, bytes)
            .is_ok_and(|count| count == bytes.len());
        let Some(space) = self.space else {
            return all;
        };
        // If the process forbids looking into it, only memory that is open already can be read.
        if all {
            space.uncover(address, bytes);
        }
        all || space.read(address, bytes)
    }

    fn word(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        if !self.read(address, &mut bytes) {
            return 0;
        }
        let word = u64::from_ne_bytes(bytes);
        // At a return probe only the kernel knows the real return address.
        if self
            .space
            .is_some_and(|space| space.is_of_return_probe(word))
        {
            return 0;
        }
        word
    }
}
