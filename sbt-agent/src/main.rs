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
    check::{Check, To},
    ci,
    cli::{self, Cli, Command, Exports, Options, Scale},
    compare, counters, demo, doctor,
    gate::{Asked, rule},
    hang, look, manual,
    output::{
        self, Fresh,
        guard::{self, Named, PROGRAM, READ},
    },
    place::printable,
    record::{self, Keep, Sink},
    replay,
    scale::{
        counts,
        series::{Series, which},
    },
    screen::Look,
    session::{self, Narration, Target, signals},
    settings::{self, Detail, Effective, Environment, Settings},
    source::ptrace,
    target::{
        launch::{self, ExecError, Invoker},
        libraries, offers, process,
    },
    usage::Usage,
    views::{scale_html, text},
    words::without_codes,
};

/// sbt itself has failed, as with `env`, `nice` and `timeout`.
const OWN_FAILURE: u8 = 125;

fn main() -> ExitCode {
    // Of sbt's own, and no command.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == ptrace::ARGUMENT) {
        let sbt = words.next().and_then(|it| it.to_str()?.parse().ok());
        let traced = sbt.map(ptrace::trace);
        return ExitCode::from(u8::from(traced.is_none_or(|result| result.is_err())));
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

/// A setting cannot be read, wherever it stands.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct SettingsError(String);

/// What a shell would say of a program that cannot be executed; else `own`.
fn status(error: &anyhow::Error, own: u8) -> u8 {
    if error.is::<Usage>() {
        return Usage::EXIT;
    }
    error.downcast_ref().map_or(own, ExecError::exit_status)
}

/// Writes to standard error, which may be closed.
fn say(text: &str) {
    let text = ci::tame(text);
    let _gone = std::io::stderr().write_all(text.as_bytes());
}

fn write_manual(folder: &Path) -> anyhow::Result<u8> {
    let shown = printable(&folder.to_string_lossy());
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {shown}"))?;
    for page in manual::pages()? {
        output::write_page(&folder.join(&page.name), &page.text)?;
    }
    Ok(0)
}

fn act(command: Command) -> anyhow::Result<u8> {
    if let Command::Hang { .. }
    | Command::Report { .. }
    | Command::Diff { .. }
    | Command::Replay { .. } = &command
    {
        // They start nothing. What they read may be anybody's.
        session::privilege::limit()?;
    }
    match command {
        Command::Run {
            options,
            as_root,
            program,
        } => run(program, None, as_root, &options, None),
        Command::Attach { options, pid } => attach(&options, pid),
        Command::Demo {
            options,
            as_root,
            threads,
            scale,
            name,
        } => run_demo(&name, threads, scale, as_root, &options),
        Command::Hang { pid, children, to } => look_at(pid, children, &to),
        Command::Report {
            file,
            compensated,
            exports,
            to,
        } => report(&file, compensated, &exports, &to),
        Command::Diff {
            before,
            after,
            tolerance,
            to,
        } => {
            let read = [before.as_path(), after.as_path()].map(|path| (READ, Some(path)));
            guard::check(&read, &[("--output", to.output.as_deref())])?;
            let (before, after) = (record::report(&before)?, record::report(&after)?);
            let all = compare::compare(&before, &after);
            output::deliver_asked(&all, &to, |all, style| text::diff(all, tolerance, style))?;
            let is_slower = tolerance.is_some_and(|pct| !all.slower_by(pct).is_empty());
            Ok(u8::from(is_slower))
        }
        Command::Check {
            rules,
            junit,
            options,
            as_root,
            file,
            program,
        } => {
            let to = To {
                json: options.json,
                output: options.output.clone(),
                junit,
                color: options.color,
                quiet: options.quiet,
                stdout_is_ours: file.is_some(),
            };
            match file {
                Some(file) => check_file((*rules).into(), to, &options, &file),
                None => check_program((*rules).into(), to, &options, as_root, program),
            }
        }
        Command::Scale(scale) => match (scale.one, &scale.into) {
            (Some(threads), Some(into)) => scale_once(&scale, threads, into),
            _ => run_scale(&scale),
        },
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
        Command::Doctor { programs: true } => Ok(u8::from(!doctor::programs::examine()?)),
        Command::Doctor { programs: false } => Ok(u8::from(!doctor::examine())),
        Command::Completions { shell } => {
            output::print(&manual::completions(shell)?)?;
            Ok(0)
        }
        Command::Man { folder } => write_manual(&folder),
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

/// Joins a process.
fn attach(options: &Options, pid: u32) -> anyhow::Result<u8> {
    let Some(effective) = settings(options, None)? else {
        anyhow::bail!("SBT_NO_DEBUG=1 forbids watching; unset it to attach to a process");
    };
    let program = process::folder(pid).join("exe");
    guard_watching(options, &effective, &[(PROGRAM, Some(&program))], &[])?;
    let _fresh = fresh(options);
    let settings = effective.settings;
    let wish = wish(options, true)?;
    let record = recording(options)?;
    let target = Target::Attach { pid };
    let narration = narration(options, &settings);
    let look = look(options)?;
    session::watch(&target, settings, narration, record, look, |report| {
        output::deliver(report, &wish)
    })?;
    Ok(0)
}

/// Looks at a process that does not go on.
fn look_at(pid: u32, children: bool, to: &cli::Asked) -> anyhow::Result<u8> {
    if let Some(path) = &to.output {
        let program = process::folder(pid).join("exe");
        guard::check(&[(PROGRAM, Some(&program))], &[("--output", Some(path))])?;
        output::check_file(path)?;
    }
    let pid = process::find(pid)?.pid;
    let all = if children {
        look::family(pid)
    } else {
        vec![pid]
    };
    let scene = look::at(&all, &look::Looks::default())?;
    let report = hang::report(&scene, pid);
    output::deliver_asked(&report, to, text::look)?;
    Ok(0)
}

/// Tells what a recording or a report has.
fn report(
    file: &Path,
    compensated: bool,
    exports: &Exports,
    to: &cli::Asked,
) -> anyhow::Result<u8> {
    let mut written = vec![("--output", to.output.as_deref())];
    written.extend(output::exports::written(exports));
    guard::check(&[(READ, Some(file))], &written)?;
    let report = if exports.any() {
        let report = output::exports::write(file, exports)?;
        if !to.json && to.output.is_none() {
            return Ok(0);
        }
        report
    } else {
        record::report(file)?
    };
    output::deliver_asked(&report, to, |report, style| {
        text::with(report, style, compensated)
    })?;
    Ok(0)
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
    demo::check(name).map_err(|error| Usage(format!("{error:#}")))?;
    if !(scale > 0.0 && scale.is_finite()) {
        return Err(Usage(format!(
            "--scale {scale}: expected a number above 0, such as 0.5"
        ))
        .into());
    }
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
    let Some(effective) = settings(options, hang_time)? else {
        return Err(launch::become_program(
            &command,
            path.as_deref(),
            invoker.as_ref(),
        ));
    };
    guard_watching(options, &effective, &[(PROGRAM, path.as_deref())], &[])?;
    let mut settings = effective.settings;
    if shown.is_some() {
        // A demo has none.
        settings.children.get_or_insert(false);
    }
    let _fresh = fresh(options);
    let wish = wish(options, false)?;
    let record = recording(options)?;
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

/// Judges a recording or a report.
fn check_file(typed: Asked, to: To, options: &Options, file: &Path) -> anyhow::Result<u8> {
    if settings::say_how_to_watch(options) || options.record.is_some() || options.tui {
        let text = "a recording is judged as it is: options that say how to watch belong to the \
                    run that makes it; a program to be run goes after `--`";
        return Err(Usage(text.into()).into());
    }
    let folder = std::env::current_dir().ok();
    let none = Environment::default();
    let effective = settings::effective(folder.as_deref(), none, options);
    let effective = effective.map_err(Usage)?;
    let asked = effective.settings.check.clone().with(typed);
    let read = [
        (READ, Some(file)),
        (BASELINE, asked.baseline.as_deref()),
        (SETTINGS, effective.file.as_deref().map(Path::new)),
    ];
    let written = [
        ("--output", to.output.as_deref()),
        ("--junit", to.junit.as_deref()),
    ];
    guard::check(&read, &written)?;
    let check = Check::new(asked, to)?;
    let report = record::report(file)
        .map_err(|error| anyhow::anyhow!("{error:#} (a program to be run goes after `--`)"))?;
    check.tell(&report)
}

/// Judges a run.
fn check_program(
    typed: Asked,
    to: To,
    options: &Options,
    as_root: bool,
    program: Vec<OsString>,
) -> anyhow::Result<u8> {
    if options.tui {
        return Err(Usage("there is no live screen in a check; leave --tui out".into()).into());
    }
    let invoker = if as_root { None } else { Invoker::from_sudo() };
    let path = program
        .first()
        .and_then(|name| libraries::find_program(name, std::env::var_os("PATH").as_deref()));
    // What is wrong with them is wrong with what was asked for, as if it had been typed.
    let effective = settings(options, None).map_err(|error| match error.downcast() {
        Ok(SettingsError(text)) => Usage(text).into(),
        Err(other) => other,
    })?;
    let Some(effective) = effective else {
        anyhow::bail!("SBT_NO_DEBUG=1 forbids watching; unset it to check a program");
    };
    let asked = effective.settings.check.clone().with(typed);
    let read = [
        (PROGRAM, path.as_deref()),
        (BASELINE, asked.baseline.as_deref()),
    ];
    let written = [("--junit", to.junit.as_deref())];
    guard_watching(options, &effective, &read, &written)?;
    let mut settings = effective.settings;
    if let Some(limit) = asked.no_hang {
        if settings.duration.is_some() {
            let text = "--no-hang needs the program to be watched to its end, and --duration (or \
                        `duration` in sbt.toml) stops before: leave one of them out";
            return Err(Usage(text.into()).into());
        }
        // It has to be told before it is ended.
        let look = rule::look_after(limit);
        settings.hang_time = Some(settings.hang_time.map_or(look, |time| time.min(look)));
        settings.end_hangs = Some(limit);
    }
    let _fresh = fresh(options);
    let record = recording(options)?;
    let check = Check::new(asked, to)?;
    let target = Target::Run {
        command: program,
        invoker,
        shown: None,
    };
    let narration = narration(options, &settings);
    let mut found = None;
    let status = session::watch(&target, settings, narration, record, None, |report| {
        found = Some(report.clone());
        Ok(())
    })?;
    let mut report = found.context("nothing was reported of the run")?;
    // It may have ended only when it was no longer watched.
    report.exit_status = status;
    check.tell(&report)
}

/// Runs a program at several numbers of threads, and tells how it scales.
fn run_scale(scale: &Scale) -> anyhow::Result<u8> {
    let options = &scale.options;
    for (is_there, option, instead) in [
        (
            options.record.is_some(),
            "-o",
            "record one with `sbt run -o FILE`",
        ),
        (
            options.folded.is_some(),
            "--folded",
            "take `sbt run --folded FILE`",
        ),
        (
            options.duration.is_some(),
            "--duration",
            "each goes to its end",
        ),
        (options.tui, "--tui", "take `sbt run --tui`"),
    ] {
        if is_there {
            return Err(Usage(format!("{option} is not for several runs; {instead}")).into());
        }
    }
    if options.json && options.output.is_none() {
        return Err(Usage(JSON_NEEDS_FILE.into()).into());
    }
    let program = scale.program.first();
    let program =
        program.and_then(|name| libraries::find_program(name, std::env::var_os("PATH").as_deref()));
    // What is wrong with them shows before anything runs.
    let Some(mut effective) = settings(options, None)? else {
        anyhow::bail!("SBT_NO_DEBUG=1 forbids watching; unset it to see how a program scales");
    };
    let notes = effective.for_several_runs();
    let read = [(PROGRAM, program.as_deref())];
    let written = [("--html", scale.html.as_deref())];
    guard_watching(options, &effective, &read, &written)?;
    let series = Series {
        counts: scale.counts.clone(),
        repeat: scale.repeat,
        program: scale.program.clone(),
        variables: scale.variables.clone(),
        quiet: options.quiet,
        notes,
        hang_time: effective.settings.hang_time,
    };
    series.check()?;
    let wish = wish(options, false)?;
    if let Some(path) = &scale.html {
        output::check_file(path)?;
    }
    let outcome = series.run()?;
    if let Some(found) = &outcome.scaling {
        output::deliver_beside(found, &wish, text::scale)?;
        if let Some(path) = &scale.html {
            output::write_page(path, &scale_html::page(found))?;
        }
    }
    if let Some(failure) = outcome.failure {
        say(&format!("sbt: {}\n", printable(&failure)));
    }
    Ok(outcome.status)
}

/// One of those runs, in a process of its own.
fn scale_once(scale: &Scale, threads: u32, into: &Path) -> anyhow::Result<u8> {
    signals::unblock().context("cannot let signals through")?;
    let invoker = if scale.as_root {
        None
    } else {
        Invoker::from_sudo()
    };
    let command = scale
        .program
        .iter()
        .map(|it| counts::put(it, threads))
        .collect();
    let target = Target::Run {
        command,
        invoker,
        shown: None,
    };
    let environment = Environment::read(std::env::vars_os()).map_err(anyhow::Error::msg)?;
    let (mut effective, _) = effective(&scale.options, environment)?;
    // Whoever runs the series has told of them.
    let _told = effective.for_several_runs();
    // Single episodes of so many runs are for nobody to read; that one does not end is.
    let run = which(threads, scale.run, scale.repeat);
    let narration = Narration {
        style: None,
        keep: false,
        run: (!scale.options.quiet).then_some(run),
    };
    let wish = output::Wish {
        json: true,
        file: Some(into.into()),
        color: output::Color::Never,
        quiet: true,
        compensated: false,
    };
    let settings = effective.settings;
    let status = session::watch(&target, settings, narration, None, None, |report| {
        output::deliver(report, &wish)
    })?;
    Ok(status.unwrap_or(0))
}

/// What messages call files that are read, beside [`READ`] and [`PROGRAM`].
const BASELINE: &str = "the baseline";
const SETTINGS: &str = "the file of settings";

/// Makes sure that watching replaces no file that is read, and writes nothing twice to one
/// place. `read` and `written`: what there is beside the settings, the report, the recording
/// and the stacks.
fn guard_watching(
    options: &Options,
    effective: &Effective,
    read: &[Named<'_>],
    written: &[Named<'_>],
) -> anyhow::Result<()> {
    let file = effective.file.as_deref().map(Path::new);
    let read = [read, &[(SETTINGS, file)]].concat();
    let own = [
        ("--output", options.output.as_deref()),
        ("-o", options.record.as_deref()),
        ("--folded", effective.settings.folded.as_deref()),
    ];
    guard::check(&read, &[&own, written].concat())
}

/// The effective settings, shown if the user wants to see them; `None` if
/// nothing is to be watched at all. `hang_time`: what suits a demo, if nobody has said
/// otherwise.
fn settings(options: &Options, hang_time: Option<Duration>) -> anyhow::Result<Option<Effective>> {
    let environment = Environment::read(std::env::vars_os()).map_err(SettingsError)?;
    if environment.no_debug {
        return Ok(None);
    }
    let (mut effective, detail) = effective(options, environment)?;
    if let Some(time) = hang_time {
        effective.suggest_hang_time(time);
    }
    for note in &effective.notes {
        say(&format!("sbt: {}\n", printable(note)));
    }
    say(&settings::table(&effective, detail));
    Ok(Some(effective))
}

/// The effective settings, and how much of them is to be shown.
fn effective(options: &Options, environment: Environment) -> anyhow::Result<(Effective, Detail)> {
    let detail = Detail::of(options.verbose, environment.options, environment.verbose);
    let folder = std::env::current_dir().ok();
    let effective =
        settings::effective(folder.as_deref(), environment, options).map_err(SettingsError)?;
    Ok((effective, detail))
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
        run: None,
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

/// The files that are written to, as far as they are not there yet.
fn fresh(options: &Options) -> Fresh {
    let all = [&options.record, &options.output, &options.folded];
    Fresh::of(all.into_iter().flatten().map(AsRef::as_ref))
}

/// The file of the recording, if there is to be one.
fn recording(options: &Options) -> anyhow::Result<Option<Sink>> {
    let Some(path) = &options.record else {
        return Ok(None);
    };
    let file = output::for_recording(path)?;
    let keep = match options.keep {
        Some(time) => Some(Keep::Events(time)),
        None => options.stats_only.then_some(Keep::Statistics),
    };
    Ok(Some(Sink::to(file, path, keep)?))
}

/// Where standard output is the program's.
const JSON_NEEDS_FILE: &str =
    "--json needs --output FILE here, since standard output belongs to the program";

/// Where the report goes.
fn wish(options: &Options, stdout_is_ours: bool) -> anyhow::Result<output::Wish> {
    if options.json && options.output.is_none() && !stdout_is_ours {
        return Err(Usage(JSON_NEEDS_FILE.into()).into());
    }
    if let Some(path) = &options.output {
        output::check_file(path)?;
    }
    Ok(output::Wish {
        json: options.json,
        file: options.output.clone(),
        color: options.color,
        quiet: options.quiet,
        compensated: options.compensated,
    })
}
