//! Programs compiled with and without debug information, in various places.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use object::LittleEndian;
use object::read::elf::ElfFile64;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::elf::build_id;

/// The call at line 5 is inlined into `work`, and `work` is not inlined.
const SOURCE: &str = "\
#include <stdlib.h>
extern void wait_here(int *);
static int cell;
static inline __attribute__((always_inline)) void wrapper(void) {
    wait_here(&cell);
    cell++;
}
__attribute__((noinline)) void work(void) {
    cell++;
    wrapper();
    cell++;
}
__attribute__((noinline)) void wait_here(int *p) { *(volatile int *)p += 1; }
int main(void) { work(); return cell; }
";

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
}

struct Built {
    folder: TempDir,
    program: PathBuf,
}

impl Built {
    /// The program `bin/a` in a folder of its own, from `a.c`.
    fn new(options: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let source = folder.path().join("a.c");
        fs::write(&source, SOURCE).unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        let program = folder.path().join("bin/a");
        let mut arguments = vec!["-O2", source.to_str().unwrap(), "-o"];
        arguments.push(program.to_str().unwrap());
        run("gcc", &[&arguments[..], options].concat());
        Self { folder, program }
    }

    /// The path below the folder, which serves as the target's root.
    fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside)
    }

    fn open(&self) -> DebugInfo {
        DebugInfo::open(&self.program, Path::new("/bin/a"), self.folder.path()).unwrap()
    }

    /// The address of the call in `wrapper`, within `work`: return address - 1.
    fn call(&self) -> u64 {
        let output = Command::new("objdump")
            .args(["-d", "--no-show-raw-insn", "--disassemble=work"])
            .arg(&self.program)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text.lines().skip_while(|line| !line.contains("call"));
        let after = lines.nth(1).unwrap();
        let address = after.trim_start().split_once(':').unwrap().0;
        u64::from_str_radix(address, 16).unwrap() - 1
    }

    /// Moves the debug information to a file and strips the program.
    fn split(&self, debug: &str, link: bool) {
        let (program, debug) = (self.program.to_str().unwrap(), self.path(debug));
        fs::create_dir_all(debug.parent().unwrap()).unwrap();
        let debug = debug.to_str().unwrap();
        run("objcopy", &["--only-keep-debug", program, debug]);
        run("strip", &[program]);
        if link {
            let option = format!("--add-gnu-debuglink={debug}");
            run("objcopy", &[&option, program]);
        }
    }
}

fn check_inlined(frames: &[Frame], built: &Built) {
    let file = built.path("a.c").to_str().unwrap().to_owned();
    let frame = |function: &str, line: u32, inlined: bool| Frame {
        function: Some(function.to_owned()),
        file: Some(file.clone()),
        line: Some(line),
        inlined,
    };
    let expected = [frame("wrapper", 5, true), frame("work", 10, false)];
    assert_eq!(frames, expected);
}

fn only_symbol(frames: &[Frame], name: &str) {
    let expected = Frame {
        function: Some(name.to_owned()),
        ..Frame::default()
    };
    assert_eq!(frames, [expected]);
}

#[test]
fn inlined_functions_of_the_file_itself() {
    for options in [
        &["-g"][..],
        &["-g", "-gdwarf-4"],
        &["-g", "-gz"],
        &["-g", "-static"],
    ] {
        let built = Built::new(options);
        let info = built.open();
        check_inlined(&info.frames(built.call()), &built);
        // Once more, with the loaded debug information moved to another thread.
        let call = built.call();
        let frames = std::thread::spawn(move || info.frames(call))
            .join()
            .unwrap();
        check_inlined(&frames, &built);
    }
}

#[test]
fn nothing_is_known_of_nowhere() {
    let built = Built::new(&["-g"]);
    for address in [0, 1, u64::MAX, 1 << 63] {
        assert_eq!(built.open().frames(address), []);
    }
}

#[test]
fn without_debug_information_the_symbol() {
    let built = Built::new(&[]);
    only_symbol(&built.open().frames(built.call()), "work");
}

#[test]
fn symbols_that_a_stripped_file_contains_compressed() {
    let built = Built::new(&["-g"]);
    let call = built.call();
    let [program, symbols] = [built.program.clone(), built.path("symbols")];
    let [program, symbols] = [program, symbols].map(|path| path.to_str().unwrap().to_owned());
    // As `eu-strip` and the tools of distributions make it.
    run("objcopy", &["--only-keep-debug", &program, &symbols]);
    run("objcopy", &["-S", "--keep-symbol=work", &symbols]);
    run("strip", &[&program]);
    assert_eq!(built.open().frames(call), []);
    let add = |from: &str| {
        let section = format!("--add-section=.gnu_debugdata={from}");
        run(
            "objcopy",
            &["--remove-section=.gnu_debugdata", &section, &program],
        );
    };
    // Not compressed: damaged.
    add(&symbols);
    assert_eq!(built.open().frames(call), []);
    run("xz", &[&symbols]);
    add(&format!("{symbols}.xz"));
    only_symbol(&built.open().frames(call), "work");
}

