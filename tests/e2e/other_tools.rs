//! The examples of docs/recording.md for users of pandas, polars and `DuckDB`, run as they stand;
//! and other tools with probes and breakpoints where those of sbt are.

use std::{fs, os::unix::fs::FileExt as _, path::Path, process::Command};

use crate::{
    attach::Patient,
    harness::{
        Finished, LIMIT, Report, Started, attach, command, eventually, folder, needs_root, pause,
        run, sbt_with, start,
    },
    programs::{Build, program},
    tty::children,
    turns::skipped,
};

/// The indented parts of the document that import something.
fn examples() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/recording.md");
    let text = fs::read_to_string(path).unwrap();
    let mut blocks = vec![String::new()];
    for line in text.lines() {
        match line.strip_prefix("    ") {
            Some(code) => blocks.last_mut().unwrap().extend([code, "\n"]),
            None => blocks.push(String::new()),
        }
    }
    blocks.retain(|block| block.contains("import "));
    blocks
}

#[test]
fn examples_in_the_document_read_a_recording() {
    needs_root!();
    let Some(python) = std::env::var_os("SBT_PYTHON") else {
        skipped(
            "needs the Python that `cargo xtask test` prepares",
            "other_tools",
        );
        return;
    };
    let folder = folder();
    let file = folder.path().join("run.sbt");
    let program = program("truth.c");
    let file_text = file.to_string_lossy();
    let arguments = [
        "run",
        "--budget=off",
        "--no-tui",
        "-q",
        "-o",
        &file_text,
        "--",
    ];
    let mut command = sbt_with(&arguments);
    command.arg(program).args(["threads=3", "rounds=1234"]);
    run(command).expect(0);
    let examples = examples();
    assert_eq!(examples.len(), 3, "{examples:?}");
    for code in examples {
        let mut python = Command::new(&python);
        let finished = run({
            python.args(["-c", &code]).current_dir(folder.path());
            python
        });
        let finished = finished.expect(0);
        // Each counts the arrivals of each thread.
        let counts = finished.out().matches("1234").count();
        assert!(counts >= 3, "{code}{finished}");
    }
}

/// Started by a ptrace sbt; and which process it is.
struct Beside {
    sbt: Started,
    folder: tempfile::TempDir,
    target: u32,
}

impl Beside {
    fn start(program: &Path, arguments: &[&str]) -> Self {
        let folder = folder();
        let mut command = sbt_with(&["run", "--backend=ptrace", "--json"]);
        command.env("SBT_BUDGET", "off");
        command
            .arg("--output")
            .arg(folder.path().join("report.json"));
        command.arg("--").arg(program).args(arguments);
        let mut sbt = start(command);
        sbt.wait_for("ready");
        let name = program.file_name().unwrap().to_str().unwrap();
        let is_it = |pid: &u32| {
            let name_of = fs::read_to_string(format!("/proc/{pid}/comm"));
            name_of.is_ok_and(|it| it.trim_end() == &name[..name.len().min(15)])
        };
        let target = children(sbt.pid()).into_iter().find(is_it).unwrap();
        Self {
            sbt,
            folder,
            target,
        }
    }

    fn report(self) -> (Finished, Report) {
        let finished = self.sbt.finish().expect(0);
        let report = Report::read_lossy(&self.folder.path().join("report.json"));
        (finished, report)
    }
}

/// Its probes are on the target alone, or on everybody.
const WATCHED: [&str; 2] = ["--no-children", "--children"];

/// Another tool comes later and goes first: sbt knows what it missed meanwhile, and sees everything
/// again.
#[test]
fn a_probe_that_comes_and_goes_takes_nothing_silently() {
    needs_root!(alone);
    for children in WATCHED {
        let arguments = ["threads=4", "rounds=3000", "base=1000"];
        let beside = Beside::start(&program("truth.c"), &arguments);
        pause(500);
        let options = ["--backend=ebpf", children, "--duration=1"];
        let other = attach(beside.target, &options).report();
        assert!(other.number("arrivals") > 0, "{other}");
        let (_, report) = beside.report();
        let (seen, lost) = (report.number("arrivals"), report.number("lost_events"));
        // And may be some use of another place, of which nothing counts how often.
        let all = seen + lost;
        assert!((12_000..12_008).contains(&all), "{children}: {report}");
        assert!(seen <= 12_000, "{children}: {report}");
        assert!(
            report.is_noted("has probes or breakpoints at barriers"),
            "{report}"
        );
        // And most of it is seen, also while the other is there.
        assert!(seen > 3 * lost, "{children}: {report}");
        assert_eq!(lost > 0, report.is_noted("were not seen"), "{report}");
    }
}

