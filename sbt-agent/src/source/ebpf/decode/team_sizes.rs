//! How many threads the teams of runtimes have, as the last arrival told it.

use rustc_hash::FxHashMap;
use sbt_common::Arrive;

/// How many teams are remembered at most. One that is forgotten is passed on again.
const MOST: usize = 4096;

/// The size of each team, by process and object.
#[derive(Debug, Default)]
pub struct TeamSizes(FxHashMap<(u16, u64), u32>);

impl TeamSizes {
    /// A thread arrives. Returns the size of its team if the arrival before was in one of another
    /// size.
    ///
    /// What threads send of their own accord does not count here: it holds from their own arrival
    /// on, and another thread may arrive between the two.
    pub fn arrived(&mut self, space: u16, record: &Arrive) -> Option<u32> {
        let (team, count) = ((space, record.object), record.team_count()?);
        if self.0.get(&team) == Some(&count) {
            return None;
        }
        if self.0.len() >= MOST && !self.0.contains_key(&team) {
            self.0.clear();
        }
        self.0.insert(team, count);
        Some(count)
    }

    /// Forgets the teams of an address space: nothing lies any more where it lay.
    pub fn forget(&mut self, space: u16) {
        self.0.retain(|(of, _), _| *of != space);
    }
}
