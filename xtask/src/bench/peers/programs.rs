//! The programs that are watched: they print how long they took, and their number of arrivals is
//! known.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::read;
use crate::bench::series::Bench;
use crate::process;

/// A program to run under the tools.
pub struct Program {
    /// Name in tables.
    pub name: &'static str,
    /// Short description.
    pub what: &'static str,
    /// The function that is the program's barrier.
    pub function: &'static str,
    /// The library with this function.
    pub library: PathBuf,
    /// Calls of the function, counted by a preloaded library.
    pub arrivals: u64,
    arguments: Vec<OsString>,
}

/// Settings for OpenMP programs. Waiting threads sleep at once: if they spin, other work on the
/// machine decides how long a run takes.
const ENVIRONMENT: [(&str, &str); 2] = [("OMP_NUM_THREADS", "2"), ("OMP_WAIT_POLICY", "passive")];

impl Program {
    /// A command that runs the program alone.
    pub fn command(&self) -> Command {
        let mut command = under(&self.arguments[0]);
        command.args(&self.arguments[1..]);
        command
    }

    /// The program's name and arguments.
    pub fn arguments(&self) -> &[OsString] {
        &self.arguments
    }
}

/// A command that runs a program or a tool in the environment that the programs need.
pub fn under(tool: impl AsRef<OsStr>) -> Command {
    let mut command = process::command(tool);
    command.envs(ENVIRONMENT);
    command
}

/// All programs, compiled and with their arrivals counted.
pub fn all(bench: &Bench) -> Result<Vec<Program>> {
    let counter = bench.compile("bench/count.c", &["-O2", "-g", "-shared", "-fPIC"])?;
    let phases = super::phases(bench)?;
    let openmp = bench.compile("bench/openmp-phases.c", &["-O2", "-g", "-fopenmp"])?;
    let demo = |name: &str, scale: &str| -> Vec<OsString> {
        let words = ["__demo", name, "4", scale].map(OsString::from);
        [bench.sbt.clone().into_os_string()]
            .into_iter()
            .chain(words)
            .collect()
    };
    let pthread = "pthread_barrier_wait";
    let all = [
        ("radix", "sorting, 4 threads", pthread, demo("radix", "0.3")),
        ("ocean", "a grid, 4 threads", pthread, demo("ocean", "0.3")),
        (
            "phases",
            "[phases of 100 µs](phases.c), 2 threads",
            pthread,
            vec![phases.into_os_string(), "10000".into()],
        ),
        (
            "openmp",
            "[phases of 25 µs](openmp-phases.c), 2 threads of OpenMP (`OMP_WAIT_POLICY=passive`)",
            "GOMP_barrier",
            vec![openmp.into_os_string(), "40000".into()],
        ),
    ];
    all.into_iter()
        .map(|(name, what, function, arguments)| {
            let mut program = Program {
                name,
                what,
                function,
                library: library(&arguments[0], function)?,
                arrivals: 0,
                arguments,
            };
            program.arrivals = count(&program, &counter)?;
            Ok(program)
        })
        .collect()
}

/// The library with the barrier among those that a program is linked with.
fn library(program: &OsStr, function: &str) -> Result<PathBuf> {
    let soname = if function == "GOMP_barrier" {
        "libgomp.so.1"
    } else {
        "libc.so.6"
    };
    let text = process::read(process::command("ldd").arg(program))?;
    read::library(&text, soname)
        .with_context(|| format!("{} is not linked with {soname}", program.to_string_lossy()))
}

/// Counts the arrivals in one run with a preloaded library.
fn count(program: &Program, counter: &Path) -> Result<u64> {
    let output = program
        .command()
        .env("LD_PRELOAD", counter)
        .output()
        .with_context(|| format!("cannot run {}", program.name))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let arrivals = said
        .lines()
        .find_map(|line| line.strip_prefix("arrivals ")?.parse().ok())
        .unwrap_or(0);
    ensure!(
        output.status.success() && arrivals > 0,
        "{} came to no barrier: {said}",
        program.name
    );
    Ok(arrivals)
}
