//! Every program is given to this kernel, with all that can be switched on, to hear
//! what it says of each. Nothing is attached.

use std::{io, os::fd::BorrowedFd};

use sbt_common::MAX_EVENTS;

use super::{configure::configure, loader};
use crate::kernel::{
    LoadError,
    bpf::{self, ProgramKind},
};

/// What the kernel says of a program.
#[derive(Debug)]
pub struct Trial {
    /// The name of its function.
    pub name: String,
    /// How many instructions it has.
    pub instructions: usize,
    /// How many the verifier has looked at to accept it, unknown before Linux 5.16; or
    /// why it does not.
    pub verified: Result<Option<u32>, LoadError>,
}

/// Tries all programs, in the order of their names.
///
/// # Errors
///
/// What all programs need cannot be made: maps, rings.
pub fn all() -> Result<Vec<Trial>, LoadError> {
    let mut config = configure(std::process::id(), true);
    config.switches = 1;
    config.counts = 1;
    config.events = u32::try_from(MAX_EVENTS).unwrap_or(1);
    // As outside of a container, wherever we are: it makes programs longer or shorter.
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
