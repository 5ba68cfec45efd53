//! Sums of figures that a file may hold as it likes.

/// The sum, and at most the largest number.
pub fn total(figures: impl IntoIterator<Item = u64>) -> u64 {
    figures.into_iter().fold(0, u64::saturating_add)
}
