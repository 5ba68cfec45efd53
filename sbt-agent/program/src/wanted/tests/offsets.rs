//! Places given by address.

use super::*;

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
    assert!(refused("lu.c:5", BARRIER).contains("or a line with a loop"));
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
    assert!(
        missing.contains("there are 2 functions with that name"),
        "{missing}"
    );
    assert!(missing.contains("lu!0x"), "{missing}");
}
