//! The numbers by which a report calls threads.

use std::collections::HashSet;

use crate::model::{Model, thread::ThreadId};

/// Those that met a barrier or passed a mark, in the order of their birth,
/// from 0.
pub struct Order(Vec<u32>);

/// The number of a thread that has none.
const NONE: u32 = u32::MAX;

impl Order {
    /// Of all threads of a model.
    pub fn new(model: &Model) -> Self {
        let rows = model.threads().rows();
        let marked: HashSet<usize> = model
            .marks()
            .hits
            .keys()
            .map(|(_, thread)| thread.index())
            .collect();
        let mut born: Vec<usize> = (0..rows.len())
            .filter(|index| rows[*index].arrivals > 0 || marked.contains(index))
            .collect();
        born.sort_by_key(|index| (rows[*index].since_ns, rows[*index].shown));
        let mut numbers = vec![NONE; rows.len()];
        for (number, index) in (0..).zip(born) {
            numbers[index] = number;
        }
        Self(numbers)
    }

    /// A thread's number; `u32::MAX` if it has none.
    pub fn number(&self, thread: ThreadId) -> u32 {
        self.0.get(thread.index()).copied().unwrap_or(NONE)
    }

    /// Pairs what is kept of threads with their numbers, in the order of those.
    pub fn sorted<T>(&self, of: impl IntoIterator<Item = (ThreadId, T)>) -> Vec<(u32, T)> {
        let mut pairs: Vec<_> = of
            .into_iter()
            .map(|(thread, what)| (self.number(thread), what))
            .filter(|(number, _)| *number != NONE)
            .collect();
        pairs.sort_by_key(|(number, _)| *number);
        pairs
    }

    /// The same of what is kept in a list by [`ThreadId`].
    pub fn by_index<T>(&self, list: impl IntoIterator<Item = T>) -> Vec<(u32, T)> {
        self.sorted((0..).map(ThreadId).zip(list))
    }
}
