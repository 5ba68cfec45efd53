//! Files that are made to cost sbt more time or memory than there is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
};

use memmap2::Mmap;
use object::{LittleEndian, read::elf::ElfFile64};
use tempfile::TempDir;

use super::{
    debuginfo::DebugInfo,
    elf::{self, ElfError, names},
    unwind::{
        Unwind,
        tests::{map, symbol},
    },
};

/// Links `main` with the result of assembling `assembly`.
fn link(folder: &Path, assembly: &str, options: &[&str]) -> Mmap {
    let text = format!(
        ".globl main\n.text\n.type main, @function\nmain: ret\n.zero 15\n.size main, . - main\n\
         {assembly}\n.section .note.GNU-stack, \"\", @progbits\n"
    );
    let (source, program) = (folder.join("a.s"), folder.join("a"));
    fs::write(&source, text).unwrap();
    let mut command = Command::new("gcc");
    command
        .arg("-no-pie")
        .args(options)
        .arg(&source)
        .arg("-o")
        .arg(&program);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{done:?}");
    elf::map(&File::open(program).unwrap()).unwrap()
}

/// The name that [`DebugInfo`] finds for `main`. The DWARF of the tests calls it `other`, so `main`
/// means that the DWARF was not read.
fn name_of_main(assembly: &str, options: &[&str]) -> String {
    let folder = TempDir::new().unwrap();
    let image = link(folder.path(), assembly, options);
    let path = folder.path().join("a");
    let info = DebugInfo::open(&path, Path::new("/a"), folder.path()).unwrap();
    let frames = info.frames(symbol(&image, "main"));
    frames.last().unwrap().function.clone().unwrap()
}

/// A unit of DWARF 4 that holds `main`, with these entries in it. The first abbreviation is the
/// unit's own, with these additional attributes.
fn unit(attributes: &str, values: &str, abbreviations: &str, entries: &str) -> String {
    format!(
        ".section .debug_abbrev, \"\", @progbits
        .byte 1, 0x11, 1, 0x11, 1, 0x12, 7{attributes}, 0, 0
        {abbreviations}
        .byte 0
        .section .debug_info, \"\", @progbits
        3: .long 2f - 1f
        1: .short 4
        .long 0
        .byte 8, 1
        .quad main, 16
        {values}
        {entries}
        .byte 0
        2:"
    )
}

/// A function with a name and the addresses of `main`.
const FUNCTION: (&str, &str) = (
    ".byte 2, 0x2e, 0, 3, 8, 0x11, 1, 0x12, 7, 0, 0",
    ".byte 2\n.asciz \"other\"\n.quad main, 16",
);

#[test]
fn sections_that_expand_to_gigabytes() {
    // The compressed section takes a thousandth of its size in the file.
    let (abbreviation, entry) = FUNCTION;
    let with = |zeros: usize| {
        let bomb = format!(
            "{}\n.section .debug_str, \"\", @progbits\n.zero {zeros}",
            unit(
                "",
                "",
                &abbreviation.replace("3, 8", "3, 0xe"),
                &entry.replace(".asciz \"other\"", ".long 4b - 5b",)
            )
        );
        let text = ".section .debug_str, \"\", @progbits\n5: .zero 7\n4: .asciz \"other\"\n";
        name_of_main(
            &format!("{text}{bomb}"),
            &["-Wl,--compress-debug-sections=zlib"],
        )
    };
    assert_eq!(with(16), "other");
    assert_eq!(with(32 << 20), "main");
}

#[test]
fn functions_that_have_all_ranges_each() {
    let with = |count: usize| {
        let entries = format!(".rept {count}\n.byte 2\n.asciz \"other\"\n.long 4f\n.endr");
        let abbreviation = ".byte 2, 0x2e, 0, 3, 8, 0x55, 0x17, 0, 0";
        let ranges = format!(
            ".section .debug_ranges, \"\", @progbits\n4: .rept {count}\n.quad 0, 1\n.endr\n\
             .quad 0, 0"
        );
        name_of_main(
            &format!("{}\n{ranges}", unit("", "", abbreviation, &entries)),
            &[],
        )
    };
    assert_eq!(with(10), "other");
    assert_eq!(with(3000), "main");
}

