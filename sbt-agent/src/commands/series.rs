//! Runs a program several times, with other threads and parameters, each time under a new `sbt`.
//!
//! A program has to be forked by a process with one thread, and one run's resources must not burden
//! the next run: so each run is a process of its own, which gets this command line and the number
//! of the run.

use std::{
    collections::BTreeSet,
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
        Done, Run, Scaling, Sweep,
        counts::{PLACE, Variable, has_place},
        scaling, sweep,
        vary::{Job, Plan},
    },
    words::command_line,
};
use sbt_program::{launch, libraries};

/// The environment variable with which OpenMP programs take the number of threads.
const OPENMP: &str = "OMP_NUM_THREADS";

/// The program and how to run it.
#[derive(Clone, Debug)]
pub struct Series {
    /// The values of parameters and the numbers of threads.
    pub plan: Plan,
    /// The number of runs at each number of threads.
    pub repeat: u32,
    /// The program and its arguments.
    pub program: Vec<OsString>,
    /// Variables to set in the program's environment.
    pub variables: Vec<Variable>,
    /// Print nothing during the runs.
    pub quiet: bool,
    /// Notes for the user beside those from the runs.
    pub notes: Vec<String>,
    /// The setting [`crate::settings::Settings::hang_time`].
    pub hang_time: Option<Duration>,
}

/// The result of a series.
#[derive(Debug)]
pub struct Outcome {
    /// The table of all runs; `None` if no run was complete.
    pub found: Option<Found>,
    /// The exit status of the program if it failed; 128 + N if signal N ended the series.
    pub status: u8,
    /// The failure, if it has not been printed yet.
    pub failure: Option<String>,
}

/// The table of all runs.
#[derive(Debug)]
pub enum Found {
    /// By number of threads alone, where `--vary` is not given.
    Scaling(Box<Scaling>),
    /// By every combination of the values of `--vary`.
    Sweep(Box<Sweep>),
}

/// How one run ended.
enum Ended {
    Well(Box<Report>),
    /// The exit status, and the message if none has been printed yet.
    Badly(u8, Option<String>),
}

impl Series {
    /// Checks, before anything is written or run, that the program learns how many threads to use.
    ///
    /// # Errors
    /// [`Usage`]: the program would not learn it.
    pub fn check(&self) -> Result<(), Usage> {
        self.missing_variable().map(drop)
    }

    /// Runs the whole series.
    ///
    /// # Errors
    /// [`Usage`], as for [`Series::check`]; or sbt itself failed.
    pub fn run(mut self) -> anyhow::Result<Outcome> {
        self.variables.extend(self.missing_variable()?);
        let signals =
            Signals::block(false, false).context("cannot set up the handling of signals")?;
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the event loop")?
            .block_on(self.all(signals))
    }

    /// The variable to add for the number of threads, if the command does not pass that number
    /// already.
    fn missing_variable(&self) -> Result<Option<Variable>, Usage> {
        if self.plan.counts.is_none() {
            return Ok(None);
        }
        let in_program = self.program.iter().any(|argument| has_place(argument));
        let told = missing_variable(in_program, &self.variables, || self.uses_openmp());
        told.map_err(Usage)
    }

    /// Whether all programs use OpenMP, except for the serial version, which needs no number.
    fn uses_openmp(&self) -> bool {
        let path = std::env::var_os("PATH");
        let jobs = self.plan.jobs();
        let parallel = jobs
            .iter()
            .filter(|job| !self.plan.is_serial(&job.combination));
        let names: BTreeSet<OsString> = parallel
            .filter_map(|job| Some(job.put(self.program.first()?)))
            .collect();
        let uses = |name: &OsString| {
            let Some(program) = libraries::find_program(name, path.as_deref()) else {
                return false;
            };
            let libraries = libraries::will_map(&program).certain;
            libraries.iter().any(|path| is_openmp(path))
        };
        names.iter().all(uses)
    }

