//! Programs as compilers make them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::super::unwind::tests::{map, symbol};
use memmap2::Mmap;

use super::*;

const SOURCE: &str = "
    #include <pthread.h>
    #include <stdio.h>
    pthread_barrier_t barrier;
    static volatile int cell;
    __attribute__((noinline)) static void once(void) { cell++; puts(\"a\"); cell++; }
    __attribute__((noinline)) static void twice(void) { pthread_barrier_wait(&barrier); cell++; }
    __attribute__((noinline)) static void jumped_to(void) { cell += 2; once(); cell++; }
    __attribute__((noinline)) static void jumps(void) { cell += 3; jumped_to(); }
    __attribute__((noinline)) static void *thread(void *p) { twice(); cell++; return p; }
    __attribute__((noinline)) static void listed(void) { cell += 5; }
    void (*volatile table[2])(void) = {listed, listed};
    __attribute__((noinline)) void recursive(int n) {
        if (n > 0) { recursive(n - 1); cell++; recursive(n - 2); }
        cell++;
    }
    int main(int argc, char **argv) {
        pthread_t t;
        pthread_barrier_init(&barrier, 0, 1);
        pthread_create(&t, 0, thread, argv);
        pthread_join(t, 0);
        twice();
        cell++;
        jumps();
        recursive(argc);
        table[argc & 1]();
        return cell;
    }";

struct Built {
    calls: Calls,
    image: Mmap,
}

impl Built {
    fn new(options: &[&str]) -> Self {
        let image = || map(&[options, &["-pthread"]].concat(), SOURCE);
        Self {
            calls: Calls::of(Arc::new(Unwind::of(image()).unwrap())).unwrap(),
            image: image(),
        }
    }

    fn at(&self, name: &str) -> u64 {
        symbol(&self.image, name)
    }

    /// The functions that call a function, and whether they do so by a call (not by a jump).
    fn callers(&self, name: &str) -> Vec<(u64, bool)> {
        self.of(&self.calls.direct(self.at(name)))
    }

    fn of(&self, calls: &[Call]) -> Vec<(u64, bool)> {
        let mut found: Vec<_> = calls
            .iter()
            .map(|call| (self.calls.function(call.from).unwrap(), call.returns))
            .collect();
        found.sort_unstable();
        found
    }
}

const OPTIONS: [&[&str]; 7] = [
    &["-O2"],
    &["-O2", "-no-pie"],
    &["-O2", "-fno-plt"],
    &["-O2", "-fcf-protection", "-Wl,-z,now"],
    &["-O2", "-Wl,-z,lazy"],
    &["-O2", "-fno-asynchronous-unwind-tables"],
    &["-O2", "-Wl,-z,ibtplt"],
];

#[test]
fn calls_and_jumps_are_found() {
    for options in OPTIONS {
        let built = Built::new(options);
        let [main, thread, jumps, jumped_to] =
            ["main", "thread", "jumps", "jumped_to"].map(|name| built.at(name));
        let mut expected = [(main, true), (thread, true)];
        expected.sort_unstable();
        assert_eq!(built.callers("twice"), expected, "{options:?}");
        assert_eq!(built.callers("jumped_to"), [(jumps, false)], "{options:?}");
        assert_eq!(built.callers("once"), [(jumped_to, true)], "{options:?}");
        assert_eq!(built.callers("thread"), [], "{options:?}");
        let twice = built.at("twice");
        let imported = built.calls.imported("pthread_barrier_wait");
        assert_eq!(built.of(&imported), [(twice, true)], "{options:?}");
        assert_eq!(built.calls.imported("pthread_create").len(), 1);
    }
}

#[test]
fn functions_whose_address_is_used_are_told_apart() {
    for options in OPTIONS {
        let built = Built::new(options);
        let taken = |name| built.calls.is_taken(built.at(name));
        let listed = |name| built.calls.is_listed(built.at(name));
        assert!(taken("thread") && !listed("thread"), "{options:?}");
        assert!(listed("listed"), "{options:?}");
        for name in ["once", "twice", "recursive"] {
            assert!(!taken(name) && !listed(name), "{options:?} {name}");
        }
    }
}

#[test]
fn functions_of_a_library_have_names() {
    let options = ["-O2", "-shared", "-fPIC", "-pthread"];
    let built = Built::new(&options[..3]);
    let start = built.at("recursive");
    assert_eq!(built.calls.names(start), ["recursive"]);
    let inside = built.calls.imported("recursive");
    assert!(!inside.is_empty(), "by way of the dynamic linker");
}

#[test]
fn what_is_called_through_a_word_of_the_linkers_is_called_directly() {
    let source = "
        static volatile int cell;
        __attribute__((visibility(\"hidden\"), noipa)) void called(void) { cell++; }
        __attribute__((visibility(\"hidden\"), noipa)) void taken(void) { cell += 2; }
        void (*volatile kept)(void);
        int main(void) {
            void (*f)(void);
            __asm__ volatile(\"call *called@GOTPCREL(%%rip)\" ::: \"memory\", \"rax\");
            cell++;
            __asm__ volatile(\"movq taken@GOTPCREL(%%rip), %0\" : \"=r\"(f));
            kept = f;
            return cell;
        }";
    // Without --no-relax the linker replaces these instructions, as it does in most programs.
    let options = ["-pthread", "-pie", "-fPIE", "-Wl,--no-relax", "-O1"];
    let image = || map(&options, source);
    let built = Built {
        calls: Calls::of(Arc::new(Unwind::of(image()).unwrap())).unwrap(),
        image: image(),
    };
    assert_eq!(built.callers("called"), [(built.at("main"), true)]);
    assert!(!built.calls.is_listed(built.at("called")));
    assert!(!built.calls.is_taken(built.at("called")));
    // The function may be called from that register, more than once.
    assert!(built.calls.is_listed(built.at("taken")));
}

#[test]
fn what_a_call_calls_is_told_without_decoding_the_file() {
    for options in [&["-O2"][..], &["-O2", "-fno-plt"], &["-O0", "-no-pie"]] {
        let built = Built::new(options);
        let segments = elf::load_segments(&built.image).unwrap();
        let imports = elf::Imports::of(&built.image);
        let mut told = 0;
        built.calls.decode(0..built.calls.unwind.functions().len());
        let all = built.calls.found.borrow();
        for (name, calls) in &all.imported {
            for call in calls.iter().filter(|call| call.returns) {
                let found = imports.called_before(&built.image, &segments, call.next);
                assert_eq!(found.as_ref(), Some(name), "{options:?}");
                told += 1;
            }
        }
        assert!(told >= 5, "{options:?}: {told}");
        for call in all.direct.values().flatten() {
            let found = imports.called_before(&built.image, &segments, call.next);
            assert_eq!(found, None, "{options:?}");
        }
    }
}

/// Checks that each query gives the same for a file when only the relevant functions are decoded
/// and when all are.
fn compare(image: impl Fn() -> Mmap) {
    let of = || Calls::of(Arc::new(Unwind::of(image()).unwrap())).unwrap();
    let (some, all) = (of(), of());
    let functions = all.unwind.functions();
    all.decode(0..functions.len());
    let names: Vec<String> = all.found.borrow().imported.keys().cloned().collect();
    for name in &names {
        assert_eq!(some.imported(name), all.imported(name), "{name}");
    }
    for function in functions.iter().step_by(functions.len() / 1000 + 1) {
        // Forgets what was decoded for another function.
        some.found.take();
        let start = function.start;
        let told = |calls: &Calls| {
            let direct = calls.direct(start);
            (direct, calls.is_taken(start), calls.is_listed(start))
        };
        assert_eq!(told(&some), told(&all), "{start:x}");
    }
    let all: Vec<_> = all.indirect().collect();
    assert_eq!(some.indirect().collect::<Vec<_>>(), all);
}

#[test]
fn nothing_is_missed_by_decoding_only_what_may_refer_to_a_function() {
    for options in OPTIONS {
        compare(|| map(&[options, &["-pthread"]].concat(), SOURCE));
    }
    // Much foreign code: C with short jumps and stubs, and C++ with parts that lie apart.
    let open = |path| elf::map(&std::fs::File::open(path).unwrap()).unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps.lines().find(|line| line.ends_with("/libc.so.6"));
    if let Some(libc) = libc.and_then(|line| line.split(' ').next_back()) {
        compare(|| open(libc));
    }
    let own = std::env::current_exe().unwrap();
    let calls = Calls::of(Arc::new(Unwind::of(open(own.to_str().unwrap())).unwrap()));
    if calls.is_some() {
        compare(|| open(own.to_str().unwrap()));
    }
}

#[test]
fn only_what_may_refer_to_a_function_is_decoded() {
    use std::fmt::Write as _;
    let mut source = String::from("static volatile int cell; void other(void);\n");
    for function in 0..200 {
        let text = "__attribute__((noinline)) void";
        writeln!(source, "{text} f{function}(void) {{").unwrap();
        // Each function is so long that only its neighbours are within a short jump.
        writeln!(source, "{} other();", "cell++; ".repeat(40)).unwrap();
        if function > 0 {
            writeln!(source, "f{}();", function - 1).unwrap();
        }
        source.push_str("cell++; }\n");
    }
    let options = ["-O1", "-shared", "-fPIC", "-fvisibility=hidden"];
    let image = map(&options, &source);
    let calls = Calls::of(Arc::new(Unwind::of(map(&options, &source)).unwrap())).unwrap();
    let decoded = || calls.found.borrow().decoded.len();
    assert_eq!(decoded(), 0);
    let start = symbol(&image, "f100");
    assert_eq!(calls.direct(start).len(), 1);
    assert!(!calls.is_taken(start) && !calls.is_listed(start));
    let first = decoded();
    assert!((1..=8).contains(&first), "{first} of 200");
    // A second question decodes nothing.
    calls.direct(start);
    assert_eq!(decoded(), first);
    assert_eq!(calls.imported("other").len(), 200);
    assert!(decoded() >= 200);
}
