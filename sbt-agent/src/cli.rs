//! What can be typed. Types only: what happens is elsewhere.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};

use crate::{output::Color, session::Departures};

/// Shows where the threads of a running parallel program wait for each other.
///
/// No recompiling, no relinking, no library: sbt finds the program's barriers
/// and watches every arrival from outside, with eBPF.
#[derive(Debug, Parser)]
#[command(name = "sbt", version, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a program with its probes in place, and report when it ends.
    ///
    /// The program keeps its own input, output, signals and exit status.
    Run {
        /// How to watch and report.
        #[command(flatten)]
        options: Options,
        /// Keep root for the program, where sudo was used to start sbt.
        #[arg(long)]
        as_root: bool,
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, value_name = "PROG")]
        program: Vec<OsString>,
    },
    /// Join a running process; leaving it (Ctrl-C) lets it run on untouched.
    Attach {
        /// How to watch and report.
        #[command(flatten)]
        options: Options,
        /// The process, or one of its threads.
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        pid: u32,
    },
    /// Run a built-in parallel program under the monitor.
    Demo {
        /// How to watch and report.
        #[command(flatten)]
        options: Options,
        /// Keep root for the program, where sudo was used to start sbt.
        #[arg(long)]
        as_root: bool,
        /// Threads of the program.
        #[arg(short = 't', long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=256))]
        threads: u32,
        /// Size of its problem: 1 takes some seconds.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Which one; `sbt demo list` tells what each shows.
        #[arg(default_value = "lu-block")]
        name: String,
    },
    /// Say what this machine and this user may do, and what to type if not.
    Doctor,
    /// The demo program itself, without the monitor.
    #[command(name = "__demo", hide = true)]
    DemoProgram {
        /// Which one.
        name: String,
        /// Threads.
        threads: u32,
        /// Size.
        scale: f64,
    },
}

/// What run, attach and demo have in common.
#[derive(Args, Debug)]
pub struct Options {
    /// Report as JSON, to --output, or to standard output where no program runs.
    #[arg(long)]
    pub json: bool,
    /// Write the report to a file.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Stop watching after this time: 10, 10s, 500ms, 2m. The program runs on.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Watch departures too: they tell how long the release took.
    #[arg(long, value_enum, default_value_t = Departures::Auto)]
    pub departures: Departures,
    /// Bold and dim text.
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
    /// No report on standard error.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Reads `10`, `10s`, `1.5m`, `500ms`: seconds, if there is no unit.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit.trim() {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit `{unit}`; use ms, s, m or h")),
    };
    number
        .parse::<f64>()
        .ok()
        .and_then(|number| Duration::try_from_secs_f64(number * factor).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "expected a time above zero such as 10s or 500ms".into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_take_units() {
        assert_eq!(parse_duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        for wrong in ["", "0", "ten", "5x", "-1", "1e400"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
