//! `sbt ctl`: scripts control a running sbt.

use serde_json::Value;

use crate::{
    harness::{
        Finished, LIMIT, Report, Started, eventually, folder, is_root, needs_root, number, pause,
        run, sbt, sbt_with, start,
    },
    look::{as_nobody, open},
    programs::program,
};

fn ask(pid: u32, order: &[&str]) -> Finished {
    let pid = pid.to_string();
    let words: Vec<&str> = ["ctl", &pid]
        .into_iter()
        .chain(order.iter().copied())
        .collect();
    run(sbt_with(&words))
}

fn snapshot(pid: u32) -> Value {
    let said = ask(pid, &["snapshot", "--json"]).expect(0);
    serde_json::from_str(&said.out()).unwrap()
}

/// Waits until the report so far is as wanted.
#[track_caller]
fn until(pid: u32, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let found = eventually(LIMIT, || Some(snapshot(pid)).filter(&is_wanted));
    found.unwrap_or_else(|| panic!("{:#}", snapshot(pid)))
}

/// A program of 3 threads with rounds of 2 ms, which ends when `file` is there, under sbt.
fn watched(options: &[&str], report: &str, file: &str) -> Started {
    let mut sbt = sbt_with(&["run", "--json", "--output", report]);
    sbt.env("SBT_BUDGET", "off").args(options).arg("--");
    sbt.arg(program("truth.c"));
    sbt.args(["threads=3", "rounds=2000", "base=2000", "load=sleep"]);
    start({
        sbt.arg(format!("until={file}"));
        sbt
    })
}

