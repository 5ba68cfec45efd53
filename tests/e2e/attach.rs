//! `sbt attach`: joins anywhere, counts exactly from there on, leaves no trace.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use crate::{
    harness::{
        LIMIT, Report, Started, attach, command, eventually, folder, is_alive, needs_root, number,
        pause, run, sbt_with, start,
    },
    programs::{Build, line, program},
    turns::often,
};

/// Starts `truth`; returns when it has begun.
fn start_truth(arguments: &[&str]) -> Started {
    let mut target = start(command(program("truth.c"), arguments));
    target.wait_for("ready");
    target
}

/// The code at the entry of `truth`'s barrier function without a breakpoint.
pub fn clean_code() -> String {
    code_of(&program("truth.c"))
}

/// The code at the entry of the barrier function, as a build of `truth` itself prints it.
pub fn code_of(truth: &Path) -> String {
    let out = run(command(truth, &["rounds=1", "until=/dev/null"]))
        .expect(0)
        .out();
    out.lines()
        .find(|line| line.starts_with("code "))
        .unwrap()
        .to_owned()
}

/// A `truth` that does not look at its code and end before it is told to, when
/// nobody watches it any more.
pub struct Patient {
    pub target: Started,
    folder: tempfile::TempDir,
}

impl Patient {
    pub fn start(arguments: &[&str]) -> Self {
        let folder = folder();
        let until = format!("until={}", folder.path().join("now").display());
        let mut arguments = arguments.to_vec();
        arguments.push(&until);
        Self {
            target: start_truth(&arguments),
            folder,
        }
    }

    #[track_caller]
    pub fn ended_untouched(self, arrivals: u64) {
        fs::write(self.folder.path().join("now"), "").unwrap();
        ended_untouched(self.target, arrivals);
    }
}

/// The target has ended as it would have alone, with nothing left in its code.
#[track_caller]
fn ended_untouched(target: Started, arrivals: u64) {
    let finished = target.finish().expect(0);
    assert_eq!(
        finished.out(),
        format!("ready\n{}\ndone {arrivals}\n", clean_code())
    );
    assert_eq!(finished.stderr, "");
}

/// sbt watched from some moment to the very end and saw all arrivals from there on: a remainder of
/// arrivals belongs to the first episode.
#[track_caller]
fn is_a_tail(report: &Report, threads: u64) {
    let arrivals = report.number("arrivals");
    assert!(arrivals > 0, "nothing was seen: {report}");
    assert_eq!(report.number("lost_events"), 0, "{report}");
    assert_eq!(report.number("episodes"), arrivals / threads, "{report}");
    assert_eq!(
        report.number("incomplete_episodes"),
        u64::from(!arrivals.is_multiple_of(threads)),
        "{report}"
    );
    report.is_consistent();
}

/// Watched for a while: at most one incomplete episode at each end.
#[track_caller]
pub fn is_a_stretch(report: &Report, threads: u64) {
    let (arrivals, episodes) = (report.number("arrivals"), report.number("episodes"));
    let incomplete = report.number("incomplete_episodes");
    assert!(episodes > 0, "nothing was seen: {report}");
    assert_eq!(report.number("lost_events"), 0, "{report}");
    let rest = arrivals - episodes * threads;
    assert!(
        incomplete <= 2 && rest <= incomplete * (threads - 1),
        "{report}"
    );
    assert!(rest >= incomplete, "{report}");
    report.is_consistent();
}

#[test]
fn in_the_middle_of_a_run() {
    needs_root!();
    for option in ["--departures=on", "--departures=off", "--departures=auto"] {
        let target = start_truth(&["threads=4", "rounds=400", "base=2000", "skew=500"]);
        pause(200);
        let report = attach(target.pid(), &[option]).report();
        assert_eq!(report.number("pid"), u64::from(target.pid()));
        assert_eq!(report.threads().len(), 4);
        assert_eq!(report.list("barriers")[0]["participants"], 4);
        is_a_tail(&report, 4);
        let site = report.site_at(line("truth.c", "SITE meet"));
        assert_eq!(site["function"], "meet");
        assert_eq!(site["straggler"]["thread"], 3, "{report}");
        let finished = target.finish().expect(0);
        assert!(finished.out().contains("done 1600"), "{finished}");
    }
}

