//! Sets of threads.

use super::ids::{MAX_ROWS, ThreadId};

/// A set of threads, one bit for each: adding a thread at each arrival is cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows(Vec<u64>);

impl Rows {
    /// Adds a thread.
    pub fn insert(&mut self, row: ThreadId) {
        let word = row.index() / 64;
        if word >= self.0.len() && word < MAX_ROWS.div_ceil(64) {
            self.0.resize(word + 1, 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= 1 << (row.index() % 64);
        }
    }

    /// The threads in the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ThreadId> {
        (0..)
            .map(ThreadId)
            .zip(0..64 * self.0.len())
            .filter_map(|(row, at)| {
                let word = self.0[at / 64];
                (word >> (at % 64) & 1 == 1).then_some(row)
            })
    }
}
