//! Programs compiled for these tests, and what is found in them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod arguments;
mod functions;
mod hostile;
mod inlined;
mod lines;
mod missing;
mod offsets;
mod programs;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::*;
use crate::arch::prologue::is_probeable;
use sbt_engine::pattern::Code;

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
    /// The program `bin/lu`, from `lu.c` or another source.
    fn new(name: &str, source: &str, options: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, source).unwrap();
        Self::of(folder, &path, options)
    }

    fn of(folder: TempDir, source: &Path, options: &[&str]) -> Self {
        fs::create_dir(folder.path().join("bin")).unwrap();
        let program = folder.path().join("bin/lu");
        let is_cpp = source.extension().is_some_and(|kind| kind == "cpp");
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
        let image = file.image();
        let segments = elf::load_segments(image).unwrap();
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

    /// The message about a wish that cannot be fulfilled.
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

    /// The outermost functions in which the line was found.
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
                // The code of a line without an instruction of its own is the next line's
                // instruction.
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

    /// Where instructions begin, according to objdump.
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
