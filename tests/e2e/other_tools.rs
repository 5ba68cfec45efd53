//! What docs/recording.md shows to users of pandas, polars and `DuckDB`, run as it stands.

use std::{fs, path::Path, process::Command};

use crate::{
    harness::{folder, needs_root, run, sbt_with},
    programs::program,
    turns::skipped,
};

/// The indented parts of the document that import something.
fn examples() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/recording.md");
    let text = fs::read_to_string(path).unwrap();
    let mut blocks = vec![String::new()];
    for line in text.lines() {
        match line.strip_prefix("    ") {
            Some(code) => blocks.last_mut().unwrap().extend([code, "\n"]),
            None => blocks.push(String::new()),
        }
    }
    blocks.retain(|block| block.contains("import "));
    blocks
}

#[test]
fn examples_in_the_document_read_a_recording() {
    needs_root!();
    let Some(python) = std::env::var_os("SBT_PYTHON") else {
        skipped(
            "needs the Python that `cargo xtask test` prepares",
            "other_tools",
        );
        return;
    };
    let folder = folder();
    let file = folder.path().join("run.sbt");
    let program = program("truth.c");
    let file_text = file.to_string_lossy();
    let arguments = [
        "run",
        "--budget=off",
        "--no-tui",
        "-q",
        "-o",
        &file_text,
        "--",
    ];
    let mut command = sbt_with(&arguments);
    command.arg(program).args(["threads=3", "rounds=1234"]);
    run(command).expect(0);
    let examples = examples();
    assert_eq!(examples.len(), 3, "{examples:?}");
    for code in examples {
        let mut python = Command::new(&python);
        let finished = run({
            python.args(["-c", &code]).current_dir(folder.path());
            python
        });
        let finished = finished.expect(0);
        // Each counts the arrivals of each thread.
        let counts = finished.out().matches("1234").count();
        assert!(counts >= 3, "{code}{finished}");
    }
}
