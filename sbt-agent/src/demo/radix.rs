//! Radix sort from the lowest digit up: three phases per digit, with two ways of doing the second.
//!
//! Each thread counts the digits of its keys; the counts are summed over the threads, so that
//! everyone knows where its keys go; each moves its keys there. Summed along a binary tree, half of
//! the threads have work at the first level, a quarter at the next, and the others wait. Summed by
//! ranges of digits, each thread takes a range over the counts of all, and all work at once.

use std::ops::Range;

use anyhow::{Result, ensure};

use super::barrier::Barrier;
use super::rounds::{Rounds, Size};
use super::shared::Shared;
use super::{random, say, team};

/// Keys per sort: so many that a thread's work outweighs the barriers, and so few that the tree
/// sum is not lost beside it.
const KEYS: usize = 1_000_000;
const SORTS: usize = 192;
const DIGIT_BITS: u32 = 16;
const DIGITS: usize = 1 << DIGIT_BITS;

/// How the counts are summed over the threads.
#[derive(Clone, Copy)]
pub enum Sum {
    /// Pairs of threads, pairs of pairs, and so on; then the last thread alone.
    Tree,
    /// Every thread a range of digits.
    Flat,
}

/// One level of the tree sum; between two there is a barrier.
#[derive(Clone, Copy)]
enum Level {
    /// Every second node of this stride adds the node one stride before.
    Up(usize),
    /// The nodes left out on the way up add the node one stride before.
    Down(usize),
    /// The last thread, which has the totals now, turns them into the digits' first places.
    Root,
}

struct Radix {
    threads: usize,
    sum: Sum,
    keys: [Shared<u64>; 2],
    len: usize,
    /// Per thread and digit: the count; after the sum that of all threads up to this one, after
    /// the flat sum without this one.
    counts: Shared<usize>,
    /// Per digit: where its keys begin; after the flat sum from where its range does.
    starts: Shared<usize>,
    /// Per thread: after the flat sum, the count of its range of digits.
    totals: Shared<usize>,
    barrier: Barrier,
}

/// Sorts and checks the result; gives the check's outcome.
pub fn run(sum: Sum, threads: usize, size: Size) -> Result<String> {
    let sorts = size.scaled_rounds(SORTS);
    let how = match sum {
        Sum::Tree => "along a tree",
        Sum::Flat => "by ranges of digits",
    };
    say(&format!(
        "radix sort, {KEYS} keys, {}, {threads} threads, counts summed {how}",
        sorts.told("sorts")
    ))?;
    Radix::new(KEYS, threads, sum)?.sort(&sorts)?;
    Ok("sorted, same keys".to_owned())
}

impl Radix {
    fn new(len: usize, threads: usize, sum: Sum) -> Result<Self> {
        Ok(Self {
            threads,
            sum,
            keys: [Shared::new(len, 0), Shared::new(len, 0)],
            len,
            counts: Shared::new(threads * DIGITS, 0),
            starts: Shared::new(DIGITS, 0),
            totals: Shared::new(threads, 0),
            barrier: Barrier::new(threads)?,
        })
    }

    /// Sorts new keys again and again; it is an error if the last result is wrong.
    fn sort(mut self, sorts: &Rounds) -> Result<()> {
        let levels = levels(self.threads);
        team::run("radix", self.threads, |me| {
            for sort in sorts.by(me) {
                self.fill_keys(me, sort);
                // An even number of passes: they end where they began.
                let [mut from, mut to] = self.keys.each_ref();
                for shift in (0..u64::BITS).step_by(DIGIT_BITS as usize) {
                    self.count_digits(me, from, shift);
                    match self.sum {
                        Sum::Tree => levels.iter().for_each(|level| self.tree_sum(me, *level)),
                        Sum::Flat => self.flat_sum(me),
                    }
                    self.permute_keys(me, from, to, shift);
                    (from, to) = (to, from);
                }
            }
        })?;
        let first = self.first_key(sorts.done() - 1);
        let made = (first..first + self.len as u64).map(random::mix);
        let sorted = self.keys[0].as_slice();
        ensure!(sorted.is_sorted(), "the keys are not in order");
        ensure!(
            checksum(made) == checksum(sorted.iter().copied()),
            "the sorted keys differ from the input keys"
        );
        Ok(())
    }

    #[inline(never)]
    fn fill_keys(&self, me: usize, sort: usize) {
        let mine = self.mine(me);
        // SAFETY: a thread's own part.
        let keys = unsafe { self.keys[0].write(self.mine(me)) };
        for (key, index) in keys
            .iter_mut()
            .zip(self.first_key(sort) + mine.start as u64..)
        {
            *key = random::mix(index);
        }
        self.barrier.wait();
    }

    #[inline(never)]
    fn count_digits(&self, me: usize, from: &Shared<u64>, shift: u32) {
        // SAFETY: keys are not written in this phase; the row of counts is the thread's own.
        let (keys, counts) = unsafe { (from.read(self.mine(me)), self.counts.write(row(me))) };
        counts.fill(0);
        for key in keys {
            counts[digit(*key, shift)] += 1;
        }
        self.barrier.wait();
    }

    #[inline(never)]
    fn tree_sum(&self, me: usize, level: Level) {
        match level {
            Level::Up(stride) if (me + 1).is_multiple_of(2 * stride) => self.add(me - stride, me),
            Level::Down(stride) if me >= 2 * stride && (me + 1) % (2 * stride) == stride => {
                self.add(me - stride, me);
            }
            Level::Root if me + 1 == self.threads => self.place_digits(me),
            _ => {}
        }
        self.barrier.wait();
    }