#[test]
fn dynamic_symbols_are_left_in_a_stripped_file() {
    let built = Built::new(&["-rdynamic"]);
    let call = built.call();
    run("strip", &[built.program.to_str().unwrap()]);
    only_symbol(&built.open().frames(call), "work");
    let built = Built::new(&[]);
    let call = built.call();
    run("strip", &[built.program.to_str().unwrap()]);
    assert_eq!(built.open().frames(call), []);
}

#[test]
fn lines_without_functions() {
    let built = Built::new(&["-g1"]);
    let frames = built.open().frames(built.call());
    assert_eq!(frames.last().unwrap().function.as_deref(), Some("work"));
    assert_eq!(frames[0].line, Some(5));
    let split = Built::new(&["-g", "-gsplit-dwarf"]);
    let frames = split.open().frames(split.call());
    let outer = frames.last().unwrap();
    assert_eq!(outer.function.as_deref(), Some("work"));
    assert!(outer.file.as_ref().unwrap().ends_with("a.c"));
}

#[test]
fn debug_links() {
    // Without build ids the checksum decides, otherwise the ids.
    for id in ["-Wl,--build-id=none", "-Wl,--build-id=sha1"] {
        for folder in ["bin", "bin/.debug", "usr/lib/debug/bin"] {
            let built = Built::new(&["-g", id]);
            let call = built.call();
            let debug = format!("{folder}/a.debug");
            built.split(&debug, true);
            check_inlined(&built.open().frames(call), &built);
            // Debug information of another program must not be used.
            let other = Built::new(&["-g", id, "-DOTHER", "-O1"]);
            fs::copy(&other.program, built.path(&debug)).unwrap();
            assert_eq!(built.open().frames(call), []);
            fs::remove_file(built.path(&debug)).unwrap();
            assert_eq!(built.open().frames(call), []);
        }
    }
}

#[test]
fn a_debug_link_to_itself() {
    let built = Built::new(&["-g", "-Wl,--build-id=sha1"]);
    let call = built.call();
    built.split("bin/.debug/a", true);
    check_inlined(&built.open().frames(call), &built);
}

#[test]
fn build_ids() {
    let built = Built::new(&["-g", "-Wl,--build-id=0xabcdef0123456789"]);
    let call = built.call();
    let debug = "usr/lib/debug/.build-id/ab/cdef0123456789.debug";
    built.split(debug, false);
    check_inlined(&built.open().frames(call), &built);
    let other = Built::new(&["-g", "-Wl,--build-id=0x0123"]);
    fs::copy(&other.program, built.path(debug)).unwrap();
    assert_eq!(built.open().frames(call), []);
}

#[test]
fn a_file_known_by_its_descriptor_only() {
    use std::os::fd::AsRawFd;
    let built = Built::new(&["-g"]);
    let call = built.call();
    built.split("bin/a.debug", true);
    let file = fs::File::open(&built.program).unwrap();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let info = DebugInfo::open(path.as_ref(), "/bin/a".as_ref(), built.folder.path());
    check_inlined(&info.unwrap().frames(call), &built);
}

/// The test does not need dwz: it checks only where dwz's file is looked for.
#[test]
fn supplementary_files() {
    let built = Built::new(&["-g", "-Wl,--build-id=0xabcdef"]);
    let other = Built::new(&["-g", "-Wl,--build-id=0x012345"]);
    let image = fs::read(&other.program).unwrap();
    assert_eq!(build_id(&image).unwrap(), [0x01, 0x23, 0x45]);
    for (name, place) in [
        ("/usr/lib/debug/.dwz/other", "usr/lib/debug/.dwz/other"),
        ("../other", "other"),
        ("/none", "usr/lib/debug/.build-id/01/2345.debug"),
    ] {
        let link = built.path("link");
        fs::write(&link, [name.as_bytes(), b"\0\x01\x23\x45"].concat()).unwrap();
        let program = built.path("bin/linked");
        let option = format!("--add-section=.gnu_debugaltlink={}", link.display());
        let (from, to) = (built.program.to_str().unwrap(), program.to_str().unwrap());
        run("objcopy", &[&option, from, to]);
        let open = || {
            let logical = Path::new("/bin/linked");
            DebugInfo::open(&program, logical, built.folder.path()).unwrap()
        };
        assert!(open().supplementary.is_none());
        let place = built.path(place);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&place, &image).unwrap();
        let info = open();
        assert_eq!(info.supplementary.as_deref(), Some(&image[..]), "{name}");
        check_inlined(&info.frames(built.call()), &built);
        fs::remove_file(place).unwrap();
    }
}

