//! The program `sbt`: parse, act, exit with the right status.

use std::{ffi::OsString, io::Write as _, process::ExitCode};

use anyhow::Context as _;
use clap::Parser as _;
use sbt::{
    cli::{Cli, Command, Options},
    demo, doctor, output,
    place::printable,
    session::{self, Target},
    target::launch::{ExecError, Invoker},
};

/// sbt itself has failed, as with `env`, `nice` and `timeout`.
const OWN_FAILURE: u8 = 125;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let is_run = matches!(
        cli.command,
        Command::Run { .. } | Command::Attach { .. } | Command::Demo { .. }
    );
    match act(cli.command) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            // What the target is called must not drive the terminal.
            let text: Vec<String> = format!("{error:#}").lines().map(printable).collect();
            let _gone = writeln!(std::io::stderr(), "sbt: {}", text.join("\n"));
            let status = error
                .downcast_ref::<ExecError>()
                .map_or(if is_run { OWN_FAILURE } else { 1 }, ExecError::exit_status);
            ExitCode::from(status)
        }
    }
}

fn act(command: Command) -> anyhow::Result<u8> {
    match command {
        Command::Run {
            options,
            as_root,
            program,
        } => run(program, None, as_root, &options),
        Command::Attach { options, pid } => {
            let wish = wish(&options, true)?;
            let target = Target::Attach { pid };
            session::watch(&target, watch_options(&options), |report| {
                output::deliver(report, &wish)
            })?;
            Ok(0)
        }
        Command::Demo {
            options,
            as_root,
            threads,
            scale,
            name,
        } => run_demo(&name, threads, scale, as_root, &options),
        Command::Doctor => Ok(u8::from(!doctor::examine())),
        Command::DemoProgram {
            name,
            threads,
            scale,
        } => {
            demo::run(&name, usize::try_from(threads)?, scale)?;
            Ok(0)
        }
    }
}

fn run_demo(
    name: &str,
    threads: u32,
    scale: f64,
    as_root: bool,
    options: &Options,
) -> anyhow::Result<u8> {
    if name == "list" {
        for (name, what) in demo::NAMES {
            output::print(&format!("{name:<12} {what}\n"))?;
        }
        return Ok(0);
    }
    demo::check(name)?;
    let binary = std::env::current_exe().context("cannot find sbt's own binary")?;
    let program = [
        binary.into_os_string(),
        "__demo".into(),
        name.into(),
        threads.to_string().into(),
        scale.to_string().into(),
    ];
    let shown = vec!["sbt".into(), "demo".into(), name.to_owned()];
    run(program.into(), Some(shown), as_root, options)
}

fn run(
    command: Vec<OsString>,
    shown: Option<Vec<String>>,
    as_root: bool,
    options: &Options,
) -> anyhow::Result<u8> {
    let wish = wish(options, false)?;
    let target = Target::Run {
        command,
        invoker: if as_root { None } else { Invoker::from_sudo() },
        shown,
    };
    let status = session::watch(&target, watch_options(options), |report| {
        output::deliver(report, &wish)
    })?;
    Ok(status.unwrap_or(0))
}

fn watch_options(options: &Options) -> session::Options {
    session::Options {
        departures: options.departures,
        duration: options.duration,
    }
}

fn wish(options: &Options, stdout_is_ours: bool) -> anyhow::Result<output::Wish> {
    if options.json && options.output.is_none() && !stdout_is_ours {
        anyhow::bail!(
            "--json needs --output FILE here, since standard output belongs to the program"
        );
    }
    if let Some(path) = &options.output {
        output::check_file(path)?;
    }
    Ok(output::Wish {
        json: options.json,
        file: options.output.clone(),
        color: options.color,
        quiet: options.quiet,
    })
}
