//! `sbt check`: each exit status, of programs that are run and of recordings.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    harness::{
        Finished, LIMIT, command, eventually, folder, install, is_alive, is_root, needs_root, run,
        sbt, sbt_with, start,
    },
    mpi::Mpi,
    programs::{line, program},
};

/// `sbt check` with options, outside of any CI service.
fn check(options: &[&str]) -> Command {
    let mut command = sbt_with(&["check"]);
    for name in ["GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"] {
        command.env_remove(name);
    }
    command.args(options);
    command
}

/// Of a program that is run.
fn of_program(options: &[&str], program: &Path, arguments: &[&str]) -> Command {
    let mut command = check(options);
    command.arg("--").arg(program).args(arguments);
    command
}

/// Of a recording.
fn of_file(options: &[&str], file: &Path) -> Finished {
    let mut command = check(options);
    command.arg(file);
    run(command)
}

/// Three threads that meet every 2 ms, 40 times, with all others as these ask.
fn truth(more: &[&str]) -> (PathBuf, Vec<String>) {
    let usual = ["threads=3", "rounds=40", "base=2000"];
    let all = usual.iter().chain(more).map(|&it| it.to_owned());
    (program("truth.c"), all.collect())
}

/// Records it.
#[track_caller]
fn recorded(more: &[&str], file: &Path, status: i32) {
    let (program, arguments) = truth(more);
    let mut command = sbt_with(&["run", "-q", "--no-tui", "-o"]);
    command.arg(file).arg("--").arg(program).args(arguments);
    run(command).expect(status);
}

fn meet() -> String {
    format!("truth.c:{}", line("truth.c", "SITE meet"))
}

#[track_caller]
fn has_line(finished: &Finished, text: &str, words: &[&str]) {
    let found = text
        .lines()
        .any(|line| words.iter().all(|word| line.contains(word)));
    assert!(found, "no line with {words:?}: {finished}");
}

