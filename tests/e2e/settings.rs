//! Settings from the file, the environment and the command line.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
    process::Command,
};

use tempfile::TempDir;

use crate::harness::{Finished, folder, install, needs_root, run, sbt, sbt_with, start};

const NOBODY: u32 = 65534;

/// A folder with a settings file.
fn with_file(text: &str) -> TempDir {
    let folder = folder();
    let path = folder.path().join("sbt.toml");
    fs::write(&path, text).unwrap();
    // Whatever the umask is.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    folder
}

/// `sbt run` of a program that leaves a mark, in a folder.
fn touch(folder: &Path, options: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = sbt_with(&["run", "-q"]);
    command
        .args(options)
        .args(["--", "touch", "started"])
        .current_dir(folder)
        .envs(variables.iter().copied());
    command
}

/// The lines on standard error about a setting: values and origins.
#[track_caller]
fn shown(finished: &Finished, setting: &str) -> Vec<String> {
    let lines = finished.stderr.lines();
    let lines: Vec<_> = lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.first() == Some(&setting))
        .map(|words| words[1..].join(" "))
        .collect();
    assert!(!lines.is_empty(), "{setting} in {finished}");
    lines
}

/// Fails unless sbt has failed with one line before the program was started.
#[track_caller]
fn refused(folder: &Path, command: Command, words: &[&str]) {
    let finished = run(command).expect(125);
    let line = finished.one_line();
    for word in words {
        assert!(line.contains(word), "{word} in {line}");
    }
    assert_eq!(finished.out(), "");
    assert!(!folder.join("started").exists(), "{line}");
}

#[test]
fn the_stronger_source_wins_and_is_named() {
    crate::harness::needs_nothing!();
    let text = "warn-time = 10\nwarnings = false\nwatch = [\"lu.c:1\"]\n\n\
                [names]\n\"lu.c:1\" = \"one\"\n\"lu.c:2\" = \"two\"\n";
    let folder = with_file(text);
    let finished = run(touch(folder.path(), &["-v"], &[]));
    assert_eq!(shown(&finished, "warn-time"), ["10ms sbt.toml:1"]);
    assert_eq!(shown(&finished, "watch"), ["lu.c:1 sbt.toml:3"]);
    assert_eq!(shown(&finished, "phase-times"), ["false default"]);

    let variables = [("SBT_WARN_TIME", "20"), ("SBT_WATCH", "120,two")];
    let finished = run(touch(folder.path(), &["-v"], &variables));
    assert_eq!(shown(&finished, "warn-time"), ["20ms SBT_WARN_TIME"]);
    assert_eq!(shown(&finished, "watch"), [":120, two SBT_WATCH"]);
    assert_eq!(shown(&finished, "warnings"), ["false sbt.toml:2"]);

    let options = ["-v", "--warn-time=30", "--name=lu.c:2=zwei", "--watch=one"];
    let finished = run(touch(folder.path(), &options, &variables));
    assert_eq!(shown(&finished, "warn-time"), ["30ms --warn-time"]);
    assert_eq!(shown(&finished, "watch"), ["one --watch"]);
    assert_eq!(
        shown(&finished, "names"),
        ["lu.c:1=one sbt.toml:6", "lu.c:2=zwei --name"]
    );
}

#[test]
fn the_nearest_file_upwards_is_read_and_no_other() {
    crate::harness::needs_nothing!();
    let folder = with_file("warn-time = 10\nphase-times = true");
    let inner = folder.path().join("a/b");
    fs::create_dir_all(&inner).unwrap();
    let finished = run(touch(&inner, &["-v"], &[]));
    let origin = folder.path().join("sbt.toml");
    assert_eq!(
        shown(&finished, "warn-time"),
        [format!("10ms {}:1", origin.display())]
    );
    fs::write(folder.path().join("a/sbt.toml"), "warn-time = 20").unwrap();
    let finished = run(touch(&inner, &["-v"], &[]));
    assert!(shown(&finished, "warn-time")[0].starts_with("20ms "));
    assert_eq!(shown(&finished, "phase-times"), ["false default"]);
}

