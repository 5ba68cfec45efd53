//! Merges all sources of settings: the part that reads files.

use std::{path::Path, time::Duration};

use super::{
    Environment, Settings, file,
    find::{self, Trust},
    layer::Layer,
    merge::{DEFAULT, Row, merge},
};
use sbt_engine::value::duration_text;

/// The effective settings and their origins.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The effective settings.
    pub settings: Settings,
    /// The origin of each value.
    pub rows: Vec<Row>,
    /// The settings file in use, as the user knows it.
    pub file: Option<String>,
    /// Notes for the user, one line each.
    pub notes: Vec<String>,
}

impl Effective {
    /// Drops the duration, which would cut each run of a series short. Returns a line about that if
    /// there was one.
    pub fn for_several_runs(&mut self) -> Option<String> {
        self.settings.duration = None;
        let mut rows = self.rows.iter();
        let row = rows.find(|row| row.setting == "duration" && row.origin != DEFAULT)?;
        let Row { value, origin, .. } = row;
        Some(format!(
            "duration {value} of {origin} does not work with several runs: each run goes to its end"
        ))
    }

    /// Sets the hang time that suits a demo, unless the user has set one.
    pub fn suggest_hang_time(&mut self, time: Duration) {
        let mut rows = self.rows.iter_mut();
        let row = rows.find(|row| row.setting == "hang-time" && row.origin == DEFAULT);
        if let Some(row) = row {
            row.value = duration_text(time);
            row.origin = "of this demo".into();
            self.settings.hang_time = Some(time);
        }
    }
}

/// Checks the `text` of an `sbt.toml` that the user knows as `shown`.
///
/// # Errors
/// One line that begins with file and line number: something in the file is not valid.
pub fn check_file(shown: &str, text: &str) -> Result<(), String> {
    merge(vec![file::layer(shown, text)?]).map(drop)
}

/// Merges the nearest `sbt.toml` from `folder` upwards, the environment and the options `typed`.
/// Without a folder, which may have been removed, no file is read.
///
/// # Errors
/// One line: a source has something that is not valid.
pub fn effective(
    folder: Option<&Path>,
    environment: Environment,
    typed: Layer,
) -> Result<Effective, String> {
    let found = match folder {
        Some(folder) => find::nearest(folder, Trust::of_this_process())?,
        None => None,
    };
    let mut notes = Vec::new();
    let mut layers = Vec::new();
    let mut shown = None;
    if let Some(found) = found {
        if let Some(text) = &found.text {
            layers.push(file::layer(&found.shown, text)?);
            shown = Some(found.shown);
        }
        notes.extend(found.note);
    }
    notes.extend(environment.notes);
    layers.push(environment.layer);
    layers.push(typed);
    let (settings, rows) = merge(layers)?;
    Ok(Effective {
        settings,
        rows,
        file: shown,
        notes,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{self, Cli, Command};

    fn of_file(text: &str) -> Effective {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("sbt.toml"), text).unwrap();
        let cli = Cli::parse_from(["sbt", "scale", "-n", "1,2", "--", "prog", "{n}"]);
        let Command::Scale(scale) = cli.command else {
            panic!("another command");
        };
        effective(
            Some(folder.path()),
            Environment::default(),
            cli::layer(&scale.options),
        )
        .unwrap()
    }

    #[test]
    fn what_is_for_one_run_does_not_hold_for_several() {
        let mut both = of_file("duration = \"50ms\"\nsample = 200\n");
        assert!(both.settings.duration.is_some());
        let told = both.for_several_runs();
        assert_eq!(both.settings.duration, None);
        assert_eq!(both.settings.sample, 200);
        let line = "duration 50ms of sbt.toml:1 does not work with several runs: each run goes to \
            its end";
        assert_eq!(told.as_deref(), Some(line));
        assert_eq!(of_file("sample = 200\n").for_several_runs(), None);
    }
}
