//! Reports reach their reader, or sbt says why not and can be ended.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::{fs::OpenOptionsExt as _, process::ExitStatusExt as _},
    path::Path,
};

use crate::{
    harness::{
        Finished, LIMIT, Started, command, eventually, folder, needs_nothing, needs_root, pause,
        run, sbt, sbt_with, start,
    },
    programs::program,
};

fn make_fifo(path: &Path) {
    run(command("mkfifo", &[path])).expect(0);
}

/// Waits until sbt writes its report.
#[track_caller]
fn wait_for_delivery(sbt: &Started) {
    let tasks = format!("/proc/{}/task", sbt.pid());
    let delivers = || {
        let mut tasks = fs::read_dir(&tasks).ok()?.flatten();
        let is_it = |task: fs::DirEntry| {
            let name = fs::read_to_string(task.path().join("comm"));
            name.is_ok_and(|name| name == "sbt-deliver\n")
        };
        tasks.any(is_it).then_some(())
    };
    eventually(LIMIT, delivers).unwrap_or_else(|| panic!("no report: {}", sbt.err()));
}

/// Fails unless the first signal does not end sbt, and the second does.
#[track_caller]
fn second_ends(mut sbt: Started, signals: [i32; 2]) {
    wait_for_delivery(&sbt);
    sbt.signal(signals[0]);
    pause(200);
    assert!(sbt.is_running(), "the first signal has ended sbt");
    sbt.signal(signals[1]);
    sbt.finish().expect(128 + signals[1]);
}

const SIGNALS: [[i32; 2]; 3] = [
    [libc::SIGINT, libc::SIGINT],
    [libc::SIGINT, libc::SIGTERM],
    [libc::SIGTERM, libc::SIGTERM],
];

fn truth(mut command: std::process::Command) -> std::process::Command {
    command.arg("--").arg(program("truth.c")).arg("rounds=10");
    command
}

#[test]
fn a_second_signal_ends_sbt_where_nobody_reads_the_report() {
    needs_root!();
    let folder = folder();
    let fifo = folder.path().join("fifo");
    make_fifo(&fifo);
    for signals in SIGNALS {
        let mut command = sbt_with(&["run", "--output"]);
        command.arg(&fifo);
        second_ends(start(truth(command)), signals);
    }
}

#[test]
fn a_reader_that_comes_late_gets_the_report_in_spite_of_a_signal() {
    needs_root!();
    let folder = folder();
    let fifo = folder.path().join("fifo");
    make_fifo(&fifo);
    let mut command = sbt_with(&["run", "--output"]);
    command.arg(&fifo);
    let sbt = start(truth(command));
    wait_for_delivery(&sbt);
    sbt.signal(libc::SIGINT);
    pause(100);
    let report = fs::read_to_string(&fifo).unwrap();
    assert!(report.contains("10 episodes"), "{report}");
    sbt.finish().expect(0);
}

/// A pipe that takes nothing more, with somebody who could read it.
fn full_pipe(path: &Path) -> fs::File {
    make_fifo(path);
    let mut pipe = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .unwrap();
    for size in [4096, 1] {
        while pipe.write(&vec![b'.'; size]).is_ok() {}
    }
    pipe
}

#[test]
fn a_second_signal_ends_sbt_where_a_pipe_is_full() {
    needs_root!();
    for signals in SIGNALS {
        let folder = folder();
        let path = folder.path().join("pipe");
        let _reader = full_pipe(&path);
        // The program writes elsewhere.
        let script = "exec \"$@\" 2>\"$0\"";
        let mut shell = command("sh", &["-c", script]);
        shell.arg(&path).arg(sbt()).arg("run");
        second_ends(start(truth(shell)), signals);
    }
}

