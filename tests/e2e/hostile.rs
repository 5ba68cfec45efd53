//! Names that would harm the reader of a report, in every form of output.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::{
    harness::{
        LIMIT, Report, attach, command, eventually, folder, install, needs_root, run, sbt_with,
        start,
    },
    look::look,
    programs::{Build, program},
};

/// In the symbol table, in the place of another of the same length.
const PLACEHOLDER: &[u8] = b"replaced_by_another_of_the_same_length__";
const FUNCTION: &[u8; PLACEHOLDER.len()] = b"=m\x1b[31m<script>alert(1)</script>\",'&||\n\x07";

/// The kernel cuts names after 15 bytes.
#[test]
fn a_name_that_is_cut_within_a_letter_is_a_name() {
    needs_root!();
    let folder = folder();
    let named = folder.path().join("fourteen_bytesö");
    let cut = "fourteen_bytes\u{fffd}";
    install(&program("truth.c"), &named);
    let mut target = start(command(&named, &["threads=2", "rounds=1000", "base=1000"]));
    target.wait_for("ready");
    let report = attach(target.pid(), &["--duration=500ms"]).report();
    assert!(report.number("episodes") > 0, "{report}");
    assert_eq!(report.threads()[0]["name"], cut, "{report}");
    drop(target);

    install(&Build::of("hangs.c").path(), &named);
    let mut target = start(command(&named, &["lock"]));
    target.wait_for("stuck");
    let seen = eventually(LIMIT, || {
        let report = look(target.pid(), &[]);
        report.to_string().contains(cut).then_some(())
    });
    assert_eq!(seen, Some(()));
}

#[test]
fn names_are_text_in_every_form() {
    needs_root!();
    let folder = folder();
    let built = fs::read(Build::of("hostile.c").flags(&["-g0"]).path()).unwrap();
    let mut image = built.clone();
    let places = (0..built.len()).filter(|at| built[*at..].starts_with(PLACEHOLDER));
    for at in places {
        image[at..at + FUNCTION.len()].copy_from_slice(FUNCTION);
    }
    assert_ne!(image, built);
    let path = folder.path().join("=e\u{1b}[1m<i>\"x.bin");
    fs::write(&path, &image).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let file = |name: &str| folder.path().join(name);

    let recording = file("run.sbt");
    let mut command = sbt_with(&["run", "--watch-all", "-o"]);
    command.arg(&recording).arg("--").arg(&path);
    let live = run(command).expect(0);
    let mut command = sbt_with(&["report"]);
    command.arg(&recording);
    for (option, name) in [
        ("--html", "a.html"),
        ("--csv", "a.csv"),
        ("--perfetto", "a.pf"),
    ] {
        command.arg(option).arg(file(name));
    }
    run(command).expect(0);
    let mut command = sbt_with(&["report", "--json"]);
    command.arg(&recording);
    let json = run(command).expect(0);
    let mut command = sbt_with(&["check", "--max-idle=0.001%", "--junit"]);
    command.arg(file("a.xml")).arg(&recording);
    // Whether that is too much depends on the machine: it names the site either way.
    let check = run(command);
    assert!([0, 1].contains(&check.code()), "{check}");
    let text = run(sbt_with(&["report".as_ref(), recording.as_os_str()])).expect(0);

    let read = |name: &str| fs::read_to_string(file(name)).unwrap();
    let shown = [
        ("live", live.stderr.clone()),
        ("text", text.out()),
        ("json", json.out()),
        ("check", check.out() + &check.stderr),
        ("html", read("a.html")),
        ("csv", read("a.csv")),
        ("junit", read("a.xml")),
    ];
    for (form, text) in &shown {
        assert!(text.contains("alert(1)"), "{form}: {text}");
        // Rows of tables end with both (RFC 4180).
        let control =
            text.find(|letter: char| letter.is_control() && !['\n', '\r'].contains(&letter));
        assert_eq!(control, None, "{form}: {text:?}");
        let is_markup = ["html", "junit"].contains(form);
        assert!(
            !is_markup || !text.contains("<script>alert"),
            "{form}: {text}"
        );
    }
    let perfetto = fs::read(file("a.pf")).unwrap();
    let harmful = |text: &[u8]| perfetto.windows(text.len()).any(|part| part == text);
    assert!(harmful(b"alert(1)"));
    assert!(!harmful(b"\x1b[31m") && !harmful(b"\x1b[1m") && !harmful(b"\x1b[2J"));

    // No cell begins a formula.
    let (_, table) = shown.iter().find(|(form, _)| *form == "csv").unwrap();
    for formula in [",=", ",\"=", "\n="] {
        assert!(!table.contains(formula), "{table}");
    }
    let report = Report(serde_json::from_slice(&json.stdout).unwrap());
    report.is_exactly(100, 50);
}
