//! Groups of ranks of MPI: which ranks of which communicator they are.

use std::sync::Arc;

use super::families::CommunicatorId;

/// The most ranks of a group that sbt follows. The limit is needed because the watched program, also by
/// its environment, says how many ranks there are.
pub const MOST_RANKS: usize = 4096;

/// Ranks of a communicator, in the order in which the group numbers them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// The communicator from which the group comes.
    pub of: CommunicatorId,
    /// The ranks, as the communicator numbers them; `None` for all.
    pub ranks: Option<Arc<[u32]>>,
}

impl Group {
    /// All ranks of a communicator.
    pub const fn all(of: CommunicatorId) -> Self {
        Self { of, ranks: None }
    }

    /// The ranks at these places of the group; `None` if the group has no such places.
    pub fn at(&self, places: &[u32]) -> Option<Self> {
        let Some(ranks) = &self.ranks else {
            return self.with(places.to_vec());
        };
        let found = places
            .iter()
            .map(|place| ranks.get(usize::try_from(*place).ok()?).copied());
        self.with(found.collect::<Option<_>>()?)
    }

    /// The ranks at all other places. `size`: the number of ranks of the communicator, if known.
    pub fn without(&self, places: &[u32], size: Option<u32>) -> Option<Self> {
        let (ranks, places) = (self.listed(size)?, sorted(places));
        let stay = (0_u32..)
            .zip(ranks)
            .filter(|(place, _)| places.binary_search(place).is_err());
        self.with(stay.map(|(_, rank)| rank).collect())
    }

    /// The ranks of this group, then the ranks of another group that are not in this one. `None` if these
    /// are unknown, as for groups from different communicators.
    pub fn and(&self, other: &Self, size: Option<u32>) -> Option<Self> {
        let (mut ranks, others) = self.both(other, size)?;
        let mine = sorted(&ranks);
        let is_new = |rank: &u32| mine.binary_search(rank).is_err();
        ranks.extend(others.into_iter().filter(is_new));
        self.with(ranks)
    }

    /// The ranks of this group that are in another group (`is_in`), or that are not. `None` if these are
    /// unknown, as for groups from different communicators.
    pub fn kept(&self, other: &Self, is_in: bool, size: Option<u32>) -> Option<Self> {
        let (mut ranks, others) = self.both(other, size)?;
        let others = sorted(&others);
        ranks.retain(|rank| others.binary_search(rank).is_ok() == is_in);
        self.with(ranks)
    }

    /// How many ranks the group has. `size`: the number of ranks of the communicator, if known.
    pub fn size(&self, size: Option<u32>) -> Option<u32> {
        match &self.ranks {
            Some(ranks) => u32::try_from(ranks.len()).ok(),
            None => size,
        }
    }

    /// The number that the group gives to a rank of the communicator; `None` if the rank is not in it.
    pub fn place(&self, rank: u32) -> Option<u32> {
        let Some(ranks) = &self.ranks else {
            return Some(rank);
        };
        let place = ranks.iter().position(|one| *one == rank)?;
        u32::try_from(place).ok()
    }

    fn with(&self, ranks: Vec<u32>) -> Option<Self> {
        (ranks.len() <= MOST_RANKS).then(|| Self {
            of: self.of,
            ranks: Some(ranks.into()),
        })
    }

    fn listed(&self, size: Option<u32>) -> Option<Vec<u32>> {
        if let Some(ranks) = &self.ranks {
            return Some(ranks.to_vec());
        }
        let size = size.filter(|size| *size as usize <= MOST_RANKS)?;
        Some((0..size).collect())
    }

    fn both(&self, other: &Self, size: Option<u32>) -> Option<(Vec<u32>, Vec<u32>)> {
        (self.of == other.of).then_some(())?;
        Some((self.listed(size)?, other.listed(size)?))
    }
}

fn sorted(numbers: &[u32]) -> Vec<u32> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted
}
