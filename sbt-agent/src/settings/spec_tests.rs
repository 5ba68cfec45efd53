use super::*;

#[test]
fn names_are_behind_the_last_equals_sign() {
    for (text, site, name) in [
        ("lu.c:120=factor", "lu.c:120", "factor"),
        ("120=factor", ":120", "factor"),
        ("lu!factor+0x1f=inner loop", "lu!factor+0x1f", "inner loop"),
        ("V::operator===eq", "V::operator==", "eq"),
        (
            "V::operator=(V const&)=copy",
            "V::operator=(V const&)",
            "copy",
        ),
    ] {
        let read = named(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(
            (read.site.to_string().as_str(), read.name.as_str()),
            (site, name)
        );
    }
    for wrong in [
        "",
        "lu.c:120",
        "=factor",
        "lu.c:120=",
        "lu.c:120= ",
        "lu.c:0=factor",
        "a=b\x1b[31m",
        "a=b\nc",
        "a=\u{202e}b",
    ] {
        assert!(named(wrong).is_err(), "{wrong:?}");
    }
    assert!(!name("a\x1bb").unwrap_err().contains('\x1b'));
}

#[test]
fn phases_are_split_between_two_sites() {
    for (text, name, from, to) in [
        ("solve=lu.c:10..lu.c:20", "solve", "lu.c:10", "lu.c:20"),
        ("all of it=init..done", "all of it", "init", "done"),
        ("p=10..20", "p", ":10", ":20"),
        ("p=../x.c:3..../y.c:4", "p", "../x.c:3", "../y.c:4"),
        ("p=f..../y.c:4", "p", "f", "../y.c:4"),
        ("p=a/../x.c:3..b/../y.c:4", "p", "a/../x.c:3", "b/../y.c:4"),
        ("p=f..b/../y.c:4", "p", "f", "b/../y.c:4"),
        ("p=a/../x.c:3../b/y.c:4", "p", "a/../x.c:3", "/b/y.c:4"),
        (
            "p=f(int, ...)..g(int, ...)",
            "p",
            "f(int, ...)",
            "g(int, ...)",
        ),
        (
            "p=A::operator==..A::operator!=",
            "p",
            "A::operator==",
            "A::operator!=",
        ),
        ("p=lu!f+0x10..lu!0x20", "p", "lu!f+0x10", "lu!0x20"),
    ] {
        let read = phase(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(
            (
                read.name.as_str(),
                read.from.to_string().as_str(),
                read.to.to_string().as_str()
            ),
            (name, from, to),
            "{text}"
        );
    }
    for wrong in [
        "",
        "solve",
        "solve=",
        "solve=lu.c:10",
        "solve=lu.c:10..",
        "solve=..lu.c:10",
        "solve=lu.c:0..lu.c:10",
        "solve=lu.c:10.lu.c:20",
        "=a..b",
        "a\tb=a..b",
    ] {
        assert!(phase(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_mark_may_have_a_name() {
    for (text, at, name) in [
        ("factor", "factor", None),
        ("factor=inner", "factor", Some("inner")),
        ("lu.c:12", "lu.c:12", None),
        ("lu.c:12=inner loop", "lu.c:12", Some("inner loop")),
        ("A::operator==", "A::operator==", None),
        ("A::operator=", "A::operator=", None),
        ("A::operator<<=", "A::operator<<=", None),
        ("A::operator<=>", "A::operator<=>", None),
        ("A::operator|=", "A::operator|=", None),
        ("A::operator==(A const&)", "A::operator==(A const&)", None),
        ("A::operator===eq", "A::operator==", Some("eq")),
        ("A::operator<=>=order", "A::operator<=>", Some("order")),
        (
            "A::operator==(A const&)=eq",
            "A::operator==(A const&)",
            Some("eq"),
        ),
    ] {
        let read = mark(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(
            (read.at.to_string().as_str(), read.name.as_deref()),
            (at, name),
            "{text}"
        );
    }
    for wrong in [
        "", "=inner", "factor=", "lu.c:0", "12", ":12", "12=inner", "f=a\x07",
    ] {
        assert!(mark(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_barrier_is_read_from_the_right() {
    for (text, function, object, count) in [
        ("bar", "bar", None, None),
        ("bar:1", "bar", Some(1), None),
        ("bar:0", "bar", Some(0), None),
        ("bar:1:2", "bar", Some(1), Some(2)),
        ("bar:0:1", "bar", Some(0), Some(1)),
        ("bar:6:5", "bar", Some(6), Some(5)),
        ("libx.so!bar:2", "libx.so!bar", Some(2), None),
        ("app::Team::wait", "app::Team::wait", None, None),
        ("app::Team::wait:1", "app::Team::wait", Some(1), None),
        ("app::Team::wait:1:2", "app::Team::wait", Some(1), Some(2)),
        ("app::wait(a::b)", "app::wait(a::b)", None, None),
        ("app::wait(a::b):1", "app::wait(a::b)", Some(1), None),
        ("lu!0x4f2:1", "lu!0x4f2", Some(1), None),
        ("lu.c:120", "lu.c:120", None, None),
        ("libx.so!src/lu.cpp:7", "libx.so!src/lu.cpp:7", None, None),
        ("wait.constprop.0:1", "wait.constprop.0", Some(1), None),
        ("wait.cold:1", "wait.cold", Some(1), None),
    ] {
        let read = barrier(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(
            (read.function.to_string().as_str(), read.object, read.count),
            (function, object, count),
            "{text}"
        );
        assert_eq!(barrier(&read.to_string()), Ok(read), "{text}");
    }
    for wrong in [
        "",
        ":",
        ":1",
        "bar:",
        "bar:1:",
        "bar::1",
        "bar:7",
        "bar:1:0",
        "bar:1:7",
        "bar:1:1",
        "bar:x",
        "bar:1:2:3",
        "lu.c:120:1",
        "bar:256",
        "bar:-1",
        "bar:99999999999999999999",
    ] {
        assert!(barrier(wrong).is_err(), "{wrong:?}");
    }
    let error = barrier("bar:7").unwrap_err();
    assert!(
        error.contains("1 to 6") && error.contains("not 7"),
        "{error}"
    );
}

#[test]
fn all_are_shown_as_they_may_be_typed() {
    for text in ["lu.c:120=factor", "V::operator===eq"] {
        assert_eq!(named(text).unwrap().to_string(), text);
    }
    assert_eq!(phase("a=b..c").unwrap().to_string(), "a=b..c");
    for text in ["factor", "lu.c:12=inner"] {
        assert_eq!(mark(text).unwrap().to_string(), text);
    }
    for text in ["bar", "bar:0", "bar:1", "bar:1:2", "bar:0:2"] {
        assert_eq!(barrier(text).unwrap().to_string(), text);
    }
}