#[test]
fn with_threads_that_wait_already() {
    needs_root!();
    for option in ["--departures=on", "--departures=off"] {
        // All but thread 1 wait for 400 ms in every round.
        let target = start_truth(&["threads=4", "rounds=6", "sleep1=400000"]);
        pause(420);
        let report = attach(target.pid(), &[option]).report();
        assert_eq!(report.number("arrivals") % 4, 1, "{report}");
        is_a_tail(&report, 4);
        let site = &report.sites()[0];
        assert_eq!(site["straggler"]["share_pct"], 100.0, "{report}");
        target.finish().expect(0);
    }
}

#[test]
fn with_rounds_without_work() {
    needs_root!(alone);
    for option in ["--departures=on", "--departures=off"] {
        // Long enough for an sbt that gets little of the CPUs.
        let target = start_truth(&["threads=3", "rounds=400000"]);
        pause(50);
        let report = attach(target.pid(), &[option]).report();
        is_a_tail(&report, 3);
        target.finish().expect(0);
    }
}

#[test]
fn before_the_first_barrier() {
    needs_root!();
    let target = start_truth(&["threads=3", "rounds=100", "hold=1500000"]);
    let report = attach(target.pid(), &[]).report();
    report.is_exactly(300, 100);
    target.finish().expect(0);
}

#[test]
fn for_a_while() {
    needs_root!();
    let patient = Patient::start(&["threads=3", "rounds=700", "base=2000", "skew=300"]);
    pause(100);
    let report = attach(patient.target.pid(), &["--duration", "500ms"]).report();
    assert!(is_alive(patient.target.pid()));
    assert!(report.0["exit_status"].is_null(), "{report}");
    is_a_stretch(&report, 3);
    patient.ended_untouched(2100);
}

#[test]
fn until_interrupted() {
    needs_root!();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let patient = Patient::start(&["threads=3", "rounds=700", "base=2000", "skew=300"]);
        let attached = attach(patient.target.pid(), &[]);
        attached.wait_for_probes();
        pause(300);
        attached.sbt.signal(signal);
        let report = attached.report();
        assert!(is_alive(patient.target.pid()));
        is_a_stretch(&report, 3);
        patient.ended_untouched(2100);
    }
}

#[test]
fn again_and_again() {
    needs_root!();
    let patient = Patient::start(&["threads=3", "rounds=2400", "base=2000", "skew=300"]);
    for _ in 0..4 {
        let report = attach(patient.target.pid(), &["--duration", "150ms"]).report();
        is_a_stretch(&report, 3);
    }
    patient.ended_untouched(7200);
}

#[test]
fn two_at_once() {
    needs_root!();
    let target = start_truth(&["threads=4", "rounds=700", "base=2000", "skew=500"]);
    let first = attach(target.pid(), &["--departures=on"]);
    first.wait_for_probes();
    let short = attach(target.pid(), &["--duration", "300ms"]);
    let second = attach(target.pid(), &["--departures=off"]);
    is_a_stretch(&short.report(), 4);
    let (first, second) = (first.report(), second.report());
    for report in [&first, &second] {
        is_a_tail(report, 4);
        assert_eq!(report.sites()[0]["straggler"]["thread"], 3, "{report}");
    }
    assert!(first.number("episodes") >= second.number("episodes"));
    target.finish().expect(0);
}

#[test]
fn to_a_thread_means_to_its_process() {
    needs_root!();
    let target = start_truth(&["threads=3", "rounds=500", "base=2000", "skew=300"]);
    let tid = eventually(LIMIT, || {
        let tids = fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap();
        tids.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
            .find(|tid: &u32| *tid != target.pid())
    })
    .unwrap();
    let report = attach(tid, &[]).report();
    assert_eq!(report.number("pid"), u64::from(target.pid()));
    assert_eq!(report.threads().len(), 3);
    is_a_tail(&report, 3);
    target.finish().expect(0);
}

#[test]
fn while_threads_come_and_go() {
    needs_root!();
    let target = start(command(
        program("comeandgo.c"),
        &["waves=5000", "threads=4", "rounds=5"],
    ));
    pause(100);
    let report = attach(target.pid(), &[]).report();
    is_a_tail(&report, 4);
    target.finish().expect(0);
}

#[test]
fn a_library_that_is_loaded_later() {
    needs_root!();
    let plugin = plugin();
    let mut target = start(command(
        program("dlopen.c"),
        &[&plugin, "hold=1500000", "threads=3", "rounds=50"],
    ));
    target.wait_for("ready");
    let report = attach(target.pid(), &[]).report();
    report.is_exactly(150, 50);
    let site = report.site_at(line("plugin.c", "SITE plugin"));
    assert_eq!(site["function"], "plugin_loop");
    target.finish().expect(0);
}

