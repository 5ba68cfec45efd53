//! Running a program at several numbers of threads, each time under a new `sbt`.
//!
//! A program has to be forked by a process with one thread, and what one run has needed must
//! not weigh on the next: so each run is a process of its own, with this one's command line
//! and which run it is.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{IsTerminal as _, Write as _},
    os::fd::AsRawFd as _,
    path::Path,
    process::{Child, Command, ExitStatus},
    time::Duration,
};

use anyhow::Context as _;
use nix::{
    sys::memfd::{MFdFlags, memfd_create},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::{Instant, sleep_until};

use crate::{
    record,
    show::table::{Style, duration},
    signals::{Heard, Signals},
    usage::Usage,
};
use sbt_engine::{
    place::printable,
    report::Report,
    scale::{
        Run, Scaling,
        counts::{Counts, PLACE, Variable, has_place, put, threads_of},
        scaling,
    },
    words::command_line,
};
use sbt_program::{access::Invoker, launch, libraries};

/// What tells a program with OpenMP how many threads to use.
const OPENMP: &str = "OMP_NUM_THREADS";

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
    /// What the user should know beside what comes of the runs.
    pub notes: Vec<String>,
    /// See [`crate::settings::Settings::hang_time`].
    pub hang_time: Option<Duration>,
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
    /// Makes sure, before anything is written or run, that the program is told how many
    /// threads to use.
    ///
    /// # Errors
    /// [`Usage`]: nothing tells it.
    pub fn check(&self) -> Result<(), Usage> {
        self.missing_variable().map(drop)
    }

    /// Runs everything.
    ///
    /// # Errors
    /// [`Usage`], as of [`Series::check`]; or sbt itself failed.
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
    fn missing_variable(&self) -> Result<Option<Variable>, Usage> {
        let in_program = self.program.iter().any(|argument| has_place(argument));
        let told = missing_variable(in_program, &self.variables, || self.uses_openmp());
        told.map_err(Usage)
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
                let longest = runs.iter().map(|run: &Run| run.report.wall_ns).max();
                let patience = patience(self.hang_time, longest);
                let ended = self
                    .one(&binary, threads, repeat, patience, &mut signals)
                    .await?;
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
        let mut notes = self.notes;
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
        patience: Option<Duration>,
        signals: &mut Signals,
    ) -> anyhow::Result<Ended> {
        // In memory, and so without a name that the program could put something else in the place of.
        let into =
            memfd_create(c"sbt", MFdFlags::empty()).context("cannot make a file in memory")?;
        let into = File::from(into);
        let mut command = Command::new(binary);
        command
            .args(["scale", "--one", &threads.to_string()])
            .args(["--run", &repeat.to_string()])
            .arg("--into")
            .arg(into.as_raw_fd().to_string())
            // Of the command line all that comes after `scale`.
            .args(std::env::args_os().skip(2));
        launch::as_called(&mut command);
        for variable in &self.variables {
            command.env(&variable.name, put(OsStr::new(&variable.value), threads));
        }
        let child = command.spawn().context("cannot start sbt once more")?;
        let which = which(threads, repeat, self.repeat);
        let is_late = || {
            if !self.quiet {
                let text = format!(
                    "sbt: {which}: has not ended, and takes much longer than the runs before; \
                     Ctrl-C ends the series with what there is\n"
                );
                let _gone = std::io::stderr().write_all(text.as_bytes());
            }
        };
        let (status, heard) = wait(child, signals, patience, is_late).await?;
        let code = u8::try_from(status.code().unwrap_or(125)).unwrap_or(125);
        if let Some(heard) = heard {
            let number = u8::try_from(heard.number).unwrap_or(0);
            let what = format!("interrupted in the run with {which}");
            return Ok(Ended::Badly(128 + number, Some(what)));
        }
        let is_empty = into.metadata().is_ok_and(|file| file.len() == 0);
        if is_empty {
            // Why it could not has been said by whoever could not.
            return Ok(Ended::Badly(code.max(1), None));
        }
        let report = record::report(Path::new(&format!("/proc/self/fd/{}", into.as_raw_fd())))?;
        Ok(match failure(&report, code, &which) {
            Some((status, what)) => Ended::Badly(status, Some(what)),
            None => Ended::Well(Box::new(Run { threads, report })),
        })
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
        let which = which(run.threads, repeat, self.repeat);
        let text = format!("sbt: {which}: {time}\n");
        let _gone = stderr.write_all(text.as_bytes());
    }
}

/// How a run is called.
pub fn which(threads: u32, repeat: u32, of: u32) -> String {
    format!("{}, run {repeat} of {of}", threads_of(threads))
}

/// How long a run may take before it is said that it does; `longest`: of those before, ns.
/// What stands still at a barrier is told by whoever watches it; what does so elsewhere shows
/// by this alone. Of the first run it is not known how long it takes.
fn patience(hang_time: Option<Duration>, longest: Option<u64>) -> Option<Duration> {
    const TIMES: u32 = 3;
    let longest = Duration::from_nanos(longest?);
    hang_time?.checked_add(longest.checked_mul(TIMES)?)
}

