//! What a program loses that is watched from its start.

use std::path::Path;

use crate::{
    place::printable,
    rights,
    source::Source,
    target::gain::{self, Who},
};

use super::privilege;

/// What is to be said before a program starts, if its file gives it privileges and `source`
/// comes between. `who`: who executes it.
pub fn line(source: &dyn Source, program: &Path, who: &Who) -> Option<String> {
    // Whoever might look into every process, and so into this one, takes nothing away.
    if !source.traces_the_start() || rights::may_look_at_all() {
        return None;
    }
    let gain = gain::of_file(program, who)?;
    let program = printable(&program.to_string_lossy());
    Some(words(&program, &gain, privilege::become_root()))
}

fn words(program: &str, gain: &str, remedy: &str) -> String {
    format!(
        "{program} runs without the privileges that its file gives, {gain}: the kernel does not \
         give them to a program that is traced; to keep them, {remedy}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_loses_is_said_with_the_remedy() {
        let gain = "those of user root (set-user-id)";
        let lost = words("./su", gain, "use sudo");
        assert!(lost.starts_with("./su runs without") && lost.ends_with("to keep them, use sudo"));
        assert!(lost.contains(gain));
    }
}
