//! `cargo xtask vm`: runs sbt on another kernel in a virtual machine.
//!
//! The machine is emulated, so it depends neither on KVM nor on the kernel of this machine. It has
//! only an initramfs with busybox, sbt, and programs whose correct results are known. It reports
//! its results through its second serial port.

mod initramfs;
mod kernel;
mod machine;
mod stages;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::test::require_tools;
use crate::verifier;
use crate::workspace::Workspace;

use stages::Row;

/// Options of `cargo xtask vm`.
#[derive(clap::Args)]
pub struct Args {
    /// A package of Debian with a kernel, a .deb file, or a kernel itself (vmlinuz);
    /// may be repeated. Debian's own kernel without it
    #[arg(long, value_name = "PACKAGE|FILE")]
    kernel: Vec<String>,

    /// Give up on a machine that has not come to its end after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    limit: u64,
}

/// Tools that are needed, and their Debian packages.
const TOOLS: [(&str, &str); 5] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("cpio", "cpio"),
    ("gcc", "gcc"),
    ("setpriv", "util-linux"),
];

/// Boots each kernel and prints the results; an error unless all are as expected.
pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    require_tools(&TOOLS)?;
    let folder = workspace.target.join("vm");
    let kernels = folder.join("kernels");
    fs::create_dir_all(&kernels).with_context(|| format!("cannot create {}", kernels.display()))?;
    let wanted: Vec<Option<&str>> = if args.kernel.is_empty() {
        vec![None]
    } else {
        args.kernel
            .iter()
            .map(|kernel| Some(kernel.as_str()))
            .collect()
    };
    let kernels: Vec<PathBuf> = wanted
        .iter()
        .map(|wanted| kernel::find(*wanted, &kernels))
        .collect::<Result<_>>()?;
    let sbt = verifier::sbt(&workspace)?;
    let initramfs = initramfs::build(&workspace, &folder, &sbt)?;
    let mut failed = Vec::new();
    for kernel in kernels {
        let limit = Duration::from_secs(args.limit);
        let ran = machine::run(&kernel, &initramfs, &folder, limit)?;
        let (release, mut rows) = stages::judge(&ran.said);
        let release = release.with_context(|| {
            format!(
                "{} did not come up: its console is in {}",
                kernel.display(),
                ran.console.display()
            )
        })?;
        rows.push(counts(&release, &ran.said));
        println!(
            "Linux {release}, emulated with {} CPUs, {} s in all",
            machine::CPUS,
            ran.took.as_secs()
        );
        print!("{}", stages::table(&rows));
        if let Some(line) = crash(&ran.console) {
            println!("the kernel itself crashed: {line}");
        }
        if rows.iter().any(|row| !row.holds) {
            failed.push(release);
        }
    }
    if !failed.is_empty() {
        bail!(
            "not all holds on Linux {}; all that was said is in {}",
            failed.join(", "),
            folder.display()
        );
    }
    Ok(())
}

/// The first line of a kernel's crash message on the console.
fn crash(console: &Path) -> Option<String> {
    let said = fs::read(console).ok()?;
    let said = String::from_utf8_lossy(&said);
    let mut lines = said.lines();
    let line = lines.find(|line| {
        ["Oops:", "BUG:", "Kernel panic"]
            .iter()
            .any(|sign| line.contains(sign))
    });
    line.map(|line| line.trim().to_owned())
}

/// The row about the verifier's counts on that kernel.
fn counts(release: &str, said: &str) -> Row {
    let judged = stages::printed(said, stages::PROGRAMS)
        .context("`sbt doctor --programs` did not run")
        .and_then(|printed| verifier::judge(release, &printed));
    let (holds, found) = match judged {
        Ok(text) => (true, text),
        Err(error) => (false, format!("{error:#}")),
    };
    Row {
        what: "verifier".into(),
        expected: "no program refused or too large".into(),
        found,
        holds,
    }
}
