//! Everything that has to pass, in one command on a fresh machine.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Result, bail};
use nix::sys::signal::{SigHandler, Signal, signal};

use crate::again;
use crate::debian;
use crate::machine::TESTED;
use crate::process;
use crate::python;
use crate::retries::Retries;
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
const TOOLS: [(&str, &str); 25] = [
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
    ("go", "golang-go"),
    ("javac", "default-jdk-headless"),
    ("/usr/bin/python3", "python3"),
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
    let retries = workspace.target.join("retried-tests.txt");
    fs::create_dir_all(&workspace.target)?;
    fs::write(&skips, "")?;
    fs::write(&retries, "")?;
    hear_signals()?;
    // What is downloaded and installed takes as long as what is built.
    let python = thread::scope(|scope| {
        let tools = scope.spawn(|| {
            require_tools(&TOOLS)?;
            python::prepare(&workspace)
        });
        process::run(tests(&workspace).arg("--no-run"))?;
        tools.join().expect("no panic")
    })?;
    // They mostly wait. Those that measure time have the machine for themselves.
    let pure = [
        "--lib",
        "--bins",
        "--test=exports",
        "--test=scenarios",
        "--test=terminal",
    ];
    let tests = |which: &[&str], at_once: &str| {
        let mut tests = tests(&workspace);
        tests
            .args(which)
            .args(&args.filter)
            .args(["--", "--test-threads", at_once])
            // It has come with the tests beside the library.
            .env("SBT_BIN", workspace.target.join(TESTED).join("sbt"))
            .env("SBT_PYTHON", &python)
            .env("SBT_SKIP_LOG", &skips)
            .env("SBT_RETRY_LOG", &retries);
        tests
    };
    process::run(tests(&pure, "4").env("SBT_TURN", "others"))?;
    let e2e = |at_once: &str, turn: &str| {
        let mut tests = tests(&["--test=e2e"], at_once);
        tests.env("SBT_TURN", turn);
        tests
    };
    let others = again::run(&mut e2e("3", "others"))?;
    let closer = again::look_closer(&others.failed, || {
        let mut tests = e2e("1", "others");
        // What they measure now says nothing of the run before.
        tests.env_remove("SBT_RETRY_LOG").arg("--exact");
        tests
    })?;
    let alone = again::run(&mut e2e("1", "alone"))?;
    // Each run begins all tests, and leaves those whose turn it is not.
    let retries = Retries::of(
        &fs::read_to_string(&retries)?,
        others.ended.max(alone.ended),
    );
    eprint!("{}{closer}", retries.text());
    let failed = [others.failed, alone.failed].concat();
    if !failed.is_empty() {
        bail!("{} tests failed: {}", failed.len(), failed.join(", "));
    }
    // A few tests that were asked for say nothing of a share.
    if args.filter.is_none() {
        retries.check()?;
    }
    report_skips(&skips, args.no_skips)
}

/// All at once: built apart, some libraries would have other features and be built twice.
fn tests(workspace: &Workspace) -> Command {
    let mut command = process::command(process::cargo());
    command
        .args(["test", "--profile", TESTED])
        .args(["--workspace", "--exclude", "sbt-fuzz"])
        .current_dir(&workspace.root)
        .env("CARGO_TARGET_DIR", &workspace.target);
    command
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
