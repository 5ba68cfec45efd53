//! Carries out each command, from the options typed to the text printed.

mod check;
mod chosen;
mod scale;
mod series;
mod watch;

use crate::{
    check::To,
    ci,
    cli::{Command, Ctl},
    control::{self, Order},
    demo, doctor, inspect,
    kernel::{counting, privilege},
    manual,
    output::{
        self, Destination, Exports,
        guard::{self, PROGRAM, READ},
    },
    record, replay,
    show::text,
};
use sbt_engine::{compare, hang, place::printable, report::Report};
use sbt_program::{
    access::{self, typed},
    offers, process,
};
use std::{
    io::IsTerminal as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

pub use self::chosen::say;

fn write_manual(folder: &Path) -> anyhow::Result<u8> {
    let shown = printable(&folder.to_string_lossy());
    typed::make_folders(folder).with_context(|| format!("cannot make {shown}"))?;
    for page in manual::pages()? {
        output::write_page(&folder.join(&page.name), &page.text)?;
    }
    Ok(0)
}

/// Carries out a command, and returns the exit status of sbt.
///
/// # Errors
/// What failed, in a line that names the remedy; a [`crate::usage::Usage`] for a wrong
/// command line.
pub fn act(command: Command) -> anyhow::Result<u8> {
    check_proc(&command)?;
    // Commands that start no program: what they read may have been written by anybody.
    match &command {
        Command::Hang { pid, .. } => {
            access::target::is_process(*pid);
            privilege::limit(Some(*pid))?;
        }
        Command::Report { .. }
        | Command::Diff { .. }
        | Command::Check { file: Some(_), .. }
        | Command::Replay { .. } => privilege::limit(None)?,
        _ => {}
    }
    match command {
        Command::Run {
            options,
            as_root,
            program,
        } => watch::run(program, None, as_root, &options, None),
        Command::Attach { options, pid } => watch::attach(&options, pid),
        Command::Demo {
            options,
            as_root,
            threads,
            seconds,
            scale,
            name,
        } => watch::demo(&name, threads, (scale, seconds), as_root, &options),
        Command::Hang { pid, children, to } => look_at(pid, children, &to),
        Command::Report {
            files,
            compensated,
            allow_incomplete,
            exports,
            to,
        } => report(&files, compensated, allow_incomplete, &exports, &to),
        Command::Diff {
            before,
            after,
            tolerance,
            allow_incomplete,
            to,
        } => diff([&before, &after], tolerance, allow_incomplete, &to),
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
                Some(file) => check::file((*rules).into(), to, &options, &file),
                None => check::program((*rules).into(), to, &options, as_root, program),
            }
        }
        Command::Scale(scale) => match (scale.one, scale.into) {
            (Some(job), Some(into)) => scale::once(&scale, job, into),
            _ => scale::run(&scale),
        },
        Command::Replay { file, speed, color } => {
            let terminal = std::io::stdout().is_terminal() && output::has_terminal();
            let look = terminal.then(|| output::style(color, true).into());
            replay::show(&file, speed, look)?;
            Ok(0)
        }
        Command::Ctl { pid, order } => ctl(pid, order),
        Command::List { of: None } => {
            output::print(&counting::list::text(&counting::list::machine()))?;
            Ok(0)
        }
        Command::List { of: Some(of) } => {
            output::print(&ci::tame(&offers::text(&of, &offers::files(&of)?)))?;
            Ok(0)
        }
        Command::Doctor { programs: true } => Ok(u8::from(!doctor::programs::examine()?)),
        Command::Doctor { programs: false } => Ok(u8::from(!doctor::examine()?)),
        Command::Completions { shell } => {
            output::print(&manual::completions(shell)?)?;
            Ok(0)
        }
        Command::Man { folder } => write_manual(&folder),
        Command::DemoProgram {
            name,
            threads,
            scale,
            seconds,
            patient,
        } => {
            let size = demo::Size::chosen(Some(scale), seconds);
            demo::run(&name, usize::try_from(threads)?, size, patient).map(|()| 0)
        }
    }
}

