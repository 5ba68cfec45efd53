//! The program `sbt`: parse, act, exit with the right status.

use std::process::ExitCode;

use clap::Parser as _;
use sbt::{
    cli::{Cli, Command},
    commands,
    place::printable,
    source::ptrace,
    target::launch::ExecError,
    usage::Usage,
    words::without_codes,
};

/// sbt itself has failed, as with `env`, `nice` and `timeout`.
const OWN_FAILURE: u8 = 125;

fn main() -> ExitCode {
    // Of sbt's own, and no command.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == ptrace::ARGUMENT) {
        return ExitCode::from(u8::from(ptrace::trace(words).is_err()));
    }
    let cli = Cli::parse();
    let is_run = matches!(
        cli.command,
        Command::Run { .. }
            | Command::Attach { .. }
            | Command::Demo { .. }
            | Command::Check { .. }
            | Command::Scale(_)
    );
    match commands::act(cli.command) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            // What the target is called must not drive the terminal.
            let text = without_codes(&format!("{error:#}"));
            let text: Vec<String> = text.lines().map(printable).collect();
            commands::say(&format!("sbt: {}\n", text.join("\n")));
            ExitCode::from(status(&error, if is_run { OWN_FAILURE } else { 1 }))
        }
    }
}

/// What a shell would say of a program that cannot be executed; else `own`.
fn status(error: &anyhow::Error, own: u8) -> u8 {
    if error.is::<Usage>() {
        return Usage::EXIT;
    }
    error.downcast_ref().map_or(own, ExecError::exit_status)
}
