//! More of everything than is usual: threads, processes, libraries, ends.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    attach::code_of,
    harness::{
        LIMIT, Report, Started, attach, command, eventually, folder, needs_root, number, pause,
        run, sbt, sbt_with, start, watch, watch_with,
    },
    kill::{has_members, some},
    programs::{Build, line, program},
    turns::often,
};

/// One after the other, so that they lie at one place.
const TWO: Build = Build::of("reloaded.c").flags(&["-shared", "-fPIC", "-DCOUNT=2"]);
const THREE: Build = Build::of("reloaded.c").flags(&["-shared", "-fPIC", "-DCOUNT=3"]);

/// So many sbts are killed in one go.
const AT_ONCE: u64 = 8;

/// The report of a run, and the most memory that sbt has had, MiB.
fn with_memory(program: &Path, arguments: &[&str]) -> (Report, u64) {
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["run", "--json", "--output"]);
    command.env("SBT_BUDGET", "off").arg(&json).arg("--");
    command.arg(program).args(arguments);
    let mut sbt = start(command);
    let mut most = 0;
    while sbt.is_running() {
        let status = fs::read_to_string(format!("/proc/{}/status", sbt.pid()));
        let peak = status.ok().and_then(|status| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("VmHWM:"))?;
            line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
        });
        most = most.max(peak.unwrap_or(0));
        pause(10);
    }
    let finished = sbt.finish().expect(0);
    assert_eq!(finished.stderr, "", "{finished}");
    (Report::read(&json), most / 1024)
}

#[test]
fn threads_by_the_thousand_cost_no_memory_each() {
    needs_root!();
    let (report, together) = with_memory(&program("truth.c"), &["threads=1024", "rounds=10"]);
    report.is_exactly(10_240, 10);
    let arguments = ["waves=2500", "threads=4", "rounds=2"];
    let (report, in_turn) = with_memory(&program("comeandgo.c"), &arguments);
    report.is_exactly(20_000, 5_000);
    assert!(
        together < 128 && in_turn < 128,
        "{together} and {in_turn} MiB"
    );
}

#[test]
fn numbers_of_threads_are_used_again() {
    needs_root!();
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut inside = command("unshare", &["--pid", "--fork", "--mount-proc"]);
    inside.env("SBT_BUDGET", "off").arg(sbt());
    inside
        .args(["run", "--json", "--output"])
        .arg(&json)
        .arg("--");
    inside
        .arg(program("reused.c"))
        .args(["numbers=1", "waves=200"]);
    run(inside).expect(0);
    let report = Report::read(&json);
    report.is_exactly(3000, 1000);
    // Each is one of its own, whatever number it has.
    assert_eq!(report.threads().len(), 401, "{report}");
    let mut numbers: BTreeMap<u64, u64> = BTreeMap::new();
    for thread in &report.threads()[1..] {
        assert_eq!(number(thread, "arrivals"), 5, "{report}");
        *numbers.entry(number(thread, "tid")).or_default() += 1;
    }
    // Each number is used ten times and more in the mean.
    assert!(numbers.len() <= 40, "{numbers:?}");
}

#[test]
fn a_barrier_is_made_where_another_was() {
    needs_root!();
    for how in ["how=0", "how=1", "how=2"] {
        let report = watch(
            &program("reused.c"),
            &["barriers=1", "waves=99", "rounds=3", how],
        );
        report.is_exactly(33 * 3 * (2 + 3 + 4), 99 * 3);
    }
}

#[test]
fn children_by_the_thousand() {
    needs_root!();
    let program = program("forkstorm.c");
    let (finished, report) = watch_with(&["--children"], &program, &["children=500"]);
    assert_eq!(finished.expect(5).out(), "failed 0\n");
    report.is_exactly(2 * 2 * 1001, 2 * 1001);
    assert_eq!(
        report.list("processes").len(),
        1001,
        "each child, and each of theirs"
    );
    let (finished, report) = watch_with(&["--no-children"], &program, &["children=500"]);
    assert_eq!(finished.expect(5).out(), "failed 0\n");
    report.is_exactly(4, 2);
}

#[test]
fn children_whose_threads_end_together() {
    needs_root!();
    // Many processes side by side; and one after the other, so that the threads of one process
    // have all CPUs, and their ends fall together.
    for (children, at_once) in [(200, 50), (500, 1), (500, 1), (500, 1)] {
        let options = [
            &format!("children={children}"),
            &format!("at_once={at_once}"),
            "threads=4",
            "together=1",
        ];
        let (finished, report) = watch_with(&["--children"], &program("forkstorm.c"), &options);
        assert_eq!(finished.expect(5).out(), "failed 0\n");
        let teams = 2 * children + 1;
        report.is_exactly(2 * 4 * teams, 2 * teams);
        let lasting = |thread: &&Value| thread["ended"] != true && thread["pid"] != report.0["pid"];
        let lasting: Vec<&Value> = report.threads().iter().filter(lasting).collect();
        assert!(lasting.is_empty(), "{lasting:?}");
    }
}

