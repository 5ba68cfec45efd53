//! Functions as compilers make them, and damaged files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::{self, File};
use std::process::Command;

use proptest::prelude::*;
use sbt_common::Frame;
use tempfile::TempDir;

use super::*;
use crate::arch::{self, Callee, Flow};

/// Functions that each call `called` once.
const CALLED: &str = "
    #include <alloca.h>
    extern void use(void *);
    int cell;
    __attribute__((noinline)) void called(void) { *(volatile int *)&cell += 1; }
    __attribute__((noinline)) void use(void *p) { *(volatile int *)p = cell; }
    __attribute__((noinline)) void plain(void) { called(); cell++; }
    __attribute__((noinline)) void sized(int n) { use(alloca(n)); called(); cell++; }
    __attribute__((noinline)) void aligned(void) {
        __attribute__((aligned(64))) char text[64];
        use(text);
        called();
        use(text);
    }
    __attribute__((noinline)) long many(long a, long b, long c, long d, long e, long f) {
        called();
        return a * b + c * d - e * f;
    }
    int main(int argc, char **argv) {
        plain();
        sized(argc * 100);
        aligned();
        return many(argc, 2, 3, 4, 5, (long)argv);
    }";

pub(crate) fn map(options: &[&str], source: &str) -> Mmap {
    let folder = TempDir::new().unwrap();
    let (input, output) = (folder.path().join("a.c"), folder.path().join("a"));
    fs::write(&input, source).unwrap();
    let mut command = Command::new("gcc");
    command.arg(&input).arg("-o").arg(&output).args(options);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {done:?}");
    elf::map(&File::open(output).unwrap()).unwrap()
}

pub(crate) fn symbol(image: &[u8], name: &str) -> u64 {
    let file = ElfFile64::<LittleEndian>::parse(image).unwrap();
    let mut symbols = file.symbols();
    let found = symbols.find(|symbol| symbol.name() == Ok(name));
    found.unwrap_or_else(|| panic!("no {name}")).address()
}

/// The return address of the call of `called` in a function.
fn returns_to(unwind: &Unwind, function: &str) -> u64 {
    let called = symbol(unwind.image(), "called");
    let start = symbol(unwind.image(), function);
    let size = unwind.function(start).unwrap().end - start;
    let code = code_at(unwind.image(), unwind.segments(), start, size).unwrap();
    arch::decode(code.bytes, start)
        .find(|instruction| instruction.flow() == Flow::Call(Callee::At(called)))
        .unwrap()
        .next()
}

fn rule(options: &[&str], function: &str) -> Option<Rule> {
    let unwind = Unwind::of(map(options, CALLED)).unwrap();
    unwind.rule(returns_to(&unwind, function))
}

const BY_FRAME: Rule = Rule {
    cfa: cfa::RBP,
    rbp: rbp::AT_CFA,
    cfa_offset: 16,
    rbp_offset: -16,
};

#[test]
fn a_step_needs_what_its_rule_names_and_leads_upwards() {
    // The saved rbp at 0x110, and the return address.
    let memory = |at: u64| match at {
        0x110 => Some(0x200),
        0x118 => Some(0x4000),
        _ => None,
    };
    let frame = Frame {
        rsp: 0x100,
        rbp: 0x110,
        address: 0x3000,
    };
    let above = Frame {
        rsp: 0x120,
        rbp: 0x200,
        address: 0x4000,
    };
    let unknown = Frame { rbp: 0, ..frame };
    assert!(BY_FRAME.needs_rbp());
    assert_eq!(BY_FRAME.step(&frame, memory), Some(above));
    assert_eq!(BY_FRAME.step(&unknown, memory), None);
    let by_rsp = |cfa_offset| Rule {
        cfa: cfa::RSP,
        rbp: rbp::SAME,
        cfa_offset,
        rbp_offset: 0,
    };
    assert!(!by_rsp(0x20).needs_rbp());
    let expected = Frame { rbp: 0, ..above };
    assert_eq!(by_rsp(0x20).step(&unknown, memory), Some(expected));
    assert_eq!(by_rsp(0).step(&frame, memory), None, "it leads nowhere");
    assert_eq!(by_rsp(0x40).step(&frame, memory), None, "unreadable");
    assert_eq!(Rule::default().step(&frame, memory), None);
}

#[test]
fn with_frame_pointers_all_is_reckoned_from_them() {
    for options in [
        &["-O0"][..],
        &["-O2", "-fno-omit-frame-pointer"],
        &["-O2", "-fno-omit-frame-pointer", "-fcf-protection"],
        // Here only the functions' first instructions tell the rule.
        &[
            "-O2",
            "-fno-omit-frame-pointer",
            "-fno-asynchronous-unwind-tables",
        ],
        &[
            "-O0",
            "-no-pie",
            "-fcf-protection",
            "-fno-asynchronous-unwind-tables",
        ],
    ] {
        for function in ["plain", "sized", "many"] {
            assert_eq!(
                rule(options, function),
                Some(BY_FRAME),
                "{options:?} {function}"
            );
        }
    }
}

