//! The numbers of threads where the target lives in a pid namespace of its own.

use std::collections::HashMap;

use sbt_program::process;

/// The numbers of threads in sbt's own pid namespace, by their numbers in that of the target. `None`
/// where both are the same.
#[derive(Debug)]
pub struct Numbers(Option<HashMap<u32, u32>>);

impl Numbers {
    /// Those of the threads of a process.
    pub fn of(target: u32) -> Self {
        Self(process::has_other_numbers(target).then(HashMap::new))
    }

    /// The number of a thread; 0 if the thread has ended before it was known.
    pub fn get(&mut self, target: u32, thread: u32) -> u32 {
        let Self(Some(known)) = self else {
            return thread;
        };
        if let Some(number) = known.get(&thread) {
            return *number;
        }
        let own = |tid: u32| Some((process::innermost_number(tid)?, tid));
        *known = process::thread_ids(target).filter_map(own).collect();
        known.get(&thread).copied().unwrap_or(0)
    }

    /// A thread has ended: another may get its number.
    pub fn forget(&mut self, number: u32) {
        if let Self(Some(known)) = self {
            known.retain(|_, known| *known != number);
        }
    }
}
