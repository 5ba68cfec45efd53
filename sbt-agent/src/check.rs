//! `sbt check`, the acting part: what is judged, and where what comes of it goes.

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
    gate::{Asked, CheckReport, judge},
    report::Report,
};

/// Where what comes of the rules goes.
#[derive(Clone, Debug)]
pub struct To {
    /// JSON instead of text.
    pub json: bool,
    /// A file instead of a stream.
    pub output: Option<PathBuf>,
    /// Another file, as JUnit.
    pub junit: Option<PathBuf>,
    /// Bold and dim text.
    pub color: Color,
    /// Nothing, if all rules hold.
    pub quiet: bool,
    /// No program is run that writes there.
    pub stdout_is_ours: bool,
}

/// A check that is ready to judge.
#[derive(Debug)]
pub struct Check {
    asked: Asked,
    before: Option<Report>,
    to: To,
}

impl Check {
    /// Makes sure, before anything is measured, that there are rules, and that all that
    /// will be needed is there. That nothing is written over what is read is for
    /// [`output::guard::check`] to say, first.
    ///
    /// # Errors
    /// [`Usage`]; or a file cannot be read or written.
    pub fn new(gate: Gate, to: To) -> anyhow::Result<Self> {
        if gate.is_empty() {
            let text = "no rule is given, and without one nothing would be checked: name one, \
                        such as --max-idle 10% or --no-hang 30s (`sbt check --help` has all), or \
                        write it into sbt.toml under [check]";
            return Err(Usage(text.into()).into());
        }
        if to.json && to.output.is_none() && !to.stdout_is_ours {
            let text =
                "--json needs --output FILE here, since standard output belongs to the program";
            return Err(Usage(text.into()).into());
        }
        for path in [&to.output, &to.junit].into_iter().flatten() {
            // What an earlier check found is not to be taken for what this one does.
            output::write_file(path, "")?;
        }
        let Gate { asked, baseline } = gate;
        let named = baseline.as_ref();
        let before = named.map(|named| named.read(record::report));
        let before = before.transpose().context("--baseline")?;
        Ok(Self { asked, before, to })
    }

    /// What was asked for.
    pub const fn asked(&self) -> &Asked {
        &self.asked
    }

    /// Judges a report, and tells what came of it. Returns the exit status.
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
        // What one file does not take is no reason to keep back the rest.
        self.write(&check, service).and(junit)?;
        if let Some(service) = service {
            // Where the program writes, a reader of what it writes may not want them.
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
    // Who has closed it does not want to read it.
    let _gone = io::stderr().lock().write_all(text.as_bytes());
    Ok(())
}