/// Another tool comes later and stays: its probe stays when sbt's breakpoints go.
#[test]
fn a_probe_that_comes_later_stays_when_breakpoints_go() {
    needs_root!(alone);
    for children in WATCHED {
        let log = folder();
        let log = log.path().join("log");
        let patient = Patient::start(&[
            "threads=4",
            "rounds=3500",
            "base=1000",
            &format!("log={}", log.display()),
        ]);
        let pid = patient.target.pid();
        let first = attach(pid, &["--backend=ptrace"]);
        pause(500);
        let other = attach(pid, &["--backend=ebpf", children]);
        pause(900);
        first.sbt.signal(libc::SIGINT);
        let report = first.lossy_report();
        assert!(
            report.is_noted("has probes or breakpoints at barriers"),
            "{report}"
        );
        let alone_ns = now_ns();
        pause(1200);
        let until_ns = now_ns();
        other.sbt.signal(libc::SIGINT);
        let other = other.report();
        patient.ended_untouched(4 * 3500);
        let log = fs::read_to_string(&log).unwrap();
        let arrival = |line: &str| line.split(' ').nth(3)?.parse::<u64>().ok();
        let since = log.lines().filter_map(arrival);
        let since = since.filter(|at| (alone_ns..until_ns).contains(at)).count();
        // All since then, and some before.
        assert!(since > 0);
        assert!(other.number("arrivals") > since as u64, "{since}: {other}");
        assert_eq!(other.number("lost_events"), 0, "{other}");
    }
}

fn now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes into a structure of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    u64::try_from(now.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap()
}

/// A barrier that counts nothing: how much was missed is not known, but that something was.
#[test]
fn what_a_probe_takes_of_a_barrier_that_counts_nothing_is_lost_too() {
    needs_root!(alone);
    let build = Build::of("truth.c")
        .compiler("musl-gcc")
        .flags(&["-static"]);
    let beside = Beside::start(&build.path(), &["threads=3", "rounds=2500", "base=1000"]);
    pause(500);
    let other = attach(beside.target, &["--backend=ebpf", "--duration=1"]).report();
    assert!(other.number("arrivals") > 0, "{other}");
    let (_, report) = beside.report();
    let (seen, lost) = (report.number("arrivals"), report.number("lost_events"));
    assert!(lost > 0 && seen + lost <= 7500, "{report}");
    assert!(seen > 4000, "{report}");
    assert!(
        report.is_noted("has probes or breakpoints at barriers"),
        "{report}"
    );
}

/// A tool removes a breakpoint, as a debugger does.
#[test]
fn a_probe_of_the_kernel_that_is_taken_away_is_missed() {
    needs_root!(alone);
    let truth = Build::of("truth.c").flags(&["-static"]).path();
    let symbols = run(command("nm", &[&truth])).expect(0).out();
    let mut lines = symbols.lines();
    let line = lines.find(|line| line.ends_with(" pthread_barrier_wait"));
    let line = line.or_else(|| {
        symbols
            .lines()
            .find(|it| it.ends_with("pthread_barrier_wait"))
    });
    let at = u64::from_str_radix(line.unwrap().split(' ').next().unwrap(), 16).unwrap();
    let mut target = start(command(&truth, &["threads=3", "rounds=3000", "base=1000"]));
    target.wait_for("ready");
    let memory = fs::File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/{}/mem", target.pid()))
        .unwrap();
    let mut before = [0; 16];
    memory.read_exact_at(&mut before, at).unwrap();
    let other = attach(target.pid(), &["--backend=ebpf"]);
    let probed = eventually(LIMIT, || {
        let mut now = [0; 16];
        memory.read_exact_at(&mut now, at).unwrap();
        now.iter().position(|byte| *byte == 0xcc)
    });
    let probed = probed.unwrap();
    pause(500);
    memory
        .write_all_at(&before[probed..=probed], at + probed as u64)
        .unwrap();
    pause(300);
    other.sbt.signal(libc::SIGINT);
    let report = other.lossy_report();
    assert!(report.number("lost_events") > 0, "{report}");
    assert!(
        report.is_noted("another tool, such as a debugger, removed"),
        "{report}"
    );
    target.finish().expect(0);
}
