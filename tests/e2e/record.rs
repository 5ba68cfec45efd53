//! `sbt run -o FILE`, `sbt report FILE`: a recording tells what the run told.

use std::{fs, path::Path};

use serde_json::Value;

use crate::{
    harness::{Finished, command, folder, needs_root, pause, run, sbt, sbt_with, start},
    programs::{Build, program},
};

/// Runs a program with options, and records it. Returns the report of the run, as JSON.
pub fn recorded(options: &[&str], program: &Path, arguments: &[&str], file: &Path) -> String {
    let report = file.with_extension("json");
    let (report_text, file_text) = (report.to_string_lossy(), file.to_string_lossy());
    let mut all = vec!["run", "--json", "--output", &report_text, "-o", &file_text];
    all.extend(options);
    let program = program.to_string_lossy();
    all.extend(["--", &program]);
    all.extend(arguments);
    run(sbt_with(&all)).expect(0);
    fs::read_to_string(report).unwrap()
}

fn reported(file: &Path) -> Finished {
    run(sbt_with(&["report", "--json", &file.to_string_lossy()]))
}

#[test]
fn a_recording_gives_the_report_that_the_run_gave() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("run.sbt");
    let openmp = Build::of("regions.c").flags(&["-fopenmp"]).path();
    let cases: [(&[&str], _, &[&str]); 4] = [
        (&[], program("barriers.c"), &[]),
        (
            &[
                "--watch-all",
                "-e",
                "page-faults,task-clock",
                "--states=full",
            ],
            program("states.c"),
            &["keep=sleep"],
        ),
        (&["--sample", "500", "--departures=on"], openmp, &[]),
        (
            &["--futex=on", "--budget=off"],
            program("condbarrier.c"),
            &[],
        ),
    ];
    for (options, program, arguments) in cases {
        let live = recorded(options, &program, arguments, &file);
        let again = reported(&file).expect(0);
        assert_eq!(again.stderr, "");
        assert!(
            again.out() == live,
            "{options:?}: {} and not {live}",
            again.out()
        );
        // A report in JSON can be shown as text as well as the recording can.
        let text = |path: &Path| {
            run(sbt_with(&["report", &path.to_string_lossy()]))
                .expect(0)
                .out()
        };
        assert_eq!(
            text(&file),
            text(&file.with_extension("json")),
            "{options:?}"
        );
    }
}

/// Options that bound a recording.
const BOUNDS: [&str; 2] = ["--keep=500ms", "--stats-only"];

/// A program that comes to its barrier some hundred times a second, for so long.
fn busy(seconds: u64) -> [String; 4] {
    let rounds = format!("rounds={}", seconds * 400);
    [
        "threads=3".into(),
        rounds,
        "base=2000".into(),
        "skew=100".into(),
    ]
}

#[test]
fn a_bounded_recording_gives_the_report_that_the_run_gave() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("run.sbt");
    for bound in BOUNDS {
        let cases: [(&[&str], _, u64); 3] = [
            (&[bound], program("barriers.c"), 0),
            (
                &[bound, "--watch-all", "--states=full"],
                program("truth.c"),
                0,
            ),
            // Long enough that the file was begun anew.
            (&[bound, "-e", "page-faults"], program("truth.c"), 3),
        ];
        for (options, program, seconds) in cases {
            let arguments = busy(seconds);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let arguments = if seconds > 0 { &arguments[..] } else { &[] };
            let live = recorded(options, &program, arguments, &file);
            let again = reported(&file).expect(0);
            assert_eq!(again.stderr, "");
            assert!(
                again.out() == live,
                "{options:?}: {} and not {live}",
                again.out()
            );
        }
        let files = fs::read_dir(folder.path()).unwrap();
        let files: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        assert_eq!(files.len(), 2, "{files:?}");
    }
}