#[test]
fn a_wrong_file_stops_everything() {
    crate::harness::needs_nothing!();
    for (text, words) in [
        ("\nwacth = [\"a\"]", ["sbt.toml:2: ", "`wacth`", "`watch`"]),
        (
            "warn-time = true",
            ["sbt.toml:1: ", "`warn-time`", "a boolean"],
        ),
        ("watch = [", ["sbt.toml:1: ", "", ""]),
        ("[phases]\nx = \"a\"", ["sbt.toml:2: ", "SITE..SITE", ""]),
        ("barriers = [\"b:7\"]", ["sbt.toml:1: ", "1 to 6", ""]),
    ] {
        let folder = with_file(text);
        refused(folder.path(), touch(folder.path(), &[], &[]), &words);
    }
    let folder = folder();
    fs::create_dir(folder.path().join("sbt.toml")).unwrap();
    let words = ["cannot read sbt.toml", "not a file", "rename"];
    refused(folder.path(), touch(folder.path(), &[], &[]), &words);
}

#[test]
fn a_wrong_variable_stops_everything() {
    crate::harness::needs_nothing!();
    for (name, value, expected) in [
        ("SBT_WARN_TIME", "soon", "milliseconds"),
        ("SBT_WATCH_ALL", "yes", "0 or 1"),
        ("SBT_WATCH", "lu.c:0", "line"),
        ("SBT_NO_DEBUG", "true", "0 or 1"),
    ] {
        let folder = folder();
        let said = format!("{name}={value}");
        let command = touch(folder.path(), &[], &[(name, value)]);
        refused(folder.path(), command, &[said.as_str(), expected]);
    }
}

#[test]
fn too_many_phases_are_refused() {
    crate::harness::needs_nothing!();
    let folder = folder();
    let phases: Vec<_> = (0..65).map(|n| format!("--phase=p{n}=a..b")).collect();
    let phases: Vec<_> = phases.iter().map(String::as_str).collect();
    let command = touch(folder.path(), &phases, &[]);
    refused(folder.path(), command, &["65", "--phase", "at most 64"]);
    let twice = ["--phase=solve=a..b", "--phase=solve=c..d"];
    let command = touch(folder.path(), &twice, &[]);
    refused(folder.path(), command, &["two phases", "`solve`"]);
}

#[test]
fn wrong_options_have_status_2() {
    crate::harness::needs_nothing!();
    for option in [
        "--watch=",
        "--name=lu.c:1",
        "--name=lu.c:1=",
        "--phase=p=a",
        "--mark=12",
        "--barrier=b:9",
        "--warn-time=0",
    ] {
        let finished = run(sbt_with(&["run", option, "--", "true"])).expect(2);
        assert!(finished.stderr.contains("--help"), "{finished}");
    }
}

