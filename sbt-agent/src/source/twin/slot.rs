//! The state of one thread; `sbt-ebpf/src/thread.rs` explains each field.

use std::collections::VecDeque;

use sbt_common::{Clocks, Making, Stay, Thread, kind};

use super::{Records, tell::head};

/// The number of objects that a thread that has read lately are remembered, to be reported at its
/// end.
const READ: usize = 4;

/// The largest number of waiting returns that are remembered: older frames were left in another
/// way.
const MOST_RETURNS: usize = 16;

/// The name and the like, with which a thread is announced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Announcement {
    /// The value for [`Thread::start_ns`].
    pub start_ns: u64,
    /// The value for [`Thread::start_code`].
    pub start_code: u64,
    /// The value for [`Thread::comm`].
    pub comm: [u64; 2],
}

/// The state of one thread.
#[derive(Debug)]
pub struct Slot {
    /// The thread's number.
    pub tid: u32,
    /// The thread's process.
    pub process: u32,
    /// Number of the memory in which it runs, equal for threads that share it.
    pub space: u32,
    /// Whether it has been announced.
    pub announced: bool,
    /// Places on its stack of the return addresses of functions that it may leave.
    pub returns: Returns,
    /// The name and the like, in case the thread has ended when it is announced.
    pub known: Announcement,
    tell: fn(u32, u32) -> Announcement,
    born_ns: u64,
    seq: u32,
    /// Its number after the last [`Self::miss_some`].
    missed_until: Option<u32>,
    pub(super) stay: Stay,
    pub(super) making: Making,
    read: VecDeque<Read>,
}

/// A barrier object that the thread has read lately.
#[derive(Debug)]
struct Read {
    layout: u8,
    object: u64,
    /// What its next reading should say; `None` if nothing was told.
    next: Option<Reading>,
}

/// What a thread has read of a barrier object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// The value of [`super::Programs::trust`] meanwhile.
    pub trust: u64,
    /// The number of threads.
    pub count: u32,
    /// Whether processes share the barrier.
    pub shared: bool,
    /// The number of the round; 0 if nobody counts.
    pub round: u32,
}

/// Places on a thread's stack of the addresses to which it will return.
#[derive(Debug, Default)]
pub struct Returns(Vec<u64>);

impl Returns {
    /// Adds a place further down the stack. Places below it were left already.
    pub fn push(&mut self, at: u64) {
        self.0.retain(|other| *other > at);
        if self.0.len() == MOST_RETURNS {
            self.0.remove(0);
        }
        self.0.push(at);
    }
}

impl Slot {
    /// The state of a thread first seen at `born_ns`, which is 0 if it existed before. `tell` reads the
    /// name and the like of a thread, by process and number.
    pub fn new(
        (process, tid, space): (u32, u32, u32),
        born_ns: u64,
        tell: fn(u32, u32) -> Announcement,
    ) -> Self {
        Self {
            tid,
            process,
            space,
            announced: false,
            returns: Returns::default(),
            known: Announcement::default(),
            tell,
            born_ns,
            seq: 0,
            missed_until: None,
            stay: Stay::NEW,
            making: Making::default(),
            read: VecDeque::new(),
        }
    }

    /// Announces the thread, unless it was announced before.
    pub fn announce(&mut self, now: Clocks, out: &mut Records) {
        if std::mem::replace(&mut self.announced, true) {
            return;
        }
        let told = (self.tell)(self.process, self.tid);
        let told = if told.comm == [0; 2] {
            self.known
        } else {
            told
        };
        out.push(&Thread {
            head: head(kind::THREAD, 0, self.tid, 0),
            clocks: now,
            start_ns: if self.born_ns == 0 {
                told.start_ns
            } else {
                self.born_ns
            },
            start_code: told.start_code,
            ns_tid: self.tid,
            ns_tgid: self.process,
            comm: told.comm,
        });
        self.seq = 0;
        self.missed_until = None;
    }

    /// Forgets what is known of the thread: it executes another program, or was not watched for a
    /// while.
    pub fn begin_anew(&mut self) {
        self.announced = false;
        self.stay.begin_anew();
        // A gap: calls may have been missed.
        self.making.at = 0;
        self.making.number = self.making.number.wrapping_add(1);
        self.returns = Returns::default();
        self.read.clear();
    }

    /// Skips so many numbers, since so many records of the thread may have been lost.
    pub fn miss(&mut self, count: u64) {
        // A number that is higher by more than half of all would count as one that goes back.
        const MOST: u32 = u32::MAX / 4;
        let count = u32::try_from(count).map_or(MOST, |count| count.min(MOST));
        self.seq = self.seq.wrapping_add(count);
    }

    /// Notes that records of the thread may be missing, nobody knows how many: skips one number, unless
    /// the thread has told nothing since that was done last.
    pub fn miss_some(&mut self) {
        if self.missed_until != Some(self.seq) {
            self.miss(1);
            self.missed_until = Some(self.seq);
        }
    }

    pub(super) const fn next_seq(&mut self) -> u32 {
        let seq = self.seq;
        self.seq = seq.wrapping_add(1);
        seq
    }

    /// Whether the thread has returned from a function that it entered, and not come along in
    /// another way. `at` is where its return address lay on the stack.
    pub(super) fn returns_from(&mut self, at: u64) -> bool {
        let found = self.returns.0.contains(&at);
        // Frames below it have been left in whatever way.
        self.returns.0.retain(|other| *other > at);
        found
    }

    /// Remembers an object, to be reported at the thread's end, and what its memory says at an arrival.
    /// Returns whether that must be told: something else was to be expected, or it was told long ago.
    /// `step`: by how much the number of the round grows until the thread's next arrival.
    pub(super) fn must_tell(&mut self, layout: u8, object: u64, now: Reading, step: u32) -> bool {
        // As in `must_tell` of the BPF programs: once in some 64 arrivals, also if each second
        // number belongs to a departure.
        let refresh = self.seq & 0x3e == 0x3e;
        let next = Reading {
            round: now.round.wrapping_add(step),
            ..now
        };
        let expected = self.entry(layout, object).next.replace(next);
        refresh || expected != Some(now)
    }

    fn entry(&mut self, layout: u8, object: u64) -> &mut Read {
        let is_it = |read: &Read| read.layout == layout && read.object == object;
        let index = self.read.iter().position(is_it).unwrap_or_else(|| {
            if self.read.len() == READ {
                self.read.pop_front();
            }
            self.read.push_back(Read {
                layout,
                object,
                next: None,
            });
            self.read.len() - 1
        });
        &mut self.read[index]
    }

    /// Forgets the objects that were read lately, and returns their layouts and addresses.
    pub(super) fn take_read(&mut self) -> Vec<(u8, u64)> {
        let read = std::mem::take(&mut self.read);
        read.iter().map(|read| (read.layout, read.object)).collect()
    }
}
