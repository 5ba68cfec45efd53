//! Runs all tests with one command, even on a fresh machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Result, bail};
use nix::sys::signal::{SigHandler, Signal, signal};

use crate::again;
use crate::debian;
use crate::machine::{checked, checked_folder};
use crate::mpi;
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

/// Tools and files that the tests use, and their Debian packages.
const TOOLS: [(&str, &str); 28] = [
    ("gcc", "gcc"),
    ("g++", "g++"),
    ("clang", "clang"),
    ("gfortran", "gfortran"),
    ("/usr/lib/x86_64-linux-gnu/libc++.so", "libc++-dev"),
    ("/usr/lib/x86_64-linux-gnu/libc++abi.so", "libc++abi-dev"),
    ("/usr/lib/x86_64-linux-gnu/libomp5.so", "libomp-dev"),
    ("mpirun.openmpi", "openmpi-bin"),
    (
        "/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h",
        "libopenmpi-dev",
    ),
    ("mpiexec.hydra", "mpich"),
    ("/usr/include/x86_64-linux-gnu/mpich/mpi.h", "libmpich-dev"),
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

/// Restores the default handling of signals. If our parent ignores them (`nohup`, or `&` in a
/// script), the tested programs would inherit that and miss what the tests send.
fn hear_signals() -> Result<()> {
    for ignored in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
        // SAFETY: no handler.
        unsafe { signal(ignored, SigHandler::SigDfl) }?;
    }
    Ok(())
}

/// Runs the unit tests, then the end-to-end tests with the real binary and kernel.
///
/// # Errors
/// If tests cannot be built or run, fail, or are skipped although none may be.
pub fn run(args: &Args) -> Result<()> {
    Suite::build()?.run(args.filter.as_deref(), args.no_skips)
}

/// The tests, built, and what their environment names.
pub struct Suite {
    pub workspace: Workspace,
    /// File that lists the skipped tests.
    pub skips: PathBuf,
    /// File that lists the wrong measurements.
    retries: PathBuf,
    /// A Python with the packages that tests use.
    python: PathBuf,
    /// A folder with MPIs that are no Debian packages.
    mpi: PathBuf,
}

impl Suite {
    /// Builds the tests, and installs the tools that they need.
    ///
    /// # Errors
    /// If the tests cannot be built, or tools are missing and cannot be installed.
    pub fn build() -> Result<Self> {
        let workspace = Workspace::locate()?;
        fs::create_dir_all(&workspace.target)?;
        hear_signals()?;
        // Downloads take as long as the build, so both run at the same time.
        let (python, mpi) = thread::scope(|scope| {
            let tools = scope.spawn(|| {
                require_tools(&TOOLS)?;
                let python = python::prepare(&workspace)?;
                let mpi = mpi::prepare(&workspace, &python)?;
                anyhow::Ok((python, mpi))
            });
            process::run(command(&workspace).arg("--no-run"))?;
            tools.join().expect("no panic")
        })?;
        Ok(Self {
            skips: workspace.target.join("skipped-tests.txt"),
            retries: workspace.target.join("retried-tests.txt"),
            python,
            mpi,
            workspace,
        })
    }

    /// The command that builds and runs the tests.
    pub fn command(&self) -> Command {
        command(&self.workspace)
    }

    /// Sets the variables with which tests find the binary, tools and logs.
    pub fn environment(&self, command: &mut Command) {
        command
            // The binary is built together with the tests.
            .env("SBT_BIN", checked_folder(&self.workspace).join("sbt"))
            .env("SBT_PYTHON", &self.python)
            .env("SBT_MPI", &self.mpi)
            .env("SBT_SKIP_LOG", &self.skips)
            .env("SBT_RETRY_LOG", &self.retries);
    }

    /// Runs the tests whose name contains `filter`, or all.
    ///
    /// # Errors
    /// If tests fail, too many measure a second time, or some are skipped and `no_skips` is set.
    pub fn run(&self, filter: Option<&str>, no_skips: bool) -> Result<()> {
        fs::write(&self.skips, "")?;
        fs::write(&self.retries, "")?;
        // These tests mostly wait. Tests that measure time run without others.
        let pure = [
            "--lib",
            "--bins",
            "--test=exports",
            "--test=scenarios",
            "--test=terminal",
        ];
        let tests = |which: &[&str], at_once: &str, turn: &str| {
            let mut tests = self.command();
            tests
                .args(which)
                .args(filter)
                .args(["--", "--test-threads", at_once])
                .env("SBT_TURN", turn);
            self.environment(&mut tests);
            tests
        };
        process::run(&mut tests(&pure, "4", "others"))?;
        let e2e = |at_once: &str, turn: &str| tests(&["--test=e2e"], at_once, turn);
        let others = again::run(&mut e2e("3", "others"))?;
        let breakpoints = again::run(&mut e2e("3", "breakpoints"))?;
        let beside_others = [others.failed, breakpoints.failed].concat();
        let closer = again::look_closer(&beside_others, || {
            let mut tests = e2e("1", "others");
            // What the tests measure in this run does not count for the earlier run.
            tests.env_remove("SBT_RETRY_LOG").env_remove("SBT_TURN");
            tests.arg("--exact");
            tests
        })?;
        let alone = again::run(&mut e2e("1", "alone"))?;
        // Each of the three runs starts all tests, and skips those of the other runs.
        let retries = Retries::of(
            &fs::read_to_string(&self.retries)?,
            others.ended.max(breakpoints.ended).max(alone.ended),
        );
        eprint!("{}{closer}", retries.text());
        let failed = [beside_others, alone.failed].concat();
        if !failed.is_empty() {
            bail!(
                "{} tests failed: {}\n{}{}{}",
                failed.len(),
                failed.join(", "),
                others.said,
                breakpoints.said,
                alone.said
            );
        }
        // A filtered set of tests is too small for a percentage.
        if filter.is_none() {
            retries.check()?;
        }
        report_skips(&self.skips, no_skips)
    }
}

/// Builds all tests at once: separately, some libraries would be built twice with different
/// features.
fn command(workspace: &Workspace) -> Command {
    let mut command = checked(workspace, "test");
    command.args(["--workspace", "--exclude", "sbt-fuzz"]).env(
        "RUSTC_WORKSPACE_WRAPPER",
        workspace.root.join("xtask/rustc-for-tests"),
    );
    command
}

/// Installs the packages of missing tools. A tool from another source needs no package.
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
