//! Barriers that only spin: told by what the threads of a program do, and by the
//! code in which they do it. All of it is pure; who takes the samples and who knows
//! the target's files is told here what to make of them.
//!
//! - A *waiting loop* ([`wait`]) goes round until memory that others write changes, and
//!   does nothing else: what it computes in one turn is gone in the next.
//! - It is *suspected* ([`tally`]) if several threads use their time in it.

mod effect;
mod graph;
pub mod tally;
pub mod wait;

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;
