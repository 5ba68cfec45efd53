//! Privileges that sbt keeps, and their use for a user.

use std::{fs, path::Path};

use crate::{
    harness::{
        Finished, Report, Started, command, eventually, needs_root, run, sbt, sbt_with, start,
    },
    privilege::{Open, as_nobody, as_user},
    programs::{line, program},
};

const OTHER: &str = "65533";

const DAC_OVERRIDE: u64 = 1 << 1;
const READ_SEARCH: u64 = 1 << 2;
const PTRACE: u64 = 1 << 19;
const SYS_ADMIN: u64 = 1 << 21;
const SETUID: u64 = 1 << 7;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;

/// A field of each thread of a process, by which it is numbered in base 16.
fn of_threads(process: u32, field: &str) -> Vec<u64> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let statuses =
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
    let value = |status: String| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .map(str::to_owned);
        u64::from_str_radix(line?.trim_start_matches(':').trim(), 16).ok()
    };
    statuses.filter_map(value).collect()
}

/// The child that a process has, as soon as it has executed `program`.
fn program_of(process: u32, program: &Path) -> u32 {
    let found = eventually(crate::harness::LIMIT, || {
        let path = format!("/proc/{process}/task/{process}/children");
        let child: u32 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
        let exe = fs::read_link(format!("/proc/{child}/exe")).ok()?;
        (exe == program).then_some(child)
    });
    found.unwrap()
}

#[test]
fn privileges_are_given_up_by_all_threads_and_not_by_the_program() {
    needs_root!();
    let open = Open::new();
    let truth = open.copy(&program("truth.c"));
    let three = open.capable("cap_bpf,cap_perfmon,cap_sys_ptrace+ep");
    let options = ["run", "-q", "--sample", "100", "--states", "full", "--"];
    for is_root in [true, false] {
        let mut command = if is_root {
            sbt_with(&options)
        } else {
            as_nobody(&three)
        };
        if !is_root {
            command.args(options);
        }
        command
            .arg(&truth)
            .args(["threads=2", "rounds=100000", "base=1000"]);
        let mut watching = start(command);
        watching.wait_for("ready");
        // setpriv has become sbt.
        let process = watching.pid();
        assert_eq!(of_threads(process, "NoNewPrivs").iter().min(), Some(&1));
        let [effective, permitted, bounding] =
            ["CapEff", "CapPrm", "CapBnd"].map(|field| of_threads(process, field));
        assert!(effective.len() > 1, "it has more threads than one");
        let all = effective.iter().chain(&permitted);
        assert!(
            all.clone()
                .all(|set| set & (BPF | PERFMON | PTRACE) == BPF | PERFMON | PTRACE)
        );
        if is_root {
            assert!(
                all.clone().all(|set| set & (SYS_ADMIN | SETUID) == 0),
                "{permitted:x?}"
            );
            assert!(
                effective.iter().all(|set| set & DAC_OVERRIDE == 0),
                "{effective:x?}"
            );
            assert!(
                effective.iter().all(|set| set & READ_SEARCH != 0),
                "{effective:x?}"
            );
            assert!(bounding.iter().all(|set| *set == 0), "{bounding:x?}");
        } else {
            assert!(
                all.clone().all(|set| *set == BPF | PERFMON | PTRACE),
                "{permitted:x?}"
            );
        }
        let child = program_of(process, &truth);
        let ours = of_threads(std::process::id(), "CapEff")[0];
        let expected = if is_root { ours } else { 0 };
        assert!(
            of_threads(child, "CapEff")
                .iter()
                .all(|set| *set == expected)
        );
        assert_eq!(of_threads(child, "NoNewPrivs").iter().max(), Some(&0));
        watching.signal(libc::SIGTERM);
        watching.finish();
    }
}

/// Processes of the user, of another one and of root.
fn targets(truth: &Path) -> [Started; 3] {
    let run = ["threads=3", "rounds=1000000", "base=1000"];
    let commands = [
        as_nobody(truth),
        as_user(OTHER, truth),
        command(truth, &[""; 0]),
    ];
    commands.map(|mut command| {
        command.args(run);
        let mut target = start(command);
        target.wait_for("ready");
        target
    })
}

