//! Running a program at several numbers of threads, each time under a new `sbt`.
//!
//! A program has to be forked by a process with one thread, and what one run has needed must
//! not weigh on the next: so each run is a process of its own, with this one's command line
//! and which run it is.

use std::{
    ffi::{OsStr, OsString},
    io::{IsTerminal as _, Write as _},
    path::Path,
    process::{Child, Command, ExitStatus},
};

use anyhow::Context as _;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    Run, Scaling,
    counts::{Counts, PLACE, Variable, has_place, put},
    scaling,
};
use crate::{
    place::printable,
    record,
    session::signals::{Heard, Signals},
    target::{launch::Invoker, libraries},
    views::table::{Style, duration},
    words::command_line,
};

/// What to run.
#[derive(Clone, Debug)]
pub struct Series {
    /// Numbers of threads.
    pub counts: Counts,
    /// How often each.
    pub repeat: u32,
    /// The program and its arguments.
    pub program: Vec<OsString>,
    /// Variables of its environment.
    pub variables: Vec<Variable>,
    /// Nothing is told meanwhile.
    pub quiet: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// The table of what was run; `None` without a single run.
    pub scaling: Option<Scaling>,
    /// That of the program, if it failed; 128 + N if signal N ended the series.
    pub status: u8,
    /// What went wrong, if it has not been said yet.
    pub failure: Option<String>,
}

/// How one run ended.
enum Ended {
    Well(Box<Run>),
    /// With what to say of it.
    Badly(u8, Option<String>),
}

impl Series {
    /// Runs everything.
    ///
    /// # Errors
    /// Nothing says how many threads the program is to use, or sbt itself failed.
    pub fn run(mut self) -> anyhow::Result<Outcome> {
        self.variables.extend(self.missing_variable()?);
        let signals =
            Signals::block(false, false).context("cannot take over the handling of signals")?;
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the event loop")?
            .block_on(self.all(signals))
    }

    /// What tells the program the number, if the command does not.
    fn missing_variable(&self) -> anyhow::Result<Option<Variable>> {
        let in_program = self.program.iter().any(|argument| has_place(argument));
        let mut variables = self.variables.iter();
        if in_program || variables.any(|it| has_place(OsStr::new(&it.value))) {
            return Ok(None);
        }
        anyhow::ensure!(
            self.uses_openmp(),
            "nothing tells the program how many threads to use; write {PLACE} where the number \
             belongs in its arguments, or --env NAME={PLACE} for its environment"
        );
        Ok(Some(Variable {
            name: "OMP_NUM_THREADS".into(),
            value: PLACE.into(),
        }))
    }

    fn uses_openmp(&self) -> bool {
        let path = std::env::var_os("PATH");
        let program = self.program.first();
        let Some(program) = program.and_then(|it| libraries::find_program(it, path.as_deref()))
        else {
            return false;
        };
        let user = Invoker::from_sudo().map(|it| (it.uid.as_raw(), it.gid.as_raw()));
        let libraries = libraries::will_map(&program, user).certain;
        libraries.iter().any(|path| is_openmp(path))
    }

