//! Jobs of MPI in which each rank is watched by an sbt of its own: one report of all recordings,
//! compared with what the program itself has noted.

use std::{fs, path::Path, process::Command};

use crate::{
    harness::{Report, command, folder, needs_root, number, run, sbt, sbt_with},
    mpi::{Mpi, is_as_noted, names_are_as_noted, nothing_is_left_out},
};

/// A launcher and its options, which starts ranks that are each watched and recorded into a folder.
/// `ranks`: for each part of the job how many ranks it has, and the command before sbt.
fn launched(mpi: &Mpi, ranks: &[(&str, &[&str])], into: &Path, program: &Path) -> Command {
    let mut launcher = command(Path::new(&mpi.start[0]), &mpi.start[1..]);
    launcher.env("SBT_BUDGET", "off");
    launcher.env_remove("SUDO_UID").env_remove("SUDO_GID");
    for (part, (count, before)) in ranks.iter().enumerate() {
        if part > 0 {
            launcher.arg(":");
        }
        launcher.args(["-n", *count]).args(*before).arg(sbt());
        launcher
            .args(["run", "-o"])
            .arg(into)
            .arg("--")
            .arg(program);
    }
    launcher
}

/// The report of a folder of recordings.
fn report(into: &Path) -> Report {
    let json = into.join("report.json");
    let mut told = sbt_with(&["report", "--json", "--output"]);
    told.arg(&json).arg(into);
    let told = run(told).expect(0);
    assert_eq!(told.stderr, "", "{told}");
    Report::read(&json)
}

/// The names of the recordings in a folder.
fn names(into: &Path) -> Vec<String> {
    let entries = fs::read_dir(into).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn ranks_are_one_job(mpi: &Mpi) {
    let folder = folder();
    // The folder is made by the first rank that comes.
    let into = folder.path().join("job/");
    let program = mpi.build("mpi_made.c");
    let finished = run(launched(mpi, &[("4", &[])], &into, &program)).expect(0);
    assert_eq!(finished.stderr, "", "{finished}");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let expected: Vec<String> = (0..4)
        .map(|rank| format!("{}-{rank}.sbt", host.trim()))
        .collect();
    assert_eq!(names(&into), expected);
    let report = report(&into);
    is_as_noted(&finished.out(), &report);
    assert_eq!(report.number("exit_status"), 0, "{report}");
    let job = &report.0["job"];
    assert_eq!((number(job, "recordings"), number(job, "ranks")), (4, 4));
    assert!(job["clocks"].is_null(), "{report}");
    // Named one by one they are the same job.
    let mut told = sbt_with(&["report"]);
    told.args(expected.iter().map(|name| into.join(name)));
    let text = run(told).expect(0).out();
    assert!(text.contains("4 ranks on 1 host"), "{text}");
    // A folder is judged and compared like a recording.
    let mut checked = sbt_with(&["check", "--min-episodes=50"]);
    checked.arg(&into);
    let text = run(checked).expect(0).out();
    assert!(text.contains("PASS  program"), "{text}");
    let mut compared = sbt_with(&["diff", "--json"]);
    compared.args([&into, &into]);
    let text = run(compared).expect(0).out();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let sites = all["sites"].as_array().unwrap().len();
    assert_eq!(sites, report.sites().len(), "{text}");
    // Without one of them no episode of all ranks is complete, and the report says so.
    let mut told = sbt_with(&["report"]);
    told.args(expected[1..].iter().map(|name| into.join(name)));
    let text = run(told).expect(0).out();
    assert!(
        text.contains("NOT COMPLETE: there is no recording of 1 of the 4 ranks"),
        "{text}"
    );
}

#[test]
fn ranks_of_open_mpi_4_that_are_recorded_each_are_one_job() {
    needs_root!();
    ranks_are_one_job(&Mpi::open_mpi_4());
}

#[test]
fn ranks_of_mpich_4_that_are_recorded_each_are_one_job() {
    needs_root!();
    ranks_are_one_job(&Mpi::mpich());
}

/// A second machine, as far as sbt can see: it has another name and another boot. Its clock is in truth
/// that of the first machine, so sbt must find an offset of 0, as exactly as it says.
#[test]
fn clocks_of_two_hosts_are_aligned() {
    needs_root!();
    let mpi = Mpi::open_mpi_4();
    let folder = folder();
    let into = folder.path().join("job/");
    let boot = folder.path().join("boot_id");
    fs::write(&boot, "5e0d1f5c-0000-4000-8000-000000000001\n").unwrap();
    let program = mpi.build("mpi_made.c");
    let elsewhere = [
        "unshare",
        "--uts",
        "--mount",
        "sh",
        "-c",
        "echo elsewhere > /proc/sys/kernel/hostname; \
         mount --bind \"$0\" /proc/sys/kernel/random/boot_id; exec \"$@\"",
        boot.to_str().unwrap(),
    ];
    let ranks: [(&str, &[&str]); 2] = [("2", &[]), ("2", &elsewhere)];
    let finished = run(launched(&mpi, &ranks, &into, &program)).expect(0);
    assert_eq!(finished.stderr, "", "{finished}");
    let report = report(&into);
    // Of other communicators than the world an episode may be incomplete, if its ranks leave within the
    // uncertainty of the clocks. The name "type" is left out: for MPI all ranks are on one machine, and so of
    // one communicator of that kind.
    names_are_as_noted(&finished.out(), &report, &["world", "self"]);
    let others = [
        "split", "dup", "nested", "create", "group", "grid", "row", "again",
    ];
    nothing_is_left_out(&finished.out(), &report, &others);
    let job = &report.0["job"];
    assert_eq!(job["hosts"][1]["name"], "elsewhere", "{report}");
    let clocks = &job["clocks"];
    // Ten meetings of all ranks are of the world itself.
    assert_eq!(number(clocks, "collectives"), 10, "{report}");
    let error_ns = number(clocks, "uncertainty_ns");
    let offset_ns = job["hosts"][1]["offset_ns"].as_i64().unwrap();
    assert!(offset_ns.unsigned_abs() <= error_ns, "{report}");
    let mut told = sbt_with(&["report"]);
    told.arg(&into);
    let text = run(told).expect(0).out();
    assert!(
        text.contains("clocks of 2 hosts aligned by 10 collectives"),
        "{text}"
    );
    assert!(
        text.contains("ranks by host: ") && text.contains(" (0-1), elsewhere (2-3)"),
        "{text}"
    );
}
