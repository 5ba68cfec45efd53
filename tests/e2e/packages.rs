//! Programs of Debian's packages, that nobody here has written.

use std::{fs, path::Path};

use crate::{
    condvars::stays_silent,
    harness::{Report, folder, needs_root, run, sbt_with},
    programs::Build,
};

/// The input of HPC Challenge: a small problem.
const HPCC: &str = include_str!("hpccinf.txt");

/// Stripped, linear algebra and sorting with MPI, in dozens of places.
#[test]
fn every_collective_of_hpc_challenge_is_counted() {
    needs_root!();
    let counts = Build::of("mpi_count.c")
        .compiler("mpicc.openmpi")
        .flags(&["-shared", "-fPIC"])
        .path();
    let folder = folder();
    fs::write(folder.path().join("hpccinf.txt"), HPCC).unwrap();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["run", "--budget=off", "--json", "--output"]);
    command
        .arg(&json)
        .args([
            "--",
            "mpirun.openmpi",
            "--allow-run-as-root",
            "--oversubscribe",
        ])
        .args(["-x", &format!("LD_PRELOAD={}", counts.display())])
        .args(["-n", "2", "hpcc"])
        .current_dir(folder.path());
    let finished = run(command).expect(0);
    let calls: Vec<u64> = finished
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("collectives ")?.parse().ok())
        .collect();
    assert_eq!(calls.len(), 2, "{finished}");
    let report = Report::read(&json);
    assert_eq!(
        report.number("arrivals"),
        calls.iter().sum::<u64>(),
        "{report}"
    );
    assert_eq!(report.number("incomplete_episodes"), 0, "{report}");
    assert_eq!(report.number("lost_events"), 0, "{report}");
    // Where they are called is behind the library that counts.
    assert!(report.sites().len() > 20, "{report}");
    for site in report.sites() {
        assert_eq!(site["kind"], "mpi", "{report}");
        assert_eq!(site["binary"], "hpcc", "{report}");
    }
}

/// OpenMP in a library.
#[test]
fn graphicsmagick_waits_in_its_library() {
    needs_root!();
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["run", "--json", "--output"]);
    command
        .arg(&json)
        .args(["--", "gm", "convert", "-size", "600x600", "plasma:red-blue"])
        .args(["-blur", "0x4", "picture.ppm"])
        .env("OMP_NUM_THREADS", "4")
        .current_dir(folder.path());
    run(command).expect(0);
    assert!(folder.path().join("picture.ppm").exists());
    let report = Report::read(&json);
    assert_eq!(report.number("incomplete_episodes"), 0, "{report}");
    // The gradient, and two directions of blurring: by 3 or 4 threads.
    assert!(report.number("episodes") >= 3, "{report}");
    report.is_consistent();
    for site in report.sites() {
        assert_eq!(site["kind"], "gomp", "{report}");
        assert_eq!(site["binary"], "libGraphicsMagick-Q16.so.3", "{report}");
        assert!(
            (3..=4).contains(&site["threads"].as_array().unwrap().len()),
            "{report}"
        );
    }
}

/// Threads that are given pieces of work have no barrier.
#[test]
fn pools_of_workers_stay_silent() {
    needs_root!();
    let programs = [
        (
            "/usr/bin/stress-ng",
            &["--pthread", "2", "--pthread-ops", "500"][..],
        ),
        ("/usr/bin/xz", &["-T2", "-k", "-c", "/bin/bash"]),
        ("/usr/bin/zstd", &["-T2", "-q", "-c", "/bin/bash"]),
    ];
    for (program, arguments) in programs {
        stays_silent(Path::new(program), arguments);
    }
}
