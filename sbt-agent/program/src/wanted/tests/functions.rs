//! The functions that a name means.

use std::collections::HashMap;

use super::*;

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
                "cannot probe {at}: the dynamic linker chooses a variant of f when the program \
                 starts; name a variant, such as lu!__f_avx2"
            )
        );
    }
    assert_eq!(with_names.symbols("lu!__f_avx2", MARK), ["__f_avx2"]);
    let missing = built(&["main"]).missing("f", BARRIER).unwrap();
    assert!(
        missing.ends_with("does not name the variants; its debug symbols may"),
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
