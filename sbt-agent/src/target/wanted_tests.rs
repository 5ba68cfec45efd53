//! Programs compiled for the purpose, and what is found in them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::pattern::Code;
use crate::target::prologue::is_probeable;

const C: &str = "\
#include <stdlib.h>
volatile int cell, enabled;
typedef struct { int limit, waiting; } meeting;
static inline __attribute__((always_inline)) int twice(int x) {
    cell++;
    return x * 2;
}
__attribute__((noinline)) static int step(int x) {
    for (int i = 0; i < x; i++)
        cell += i;
    return twice(x) + 1;
}
__attribute__((noinline)) int other(int x) { return twice(x) - 1; }
__attribute__((noinline)) static int meet(int unused, meeting *m, int count) {
    for (int i = 0; i < count; i++)
        cell += m->limit;
    return 3;
}
meeting here, there;
int main(int argc, char **argv) {
    meet(1, &here, argc);
    meet(2, &there, argc + 1);
    if (argc > 3)
        abort();
    return step(argc) + other(argc);
}
";

const CPP: &str = "\
volatile int cell;
namespace app {
using handle = int *const;
template <typename T> struct Team {
    T value;
    __attribute__((noinline)) void wait(int n) { cell = n; }
};
struct Gate {
    __attribute__((noinline)) static void pass(long n) { cell = n; }
    __attribute__((noinline)) void enter();
};
void Gate::enter() { cell = 2; }
__attribute__((noinline)) void sync(handle h) { cell = *h; }
__attribute__((noinline)) void sync(int &n, int m) { cell = n + m; }
__attribute__((noinline)) void count(int n) { cell = n; }
}
extern \"C\" __attribute__((noinline)) void plain() { cell = 3; }
int main(int argc, char **) {
    app::Team<int> a;
    app::Team<long> b;
    a.wait(argc);
    b.wait(argc);
    app::Gate::pass(argc);
    app::Gate gate;
    gate.enter();
    app::sync(&argc);
    app::sync(argc, 1);
    app::count(argc);
    plain();
    return cell;
}
";

const MARK: Purpose = Purpose::Mark(7);

const BARRIER: Purpose = Purpose::Barrier {
    object: None,
    count: None,
};

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

struct Built {
    folder: TempDir,
    program: PathBuf,
}

