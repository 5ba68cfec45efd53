//! Reads the rings into which threads of the target write: see
//! [`trampoline`](sbt_program::arch::trampoline) for their layout. Pure: [`Words`] gives the memory.
//!
//! The target can write anything into the rings. Whatever is there, reading ends, stays inside of the
//! memory, and yields at most as many records as fit.

use sbt_program::arch::trampoline::{RECORD, Rings, at};

/// How long a record may be reserved and not written, ns, before it counts as lost: its thread may
/// have been preempted meanwhile, or have jumped out of a signal handler and never come back.
const ABANDONED_NS: u64 = 200_000_000;

/// A head that is this far ahead is no count of records.
const ABSURD: u64 = 1 << 40;

/// The memory of the rings.
pub trait Words {
    /// The 64-bit word at an offset in bytes, a multiple of 8. Words are read in the order of the
    /// calls. 0 outside of the memory.
    fn word(&self, offset: u64) -> u64;
}

/// A thread has come to a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// The processor's time stamp.
    pub stamp: u64,
    /// The number of the place.
    pub place: u32,
    /// The thread, as the C library numbers it.
    pub thread: u32,
    /// The lower half of the register with the number of participants.
    pub count: u32,
    /// The stack pointer.
    pub stack: u64,
    /// The register with the object.
    pub object: u64,
    /// The return address.
    pub caller: u64,
    /// The first words of the object.
    pub memory: [u64; 2],
}

/// Records lost in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The thread that has written the last record that was read in the ring; 0 if none was.
    pub thread: u32,
    /// The number of records.
    pub count: u64,
}

/// What a look at the rings has found.
#[derive(Debug, Default)]
pub struct Found {
    /// The records, in no order.
    pub records: Vec<Noted>,
    /// Records that were overwritten or never written, by ring.
    pub lost: Vec<Lost>,
    /// If a thread is in the middle of writing: a stamp that is not later than that of its record.
    pub unfinished: Option<u64>,
}

/// How far a ring has been read.
#[derive(Clone, Copy, Debug, Default)]
struct Tail {
    next: u64,
    /// Since when the next record is reserved and not written, ns.
    waits_since_ns: Option<u64>,
    /// The stamp and the thread of the last record.
    stamp: u64,
    thread: u32,
}

/// Reads the rings of one target.
#[derive(Debug)]
pub struct Reader {
    rings: Rings,
    tails: Vec<Tail>,
}

impl Reader {
    /// A reader that has read nothing yet.
    pub fn new(rings: Rings) -> Self {
        Self {
            rings,
            tails: vec![Tail::default(); rings.count() as usize],
        }
    }

    /// Reads what is new. `most`: how many records at most.
    pub fn read(&mut self, memory: &impl Words, now_ns: u64, most: usize) -> Found {
        let mut found = Found::default();
        let size = self.rings.size();
        let last = self.tails.len().saturating_sub(1);
        for (number, tail) in self.tails.iter_mut().enumerate() {
            let ring = Ring {
                start: number as u64 * size,
                records: 1 << self.rings.records,
                memory,
            };
            if number == last {
                // The threads that share it may write over each other's records.
                tail.skip(&ring, &mut found);
            } else {
                tail.read(&ring, now_ns, most, &mut found);
            }
        }
        found
    }

    /// How many records are there and were not read.
    pub fn left(&self, memory: &impl Words) -> u64 {
        let size = self.rings.size();
        let starts = (0_u64..).map(|number| number * size);
        let left = starts.zip(&self.tails).map(|(start, tail)| {
            let left = memory.word(start + 8).saturating_sub(tail.next);
            if left > ABSURD { 1 } else { left }
        });
        left.fold(0, u64::saturating_add)
    }
}

struct Ring<'a, M> {
    start: u64,
    records: u64,
    memory: &'a M,
}

