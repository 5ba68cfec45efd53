//! The program's variables in which the objects lie for which threads wait.

use std::collections::BTreeSet;

use sbt_engine::hang::scene::{Doing, VariableSeen, WaitFor};
use sbt_program::criticals;

/// The most objects that are looked for: each takes a pass over all symbols of a file.
const MOST: usize = 16;

/// The variables for these waits, each with its process.
pub fn of<'a>(waits: impl Iterator<Item = (u32, &'a Doing)>) -> Vec<VariableSeen> {
    let objects: BTreeSet<(u32, u64)> = waits
        .filter_map(|(process, doing)| Some((process, object(doing)?)))
        .collect();
    let objects = objects.into_iter().take(MOST);
    objects
        .filter_map(|(process, address)| {
            let (name, offset) = criticals::variable_around(process, address)?;
            Some(VariableSeen {
                process,
                address,
                name,
                offset,
            })
        })
        .collect()
}

/// The address of the object for which a thread sleeps.
const fn object(doing: &Doing) -> Option<u64> {
    match doing {
        Doing::Waiting(
            WaitFor::Mutex { address, .. }
            | WaitFor::RwLock { address, .. }
            | WaitFor::Semaphore { address, .. }
            | WaitFor::Condvar { address, .. }
            | WaitFor::Futex { address, .. },
        ) => Some(*address),
        _ => None,
    }
}
