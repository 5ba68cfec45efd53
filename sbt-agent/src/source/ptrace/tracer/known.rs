//! Processes of which the tracer has heard: that existed before, or whose parents reported them.
//! Children forked in any other way cannot be traced.

use std::collections::HashSet;

/// The number of processes that are remembered.
const MOST: usize = 1 << 16;

/// The known processes.
#[derive(Debug, Default)]
pub struct KnownProcesses {
    processes: HashSet<u32>,
    /// Whether there were more than can be remembered.
    are_too_many: bool,
}

impl KnownProcesses {
    /// Adds processes.
    pub fn tell(&mut self, processes: impl IntoIterator<Item = u32>) {
        for process in processes {
            let has_room = self.processes.len() < MOST;
            self.are_too_many |= !has_room && !self.processes.contains(&process);
            if has_room {
                self.processes.insert(process);
            }
        }
    }

    /// Whether this process is known, or may have been forgotten.
    pub fn may_have(&self, process: u32) -> bool {
        self.are_too_many || self.processes.contains(&process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_nothing_is_said() {
        let mut known = KnownProcesses::default();
        let most = u32::try_from(MOST).unwrap();
        known.tell(0..most);
        known.tell([3]);
        assert!(known.may_have(3));
        assert!(!known.may_have(most));
        known.tell([most]);
        assert!(known.may_have(most + 1));
        assert_eq!(known.processes.len(), MOST);
    }
}
