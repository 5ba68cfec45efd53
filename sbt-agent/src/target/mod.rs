//! The program being watched: its files, its memory, its threads, its life.

mod alternatives;
#[cfg(test)]
mod bombs;
mod callers;
mod calls;
pub mod capabilities;
pub mod communicator;
pub mod cpus;
pub mod debuginfo;
mod dispositions;
pub mod elf;
pub mod executes;
pub mod files;
pub mod gain;
mod ident;
mod keeper;
pub mod launch;
pub mod libraries;
mod linker;
pub mod locks;
pub mod mapping;
pub mod memory;
pub mod offers;
pub mod process;
pub mod prologue;
pub mod pty;
mod registers;
pub mod runtimes;
pub mod sites;
pub mod syscalls;
pub mod trace;
mod unwind;
mod vdso;
pub mod walks;
pub mod wanted;
mod work;