impl Built {
    /// The program `bin/lu` from `lu.c` or such.
    fn new(name: &str, source: &str, options: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, source).unwrap();
        Self::of(folder, &path, options)
    }

    fn of(folder: TempDir, source: &Path, options: &[&str]) -> Self {
        fs::create_dir(folder.path().join("bin")).unwrap();
        let program = folder.path().join("bin/lu");
        let is_cpp = source.extension().is_some_and(|it| it == "cpp");
        let compiler = if is_cpp { "g++" } else { "gcc" };
        let arguments = ["-pthread", source.to_str().unwrap(), "-o"];
        let output = [program.to_str().unwrap()];
        run(compiler, &[&arguments[..], &output, options].concat());
        Self { folder, program }
    }

    fn c(options: &[&str]) -> Self {
        Self::new("lu.c", C, &[&["-O2"], options].concat())
    }

    fn file(&self, wanted: &Wanted) -> ProbedFile {
        let mut file = ProbedFile::open(&self.program, Path::new("/bin/lu")).unwrap();
        file.look_for(wanted, self.folder.path());
        file
    }

    /// The points of one wish, as address and function.
    fn find(&self, at: &str, purpose: Purpose) -> Vec<(u64, Point)> {
        let file = self.file(&wanted(&[at], purpose));
        let image = file.image().unwrap();
        let segments = elf::load_segments(&image).unwrap();
        let vaddr = |offset: u64| {
            let segment = segments.iter().find(|segment| {
                segment.executable && offset.wrapping_sub(segment.offset) < segment.filesz
            });
            segment.map(|segment| offset - segment.offset + segment.vaddr)
        };
        file.points
            .iter()
            .filter(|point| matches!(point.function, Function::Mark(_) | Function::Call { .. }))
            .map(|point| (vaddr(point.entry_offset).unwrap(), point.clone()))
            .collect()
    }

    fn symbols(&self, at: &str, purpose: Purpose) -> Vec<String> {
        let found = self.find(at, purpose);
        let mut symbols: Vec<_> = found.into_iter().map(|(_, point)| point.symbol).collect();
        symbols.sort();
        symbols
    }

    /// The object and count of the only point.
    fn arguments(&self, at: &str, object: Option<u8>, count: Option<u8>) -> (u8, u8) {
        let found = self.find(at, Purpose::Barrier { object, count });
        match found[..] {
            [
                (
                    _,
                    Point {
                        function: Function::Call { object, count },
                        layout,
                        ..
                    },
                ),
            ] => {
                assert_eq!(layout, sbt_common::layout::USER);
                (object, count)
            }
            _ => panic!("{at}: {found:?}"),
        }
    }

    /// What is said of a wish that cannot be fulfilled.
    fn missing(&self, at: &str, purpose: Purpose) -> Option<String> {
        let wanted = wanted(&[at], purpose);
        let file = Arc::new(self.file(&wanted));
        let mut missing = wanted.missing(&[file]);
        assert!(missing.len() <= 1);
        missing.pop()
    }

    fn debug(&self) -> DebugInfo {
        DebugInfo::open(&self.program, Path::new("/bin/lu"), self.folder.path()).unwrap()
    }

    /// The functions, not inlined, that the line was found in.
    fn functions_of_line(&self, at: &str) -> Vec<String> {
        let Code::Line { file, line } = wanted(&[at], MARK).0.remove(0).at.code else {
            panic!("{at}");
        };
        let debug = self.debug();
        let spots = debug.line(&file, line).unwrap().spots;
        let empty: Vec<_> = spots
            .iter()
            .filter(|spot| spot.start == spot.end)
            .map(|spot| spot.start)
            .collect();
        let mut functions: Vec<_> = self
            .find(at, MARK)
            .into_iter()
            .map(|(address, point)| {
                assert_eq!(point.function, Function::Mark(7));
                assert_eq!((point.stack_moved, point.layout), (0, 0));
                let frames = debug.frames(address);
                let is_here = frames.iter().any(|frame| {
                    frame.line == Some(line)
                        && frame
                            .file
                            .as_ref()
                            .is_some_and(|path| path.ends_with(&file))
                });
                // Of a line without an instruction of its own the next has it.
                assert!(
                    is_here || empty.contains(&address),
                    "{at}: {address:#x} {frames:?}"
                );
                frames.last().unwrap().function.clone().unwrap()
            })
            .collect();
        functions.sort();
        functions
    }

    fn strip(&self, debug: &str) {
        let (program, debug) = (
            self.program.to_str().unwrap(),
            self.folder.path().join(debug),
        );
        let debug = debug.to_str().unwrap();
        run("objcopy", &["--only-keep-debug", program, debug]);
        run("strip", &[program]);
        run(
            "objcopy",
            &[&format!("--add-gnu-debuglink={debug}"), program],
        );
    }

    /// Where instructions begin, by another disassembler.
    fn instructions(&self) -> BTreeSet<u64> {
        let text = run(
            "objdump",
            &["-dw", "--no-show-raw-insn", self.program.to_str().unwrap()],
        );
        let address = |line: &str| {
            let (address, _) = line.trim_start().split_once(":\t")?;
            u64::from_str_radix(address, 16).ok()
        };
        text.lines().filter_map(address).collect()
    }

    /// Address and size of a function.
    fn extent(&self, symbol: &str) -> (u64, u64) {
        let text = run("nm", &["-S", self.program.to_str().unwrap()]);
        let fields = text
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .find(|fields| fields.len() == 4 && fields[3] == symbol)
            .unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        (number(fields[0]), number(fields[1]))
    }
}

fn wanted(all: &[&str], purpose: Purpose) -> Wanted {
    let wish = |at: &&str| Wish {
        at: at.parse().unwrap(),
        purpose,
    };
    Wanted(all.iter().map(wish).collect())
}

#[test]
fn functions_of_a_c_program() {
    let built = Built::c(&[]);
    for name in ["main", "step", "other", "lu!step"] {
        let found = built.find(name, MARK);
        let name = name.trim_start_matches("lu!");
        let (start, size) = built.extent(name);
        let [(address, point)] = &found[..] else {
            panic!("{name}: {found:?}");
        };
        assert!((start..start + size).contains(address), "{name}");
        assert_eq!(
            (&point.symbol[..], point.function),
            (name, Function::Mark(7))
        );
        assert!(point.return_offset <= point.entry_offset);
    }
    for name in ["cell", "abort", "twice", "libm.so!step", "ste", "malloc"] {
        assert_eq!(built.find(name, MARK), [], "{name}");
    }
}

#[test]
fn names_without_a_symbol_table() {
    let built = Built::c(&["-rdynamic"]);
    run("strip", &[built.program.to_str().unwrap()]);
    assert_eq!(built.symbols("other", MARK), ["other"]);
    assert_eq!(built.symbols("step", MARK), <[&str; 0]>::default());
    assert_eq!(built.arguments("other", None, None), (1, 0), "no DWARF");
}

#[test]
fn a_separate_debug_file_has_names_and_lines() {
    for id in ["-Wl,--build-id=none", "-Wl,--build-id=sha1"] {
        let built = Built::c(&["-g", id]);
        let lines = ["lu.c:5", "lu.c:10", "lu.c:23"];
        let all = |built: &Built| {
            let lines = lines.map(|line| built.find(line, MARK));
            (built.find("step", BARRIER), lines)
        };
        let before = all(&built);
        built.strip("bin/lu.debug");
        assert_eq!(all(&built), before);
        fs::remove_file(built.folder.path().join("bin/lu.debug")).unwrap();
        assert_eq!(built.find("step", MARK), []);
        assert_eq!(built.find("lu.c:5", MARK), []);
    }
}

