//! Commands whose work runs elsewhere, so that sbt cannot see it where it was started.

use crate::words::command_line;

/// Why the work of a command is not seen, and what to type instead; `None` if the command is not
/// known to pass its work on. `sees_children`: sbt could look at processes that it started.
pub fn elsewhere(command: &[String], sees_children: bool) -> Option<String> {
    let (program, rest) = command.split_first()?;
    let name = program.rsplit('/').next().unwrap_or(program);
    let has = |word: &str| rest.iter().any(|argument| argument == word);
    let of_user = || {
        let first = rest.iter().position(|argument| !argument.starts_with('-'));
        command_line(&rest[first.unwrap_or(0).min(rest.len())..])
    };
    match name {
        "docker" | "podman" | "nerdctl" if has("run") || has("exec") || has("start") => {
            Some(format!(
                "{name} starts the program in a container, not below itself: find the program with \
                 `{name} top CONTAINER`, then type `sudo sbt attach PID`"
            ))
        }
        "kubectl" | "oc" => Some(format!(
            "{name} starts the program on a node of the cluster: run sbt there, on the program's \
             process"
        )),
        "ssh" | "slogin" | "mosh" => Some(format!(
            "{name} starts the program on another machine: run sbt there, as in `{name} HOST sbt \
             run -- PROGRAM`"
        )),
        "systemd-run" if !has("--scope") => Some(
            "systemd starts the program, not systemd-run: put sbt into the unit (`systemd-run … sbt \
             run -- PROGRAM`), or type `sudo sbt attach PID`"
                .into(),
        ),
        "sudo" | "doas" | "pkexec" if !sees_children => Some(format!(
            "{name} starts the program as another user, whose processes sbt may not look into: put \
             sbt behind {name} (`{name} sbt run -- {}`)",
            of_user()
        )),
        "su" | "runuser" if !sees_children => Some(format!(
            "{name} starts the program as another user, whose processes sbt may not look into: run \
             sbt as that user"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(command: &str, sees_children: bool) -> Option<String> {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        elsewhere(&words, sees_children)
    }

    #[test]
    fn what_runs_elsewhere_is_told_with_what_to_type() {
        for (command, words) in [
            ("docker run --rm image ./prog", "docker top CONTAINER"),
            ("/usr/bin/podman exec -it box ./prog", "podman top"),
            ("ssh host ./prog", "on another machine"),
            ("systemd-run --user ./prog", "put sbt into the unit"),
            ("sudo -E ./prog -n 4", "(`sudo sbt run -- ./prog -n 4`)"),
        ] {
            let text = told(command, false).unwrap();
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn what_runs_here_is_not() {
        for command in [
            "./prog ssh",
            "docker ps",
            "systemd-run --scope ./prog",
            "make",
        ] {
            assert_eq!(told(command, false), None, "{command}");
        }
        assert_eq!(told("sudo ./prog", true), None);
        assert_eq!(elsewhere(&[], false), None);
    }
}
