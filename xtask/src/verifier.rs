//! Compares how many instructions the kernel's verifier processes for each program with a file of
//! counts by kernel. So a program that comes close to the limit is noticed before an older kernel
//! refuses it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::machine::release_build;
use crate::process;
use crate::workspace::Workspace;

/// Growth of a program that is tolerated, per cent of the count in the file.
const MAY_GROW_PCT: u64 = 10;

/// Most instructions that the verifier may process for a program, on any kernel. The kernel gives
/// up at a million, and one version may process ten times as many as the next.
const BOUND: u64 = 100_000;

/// Instructions of a program, and how many the verifier processed, counting repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Instructions as passed to the kernel.
    pub instructions: u64,
    /// Instructions that the verifier processed; `None` before Linux 5.16.
    pub verified: Option<u64>,
}

/// For each program by name, its count, or why the kernel refuses it.
pub type Said = BTreeMap<String, Result<Count, String>>;

/// The counts in the file, by `major.minor` of the kernel and by program: instructions and verified
/// instructions.
type Kept = BTreeMap<String, BTreeMap<String, (u64, u64)>>;

/// Compares the counts of this machine's kernel with the file, or writes them to it.
pub fn run(workspace: &Workspace, write: bool) -> Result<()> {
    let sbt = sbt(workspace)?;
    let text = process::read(process::command(&sbt).args(["doctor", "--programs"]))
        .context("BPF programs are loaded as root")?;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let said = parse(&text)?;
    for line in settle(workspace, release.trim(), &said, write)? {
        println!("{line}");
    }
    Ok(())
}

/// The sbt to use: `SBT_BIN`, otherwise a release build.
pub fn sbt(workspace: &Workspace) -> Result<PathBuf> {
    match std::env::var_os("SBT_BIN") {
        Some(path) => Ok(std::path::absolute(path)?),
        None => release_build(workspace),
    }
}

/// Compares a kernel's counts with the file, or writes them to it. Returns a text about them; an
/// error if a program is refused or has grown too much.
pub fn settle(
    workspace: &Workspace,
    release: &str,
    said: &Said,
    write: bool,
) -> Result<Vec<String>> {
    let path = workspace.verifier();
    let mut kept = read(&path)?;
    let kernel = major_minor(release);
    let faults = faults(said, kept.get(&kernel).filter(|_| !write));
    if !faults.is_empty() {
        bail!(
            "on Linux {release}: {}; if that is meant, run `cargo xtask ebpf --verifier write` there",
            faults.join("; ")
        );
    }
    let most = said
        .iter()
        .filter_map(|(name, count)| Some((count.as_ref().ok()?.verified?, name)))
        .max();
    let most = most.map_or_else(
        || "it does not say how much it looked at".to_owned(),
        |(count, name)| format!("at most {count} instructions are looked at, of {name}"),
    );
    let mut lines = vec![format!(
        "Linux {release}: {} programs accepted; {most}",
        said.len()
    )];
    if write {
        let counts = said.iter().filter_map(|(name, count)| {
            let count = count.as_ref().ok()?;
            Some((name.clone(), (count.instructions, count.verified?)))
        });
        let counts: BTreeMap<_, _> = counts.collect();
        // Before Linux 5.16 there are no counts to keep.
        if counts.is_empty() {
            return Ok(lines);
        }
        kept.insert(kernel, counts);
        fs::write(&path, to_text(&kept))
            .with_context(|| format!("cannot write {}", path.display()))?;
        lines.push(format!("wrote {}", workspace.relative(&path).display()));
    } else if !kept.contains_key(&kernel) {
        let known: Vec<_> = kept.keys().map(String::as_str).collect();
        lines.push(format!(
            "compared with nothing: the file has Linux {}",
            known.join(", ")
        ));
    }
    Ok(lines)
}

/// Parses the output of `sbt doctor --programs`.
pub fn parse(text: &str) -> Result<Said> {
    let mut said = Said::new();
    for line in text.lines().skip(1) {
        let mut words = line.split_whitespace();
        let unreadable = || format!("`sbt doctor --programs` printed {line:?}");
        let name = words.next().with_context(unreadable)?;
        let instructions = words.next().with_context(unreadable)?;
        let instructions = instructions.parse().with_context(unreadable)?;
        let last = words.next().with_context(unreadable)?;
        let count = match last {
            "refused:" => Err(words.collect::<Vec<_>>().join(" ")),
            "-" => Ok(None),
            count => Ok(Some(count.parse().with_context(unreadable)?)),
        };
        let count = count.map(|verified| Count {
            instructions,
            verified,
        });
        said.insert(name.to_owned(), count);
    }
    if said.is_empty() {
        bail!("`sbt doctor --programs` names no program");
    }
    Ok(said)
}