#[test]
fn methods_and_templates() {
    for options in [&["-O1"][..], &["-O1", "-g"], &["-O0", "-g"]] {
        let built = Built::new("lu.cpp", CPP, options);
        for (name, count) in [
            ("wait", 2),
            ("Team<int>::wait", 1),
            ("app::Team<long>::wait", 1),
            ("_ZN3app4TeamIiE4waitEi", 1),
            ("app::sync", 2),
            ("sync", 2),
            ("_ZN3app4syncEPi", 1),
            ("Gate::pass", 1),
            ("plain", 1),
            ("pp::sync", 0),
            ("nc", 0),
            ("app::", 0),
        ] {
            assert_eq!(built.find(name, MARK).len(), count, "{name} {options:?}");
        }
    }
}

/// `Foo::step`, `<Foo as Step>::go` and `shared::<u8>`, as rustc names them.
#[test]
fn methods_of_rust() {
    let function = |name: &str| {
        format!(
            ".type {name}, @function\n{name}: push %rbx; pop %rbx; ret\n.size {name}, . - {name}\n"
        )
    };
    let names = [
        "_RNvMCs12jkoC9p3aE_1pNtB2_3Foo4step",
        "_RNvXs0_Cs12jkoC9p3aE_1pNtB5_3FooNtB5_4Step2go",
        "_RINvCs12jkoC9p3aE_1p6sharedhEB2_",
        "main",
    ];
    let assembly = names.map(function).concat();
    let assembly =
        format!(".globl main\n.text\n{assembly}.section .note.GNU-stack, \"\", @progbits\n");
    let built = Built::new("lu.s", &assembly, &[]);
    for (name, symbol) in [
        ("step", Some(0)),
        ("Foo::step", Some(0)),
        ("lu!p::Foo::step", Some(0)),
        ("<p::Foo>::step", Some(0)),
        ("go", Some(1)),
        ("Foo::go", Some(1)),
        ("p::Step::go", Some(1)),
        ("<p::Foo as p::Step>::go", Some(1)),
        ("p::shared", Some(2)),
        ("shared::<u8>", Some(2)),
        ("Step::step", None),
    ] {
        let found = built.symbols(name, BARRIER);
        let expected = symbol.map(|symbol: usize| names[symbol].to_owned());
        assert_eq!(found, Vec::from_iter(expected), "{name}");
    }
    for (written, near) in [
        ("Foo::stpe", "Foo::step"),
        ("p::Step::og", "p::Step::go"),
        ("sharde", "shared"),
    ] {
        let missing = built.missing(written, MARK).unwrap();
        assert!(
            missing.ends_with(&format!("the nearest is \"{near}\"")),
            "{missing}"
        );
    }
}

#[test]
fn pointers_are_barrier_objects() {
    for dwarf in ["-gdwarf-5", "-gdwarf-4"] {
        let built = Built::new("lu.cpp", CPP, &["-O1", dwarf]);
        for (name, object) in [
            ("Team<int>::wait", 1),
            ("Gate::enter", 1),
            ("Gate::pass", 0),
            ("_ZN3app4syncEPi", 1),
            ("_ZN3app4syncERii", 1),
            ("count", 0),
            ("plain", 0),
        ] {
            assert_eq!(built.arguments(name, None, None), (object, 0), "{name}");
        }
        assert_eq!(built.arguments("plain", Some(5), Some(6)), (5, 6));
        assert_eq!(built.arguments("Gate::enter", Some(0), Some(2)), (0, 2));
    }
    let built = Built::new("lu.cpp", CPP, &["-O2"]);
    assert_eq!(built.arguments("count", None, None), (1, 0), "no DWARF");
}

/// gcc drops the first parameter of `meet`: the others move up.
#[test]
fn copies_have_other_parameters() {
    for options in [&["-g"][..], &["-g", "-gz", "-gdwarf-4"]] {
        let built = Built::c(options);
        let symbols = built.symbols("meet", MARK);
        assert!(symbols[0].starts_with("meet."), "{symbols:?}");
        assert_eq!(symbols.len(), 1);
        assert_eq!(built.arguments("meet", Some(2), Some(3)), (1, 2));
        assert_eq!(built.arguments("meet", Some(1), None), (0, 0), "it is gone");
        assert_eq!(built.arguments("meet", None, Some(3)), (0, 2));
    }
    assert_eq!(Built::c(&[]).arguments("meet", Some(2), Some(3)), (0, 0));
}