impl<M: Words> Ring<'_, M> {
    fn head(&self) -> u64 {
        self.memory.word(self.start + 8)
    }

    fn at(&self, number: u64) -> u64 {
        self.start + RECORD + number % self.records * RECORD
    }

    /// The record of this number; `None` if it is not there.
    fn record(&self, number: u64) -> Option<Noted> {
        let from = self.at(number);
        let word = |at: usize| self.memory.word(from + at as u64);
        let first = word(at::NUMBER);
        if low(first) != low(number.wrapping_add(1)) {
            return None;
        }
        let threads = word(at::THREAD);
        Some(Noted {
            place: low(first >> 32),
            stamp: word(at::TIME),
            thread: low(threads),
            count: low(threads >> 32),
            stack: word(at::STACK),
            object: word(at::OBJECT),
            caller: word(at::CALLER),
            memory: [word(at::MEMORY), word(at::MEMORY + 8)],
        })
    }
}

impl Tail {
    fn read(&mut self, ring: &Ring<'_, impl Words>, now_ns: u64, most: usize, found: &mut Found) {
        let head = ring.head();
        if head.wrapping_sub(self.next) > ABSURD {
            // The target has written there. Counting begins anew, and how many are lost is not known.
            self.lose(1, found);
            self.next = head;
            return;
        }
        while self.next < head && found.records.len() < most {
            let record = ring.record(self.next);
            // The oldest records may have been overwritten, also while they were read.
            let behind = ring.head().wrapping_sub(self.next);
            if behind > ring.records {
                self.lose(behind.min(ABSURD) - ring.records, found);
                continue;
            }
            if let Some(record) = record {
                self.waits_since_ns = None;
                self.next += 1;
                (self.stamp, self.thread) = (record.stamp, record.thread);
                found.records.push(record);
                continue;
            }
            let since = *self.waits_since_ns.get_or_insert(now_ns);
            if now_ns.saturating_sub(since) < ABANDONED_NS {
                let earlier = found.unfinished.unwrap_or(u64::MAX);
                found.unfinished = Some(earlier.min(self.stamp));
                return;
            }
            self.lose(1, found);
        }
        if self.next < head {
            // The rest comes with the next look, and so do all that are later.
            let earlier = found.unfinished.unwrap_or(u64::MAX);
            found.unfinished = Some(earlier.min(self.stamp));
        }
    }

    /// Counts what is new as lost.
    fn skip(&mut self, ring: &Ring<'_, impl Words>, found: &mut Found) {
        let head = ring.head();
        let new = head.wrapping_sub(self.next);
        if new > 0 {
            self.lose(if new > ABSURD { 1 } else { new }, found);
            self.next = head;
        }
    }

    fn lose(&mut self, count: u64, found: &mut Found) {
        self.next = self.next.saturating_add(count);
        self.waits_since_ns = None;
        found.lost.push(Lost {
            thread: self.thread,
            count,
        });
    }
}