#[test]
fn units_that_have_all_source_files_each() {
    let (abbreviation, entry) = FUNCTION;
    let with = |units: usize| {
        let unit = unit(", 0x10, 0x17", ".long 4f", abbreviation, entry);
        let (head, tail) = unit.split_once("3:").unwrap();
        let table = ".section .debug_line, \"\", @progbits
            4: .long 9f - 8f
            8: .short 4
            .long 9f - 7f
            7: .byte 1, 1, 1, 0xfb, 14, 1, 0
            .rept 200000\n.asciz \"a\"\n.byte 0, 0, 0\n.endr
            .byte 0
            9:";
        name_of_main(
            &format!("{head}\n.rept {units}\n3:{tail}\n.endr\n{table}"),
            &[],
        )
    };
    assert_eq!(with(2), "other");
    assert_eq!(with(80), "main");
}

#[test]
fn paths_without_an_end() {
    let (abbreviation, entry) = FUNCTION;
    let with = |length: usize| {
        let unit = unit("", "", abbreviation, entry);
        let texts = format!(".section .debug_line_str, \"\", @progbits\n.fill {length}, 1, 97");
        name_of_main(&format!("{unit}\n{texts}"), &[])
    };
    assert_eq!(with(100), "other");
    assert_eq!(with(100_000), "main");
}

#[test]
fn a_function_that_is_its_own_origin() {
    let abbreviation = ".byte 2, 0x2e, 0, 0x11, 1, 0x12, 7, 0x31, 0x13, 0, 0";
    let entry = "4: .byte 2\n.quad main, 16\n.long 4b - 3b";
    assert_eq!(
        name_of_main(&unit("", "", abbreviation, entry), &[]),
        "main"
    );
}

fn program() -> Vec<u8> {
    map(&["-O2", "-g"], "int main(void) { return 0; }").to_vec()
}

fn word(image: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(image[at..at + 8].try_into().unwrap())).unwrap()
}

fn refused(image: &[u8]) -> String {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, image).unwrap();
    let opened = DebugInfo::open(&path, Path::new("/a"), folder.path());
    let error = opened.err().unwrap().to_string();
    assert_eq!(crate::points::points(image).unwrap_err().to_string(), error);
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn more_segments_than_the_kernel_takes() {
    let mut image = program();
    let (phoff, count) = (word(&image, 32), 5000_u16);
    let segment = image[phoff..phoff + 56].to_vec();
    let end = image.len() as u64;
    image[32..40].copy_from_slice(&end.to_le_bytes());
    image[56..58].copy_from_slice(&count.to_le_bytes());
    image.extend(segment.repeat(count.into()));
    let error = refused(&image);
    assert!(
        error.contains("more segments than any program has"),
        "{error}"
    );
}

#[test]
fn segments_that_claim_more_than_there_is() {
    let mut image = program();
    let phoff = word(&image, 32);
    for index in 0..usize::from(image[56]) {
        let at = phoff + 56 * index;
        image[at + 32..at + 40].copy_from_slice(&(u64::MAX / 2).to_le_bytes());
    }
    let length = image.len() as u64;
    let segments = elf::load_segments(&image);
    // Notes are counted, too.
    assert!(
        matches!(segments, Err(ElfError::Excessive(_))),
        "{segments:?}"
    );
    for index in 0..usize::from(image[56]) {
        let at = phoff + 56 * index;
        if image[at] == 4 {
            image[at] = 0;
        }
    }
    for segment in elf::load_segments(&image).unwrap() {
        assert!(segment.offset + segment.filesz <= length, "{segment:?}");
    }
    // The search for similar code elsewhere stays within the bytes that exist.
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, &image).unwrap();
    let unwind = Unwind::of(elf::map(&File::open(path).unwrap()).unwrap()).unwrap();
    for function in unwind.functions() {
        let _known = unwind.codes(function.end, &[]);
    }
}