/// `f` tests, and goes on to its other part.
#[test]
fn a_function_in_two_parts_counts_once() {
    let assembly = |main: &str| {
        format!(
            ".text
            .type f, @function
            f: test %edi, %edi
            jne f.part.0
            ret
            .size f, . - f
            .type f.part.0, @function
            f.part.0: push %rbx
            pop %rbx
            ret
            .size f.part.0, . - f.part.0
            .type f.cold, @function
            f.cold: ret
            .size f.cold, . - f.cold
            .globl main
            .type main, @function
            main: {main}
            ret
            .size main, . - main
            .section .note.GNU-stack, \"\", @progbits"
        )
    };
    for (main, expected) in [
        ("call f", "f"),
        ("call f.part.0", "f.part.0"),
        ("test %edi, %edi; jne f.part.0", "f.part.0"),
        ("nop", "f"),
    ] {
        let built = Built::new("lu.s", &assembly(main), &[]);
        assert_eq!(built.symbols("f", MARK), [expected], "{main}");
        assert_eq!(built.symbols("f.cold", MARK), ["f.cold"], "if asked for");
    }
}

#[test]
fn a_line_has_one_place_for_each_function() {
    for options in [
        &["-g"][..],
        &["-g", "-gdwarf-4"],
        &["-g", "-O3"],
        &["-g", "-O1"],
    ] {
        let built = Built::c(options);
        for (line, functions) in [
            ("lu.c:5", &["other", "step"][..]),
            (":5", &["other", "step"]),
            ("lu.c:6", &["other", "step"]),
            ("lu.c:9", &["step"]),
            ("lu.c:10", &["step"]),
            ("lu.c:16", &["meet"]),
            ("lu.c:23", &["main"]),
        ] {
            let pattern = line.strip_prefix(':').map_or(line, |_| "lu.c:5");
            assert_eq!(
                built.functions_of_line(pattern),
                functions,
                "{line} {options:?}"
            );
        }
        assert_eq!(built.find("other.c:5", MARK), []);
        assert_eq!(built.find("lu.c:1", MARK), []);
        let folder = built.folder.path().to_str().unwrap();
        assert_eq!(built.find(&format!("{folder}/lu.c:5"), MARK).len(), 2);
    }
    assert_eq!(Built::c(&[]).find("lu.c:5", MARK), []);
    let lines_only = Built::c(&["-g1"]);
    assert_eq!(lines_only.find("lu.c:10", MARK).len(), 1);
}

#[test]
fn a_template_has_a_place_for_each_instance() {
    let built = Built::new("lu.cpp", CPP, &["-O1", "-g"]);
    assert_eq!(
        built.functions_of_line("lu.cpp:6"),
        ["app::Team<int>::wait", "app::Team<long>::wait"]
    );
}

/// Of a line that another file's line at once takes the place of, only what is
/// nowhere else.
#[test]
fn lines_without_an_instruction_of_their_own() {
    let assembly = ".file 1 \"lu.c\"
        .file 2 \"lu.h\"
        .text
        .globl main
        .type main, @function
        main:
        .loc 1 10
        .loc 2 5
        nop
        .loc 1 11
        nop
        .loc 1 10
        nop
        .loc 1 12
        .loc 1 13
        mov %eax, %eax
        push %rax
        .loc 1 30 is_stmt 0
        pop %rax
        .loc 1 20 is_stmt 1
        .loc 2 6
        ret
        .size main, . - main
        .section .note.GNU-stack, \"\", @progbits";
    let built = Built::new("lu.s", assembly, &[]);
    let (start, _) = built.extent("main");
    for (line, offset) in [
        ("lu.h:5", Some(0)),
        ("lu.c:11", Some(1)),
        ("lu.c:10", Some(2)),
        ("lu.c:12", Some(3)),
        // Of the same line the next instruction is cheaper.
        ("lu.c:13", Some(5)),
        ("lu.c:30", None),
        ("lu.c:20", Some(7)),
        ("lu.h:6", Some(7)),
    ] {
        let found = built.find(line, MARK);
        let found: Vec<_> = found.iter().map(|(address, _)| address - start).collect();
        assert_eq!(found, Vec::from_iter(offset), "{line}");
    }
}

