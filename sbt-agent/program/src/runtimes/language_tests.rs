use std::{fs, process::Command};

use tempfile::TempDir;

use crate::{
    elf::load_segments,
    point::{Function, Point, Team},
    runtimes::{self, ALL},
};

fn compiled(compiler: &str, flags: &[&str], name: &str) -> Vec<Point> {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("program");
    let source = format!("{}/../../tests/programs/{name}", env!("CARGO_MANIFEST_DIR"));
    let built = Command::new(compiler)
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&output)
        .output()
        .unwrap();
    assert!(built.status.success(), "{compiler} {flags:?}: {built:?}");
    let image = fs::read(output).unwrap();
    runtimes::points(&image, &load_segments(&image).unwrap()).0
}

fn teams(points: &[Point]) -> Vec<Team> {
    let of = |point: &Point| match point.function {
        Function::Team(team) => Some(team),
        _ => None,
    };
    points.iter().filter_map(of).collect()
}

#[test]
fn whatever_the_compiler_makes_of_libstdcxx_is_found() {
    for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
        for strip in [&[][..], &["-s"]] {
            if level == "-O0" && !strip.is_empty() {
                // The function to be found has no name then.
                continue;
            }
            let flags = [&["-std=c++20", "-pthread", level][..], strip].concat();
            let points = compiled("g++", &flags, "stdbarrier.cpp");
            let teams = teams(&points);
            assert!(!teams.is_empty(), "{flags:?}");
            assert!(teams.iter().all(|team| team.has_count), "{teams:?}");
            let arrives = points
                .iter()
                .filter(|point| point.function != Function::Awaits);
            assert!(arrives.into_iter().all(|point| point.entry_emulated));
        }
    }
}

#[test]
fn barriers_are_found_where_libstdcxx_is_linked_in() {
    for linked in [&["-static-libstdc++"][..], &["-static"]] {
        for strip in [&[][..], &["-s"]] {
            let flags = [&["-std=c++20", "-pthread", "-O2"][..], linked, strip].concat();
            let points = compiled("g++", &flags, "stdbarrier.cpp");
            assert!(!teams(&points).is_empty(), "{flags:?}");
        }
    }
}

#[test]
fn waits_apart_from_arrivals_are_found() {
    let waits = |flags: &[&str]| {
        let points = compiled("g++", flags, "splitbarrier.cpp");
        let waits = points
            .iter()
            .filter(|point| point.function == Function::Awaits);
        (teams(&points).len(), waits.count())
    };
    for level in ["-O1", "-O2", "-O3"] {
        for strip in [&[][..], &["-s"]] {
            let flags = [&["-std=c++20", "-pthread", level][..], strip].concat();
            for (how, is_apart) in [
                (&[][..], true),
                (&["-DINLINED"], true),
                (&["-DTOGETHER"], false),
                (&["-DTOGETHER", "-DCOMPLETION"], false),
            ] {
                let flags = [&flags[..], how].concat();
                let (arrivals, apart) = waits(&flags);
                assert!(arrivals > 0, "{flags:?}");
                assert_eq!(apart > 0, is_apart, "{flags:?}");
            }
        }
    }
}

#[test]
fn rusts_number_of_threads_is_found() {
    let points = compiled("rustc", &["--edition=2021"], "rustbarrier.rs");
    let teams = teams(&points);
    assert_eq!(teams.len(), 1, "{points:?}");
    assert!(teams[0].has_count && teams[0].displacement > 0, "{teams:?}");
    let ends = points
        .iter()
        .filter(|point| point.function == Function::TeamEnd);
    assert_eq!(ends.count(), 1);
}

#[test]
fn names() {
    let named = |name: &str| {
        let mut all = ALL.iter().filter_map(|runtime| {
            let language = runtime.language.as_ref()?;
            (language.is_named)(name.as_bytes()).then_some(runtime.name)
        });
        all.next()
    };
    for (name, is) in [
        (
            "_ZNSt3__131__arrive_barrier_algorithm_baseEPNS_24__barrier_algorithm_baseEh",
            "libc++",
        ),
        (
            "_ZNSt14__tree_barrierISt18__empty_completionE6arriveEl",
            "libstdc++",
        ),
        (
            "_RNvMs0_NtNtCsjrHSEGnQ3l9_3std4sync7barrierNtB5_7Barrier4wait",
            "Rust",
        ),
        (
            "_ZN3std4sync7barrier7Barrier4wait17h0123456789abcdefE",
            "Rust",
        ),
    ] {
        assert_eq!(named(name), Some(is), "{name}");
    }
    for name in [
        "",
        "_ZN4mine7Barrier4waitEv",
        "_ZN3std4sync7barrier7Barrier3new17h0123456789abcdefE",
        "_ZNSt14__tree_barrierISt18__empty_completionE4waitEOSt17__barrier_phase_t",
    ] {
        assert_eq!(named(name), None, "{name}");
    }
}
