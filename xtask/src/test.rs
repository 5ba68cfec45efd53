//! Everything that has to pass, in one command on a fresh machine.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Result, bail};
use nix::sys::signal::{SigHandler, Signal, signal};

use crate::debian;
use crate::machine::TESTED;
use crate::process;
use crate::python;
use crate::workspace::Workspace;

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Args {
    /// Fail if a test that needs root was skipped, as CI does
    #[arg(long)]
    no_skips: bool,
    /// Only tests whose name contains this
    filter: Option<String>,
}

/// Tools and files that the tests use, and the Debian packages that have them.
const TOOLS: [(&str, &str); 22] = [
    ("gcc", "gcc"),
    ("g++", "g++"),
    ("clang", "clang"),
    ("/usr/lib/x86_64-linux-gnu/libc++.so", "libc++-dev"),
    ("/usr/lib/x86_64-linux-gnu/libc++abi.so", "libc++abi-dev"),
    ("/usr/lib/x86_64-linux-gnu/libomp5.so", "libomp-dev"),
    ("mpirun", "openmpi-bin"),
    ("mpicc", "libopenmpi-dev"),
    ("hpcc", "hpcc"),
    ("gm", "graphicsmagick"),
    ("stress-ng", "stress-ng"),
    ("xz", "xz-utils"),
    ("zstd", "zstd"),
    ("musl-gcc", "musl-tools"),
    ("objcopy", "binutils"),
    ("strip", "binutils"),
    ("bpftool", "bpftool"),
    ("setpriv", "util-linux"),
    ("script", "bsdutils"),
    ("setcap", "libcap2-bin"),
    ("groff", "groff-base"),
    ("mandoc", "mandoc"),
];

/// What whoever started us ignores (`nohup`, or `&` in a script) the programs that are tested
/// would ignore too, and with them what tests press and send.
fn hear_signals() -> Result<()> {
    for ignored in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
        // SAFETY: no handler.
        unsafe { signal(ignored, SigHandler::SigDfl) }?;
    }
    Ok(())
}

/// Runs the unit tests, then the real binary against the real kernel.
pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let skips = workspace.target.join("skipped-tests.txt");
    fs::create_dir_all(&workspace.target)?;
    fs::write(&skips, "")?;
    hear_signals()?;
    // What is downloaded and installed takes as long as what is built.
    let (sbt, python) = thread::scope(|scope| {
        let tools = scope.spawn(|| {
            require_tools(&TOOLS)?;
            python::prepare(&workspace)
        });
        // With them comes the binary, for the tests beside the library: built apart it would be
        // another one, since some libraries have less features then, which are of no use to it.
        process::run(unit(&workspace).arg("--no-run"))?;
        let sbt = workspace.target.join(TESTED).join("sbt");
        anyhow::Ok((sbt, tools.join().expect("no panic")?))
    })?;

    process::run(unit(&workspace).args(&args.filter))?;
    let mut e2e = cargo(
        &workspace,
        &["test", "--profile", TESTED, "--package", "sbt-tests"],
    );
    e2e.args(&args.filter)
        // They mostly wait. Those that measure time have the machine for themselves.
        .args(["--", "--test-threads", "2"])
        .env("SBT_BIN", sbt)
        .env("SBT_PYTHON", python)
        .env("SBT_SKIP_LOG", &skips);
    process::run(&mut e2e)?;
    report_skips(&skips, args.no_skips)
}

/// All tests but those that run the binary.
fn unit(workspace: &Workspace) -> Command {
    let others = [
        "test",
        "--profile",
        TESTED,
        "--workspace",
        "--exclude",
        "sbt-tests",
        "--exclude",
        "sbt-fuzz",
    ];
    cargo(workspace, &others)
}

/// Has the packages installed whose tools are missing; a machine that has the
/// tools from elsewhere needs no packages.
pub fn require_tools(tools: &[(&str, &str)]) -> Result<()> {
    let is_there = |tool: &str| {
        process::on_path(tool).is_some()
            || ["/usr/sbin", "/sbin"]
                .iter()
                .any(|dir| Path::new(dir).join(tool).is_file())
    };
    let mut missing: Vec<String> = tools
        .iter()
        .filter(|(tool, _)| !is_there(tool))
        .map(|(_, package)| (*package).to_owned())
        .collect();
    missing.dedup();
    debian::require(&missing)
}

fn cargo(workspace: &Workspace, arguments: &[&str]) -> Command {
    let mut command = process::command(process::cargo());
    command
        .args(arguments)
        .current_dir(&workspace.root)
        .env("CARGO_TARGET_DIR", &workspace.target);
    command
}

fn report_skips(log: &Path, none_allowed: bool) -> Result<()> {
    let skipped = fs::read_to_string(log)?;
    let count = skipped.lines().count();
    if count == 0 {
        eprintln!("all tests ran");
        return Ok(());
    }
    eprintln!("{count} tests were skipped; run as root to have them all:");
    eprint!("{skipped}");
    if none_allowed {
        bail!("{count} tests were skipped");
    }
    Ok(())
}