/// The program goes on without sbt, and gets the first signal alone.
#[test]
fn a_program_that_is_no_longer_watched_outlives_what_ends_sbt() {
    needs_root!();
    let folder = folder();
    let fifo = folder.path().join("fifo");
    make_fifo(&fifo);
    let mut command = sbt_with(&["run", "--duration=100ms", "--output"]);
    command.arg(&fifo).args(["--", "sh", "-c"]);
    command.arg("trap 'echo heard' INT; echo $$; while :; do sleep 0.02; done");
    let mut sbt = start(command);
    let program: u32 = sbt.wait_for("").trim().parse().unwrap();
    wait_for_delivery(&sbt);
    sbt.signal(libc::SIGINT);
    sbt.wait_for("heard");
    sbt.signal(libc::SIGINT);
    let status = eventually(LIMIT, || (!sbt.is_running()).then_some(()));
    assert!(status.is_some(), "sbt goes on");
    pause(100);
    assert!(crate::harness::is_alive(program));
    assert_eq!(sbt.out().matches("heard").count(), 1);
    sbt.signal_all(libc::SIGKILL);
}

/// Runs sbt with a limit on the size of files, and reads its output through a pipe.
fn with_limit(arguments: &[&str]) -> Finished {
    let script = "{ (ulimit -f 1; exec \"$@\" 3>&1 >/dev/null 2>&3); echo \"status $?\"; } | cat";
    let mut shell = command("sh", &["-c", script, "sh"]);
    shell.arg(sbt()).args(arguments);
    run(shell).expect(0)
}

#[test]
fn a_limit_for_files_is_like_a_full_disk() {
    needs_root!();
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let truth = program("truth.c");
    for (status, expected) in [(0, 125), (7, 7)] {
        let finished = with_limit(&[
            "run",
            "--json",
            "--output",
            &path("json"),
            "-o",
            &path("recording"),
            "--",
            truth.to_str().unwrap(),
            "rounds=500",
            &format!("status={status}"),
        ]);
        let out = finished.out();
        assert!(out.contains(&format!("status {expected}\n")), "{finished}");
        let why = format!(
            "sbt: cannot write {}: File too large (`ulimit -f` limits it); the report is on \
             standard error instead",
            path("json")
        );
        assert!(out.contains(&why), "{finished}");
        // The whole report is there, and says what became of the recording.
        let (json, _) = out.split_once("\nsbt: cannot write").unwrap();
        let report: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(report["episodes"], 500, "{finished}");
        let notes = report["notes"].to_string();
        assert!(notes.contains("the recording is incomplete"), "{finished}");
    }
}

#[test]
fn a_program_is_ended_by_its_limit_for_files_as_ever() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("file");
    let script = format!(
        "ulimit -c 0; ulimit -f 1; exec dd if=/dev/zero of={} bs=4096 count=4",
        file.display()
    );
    let plain = run(command("sh", &["-c", &script]));
    assert_eq!(plain.status.signal(), Some(libc::SIGXFSZ), "{plain}");
    let ended = 128 + libc::SIGXFSZ;
    run(sbt_with(&["run", "-q", "--", "sh", "-c", &script])).expect(ended);
    let scaled = [
        "scale",
        "-q",
        "--threads=1",
        "--env=N={n}",
        "--",
        "sh",
        "-c",
    ];
    let mut command = sbt_with(&scaled);
    command.arg(&script);
    run(command).expect(ended);
}

#[test]
fn a_report_that_its_file_does_not_take_is_on_standard_error() {
    needs_root!();
    let folder = folder();
    let recording = folder.path().join("recording");
    let mut command = sbt_with(&["run", "-q", "-o"]);
    command.arg(&recording).arg("--output=/dev/full");
    let finished = run(truth(command)).expect(125);
    assert!(finished.stderr.contains("10 episodes"), "{finished}");
    let why = "sbt: cannot write /dev/full: No space left on device; the report is on standard \
               error instead\n";
    assert!(finished.stderr.ends_with(why), "{finished}");
    // The same holds for the output made from a recording.
    for words in [
        &["report", "--output=/dev/full"][..],
        &["report", "--json", "--output=/dev/full"],
        &["check", "--no-hang=1h", "--output=/dev/full"],
    ] {
        let mut command = sbt_with(words);
        command.arg(&recording);
        let finished = run(command);
        assert!(finished.stderr.ends_with(why), "{words:?}: {finished}");
        assert!(finished.stderr.lines().count() > 2, "{words:?}: {finished}");
        assert_ne!(finished.code(), 0, "{words:?}: {finished}");
    }
    let mut command = sbt_with(&["check", "--no-hang=1h", "--junit=/dev/full"]);
    command.arg(&recording);
    let finished = run(command).expect(125);
    assert!(finished.out().contains("no-hang"), "{finished}");
}

