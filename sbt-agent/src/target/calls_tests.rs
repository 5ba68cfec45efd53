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
            calls: Calls::of(Rc::new(Unwind::of(image()).unwrap())).unwrap(),
            image: image(),
        }
    }

    fn at(&self, name: &str) -> u64 {
        symbol(&self.image, name)
    }

    /// The functions that call one, and whether they do so by a call.
    fn callers(&self, name: &str) -> Vec<(u64, bool)> {
        self.of(self.calls.direct(self.at(name)))
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
        assert_eq!(built.of(imported), [(twice, true)], "{options:?}");
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
    // Else the linker makes other instructions of them, as it does of most.
    let options = ["-pthread", "-pie", "-fPIE", "-Wl,--no-relax", "-O1"];
    let image = || map(&options, source);
    let built = Built {
        calls: Calls::of(Rc::new(Unwind::of(image()).unwrap())).unwrap(),
        image: image(),
    };
    assert_eq!(built.callers("called"), [(built.at("main"), true)]);
    assert!(!built.calls.is_listed(built.at("called")));
    assert!(!built.calls.is_taken(built.at("called")));
    // It may be called from that register, and more than once.
    assert!(built.calls.is_listed(built.at("taken")));
}

#[test]
fn what_a_call_calls_is_told_without_decoding_the_file() {
    for options in [&["-O2"][..], &["-O2", "-fno-plt"], &["-O0", "-no-pie"]] {
        let built = Built::new(options);
        let segments = elf::load_segments(&built.image).unwrap();
        let imports = elf::Imports::of(&built.image);
        let mut told = 0;
        for (name, calls) in &built.calls.imported {
            for call in calls.iter().filter(|call| call.returns) {
                let found = imports.called_before(&built.image, &segments, call.next);
                assert_eq!(found.as_ref(), Some(name), "{options:?}");
                told += 1;
            }
        }
        assert!(told >= 5, "{options:?}: {told}");
        for call in &built.calls.direct {
            let found = imports.called_before(&built.image, &segments, call.next);
            assert_eq!(found, None, "{options:?}");
        }
    }
}
