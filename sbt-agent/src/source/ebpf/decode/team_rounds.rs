//! How many rounds the teams of LLVM's OpenMP have completed.

use rustc_hash::FxHashMap;
use sbt_common::{
    Memory,
    kmp::{GONE, LAST},
};

/// How many ended teams are remembered at most.
const MOST: usize = 4096;

/// Rounds that threads found when they ended, by process and team.
///
/// The runtime ends its threads, then frees its teams, and then the program's first thread ends.
/// The first thread took part in each round as the others did, but can no longer read the team: the
/// number comes from what the others have reported.
#[derive(Debug, Default)]
pub struct TeamRounds(FxHashMap<(u16, u64), u32>);

impl TeamRounds {
    /// A thread reports on its team. Returns how many rounds the team has completed, if known.
    pub fn told(&mut self, space: u16, record: &Memory) -> Option<u32> {
        let team = (space, record.object);
        if record.arrived == GONE {
            return self.0.get(&team).copied();
        }
        if record.arrived == LAST {
            if self.0.len() >= MOST {
                self.0.clear();
            }
            self.0.insert(team, record.round);
        }
        Some(record.round)
    }

    /// Forgets the teams of an address space: nothing lies any more where it lay.
    pub fn forget(&mut self, space: u16) {
        self.0.retain(|(of, _), _| *of != space);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ends_after_its_team_has_been_where_the_others_were() {
        let memory = |round, arrived| Memory {
            object: 0x1000,
            round,
            arrived,
            ..Memory::default()
        };
        let mut rounds = TeamRounds::default();
        assert_eq!(rounds.told(1, &memory(10, 0)), Some(10));
        // No thread has reported the end.
        assert_eq!(rounds.told(1, &memory(0, GONE)), None);
        assert_eq!(rounds.told(1, &memory(25, LAST)), Some(25));
        assert_eq!(rounds.told(1, &memory(0, GONE)), Some(25));
        assert_eq!(rounds.told(2, &memory(0, GONE)), None);
        rounds.forget(1);
        assert_eq!(rounds.told(1, &memory(0, GONE)), None);
    }
}