/// The output of `--json`, which must be as documented.
#[track_caller]
fn json(path: &Path) -> Value {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/check.schema.json");
    let schema = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let check = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let errors: Vec<_> = schema
        .iter_errors(&check)
        .map(|it| it.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    check
}

#[test]
fn rules_hold_or_are_broken_live_and_in_the_recording() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("run.sbt");
    let junit = folder.path().join("check.xml");
    let (path, arguments) = truth(&["skew=2000"]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (file_text, junit_text) = (file.to_string_lossy(), junit.to_string_lossy());
    let phase = format!("--max-phase={}=30s", meet());
    let good = [
        phase.as_str(),
        "--min-episodes=40",
        "--max-barrier-time=30s",
        "--max-lost=0.1%",
        "--no-hang=30s",
        "--junit",
        &junit_text,
        "-o",
        &file_text,
    ];
    let finished = run(of_program(&good, &path, &arguments)).expect(0);
    // What the program writes is not ours to add to.
    assert!(!finished.out().contains("PASS"), "{finished}");
    has_line(&finished, &finished.stderr, &["PASS", "min-episodes", "40"]);
    has_line(&finished, &finished.stderr, &["PASS", "max-phase", &meet()]);
    has_line(&finished, &finished.stderr, &["check: all ", "rules hold"]);
    let xml = fs::read_to_string(&junit).unwrap();
    let document = roxmltree::Document::parse(&xml).unwrap();
    let failures = document
        .descendants()
        .filter(|it| it.has_tag_name("failure"));
    assert_eq!(failures.count(), 0, "{xml}");

    // The first of three sleeps 2 ms and the last 6: 6 of 18 ms are waiting.
    let bad = ["--max-idle=10%", "--min-episodes=41"];
    let live = run(of_program(&bad, &path, &arguments)).expect(1);
    has_line(&live, &live.stderr, &["FAIL", "max-idle", "10 %", &meet()]);
    let again = of_file(&bad, &file).expect(1);
    assert_eq!(again.stderr, "", "{again}");
    has_line(&again, &again.out(), &["FAIL", "max-idle", "10 %", &meet()]);
    has_line(&again, &again.out(), &["FAIL", "min-episodes", "40", "41"]);
    has_line(&again, &again.out(), &["exit status 1"]);
    of_file(&["--min-episodes=40"], &file).expect(0);
}

#[test]
fn what_a_program_does_wrong_breaks_the_rule_that_is_about_it() {
    needs_root!(alone);
    let serial = program("verdicts.c");
    let meet = format!("verdicts.c:{}", line("verdicts.c", "SITE meet"));
    for (fault, rule, status) in [
        ("serial", "--max-imbalance=50%", 1),
        ("static", "--min-load-balance=0.9", 1),
        ("static", "--min-efficiency=0.9", 1),
        ("serial", "--max-barrier-time=2ms", 1),
        ("healthy", "--max-imbalance=50%", 0),
    ] {
        let fault = format!("fault={fault}");
        let finished = run(of_program(&[rule], &serial, &[&fault])).expect(status);
        let name = rule.split('=').next().unwrap().trim_start_matches("--");
        let verdict = if status == 0 { "PASS" } else { "FAIL" };
        has_line(&finished, &finished.stderr, &[verdict, name]);
    }
    let site = format!("--max-imbalance={meet}:50%");
    run(of_program(&[&site], &serial, &["fault=serial"])).expect(1);
}

#[test]
fn a_program_that_hangs_is_ended_with_all_that_it_has_started() {
    needs_root!();
    let folder = folder();
    let out = folder.path().join("check.json");
    let out_text = out.to_string_lossy();
    let hangs = program("hangs.c");
    let options = ["--no-hang=1s", "--json", "--output", &out_text];
    let finished = run(of_program(&options, &hangs, &["lock"])).expect(3);
    let check = json(&out);
    assert_eq!(check["result"], "hangs", "{finished} {check:#}");
    assert_eq!(check["program_status"], 143, "{check:#}");
    let first = &check["outcomes"][0];
    assert_eq!(first["rule"], "no-hang", "{check:#}");
    let text = first["text"].as_str().unwrap();
    assert!(text.contains("is missing"), "{check:#}");
    let pid = finished.out();
    let pid = pid.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(!is_alive(pid), "{finished}");

    // A child that does not listen to the signal hangs where its parent does not.
    let script = format!("trap '' TERM; {} lock; echo over", hangs.display());
    let started = start(of_program(&options, Path::new("sh"), &["-c", &script]));
    let finished = started.finish().expect(3);
    let out = finished.out();
    let stuck = out.lines().find(|line| line.starts_with("stuck "));
    let pid = stuck.unwrap_or_else(|| panic!("{finished}"));
    let pid = pid.trim_start_matches("stuck ").parse().unwrap();
    let ended = eventually(LIMIT, || (!is_alive(pid)).then_some(()));
    assert!(ended.is_some(), "{finished}");
}

#[test]
fn what_goes_on_behind_the_program_is_not_known_to_end() {
    needs_root!();
    let sh = Path::new("sh");
    let finished = run(of_program(
        &["--no-hang=1s"],
        sh,
        &["-c", "sleep 5 >&- 2>&- & exit 0"],
    ));
    let finished = finished.expect(1);
    let words = "1 of the watched processes continued after the program had ended";
    let said = (finished.out() + &finished.stderr)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(said.contains(words), "{said}");
}

#[test]
fn ranks_that_call_different_functions_are_found() {
    needs_root!();
    let mpi = Mpi::open_mpi_4();
    let program = mpi.build("mpi_apart.c");
    let program = program.to_str().unwrap();
    let mut words: Vec<&str> = mpi.start[1..].iter().map(String::as_str).collect();
    words.extend(["-n", "3", program]);
    let finished = run(of_program(
        &["--no-hang=1s"],
        Path::new(&mpi.start[0]),
        &words,
    ))
    .expect(3);
    let said = (finished.out() + &finished.stderr)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let [sum, meet] = ["sum", "meet"].map(|site| line("mpi_apart.c", &format!("SITE {site}")));
    for text in [
        &*format!("main mpi_apart.c:{sum} (1 of 3 is there"),
        &*format!("main mpi_apart.c:{meet} (2 of 3 are there"),
        "they wait for each other for ever",
        "all ranks must call the operations of a communicator in the same order",
    ] {
        assert!(said.contains(text), "{finished}");
    }
    // The launcher's own status is no fault of the program.
    assert!(!said.contains("has failed"), "{said}");
}

#[test]
fn a_hang_is_told_from_the_recording_too() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("run.sbt");
    let standstill = program("standstill.c");
    let mut command = sbt_with(&["run", "-q", "--no-tui", "--hang-time=1", "-o"]);
    command.arg(&file).arg("--").arg(&standstill);
    command.args(["how=read", "for=0", "watchdog=3000"]);
    run(command).expect(3);
    let finished = of_file(&["--no-hang=1s"], &file).expect(3);
    has_line(&finished, &finished.out(), &["FAIL", "no-hang"]);
    // Three seconds are less than an hour, but it is how it ended.
    of_file(&["--no-hang=1h"], &file).expect(3);
    of_file(&["--max-lost=1%"], &file).expect(3);
    let quick = folder.path().join("quick.sbt");
    recorded(&[], &quick, 0);
    let unknown = of_file(&["--no-hang=5s"], &quick).expect(1);
    has_line(&unknown, &unknown.out(), &["cannot be measured"]);
    of_file(&["--no-hang=10s"], &quick).expect(0);
}

