//! Loads every program into this kernel, with all options on, to learn which ones the kernel
//! accepts. Nothing is attached.

use std::{io, os::fd::BorrowedFd};

use sbt_common::MAX_EVENTS;

use super::{configure::configure, loader};
use crate::kernel::{
    LoadError,
    bpf::{self, ProgramKind},
};

/// Whether the kernel accepts a program.
#[derive(Debug)]
pub struct Trial {
    /// The name of its function.
    pub name: String,
    /// How many instructions it has.
    pub instructions: usize,
    /// How many instructions the verifier has looked at to accept it (`None` before Linux 5.16); or
    /// why the kernel refuses it.
    pub verified: Result<Option<u32>, LoadError>,
}

/// Tries all programs, in the order of their names.
///
/// # Errors
///
/// Fails if the maps or rings that all programs need cannot be made.
pub fn all() -> Result<Vec<Trial>, LoadError> {
    let mut config = configure(std::process::id(), true);
    config.switches = 1;
    config.counts = 1;
    config.events = u32::try_from(MAX_EVENTS).unwrap_or(1);
    // As outside of a container, wherever sbt runs: this makes some programs longer, others
    // shorter.
    config.tgid = config.any_tgid;
    let loaded = loader::load(config, ProgramKind::of_uprobes(), &[])?;
    let verified = |program: BorrowedFd<'_>| -> Result<_, LoadError> {
        bpf::program_verified(program).map_err(|source: io::Error| LoadError::Kernel {
            what: "asking the kernel about a program".into(),
            source,
        })
    };
    let names = loaded.names().into_iter();
    Ok(names
        .map(|name| Trial {
            name: name.to_owned(),
            instructions: loaded.instructions(name).unwrap_or(0),
            verified: loaded.program(name).and_then(verified),
        })
        .collect())
}