#[test]
fn what_is_also_inlined_is_counted() {
    const SOURCE: &str = "\
struct Team {
    int size;
    int step(int x);
    __attribute__((always_inline)) int twice(int x) { return 2 * x + size; }
};
volatile int cell;
int Team::step(int x) { cell += x; return twice(x); }
extern \"C\" int once(int x) { return cell * x; }
extern \"C\" __attribute__((noinline)) int never(int x) { return cell - x; }
int (Team::*volatile called)(int) = &Team::step;
int main(int argc, char **) {
    Team team = {argc};
    for (int i = 0; i < argc; i++)
        team.step(i);
    team.step(7);
    return team.twice(never(once(team.step(argc))));
}
";
    let notes = |built: &Built, at: &[&str], purpose| {
        let wanted = wanted(at, purpose);
        wanted.notes(&[&built.file(&wanted)])
    };
    for options in [
        &["-O2", "-g"][..],
        &["-O2", "-g", "-gdwarf-4"],
        &["-O2", "-g", "-flto"],
        &["-O2", "-g", "-fdebug-types-section"],
    ] {
        let built = Built::new("lu.cpp", SOURCE, options);
        let at = ["lu!Team::step", "once", "never", "lu.cpp:9", "main"];
        let mut expected = vec![
            "--mark lu!Team::step: Team::step is also inlined at 3 places, where it is not counted",
            "--mark once: once is also inlined at 1 place, where it is not counted",
        ];
        if options.contains(&"-flto") {
            // Here it knows that nobody else calls it, and leaves no function.
            expected.pop();
        }
        assert_eq!(notes(&built, &at, MARK), expected, "{options:?}");
        let barrier = notes(&built, &["step"], BARRIER);
        assert_eq!(
            barrier,
            ["--barrier step: step is also inlined at 3 places, where it is not counted"]
        );
        run("strip", &["-g", built.program.to_str().unwrap()]);
        assert_eq!(notes(&built, &at, MARK), <[&str; 0]>::default());
    }
    let built = Built::new("lu.cpp", SOURCE, &["-O0", "-g"]);
    assert_eq!(notes(&built, &["step"], MARK), <[&str; 0]>::default());
}

/// Of `part` only the test is inlined: the rest is a function, and probed.
#[test]
fn the_test_before_a_part_is_not_missed() {
    const SOURCE: &str = "\
volatile int cell;
__attribute__((noinline)) void deep(int x) { cell += x; }
void part(int x) {
    if (x == 0)
        return;
    for (int i = 0; i < x; i++) { deep(i); deep(2); deep(i + 3); cell = x; }
    for (int i = 0; i < x; i++) { deep(i); deep(9); deep(i - 3); cell = i; }
}
void (*volatile called)(int) = part;
__attribute__((noinline)) void first(int x) { part(x); cell = 1; }
__attribute__((noinline)) void second(int x) { part(x + cell); cell = 2; }
int main(int argc, char **argv) { first(argc - 1); second(argc - 1); return cell; }
";
    let built = Built::new("lu.c", SOURCE, &["-O2", "-g"]);
    assert_eq!(built.symbols("part", MARK), ["part.part.0"]);
    let wanted = wanted(&["part"], MARK);
    let file = built.file(&wanted);
    assert_eq!(wanted.notes(&[&file]), <[&str; 0]>::default());
    let mut places = 0;
    built.debug().inlined_places(&["part"], |_, _| places += 1);
    assert!(places >= 2, "{places}");
}

#[test]
fn what_is_refused_in_one_file_only_is_told() {
    let chosen = ".text
        .globl main, step
        .type main, @function
        main: ret
        .size main, . - main
        .type step, @gnu_indirect_function
        step: ret
        .size step, . - step
        .section .note.GNU-stack, \"\", @progbits";
    let (built, other) = (Built::c(&[]), Built::new("lu.s", chosen, &[]));
    let wanted = wanted(&["step"], MARK);
    let notes = wanted.notes(&[&built.file(&wanted), &other.file(&wanted)]);
    let [note] = &notes[..] else {
        panic!("{notes:?}");
    };
    let expected = "--mark step: step is not counted in lu: step is chosen when the program starts";
    assert!(note.starts_with(expected), "{note}");
}

#[test]
fn what_is_chosen_at_the_start_is_refused() {
    let function = |name: &str, kind: &str| {
        format!(
            ".type {name}, @{kind}\n{name}: push %rbx; pop %rbx; ret\n.size {name}, . - {name}\n"
        )
    };
    let built = |functions: &[&str]| {
        let mut assembly = String::from(".globl main\n.text\n");
        assembly += &function("f", "gnu_indirect_function");
        for name in functions {
            assembly += &function(name, "function");
        }
        assembly += ".section .note.GNU-stack, \"\", @progbits\n";
        Built::new("lu.s", &assembly, &[])
    };
    let with_names = built(&["main", "__f_sse2", "__f_avx2", "__ff_avx", "f2"]);
    for at in ["f", "lu!f", "f+0x0"] {
        assert_eq!(with_names.find(at, MARK), [], "{at}");
        assert_eq!(
            with_names.missing(at, MARK).unwrap(),
            format!(
                "cannot probe {at}: f is chosen when the program starts; give one of its \
                 variants, such as lu!__f_avx2"
            )
        );
    }
    assert_eq!(with_names.symbols("lu!__f_avx2", MARK), ["__f_avx2"]);
    let missing = built(&["main"]).missing("f", BARRIER).unwrap();
    assert!(
        missing.ends_with("does not name; its debug symbols may"),
        "{missing}"
    );
    // The compiler's variants are known: only one of them is called.
    let versions = built(&["main", "f.default", "f.avx2"]);
    assert_eq!(versions.symbols("f", MARK), ["f.avx2", "f.default"]);
}

