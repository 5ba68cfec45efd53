//! Files that compilers made, and damaged files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use sbt_common::layout;
use tempfile::TempDir;

use super::*;

use crate::points::points;

const BARRIER: &str = "
    #include <pthread.h>
    pthread_barrier_t barrier;
    int main(void) {
        pthread_barrier_init(&barrier, 0, 1);
        return pthread_barrier_wait(&barrier) > 0;
    }";

/// Defines the barrier's function itself, so that it does not depend on the libraries of this
/// machine.
const INTERPOSER: &str = "
    #include <pthread.h>
    #include <stdio.h>
    int pthread_barrier_wait(pthread_barrier_t *b) { return puts(\"mine\"); }";

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Compiles a source, and returns the bytes of the file.
pub(super) fn build(compiler: &str, options: &[&str], source: &str) -> Vec<u8> {
    let folder = TempDir::new().unwrap();
    let (input, output) = (folder.path().join("a.c"), folder.path().join("a"));
    fs::write(&input, source).unwrap();
    run(Command::new(compiler)
        .arg("-O2")
        .arg(&input)
        .arg("-o")
        .arg(&output)
        .args(options));
    fs::read(output).unwrap()
}

fn strip(image: &[u8], options: &[&str]) -> Vec<u8> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, image).unwrap();
    run(Command::new("strip").args(options).arg(&path));
    fs::read(path).unwrap()
}

fn system_libc() -> Vec<u8> {
    let paths = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6"];
    let path = paths.iter().find(|path| Path::new(path).exists()).unwrap();
    fs::read(path).unwrap()
}

fn functions(points: &[Point]) -> Vec<Function> {
    let mut functions: Vec<_> = points.iter().map(|point| point.function).collect();
    functions.sort();
    functions
}

/// Checks that each function is within the file and makes sense. The prologue's tests compare the
/// same bytes with objdump's output.
fn check_points(image: &[u8], points: &[Point]) {
    for point in points {
        let at = usize::try_from(point.entry_offset).unwrap();
        assert!(at < image.len());
        assert!(point.return_offset <= point.entry_offset);
        if point.function != Function::LinkerMapped {
            assert!(point.entry_emulated, "{point:?}");
        }
    }
}

/// The points of glibc; `pthread_cond_timedwait` and `clockwait` wait as well.
const OF_GLIBC: [Function; 7] = [
    Function::BarrierWait,
    Function::BarrierInit,
    Function::CondWait,
    Function::CondWait,
    Function::CondWait,
    Function::CondWake { most: 0 },
    Function::CondWake { most: 1 },
];

#[test]
fn system_libc_has_each_function_once() {
    let image = system_libc();
    let points = crate::points::points(&image).unwrap();
    assert_eq!(functions(&points), OF_GLIBC);
    assert!(points.iter().all(|point| point.layout == layout::GLIBC));
    check_points(&image, &points);
    assert!(build_id(&image).is_some());
}

#[test]
fn the_dynamic_linker_has_the_debuggers_hook() {
    let program = build("gcc", &[], BARRIER);
    assert_eq!(points(&program).unwrap(), [], "only undefined symbols");
    let linker = fs::read(interpreter(&program).unwrap()).unwrap();
    assert_eq!(
        functions(&points(&linker).unwrap()),
        [Function::LinkerMapped]
    );
}

#[test]
fn static_glibc() {
    for options in [&["-static"][..], &["-static-pie"]] {
        let image = build("gcc", options, BARRIER);
        let points = crate::points::points(&image).unwrap();
        let functions = functions(&points);
        assert!(functions.starts_with(&[Function::BarrierWait, Function::BarrierInit]));
        assert!(points.iter().all(|point| point.layout == layout::GLIBC));
        assert!(
            points
                .iter()
                .any(|point| point.symbol == "pthread_barrier_wait")
        );
        check_points(&image, &points);
        assert_eq!(interpreter(&image), None);
        assert_eq!(crate::points::points(&strip(&image, &[])).unwrap(), []);
    }
}

/// Debian's libc.a keeps only the alias if the other name is localised.
#[test]
fn only_the_alias_is_left() {
    let image = build("gcc", &["-static"], BARRIER);
    let image = strip(&image, &["-N", "pthread_barrier_wait"]);
    let points = crate::points::points(&image).unwrap();
    let wait = points
        .iter()
        .find(|point| point.function == Function::BarrierWait);
    assert_eq!(wait.unwrap().symbol, "__pthread_barrier_wait");
}

#[test]
fn musl() {
    let image = build("musl-gcc", &["-static"], BARRIER);
    let points = crate::points::points(&image).unwrap();
    assert_eq!(
        functions(&points),
        [Function::BarrierWait, Function::BarrierInit]
    );
    assert!(points.iter().all(|point| point.layout == layout::MUSL));
    check_points(&image, &points);

    let program = build("musl-gcc", &[], BARRIER);
    let shared = fs::read(interpreter(&program).unwrap()).unwrap();
    let points = crate::points::points(&shared).unwrap();
    // musl waits in one function, to which the other goes on.
    assert_eq!(
        functions(&points),
        [
            Function::BarrierWait,
            Function::BarrierInit,
            Function::CondWait,
            Function::CondWake { most: 0 },
            Function::CondWake { most: 1 },
            Function::LinkerMapped,
        ]
    );
    assert!(points.iter().all(|point| point.layout == layout::MUSL));
    check_points(&shared, &points);
}

#[test]
fn an_interposed_function_proves_no_layout() {
    for options in [&["-shared", "-fPIC"][..], &["-DX"]] {
        let source = format!("{INTERPOSER}\n#ifdef X\nint main(void) {{ return 0; }}\n#endif");
        let points = crate::points::points(&build("gcc", options, &source)).unwrap();
        assert_eq!(functions(&points), [Function::BarrierWait]);
        assert_eq!(points[0].layout, layout::OPAQUE);
    }
}