#[test]
fn what_cannot_be_opened() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    run("mkfifo", &[pipe.to_str().unwrap()]);
    let text = folder.path().join("text");
    fs::write(&text, "text").unwrap();
    let open = |path: &Path| DebugInfo::open(path, path, Path::new("/")).err().unwrap();
    assert!(matches!(open(&pipe), OpenError::Unreadable(_)));
    assert!(matches!(open(folder.path()), OpenError::Unreadable(_)));
    assert!(matches!(
        open(Path::new("/dev/zero")),
        OpenError::Unreadable(_)
    ));
    assert!(matches!(open(Path::new("/none")), OpenError::Unreadable(_)));
    assert!(matches!(open(&text), OpenError::NotElf(ElfError::NotElf)));
}

fn ask(image: &[u8], addresses: &[u64]) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, image).unwrap();
    if let Ok(info) = DebugInfo::open(&path, Path::new("/a"), folder.path()) {
        for &address in addresses {
            assert!(info.frames(address).len() <= MAX_FRAMES);
            let _ = info.function_start(address);
            let _ = info.first_is_pointer(address);
            let _ = info.register(address, 1);
        }
        for address in [0, addresses[0], u64::MAX] {
            let _ = info.spanning(address);
        }
        for name in ["work", "wrapper", "main"] {
            let _ = info.functions(name);
            let _ = info.functions_exactly(name);
            let _ = info.inlined(name);
        }
        info.inlined_places(&["wrapper", "main"], |_, _| ());
        let _ = info.cold_parts(&["work"].into());
        let _ = info.line("a.c", 5);
        let _ = info.files(2);
        let _ = info.some_functions(100);
    }
}

/// Functions inlined into each other, one byte each: addr2line would follow them by recursion, and
/// so must not see them.
#[test]
fn inlining_too_deep_for_the_stack() {
    for depth in [100, 490, 1_000_000] {
        nested(depth, "main", "");
    }
    // The unit says that its code is elsewhere, and another section says that it is here.
    let listed = ".section .debug_aranges, \"\", @progbits
        .long 4f - 3f
        3: .short 2
        .long 0
        .byte 8, 0
        .zero 4
        .quad main, 16, 0, 0
        4:";
    nested(1_000_000, "0x10000000", listed);
    nested(1_000_000, "main", listed);
}

fn nested(depth: usize, unit: &str, listed: &str) {
    let assembly = format!(
        ".globl main
        .text
        .type main, @function
        main: ret
        .zero 16
        .size main, . - main
        .section .debug_abbrev, \"\", @progbits
        .byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0
        .byte 2, 0x2e, 1, 0x11, 1, 0x12, 7, 0, 0
        .byte 3, 0x1d, 1, 0, 0
        .byte 0
        .section .debug_info, \"\", @progbits
        .long 2f - 1f
        1: .short 4
        .long 0
        .byte 8
        .byte 1
        .quad {unit}, 16
        .byte 2
        .quad main, 16
        .fill {depth}, 1, 3
        .zero {depth} + 2
        2:
        {listed}
        .section .note.GNU-stack, \"\", @progbits"
    );
    let folder = TempDir::new().unwrap();
    let (source, program) = (folder.path().join("a.s"), folder.path().join("a"));
    fs::write(&source, assembly).unwrap();
    let (from, to) = (source.to_str().unwrap(), program.to_str().unwrap());
    run("gcc", &["-no-pie", from, "-o", to]);
    let image = fs::read(&program).unwrap();
    assert!(sections::has_lines(&image));
    let file = ElfFile64::<LittleEndian>::parse(&image[..]).unwrap();
    let main = object::Object::symbol_by_name(&file, "main").unwrap();
    let info = DebugInfo::open(&program, Path::new("/a"), folder.path()).unwrap();
    only_symbol(&info.frames(object::ObjectSymbol::address(&main)), "main");
}

#[test]
fn truncated() {
    let built = Built::new(&["-g"]);
    let image = fs::read(&built.program).unwrap();
    let addresses = [built.call(), 0, u64::MAX];
    for length in (0..image.len()).step_by(image.len() / 150) {
        ask(&image[..length], &addresses);
    }
}

#[test]
fn flipped_bytes() {
    use object::{Object, ObjectSection};
    let flips = proptest::collection::vec(any::<(u16, u32, u8)>(), 1..16);
    for options in [&["-g"][..], &["-g", "-gdwarf-4", "-gz"]] {
        let built = Built::new(options);
        let image = fs::read(&built.program).unwrap();
        let file = ElfFile64::<LittleEndian>::parse(&image[..]).unwrap();
        let debug = |name: &str| name.starts_with(".debug") || name.ends_with("tab");
        let ranges: Vec<_> = file
            .sections()
            .filter(|section| section.name().is_ok_and(debug))
            .filter_map(|section| section.file_range())
            .collect();
        let addresses = [built.call(), 0x1000, u64::MAX];
        proptest!(ProptestConfig::with_cases(500), |(flips in &flips)| {
            let mut image = image.clone();
            for (section, at, value) in flips {
                let (start, length) = ranges[usize::from(section) % ranges.len()];
                let at = start + u64::from(at) % length;
                image[usize::try_from(at).unwrap()] = value;
            }
            ask(&image, &addresses);
        });
    }
}