#[test]
fn a_bounded_recording_does_not_grow_with_the_run() {
    needs_root!();
    let folder = folder();
    // All at once: they sleep most of the time, and sizes are not measured in time.
    let cases = [
        (&BOUNDS[..0], 11),
        (&BOUNDS[..1], 2),
        (&BOUNDS[..1], 11),
        (&BOUNDS[1..], 2),
        (&BOUNDS[1..], 11),
    ];
    let truth = program("truth.c");
    let size = |(options, seconds): (&[&str], u64)| {
        let file = folder.path().join(format!("{}{seconds}", options.concat()));
        let arguments = busy(seconds);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        recorded(options, &truth, &arguments, &file);
        fs::metadata(&file).unwrap().len()
    };
    let sizes = std::thread::scope(|scope| {
        let runs = cases.map(|case| scope.spawn(move || size(case)));
        runs.map(|run| run.join().unwrap())
    });
    let [whole, sizes @ ..] = sizes;
    for (bound, sizes) in BOUNDS.iter().zip(sizes.chunks(2)) {
        let (short, long) = (sizes[0], sizes[1]);
        assert!(long < 4 * short, "{bound}: {short} and {long} bytes");
        assert!(long < whole / 2, "{bound}: {long} of {whole} bytes");
    }
}

#[test]
fn a_bounded_recording_outlives_sbt_and_a_full_disk() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("run.sbt");
    let truth = program("truth.c");
    let arguments = busy(20);
    for bound in BOUNDS {
        let mut command = sbt_with(&["run", "--no-tui", bound, "-o"]);
        command.arg(&file).arg("--").arg(&truth).args(&arguments);
        let mut started = start(command);
        started.wait_for("ready");
        pause(3200);
        started.signal(libc::SIGKILL);
        let _killed = started.finish();
        let finished = reported(&file).expect(0);
        let report: Value = serde_json::from_str(&finished.out()).unwrap();
        let note = "the recording has no end";
        assert!(report["notes"].to_string().contains(note), "{report}");
        assert!(report["episodes"].as_u64() > Some(200), "{report}");
        assert!(report["wall_ns"].as_u64() > Some(1_500_000_000), "{report}");
    }
    // A disk of our own, which is gone with the shell.
    let script = "mount -t tmpfs -o size=320k none \"$1\" && cd / || exit 77
        \"$2\" run --json --output \"$3\" --keep=60 -o \"$1/run.sbt\" -- \"$4\" threads=3 \
            rounds=9000 base=300 >&2 || exit 78
        \"$2\" report --json \"$1/run.sbt\"";
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let live = folder.path().join("live.json");
    let mut shell = command("unshare", &["-m", "sh", "-c", script, "sh"]);
    shell.arg(&disk).arg(sbt()).arg(&live).arg(&truth);
    let finished = run(shell).expect(0);
    let report: Value = serde_json::from_str(&finished.out()).unwrap();
    assert!(report["episodes"].as_u64() > Some(10), "{report}");
    let live: Value = serde_json::from_str(&fs::read_to_string(live).unwrap()).unwrap();
    assert_eq!(live["episodes"], 9000, "the watching goes on: {live}");
    let note = "the recording is incomplete";
    assert!(live["notes"].to_string().contains(note), "{live}");
    assert!(report["episodes"].as_u64() < Some(9000), "{report}");
}

#[test]
fn what_was_written_before_sbt_was_killed_can_be_read() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("run.sbt");
    let truth = program("truth.c");
    let (file_text, program_text) = (file.to_string_lossy(), truth.to_string_lossy());
    let mut arguments = vec!["run", "--no-tui", "-o", &file_text, "--", &program_text];
    arguments.extend(["threads=3", "rounds=3000", "base=1000", "skew=300"]);
    let mut started = start(sbt_with(&arguments));
    started.wait_for("ready");
    pause(2500);
    started.signal(libc::SIGKILL);
    let _killed = started.finish();
    let report = |path: &Path| -> Value {
        let finished = reported(path).expect(0);
        serde_json::from_str(&finished.out()).unwrap()
    };
    let killed = report(&file);
    let episodes = killed["episodes"].as_u64().unwrap();
    assert!(episodes > 100, "{killed}");
    assert!(killed["wall_ns"].as_u64() > Some(1_000_000_000), "{killed}");
    let note = "the recording has no end";
    assert!(killed["notes"].to_string().contains(note), "{killed}");
    // And of a file that breaks off within a batch.
    let whole = fs::read(&file).unwrap();
    let torn = folder.path().join("torn.sbt");
    fs::write(&torn, &whole[..whole.len() - 40]).unwrap();
    let torn = report(&torn);
    assert!(torn["notes"].to_string().contains(note), "{torn}");
    let fewer = torn["episodes"].as_u64().unwrap();
    assert!(fewer > 0 && fewer <= episodes, "{torn}");
    // A changed byte makes each reader fail with a line of error, or not at all.
    for at in (0..whole.len()).step_by(whole.len() / 60 + 1) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        let path = folder.path().join("damaged.sbt");
        fs::write(&path, damaged).unwrap();
        let finished = reported(&path);
        assert!([0, 1].contains(&finished.code()), "byte {at}: {finished}");
        assert!(
            finished.stderr.lines().count() <= 1,
            "byte {at}: {finished}"
        );
    }
}