#[test]
fn without_frame_pointers_it_is_reckoned_from_the_stack() {
    // Without -fno-ipa-stack-alignment gcc leaves the stack unaligned where no called function
    // needs it aligned.
    let options = ["-O2", "-fomit-frame-pointer", "-fno-ipa-stack-alignment"];
    let plain = rule(&options, "plain").unwrap();
    assert_eq!((plain.cfa, plain.rbp), (cfa::RSP, rbp::SAME));
    assert_eq!(plain.cfa_offset % 16, 0, "the stack is aligned at calls");
    // With -fno-ipa-ra gcc does not look at which registers the called function needs, so that the
    // arguments are kept in rbp, among others.
    let options = ["-O2", "-fomit-frame-pointer", "-fno-ipa-ra"];
    let many = rule(&options, "many").unwrap();
    assert_eq!((many.cfa, many.rbp), (cfa::RSP, rbp::AT_CFA));
    assert!(many.cfa_offset > 32 && many.rbp_offset < -8, "{many:?}");
}

#[test]
fn a_stack_of_unknown_size_needs_a_frame_pointer() {
    let options = ["-O2", "-fomit-frame-pointer"];
    assert_eq!(rule(&options, "sized"), Some(BY_FRAME));
    // Compilers differ in how they align a stack.
    let aligned = rule(&options, "aligned").unwrap();
    assert!(
        [cfa::RBP, cfa::AT_RBP].contains(&aligned.cfa),
        "{aligned:?}"
    );
}

#[test]
fn where_nothing_is_told_there_is_no_rule() {
    let options = [
        "-O2",
        "-fomit-frame-pointer",
        "-fno-asynchronous-unwind-tables",
    ];
    assert_eq!(rule(&options, "plain"), None);
    // The first function of all has no caller.
    let unwind = Unwind::of(map(&["-O2"], CALLED)).unwrap();
    let start = *unwind.function(symbol(unwind.image(), "_start")).unwrap();
    assert_eq!(unwind.rule(start.end - 1), None);
    assert_eq!(unwind.rule(0), None);
    assert_eq!(unwind.rule(u64::MAX), None);
}

#[test]
fn stripped_functions_still_have_beginnings() {
    let whole = map(&["-O2"], CALLED);
    let plain = symbol(&whole, "plain");
    let stripped = Unwind::of(map(&["-O2", "-s"], CALLED)).unwrap();
    assert!(stripped.begins(plain));
    assert!(!stripped.begins(plain + 1));
    assert_eq!(stripped.function(plain + 1).unwrap().start, plain);
}

#[test]
fn an_address_is_known_by_its_code_with_and_without_probes() {
    let unwind = Unwind::of(map(&["-O2"], CALLED)).unwrap();
    let address = returns_to(&unwind, "plain");
    let offset = code_at(unwind.image(), unwind.segments(), address, 1)
        .unwrap()
        .offset;
    let [code] = unwind.codes(address, &[offset + 16, offset - 17])[..] else {
        panic!("one")
    };
    assert_eq!(code.in_page, address & 0xfff);
    assert_eq!(code.bytes[11], 0xe8, "the call");
    let codes = unwind.codes(address, &[offset]);
    assert_eq!(codes[0], code);
    let mut probed = code;
    probed.bytes[16] = BREAKPOINT;
    assert_eq!(codes[1..], [probed]);
    assert_eq!(unwind.codes(3, &[]), []);
    assert_eq!(unwind.address(offset), Some(address));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_files_give_no_panic(places in prop::collection::vec((0_usize..20_000, any::<u8>()), 1..40)) {
        use std::sync::OnceLock;
        static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
        let mut image = IMAGE.get_or_init(|| map(&["-O2"], CALLED).to_vec()).clone();
        let length = image.len();
        for (place, byte) in places {
            image[place % length] = byte;
        }
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &image).unwrap();
        if let Some(unwind) = Unwind::of(elf::map(&file).unwrap()) {
            for function in unwind.functions() {
                let _any = unwind.rule(function.start + 1);
            }
        }
    }
}

#[test]
fn code_that_looks_alike_and_is_left_in_another_way_has_no_rule() {
    // The same 32 bytes a page apart, in frames of different sizes.
    let twin = |name: &str, size: u32| {
        format!(
            ".balign 4096\n.type {name}, @function\n{name}:\n.cfi_startproc\n\
             sub ${size}, %rsp\n.cfi_adjust_cfa_offset {size}\n.balign 64, 0x90\n\
             .skip 16, 0x90\ncall *%rax\n.skip 32, 0x90\nadd ${size}, %rsp\n\
             .cfi_adjust_cfa_offset -{size}\nret\n.cfi_endproc\n.size {name}, . - {name}\n"
        )
    };
    let at = |sizes: [u32; 2]| {
        let assembly = twin("first", sizes[0]) + &twin("second", sizes[1]);
        let source = format!("__asm__({assembly:?}); int main(void) {{ return 0; }}");
        let unwind = Unwind::of(map(&["-O2"], &source)).unwrap();
        // The return address: behind the padding and the call.
        let address = symbol(unwind.image(), "first") + 64 + 16 + 2;
        assert!(unwind.rule(address).is_some());
        unwind.codes(address, &[]).len()
    };
    assert_eq!(at([24, 24]), 1);
    assert_eq!(at([24, 40]), 0);
}