#[test]
fn the_dynamic_linker_is_searched_only_if_named() {
    let built = Built::c(&[]);
    let linker = elf::interpreter(&fs::read(&built.program).unwrap()).unwrap();
    let name = short(linker.to_str().unwrap());
    let points = |at: &str| {
        let mut file = ProbedFile::open(&linker, &linker).unwrap();
        file.look_for(&wanted(&[at], MARK), Path::new("/"));
        let is_mark = |point: &&Point| point.function == Function::Mark(7);
        file.points.iter().filter(is_mark).count()
    };
    assert_eq!(points("_dl_debug_state"), 0);
    assert_eq!(points(&format!("{name}!_dl_debug_state")), 1);
    assert!(!elf::is_linker(&fs::read(&built.program).unwrap()));
}

#[test]
fn offsets_are_of_whole_instructions() {
    let built = Built::c(&["-g"]);
    let (start, size) = built.extent("step");
    let instructions = built.instructions();
    let image = fs::read(&built.program).unwrap();
    let segments = elf::load_segments(&image).unwrap();
    let text = segments.iter().find(|segment| segment.executable).unwrap();
    for offset in 1..size {
        let is_instruction = instructions.contains(&(start + offset));
        for at in [
            format!("step+{offset:#x}"),
            format!("lu!{:#x}", start + offset),
            format!("lu+{:#x}", start + offset),
        ] {
            let found = built.find(&at, MARK);
            let addresses: Vec<_> = found.iter().map(|(address, _)| *address).collect();
            let missing = built.missing(&at, MARK);
            let at_it = usize::try_from(start + offset - text.vaddr + text.offset).unwrap();
            if is_instruction && !is_probeable(&image[at_it..]) {
                assert!(missing.unwrap().contains("cannot probe"), "{at}");
            } else if is_instruction {
                assert_eq!(addresses, [start + offset], "{at}");
                assert_eq!(missing, None);
            } else {
                assert_eq!(addresses, <[u64; 0]>::default(), "{at}");
                let missing = missing.unwrap();
                assert!(missing.contains("no instruction begins there"), "{missing}");
                assert!(missing.contains("step+0x"), "{missing}");
            }
        }
    }
    let entry = built.find("step", BARRIER);
    assert_eq!(built.find("step+0x0", BARRIER), entry);
    assert_eq!(built.find(&format!("lu!{start:#x}"), BARRIER), entry);
    let refused = |at: &str, purpose| built.missing(at, purpose).unwrap();
    assert!(refused("step+0xffff", MARK).contains("bytes long"));
    assert!(refused("lu!0x4", MARK).contains("no code"));
    assert!(refused("lu!0xffffffffffffffff", MARK).contains("no code"));
    assert!(refused("lu.c:5", BARRIER).contains("not a line"));
    run("strip", &[built.program.to_str().unwrap()]);
    let at = format!("lu!{start:#x}");
    assert_eq!(built.find(&at, MARK), []);
    assert!(refused(&at, MARK).contains("no symbol"));
}

#[test]
fn several_static_functions_of_one_name_need_an_address() {
    let assembly = ".text
        .globl main
        .type main, @function
        main: ret
        .size main, . - main
        .type f, @function
        f: push %rbx; pop %rbx; ret
        .size f, . - f
        .type f.isra.0, @function
        f.isra.0: push %rbx; pop %rbx; ret
        .size f.isra.0, . - f.isra.0
        .type g.isra.0, @function
        g.isra.0: push %rbx; pop %rbx; ret
        .size g.isra.0, . - g.isra.0
        .type g.isra.1, @function
        g.isra.1: push %rbx; pop %rbx; ret
        .size g.isra.1, . - g.isra.1
        .section .note.GNU-stack, \"\", @progbits";
    let built = Built::new("lu.s", assembly, &[]);
    assert_eq!(built.symbols("f", MARK), ["f", "f.isra.0"]);
    assert_eq!(built.symbols("f+0x1", MARK), ["f"]);
    assert_eq!(built.symbols("g.isra.1+0x1", MARK), ["g.isra.1"]);
    let missing = built.missing("g+0x1", MARK).unwrap();
    assert!(missing.contains("there are 2 of them"), "{missing}");
    assert!(missing.contains("lu!0x"), "{missing}");
}

