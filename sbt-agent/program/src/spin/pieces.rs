//! In which pieces of code threads were sampled often.
//!
//! A thread that spins is sampled again and again in the same few instructions. One that works is
//! sampled at many places, and deciding of each whether a thread waits there takes long.

use std::collections::HashMap;

/// The length of a piece, bytes, as a power of two: a loop that only waits lies in one or two.
const BITS: u32 = 7;

/// From this number of samples on a piece is worth looking at.
const OFTEN: u32 = 3;

/// The most pieces in which samples are counted. When there are more, counting begins anew.
const MOST: usize = 1 << 14;

/// The number of samples by process and piece of code.
#[derive(Clone, Debug, Default)]
pub struct Pieces(HashMap<(u32, u64), u32>);

impl Pieces {
    /// Counts a sample of a process at an address. Returns whether there were often samples near it.
    pub fn add(&mut self, process: u32, at: u64) -> bool {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let count = self.0.entry((process, at >> BITS)).or_default();
        *count += 1;
        *count >= OFTEN
    }

    /// Whether there were often samples of a process near an address.
    pub fn is_often(&self, process: u32, at: u64) -> bool {
        let count = self.0.get(&(process, at >> BITS));
        count.is_some_and(|count| *count >= OFTEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_worth_a_look_if_it_is_sampled_again_and_again() {
        let mut pieces = Pieces::default();
        assert!(!pieces.add(1, 0x1000));
        assert!(!pieces.add(1, 0x1010));
        assert!(!pieces.add(2, 0x1010), "another process");
        assert!(!pieces.add(1, 0x1080), "another piece");
        assert!(!pieces.is_often(1, 0x1004));
        assert!(pieces.add(1, 0x1004));
        assert!(pieces.is_often(1, 0x107f));
        assert!(!pieces.is_often(1, 0x1080));
    }
}