/// What tells the program the number of threads, if neither its arguments nor its variables
/// do. `uses_openmp`: whether it would obey the variable of OpenMP.
fn missing_variable(
    in_program: bool,
    variables: &[Variable],
    uses_openmp: impl Fn() -> bool,
) -> Result<Option<Variable>, String> {
    // Of two for the same name the last one holds.
    let holds = |at: usize| {
        let name = &variables[at].name;
        !variables[at + 1..].iter().any(|later| later.name == *name)
    };
    let mut holding = variables.iter().enumerate().filter(|(at, _)| holds(*at));
    if in_program || holding.any(|(_, it)| has_place(OsStr::new(&it.value))) {
        return Ok(None);
    }
    if let Some(fixed) = variables.iter().rfind(|it| it.name == OPENMP) {
        return Err(format!(
            "--env {OPENMP}={} is the same for all numbers of threads; write --env \
             {OPENMP}={PLACE}",
            fixed.value
        ));
    }
    if !uses_openmp() {
        return Err(format!(
            "nothing tells the program how many threads to use; write {PLACE} where the number \
             belongs in its arguments, or --env NAME={PLACE} for its environment"
        ));
    }
    Ok(Some(Variable {
        name: OPENMP.into(),
        value: PLACE.into(),
    }))
}

/// The exit status of a run whose time says nothing, and why; `code`: how the `sbt` ended
/// that watched it.
fn failure(report: &Report, code: u8, which: &str) -> Option<(u8, String)> {
    let command = printable(&command_line(&report.command));
    let (status, what) = match report.exit_status {
        // It may go on: what was seen is not its time.
        None => (code.max(1), "was not watched to its end".into()),
        Some(0) => return None,
        Some(status @ 129..=192) => (status, format!("was ended by signal {}", status - 128)),
        Some(status) => (status, format!("ended with exit status {status}")),
    };
    Some((status, format!("{command} {what} with {which}")))
}

fn is_openmp(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["libgomp.so", "libomp.so", "libomp5.so", "libiomp5.so"]
        .iter()
        .any(|begin| name.starts_with(begin))
}

/// Waits for a child's end, and passes on to it what we are told meanwhile: it passes that
/// on to the program. The last signal that means the end comes back. `is_late` is called if
/// it takes longer than `patience`.
async fn wait(
    mut child: Child,
    signals: &mut Signals,
    patience: Option<Duration>,
    is_late: impl Fn(),
) -> anyhow::Result<(ExitStatus, Option<Heard>)> {
    let pid = Pid::from_raw(child.id().cast_signed());
    let mut end = tokio::task::spawn_blocking(move || child.wait());
    let mut last = None;
    let mut due = patience.and_then(|it| Instant::now().checked_add(it));
    loop {
        tokio::select! {
            () = until(due) => {
                due = None;
                is_late();
            }
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

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::{samples, scale::counts};

    /// What is told the program by these, each `NAME=VALUE`.
    fn told(in_program: bool, variables: &[&str], openmp: bool) -> Result<Option<String>, String> {
        let variables: Vec<Variable> = variables
            .iter()
            .map(|text| counts::variable(text).unwrap())
            .collect();
        let told = missing_variable(in_program, &variables, || openmp)?;
        Ok(told.map(|it| format!("{}={}", it.name, it.value)))
    }

    #[test]
    fn the_number_is_told_once_and_what_was_typed_is_not_replaced() {
        assert_eq!(told(true, &[], true), Ok(None));
        assert_eq!(told(false, &["A={n}"], true), Ok(None));
        assert_eq!(told(false, &["OMP_NUM_THREADS={n},2"], false), Ok(None));
        assert_eq!(
            told(false, &["A=2"], true).unwrap().as_deref(),
            Some("OMP_NUM_THREADS={n}")
        );
        let nothing = told(false, &["A=2"], false).unwrap_err();
        assert!(nothing.contains("--env NAME={n}"), "{nothing}");
        for openmp in [false, true] {
            let fixed = told(false, &["OMP_NUM_THREADS=2"], openmp).unwrap_err();
            assert!(
                fixed.ends_with("write --env OMP_NUM_THREADS={n}"),
                "{fixed}"
            );
        }
        // Who tells the program in another way may fix it.
        assert_eq!(told(true, &["OMP_NUM_THREADS=2"], true), Ok(None));
        // Of two the last one holds.
        assert!(told(false, &["A={n}", "A=2"], false).is_err());
        assert_eq!(told(false, &["A=2", "A={n}"], false), Ok(None));
    }

    #[test]
    fn only_runs_that_went_to_their_end_have_a_time() {
        let mut report = samples::calm().report;
        report.command = vec!["./lu".into()];
        let mut of = |status, code| {
            report.exit_status = status;
            failure(&report, code, &which(2, 1, 3))
        };
        assert_eq!(of(Some(0), 0), None);
        let told = |status: u8, text: &str| Some((status, text.to_owned()));
        assert_eq!(
            of(Some(3), 3),
            told(
                3,
                "./lu ended with exit status 3 with 2 threads, run 1 of 3"
            )
        );
        assert_eq!(
            of(Some(139), 139),
            told(
                139,
                "./lu was ended by signal 11 with 2 threads, run 1 of 3"
            )
        );
        // Whatever says that it was watched for a part of its time only.
        assert_eq!(
            of(None, 0),
            told(
                1,
                "./lu was not watched to its end with 2 threads, run 1 of 3"
            )
        );
    }

    #[test]
    fn only_what_takes_much_longer_than_others_is_late() {
        let seconds = |it| Some(Duration::from_secs(it));
        assert_eq!(patience(seconds(10), Some(2_000_000_000)), seconds(16));
        assert_eq!(patience(seconds(10), None), None);
        assert_eq!(patience(None, Some(2_000_000_000)), None);
        assert_eq!(patience(Some(Duration::MAX), Some(u64::MAX)), None);
    }
}
