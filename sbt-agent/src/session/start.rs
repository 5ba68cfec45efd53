//! The privileges that a program loses when it is traced from its start.

use std::path::Path;

use crate::source::Source;
use sbt_engine::place::printable;
use sbt_program::{
    access::rights,
    gain::{self, Credentials},
};

use crate::kernel::privilege;

/// The line to print before a program starts whose file gives it privileges that it loses because
/// `source` traces it. `credentials`: the user credentials executes the program.
pub fn line(source: &dyn Source, program: &Path, credentials: &Credentials) -> Option<String> {
    // A tracer that may look into every process takes no privileges away.
    if !source.traces_the_start() || rights::may_look_at_all() {
        return None;
    }
    let gain = gain::of_file(program, credentials)?;
    let program = printable(&program.to_string_lossy());
    let remedy = privilege::become_root();
    Some(format!(
        "{program} runs without the privileges that its file gives, {gain}: the kernel does not \
         give them to a traced program; to keep them, {remedy}"
    ))
}
