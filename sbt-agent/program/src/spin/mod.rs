//! Barriers that only spin: recognised by what the threads of a program do, and by the code in
//! which they do it. This module is pure: callers take the samples and read the target's files.
//!
//! - A *waiting loop* ([`wait`]) goes round until memory that others write changes, and does
//!   nothing else: the values that it computes in one turn are lost in the next.
//! - A loop goes round *for ever* ([`forever`]) if it changes nothing, and the memory that it reads
//!   stays as it is.
//! - A loop is looked for only where samples are near each other ([`pieces`]).
//! - A *meeting* ([`meeting`]) is a barrier inside of a larger function: where its threads count, wait
//!   and leave.
//! - A loop is *suspected* ([`tally`]) if several threads use their time in it.

pub mod forever;
mod graph;
pub mod meeting;
pub mod pieces;
pub mod tally;
pub mod wait;

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;

#[cfg(test)]
mod forever_tests;
