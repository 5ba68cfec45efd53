//! Checks that the manual pages are free of errors, with two formatters.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::process;

/// An intended finding of mandoc: pages have no date, since they change with the version and not by
/// the day.
const MEANT: &str = "missing date";

/// Formats each page of a folder with groff and mandoc.
pub fn check(folder: &Path) -> Result<()> {
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let page = entry?.path();
        let mut groff = process::command("groff");
        groff.args(["-man", "-ww", "-z", "-Tutf8"]).arg(&page);
        let mut mandoc = process::command("mandoc");
        mandoc.args(["-T", "lint", "-W", "warning"]).arg(&page);
        for mut tool in [groff, mandoc] {
            let output = tool.output()?;
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            let wrong: Vec<&str> = complaints(&said).collect();
            ensure!(wrong.is_empty(), "{}: {}", page.display(), wrong.join("\n"));
        }
        count += 1;
    }
    ensure!(
        count > 0,
        "there are no manual pages in {}",
        folder.display()
    );
    Ok(())
}

fn complaints(said: &str) -> impl Iterator<Item = &str> {
    said.lines()
        .filter(|line| !line.trim().is_empty() && !line.contains(MEANT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_is_no_complaint() {
        let said = "mandoc: sbt.1:4:5: STYLE: missing date, using \"\": TH\n\
                    mandoc: sbt.1:9:2: ERROR: skipping unknown macro: XX\n";
        let all: Vec<&str> = complaints(said).collect();
        assert_eq!(
            all,
            ["mandoc: sbt.1:9:2: ERROR: skipping unknown macro: XX"]
        );
    }
}