#[test]
fn billions_of_sections() {
    let mut image = program();
    let shoff = word(&image, 40);
    // A number of sections that is too big for the header stands in the first section.
    image[60..62].copy_from_slice(&[0, 0]);
    image[shoff + 32..shoff + 40].copy_from_slice(&0xffff_ffff_u64.to_le_bytes());
    // The sections are not in the file: their content is unknown.
    assert_eq!(elf::load_segments(&image).unwrap().len(), 4);
    assert!(crate::points::points(&image).is_err());
    let many = 20_000_u64;
    image[shoff + 32..shoff + 40].copy_from_slice(&many.to_le_bytes());
    image.resize(shoff + 64 * 20_000, 0);
    let error = refused(&image);
    assert!(
        error.contains("more sections than any program has"),
        "{error}"
    );
}

#[test]
fn a_file_of_holes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, program()).unwrap();
    let file = File::options().append(true).open(&path).unwrap();
    file.set_len(9 << 30).unwrap();
    let opened = DebugInfo::open(&path, Path::new("/a"), folder.path());
    let error = opened.err().unwrap().to_string();
    assert!(error.contains("bigger than any program is"), "{error}");
}

#[test]
fn names_of_sections_without_an_end() {
    let mut image = program();
    let file = ElfFile64::<LittleEndian>::parse(&image[..]).unwrap();
    let names = object::Object::section_by_name(&file, ".shstrtab").unwrap();
    let (start, length) = object::ObjectSection::file_range(&names).unwrap();
    let range = usize::try_from(start).unwrap()..usize::try_from(start + length).unwrap();
    image[range].fill(b'a');
    let error = refused(&image);
    assert!(error.contains("a section with an endless name"), "{error}");
}

#[test]
fn notes_of_four_gigabytes() {
    let mut image = program();
    let shoff = word(&image, 40);
    for index in 0..usize::from(image[60]) {
        let at = shoff + 64 * index;
        if image[at + 4] == 7 {
            image[at + 32..at + 40].copy_from_slice(&(4_u64 << 30).to_le_bytes());
        }
    }
    let error = refused(&image);
    assert!(error.contains("more notes than the file holds"), "{error}");
    assert_eq!(elf::build_id(&image), None);
}

#[test]
fn a_name_of_a_megabyte() {
    let folder = TempDir::new().unwrap();
    let name = format!("_Z1fI{}", "1aI".repeat(350_000));
    let image = link(folder.path(), &format!(".globl {name}\n{name}: ret"), &[]);
    let file = ElfFile64::<LittleEndian>::parse(&image[..]).unwrap();
    let longest = names::defined(&file).map(|symbol| symbol.name.len()).max();
    assert_eq!(longest, Some(names::MAX_NAME));
    let path = folder.path().join("a");
    let info = DebugInfo::open(&path, Path::new("/a"), folder.path()).unwrap();
    assert!(
        info.some_functions(100)
            .iter()
            .all(|name| name.len() <= names::MAX_NAME)
    );
}

#[test]
fn tables_for_unwinding_with_nothing_but_common_entries() {
    let folder = TempDir::new().unwrap();
    // Each common entry is as short as possible, and one never ends.
    let common = ".rept 20000\n.long 12, 0\n.byte 1, 0, 1, 0x78, 16, 0, 0, 0\n.endr\n";
    let endless = ".long 0x7ffffff0, 0\n.byte 1\n.fill 100000, 1, 97\n";
    let image = link(
        folder.path(),
        &format!(".section .eh_frame, \"a\", @progbits\n{common}{endless}"),
        &[
            "-nostdlib",
            "-Wl,-e,main",
            "-Wl,--no-ld-generated-unwind-info",
        ],
    );
    let unwind = Unwind::of(image).unwrap();
    // The function is known from the symbols.
    assert_eq!(unwind.functions().len(), 1);
    assert_eq!(unwind.rule(unwind.functions()[0].end), None);
}