#[test]
fn a_mistyped_variable_is_spoken_of_and_those_of_others_are_not() {
    crate::harness::needs_nothing!();
    let folder = folder();
    let line = |variables: &[(&str, &str)]| {
        let finished = run(touch(folder.path(), &[], variables));
        finished
            .stderr
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let said = line(&[("SBT_WACTH", "factor")]);
    assert!(
        said.starts_with("sbt: SBT_WACTH ") && said.contains("SBT_WATCH"),
        "{said}"
    );
    let said = line(&[("SBT_EVENTS", "cycles:instructoins")]);
    assert!(
        said.starts_with("sbt: SBT_EVENTS=") && said.contains("`instructions`"),
        "{said}"
    );
    let others = [
        ("SBT_OPTS", "-Xmx2G"),
        ("SBT_HOME", "/opt/sbt"),
        ("SBT_CREDENTIALS", "x"),
    ];
    let said = line(&others);
    assert!(!said.contains("SBT_"), "{said}");
}

#[test]
fn settings_are_shown_only_if_asked_for() {
    needs_root!();
    let folder = with_file("warn-time = 10");
    let of = |options: &[&str], variables: &[(&str, &str)]| {
        run(touch(folder.path(), options, variables))
            .expect(0)
            .stderr
    };
    assert_eq!(of(&[], &[]), "");
    assert_eq!(of(&[], &[("SBT_OPTIONS", "0"), ("SBT_VERBOSE", "0")]), "");
    let table = of(&["-v"], &[]);
    assert!(
        table.starts_with("sbt: settings, with sbt.toml\n"),
        "{table}"
    );
    assert_eq!(of(&[], &[("SBT_OPTIONS", "1")]), table);
    let described = of(&[], &[("SBT_VERBOSE", "1")]);
    assert!(
        described.lines().count() > table.lines().count() + 10,
        "{described}"
    );
    assert!(
        described.contains("--warn-time, SBT_WARN_TIME: "),
        "{described}"
    );
}

#[test]
fn a_file_of_somebody_else_is_ignored_in_a_line() {
    let ignored = |folder: &TempDir, why: &str| {
        let finished = run(touch(folder.path(), &["-v"], &[]));
        let line = finished.stderr.lines().next().unwrap_or_default();
        assert!(line.starts_with("sbt: sbt.toml is ignored: "), "{finished}");
        assert!(line.contains(why), "{finished}");
        assert_eq!(shown(&finished, "warn-time"), ["1s default"]);
    };
    let folder = with_file("warn-time = 10");
    let path = folder.path().join("sbt.toml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    ignored(&folder, "everybody");

    needs_root!();
    // Errors in the file cannot stop sbt, since it is not read.
    let folder = with_file("wacth = 10");
    let path = folder.path().join("sbt.toml");
    chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    ignored(&folder, "65534");
    // The file of the user who called sudo is read.
    fs::write(&path, "warn-time = 10").unwrap();
    let nobody = NOBODY.to_string();
    let variables = [("SUDO_UID", nobody.as_str()), ("SUDO_GID", &nobody)];
    let finished = run(touch(folder.path(), &["-v"], &variables));
    assert_eq!(shown(&finished, "warn-time"), ["10ms sbt.toml:1"]);
}

#[test]
fn what_a_file_holds_cannot_reach_the_terminal() {
    crate::harness::needs_nothing!();
    let folder = with_file("watch = [\"a\\u001b[31mb\"]");
    let finished = run(touch(folder.path(), &["-v"], &[]));
    assert_eq!(shown(&finished, "watch"), ["a?[31mb sbt.toml:1"]);
    assert!(!finished.stderr.contains('\x1b'), "{:?}", finished.stderr);
}

/// `sbt` told not to watch.
fn unwatched(arguments: &[&str]) -> Command {
    let mut command = sbt_with(arguments);
    command.env("SBT_NO_DEBUG", "1");
    command
}

#[test]
fn without_watching_the_program_takes_the_place_of_sbt() {
    crate::harness::needs_nothing!();
    // Neither is the file read.
    let folder = with_file("wacth = 1");
    let mut command = unwatched(&["run", "-v", "--", "sh", "-c", "echo $$; echo b >&2; exit 7"]);
    command.current_dir(folder.path());
    let started = start(command);
    let pid = started.pid();
    let finished = started.finish().expect(7);
    assert_eq!(finished.out(), format!("{pid}\n"));
    assert_eq!(finished.stderr, "b\n");

    let finished = run(unwatched(&["run", "--", "/no/such/program"])).expect(127);
    assert!(finished.one_line().contains("No such file"), "{finished}");
    let finished = run(unwatched(&["run", "--", "/etc/passwd"])).expect(126);
    assert!(finished.one_line().contains("/etc/passwd"), "{finished}");
}

#[test]
fn without_watching_demos_run_too_but_nothing_can_be_joined() {
    crate::harness::needs_nothing!();
    let finished = run(unwatched(&["demo", "matmul", "--scale", "0.05"])).expect(0);
    assert_eq!(finished.stderr, "", "{finished}");
    let pid = std::process::id().to_string();
    let finished = run(unwatched(&["attach", &pid])).expect(125);
    assert!(finished.one_line().contains("SBT_NO_DEBUG"), "{finished}");
}

#[test]
fn without_watching_nobody_needs_a_privilege_and_sudo_gives_none_away() {
    needs_root!();
    let script = "id -u; id -g; id -G; echo $USER";
    let of = |mut command: Command| {
        command.args(["sh", "-c", script]);
        run(command).expect(0).out()
    };
    let nobody = NOBODY.to_string();
    let sudo = |no_debug| {
        let mut command = sbt_with(&["run", "-q", "--"]);
        command
            .env("SBT_NO_DEBUG", no_debug)
            .env("SUDO_UID", &nobody)
            .env("SUDO_GID", &nobody);
        command
    };
    let plain = of(sudo("1"));
    assert!(plain.starts_with("65534\n65534\n65534\n"), "{plain}");
    // The output is the same as for a watched program.
    assert_eq!(plain, of(sudo("0")));

    let folder = folder();
    let copy = folder.path().join("sbt");
    install(sbt(), &copy);
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&copy)
        .args(["run", "--"])
        .env("SBT_NO_DEBUG", "1");
    let as_nobody = of(command);
    assert!(as_nobody.starts_with("65534\n65534\n"), "{as_nobody}");
}
