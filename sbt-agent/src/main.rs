//! The program `sbt`: parse, act, exit with the right status.

use std::{
    ffi::OsString,
    io::{IsTerminal as _, Write as _},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use clap::Parser as _;
use sbt::{
    cli::{Cli, Command, Options},
    counters, demo, doctor, hang, look, output,
    place::printable,
    record::{self, Bound, Keep, Sink},
    replay,
    screen::Look,
    session::{self, Narration, Target},
    settings::{self, Detail, Environment, Settings},
    target::{
        launch::{self, ExecError, Invoker},
        libraries, offers, process,
    },
    views::text,
    words::without_codes,
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
            let text = without_codes(&format!("{error:#}"));
            let text: Vec<String> = text.lines().map(printable).collect();
            say(&format!("sbt: {}\n", text.join("\n")));
            ExitCode::from(status(&error, if is_run { OWN_FAILURE } else { 1 }))
        }
    }
}

/// What a shell would say of a program that cannot be executed; else `own`.
fn status(error: &anyhow::Error, own: u8) -> u8 {
    error.downcast_ref().map_or(own, ExecError::exit_status)
}

/// Writes to standard error, which may be closed.
fn say(text: &str) {
    let _gone = std::io::stderr().write_all(text.as_bytes());
}

fn act(command: Command) -> anyhow::Result<u8> {
    match command {
        Command::Run {
            options,
            as_root,
            program,
        } => run(program, None, as_root, &options, None),
        Command::Attach { options, pid } => {
            let Some(settings) = settings(&options, None)? else {
                anyhow::bail!("SBT_NO_DEBUG=1 forbids watching; unset it to attach to a process");
            };
            let program = process::folder(pid).join("exe");
            let wish = wish(&options, true, Some(&program))?;
            let record = recording(&options, &settings, Some(&program))?;
            let target = Target::Attach { pid };
            let narration = narration(&options, &settings);
            let look = look(&options)?;
            session::watch(&target, settings, narration, record, look, |report| {
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
        Command::Hang { pid, children, to } => {
            if let Some(path) = &to.output {
                output::check_file(path, Some(&process::folder(pid).join("exe")))?;
            }
            let pid = process::find(pid)?.pid;
            let all = if children {
                look::family(pid)
            } else {
                vec![pid]
            };
            let scene = look::at(&all, &look::Looks::default())?;
            let report = hang::report(&scene, pid);
            output::deliver_asked(&report, &to, text::look)?;
            Ok(0)
        }
        Command::Report {
            file,
            compensated,
            to,
        } => {
            let report = record::report(&file)?;
            output::deliver_asked(&report, &to, |report, style| {
                text::with(report, style, compensated)
            })?;
            Ok(0)
        }
        Command::Replay { file, speed, color } => {
            let terminal = std::io::stdout().is_terminal() && output::has_terminal();
            let look = terminal.then(|| output::style(color, true).into());
            replay::show(&file, speed, look)?;
            Ok(0)
        }
        Command::List { of: None } => {
            output::print(&counters::list::text(&counters::list::machine()))?;
            Ok(0)
        }
        Command::List { of: Some(of) } => {
            output::print(&offers::text(&of, &offers::files(&of)?))?;
            Ok(0)
        }
        Command::Doctor => Ok(u8::from(!doctor::examine())),
        Command::DemoProgram {
            name,
            threads,
            scale,
            patient,
        } => {
            demo::run(&name, usize::try_from(threads)?, scale, patient)?;
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
    let hangs = name == demo::DEADLOCK;
    let mut program = vec![
        binary.into_os_string(),
        "__demo".into(),
        name.into(),
        threads.to_string().into(),
        scale.to_string().into(),
    ];
    if hangs && look(options)?.is_some() {
        // Somebody wants to read what the screen has to say.
        program.push("--patient".into());
    }
    let shown = vec!["sbt".into(), "demo".into(), name.to_owned()];
    let hang_time = hangs.then_some(demo::HANG_TIME);
    run(program, Some(shown), as_root, options, hang_time)
}

fn run(
    command: Vec<OsString>,
    shown: Option<Vec<String>>,
    as_root: bool,
    options: &Options,
    hang_time: Option<Duration>,
) -> anyhow::Result<u8> {
    let invoker = if as_root { None } else { Invoker::from_sudo() };
    let path = command
        .first()
        .and_then(|name| libraries::find_program(name, std::env::var_os("PATH").as_deref()));
    let Some(mut settings) = settings(options, hang_time)? else {
        return Err(launch::become_program(
            &command,
            path.as_deref(),
            invoker.as_ref(),
        ));
    };
    if shown.is_some() {
        // A demo has none.
        settings.children.get_or_insert(false);
    }
    let wish = wish(options, false, path.as_deref())?;
    let record = recording(options, &settings, path.as_deref())?;
    let target = Target::Run {
        command,
        invoker,
        shown,
    };
    let narration = narration(options, &settings);
    let look = look(options)?;
    let status = session::watch(&target, settings, narration, record, look, |report| {
        output::deliver(report, &wish)
    })?;
    Ok(status.unwrap_or(0))
}

/// The effective settings, shown if the user wants to see them; `None` if
/// nothing is to be watched at all. `hang_time`: what suits a demo, if nobody has said
/// otherwise.
fn settings(options: &Options, hang_time: Option<Duration>) -> anyhow::Result<Option<Settings>> {
    let environment = Environment::read(std::env::vars_os()).map_err(anyhow::Error::msg)?;
    if environment.no_debug {
        return Ok(None);
    }
    let detail = Detail::of(options.verbose, environment.options, environment.verbose);
    let folder = std::env::current_dir().ok();
    let mut effective =
        settings::effective(folder.as_deref(), environment, options).map_err(anyhow::Error::msg)?;
    if let Some(time) = hang_time {
        effective.suggest_hang_time(time);
    }
    for note in &effective.notes {
        say(&format!("sbt: {}\n", printable(note)));
    }
    say(&settings::table(&effective, detail));
    Ok(Some(effective.settings))
}

/// How single episodes and warnings are told while the program runs. Who wants
/// the report in a file wants nothing else on standard error than was asked for.
fn narration(options: &Options, settings: &Settings) -> Narration {
    let asked = settings.watch_all || settings.phase_times || !settings.watch.is_empty();
    let terminal = std::io::stderr().is_terminal();
    let tells = !options.quiet && (asked || options.output.is_none());
    Narration {
        style: tells.then(|| output::style(options.color, terminal)),
        keep: options.json || options.record.is_some(),
    }
}

/// How the live screen looks, if there is to be one: on a terminal that is ours,
/// unless something else is wanted.
fn look(options: &Options) -> anyhow::Result<Option<Look>> {
    if options.no_tui {
        return Ok(None);
    }
    let terminal = output::has_terminal();
    if options.tui {
        anyhow::ensure!(
            terminal,
            "there is no terminal for the live screen; leave --tui out"
        );
    }
    let stdout = std::io::stdout().is_terminal();
    let wanted = options.tui || terminal && stdout && !options.quiet && !options.json;
    Ok(wanted.then(|| output::style(options.color, true).into()))
}

/// The file of the recording, if there is to be one.
fn recording(
    options: &Options,
    settings: &Settings,
    program: Option<&Path>,
) -> anyhow::Result<Option<Sink>> {
    let Some(path) = &options.record else {
        return Ok(None);
    };
    let output = options.output.as_deref();
    let others = [program, output, settings.folded.as_deref()];
    let others: Vec<&Path> = others.into_iter().flatten().collect();
    let file = output::for_recording(path, &others)?;
    let keep = match options.keep {
        Some(time) => Some(Keep::Events(time)),
        None => options.stats_only.then_some(Keep::Statistics),
    };
    let bound = keep.map(|keep| Bound::new(path, keep)).transpose()?;
    Ok(Some(Sink { file, bound }))
}

/// Where the report goes; `program`: where it must not, the target's own file.
fn wish(
    options: &Options,
    stdout_is_ours: bool,
    program: Option<&Path>,
) -> anyhow::Result<output::Wish> {
    if options.json && options.output.is_none() && !stdout_is_ours {
        anyhow::bail!(
            "--json needs --output FILE here, since standard output belongs to the program"
        );
    }
    if let Some(path) = &options.output {
        output::check_file(path, program)?;
    }
    Ok(output::Wish {
        json: options.json,
        file: options.output.clone(),
        color: options.color,
        quiet: options.quiet,
        compensated: options.compensated,
    })
}
