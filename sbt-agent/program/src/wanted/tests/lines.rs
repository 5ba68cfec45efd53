//! Where the code of a line is.

use super::*;

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

/// Code of a line whose place another file's line claims at once counts only if the line has no
/// other code.
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
        // The next instruction of the same line is cheaper to probe.
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
