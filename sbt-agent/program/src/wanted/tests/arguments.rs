//! The choice of the argument that is the barrier object, and of the argument that is the count.

use super::*;

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
