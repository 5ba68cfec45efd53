//! Which communicator of MPI is meant by its address in one of the processes.

use rustc_hash::FxHashMap;

use super::spaces::own;
use crate::{
    event::{self, SHARED},
    target::communicator::{self, Communicator},
};

/// A communicator that was freed may leave its address to another: after so long
/// it is looked at again, ns.
const TRUSTED_NS: u64 = 1_000_000_000;

/// Those that were met.
#[derive(Default)]
pub struct Communicators {
    met: FxHashMap<u64, Met>,
    objects: FxHashMap<Communicator, u64>,
}

#[derive(Clone, Copy)]
struct Met {
    until_ns: u64,
    object: u64,
    count: Option<u32>,
}

impl Communicators {
    /// What stands for the communicator at an address of a process (its number and
    /// itself), and how many ranks it has, if that is known.
    pub fn find(&mut self, of: (u16, u32), at: u64, now_ns: u64) -> (u64, Option<u32>) {
        let own = own(of.0, at);
        if let Some(met) = self.met.get(&own).filter(|met| now_ns < met.until_ns) {
            return (met.object, met.count);
        }
        let found = communicator::at(of.1, at);
        let met = match (found, self.met.get(&own)) {
            (Some((communicator, size)), _) => Met {
                until_ns: now_ns.saturating_add(TRUSTED_NS),
                object: self.object(communicator, at),
                count: Some(size),
            },
            // The process may have ended since.
            (None, Some(met)) => *met,
            (None, None) => Met {
                until_ns: 0,
                object: own,
                count: None,
            },
        };
        self.met.insert(own, met);
        (met.object, met.count)
    }

    /// Nothing lies any more where it lay in the memory of a process.
    pub fn forget(&mut self, space: u16) {
        self.met.retain(|own, _| event::space(*own) != space);
    }

    /// What stands for it in all processes.
    fn object(&mut self, communicator: Communicator, at: u64) -> u64 {
        if let Some(known) = self.objects.get(&communicator) {
            return *known;
        }
        // The address by which it was met first, unless that stands for another.
        let mut new = own(SHARED, at);
        while self.objects.values().any(|known| *known == new) {
            new += 1;
        }
        self.objects.insert(communicator, new);
        new
    }
}