/// Lists faults: programs that are refused, above the bound, or grown. Without `kept`, growth is
/// not checked.
fn faults(said: &Said, kept: Option<&BTreeMap<String, (u64, u64)>>) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, count) in said {
        let verified = match count {
            Ok(count) => count.verified.unwrap_or(0),
            Err(why) => {
                faults.push(format!("{name} is refused ({why})"));
                continue;
            }
        };
        if verified > BOUND {
            faults.push(format!("{name} takes {verified} of at most {BOUND}"));
        }
        let Some(kept) = kept else { continue };
        match kept.get(name) {
            None => faults.push(format!("{name} is not in the file")),
            Some((_, was)) if verified * 100 > was * (100 + MAY_GROW_PCT) => {
                faults.push(format!("{name} has grown from {was} to {verified}"));
            }
            Some(_) => {}
        }
    }
    for name in kept.into_iter().flat_map(BTreeMap::keys) {
        if !said.contains_key(name) {
            faults.push(format!("{name} is in the file and not in the object"));
        }
    }
    faults
}

fn read(path: &Path) -> Result<Kept> {
    if !path.exists() {
        return Ok(Kept::new());
    }
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is not as expected", path.display()))
}

fn to_text(kept: &Kept) -> String {
    let mut text = format!(
        "# Written by `cargo xtask ebpf --verifier write` and `cargo xtask vm --write`.\n\
         # By kernel, of each program: its instructions, and how many the verifier looked at.\n\
         # More than {MAY_GROW_PCT} % above that, or above {BOUND}, is an error.\n"
    );
    for (kernel, counts) in kept {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n[\"{kernel}\"]");
        for (name, (instructions, verified)) in counts {
            let _ = writeln!(text, "{name} = [{instructions}, {verified}]");
        }
    }
    text
}

/// Returns `6.1` for `6.1.0-56-amd64`.
fn major_minor(release: &str) -> String {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().unwrap_or_default();
    format!("{}.{}", next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "program  instructions  verified\n\
        arrive           1900     15484\n\
        away              694         -\n\
        kmp              2269   refused: BPF program kmp: too large\n";

    fn said(verified: u64) -> Said {
        let count = Count {
            instructions: 10,
            verified: Some(verified),
        };
        Said::from([("arrive".to_owned(), Ok(count))])
    }

    fn kept(name: &str, verified: u64) -> BTreeMap<String, (u64, u64)> {
        BTreeMap::from([(name.to_owned(), (10, verified))])
    }

    #[test]
    fn what_doctor_prints_is_read() {
        let said = parse(PRINTED).unwrap();
        assert_eq!(said.len(), 3);
        let count = said["arrive"].as_ref().unwrap();
        assert_eq!((count.instructions, count.verified), (1900, Some(15484)));
        assert_eq!(said["away"].as_ref().unwrap().verified, None);
        assert_eq!(
            said["kmp"].as_ref().unwrap_err(),
            "BPF program kmp: too large"
        );
        assert!(parse("").is_err());
        assert!(parse("program\nno numbers\n").is_err());
    }

    #[test]
    fn growth_beyond_the_share_is_a_fault_and_less_is_not() {
        assert!(faults(&said(110), Some(&kept("arrive", 100))).is_empty());
        assert!(faults(&said(50), Some(&kept("arrive", 100))).is_empty());
        let grown = faults(&said(111), Some(&kept("arrive", 100)));
        assert_eq!(grown, ["arrive has grown from 100 to 111"]);
    }

    #[test]
    fn on_another_kernel_only_the_bound_and_refusals_count() {
        assert!(faults(&said(BOUND), None).is_empty());
        assert_eq!(faults(&said(BOUND + 1), None).len(), 1);
        assert_eq!(faults(&parse(PRINTED).unwrap(), None).len(), 1);
    }

    #[test]
    fn a_program_that_only_one_of_both_has_is_a_fault() {
        assert_eq!(faults(&said(1), Some(&kept("depart", 1))).len(), 2);
    }

    #[test]
    fn the_file_survives_being_written_and_kernels_keep_apart() {
        let all = Kept::from([
            ("6.1".to_owned(), kept("arrive", 3)),
            ("6.18".to_owned(), kept("arrive", 2)),
        ]);
        assert_eq!(toml::from_str::<Kept>(&to_text(&all)).unwrap(), all);
        assert_eq!(major_minor("6.1.0-56-amd64"), "6.1");
        assert_eq!(major_minor("6.18"), "6.18");
    }
}