/// The option that names the library to load.
pub fn plugin() -> String {
    let path: PathBuf = Build::of("plugin.c").flags(&["-shared", "-fPIC"]).path();
    format!("plugin={}", path.display())
}

#[test]
fn after_the_first_thread_has_left() {
    needs_root!();
    let mut target = start(command(program("leader.c"), &["rounds=1400"]));
    target.wait_for("ready");
    pause(200);
    let report = attach(target.pid(), &[]).report();
    is_a_tail(&report, 3);
    let site = report.site_at(line("leader.c", "SITE orphan"));
    assert_eq!(site["function"], "work");
    target.finish().expect(4);
}

#[test]
fn the_first_thread_leaves_while_attached() {
    needs_root!(alone);
    let target = start(command(
        program("leader.c"),
        &["rounds=1500", "stay=900000"],
    ));
    let report = attach(target.pid(), &[]).report();
    assert!(report.number("episodes") > 800, "{report}");
    is_a_tail(&report, 3);
    target.finish().expect(4);
}

#[test]
fn to_nobody() {
    needs_root!();
    let gone = start(command("/bin/true", &[] as &[&str]));
    let dead = gone.pid();
    gone.finish();
    for pid in [dead, 999_999_999, u32::MAX] {
        let finished = run(sbt_with(&["attach", &pid.to_string()])).expect(125);
        assert!(finished.one_line().contains(&pid.to_string()), "{finished}");
    }
}

#[test]
fn to_a_thread_of_the_kernel() {
    needs_root!();
    // In a container there is none to be seen, and nothing to test.
    let kernel = fs::read_to_string("/proc/2/stat").is_ok_and(|stat| stat.contains("(kthreadd)"));
    if kernel {
        let finished = run(sbt_with(&["attach", "2"])).expect(125);
        assert!(finished.one_line().contains("kernel"), "{finished}");
    }
}

#[test]
fn to_a_zombie() {
    needs_root!();
    let mut parent = start(command(program("zombie.c"), &[] as &[&str]));
    let line = parent.wait_for("ready ");
    let zombie = line.trim_start_matches("ready ").trim();
    let finished = run(sbt_with(&["attach", zombie])).expect(125);
    assert!(finished.one_line().contains("ended"), "{finished}");
}

#[test]
fn to_a_process_that_is_killed() {
    needs_root!();
    for wait in [0, 150, 300] {
        let target = start_truth(&["threads=4", "rounds=9000", "base=1000"]);
        let attached = attach(target.pid(), &[]);
        attached.wait_for_probes();
        pause(wait);
        target.signal(libc::SIGKILL);
        let report = attached.report();
        is_a_stretch(&report, 4);
        // sbt watched the program to its death, and does not know its exit status.
        assert_eq!(target.finish().status.code(), None);
    }
}

#[test]
fn to_processes_that_end_meanwhile() {
    needs_root!();
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut ends = (0, 0);
    // How long it takes until they are watched, on this machine today.
    let one = start_truth(&["threads=3", "rounds=3000", "base=1000"]);
    let begun = Instant::now();
    attach(one.pid(), &["--duration=1ms"]).report();
    drop(one);
    let most = (u64::try_from(begun.elapsed().as_millis()).unwrap()).max(200);
    for attempt in 0..often(60) {
        if attempt >= often(12) && ends.0 > 0 && ends.1 > 0 {
            break;
        }
        // The programs live for 0 to `most` rounds; attaching takes a part of that time.
        let rounds = format!("rounds={}", attempt * 37 % 200 * most / 200);
        let target = start(command(
            program("truth.c"),
            &["threads=3", "base=1000", &rounds],
        ));
        pause(attempt * 13 % 20);
        let mut command = sbt_with(&["attach", "--json", "--output"]);
        command.arg(&json).arg(target.pid().to_string());
        let _ = fs::remove_file(&json);
        // Reaped at once, as a shell would do; else only zombies were met.
        let sbt = start(command);
        let mut target = target;
        eventually(LIMIT, || (!target.is_running()).then_some(())).unwrap();
        let finished = sbt.finish();
        match finished.code() {
            0 => {
                ends.0 += 1;
                let report = Report::read(&json);
                assert_eq!(report.number("lost_events"), 0, "{report}");
                if report.number("arrivals") > 0 {
                    is_a_tail(&report, 3);
                }
            }
            125 => {
                ends.1 += 1;
                finished.one_line();
            }
            _ => panic!("{finished}"),
        }
        target.finish().expect(0);
    }
    assert!(
        ends.0 > 0 && ends.1 > 0,
        "{ends:?}: the timing tests nothing"
    );
}