/// Asks a running sbt.
fn ctl(pid: u32, order: Ctl) -> anyhow::Result<u8> {
    let order = match order {
        Ctl::Start => Order::Start,
        Ctl::Stop => Order::Stop,
        Ctl::Reset => Order::Reset,
        Ctl::Mark { name } => Order::Mark(name),
        Ctl::Snapshot { json } => Order::Snapshot { json },
    };
    let answer = control::ask(pid, &order)?;
    output::print(&format!("{answer}\n"))?;
    Ok(0)
}

/// Checks that /proc is there for a command that watches or inspects processes.
fn check_proc(command: &Command) -> anyhow::Result<()> {
    let looks_at_processes = matches!(
        command,
        Command::Run { .. }
            | Command::Attach { .. }
            | Command::Demo { .. }
            | Command::Hang { .. }
            | Command::Check { file: None, .. }
            | Command::Scale(_)
    );
    if looks_at_processes && !process::has_proc() {
        anyhow::bail!("/proc {}", process::NO_PROC);
    }
    Ok(())
}

/// Looks at a process that hangs.
fn look_at(pid: u32, children: bool, to: &Destination) -> anyhow::Result<u8> {
    if let Some(path) = &to.output {
        let program = process::folder(pid).join("exe");
        guard::check(&[(PROGRAM, Some(&program))], &[("--output", Some(path))])?;
        output::check_file(path)?;
    }
    let pid = process::find(pid)?.pid;
    let all = if children {
        inspect::family(pid)
    } else {
        inspect::concerned(pid)
    };
    let scene = inspect::at(&all, &inspect::Looks::default())?;
    let report = hang::report(&scene, pid);
    output::deliver_asked(&report, to, text::look)?;
    Ok(0)
}

/// Reads the report of a run to compare: an incomplete run is refused unless the user allows it.
fn compared(path: &Path, allow_incomplete: bool) -> anyhow::Result<Report> {
    let report = record::report(path)?;
    if let Some(missing) = report.incomplete.first().filter(|_| !allow_incomplete) {
        anyhow::bail!(
            "{} is not complete: {}; --allow-incomplete compares the part that is there",
            printable(&path.to_string_lossy()),
            missing.text
        );
    }
    Ok(report)
}

/// Compares two runs.
fn diff(
    [before, after]: [&Path; 2],
    tolerance: Option<f64>,
    allow_incomplete: bool,
    to: &Destination,
) -> anyhow::Result<u8> {
    let recordings = [before, after].map(record::job::named).concat();
    let read = recordings.iter().map(|file| (READ, Some(file.as_path())));
    let read: Vec<_> = read.collect();
    guard::check(&read, &[("--output", to.output.as_deref())])?;
    let compared = |path| compared(path, allow_incomplete);
    let all = compare::compare(&compared(before)?, &compared(after)?);
    output::deliver_asked(&all, to, |all, style| text::diff(all, tolerance, style))?;
    let is_slower = tolerance.is_some_and(|pct| !all.slower_by(pct).is_empty());
    Ok(u8::from(is_slower))
}

/// Prints or exports a recording or a report.
fn report(
    files: &[PathBuf],
    compensated: bool,
    allow_incomplete: bool,
    exports: &Exports,
    to: &Destination,
) -> anyhow::Result<u8> {
    let exported = output::exports::written(exports);
    let written = [&[("--output", to.output.as_deref())], &exported[..]].concat();
    let recordings = record::job::recordings(files)?;
    let read: Vec<_> = recordings
        .iter()
        .map(|file| (READ, Some(file.as_path())))
        .collect();
    guard::check(&read, &written)?;
    let is_exported = exported.iter().any(|(_, path)| path.is_some());
    let one = match &recordings[..] {
        [file] => Some(file),
        _ => None,
    };
    let report = if let Some(file) = one.filter(|_| is_exported) {
        output::exports::write_if(file, exports, allow_incomplete)?
    } else if let Some(file) = one {
        record::report(file)?
    } else {
        let report = record::job::report(&recordings)?;
        if is_exported {
            output::exports::write_report(&report, "a job", exports, allow_incomplete)?;
        }
        report
    };
    if is_exported && !to.json && to.output.is_none() {
        return Ok(0);
    }
    output::deliver_asked(&report, to, |report, style| {
        text::with(report, style, compensated)
    })?;
    Ok(0)
}