    /// Adds the counts of the node `from` to those of the node `to`.
    fn add(&self, from: usize, to: usize) {
        // SAFETY: `to` is the caller's own row; at every level a row is either written or read.
        let (from, to) = unsafe { (self.counts.read(row(from)), self.counts.write(row(to))) };
        for (to, from) in to.iter_mut().zip(from) {
            *to += from;
        }
    }

    fn place_digits(&self, me: usize) {
        // SAFETY: at this level only one thread uses either array.
        let (totals, starts) = unsafe { (self.counts.read(row(me)), self.starts.write(0..DIGITS)) };
        let mut place = 0;
        for (start, total) in starts.iter_mut().zip(totals) {
            *start = place;
            place += total;
        }
    }

    /// Sums the counts of a range of digits over all threads.
    #[inline(never)]
    fn flat_sum(&self, me: usize) {
        let digits = self.digits(me);
        // SAFETY: in this phase a thread uses its own range of digits only, in every array.
        let starts = unsafe { self.starts.write(digits.clone()) };
        starts.fill(0);
        for thread in 0..self.threads {
            let first = row(thread).start;
            // SAFETY: as above.
            let counts = unsafe {
                let cells = first + digits.start..first + digits.end;
                self.counts.write(cells)
            };
            for (before, count) in starts.iter_mut().zip(counts) {
                let sum = *before + *count;
                *count = std::mem::replace(before, sum);
            }
        }
        let mut place = 0;
        for start in starts {
            place += std::mem::replace(start, place);
        }
        // SAFETY: as above.
        unsafe { self.totals.set(me, place) };
        self.barrier.wait();
    }

    #[inline(never)]
    fn permute_keys(&self, me: usize, from: &Shared<u64>, to: &Shared<u64>, shift: u32) {
        // SAFETY: nobody writes these keys in this phase.
        let keys = unsafe { from.read(self.mine(me)) };
        let mut places = self.first_places(me);
        for key in keys {
            let place = &mut places[digit(*key, shift)];
            // SAFETY: the sums give every key a place of its own, and nobody reads `to`.
            unsafe { to.set(*place, *key) };
            *place += 1;
        }
        self.barrier.wait();
    }

    /// Per digit the place of the thread's first key, from what the sum has left.
    fn first_places(&self, me: usize) -> Vec<usize> {
        // SAFETY: nobody writes these arrays in the phase of the permutation.
        let (starts, totals) = unsafe {
            (
                self.starts.read(0..DIGITS),
                self.totals.read(0..self.threads),
            )
        };
        let mut places = starts.to_vec();
        let before = match self.sum {
            Sum::Tree => me.checked_sub(1),
            Sum::Flat => {
                let mut before = 0;
                for (thread, total) in totals.iter().enumerate() {
                    for place in &mut places[self.digits(thread)] {
                        *place += before;
                    }
                    before += total;
                }
                Some(me)
            }
        };
        if let Some(before) = before {
            // SAFETY: nor the counts.
            let before = unsafe { self.counts.read(row(before)) };
            for (place, count) in places.iter_mut().zip(before) {
                *place += count;
            }
        }
        places
    }

    /// Index of the first random number that a sort takes as keys.
    fn first_key(&self, sort: usize) -> u64 {
        (sort * self.len) as u64
    }

    fn mine(&self, me: usize) -> Range<usize> {
        team::part(self.len, self.threads, me)
    }

    /// The digits that `me` sums up in the flat sum.
    fn digits(&self, me: usize) -> Range<usize> {
        team::part(DIGITS, self.threads, me)
    }
}

/// The levels of an inclusive prefix sum over `threads` nodes (Brent and Kung, 1982).
fn levels(threads: usize) -> Vec<Level> {
    let strides: Vec<usize> = (0..usize::BITS)
        .map(|level| 1 << level)
        .take_while(|stride| 2 * stride <= threads)
        .collect();
    let up = strides.iter().copied().map(Level::Up);
    let down = strides.iter().rev().copied();
    let down = down.filter(|stride| 3 * stride <= threads);
    up.chain(down.map(Level::Down))
        .chain([Level::Root])
        .collect()
}

/// The row of counts of one thread.
fn row(me: usize) -> Range<usize> {
    me * DIGITS..(me + 1) * DIGITS
}

#[expect(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
fn digit(key: u64, shift: u32) -> usize {
    (key >> shift) as usize % DIGITS
}

/// Sum and sum of mixed keys: the same for any order of the same keys.
fn checksum(keys: impl Iterator<Item = u64>) -> (u64, u64) {
    keys.fold((0, 0), |(sum, mixed), key| {
        let mixed = mixed.wrapping_add(random::mix(key));
        (sum.wrapping_add(key), mixed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_at_any_number_of_threads() {
        for sum in [Sum::Tree, Sum::Flat] {
            for threads in 1..=9 {
                Radix::new(5000, threads, sum)
                    .unwrap()
                    .sort(&Rounds::of(2))
                    .unwrap();
            }
        }
    }

    #[test]
    fn fewer_work_at_each_level_up() {
        assert!(matches!(
            levels(4)[..],
            [Level::Up(1), Level::Up(2), Level::Down(1), Level::Root]
        ));
    }

    #[test]
    fn the_checksum_sees_a_changed_key_but_not_the_order() {
        let sum = |keys: [u64; 3]| checksum(keys.into_iter());
        assert_eq!(sum([1, 2, 3]), sum([3, 1, 2]));
        assert_ne!(sum([1, 2, 3]), sum([2, 2, 2]));
    }
}
