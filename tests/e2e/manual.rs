//! The manual, which two formatters read, and the completions, which bash executes.

use std::{fs, process::Command};

use crate::harness::{folder, run, sbt_with};

/// The complaints of a formatter about a page, both streams together.
fn complaints(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // Pages change with the version, not by the day.
    let lines = said.lines().filter(|line| !line.contains("missing date"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn formatters_find_nothing_wrong_with_the_manual() {
    crate::harness::needs_nothing!();
    let folder = folder();
    let man = folder.path().join("not/there/yet");
    let mut command = sbt_with(&["man"]);
    command.arg(&man);
    run(command).expect(0);
    let help = run(sbt_with(&["--help"])).expect(0);
    let commands = help.out();
    let (_, commands) = commands.split_once("Commands:").unwrap();
    let mut read = 0;
    for entry in fs::read_dir(&man).unwrap() {
        let page = entry.unwrap().path();
        let name = page.file_stem().unwrap().to_string_lossy().into_owned();
        if let Some(command) = name.strip_prefix("sbt-") {
            let is_listed = |line: &str| line.split_whitespace().next() == Some(command);
            assert!(commands.lines().any(is_listed), "{command}: {commands}");
        }
        let mut groff = Command::new("groff");
        groff.args(["-man", "-ww", "-z", "-Tutf8"]).arg(&page);
        assert_eq!(complaints(&mut groff), "", "{name}");
        let mut mandoc = Command::new("mandoc");
        mandoc.args(["-T", "lint", "-W", "warning"]).arg(&page);
        assert_eq!(complaints(&mut mandoc), "", "{name}");
        read += 1;
    }
    assert!(read > 10, "{read} pages");
}

#[test]
fn bash_completes_commands_and_options() {
    crate::harness::needs_nothing!();
    let folder = folder();
    let script = folder.path().join("sbt.bash");
    let finished = run(sbt_with(&["completions", "bash"])).expect(0);
    fs::write(&script, finished.out()).unwrap();
    for (typed, expected) in [
        ("att", "attach"),
        ("run --hang", "--hang-time"),
        ("check --max-im", "--max-imbalance"),
        ("run --departures o", "on off"),
    ] {
        let words: Vec<&str> = ["sbt"].into_iter().chain(typed.split(' ')).collect();
        let at = words.len() - 1;
        let complete = format!(
            "source '{}'; COMP_WORDS=({}); COMP_CWORD={at}; _sbt sbt '{}' '{}'; \
             echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            words.join(" "),
            words[at],
            words[at - 1],
        );
        let output = Command::new("bash").args(["-c", &complete]).output();
        let offered = String::from_utf8(output.unwrap().stdout).unwrap();
        assert_eq!(offered.trim(), expected, "{typed}");
    }
    let finished = run(sbt_with(&["completions", "no-shell"]));
    assert_eq!(finished.status.code(), Some(2), "{finished}");
}