#[test]
fn libraries_that_are_loaded_where_others_were() {
    needs_root!();
    let (a, b) = (
        format!("a={}", TWO.path().display()),
        format!("b={}", THREE.path().display()),
    );
    for (times, hold) in [(60, "hold=0"), (4, "hold=400000")] {
        let repeated = format!("times={times}");
        let report = watch(&program("reload.c"), &[&a, &b, &repeated, hold]);
        report.is_exactly(3 * times / 2 * (2 + 3), 3 * times);
        if hold == "hold=0" {
            // A library that is unloaded at once has no name any more, or the name of another.
            continue;
        }
        for site in ["SITE two", "SITE three"] {
            let site = report.site_at(line("reloaded.c", site));
            assert_eq!(number(site, "episodes"), 3 * times / 2, "{report}");
        }
    }
}

#[test]
fn a_program_of_another_user_is_executed() {
    needs_root!();
    let folder = folder();
    let path = folder.path().join("setuid");
    fs::copy(program("truth.c"), &path).unwrap();
    std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
    let arguments = [
        path.to_str().unwrap(),
        "threads=3",
        "rounds=2000",
        "base=500",
    ];
    for (before, program) in [(10, "exec.c"), (0, "exec_other.c")] {
        let report = watch(&crate::programs::program(program), &arguments);
        let site = report.site_at(line("truth.c", "SITE meet"));
        let seen = number(site, "episodes");
        // Another thread's probes come after its start.
        assert!(seen == 2000 || before == 0 && seen > 600, "{report}");
        assert_eq!(report.number("episodes"), before + seen, "{report}");
    }
}

#[test]
fn the_target_is_killed_at_any_moment() {
    needs_root!();
    let ended = [(); 2].map(|()| AtomicU64::new(0));
    let attempts = often(32);
    // How long it takes until one is watched, on this machine today, three at a time.
    let begun = Instant::now();
    let first = start(command(program("truth.c"), &["rounds=90000", "base=300"]));
    attach(first.pid(), &["--duration=1ms"]).report();
    drop(first);
    let whole = u64::try_from(begun.elapsed().as_millis()).unwrap().max(200) * 3 / 2;
    let one = |attempt: u64| {
        let options = [
            "--duration=60ms",
            "--departures=on",
            "--children",
            "--states=full",
        ];
        let target = start(command(
            program("truth.c"),
            &["threads=3", "rounds=90000", "base=300"],
        ));
        pause(some(10, attempt));
        let option = options[usize::try_from(attempt % 4).unwrap()];
        let pid = target.pid().to_string();
        let sbt = start(sbt_with(&["attach", "--json", option, &pid]));
        pause(some(
            if attempt.is_multiple_of(2) { 60 } else { whole },
            attempt,
        ));
        target.signal(libc::SIGKILL);
        let reaped = target.finish();
        assert_eq!(reaped.status.code(), None);
        let finished = sbt.finish();
        match finished.code() {
            0 => {
                let report = Report(serde_json::from_slice(&finished.stdout).unwrap());
                assert_eq!(report.number("lost_events"), 0, "{report}");
                report.is_consistent();
                ended[0].fetch_add(1, Ordering::Relaxed);
            }
            125 => {
                assert!(finished.one_line().contains(&pid), "{finished}");
                ended[1].fetch_add(1, Ordering::Relaxed);
            }
            _ => panic!("{finished}"),
        }
    };
    at_once(3, attempts, one);
    let ended = ended.map(AtomicU64::into_inner);
    assert!(
        ended[0] > 0 && ended[1] > 0,
        "{ended:?}: the timing tests nothing"
    );
}

/// Does something for each number below a limit, some of them at a time.
fn at_once(threads: u64, limit: u64, one: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= limit {
                        return;
                    }
                    one(number);
                }
            });
        }
    });
}

/// Processes and threads with the number of an ended process or thread are new ones.
#[test]
fn numbers_that_are_given_again_are_others() {
    needs_root!(alone);
    let numbers = program("numbers.c");
    for backend in ["--backend=ebpf", "--backend=ptrace"] {
        let (finished, report) = watch_with(&[backend, "--departures=on"], &numbers, &[]);
        let finished = finished.expect(0);
        // Four processes, three waves in each, and one round more to begin with.
        let episodes = 4 * 3 * (20 + 1);
        report.is_exactly(2 * episodes, episodes);
        // The first thread of each process, and one of each wave.
        assert_eq!(report.threads().len(), 4 * (1 + 3), "{report}");
        let out = finished.out();
        let same = out.trim().rsplit(' ').next().unwrap().parse().unwrap();
        let mut numbers: BTreeMap<u64, u64> = BTreeMap::new();
        for thread in report.threads() {
            assert_eq!(number(thread, "pid"), same, "{report}");
            *numbers.entry(number(thread, "tid")).or_default() += 1;
        }
        assert_eq!(numbers.remove(&same), Some(4), "{numbers:?}");
        // Each process has one for its waves, which another may have as well.
        assert!(numbers.values().all(|times| times % 3 == 0), "{numbers:?}");
        report.is_consistent();
    }
}

