//! Messages about wishes that cannot be fulfilled.

use super::*;

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
            r#"no function "zzzzz" in lu (in a program or library that is loaded later, name it FILE!zzzzz)"#,
        ),
        (
            "twice",
            "\"twice\" is inlined at all its calls in lu, so there is no function to probe: mark \
             one of its lines instead (it begins at line 4 of its file)",
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
            r#"lu has no debug information of a source file "lo.c" (nearest: lu.c); was it compiled with -g?"#,
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
    let expected =
        "--mark step: step is not counted in lu: the dynamic linker chooses a variant of step";
    assert!(note.starts_with(expected), "{note}");
}