#[test]
fn the_report_goes_to_standard_output_as_json() {
    needs_root!();
    let target = start_truth(&["threads=3", "rounds=500", "base=2000"]);
    let pid = target.pid().to_string();
    let finished = run(sbt_with(&["attach", "--json", "--duration=200ms", &pid])).expect(0);
    let report = Report(serde_json::from_slice(&finished.stdout).unwrap());
    is_a_stretch(&report, 3);
    assert_eq!(finished.stderr, "");
    target.finish().expect(0);
}

#[test]
fn to_several_teams_in_the_middle() {
    needs_root!();
    let target = start(command(program("teams.c"), &["rounds=1500"]));
    pause(200);
    let report = attach(target.pid(), &[]).report();
    assert_eq!(report.number("lost_events"), 0);
    assert!(report.number("incomplete_episodes") <= 3, "{report}");
    for (mark, threads) in [("a", 3), ("b", 2), ("everyone", 5)] {
        let site = report.site_at(line("teams.c", &format!("SITE {mark}")));
        assert_eq!(
            site["threads"].as_array().unwrap().len(),
            threads,
            "{report}"
        );
        assert!(number(site, "episodes") > 0);
    }
    report.is_consistent();
    target.finish().expect(0);
}

#[test]
fn to_a_stopped_process() {
    needs_root!();
    let patient = Patient::start(&["threads=3", "rounds=400", "base=2000"]);
    pause(200);
    patient.target.signal(libc::SIGSTOP);
    pause(50);
    let attached = attach(patient.target.pid(), &["--duration=300ms"]);
    let report = attached.report();
    assert_eq!(report.number("lost_events"), 0, "{report}");
    let stat = fs::read_to_string(format!("/proc/{}/stat", patient.target.pid())).unwrap();
    assert!(stat.contains(") T "), "no longer stopped: {stat}");
    patient.target.signal(libc::SIGCONT);
    patient.ended_untouched(1200);
}

#[test]
fn to_a_process_that_is_stopped_for_a_while() {
    needs_root!();
    let target = start_truth(&["threads=3", "rounds=600", "base=2000"]);
    let attached = attach(target.pid(), &[]);
    pause(500);
    target.signal(libc::SIGSTOP);
    pause(1200);
    target.signal(libc::SIGCONT);
    let report = attached.report();
    is_a_tail(&report, 3);
    // Whoever came last before did not make the others wait.
    assert!(
        report.is_noted("a signal stopped the program for"),
        "{report}"
    );
    target.finish().expect(0);
}

/// A copy of `truth` that has begun to run.
fn start_copy(folder: &tempfile::TempDir) -> (Started, PathBuf) {
    let copy = folder.path().join("copy");
    fs::copy(program("truth.c"), &copy).unwrap();
    let mut target = start(command(&copy, &["threads=3", "rounds=600", "base=2000"]));
    target.wait_for("ready");
    (target, copy)
}

#[test]
fn to_a_program_whose_file_is_gone() {
    needs_root!();
    let folder = folder();
    let (target, copy) = start_copy(&folder);
    fs::remove_file(copy).unwrap();
    let report = attach(target.pid(), &[]).report();
    is_a_tail(&report, 3);
    let site = report.site_at(line("truth.c", "SITE meet"));
    assert_eq!(site["function"], "meet", "{report}");
    target.finish().expect(0);
}

#[test]
fn to_a_program_that_has_been_built_again() {
    needs_root!();
    let folder = folder();
    let (target, copy) = start_copy(&folder);
    let other = folder.path().join("other");
    fs::copy(program("wrapper.c"), &other).unwrap();
    fs::rename(other, copy).unwrap();
    let report = attach(target.pid(), &[]).report();
    is_a_tail(&report, 3);
    // The site has the name of the file that runs, not of the file that has the path now.
    let site = report.site_at(line("truth.c", "SITE meet"));
    assert_eq!(site["function"], "meet", "{report}");
    target.finish().expect(0);
}