#[test]
fn what_cannot_be_printed_fails() {
    needs_root!();
    let folder = folder();
    let recording = folder.path().join("recording");
    let mut command = sbt_with(&["run", "-q", "-o"]);
    command.arg(&recording);
    run(truth(command)).expect(0);
    let recording = recording.to_str().unwrap();
    let truth = program("truth.c");
    let commands: [(&[&str], i32); 16] = [
        (&["doctor"], 1),
        (&["doctor", "--programs"], 1),
        (&["list"], 1),
        (&["list", truth.to_str().unwrap()], 1),
        (&["report", recording], 1),
        (&["report", "--json", recording], 1),
        (&["diff", recording, recording], 1),
        (&["diff", "--json", recording, recording], 1),
        (&["completions", "bash"], 1),
        (&["--help"], 1),
        (&["-h"], 1),
        (&["--version"], 1),
        (&["report", "--help"], 1),
        (&["run", "-h"], 1),
        // One says here that a rule is broken.
        (&["check", "--no-hang=1h", recording], 125),
        (&["demo", "list"], 125),
    ];
    for (words, status) in commands {
        let mut shell = crate::harness::command("sh", &["-c", "exec \"$@\" >/dev/full", "sh"]);
        shell.arg(sbt()).args(words);
        let finished = run(shell).expect(status);
        assert_eq!(
            finished.one_line(),
            "sbt: cannot write to standard output: No space left on device\n",
            "{words:?}"
        );
    }
}

/// Whoever has read enough is no failure.
#[test]
fn a_closed_pipe_is_no_failure() {
    needs_nothing!();
    for words in ["--help", "--version", "completions bash", "list"] {
        let script = format!("{{ '{}' {words}; echo $? >&2; }} | true", sbt().display());
        let finished = run(command("sh", &["-c", &script])).expect(0);
        assert_eq!(finished.stderr, "0\n", "{words}");
    }
}

#[test]
fn without_proc_it_is_named() {
    needs_root!();
    let folder = folder();
    let recording = folder.path().join("recording");
    let mut command = sbt_with(&["run", "-q", "-o"]);
    command.arg(&recording);
    run(truth(command)).expect(0);
    let hidden = |how: &str, words: &[&str]| {
        let script = format!("{how} /proc && exec \"$@\"");
        let mut unshare = crate::harness::command("unshare", &["-m", "sh", "-c", &script, "sh"]);
        unshare.arg(sbt()).args(words);
        run(unshare)
    };
    for how in ["umount -l", "mount -t tmpfs none"] {
        for (words, status) in [
            (&["run", "--", "true"][..], 125),
            (&["run", "--backend=ptrace", "--", "true"], 125),
            (&["attach", "1"], 125),
            (&["check", "--no-hang=1h", "--", "true"], 125),
            (&["scale", "--threads=1", "--", "true", "{n}"], 125),
            (&["demo", "lu-block"], 125),
            (&["hang", "1"], 1),
        ] {
            let finished = hidden(how, words).expect(status);
            let line = finished.one_line();
            assert!(line.starts_with("sbt: /proc is not mounted"), "{finished}");
            assert!(line.contains("mount -t proc proc /proc"), "{finished}");
        }
        let finished = hidden(how, &["doctor"]).expect(1);
        let line = "NO    /proc         is not mounted";
        assert!(finished.out().starts_with(line), "{finished}");
        // What watches nothing works.
        let recording = recording.to_str().unwrap();
        let finished = hidden(how, &["report", recording]).expect(0);
        assert!(finished.out().contains("10 episodes"), "{finished}");
        let page = folder.path().join("page.html");
        let _none_yet = fs::remove_file(&page);
        hidden(
            how,
            &["report", "--html", page.to_str().unwrap(), recording],
        )
        .expect(0);
        let mut text = String::new();
        fs::File::open(&page)
            .and_then(|mut page| page.read_to_string(&mut text))
            .unwrap();
        assert!(text.contains("</html>"), "{text}");
    }
}
