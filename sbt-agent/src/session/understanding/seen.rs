//! Counts of events of the target, for decisions on where else to look for barriers.

/// The time without a hit at any barrier before futexes are tried, ns.
pub const QUIET_NS: u64 = 200_000_000;

/// The time without a hit before futexes are tried if barriers were hit earlier, ns: then a long
/// phase or a hang is more likely.
pub const QUIET_AFTER_OTHERS_NS: u64 = 10_000_000_000;

/// Counts of events of the target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// The number of its threads.
    pub threads: u64,
    /// Arrivals so far at barriers that are seen without watching futexes.
    pub others: u64,
    /// Arrivals so far at barriers made of futexes.
    pub futexes: u64,
}
