//! Kernel probes of an sbt beside jumps of another: whichever comes and goes, the program stays right, and
//! what is not seen is told.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    harness::{Started, attach, command, folder, install, needs_root, pause, run, start},
    inject::{has_begun, kill_with_keeper},
    programs::{Build, program},
};

/// How long sbt may take to put its jumps in once it has its memory in a program, ms.
const SETTLED: u64 = 300;

fn displaced(program: &Path, function: &str, rounds: &str) -> Started {
    let mut target = start(command(program, &[function, rounds]));
    target.wait_for("ready");
    target
}

#[track_caller]
fn ended_right(target: Started) {
    let finished = target.finish().expect(0);
    assert_eq!(finished.out(), "ready\nright\n", "{finished}");
}

/// A kernel probe of another tool, on an instruction of a file, in every process.
struct Probe(String);

const TRACING: &str = "/sys/kernel/tracing";

impl Probe {
    fn on(file: &Path, symbol: &str) -> Self {
        let events = Path::new(TRACING).join("uprobe_events");
        if !events.exists() {
            run(command("mount", &["-t", "tracefs", "none", TRACING])).expect(0);
        }
        let symbols = run(command("nm", &[file])).expect(0).out();
        let line = symbols.lines().find(|line| line.ends_with(symbol)).unwrap();
        let at = line.split(' ').next().unwrap();
        let name = format!("sbt_{}_{symbol}", std::process::id());
        write(&events, &format!("p:{name} {}:0x{at}", file.display()));
        let this = Self(name);
        write(&this.switch(), "1");
        this
    }

    fn switch(&self) -> PathBuf {
        Path::new(TRACING).join(format!("events/uprobes/{}/enable", self.0))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        write(&self.switch(), "0");
        let events = Path::new(TRACING).join("uprobe_events");
        write(&events, &format!("-:{}", self.0));
    }
}

fn write(path: &Path, text: &str) {
    let file = fs::File::options().append(true).open(path);
    file.unwrap().write_all(text.as_bytes()).unwrap();
}

/// Where the first byte stays, the jump is as it was when the probe has gone; where it does not, the
/// program's instruction is there again before the probe goes.
#[test]
fn a_probe_on_a_jump_harms_nobody_and_is_told() {
    needs_root!();
    // Probes for everybody would be on the program of another test, too.
    let folder = folder();
    let copy = folder.path().join("displaced");
    install(&program("displaced.c"), &copy);
    for function in ["kept", "lost"] {
        let target = displaced(&copy, function, "12000");
        let barrier = format!("--barrier=meet_{function}");
        let inside = attach(target.pid(), &["--backend=inject", &barrier]);
        has_begun(target.pid());
        pause(SETTLED);
        let first = Instant::now();
        let mut hidden = Duration::ZERO;
        for _ in 0..3 {
            let begun = Instant::now();
            let probe = Probe::on(&copy, &format!("{function}_site"));
            pause(150);
            drop(probe);
            hidden += begun.elapsed();
            pause(150);
        }
        ended_right(target);
        if function == "lost" {
            hidden = first.elapsed();
        }
        let report = inside.lossy_report();
        assert!(report.number("arrivals") > 0, "{report}");
        assert!(report.number("lost_events") > 0, "{report}");
        let until = match function {
            "kept" => "until it goes",
            _ => "from then on",
        };
        assert!(
            report.is_noted(&format!(
                "on the instruction of meet_{function} at which sbt watches"
            )),
            "{report}"
        );
        assert!(report.is_noted(until), "{report}");
        // While arrivals are hidden, one event of each thread counts as lost for each look, and one more
        // for each probe. Looks are 20 ms apart or more.
        let looks = u64::try_from(hidden.as_millis()).unwrap() / 20 + 3;
        let threads = report.threads().len() as u64;
        let most = threads * looks + 3;
        assert!(report.number("lost_events") <= most, "{most}: {report}");
    }
}

/// sbt puts no probe on the jump of another sbt that lives, and leaves a program right after one that was
/// killed.
#[test]
fn probes_keep_away_from_the_jumps_of_another_sbt() {
    needs_root!();
    for (function, killed) in [
        ("kept", false),
        ("lost", false),
        ("kept", true),
        ("lost", true),
    ] {
        let target = displaced(&program("displaced.c"), function, "6000");
        let barrier = format!("--barrier=meet_{function}");
        let inside = attach(target.pid(), &["--backend=inject", &barrier]);
        has_begun(target.pid());
        pause(SETTLED);
        if killed {
            kill_with_keeper(&inside);
        }
        // The very instruction.
        let site = format!("--barrier={function}_site");
        let other = attach(target.pid(), &["--backend=ebpf", "--duration=0.5", &site]);
        let other = other.lossy_report();
        let note = match (killed, function) {
            (false, _) => "with --backend inject: this one does not watch it",
            (true, "lost") => "an sbt that was killed has left its jump in lost_site",
            _ => "",
        };
        let is_told = other.is_noted("jump") || other.is_noted("inject");
        assert_eq!(!note.is_empty(), is_told, "{other}");
        assert!(note.is_empty() || other.is_noted(note), "{other}");
        ended_right(target);
        if killed {
            drop(inside);
        } else {
            let report = inside.report();
            assert!(report.number("arrivals") > 0, "{report}");
            assert_eq!(report.number("lost_events"), 0, "{report}");
        }
    }
}

/// In GNU OpenMP both want the same calls and jumps.
#[test]
fn openmp_survives_probes_beside_jumps() {
    needs_root!();
    let build = Build::of("rapid.c").flags(&["-fopenmp"]);
    for killed in [false, true] {
        let arguments = ["rounds=1000000000", "most_ms=5000"];
        let target = start(command(build.path(), &arguments));
        pause(200);
        let inside = attach(target.pid(), &["--backend=inject"]);
        has_begun(target.pid());
        pause(SETTLED);
        if killed {
            kill_with_keeper(&inside);
        }
        for _ in 0..3 {
            let other = attach(target.pid(), &["--backend=ebpf", "--duration=0.2"]);
            let _seen = other.lossy_report();
        }
        target.finish().expect(0);
        if !killed {
            assert!(inside.lossy_report().number("arrivals") > 0);
        }
    }
}