    async fn all(self, mut signals: Signals) -> anyhow::Result<Outcome> {
        let binary = std::env::current_exe().context("cannot find sbt's own binary")?;
        let mut runs = Vec::new();
        let (mut status, mut failure) = (0, None);
        // Whatever else the machine does meanwhile is spread over all numbers.
        'all: for repeat in 1..=self.repeat {
            for &threads in &self.counts.0 {
                let ended = self.one(&binary, threads, repeat, &mut signals).await?;
                match ended {
                    Ended::Well(run) => {
                        self.tell(&run, repeat);
                        runs.push(*run);
                    }
                    Ended::Badly(with, what) => {
                        (status, failure) = (with, what);
                        break 'all;
                    }
                }
            }
        }
        let wanted = self.repeat as usize * self.counts.0.len();
        let mut notes = Vec::new();
        if runs.len() < wanted {
            notes.push(format!(
                "only {} of {wanted} runs went to their end",
                runs.len()
            ));
        }
        let command: Vec<String> = self
            .program
            .iter()
            .map(|it| it.to_string_lossy().into_owned())
            .collect();
        Ok(Outcome {
            scaling: scaling(command, &runs, notes),
            status,
            failure,
        })
    }

    async fn one(
        &self,
        binary: &Path,
        threads: u32,
        repeat: u32,
        signals: &mut Signals,
    ) -> anyhow::Result<Ended> {
        let into = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
        let mut command = Command::new(binary);
        command
            .args(["scale", "--one"])
            .arg(threads.to_string())
            .arg("--into")
            .arg(into.path())
            // Of the command line all that comes after `scale`.
            .args(std::env::args_os().skip(2));
        for variable in &self.variables {
            command.env(&variable.name, put(OsStr::new(&variable.value), threads));
        }
        let child = command.spawn().context("cannot start sbt once more")?;
        let (status, heard) = wait(child, signals).await?;
        let code = u8::try_from(status.code().unwrap_or(125)).unwrap_or(125);
        if let Some(heard) = heard {
            let number = u8::try_from(heard.number).unwrap_or(0);
            return Ok(Ended::Badly(128 + number, Some("interrupted".into())));
        }
        let is_empty = into.as_file().metadata().is_ok_and(|it| it.len() == 0);
        if is_empty {
            // Why it could not has been said by whoever could not.
            return Ok(Ended::Badly(code.max(1), None));
        }
        let report = record::report(into.path())?;
        let status = report.exit_status.unwrap_or(code);
        if status == 0 {
            return Ok(Ended::Well(Box::new(Run { threads, report })));
        }
        let command = printable(&command_line(&report.command));
        let what = match status {
            129..=192 => format!("was ended by signal {}", status - 128),
            _ => format!("ended with exit status {status}"),
        };
        let of = self.repeat;
        let with = threads_of(threads);
        let what = format!("{command} {what} with {with} (run {repeat} of {of})");
        Ok(Ended::Badly(status, Some(what)))
    }

    fn tell(&self, run: &Run, repeat: u32) {
        let mut stderr = std::io::stderr();
        if self.quiet || !stderr.is_terminal() {
            return;
        }
        let style = Style {
            width: 80,
            color: false,
            unicode: false,
        };
        let time = duration(Some(run.report.wall_ns), style);
        let of = self.repeat;
        let threads = threads_of(run.threads);
        let text = format!("sbt: {threads}, run {repeat} of {of}: {time}\n");
        let _gone = stderr.write_all(text.as_bytes());
    }
}

fn threads_of(number: u32) -> String {
    format!("{number} thread{}", if number == 1 { "" } else { "s" })
}

fn is_openmp(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["libgomp.so", "libomp.so", "libomp5.so", "libiomp5.so"]
        .iter()
        .any(|begin| name.starts_with(begin))
}

/// Waits for a child's end, and passes on to it what we are told meanwhile: it passes that
/// on to the program. The last signal that means the end comes back.
async fn wait(
    mut child: Child,
    signals: &mut Signals,
) -> anyhow::Result<(ExitStatus, Option<Heard>)> {
    let pid = Pid::from_raw(child.id().cast_signed());
    let mut end = tokio::task::spawn_blocking(move || child.wait());
    let mut last = None;
    loop {
        tokio::select! {
            heard = signals.next() => {
                let heard = heard.context("cannot hear signals")?;
                // What the terminal sent has been sent to all.
                if !heard.from_terminal
                    && let Ok(signal) = Signal::try_from(heard.number)
                {
                    let _ended_just_now = kill(pid, signal);
                }
                if heard.ends() {
                    last = Some(heard);
                }
            }
            status = &mut end => {
                let status = status.context("waiting for a run")?;
                return Ok((status.context("waiting for a run")?, last));
            }
        }
    }
}