#[test]
fn what_is_missing_is_told_with_the_nearest() {
    let built = Built::c(&["-g"]);
    for (at, expected) in [
        (
            "stepp",
            r#"no function "stepp" in lu; the nearest is "step""#,
        ),
        (
            "lu!othre",
            r#"no function "othre" in lu; the nearest is "other""#,
        ),
        (
            "meett",
            r#"no function "meett" in lu; the nearest is "meet""#,
        ),
        (
            "zzzzz",
            r#"no function "zzzzz" in lu (in a program or library that comes later it is FILE!zzzzz)"#,
        ),
        (
            "twice",
            "\"twice\" was inlined wherever lu calls it, and there is no function to probe: \
             mark one of its lines instead (it begins at line 4 of its file)",
        ),
        (
            "lu.c:7",
            "lu.c:7 has no code of its own; the nearest lines with code are 6 and 8",
        ),
        (
            "lu.c:999",
            "lu.c:999 has no code of its own; the nearest line with code is 25",
        ),
        (
            "lo.c:3",
            r#"no source file "lo.c" is known to lu (nearest: lu.c); was it compiled with -g?"#,
        ),
        ("lu!0x1", "there is no code at 0x1 in lu"),
    ] {
        assert_eq!(built.missing(at, MARK).as_deref(), Some(expected), "{at}");
    }
    for fine in ["step", "lu.c:5", "libx.so!f", "libx.so!a.c:3"] {
        assert_eq!(built.missing(fine, MARK), None, "{fine}");
    }
    let built = Built::new("lu.cpp", CPP, &["-O1"]);
    for (at, expected) in [
        ("Team<int>::wiat", r#"the nearest is "Team<int>::wait""#),
        ("app::snyc", r#"the nearest is "app::sync""#),
        ("snyc", r#"the nearest is "sync""#),
        ("lu.cpp:6", "was it compiled with -g?"),
    ] {
        let missing = built.missing(at, MARK).unwrap();
        assert!(missing.ends_with(expected), "{missing}");
    }
}

#[test]
fn libraries_are_named_beside_the_program() {
    let built = Built::c(&[]);
    let wanted = wanted(&["fcator", "step"], MARK);
    let other = Built::new("lu.cpp", CPP, &[]);
    let mut library = ProbedFile::open(&other.program, Path::new("/lib/libx.so")).unwrap();
    library.look_for(&wanted, Path::new("/"));
    let files = [Arc::new(built.file(&wanted)), Arc::new(library)];
    let missing = wanted.missing(&files);
    assert_eq!(missing.len(), 1, "{missing:?}");
    let expected = r#"no function "fcator" in lu or the libraries it loads"#;
    assert!(missing[0].starts_with(expected), "{missing:?}");
    assert_eq!(wanted.missing(&[]), <[&str; 0]>::default());
}

#[test]
fn one_function_is_one_barrier_but_may_have_marks() {
    let built = Built::c(&[]);
    let numbers = |purposes: &[Purpose]| {
        let wishes = purposes.iter().map(|purpose| Wish {
            at: "step".parse().unwrap(),
            purpose: *purpose,
        });
        let file = built.file(&Wanted(wishes.collect()));
        file.points
            .iter()
            .map(|point| point.function)
            .collect::<Vec<_>>()
    };
    let with_count = Purpose::Barrier {
        object: Some(0),
        count: Some(1),
    };
    let mut functions = numbers(&[MARK, with_count, Purpose::Mark(1), BARRIER, MARK]);
    functions.retain(|function| *function != Function::CallExit);
    let call = Function::Call {
        object: 0,
        count: 1,
    };
    assert_eq!(functions.len(), 3);
    for function in [Function::Mark(7), Function::Mark(1), call] {
        assert!(functions.contains(&function), "{functions:?}");
    }
}

/// All lines of the programs in `tests/programs`, as optimised as can be.
#[test]
fn no_line_leads_into_an_instruction() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/programs");
    let mut probed = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let source = entry.unwrap().path();
        let name = source.file_name().unwrap().to_str().unwrap().to_owned();
        let kind = source.extension().and_then(|kind| kind.to_str());
        if !matches!(kind, Some("c" | "cpp")) {
            continue;
        }
        let mut options = vec!["-g", "-O3", "-ldl"];
        if name == "plugin.c" {
            options.extend(["-shared", "-fPIC"]);
        }
        if kind == Some("cpp") {
            options.push("-std=c++20");
        }
        if name.starts_with("openmp") {
            options.push("-fopenmp");
        }
        if kind == Some("cpp") {
            options.push("-std=c++20");
        }
        if name == "mpi.c" {
            // What its own compiler, mpicc, adds in Debian.
            options.extend([
                "-I/usr/lib/x86_64-linux-gnu/openmpi/include",
                "-L/usr/lib/x86_64-linux-gnu/openmpi/lib",
                "-lmpi",
            ]);
        }
        let built = Built::of(TempDir::new().unwrap(), &source, &options);
        let instructions = built.instructions();
        let lines = fs::read_to_string(&source).unwrap().lines().count();
        let wishes: Vec<_> = (1..=lines).map(|line| format!("{name}:{line}")).collect();
        let wishes: Vec<_> = wishes.iter().map(String::as_str).collect();
        let file = built.file(&wanted(&wishes, MARK));
        let segments = elf::load_segments(&file.image().unwrap()).unwrap();
        let text = segments.iter().find(|segment| segment.executable).unwrap();
        for point in &file.points {
            let address = point.entry_offset - text.offset + text.vaddr;
            assert!(instructions.contains(&address), "{name}: {address:#x}");
            probed += 1;
        }
    }
    assert!(probed > 200, "{probed}");
}

#[test]
fn where_functions_begin() {
    let built = Built::c(&["-g"]);
    let (start, size) = built.extent("step");
    let debug = built.debug();
    let inside: HashMap<_, _> = (start..start + size)
        .map(|address| (address, debug.function_start(address)))
        .collect();
    assert!(inside.values().all(|found| *found == Some(start)));
    assert_ne!(debug.function_start(start + size), Some(start));
}

/// Whatever a file claims, points lie in it, and on what can be probed.
#[test]
fn damaged_files() {
    use object::{Object as _, ObjectSection as _};
    let built = Built::c(&["-g", "-O3"]);
    let good = fs::read(&built.program).unwrap();
    let file = object::File::parse(&good[..]).unwrap();
    let ranges: Vec<_> = file
        .sections()
        .filter(|section| {
            let name = section.name().unwrap_or_default();
            name.starts_with(".debug") || name.ends_with("tab") || name == ".text"
        })
        .filter_map(|section| section.file_range())
        .collect();
    let (start, _) = built.extent("step");
    let wishes = [
        "step",
        "meet",
        "lu.c:5",
        "lu.c:10",
        "lu.c:23",
        "twice",
        "step+0x2",
        &format!("lu!{:#x}", start + 2),
    ];
    let barriers = wanted(&["step", "meet", "main"], BARRIER);
    let marks = wanted(&wishes, MARK);
    let flips = proptest::collection::vec(any::<(u16, u32, u8)>(), 1..40);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("lu");
    proptest!(ProptestConfig::with_cases(400), |(flips in &flips)| {
        let mut image = good.clone();
        for (section, at, value) in flips {
            let (start, length) = ranges[usize::from(section) % ranges.len()];
            let at = start + u64::from(at) % length;
            image[usize::try_from(at).unwrap()] = value;
        }
        fs::write(&path, &image).unwrap();
        for wanted in [&marks, &barriers] {
            let mut file = ProbedFile::open(&path, &path).unwrap();
            file.look_for(wanted, folder.path());
            for point in &file.points {
                let code = usize::try_from(point.entry_offset).ok().and_then(|at| image.get(at..));
                assert!(is_probeable(code.unwrap()), "{point:?}");
            }
            let _ = wanted.missing(&[Arc::new(file)]);
        }
    });
}

/// Of functions that return, that go on to another in their own place, and that
/// have a `switch`.
#[test]
fn the_ends_of_barriers_are_found() {
    let barrier = Purpose::Barrier {
        object: None,
        count: None,
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/programs");
    let ends = |source: &str, function: &str, optimise: &str| {
        let options = ["-g", "-pthread", optimise];
        let built = Built::of(TempDir::new().unwrap(), &folder.join(source), &options);
        let file = built.file(&wanted(&[function], barrier));
        let instructions = built.instructions();
        let segments = elf::load_segments(&file.image().unwrap()).unwrap();
        let text = segments.iter().find(|segment| segment.executable).unwrap();
        let image = file.image().unwrap();
        let exits = file.points.iter();
        exits
            .filter(|point| point.function == Function::CallExit)
            .map(|point| {
                let address = point.entry_offset - text.offset + text.vaddr;
                assert!(instructions.contains(&address), "{source}: {address:#x}");
                image[usize::try_from(point.entry_offset).unwrap()]
            })
            .collect::<Vec<u8>>()
    };
    for optimise in ["-O0", "-O1", "-O2", "-O3"] {
        for (source, function) in [("throws.cpp", "Gate::wait"), ("calls.c", "bar_wait")] {
            let codes = ends(source, function, optimise);
            assert!(!codes.is_empty(), "{source} {optimise}");
            let known = |code: &u8| matches!(code, 0xc3 | 0xe9 | 0xeb);
            assert!(codes.iter().all(known), "{source} {optimise}: {codes:x?}");
        }
    }
    // The unlocking is the end, the waiting is not.
    assert!(ends("calls.c", "bar_wait", "-O2").contains(&0xe9));
    assert_eq!(ends("tails.c", "only_passes_on", "-O2"), Vec::<u8>::new());
    assert_eq!(ends("tails.c", "passes_on_inside", "-O2"), [0xc3]);
    assert!(!ends("tails.c", "chooses", "-O2").is_empty());
}
