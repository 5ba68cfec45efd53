use std::path::Path;

use super::*;
use crate::settings::{Gate, SETTINGS, Settings, merge::merge};

/// The effective settings of a file alone, one line each.
fn shown(text: &str) -> Vec<String> {
    let layer = layer("sbt.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let (_, table) = merge(vec![layer]).unwrap();
    table
        .iter()
        .filter(|row| row.origin != "default")
        .map(|row| format!("{} {} {}", row.setting, row.value, row.origin))
        .collect()
}

#[test]
fn every_key_is_read_with_its_line() {
    let text = r#"
departures = "off"
futex = "on"
duration = "1.5m"
budget = 0.5
watch = ["lu.c:690", "factor", 120]
watch-all = true
warn-time = 250
warnings = false
phase-times = true
exit-with-program = true
marks = [
    "factor",
    "lu.c:12=inner",
]
barriers = ["bar:1:2"]

[names]
"lu.c:690" = "factor"
update = "inner loop"

[phases]
solve = "lu.c:10..lu.c:20"
"all of it" = "a..z"

[check]
max-idle = "10%"
max-phase = ["solve=5ms", "1s"]
min-efficiency = 0.8
min-episodes = 3
no-hang = "30s"
max-lost = "0.1%"
baseline = "old.sbt"
tolerance = 5
"#;
    assert_eq!(
        shown(text),
        [
            "departures off sbt.toml:2",
            "budget 0.5% sbt.toml:5",
            "futex on sbt.toml:3",
            "duration 90s sbt.toml:4",
            "watch lu.c:690, factor, :120 sbt.toml:6",
            "watch-all true sbt.toml:7",
            "warnings false sbt.toml:9",
            "warn-time 250ms sbt.toml:8",
            "phase-times true sbt.toml:10",
            "exit-with-program true sbt.toml:11",
            "names lu.c:690=factor sbt.toml:19",
            "names update=inner loop sbt.toml:20",
            "phases solve=lu.c:10..lu.c:20 sbt.toml:23",
            "phases all of it=a..z sbt.toml:24",
            "marks factor sbt.toml:13",
            "marks lu.c:12=inner sbt.toml:14",
            "barriers bar:1:2 sbt.toml:16",
        ]
    );
}

#[test]
fn the_backend_is_one_of_four() {
    assert_eq!(shown("backend = \"ptrace\""), ["backend ptrace sbt.toml:1"]);
    let error = layer("sbt.toml", "backend = \"gdb\"").unwrap_err();
    assert!(
        error.contains("ptrace") && error.contains("backend"),
        "{error}"
    );
}

#[test]
fn states_have_three_levels() {
    assert_eq!(shown("states = \"full\""), ["states full sbt.toml:1"]);
    assert_eq!(shown("states = \"off\""), ["states off sbt.toml:1"]);
    let error = layer("sbt.toml", "states = \"auto\"").unwrap_err();
    assert!(error.contains("expected light, full or off"), "{error}");
}

#[test]
fn times_are_numbers_or_texts() {
    for (text, expected) in [
        ("warn-time = 1_500", "warn-time 1500ms sbt.toml:1"),
        ("warn-time = 0.5", "warn-time 500us sbt.toml:1"),
        ("warn-time = \"2s\"", "warn-time 2s sbt.toml:1"),
        ("duration = 10", "duration 10s sbt.toml:1"),
        ("hang-time = 30", "hang-time 30s sbt.toml:1"),
        ("hang-time = 0", "hang-time off sbt.toml:1"),
        ("hang-time = \"off\"", "hang-time off sbt.toml:1"),
        ("duration = 1.5", "duration 1500ms sbt.toml:1"),
    ] {
        assert_eq!(shown(text), [expected], "{text}");
    }
}

#[test]
fn an_empty_file_says_nothing() {
    for text in [
        "",
        "\n# nothing\n",
        "[names]\n[phases]\n[check]\n",
        "\u{feff}",
    ] {
        let layer = layer("sbt.toml", text).unwrap();
        assert_eq!(layer, Layer::default(), "{text:?}");
        assert_eq!(merge(vec![layer]).unwrap().0, Settings::default());
    }
    // An empty list is a setting: nothing is watched, whatever weaker sources say.
    assert_eq!(shown("watch = []"), ["watch none sbt.toml:1"]);
}

#[test]
fn errors_name_file_line_and_what_would_be_right() {
    for (text, line, words) in [
        ("\nwacth = [\"a\"]", 2, &["`wacth`", "`watch`"][..]),
        ("watch_all = true", 1, &["`watch_all`", "`watch-all`"]),
        ("[name]\na = \"b\"", 1, &["`name`", "`names`"]),
        ("[chekc]", 1, &["`chekc`", "`check`"]),
        ("folded = \"a\"", 1, &["`folded`", "--folded FILE"]),
        ("zzz = 1", 1, &["`zzz`", "watch", "warn-time"]),
        ("watch = \"a\"", 1, &["`watch`", "a string", "list"]),
        ("watch = [true]", 1, &["`watch`", "a boolean", "list"]),
        ("watch = [\n\"a\",\n\"b.c:0\"]", 3, &["`b.c:0`", "line"]),
        ("watch = [-3]", 1, &["`watch`", "an integer"]),
        ("watch = [1.5]", 1, &["`watch`", "a float"]),
        ("watch = [0x1f]", 1, &["`watch`"]),
        ("watch-all = 1", 1, &["an integer", "true or false"]),
        ("warn-time = true", 1, &["a boolean", "milliseconds"]),
        ("warn-time = 0", 1, &["`0`", "above zero"]),
        ("warn-time = -1", 1, &["`-1`", "time"]),
        ("hang-time = \"soon\"", 1, &["`soon`", "or off"]),
        ("warn-time = inf", 1, &["`inf`", "time"]),
        ("warn-time = 0x10", 1, &["`0x10`"]),
        ("warn-time = \"3 weeks\"", 1, &["`weeks`", "ms"]),
        ("duration = 2026-01-01", 1, &["a datetime", "seconds"]),
        ("departures = true", 1, &["a boolean", "auto"]),
        ("departures = \"perhaps\"", 1, &["`perhaps`", "auto"]),
        ("marks = [\"12\"]", 1, &["FILE:LINE"]),
        ("barriers = [\"bar:9\"]", 1, &["1 to 6"]),
        ("names = 3", 1, &["an integer", "[names]"]),
        ("[names]\nlu.c = \"x\"", 2, &["`lu`", "quotes"]),
        ("[names]\n\"lu.c:1\" = 3", 2, &["`lu.c:1`", "an integer"]),
        ("[names]\n\"lu.c:1\" = \"\"", 2, &["`lu.c:1`", "empty"]),
        ("[names]\n\"lu.c:0\" = \"x\"", 2, &["lu.c:0", "line"]),
        (
            "[phases]\nsolve = [\"a\", \"b\"]",
            2,
            &["`solve`", "an array", "two sites"],
        ),
        ("[phases]\nsolve = \"a\"", 2, &["`a`", "SITE..SITE"]),
        ("[phases]\n\"\" = \"a..b\"", 2, &["name is empty"]),
        ("check = 1", 1, &["`check`", "table"]),
        (
            "[check]\nmax_idle = \"1%\"",
            2,
            &["`max_idle`", "`max-idle`"],
        ),
        (
            "[check]\nzzz = 1",
            2,
            &["`zzz`", "max-phase, min-episodes, no-hang"],
        ),
        ("[check]\nmax-idle = 10", 2, &["`10`", "such as 10%"]),
        ("[check]\nmax-idle = true", 2, &["a boolean", "a limit"]),
        (
            "[check]\nmax-idle = [\n\"1%\",\n\"x\"]",
            4,
            &["`x`", "such as 10%"],
        ),
        ("[check]\nno-hang = 30", 2, &["an integer", "30s"]),
        ("[check]\nmax-lost = \"1\"", 2, &["`1`", "0.1%"]),
        ("[check]\ntolerance = \"much\"", 2, &["`much`", "10%"]),
        ("[names]\nlu.c:1 = \"x\"", 2, &["not TOML", "quotes"]),
        ("watch = [", 1, &["not TOML"]),
        ("\n\nwatch = \"a", 3, &[]),
        ("watch-all = true\nwatch-all = true", 2, &[]),
        ("a b", 1, &[]),
    ] {
        let error = layer("sbt.toml", text).unwrap_err();
        assert!(
            error.starts_with(&format!("sbt.toml:{line}: ")),
            "{text}: {error}"
        );
        assert_eq!(error.lines().count(), 1, "{text}: {error}");
        for word in words {
            assert!(error.contains(word), "{word} of {text}: {error}");
        }
    }
}

#[test]
fn what_a_file_holds_cannot_reach_the_terminal() {
    for text in [
        "\"a\\u001b[31m\" = 1",
        "watch = [\"\\u001b:0\"]",
        "x\x1b = 1",
    ] {
        let error = layer("sbt.toml", text).unwrap_err();
        assert!(!error.contains('\x1b'), "{error:?}");
    }
}

#[test]
fn any_text_is_read_or_refused() {
    use proptest::prelude::*;
    let known: Vec<_> = SETTINGS.iter().map(|known| known.key).collect();
    let config = ProptestConfig::with_cases(500);
    proptest!(config, |(key in proptest::sample::select(known), value in "\\PC{0,20}")| {
        for text in [format!("{key} = {value}"), format!("{key} = \"{value}\""), value] {
            if let Err(error) = layer("f", &text) {
                prop_assert!(error.starts_with("f:") && error.lines().count() == 1, "{error}");
            }
        }
    });
}

#[test]
fn rules_are_read_as_they_are_typed() {
    let text = r#"
[check]
max-idle = ["10%", "lu.c:690:5%"]
max-phase = "solve=5ms"
min-efficiency = 0.8
min-episodes = 3
no-hang = "30s"
max-lost = "0.1%"
baseline = "old.sbt"
tolerance = 5
"#;
    let Gate { asked, baseline } = layer("sbt.toml", text).unwrap().check;
    let rules: Vec<String> = asked
        .rules
        .iter()
        .map(|rule| format!("{} {}", rule.measure.name(), rule.typed()))
        .collect();
    assert_eq!(
        rules,
        [
            "max-idle 10%",
            "max-idle lu.c:690:5%",
            "max-phase solve:5ms",
            "min-efficiency 0.8",
            "min-episodes 3",
        ]
    );
    assert_eq!(asked.no_hang, Some(std::time::Duration::from_secs(30)));
    assert_eq!((asked.max_lost, asked.tolerance), (Some(0.1), Some(5.0)));
    let baseline = baseline.unwrap();
    assert_eq!(baseline.path, Path::new("old.sbt"));
    assert_ne!(
        baseline,
        NamedFile::typed("old.sbt".into()),
        "nobody has typed it"
    );
}
