//! `sbt check`: judges a program or a recording.

use std::{ffi::OsString, path::Path};

use anyhow::Context as _;

use super::chosen::{
    BASELINE, SETTINGS, SettingsError, fresh, guard_watching, invoker, narration, recording,
    say_notes, settings,
};
use crate::{
    check::{Check, To},
    cli::{self, Options},
    output::guard::{self, PROGRAM, READ},
    record,
    session::{self, Target},
    settings::{self as all_settings, Environment, Gate},
    usage::Usage,
};
use sbt_engine::gate::rule;
use sbt_program::libraries;

/// Judges a recording or a report.
pub fn file(typed: Gate, to: To, options: &Options, path: &Path) -> anyhow::Result<u8> {
    if cli::say_how_to_watch(options) || options.record.is_some() || options.tui {
        let text = "options that say how to watch have no effect on a recording: give them to the \
            run that makes it; to run a program, write it after `--`";
        return Err(Usage(text.into()).into());
    }
    let folder = std::env::current_dir().ok();
    let none = Environment::default();
    let effective = all_settings::effective(folder.as_deref(), none, cli::layer(options));
    let effective = effective.map_err(Usage)?;
    say_notes(&effective);
    let gate = effective.settings.check.clone().with(typed);
    let recordings = record::job::named(path);
    let before = gate.baseline.as_ref().map(|named| named.path.as_path());
    let before = before.map(record::job::named).unwrap_or_default();
    let all = recordings.iter().map(|file| (READ, Some(file.as_path())));
    let before = before.iter().map(|file| (BASELINE, Some(file.as_path())));
    let settings = (SETTINGS, effective.file.as_deref().map(Path::new));
    let read: Vec<_> = all.chain(before).chain([settings]).collect();
    let written = [
        ("--output", to.output.as_deref()),
        ("--junit", to.junit.as_deref()),
    ];
    guard::check(&read, &written)?;
    let check = Check::new(gate, to)?;
    let report = record::report(path)
        .map_err(|error| anyhow::anyhow!("{error:#} (to run a program, write it after `--`)"))?;
    check.tell(&report)
}

/// Judges a run.
pub fn program(
    typed: Gate,
    to: To,
    options: &Options,
    as_root: bool,
    program: Vec<OsString>,
) -> anyhow::Result<u8> {
    if options.tui {
        return Err(Usage("`sbt check` has no live screen; leave --tui out".into()).into());
    }
    let invoker = invoker(as_root);
    let path = program
        .first()
        .and_then(|name| libraries::find_program(name, std::env::var_os("PATH").as_deref()));
    // Errors in the settings count as usage errors, as if the settings had been typed.
    let effective = settings(options, None).map_err(|error| match error.downcast() {
        Ok(SettingsError(text)) => Usage(text).into(),
        Err(other) => other,
    })?;
    let Some(effective) = effective else {
        anyhow::bail!("SBT_NO_DEBUG=1 forbids watching; unset it to check a program");
    };
    let gate = effective.settings.check.clone().with(typed);
    let read = [
        (PROGRAM, path.as_deref()),
        (
            BASELINE,
            gate.baseline.as_ref().map(|named| named.path.as_path()),
        ),
    ];
    let written = [("--junit", to.junit.as_deref())];
    guard_watching(options, &effective, &read, &written)?;
    if gate.asked.no_hang.is_some() && effective.settings.duration.is_some() {
        let text = "--no-hang watches the program to its end, but --duration (or `duration` in \
            sbt.toml) stops earlier: leave one of them out";
        return Err(Usage(text.into()).into());
    }
    let _fresh = fresh(options);
    let check = Check::new(gate, to)?;
    let mut settings = effective.settings;
    if let Some(limit) = check.asked().no_hang {
        // The hang must be reported before the program is ended.
        let look = rule::look_after(limit);
        settings.hang_time = Some(settings.hang_time.map_or(look, |time| time.min(look)));
        settings.end_hangs = Some(limit);
    }
    let record = recording(options)?;
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
    let mut report = found.context("there is no report of the run")?;
    // The program may have ended after the end of watching.
    report.run.exit_status = status;
    check.tell(&report)
}