fn text(path: &std::path::Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_script_stops_starts_and_resets() {
    needs_root!();
    let folder = folder();
    let [json, file] = ["report.json", "go"].map(|name| text(&folder.path().join(name)));
    let sbt = watched(&[], &json, &file);
    let pid = sbt.pid();
    eventually(LIMIT, || {
        (ask(pid, &["snapshot"]).status.success()).then_some(())
    })
    .unwrap();
    let first = until(pid, |report| number(report, "episodes") > 20);
    let target = u32::try_from(number(&first, "pid")).unwrap();
    // The number of the program serves as well.
    let seen = ask(target, &["snapshot"]).expect(0).out();
    assert!(
        seen.contains("truth") && seen.contains("still running"),
        "{seen}"
    );

    let said = ask(pid, &["stop"]).expect(0).out();
    assert_eq!(said, "the probes are off; the program goes on unwatched\n");
    assert!(
        ask(pid, &["stop"])
            .expect(1)
            .one_line()
            .contains("off already")
    );
    let off = number(&snapshot(pid), "arrivals");
    pause(300);
    assert_eq!(number(&snapshot(pid), "arrivals"), off, "nothing is seen");

    ask(target, &["start"]).expect(0);
    let again = ask(pid, &["start"]).expect(1);
    assert!(
        again.one_line().contains("watches and counts already"),
        "{again}"
    );
    until(pid, |report| number(report, "arrivals") > off + 60);

    ask(pid, &["mark", "second part"]).expect(0);
    ask(pid, &["reset"]).expect(0);
    let anew = snapshot(pid);
    assert!(number(&anew, "wall_ns") < number(&first, "wall_ns") + 300_000_000);
    std::fs::write(&file, "").unwrap();
    sbt.finish().expect(0);
    let report = Report::read(std::path::Path::new(&json));
    let moments = report.list("moments");
    assert_eq!(moments.len(), 1, "{report}");
    assert_eq!(moments[0]["name"], "second part");
    assert!(report.number("arrivals") < 3 * 2000, "{report}");
    let gone = ask(pid, &["snapshot"]).expect(1);
    assert!(gone.one_line().contains("no sbt watches process"), "{gone}");
}

#[test]
fn a_script_begins_what_counts() {
    needs_root!();
    let folder = folder();
    let [json, file] = ["report.json", "go"].map(|name| text(&folder.path().join(name)));
    let sbt = watched(&["--start-after=1000h"], &json, &file);
    let pid = sbt.pid();
    let is_ready = || ask(pid, &["start"]).status.success().then_some(());
    pause(300);
    eventually(LIMIT, is_ready).unwrap();
    until(pid, |report| number(report, "episodes") > 20);
    std::fs::write(&file, "").unwrap();
    sbt.finish().expect(0);
    let report = Report::read(std::path::Path::new(&json));
    assert_eq!(report.0["window"]["has_begun"], true, "{report}");
    assert!(
        number(&report.0["window"], "after_ns") > 100_000_000,
        "{report}"
    );
    assert!(report.number("episodes") < 2000, "{report}");
}

/// Events from before a reset are still on their way when it comes.
#[test]
fn after_a_reset_nothing_from_before_counts() {
    needs_root!();
    for _ in 0..5 {
        let folder = folder();
        let [json, file] = ["report.json", "go"].map(|name| text(&folder.path().join(name)));
        let sbt = watched(&["--watch-all"], &json, &file);
        let pid = sbt.pid();
        eventually(LIMIT, || {
            (ask(pid, &["snapshot"]).status.success()).then_some(())
        })
        .unwrap();
        until(pid, |report| number(report, "episodes") > 20);
        ask(pid, &["reset"]).expect(0);
        until(pid, |report| number(report, "episodes") > 5);
        std::fs::write(&file, "").unwrap();
        sbt.finish().expect(0);
        let report = Report::read(std::path::Path::new(&json));
        assert!(report.0["efficiency"].is_object(), "{report}");
        let watched = report.list("watched");
        assert_eq!(watched.len() as u64, report.number("episodes"), "{report}");
        let wall_ns = report.number("wall_ns");
        for thread in report.list("threads") {
            let all_ns = number(thread, "work_ns") + number(thread, "idle_ns");
            assert!(all_ns <= wall_ns, "{report}");
        }
    }
}

/// Others open many connections, and say nothing.
#[test]
fn who_may_not_keeps_nobody_out() {
    needs_root!();
    let mut sbt = sbt_with(&["run", "-q", "--", "sleep", "30"]);
    sbt.env_remove("SUDO_UID");
    let sbt = start(sbt);
    let is_ready = || ask(sbt.pid(), &["snapshot"]).status.success().then_some(());
    eventually(LIMIT, is_ready).unwrap();
    let script = "import socket, sys, time\n\
        all = []\n\
        for _ in range(400):\n\
        \x20   one = socket.socket(socket.AF_UNIX)\n\
        \x20   one.connect('\\0sbt-ctl/' + sys.argv[1])\n\
        \x20   all.append(one)\n\
        print('open', flush=True)\n\
        time.sleep(30)\n";
    let mut others = std::process::Command::new("python3");
    others.args(["-c", script, &sbt.pid().to_string()]);
    std::os::unix::process::CommandExt::uid(&mut others, 65534);
    others.stdout(std::process::Stdio::piped());
    let mut others = others.spawn().unwrap();
    let mut line = String::new();
    let said = others.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).unwrap();
    assert_eq!(line, "open\n");
    let open = || {
        let files = std::fs::read_dir(format!("/proc/{}/fd", sbt.pid())).unwrap();
        (files.count() < 200).then_some(())
    };
    let is_bounded = eventually(LIMIT, open);
    let answer = ask(sbt.pid(), &["mark", "here"]);
    others.kill().unwrap();
    others.wait().unwrap();
    assert!(is_bounded.is_some(), "others hold its open files");
    answer.expect(0);
}

#[test]
fn who_may_not_is_refused() {
    crate::harness::needs_nothing!();
    let one = run(sbt_with(&["ctl", "1", "stop"])).expect(1);
    assert!(one.one_line().contains("no sbt watches process 1"), "{one}");
    run(sbt_with(&["ctl", "1", "mark", ""])).expect(2);
    run(sbt_with(&["ctl", "1", "begin"])).expect(2);
    if !is_root() {
        return;
    }
    let folder = folder();
    let nobodys = open(folder.path(), sbt());
    let mut ours = sbt_with(&["run", "-q", "--", "sleep", "30"]);
    ours.env_remove("SUDO_UID");
    let ours = start(ours);
    let ready = || {
        ask(ours.pid(), &["snapshot"])
            .status
            .success()
            .then_some(())
    };
    eventually(LIMIT, ready).unwrap();
    let mut theirs = as_nobody(&nobodys);
    theirs.args(["ctl", &ours.pid().to_string(), "stop"]);
    let refused = run(theirs).expect(1);
    assert!(
        refused
            .one_line()
            .contains("only root and the user who runs sbt"),
        "{refused}"
    );
}
