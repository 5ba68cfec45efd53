//! Checks how many instructions the kernel's verifier processes for each program. So a program that
//! comes close to the limit is noticed before an older kernel refuses it.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::machine::release_build;
use crate::process;
use crate::workspace::Workspace;

/// Most instructions that the verifier may process for a program, on any kernel, counting
/// repetitions. The kernel gives up at a million, and one version may process ten times as many as
/// the next.
const BOUND: u64 = 100_000;

/// Asks this machine's kernel.
pub fn run(workspace: &Workspace) -> Result<()> {
    let sbt = sbt(workspace)?;
    let text = process::read(process::command(&sbt).args(["doctor", "--programs"]))
        .context("BPF programs are loaded as root")?;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    println!("{}", judge(release.trim(), &text)?);
    Ok(())
}

/// The sbt to use: `SBT_BIN`, otherwise a release build.
pub fn sbt(workspace: &Workspace) -> Result<PathBuf> {
    match std::env::var_os("SBT_BIN") {
        Some(path) => Ok(std::path::absolute(path)?),
        None => release_build(workspace),
    }
}

/// Reads what `sbt doctor --programs` printed on a kernel. Returns a text about it; an error if a
/// program is refused or above the bound.
pub fn judge(release: &str, text: &str) -> Result<String> {
    let (mut faults, mut counts, mut accepted) = (Vec::new(), Vec::new(), 0);
    for line in text.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [name, _, "refused:", ..] => {
                faults.push(format!("{name} is refused ({})", words[3..].join(" ")));
            }
            // Before Linux 5.16 the kernel does not say how much it looked at.
            [_, _, "-"] => accepted += 1,
            [name, _, count] => {
                let count: u64 = count.parse().with_context(|| format!("{line:?}"))?;
                accepted += 1;
                counts.push((count, name));
                if count > BOUND {
                    faults.push(format!("{name} takes {count} of at most {BOUND}"));
                }
            }
            _ => bail!("`sbt doctor --programs` printed {line:?}"),
        }
    }
    if !faults.is_empty() {
        bail!("on Linux {release}: {}", faults.join("; "));
    }
    if accepted == 0 {
        bail!("`sbt doctor --programs` names no program");
    }
    let most = counts.iter().max().map_or_else(
        || "it does not say how much it looked at".to_owned(),
        |(count, name)| format!("at most {count} instructions are looked at, of {name}"),
    );
    Ok(format!(
        "Linux {release}: {accepted} programs accepted; {most}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "program  instructions  verified\n";

    #[test]
    fn what_doctor_prints_is_read() {
        let arrive = "arrive           1900     15484\n";
        let text = judge("6.1", &format!("{HEAD}{arrive}away 694 120\n")).unwrap();
        assert_eq!(
            text,
            "Linux 6.1: 2 programs accepted; at most 15484 instructions are looked at, of arrive"
        );
        let old = judge("5.15", &format!("{HEAD}away 694 -\n")).unwrap();
        assert!(old.ends_with("it does not say how much it looked at"));
        for nothing in ["", HEAD, "program\nno numbers\n", "program\na 1 many\n"] {
            assert!(judge("6.1", nothing).is_err(), "{nothing}");
        }
    }

    #[test]
    fn a_program_that_is_refused_or_above_the_bound_is_a_fault() {
        let refused = "kmp              2269   refused: BPF program kmp: too large\n";
        let fault = |lines: String| judge("6.1", &lines).unwrap_err().to_string();
        assert_eq!(
            fault(format!("{HEAD}{refused}")),
            "on Linux 6.1: kmp is refused (BPF program kmp: too large)"
        );
        assert!(judge("6.1", &format!("{HEAD}arrive 10 {BOUND}\n")).is_ok());
        assert_eq!(
            fault(format!("{HEAD}arrive 10 {}\n", BOUND + 1)),
            "on Linux 6.1: arrive takes 100001 of at most 100000"
        );
    }
}
