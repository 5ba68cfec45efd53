//! The program `sbt`: parses the command line, runs the command, and exits with its status.

use std::{io::Write as _, process::ExitCode};

use clap::Parser as _;
use sbt::{
    cli::{Cli, Command},
    commands, output,
    source::{inject, ptrace},
    usage::Usage,
};
use sbt_engine::{place::printable, words::without_codes};
use sbt_program::launch::ExecError;

/// The exit status if sbt itself fails, as for `env`, `nice` and `timeout`.
const OWN_FAILURE: u8 = 125;

fn main() -> ExitCode {
    // sbt starts itself with these arguments; they are not commands.
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == ptrace::ARGUMENT => {
            return ExitCode::from(u8::from(ptrace::trace(words).is_err()));
        }
        Some(word) if word == inject::ARGUMENT => {
            return ExitCode::from(u8::from(inject::keep(words).is_err()));
        }
        _ => {}
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => error.exit(),
        Err(help) => return told(print(&help), 1),
    };
    let is_run = matches!(
        cli.command,
        Command::Run { .. }
            | Command::Attach { .. }
            | Command::Demo { .. }
            | Command::Check { .. }
            | Command::Scale(_)
    );
    let own = if is_run { OWN_FAILURE } else { 1 };
    told(commands::act(cli.command), own)
}

/// Prints the error if there is one, and returns the exit status. `own`: the status of a failure of
/// sbt itself.
fn told(result: anyhow::Result<u8>, own: u8) -> ExitCode {
    match result {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            // Control characters in the target's names must not reach the terminal.
            let text = without_codes(&format!("{error:#}"));
            let text: Vec<String> = text.lines().map(printable).collect();
            commands::say(&format!("sbt: {}\n", text.join("\n")));
            ExitCode::from(status(&error, own))
        }
    }
}

/// Prints clap's answer to `--help` or `--version`, and reports a failed write, which clap ignores.
fn print(help: &clap::Error) -> anyhow::Result<u8> {
    let printed = help.print().and_then(|()| std::io::stdout().flush());
    output::printed(printed).map(|()| 0)
}

/// The exit status that a shell uses for a program that cannot be executed; else `own`.
fn status(error: &anyhow::Error, own: u8) -> u8 {
    if error.is::<Usage>() {
        return Usage::EXIT;
    }
    error.downcast_ref().map_or(own, ExecError::exit_status)
}
