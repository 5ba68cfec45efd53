//! Groups of ranks of MPI: which ranks of which communicator they are.

use super::families::CommunicatorId;

/// Ranks of a communicator, in the order in which the group numbers them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// The communicator from which the group comes.
    pub of: CommunicatorId,
    /// The ranks, as the communicator numbers them; `None` for all.
    pub ranks: Option<Box<[u32]>>,
}

impl Group {
    /// All ranks of a communicator.
    pub const fn all(of: CommunicatorId) -> Self {
        Self { of, ranks: None }
    }

    /// The ranks at these places of the group; `None` if the group has no such places.
    pub fn at(&self, places: &[u32]) -> Option<Self> {
        let Some(ranks) = &self.ranks else {
            return Some(self.with(places.to_vec()));
        };
        let found = places
            .iter()
            .map(|place| ranks.get(usize::try_from(*place).ok()?).copied());
        Some(self.with(found.collect::<Option<_>>()?))
    }

    /// The ranks at all other places. `size`: the number of ranks of the communicator, if known.
    pub fn without(&self, places: &[u32], size: Option<u32>) -> Option<Self> {
        let ranks = self.listed(size)?;
        let stay = (0_u32..)
            .zip(ranks)
            .filter(|(place, _)| !places.contains(place));
        Some(self.with(stay.map(|(_, rank)| rank).collect()))
    }

    /// The ranks of this group, then those of another that are not in this one. `None` if that is not
    /// known: the groups come from different communicators.
    pub fn and(&self, other: &Self, size: Option<u32>) -> Option<Self> {
        let (mut ranks, others) = self.both(other, size)?;
        let more = others.into_iter().filter(|rank| !ranks.contains(rank));
        let more: Vec<u32> = more.collect();
        ranks.extend(more);
        Some(self.with(ranks))
    }

    /// The ranks of this group that are in another (`is_in`), or that are not. `None` as above.
    pub fn kept(&self, other: &Self, is_in: bool, size: Option<u32>) -> Option<Self> {
        let (mut ranks, others) = self.both(other, size)?;
        ranks.retain(|rank| others.contains(rank) == is_in);
        Some(self.with(ranks))
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

    fn with(&self, ranks: Vec<u32>) -> Self {
        Self {
            of: self.of,
            ranks: Some(ranks.into()),
        }
    }

    fn listed(&self, size: Option<u32>) -> Option<Vec<u32>> {
        match &self.ranks {
            Some(ranks) => Some(ranks.to_vec()),
            None => Some((0..size?).collect()),
        }
    }

    fn both(&self, other: &Self, size: Option<u32>) -> Option<(Vec<u32>, Vec<u32>)> {
        (self.of == other.of).then_some(())?;
        Some((self.listed(size)?, other.listed(size)?))
    }
}
