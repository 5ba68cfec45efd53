//! Runs `sbt check`: reads what it needs, judges, and writes the result.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
};

use anyhow::Context as _;

use crate::{
    ci::{self, Service},
    output::{self, Color},
    record,
    settings::Gate,
    show::{
        check::{annotate, junit, text},
        table::Style,
    },
    usage::Usage,
};
use sbt_engine::{
    gate::{CheckReport, CheckRules, judge},
    report::Report,
};

/// The destinations of the result.
#[derive(Clone, Debug)]
pub struct To {
    /// Write JSON instead of text.
    pub json: bool,
    /// Write to this file instead of a stream.
    pub output: Option<PathBuf>,
    /// Also write JUnit to this file.
    pub junit: Option<PathBuf>,
    /// Whether to use bold and dim text.
    pub color: Color,
    /// Print nothing if all rules hold.
    pub quiet: bool,
    /// Standard output is free because no program runs.
    pub stdout_is_ours: bool,
}

/// A check that is ready to judge.
#[derive(Debug)]
pub struct Check {
    asked: CheckRules,
    before: Option<Report>,
    to: To,
}

impl Check {
    /// Checks, before anything is measured, that there are rules and that all files can be read and
    /// written. Call [`output::guard::check`] first, which keeps outputs from replacing inputs.
    ///
    /// # Errors
    /// [`Usage`]; or a file cannot be read or written.
    pub fn new(gate: Gate, to: To) -> anyhow::Result<Self> {
        if gate.is_empty() {
            let text = "there is no rule to check: give a rule, such as --max-idle 10% or \
                --no-hang 30s (`sbt check --help` lists all), or write rules into sbt.toml under \
                [check]";
            return Err(Usage(text.into()).into());
        }
        if to.json && to.output.is_none() && !to.stdout_is_ours {
            let text =
                "--json needs --output FILE here, since standard output belongs to the program";
            return Err(Usage(text.into()).into());
        }
        for path in [&to.output, &to.junit].into_iter().flatten() {
            // Empty the file, so that the result of an earlier check is not taken for the new one.
            output::write_file(path, "")?;
        }
        let Gate { asked, baseline } = gate;
        let named = baseline.as_ref();
        let before = named.map(|named| named.read(record::report));
        let before = before.transpose().context("--baseline")?;
        Ok(Self { asked, before, to })
    }

    /// The limits to judge by.
    pub const fn asked(&self) -> &CheckRules {
        &self.asked
    }

    /// Judges a report and writes the result. Returns the exit status.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn tell(&self, report: &Report) -> anyhow::Result<u8> {
        let check = judge(report, &self.asked, self.before.as_ref());
        let service = Service::of_this_process();
        let junit = match &self.to.junit {
            Some(path) => output::write_file(path, &junit::render(&check)?),
            None => Ok(()),
        };
        // If one file cannot be written, the other is written all the same.
        self.write(&check, service).and(junit)?;
        if let Some(service) = service {
            // A reader of the program's output may not want the annotations in it.
            let to_stdout = self.to.stdout_is_ours && !self.to.json;
            say(&annotate::render(&check, service), to_stdout)?;
        }
        Ok(check.exit_status)
    }

    fn write(&self, check: &CheckReport, service: Option<Service>) -> anyhow::Result<()> {
        let as_text = |style: Style| {
            let text = text::render(check, style);
            match service {
                Some(_) => ci::harmless(&text),
                None => text,
            }
        };
        match &self.to.output {
            Some(path) if self.to.json => {
                output::write_report(path, &output::to_json(check)?, true)
            }
            Some(path) => {
                let color = self.to.color == Color::Always;
                let style = Style {
                    color,
                    ..output::PLAIN
                };
                output::write_report(path, &as_text(style), false)
            }
            None if self.to.json => output::print_json(&output::to_json(check)?),
            None if self.to.quiet && check.exit_status == 0 => Ok(()),
            None => {
                let terminal = if self.to.stdout_is_ours {
                    io::stdout().is_terminal()
                } else {
                    io::stderr().is_terminal()
                };
                let text = as_text(output::style(self.to.color, terminal));
                say(&text, self.to.stdout_is_ours)
            }
        }
    }
}

fn say(text: &str, to_stdout: bool) -> anyhow::Result<()> {
    if to_stdout {
        return output::print(text);
    }
    // Ignore errors: a closed standard error has no reader.
    let _gone = io::stderr().lock().write_all(text.as_bytes());
    Ok(())
}
