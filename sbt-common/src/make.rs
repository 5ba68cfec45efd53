//! Calls of MPI's functions that make, or end, communicators and groups of ranks: what their probes
//! tell. Which function does what is known to the agent alone.

use crate::{Head, Reader};

/// Number of [`Make::list`], a power of two.
pub const MAKE_LIST: usize = 256;

/// [`Make::listed`] of a list that is longer than [`MAKE_LIST`], or that could not be read.
pub const TOO_LONG: u32 = u32::MAX;

/// [`crate::Cookie::displacement`] of a function that takes a list of a length that no argument tells.
/// As many numbers are read then.
pub const LENGTH_UNKNOWN: u16 = 0;

/// How many numbers are read of such a list.
pub const SOME: u32 = 8;

/// A thread enters such a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Make {
    /// Its `layout` is the function, as the agent numbers it.
    pub head: Head,
    pub time_ns: u64,
    /// See [`crate::Arrive::seq`].
    pub seq: u32,
    /// Number of this record among those of [`Make`] and [`Made`] of its thread, from 0: a gap is a loss.
    pub number: u32,
    /// How many numbers of `list` are filled in, or [`TOO_LONG`].
    pub listed: u32,
    /// Zero.
    pub reserved: u32,
    /// The word at the address in which the function will store what it makes, before it does.
    pub held: u64,
    /// The first six arguments.
    pub arguments: [u64; 6],
    /// The list of numbers that is one of the arguments. What follows the numbers that are filled in
    /// has no meaning.
    pub list: [u32; MAKE_LIST],
}

/// A thread leaves such a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Made {
    pub head: Head,
    pub time_ns: u64,
    /// The word at the address in which the function has stored what it made.
    pub value: u64,
    /// See [`crate::Arrive::seq`].
    pub seq: u32,
    /// See [`Make::number`].
    pub number: u32,
    /// What the function returns: 0 unless it has failed.
    pub error: u32,
    /// Zero.
    pub reserved: u32,
}

/// The call that a thread is in or was in last: a value of the map [`crate::name::MAKING`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Making {
    /// Where on the stack the return address of the function lies; 0 after the call.
    pub at: u64,
    /// That return address.
    pub returns_to: u64,
    /// Where the function stores what it makes.
    pub out: u64,
    /// [`Make::number`] of the thread's next record.
    pub number: u32,
    /// Zero.
    pub reserved: u32,
}

impl Making {
    /// Whether a function with the return address at `at` is called by the one of this call. The
    /// library may call such functions for its own ends; the program knows nothing of what they make.
    #[inline(always)]
    pub fn contains(&self, at: u64, memory: &impl Reader) -> bool {
        at < self.at && memory.word(self.at) == self.returns_to
    }
}
