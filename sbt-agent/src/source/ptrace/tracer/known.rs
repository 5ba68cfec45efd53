//! Processes of which it is known how they have come into being: there before anybody looked, or
//! told of by who has forked them. What else is forked cannot be traced.

use std::collections::HashSet;

/// So many are remembered.
const MOST: usize = 1 << 16;

/// See above.
#[derive(Debug, Default)]
pub struct Known {
    processes: HashSet<u32>,
    /// There were more.
    are_too_many: bool,
}

impl Known {
    /// Some are there.
    pub fn tell(&mut self, processes: impl IntoIterator<Item = u32>) {
        for process in processes {
            let has_room = self.processes.len() < MOST;
            self.are_too_many |= !has_room && !self.processes.contains(&process);
            if has_room {
                self.processes.insert(process);
            }
        }
    }

    /// Whether one has been there, or may have.
    pub fn may_have(&self, process: u32) -> bool {
        self.are_too_many || self.processes.contains(&process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_nothing_is_said() {
        let mut known = Known::default();
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