    async fn all(mut self, mut signals: Signals) -> anyhow::Result<Outcome> {
        let binary = std::env::current_exe().context("cannot find sbt's own binary")?;
        let jobs = self.plan.jobs();
        let mut runs: Vec<Done> = Vec::new();
        let (mut status, mut failure) = (0, None);
        // Repeat the whole list, so that other load on the machine is spread over all runs.
        'all: for repeat in 1..=self.repeat {
            for (at, job) in jobs.iter().enumerate() {
                let others = runs.iter().map(|run| run.report.run.wall_ns);
                let patience = patience(self.hang_time, others.max());
                let ended = self
                    .one(&binary, (at, job), repeat, patience, &mut signals)
                    .await?;
                match ended {
                    Ended::Well(report) => {
                        self.tell(job, &report, repeat);
                        let report = *report;
                        runs.push(Done { job: at, report });
                    }
                    Ended::Badly(with, what) => {
                        (status, failure) = (with, what);
                        break 'all;
                    }
                }
            }
        }
        let wanted = self.repeat as usize * jobs.len();
        if runs.len() < wanted {
            self.notes.push(format!(
                "only {} of {wanted} runs went to their end",
                runs.len()
            ));
        }
        Ok(Outcome {
            found: self.found(&jobs, runs),
            status,
            failure,
        })
    }

    /// The table of the runs.
    fn found(self, jobs: &[Job], runs: Vec<Done>) -> Option<Found> {
        let command: Vec<String> = self
            .program
            .iter()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect();
        if !self.plan.parameters.is_empty() {
            let found = sweep(&self.plan, &command, runs, self.notes)?;
            return Some(Found::Sweep(Box::new(found)));
        }
        let runs: Vec<Run> = runs
            .into_iter()
            .filter_map(|run| {
                Some(Run {
                    threads: jobs.get(run.job)?.threads?,
                    report: run.report,
                })
            })
            .collect();
        let found = scaling(command, &runs, self.notes)?;
        Some(Found::Scaling(Box::new(found)))
    }

    async fn one(
        &self,
        binary: &Path,
        (at, job): (usize, &Job),
        repeat: u32,
        patience: Option<Duration>,
        signals: &mut Signals,
    ) -> anyhow::Result<Ended> {
        // A file in memory has no name under which the program could replace it.
        let into =
            memfd_create(c"sbt", MFdFlags::empty()).context("cannot make a file in memory")?;
        let into = File::from(into);
        let mut command = Command::new(binary);
        command
            .args(["scale", "--one", &at.to_string()])
            .args(["--run", &repeat.to_string()])
            .arg("--into")
            .arg(into.as_raw_fd().to_string())
            // The command line after `scale`.
            .args(std::env::args_os().skip(2));
        launch::as_called(&mut command);
        for variable in &self.variables {
            command.env(&variable.name, job.put(OsStr::new(&variable.value)));
        }
        let child = command.spawn().context("cannot start another sbt")?;
        let which = which(job, repeat, self.repeat);
        let is_late = || {
            if !self.quiet {
                let text = format!(
                    "sbt: {which}: still running, much longer than the runs before; Ctrl-C ends \
                     the series with the results so far\n"
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
            // The process that failed has printed the reason.
            return Ok(Ended::Badly(code.max(1), None));
        }
        let report = record::report(Path::new(&format!("/proc/self/fd/{}", into.as_raw_fd())))?;
        Ok(match failure(&report, code, &which) {
            Some((status, what)) => Ended::Badly(status, Some(what)),
            None => Ended::Well(Box::new(report)),
        })
    }

    fn tell(&self, job: &Job, report: &Report, repeat: u32) {
        let mut stderr = std::io::stderr();
        if self.quiet || !stderr.is_terminal() {
            return;
        }
        let style = Style {
            width: 80,
            color: false,
            unicode: false,
        };
        let time = duration(Some(report.run.wall_ns), style);
        let which = which(job, repeat, self.repeat);
        let text = format!("sbt: {which}: {time}\n");
        let _gone = stderr.write_all(text.as_bytes());
    }
}

/// The name of a run in messages.
pub fn which(job: &Job, repeat: u32, of: u32) -> String {
    format!("{}, run {repeat} of {of}", printable(&job.called()))
}

/// How long a run may take before sbt warns that it is late. `longest`: the longest run so far, ns;
/// `None` before the first run, whose time is unknown. The run's own sbt reports threads that hang
/// at a barrier; any other hang shows only by this warning.
fn patience(hang_time: Option<Duration>, longest: Option<u64>) -> Option<Duration> {
    const TIMES: u32 = 3;
    let longest = Duration::from_nanos(longest?);
    hang_time?.checked_add(longest.checked_mul(TIMES)?)
}

/// The variable to add for the number of threads; `None` if the arguments or variables pass that
/// number already. `uses_openmp`: whether the program would obey the variable of OpenMP.
///
/// # Errors
/// One line: the program would not learn the number.
fn missing_variable(
    in_program: bool,
    variables: &[Variable],
    uses_openmp: impl Fn() -> bool,
) -> Result<Option<Variable>, String> {
    // Of two variables with the same name the last one counts.
    let holds = |at: usize| {
        let name = &variables[at].name;
        !variables[at + 1..].iter().any(|later| later.name == *name)
    };
    let mut holding = variables.iter().enumerate().filter(|(at, _)| holds(*at));
    if in_program || holding.any(|(_, variable)| has_place(OsStr::new(&variable.value))) {
        return Ok(None);
    }
    if let Some(fixed) = variables.iter().rfind(|variable| variable.name == OPENMP) {
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

/// The exit status and the message for a run whose time is not valid. `code`: the exit status of
/// the `sbt` that watched the run.
fn failure(report: &Report, code: u8, which: &str) -> Option<(u8, String)> {
    let command = printable(&command_line(&report.run.command));
    let (status, what) = match report.run.exit_status {
        // The program may still run: the time seen is not its whole time.
        None => (code.max(1), "was not watched to its end".into()),
        Some(0) => return None,
        Some(status @ 129..=192) => (status, format!("was ended by signal {}", status - 128)),
        Some(status) => (status, format!("ended with exit status {status}")),
    };
    Some((status, format!("{command} {what} with {which}")))
}

fn is_openmp(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Copies in wheels of Python are called `libgomp-a34b3233.so.1`.
    ["libgomp", "libomp.", "libomp-", "libomp5", "libiomp5"]
        .iter()
        .any(|begin| name.starts_with(begin))
}

/// Waits for a child's end, and passes signals on to the child, which passes them on to the
/// program. Returns the exit status and the last signal that asks sbt to end. Calls `is_late` once
/// if the child takes longer than `patience`.
async fn wait(
    mut child: Child,
    signals: &mut Signals,
    patience: Option<Duration>,
    is_late: impl Fn(),
) -> anyhow::Result<(ExitStatus, Option<Heard>)> {
    let pid = Pid::from_raw(child.id().cast_signed());
    let mut end = tokio::task::spawn_blocking(move || child.wait());
    let mut last = None;
    let mut due = patience.and_then(|patience| Instant::now().checked_add(patience));
    loop {
        tokio::select! {
            () = until(due) => {
                due = None;
                is_late();
            }
            heard = signals.next() => {
                let heard = heard.context("cannot receive signals")?;
                // Signals from the terminal have reached all processes.
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

    /// The variable added for the program with these `NAME=VALUE` variables.
    fn told(in_program: bool, variables: &[&str], openmp: bool) -> Result<Option<String>, String> {
        let variables: Vec<Variable> = variables
            .iter()
            .map(|text| counts::variable(text).unwrap())
            .collect();
        let told = missing_variable(in_program, &variables, || openmp)?;
        Ok(told.map(|variable| format!("{}={}", variable.name, variable.value)))
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
        // A program that gets the number in another way may have the variable fixed.
        assert_eq!(told(true, &["OMP_NUM_THREADS=2"], true), Ok(None));
        // Of two variables with the same name the last one counts.
        assert!(told(false, &["A={n}", "A=2"], false).is_err());
        assert_eq!(told(false, &["A=2", "A={n}"], false), Ok(None));
    }

    fn two_threads() -> Job {
        Job {
            combination: Vec::new(),
            threads: Some(2),
        }
    }

    #[test]
    fn only_runs_that_went_to_their_end_have_a_time() {
        let mut report = samples::calm().report;
        report.run.command = vec!["./lu".into()];
        let mut of = |status, code| {
            report.run.exit_status = status;
            failure(&report, code, &which(&two_threads(), 1, 3))
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
        // Whatever the exit status, the program was watched for part of its time only.
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
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(patience(seconds(10), Some(2_000_000_000)), seconds(16));
        assert_eq!(patience(seconds(10), None), None);
        assert_eq!(patience(None, Some(2_000_000_000)), None);
        assert_eq!(patience(Some(Duration::MAX), Some(u64::MAX)), None);
    }
}