#[test]
fn offsets_are_of_the_file() {
    let image = build("gcc", &["-static"], BARRIER);
    let executable: Vec<_> = load_segments(&image)
        .unwrap()
        .into_iter()
        .filter(|segment| segment.executable)
        .collect();
    assert_eq!(executable.len(), 1);
    let file = ElfFile64::<LittleEndian>::parse(&image[..]).unwrap();
    let symbol = file.symbol_by_name("pthread_barrier_wait").unwrap();
    let expected =
        object::ObjectSymbol::address(&symbol) - executable[0].vaddr + executable[0].offset;
    let points = crate::points::points(&image).unwrap();
    let wait = points
        .iter()
        .find(|point| point.function == Function::BarrierWait);
    // The builds of all distributions choose an instruction near the beginning of this function.
    let distance = wait.unwrap().entry_offset - expected;
    assert!(distance < 16, "{distance}");
}

#[test]
fn what_is_not_a_program_says_so() {
    assert_eq!(points(b""), Err(ElfError::NotElf));
    assert_eq!(points(b"#!/bin/sh\n"), Err(ElfError::NotElf));
    assert!(matches!(points(b"\x7fELF"), Err(ElfError::Malformed(_))));
    let good = build("gcc", &[], BARRIER);
    let changed = |at: usize, value: u8| {
        let mut image = good.clone();
        image[at] = value;
        points(&image)
    };
    let arm = ElfError::NotX86_64 {
        class: 2,
        machine: 183,
    };
    assert_eq!(changed(18, 183), Err(arm));
    let x32 = ElfError::NotX86_64 {
        class: 1,
        machine: 62,
    };
    assert_eq!(
        x32.to_string(),
        "not a 64-bit x86 ELF file (class 1, machine 62)"
    );
    assert_eq!(changed(4, 1), Err(x32));
    assert!(matches!(changed(5, 2), Err(ElfError::Malformed(_))));
    assert!(!is_elf(b"\x7fEL"));
    assert_eq!(interpreter(b"\x7fELF"), None);
    assert_eq!(build_id(b"\x7fELF"), None);
}

fn everything(image: &[u8]) {
    if let Ok(points) = points(image) {
        assert!(points.len() <= MAX_POINTS);
        let length = image.len() as u64;
        assert!(points.iter().all(|point| point.entry_offset < length));
    }
    let _ = interpreter(image);
    let _ = build_id(image);
    let _ = load_segments(image);
}

#[test]
fn truncated_anywhere() {
    let image = build("musl-gcc", &["-static"], BARRIER);
    for length in (0..512).chain((512..image.len()).step_by(61)) {
        everything(&image[..length]);
    }
    let image = system_libc();
    for length in (0..image.len()).step_by(image.len() / 97) {
        everything(&image[..length]);
    }
}

/// The ranges of the tables of an ELF file, so that flipped bytes change something relevant.
fn table_ranges(image: &[u8]) -> Vec<std::ops::Range<usize>> {
    use object::read::elf::SectionHeader;
    let file = ElfFile64::<LittleEndian>::parse(image).unwrap();
    let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    let section_headers = usize::try_from(word(40)).unwrap();
    let mut ranges = vec![0..64 + 56 * 8, section_headers..image.len()];
    for section in file.elf_section_table().iter() {
        let interesting = [
            elf::SHT_SYMTAB,
            elf::SHT_DYNSYM,
            elf::SHT_DYNAMIC,
            elf::SHT_GNU_VERDEF,
            elf::SHT_GNU_VERNEED,
            elf::SHT_NOTE,
        ];
        if interesting.contains(&section.sh_type(LE)) {
            let start = usize::try_from(section.sh_offset(LE)).unwrap();
            let length = usize::try_from(section.sh_size(LE)).unwrap();
            ranges.push(start..start + length);
        }
    }
    ranges.retain(|range| !range.is_empty());
    ranges
}

#[test]
fn flipped_bytes() {
    let images = [
        build("musl-gcc", &["-static"], BARRIER),
        build("gcc", &[], BARRIER),
        build("gcc", &["-shared", "-fPIC"], INTERPOSER),
    ];
    let flips = proptest::collection::vec(any::<(u16, u32, u8)>(), 1..24);
    for image in &images {
        let ranges = table_ranges(image);
        proptest!(ProptestConfig::with_cases(500), |(flips in &flips)| {
            let mut image = image.clone();
            for (range, at, value) in flips {
                let range = &ranges[usize::from(range) % ranges.len()];
                image[range.start + at as usize % range.len()] = value;
            }
            everything(&image);
        });
    }
}

proptest! {
    #[test]
    fn garbage(mut bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        everything(&bytes);
        for (byte, magic) in bytes.iter_mut().zip(*b"\x7fELF\x02\x01\x01") {
            *byte = magic;
        }
        if let Some(machine) = bytes.get_mut(18..20) {
            machine.copy_from_slice(&[62, 0]);
        }
        everything(&bytes);
    }
}

#[test]
fn a_library_that_can_be_executed_is_no_program() {
    let mapped = crate::process::mappings(std::process::id());
    let libc = mapped
        .iter()
        .find(|mapping| mapping.path.ends_with("libc.so.6"));
    let libc = std::fs::read(&libc.unwrap().path).unwrap();
    assert!(interpreter(&libc).is_some() && !is_program(&libc));
    let own = std::fs::read("/proc/self/exe").unwrap();
    assert!(is_program(&own));
}