/// Runs sbt as nobody, as far as it comes within a moment.
fn asked(sbt: &Path, arguments: &[&str], pid: u32) -> Finished {
    let mut command = as_nobody(sbt);
    command.args(arguments).arg(pid.to_string());
    run(command)
}

#[test]
fn each_capability_is_for_what_the_documents_say() {
    needs_root!();
    let open = Open::new();
    let truth = open.copy(&program("truth.c"));
    let [own, others, roots] = targets(&truth);
    let json = open.path("a.json");
    let output = json.to_str().unwrap();
    let attach = ["attach", "--json", "--duration=300ms", "--output", output];
    let watches = |sbt: &Path, target: &Started| {
        let finished = asked(sbt, &attach, target.pid()).expect(0);
        assert_eq!(finished.stderr, "");
        let report = Report::read(&json);
        assert!(report.number("episodes") > 10, "{report}");
        report.site_at(line("truth.c", "SITE meet"));
        fs::remove_file(&json).unwrap();
    };
    let refuses = |sbt: &Path, arguments: &[&str], target: &Started, missing: &str| {
        let finished = asked(sbt, arguments, target.pid());
        assert_ne!(finished.code(), 0, "{finished}");
        assert!(finished.one_line().contains(missing), "{finished}");
    };

    let two = open.capable("cap_bpf,cap_perfmon+ep");
    watches(&two, &own);
    asked(&two, &["hang"], own.pid()).expect(0);
    for backend in ["--backend=ptrace", "--backend=perf"] {
        let mut command = as_nobody(&two);
        command.args(["run", "-q", backend, "--", "true"]);
        run(command).expect(0);
    }
    for target in [&others, &roots] {
        refuses(&two, &attach, target, "missing CAP_SYS_PTRACE");
        refuses(
            &two,
            &["hang"],
            target,
            "missing CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
        );
    }

    let three = open.capable("cap_bpf,cap_perfmon,cap_sys_ptrace+ep");
    watches(&three, &others);
    watches(&three, &roots);
    refuses(&three, &["hang"], &others, "missing CAP_DAC_READ_SEARCH");

    let four = open.capable("cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep");
    asked(&four, &["hang"], others.pid()).expect(0);

    // A look at one's own asks for nothing.
    let none = open.copy(sbt());
    asked(&none, &["hang"], own.pid()).expect(0);
    let by_programs = ["attach", "--backend=ebpf"];
    refuses(&none, &by_programs, &own, "missing CAP_BPF and CAP_PERFMON");
}

#[test]
fn a_first_thread_that_leaves_silences_nothing_for_an_ordinary_user() {
    needs_root!(alone);
    let open = Open::new();
    let leader = open.copy(&program("leader.c"));
    let two = open.capable("cap_bpf,cap_perfmon+ep");
    let json = open.path("a.json");
    let mut command = as_nobody(&two);
    command
        .args(["run", "--json", "--output"])
        .arg(&json)
        .arg("--");
    command.arg(&leader).arg("rounds=200");
    run(command).expect(4);
    let report = Report::read(&json);
    report.is_exactly(600, 200);
    assert_eq!(report.0["backend"], "ebpf");
    let mut command = as_nobody(&leader);
    command.arg("rounds=3000");
    let mut target = start(command);
    target.wait_for("ready");
    let output = json.to_str().unwrap();
    asked(
        &two,
        &["attach", "--json", "--output", output],
        target.pid(),
    )
    .expect(0);
    let report = Report::read(&json);
    report.site_at(line("leader.c", "SITE orphan"));
    assert!(report.number("episodes") > 100, "{report}");
    target.finish().expect(4);
}

#[test]
fn the_doctor_says_that_setcap_has_no_effect() {
    needs_root!();
    let script = "mount -t tmpfs -o nosuid,size=512m none /mnt && cp \"$1\" /mnt/sbt && \
                  setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep /mnt/sbt && \
                  setpriv --reuid=65534 --regid=65534 --clear-groups -- /mnt/sbt doctor";
    let mut command = command("unshare", &["--mount", "--", "sh", "-c", script, "sh"]);
    command.arg(sbt());
    let finished = run(command).expect(0);
    assert!(
        finished
            .out()
            .contains("less  setcap        setcap has no effect on /mnt/sbt"),
        "{finished}"
    );
    assert!(!finished.out().contains("sudo setcap"), "{finished}");
}