#[test]
fn a_program_that_fails_fails_the_check() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("run.sbt");
    for (how, status, words) in [
        ("status=7", 7, "the program has failed"),
        ("raise=6", 134, "signal 6 ended the program"),
    ] {
        let (path, arguments) = truth(&[how]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let live = run(of_program(&["--min-episodes=1"], &path, &arguments)).expect(4);
        has_line(&live, &live.stderr, &[words]);
        recorded(&[how], &file, status);
        let again = of_file(&["--min-episodes=1"], &file).expect(4);
        has_line(&again, &again.out(), &[words]);
    }
}

#[test]
fn too_much_that_was_lost_is_another_status() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("report.json");
    let (path, arguments) = truth(&[]);
    let mut command = sbt_with(&["run", "--json", "--output"]);
    command.arg(&file).arg("--").arg(path).args(arguments);
    run(command).expect(0);
    of_file(&["--max-lost=0.1%"], &file).expect(0);
    let mut report: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    report["lost_events"] = 1.into();
    fs::write(&file, report.to_string()).unwrap();
    let finished = of_file(&["--max-lost=0.1%"], &file).expect(5);
    has_line(&finished, &finished.out(), &["FAIL", "max-lost"]);
    of_file(&["--max-lost=50%"], &file).expect(0);
}

#[test]
fn what_cannot_be_checked_at_all_is_no_broken_rule() {
    crate::harness::needs_nothing!();
    let folder = folder();
    let missing = folder.path().join("missing");
    let rule = "--max-idle=10%";
    let finished = of_file(&[rule], &missing).expect(125);
    assert!(
        finished.one_line().contains("write it after `--`"),
        "{finished}"
    );
    let text = folder.path().join("text");
    fs::write(&text, "no recording").unwrap();
    assert!(
        of_file(&[rule], &text)
            .expect(125)
            .one_line()
            .contains("not a recording")
    );
    let base = format!("--baseline={}", missing.display());
    assert!(
        of_file(&[&base], &text)
            .expect(125)
            .one_line()
            .contains("--baseline")
    );
    let output = format!("--output={}", text.display());
    assert!(
        of_file(&[rule, &output], &text)
            .expect(125)
            .one_line()
            .contains("another file")
    );
    assert_eq!(fs::read_to_string(&text).unwrap(), "no recording");
    if is_root() {
        run(of_program(&[rule], &missing, &[])).expect(127);
        run(of_program(&[rule], &text, &[])).expect(126);
    }
}

#[test]
fn without_a_rule_nothing_would_be_checked() {
    crate::harness::needs_nothing!();
    let folder = folder();
    let file = folder.path().join("any");
    fs::write(&file, "").unwrap();
    for (options, words) in [
        (&["--tolerance=5%"][..], "there is no rule to check"),
        (&[], "[check]"),
        (&["--max-idle=10%", "--duration=3"], "write it after `--`"),
    ] {
        let finished = of_file(options, &file).expect(2);
        assert!(finished.one_line().contains(words), "{finished}");
    }
    let program = Path::new("true");
    for (options, words) in [
        (&["--max-idle=10%", "--tui"][..], "--tui"),
        (&["--max-idle=10%", "--json"], "--output FILE"),
        (&["--no-hang=30s", "--duration=1"], "leave one of them out"),
    ] {
        let finished = run(of_program(options, program, &[])).expect(2);
        assert!(finished.one_line().contains(words), "{finished}");
    }
    of_file(&["--max-idle=10"], &file).expect(2);
}

