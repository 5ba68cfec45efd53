//! The choices of options, settings and terminal that all watching commands share.

use std::{
    io::{IsTerminal as _, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;

use crate::{
    ci,
    cli::{self, Options},
    output::{
        self, Fresh,
        guard::{self, LabelledFile},
    },
    record::{self, Keep, Sink},
    screen::Look,
    session::Narration,
    settings::{self as all_settings, Detail, Effective, Environment, Settings},
    usage::Usage,
};
use sbt_engine::place::printable;
use sbt_program::access::{self, Invoker, typed};

/// A setting from any source is not valid.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(pub String);

/// The user as whom to start the program; `None` for the user of sbt, which under sudo only
/// `--as-root` chooses. Call this before looking for any file of the program.
pub fn invoker(as_root: bool) -> Option<Invoker> {
    if as_root {
        access::target::runs_as_sbt();
        return None;
    }
    Invoker::from_sudo()
}

/// Writes to standard error, which may be closed.
pub fn say(text: &str) {
    let text = ci::tame(text);
    let _gone = std::io::stderr().write_all(text.as_bytes());
}

/// The name of the baseline file in messages.
pub const BASELINE: &str = "the baseline";
pub const SETTINGS: &str = "the settings file";

/// Checks that no output replaces a file that is read, and that no two outputs go to one file.
/// `read` and `written`: the files beside settings, report, recording and stacks.
pub fn guard_watching(
    options: &Options,
    effective: &Effective,
    read: &[LabelledFile<'_>],
    written: &[LabelledFile<'_>],
) -> anyhow::Result<()> {
    let file = effective.file.as_deref().map(Path::new);
    let read = [read, &[(SETTINGS, file)]].concat();
    let own = [
        ("--output", options.output.as_deref()),
        ("-o", options.record.as_deref()),
        ("--folded", options.folded.as_deref()),
    ];
    guard::check(&read, &[&own, written].concat())
}

/// The effective settings, printed if the user asks for them; `None` if watching is forbidden.
/// `hang_time`: a hang time that suits a demo, unless the user has set one.
pub fn settings(
    options: &Options,
    hang_time: Option<Duration>,
) -> anyhow::Result<Option<Effective>> {
    let environment = Environment::read(std::env::vars_os()).map_err(SettingsError)?;
    if environment.no_debug {
        return Ok(None);
    }
    let (mut effective, detail) = effective(options, environment)?;
    if let Some(time) = hang_time {
        effective.suggest_hang_time(time);
    }
    effective.settings.folded.clone_from(&options.folded);
    say_notes(&effective);
    say(&all_settings::table(&effective, detail));
    Ok(Some(effective))
}

/// Prints the notes about the settings.
pub fn say_notes(effective: &Effective) {
    for note in &effective.notes {
        say(&format!("sbt: {}\n", printable(note)));
    }
}

/// The effective settings, and how much of them to show.
pub fn effective(
    options: &Options,
    environment: Environment,
) -> anyhow::Result<(Effective, Detail)> {
    let detail = Detail::of(options.verbose, environment.options, environment.verbose);
    let folder = std::env::current_dir().ok();
    let effective = all_settings::effective(folder.as_deref(), environment, cli::layer(options))
        .map_err(SettingsError)?;
    Ok((effective, detail))
}

/// How to print episodes and warnings while the program runs. With the report in a file, standard
/// error gets only what the user has asked for.
pub fn narration(options: &Options, settings: &Settings) -> Narration {
    let asked = settings.watch_all || settings.phase_times || !settings.watch.is_empty();
    let terminal = std::io::stderr().is_terminal();
    let tells = !options.quiet && (asked || options.output.is_none());
    Narration {
        style: tells.then(|| output::style(options.color, terminal)),
        keep: options.json || options.record.is_some(),
        run: None,
    }
}

/// The theme of the live screen; `None` for no screen. There is a screen by default if sbt has the
/// terminal and no option asks for another output.
pub fn look(options: &Options) -> anyhow::Result<Option<Look>> {
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

/// The output files that do not exist yet.
pub fn fresh(options: &Options) -> Fresh {
    let all = [&options.record, &options.output, &options.folded];
    Fresh::of(all.into_iter().flatten().map(AsRef::as_ref))
}

/// Opens the file of the recording, if the user asks for one.
pub fn recording(options: &Options) -> anyhow::Result<Option<Sink>> {
    let Some(path) = &options.record else {
        return Ok(None);
    };
    let file = output::for_recording(path)?;
    let keep = match options.keep {
        Some(time) => Some(Keep::Events(time)),
        None => options.stats_only.then_some(Keep::Statistics),
    };
    let mut sink = Sink::to(file, path, keep)?;
    sink.save_when.clone_from(&options.save_when);
    Ok(Some(sink))
}

/// The options of a rank that is to be recorded into a folder: the file there, and no report, since one
/// rank's report tells nothing of the job. `None` if no folder is named.
pub fn into_folder(options: &Options) -> anyhow::Result<Option<Options>> {
    let is_folder = |path: &&PathBuf| path.as_os_str().as_bytes().ends_with(b"/") || path.is_dir();
    let Some(folder) = options.record.as_ref().filter(is_folder) else {
        return Ok(None);
    };
    // Without the slash at the end.
    let folder = folder.components().as_path();
    let shown = printable(&folder.to_string_lossy());
    let origin = record::origin().context("cannot find out the name of this machine")?;
    typed::make_folders(folder).with_context(|| format!("cannot make {shown}"))?;
    let plain = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '-' => letter,
        _ => '_',
    };
    let host: String = origin.host.chars().map(plain).collect();
    let number = origin.rank.unwrap_or_else(std::process::id);
    Ok(Some(Options {
        record: Some(folder.join(format!("{host}-{number}.{}", record::job::ENDING))),
        quiet: true,
        ..options.clone()
    }))
}

/// The error for `--json` where standard output belongs to the program.
pub const JSON_NEEDS_FILE: &str =
    "--json needs --output FILE here, since standard output belongs to the program";

/// The destination and the format of the report.
pub fn wish(options: &Options, stdout_is_ours: bool) -> anyhow::Result<output::Wish> {
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