/// The lower half.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the upper half is dropped on purpose"
)]
const fn low(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use proptest::prelude::*;

    use super::*;

    const RINGS: Rings = Rings {
        control: 0,
        rings: 1,
        records: 2,
        number: 0,
    };

    /// Words of all rings.
    const WORDS: usize = 440;
    const _: () = assert!(RINGS.total() == 8 * WORDS as u64);

    /// All records at once.
    const ALL: usize = usize::MAX;

    struct Memory(RefCell<Vec<u64>>);

    impl Words for Memory {
        fn word(&self, offset: u64) -> u64 {
            let index = usize::try_from(offset / 8).unwrap();
            self.0.borrow().get(index).copied().unwrap_or(0)
        }
    }

    impl Memory {
        fn new() -> Self {
            Self(RefCell::new(vec![0; WORDS]))
        }

        fn put(&self, offset: u64, word: u64) {
            self.0.borrow_mut()[usize::try_from(offset / 8).unwrap()] = word;
        }

        /// Reserves a record in a ring; `written`: whether it is written as well.
        fn note(&self, ring: u64, stamp: u64, written: bool) {
            let start = ring * RINGS.size();
            let number = self.word(start + 8);
            self.put(start + 8, number + 1);
            if written {
                self.write(ring, number, stamp);
            }
        }

        fn write(&self, ring: u64, number: u64, stamp: u64) {
            let at = ring * RINGS.size() + RECORD + number % 4 * RECORD;
            self.put(at + 8, stamp);
            self.put(at + 16, 100 + ring);
            self.put(at, (number + 1) & 0xffff_ffff | 9 << 32);
        }
    }

    fn stamps(found: &Found) -> Vec<u64> {
        found.records.iter().map(|record| record.stamp).collect()
    }

    #[test]
    fn what_was_written_is_read_once() {
        let (memory, mut reader) = (Memory::new(), Reader::new(RINGS));
        memory.note(0, 5, true);
        memory.note(0, 6, true);
        memory.note(3, 7, true);
        let found = reader.read(&memory, 0, ALL);
        assert_eq!(stamps(&found), [5, 6, 7]);
        assert_eq!((found.records[2].thread, found.records[2].place), (103, 9));
        assert_eq!((found.lost, found.unfinished), (vec![], None));
        assert!(reader.read(&memory, 0, ALL).records.is_empty());
    }

    #[test]
    fn what_was_overwritten_is_lost_and_counted() {
        let (memory, mut reader) = (Memory::new(), Reader::new(RINGS));
        memory.note(1, 1, true);
        reader.read(&memory, 0, ALL);
        (2..=8).for_each(|stamp| memory.note(1, stamp, true));
        let found = reader.read(&memory, 0, ALL);
        assert_eq!(stamps(&found), [5, 6, 7, 8]);
        let lost = Lost {
            thread: 101,
            count: 3,
        };
        assert_eq!(found.lost, [lost]);
    }

    #[test]
    fn one_that_is_not_written_yet_is_waited_for_and_then_given_up() {
        let (memory, mut reader) = (Memory::new(), Reader::new(RINGS));
        memory.note(0, 5, true);
        memory.note(0, 6, false);
        memory.note(0, 7, true);
        memory.note(2, 8, true);
        let found = reader.read(&memory, 10, ALL);
        assert_eq!(stamps(&found), [5, 8]);
        assert_eq!(found.unfinished, Some(5));
        memory.write(0, 1, 6);
        let found = reader.read(&memory, 20, ALL);
        assert_eq!((stamps(&found), found.unfinished), (vec![6, 7], None));
        // Abandoned.
        memory.note(0, 0, false);
        memory.note(0, 9, true);
        assert!(reader.read(&memory, 30, ALL).records.is_empty());
        let found = reader.read(&memory, 30 + ABANDONED_NS, ALL);
        assert_eq!((stamps(&found), found.lost.len()), (vec![9], 1));
        assert_eq!(found.unfinished, None);
    }

    #[test]
    fn what_threads_without_a_ring_note_is_lost() {
        let (memory, mut reader) = (Memory::new(), Reader::new(RINGS));
        let shared = u64::from(RINGS.count()) - 1;
        (1..=3).for_each(|stamp| memory.note(shared, stamp, true));
        assert_eq!(reader.left(&memory), 3);
        let found = reader.read(&memory, 0, ALL);
        assert_eq!((found.records.len(), found.lost[0].count), (0, 3));
        assert_eq!(reader.left(&memory), 0);
        memory.note(0, 4, true);
        assert_eq!(reader.left(&memory), 1);
    }

    #[test]
    fn no_more_is_read_than_asked_for() {
        let (memory, mut reader) = (Memory::new(), Reader::new(RINGS));
        (1..=4).for_each(|stamp| memory.note(0, stamp, true));
        let found = reader.read(&memory, 0, 3);
        assert_eq!((stamps(&found), found.unfinished), (vec![1, 2, 3], Some(3)));
        let found = reader.read(&memory, 0, 3);
        assert_eq!((stamps(&found), found.unfinished), (vec![4], None));
    }

    proptest! {
        #[test]
        fn garbage_ends_and_is_bounded(
            words in proptest::collection::vec(any::<u64>(), WORDS),
            small in proptest::collection::vec(0_u64..20, WORDS),
        ) {
            let mut reader = Reader::new(RINGS);
            for (time, words) in [&words, &small, &words, &small].into_iter().enumerate() {
                let memory = Memory(RefCell::new(words.clone()));
                let found = reader.read(&memory, time as u64 * ABANDONED_NS, ALL);
                prop_assert!(found.records.len() <= 4 * RINGS.count() as usize);
                prop_assert!(found.lost.len() <= 8 * RINGS.count() as usize);
            }
        }
    }
}
