//! Random programs, and what the watching misses of them.

use proptest::prelude::*;

/// The parts of a barrier's memory that the source can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The count and the round.
    Glibc,
    /// Only the count.
    Musl,
    /// Nothing.
    Opaque,
}

/// The parameters of a program; everything else follows from `seed`.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent choices")]
pub struct Setup {
    pub seed: u64,
    /// Threads in each parallel region; the first is the main thread.
    pub regions: Vec<usize>,
    pub teams: usize,
    /// Barriers in each region.
    pub steps: usize,
    /// Whether, at the end, more threads than its count use a barrier until it hangs.
    pub pool: bool,
    /// Whether the main thread calls barriers from places of its own.
    pub mixed: bool,
    /// Times are multiples of this, ns: above 1, arrivals may tie.
    pub grain: u64,
    /// Longest time from the stamp of an arrival to the barrier's own count, ns.
    pub slow: u64,
    pub departures: bool,
    pub memory: Memory,
    /// Whether initialisations are reported.
    pub inits: bool,
    /// Each thread's reading of an object is repeated once in this many records.
    pub refresh: u32,
    /// Whether thread ids are reused.
    pub reuse: bool,
    /// Whether the barriers' counters start shortly before their reset.
    pub old: bool,
}

impl Setup {
    pub fn any() -> impl Strategy<Value = Self> {
        let size = (
            any::<u64>(),
            prop::collection::vec(1usize..=8, 1..=4),
            1usize..=4,
            1usize..=8,
            prop_oneof![Just(1u64), Just(16)],
            prop_oneof![Just(4u32), Just(64)],
        );
        let kind = (
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
            prop_oneof![Just(Memory::Glibc), Just(Memory::Musl)],
            any::<bool>(),
        );
        (size, kind).prop_map(
            |(
                (seed, regions, teams, steps, grain, refresh),
                (pool, mixed, departures, inits, reuse, memory, old),
            )| Self {
                seed,
                regions,
                teams,
                steps,
                // In a pool, timing decides which threads meet.
                grain: if pool { 1 } else { grain },
                pool,
                mixed,
                slow: if pool { 1 } else { 8 },
                departures,
                memory,
                inits,
                refresh,
                reuse,
                // A thread held back at the reset may be overtaken.
                old: old && memory == Memory::Glibc && !pool,
            },
        )
    }
}

/// Events that the source misses.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// The time at which the watching begins, ns.
    pub from_ns: u64,
    /// Windows in which records are lost: begin and end, ns, and chance of loss in per cent.
    pub losses: Vec<(u64, u64, u64)>,
}

/// Splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
