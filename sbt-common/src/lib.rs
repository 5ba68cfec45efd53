//! The types that cross from the kernel to the agent, and the logic that the BPF programs share with
//! their twin in user space: which words of memory to read at a hit, and what they mean.
//!
//! Different compilers build both sides from this crate. So every type that crosses is `repr(C)`,
//! has no implicit padding, holds only integers, and its size is asserted at compile time.
#![no_std]
#![allow(
    missing_docs,
    reason = "head and clocks of each record are explained at their types"
)]

mod asleep;
mod config;
mod cookie;
mod held;
mod hit;
pub mod kmp;
mod machine;
mod make;
mod maps;
pub mod mpi;
mod plain;
mod record;
mod stay;
mod walk;

pub use asleep::{
    Asleep, MAX_SLEEPS, NO_CALL, SLEEPER_SLOTS, STACK_WORDS, Sleep, Sleeper, Slept, WAKERS, Waker,
    Woken,
};
pub use config::{Config, RDONLY_CAST, State};
pub use cookie::{Cookie, MarkCookie, layout, team};
pub use held::{Held, at_end, is_to_be_shared};
pub use hit::TeamHit;
pub use kmp::{Kmp, KmpHit, MAX_OUTER, Outer};
pub use machine::{Caller, Reader, Registers};
pub use make::{LENGTH_UNKNOWN, MAKE_LIST, Made, Make, Making, SOME, TOO_LONG};
pub use maps::{
    Counted, Futex, LEFT_SLOTS, Left, Lock, MAX_COUNTED, MAX_FOLLOWED, MAX_KMP, MAX_LOCKS,
    MAX_MAKING, MAX_RINGS, MAX_RULES, MAX_SILENCED, OWN_NUMBER, RING_BYTES, name,
};
pub use mpi::Mpi;
pub use plain::{Plain, bytes, read};
pub use record::{
    Arrive, Away, CHAIN, Callers, Clocks, Condvar, Counts, Depart, ENDS, Head, Init, MAX_CALLERS,
    MAX_EVENTS, Mapping, Memory, Reading, SPEED_ROUNDS, STEPPED, Speed, Sums, TASK_COUNTS, Taker,
    Thread, UNKNOWN, collective, evidence, how, kind, stepped, taker, team_count,
};
pub use stay::Stay;
pub use walk::{CODE_AROUND, Code, Frame, Rule, cfa, rbp};
