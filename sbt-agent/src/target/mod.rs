//! The program being watched: its files, its memory, its threads, its life.

pub mod debuginfo;
pub mod elf;
pub mod files;
pub mod launch;
pub mod libraries;
pub mod process;
pub mod prologue;
mod sigpipe;
pub mod sites;
pub mod wanted;
