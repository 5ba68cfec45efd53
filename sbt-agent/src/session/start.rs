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
    if !source.traces_the_start() {
        return None;
    }
    let gain = gain::of_file(program, who)?;
    let program = printable(&program.to_string_lossy());
    let takes = takes(source.name(), rights::may_look_at_all());
    takes.map(|takes| words(takes, &program, &gain, privilege::become_root()))
}

/// What comes of watching a program that gains privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// The program does not get them.
    Privileges,
    /// It does, and is not seen.
    Sight,
}

/// `may_look`: whoever traces might look into every process, and so into this one.
fn takes(source: &str, may_look: bool) -> Option<Takes> {
    match (source, may_look) {
        (_, false) => Some(Takes::Privileges),
        // The kernel ends the events of who executes such a file (`begin_new_exec`).
        ("perf", true) => Some(Takes::Sight),
        _ => None,
    }
}

fn words(takes: Takes, program: &str, gain: &str, remedy: &str) -> String {
    match takes {
        Takes::Privileges => format!(
            "{program} runs without the privileges that its file gives, {gain}: the kernel does \
             not give them to a program that is traced; to keep them, {remedy}"
        ),
        Takes::Sight => format!(
            "{program} gets privileges by its file, {gain}, and the kernel takes the processor's \
             breakpoints off such a program: nothing of it is seen; use --backend ebpf or ptrace"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_gains_privileges_loses_them_or_is_not_seen() {
        for (source, may_look, expected) in [
            ("ptrace", false, Some(Takes::Privileges)),
            ("perf", false, Some(Takes::Privileges)),
            ("perf", true, Some(Takes::Sight)),
            ("ptrace", true, None),
        ] {
            assert_eq!(takes(source, may_look), expected, "{source} {may_look}");
        }
        let gain = "those of user root (set-user-id)";
        let lost = words(Takes::Privileges, "./su", gain, "use sudo");
        assert!(lost.starts_with("./su runs without") && lost.ends_with("to keep them, use sudo"));
        assert!(words(Takes::Sight, "./su", gain, "").contains("--backend ebpf"));
    }
}
