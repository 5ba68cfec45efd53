//! The chores of this repository that plain cargo cannot do: `cargo xtask --help`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod accuracy;
mod again;
#[cfg(test)]
mod arrows;
mod bench;
mod debian;
mod ebpf;
mod fuzz;
mod idle;
mod linker;
mod machine;
mod mpi;
mod object;
mod package;
mod pictures;
mod process;
mod python;
mod record;
mod retries;
mod soak;
mod test;
mod toolchain;
mod tty;
mod verifier;
mod vm;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The chores of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the BPF object from source, or check the committed one
    Ebpf(ebpf::Args),
    /// Run all tests: the pure ones, and the real binary against the real kernel
    Test(test::Args),
    /// Run chosen tests many times, quiet and beside busy loops
    Soak(soak::Args),
    /// Feed what reads foreign bytes with bytes that nobody meant
    Fuzz(fuzz::Args),
    /// Measure what sbt costs and write bench/RESULTS.md
    Bench(bench::Args),
    /// Compare sbt's figures with those of programs that know them, and write docs/accuracy.md
    Accuracy(accuracy::Args),
    /// Boot another kernel in a virtual machine and run sbt there
    Vm(vm::Args),
    /// Run sbt in a terminal of our own and draw its live screen into docs/screen
    Pictures(pictures::Args),
    /// Make manual pages, completions and a package for Debian in target/package, and try them
    Package(package::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Ebpf(args) => ebpf::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Accuracy(args) => accuracy::run(&args),
        Command::Vm(args) => vm::run(&args),
        Command::Pictures(args) => pictures::run(&args),
        Command::Package(args) => package::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
