//! What a program loses that is watched from its start.

use std::path::Path;

use crate::source::Source;
use sbt_engine::place::printable;
use sbt_program::{
    access::rights,
    gain::{self, Who},
};

use crate::kernel::privilege;

/// What is to be said before a program starts, if its file gives it privileges and `source`
/// comes between. `who`: who executes it.
pub fn line(source: &dyn Source, program: &Path, who: &Who) -> Option<String> {
    // Whoever might look into every process, and so into this one, takes nothing away.
    if !source.traces_the_start() || rights::may_look_at_all() {
        return None;
    }
    let gain = gain::of_file(program, who)?;
    let program = printable(&program.to_string_lossy());
    let remedy = privilege::become_root();
    Some(format!(
        "{program} runs without the privileges that its file gives, {gain}: the kernel does not \
         give them to a program that is traced; to keep them, {remedy}"
    ))
}