#[test]
fn nobody_needs_privileges_for_a_recording_and_rules_may_be_in_a_file() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("run.sbt");
    recorded(&[], &file, 0);
    let copy = folder.path().join("sbt");
    install(sbt(), &copy);
    let rules = folder.path().join("sbt.toml");
    fs::write(&rules, "[check]\nmin-episodes = 41\nmax-lost = \"0.1%\"\n").unwrap();
    fs::set_permissions(&rules, fs::Permissions::from_mode(0o644)).unwrap();
    let as_nobody = |options: &[&str]| {
        let mut command = command("setpriv", &["--reuid=65534", "--regid=65534"]);
        command
            .args(["--clear-groups", "--"])
            .arg(&copy)
            .arg("check");
        command.args(options).arg(&file).current_dir(folder.path());
        command.env_remove("GITHUB_ACTIONS");
        run(command)
    };
    let finished = as_nobody(&[]).expect(1);
    has_line(&finished, &finished.out(), &["FAIL", "min-episodes", "41"]);
    // What is typed is stronger.
    as_nobody(&["--min-episodes=40"]).expect(0);
    assert_eq!(as_nobody(&["-q", "--min-episodes=40"]).expect(0).out(), "");
    fs::write(&rules, "[check]\nmin-epsiodes = 41\n").unwrap();
    let wrong = as_nobody(&["--min-episodes=40"]).expect(2);
    assert!(wrong.one_line().contains("`min-episodes`"), "{wrong}");
    // A file that everybody may write to is ignored, and sbt says so.
    fs::write(&rules, "[check]\nmin-episodes = 41\n").unwrap();
    fs::set_permissions(&rules, fs::Permissions::from_mode(0o666)).unwrap();
    let ignored = as_nobody(&["--min-episodes=40"]).expect(0);
    assert!(ignored.stderr.contains("sbt.toml is ignored"), "{ignored}");
}

#[test]
fn a_ci_service_gets_what_it_reads() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("run.sbt");
    recorded(&["skew=2000"], &file, 0);
    let rules = ["--max-idle=10%", "--max-phase=nowhere=1s"];
    let mut command = check(&rules);
    command.arg(&file).env("GITHUB_ACTIONS", "true");
    let finished = run(command).expect(1);
    let at = format!("line={}", line("truth.c", "SITE meet"));
    has_line(
        &finished,
        &finished.out(),
        &["::error title=", "truth.c", &at, "max-idle"],
    );
    has_line(
        &finished,
        &finished.out(),
        &["::error title=", "no site matches nowhere"],
    );

    let junit = folder.path().join("check.xml");
    let junit_text = junit.to_string_lossy();
    let (path, arguments) = truth(&["skew=2000"]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let rules = ["--max-idle=10%", "--junit", &junit_text];
    let mut command = of_program(&rules, &path, &arguments);
    command.env("GITHUB_ACTIONS", "true");
    let finished = run(command).expect(1);
    assert!(!finished.out().contains("::error"), "{finished}");
    has_line(&finished, &finished.stderr, &["::error title=", &at]);
    let xml = fs::read_to_string(&junit).unwrap();
    let document = roxmltree::Document::parse(&xml).unwrap();
    let failure = document.descendants().find(|it| it.has_tag_name("failure"));
    let case = failure.unwrap().parent_element().unwrap();
    assert_eq!(case.attribute("classname"), Some("sbt.max-idle"), "{xml}");
    let here = line("truth.c", "SITE meet").to_string();
    assert_eq!(case.attribute("line"), Some(here.as_str()), "{xml}");
}

#[test]
fn what_an_earlier_check_found_is_not_left_for_the_next() {
    crate::harness::needs_nothing!();
    let folder = folder();
    let junit = folder.path().join("check.xml");
    let junit_text = format!("--junit={}", junit.display());
    let text = folder.path().join("check.txt");
    let text_text = format!("--output={}", text.display());
    let none = "--baseline=/nonexistent";
    for more in [&[][..], &[none]] {
        fs::write(&junit, "<testsuites/>").unwrap();
        fs::write(&text, "all is well").unwrap();
        let options = [&["--max-idle=10%", &junit_text, &text_text], more].concat();
        of_file(&options, Path::new("/nonexistent")).expect(125);
        assert_eq!(fs::read_to_string(&junit).unwrap(), "");
        assert_eq!(fs::read_to_string(&text).unwrap(), "");
    }
}

#[test]
fn a_run_that_is_slower_than_the_baseline_breaks_the_rule() {
    needs_root!(alone);
    let folder = folder();
    let (fast, slow) = (
        folder.path().join("fast.sbt"),
        folder.path().join("slow.sbt"),
    );
    recorded(&[], &fast, 0);
    recorded(&["skew=6000"], &slow, 0);
    let base = |path: &Path| format!("--baseline={}", path.display());
    let same = of_file(&[&base(&fast)], &fast).expect(0);
    has_line(&same, &same.out(), &["PASS", "baseline", &meet()]);
    let slower = of_file(&[&base(&fast)], &slow).expect(1);
    has_line(&slower, &slower.out(), &["FAIL", "baseline", &meet()]);
    has_line(
        &slower,
        &slower.out(),
        &["FAIL", "baseline", "the whole run"],
    );
    of_file(&[&base(&slow)], &fast).expect(0);
    of_file(&[&base(&fast), "--tolerance=100000%"], &slow).expect(0);
}
