//! A thread of the target, as what is done at a breakpoint looks at it.

use super::{counters::Counters, space::Space};
use crate::source::twin::{Machine, Records};
use sbt_program::{
    memory::Memory,
    trace::{Id, Registers},
};

/// A thread that stands, with its memory, as programs look at it.
pub struct Standing<'a> {
    /// Its registers.
    pub registers: &'a Registers,
    /// It.
    pub id: Id,
    /// Its process.
    pub process: u32,
    /// Its memory; none before it has executed a program.
    pub space: Option<&'a Space>,
    /// What is counted, if anything is.
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
        // Of a process that has forbidden to look into it only what is open already may be read.
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
        // Where to return to is only known to the kernel then.
        if self
            .space
            .is_some_and(|space| space.is_of_return_probe(word))
        {
            return 0;
        }
        word
    }
}