/// Where messages of a recording begin, and so batches may end.
fn boundaries(bytes: &[u8]) -> Vec<usize> {
    let begins = |at: &usize| {
        let [a, b, c, d, size @ ..] = &bytes[*at..*at + 8] else {
            return false;
        };
        let size = u32::from_le_bytes(size.try_into().unwrap());
        [a, b, c, d].iter().all(|byte| **byte == 0xff)
            && size > 0
            && size.is_multiple_of(8)
            && size < 65536
    };
    let all = (64..bytes.len().saturating_sub(8)).step_by(64);
    all.filter(begins).collect()
}

/// Fails unless the figures of a report that is not complete agree, and what cannot be known is
/// not told.
fn check_cut(report: &Value, what: &str) {
    let ns = |value: &Value| value.as_u64().unwrap_or(0);
    let wall = ns(&report["wall_ns"]);
    assert_eq!(
        report["incomplete"][0]["kind"], "no-end",
        "{what}: {report}"
    );
    assert!(report["efficiency"].is_null(), "{what}: {report}");
    assert_eq!(
        report["withheld"][0]["figure"], "efficiency",
        "{what}: {report}"
    );
    assert!(
        !report["verdicts"].to_string().contains("no-problem"),
        "{what}: {report}"
    );
    let threads = report["threads"].as_array().unwrap();
    for thread in threads {
        let parts = ["work_ns", "idle_ns", "release_ns", "between_ns"];
        let all: u64 = parts.iter().map(|part| ns(&thread[part])).sum();
        assert!(all <= wall, "{what}: {thread} in {wall} ns");
    }
    let all = ns(&report["thread_time"]["total_ns"]);
    assert!(all <= wall * threads.len() as u64, "{what}: {report}");
    assert!(report["arrivals"] == 0 || wall > 0, "{what}: {report}");
}

