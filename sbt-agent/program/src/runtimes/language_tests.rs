use std::{fs, process::Command};

use tempfile::TempDir;

use super::{Code, object_after};
use crate::{
    elf::load_segments,
    point::{Function, Point, Team},
    runtimes::{self, language::BarrierFunction},
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
    runtimes::points(&image, &load_segments(&image).unwrap())
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
            assert!(points.iter().all(|point| point.entry_emulated));
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
    let named = |name: &str| super::named(name.as_bytes());
    for (name, is) in [
        (
            "_ZNSt3__131__arrive_barrier_algorithm_baseEPNS_24__barrier_algorithm_baseEh",
            BarrierFunction::LibCxx,
        ),
        (
            "_ZNSt14__tree_barrierISt18__empty_completionE6arriveEl",
            BarrierFunction::LibStdCxx,
        ),
        (
            "_RNvMs0_NtNtCsjrHSEGnQ3l9_3std4sync7barrierNtB5_7Barrier4wait",
            BarrierFunction::Rust,
        ),
        (
            "_ZN3std4sync7barrier7Barrier4wait17h0123456789abcdefE",
            BarrierFunction::Rust,
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

/// The object that code loads from. The code is at 0x1005, after a call of five bytes.
fn object(code: &[u8]) -> Option<Team> {
    let code = Code::new(0x1005, code);
    object_after(0x1000, code.instructions(0x1005, u64::MAX))
}

#[test]
fn where_the_object_is() {
    // movzx ebx, byte [rbp+0x19]; mov rdi, [rbp+0]
    let team = object(&[0x0f, 0xb6, 0x5d, 0x19, 0x48, 0x8b, 0x7d, 0x00]).unwrap();
    assert_eq!(
        (team.register, team.spilled, team.displacement),
        (9, None, 0)
    );
    // movzx ebx, byte [rip+0x119]; mov rdi, [rip+0xf9]: at 0x1125 and 0x110c
    let code = [
        0x0f, 0xb6, 0x1d, 0x19, 0x01, 0x00, 0x00, 0x48, 0x8b, 0x3d, 0xf9, 0x00, 0x00, 0x00,
    ];
    let team = object(&code).unwrap();
    assert_eq!(
        (team.register, team.spilled, team.displacement),
        (0, None, 0x10c)
    );
    // mov rax, [rsp+0x10]; movzx ebx, byte [rax+0x19]; mov rdi, [rax]
    let code = [
        0x48, 0x8b, 0x44, 0x24, 0x10, 0x0f, 0xb6, 0x58, 0x19, 0x48, 0x8b, 0x38,
    ];
    let team = object(&code).unwrap();
    assert_eq!(
        (team.register, team.spilled, team.displacement),
        (0, Some(0x10), 0)
    );
    // movzx r15d, byte [rip+0x2c51]; mov rdi, [r13]; lea r11, [rdi+1]
    let code = [
        0x44, 0x0f, 0xb6, 0x3d, 0x51, 0x2c, 0x00, 0x00, 0x49, 0x8b, 0x7d, 0x00, 0x4c, 0x8d, 0x5f,
        0x01,
    ];
    let team = object(&code).unwrap();
    assert_eq!(
        (team.register, team.spilled, team.displacement),
        (13, None, 0)
    );
    // mov rbp, rax; movzx ebx, byte [rbp+0x19]; mov rdi, [rbp+0]: rbp has changed since the call.
    let code = [
        0x48, 0x89, 0xc5, 0x0f, 0xb6, 0x5d, 0x19, 0x48, 0x8b, 0x7d, 0x00,
    ];
    assert_eq!(object(&code), None);
    // A byte before the word is not the phase: movzx ebx, [rbp+0]; mov rdi, [rbp+0x19]
    assert_eq!(
        object(&[0x0f, 0xb6, 0x5d, 0x00, 0x48, 0x8b, 0x7d, 0x19]),
        None
    );
    assert_eq!(object(&[]), None);
}