/// A program whose code no other sbt probes: an sbt that follows children puts probes on the C
/// library of all processes. So this program has its barriers in its own code.
struct Own {
    folder: TempDir,
    /// The code without probes.
    code: String,
}

impl Own {
    fn new() -> Self {
        let folder = folder();
        let program = folder.path().join("truth");
        fs::copy(Build::of("truth.c").flags(&["-static"]).path(), &program).unwrap();
        let code = code_of(&program);
        Self { folder, code }
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("truth")
    }

    /// Whether the output is that of a program that ends by itself.
    fn has_ended(&self, out: &str) -> bool {
        out == format!("ready\n{}\ndone 60\nstatus 7\n", self.code)
    }
}

/// One sbt and the process that it joined; `None` if it started the program.
struct Watching {
    seed: u64,
    sbt: Started,
    target: Option<Started>,
}

fn begin(seed: u64, script: &str) -> Watching {
    let options = [
        "--children",
        "--no-children",
        "--departures=on",
        "--states=full",
        "--futex=on",
        "--backend=ptrace",
        "--backend=perf",
    ];
    let option = options[usize::try_from(seed).unwrap() % options.len()];
    if !seed.is_multiple_of(3) {
        let sbt = start(sbt_with(&["run", option, "--", "sh", "-c", script]));
        return Watching {
            seed,
            sbt,
            target: None,
        };
    }
    let target = start(command("sh", &["-c", script]));
    let pid = eventually(LIMIT, || child_of(target.pid())).unwrap();
    let sbt = start(sbt_with(&["attach", option, &pid]));
    Watching {
        seed,
        sbt,
        target: Some(target),
    }
}

/// Kills each at another moment, in the first so many ms.
fn kill_all(running: &mut [Watching], within: u64) {
    let mut due: Vec<_> = running
        .iter_mut()
        .map(|one| (some(within, one.seed), &mut one.sbt))
        .collect();
    due.sort_by_key(|(moment, _)| *moment);
    let mut passed = 0;
    for (moment, sbt) in &due {
        pause(moment - passed);
        passed = *moment;
        sbt.signal(libc::SIGKILL);
    }
    for (_, sbt) in due {
        eventually(LIMIT, || (!sbt.is_running()).then_some(())).unwrap();
    }
}

/// At any moment of its set-up, some at a time: the program goes on to its right end, or
/// has not begun and is gone; no code stays patched.
#[test]
fn sbt_is_killed_at_any_moment() {
    needs_root!(alone);
    let own = Own::new();
    let truth = own.program();
    let since = Instant::now();
    watch(&truth, &["rounds=1"]).is_exactly(4, 1);
    let takes = u64::try_from(since.elapsed().as_millis()).unwrap();
    let (mut begun, mut never) = (0, 0);
    for batch in 0..often(200) / AT_ONCE {
        if batch >= often(40) / AT_ONCE && begun > 0 && never > 0 {
            break;
        }
        let folder = folder();
        let now = folder.path().join("now");
        let script = format!(
            "{} threads=3 rounds=20 base=1000 status=7 until={}; echo status $?",
            truth.display(),
            now.display()
        );
        let seeds = batch * AT_ONCE..(batch + 1) * AT_ONCE;
        let mut running: Vec<_> = seeds.map(|seed| begin(seed, &script)).collect();
        kill_all(&mut running, 2 * takes);
        fs::write(&now, "").unwrap();
        for Watching { seed, sbt, target } in running {
            if let Some(target) = target {
                let finished = target.finish().expect(0);
                assert!(own.has_ended(&finished.out()), "{seed}: {finished}");
                continue;
            }
            let group = sbt.pid();
            let left = eventually(LIMIT, || (!has_members(group)).then_some(()));
            assert!(left.is_some(), "{seed}: something stays behind");
            let out = sbt.out();
            never += u64::from(out.is_empty());
            begun += u64::from(!out.is_empty());
            assert!(out.is_empty() || own.has_ended(&out), "{seed}: {out}");
        }
    }
    assert!(
        begun > 0 && never > 0,
        "{begun} and {never}: the timing tests nothing"
    );
}

fn child_of(pid: u32) -> Option<String> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let first = children.split_whitespace().next()?;
    // Before it has executed the program there is nothing to watch.
    let name = fs::read_to_string(format!("/proc/{first}/comm")).ok()?;
    (name.trim() == "truth").then(|| first.to_owned())
}
