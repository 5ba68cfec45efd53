//! `sbt scale`: runs a program at several numbers of threads, and with several values of its
//! parameters.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs::File,
    io::Write as _,
    os::fd::BorrowedFd,
    path::PathBuf,
};

use anyhow::Context as _;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::chosen::{JSON_NEEDS_FILE, effective, guard_watching, invoker, say, settings, wish};
use crate::{
    cli::Scale,
    commands::series::{Found, Series, which},
    output::{self, Fresh, guard::PROGRAM},
    session::{self, Narration, Target},
    settings::Environment,
    show::{scale_html, sweep_html, text},
    signals,
    usage::Usage,
};
use sbt_engine::{place::printable, scale::vary::Plan};
use sbt_program::libraries;

/// Runs a program at several numbers of threads, and reports how it scales.
pub fn run(scale: &Scale) -> anyhow::Result<u8> {
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
            "use `sbt run --folded FILE`",
        ),
        (
            options.duration.is_some(),
            "--duration",
            "each run goes to its end",
        ),
        (options.tui, "--tui", "use `sbt run --tui`"),
    ] {
        if is_there {
            return Err(Usage(format!(
                "{option} does not work with several runs; {instead}"
            ))
            .into());
        }
    }
    if options.json && options.output.is_none() {
        return Err(Usage(JSON_NEEDS_FILE.into()).into());
    }
    let _invoker = invoker(scale.as_root);
    let plan = plan(scale);
    let mut texts: Vec<&OsStr> = scale.program.iter().map(AsRef::as_ref).collect();
    texts.extend(
        scale
            .variables
            .iter()
            .map(|variable| OsStr::new(&variable.value)),
    );
    plan.check(&texts).map_err(Usage)?;
    let programs = programs(&plan, &scale.program);
    // Report errors in the settings before anything runs.
    let Some(mut effective) = settings(options, None)? else {
        anyhow::bail!("SBT_NO_DEBUG=1 forbids watching; unset it to see how a program scales");
    };
    let notes = effective.for_several_runs().into_iter().collect();
    let read: Vec<_> = programs
        .iter()
        .map(|path| (PROGRAM, Some(path.as_path())))
        .collect();
    let written = [("--html", scale.html.as_deref())];
    guard_watching(options, &effective, &read, &written)?;
    let series = Series {
        plan,
        repeat: scale.repeat,
        program: scale.program.clone(),
        variables: scale.variables.clone(),
        quiet: options.quiet,
        notes,
        hang_time: effective.settings.hang_time,
    };
    series.check()?;
    let files = [&scale.html, &options.output];
    let _fresh = Fresh::of(files.into_iter().flatten().map(AsRef::as_ref));
    let wish = wish(options, false)?;
    if let Some(path) = &scale.html {
        output::check_file(path)?;
    }
    let outcome = series.run()?;
    let html = scale.html.as_deref();
    match &outcome.found {
        Some(Found::Scaling(found)) => {
            output::deliver_beside(found.as_ref(), &wish, text::scale)?;
            html.map_or(Ok(()), |path| {
                output::write_page(path, &scale_html::page(found))
            })?;
        }
        Some(Found::Sweep(found)) => {
            output::deliver_beside(found.as_ref(), &wish, text::sweep)?;
            html.map_or(Ok(()), |path| {
                output::write_page(path, &sweep_html::page(found))
            })?;
        }
        None => {}
    }
    if let Some(failure) = outcome.failure {
        say(&format!("sbt: {}\n", printable(&failure)));
    }
    Ok(outcome.status)
}

/// Runs one run of a series, in a process of its own.
pub fn once(scale: &Scale, job: usize, into: i32) -> anyhow::Result<u8> {
    let mut into = inherited(into).context("cannot write the report of one run")?;
    signals::unblock().context("cannot unblock signals")?;
    let invoker = invoker(scale.as_root);
    let jobs = plan(scale).jobs();
    let job = jobs.get(job).context("there is no such run")?;
    let command = scale.program.iter().map(|text| job.put(text)).collect();
    let target = Target::Run {
        command,
        invoker,
        shown: None,
    };
    let environment = Environment::read(std::env::vars_os()).map_err(anyhow::Error::msg)?;
    let (mut effective, _) = effective(&scale.options, environment)?;
    // The process that runs the series has printed the notes.
    let _told = effective.for_several_runs();
    // Print hangs, but no single episodes: there are too many runs to read them.
    let run = which(job, scale.run, scale.repeat);
    let narration = Narration {
        style: None,
        keep: false,
        run: (!scale.options.quiet).then_some(run),
    };
    let settings = effective.settings;
    let status = session::watch(&target, settings, narration, None, None, |report| {
        let report = output::to_json(report)?;
        into.write_all(report.as_bytes())
            .context("cannot write the report of one run")
    })?;
    Ok(status.unwrap_or(0))
}

fn plan(scale: &Scale) -> Plan {
    Plan {
        parameters: scale.parameters.clone(),
        counts: scale.counts.clone(),
        serial: scale.serial.clone(),
    }
}

/// The files of all programs that run, each once.
fn programs(plan: &Plan, command: &[OsString]) -> BTreeSet<PathBuf> {
    let path = std::env::var_os("PATH");
    let jobs = plan.jobs();
    let names: BTreeSet<OsString> = jobs
        .iter()
        .filter_map(|job| Some(job.put(command.first()?)))
        .collect();
    let found = names
        .iter()
        .filter_map(|name| libraries::find_program(name, path.as_deref()));
    found.collect()
}

/// Opens the file that the process of the series passes on under this descriptor. The program does
/// not inherit the file.
fn inherited(number: i32) -> anyhow::Result<File> {
    let path = format!("/proc/self/fd/{number}");
    let file = File::options().write(true).open(path)?;
    // SAFETY: opening it by its number has shown that the descriptor is open, and nothing closes
    // it.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl(inherited, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    Ok(file)
}