#[test]
fn a_cut_recording_tells_of_what_is_left_and_is_not_compared() {
    needs_root!();
    let folder = folder();
    let (file, cut) = (folder.path().join("run.sbt"), folder.path().join("cut.sbt"));
    let openmp = Build::of("regions.c").flags(&["-fopenmp"]).path();
    let busy = ["threads=3", "rounds=900", "base=1000", "skew=300"];
    let cases: [(&[&str], _, &[&str]); 5] = [
        (&[], program("truth.c"), &busy),
        (
            &["--departures=off", "-e", "page-faults"],
            program("truth.c"),
            &busy,
        ),
        (&["--keep=60"], program("truth.c"), &busy),
        (&["--states=full"], openmp, &[]),
        (&["--children"], program("processes.c"), &["us=20000"]),
    ];
    for (options, program, arguments) in cases {
        recorded(options, &program, arguments, &file);
        let whole = fs::read(&file).unwrap();
        let mut told = 0;
        for length in boundaries(&whole) {
            let what = format!("{options:?}, {length} of {}", whole.len());
            fs::write(&cut, &whole[..length]).unwrap();
            let finished = reported(&cut);
            if finished.code() == 0 {
                check_cut(&serde_json::from_str(&finished.out()).unwrap(), &what);
                told += 1;
            } else {
                assert_eq!(finished.stderr.lines().count(), 1, "{what}: {finished}");
            }
        }
        assert!(told >= 1, "{options:?}: {told}");
    }
    // Of the last one, which is cut within its last batch.
    let whole = fs::read(&file).unwrap();
    fs::write(&cut, &whole[..whole.len() - 100]).unwrap();
    let [file, cut] = [&file, &cut].map(|path| path.to_string_lossy());
    let said = |arguments: &[&str], status: i32| {
        let finished = run(sbt_with(arguments)).expect(status);
        format!("{}{}", finished.out(), finished.stderr)
    };
    for pair in [[&file, &cut], [&cut, &file]] {
        let text = said(&["diff", pair[0], pair[1]], 1);
        assert!(
            text.contains("no end") && text.contains("--allow-incomplete"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
        let text = said(&["diff", "--allow-incomplete", pair[0], pair[1]], 0);
        assert!(text.contains("is not complete"), "{text}");
    }
    let text = said(&["check", "--min-episodes=1", &cut], 5);
    assert!(
        text.contains("complete") && text.contains("--allow-incomplete"),
        "{text}"
    );
    said(
        &["check", "--min-episodes=1", "--allow-incomplete", &cut],
        0,
    );
    let baseline = ["check", "--baseline", &cut, "--tolerance=900%", &file];
    said(&baseline, 5);
    let table = folder.path().join("out.csv");
    let table_text = table.to_string_lossy();
    let text = said(&["report", &cut, "--csv", &table_text], 1);
    assert!(
        text.contains("--allow-incomplete") && !table.exists(),
        "{text}"
    );
    said(
        &["report", &cut, "--csv", &table_text, "--allow-incomplete"],
        0,
    );
    assert!(table.exists());
    // A report in JSON remembers it.
    let kept = folder.path().join("cut.json");
    let kept = kept.to_string_lossy();
    said(&["report", "--json", "--output", &kept, &cut], 0);
    said(&["diff", &kept, &file], 1);
    // One bit in the middle of the last batch: that batch is named.
    let mut damaged = whole.clone();
    let last = boundaries(&whole).pop().unwrap();
    damaged[last.midpoint(whole.len())] ^= 4;
    fs::write(&*cut, damaged).unwrap();
    let finished = run(sbt_with(&["report", &*cut]));
    let text = format!("{}{}", finished.out(), finished.stderr).replace('\n', " ");
    assert!(text.contains("the checksum of batch"), "{text}");
}

#[test]
fn a_recording_goes_nowhere_where_it_would_do_harm() {
    crate::harness::needs_nothing!();
    let folder = folder();
    let built = program("barriers.c");
    let program = folder.path().join("prog");
    fs::copy(&built, &program).unwrap();
    let before = fs::read(&program).unwrap();
    let program_text = program.to_string_lossy();
    let refused = |options: &[&str], words: &str| {
        let mut arguments = vec!["run", "--no-tui"];
        arguments.extend(options);
        arguments.extend(["--", &program_text]);
        let finished = run(sbt_with(&arguments)).expect(125);
        assert!(finished.stderr.contains(words), "{finished}");
        assert_eq!(finished.stderr.lines().count(), 1, "{finished}");
    };
    refused(&["-o", &program_text], "it is the program");
    assert_eq!(fs::read(&program).unwrap(), before);
    refused(&["-o", "/dev/full"], "cannot record into");
    let report = folder.path().join("report.json");
    let report = report.to_string_lossy();
    let both = ["--json", "--output", &report, "-o", &report];
    refused(&both, "name the same file");
}

#[test]
fn text_in_a_file_does_not_drive_the_terminal() {
    let folder = folder();
    needs_root!();
    let file = folder.path().join("run.sbt");
    let live = recorded(&[], &program("barriers.c"), &[], &file);
    let hostile = live.replace(
        "\"name\": \"barriers\"",
        "\"name\": \"\\u001b]52;c;x\\u0007\"",
    );
    assert_ne!(hostile, live);
    let path = folder.path().join("hostile.json");
    fs::write(&path, hostile).unwrap();
    let finished = run(sbt_with(&["report", &path.to_string_lossy()])).expect(0);
    assert!(finished.out().contains("52;c;x"), "{finished}");
    assert!(!finished.out().contains(['\u{1b}', '\u{7}']), "{finished}");
}

#[test]
fn what_is_no_recording_is_told_in_one_line() {
    crate::harness::needs_nothing!();
    let folder = folder();
    let cases: [(&str, &[u8], &str); 4] = [
        ("empty", b"", "is not a recording of sbt"),
        ("text", b"something else\n", "is not a recording of sbt"),
        (
            "parquet",
            b"PAR1\x15\x04\x15\x10",
            "is not a recording of sbt",
        ),
        (
            "json",
            b"{\"schema\": 1}",
            "is not a report of this version of sbt",
        ),
    ];
    for (name, bytes, expected) in cases {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        let finished = reported(&file).expect(1);
        assert!(finished.stderr.contains(expected), "{name}: {finished}");
        assert_eq!(finished.stderr.lines().count(), 1, "{name}: {finished}");
    }
    let finished = reported(Path::new("/nonexistent/run.sbt")).expect(1);
    assert!(
        finished.stderr.contains("cannot read /nonexistent/run.sbt"),
        "{finished}"
    );
}
