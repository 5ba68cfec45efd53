//! The processes that have the memory for whose change a thread waits.

use std::collections::HashMap;

use sbt_engine::hang::scene::{Doing, WaitFor};
use sbt_program::process::shared;

/// The processes that have shared memory, by device and inode of its file; looked up once each.
#[derive(Default)]
pub struct Sharers(HashMap<(u64, u64), Option<Vec<u32>>>);

impl Sharers {
    /// The processes that have the memory for whose change a thread of `process` waits; `None` if no
    /// other process shares it, if others may get it, or if one of those was not looked at.
    pub fn of(&mut self, process: u32, doing: &Doing, looked_at: &[u32]) -> Option<Vec<u32>> {
        let file = shared::closed(process, shared_address(doing)?)?;
        let found = self.0.entry(file).or_insert_with(|| shared::with(file));
        let found = found.as_ref()?;
        let are_known = found.iter().all(|process| looked_at.contains(process));
        are_known.then(|| found.clone())
    }
}

/// The address of the shared word that has to change before a thread goes on.
fn shared_address(doing: &Doing) -> Option<u64> {
    match doing {
        Doing::Waiting(
            WaitFor::Semaphore {
                address,
                shared: true,
            }
            | WaitFor::Condvar {
                address,
                shared: true,
            }
            | WaitFor::Futex {
                address,
                shared: true,
            }
            | WaitFor::Memory {
                address: Some(address),
                shared: true,
                ..
            },
        ) => Some(*address),
        _ => None,
    }
}
