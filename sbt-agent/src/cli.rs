//! The command line. Types only: `commands` acts on them.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};

mod check;
mod layer;

pub use check::Rules;
pub use layer::{layer, say_how_to_watch};

use crate::{
    control,
    output::{Color, Destination, Exports},
    settings::{Conceptual, Mark, SiteName, UserBarrier, Watched, spec},
};
use sbt_engine::{
    choices::{Backend, Departures, Futexes, Spins, States, Waits},
    counters::{self, Events},
    live::pace::Speed,
    saving::SaveRule,
    scale::{
        counts::{self, Counts, Variable},
        vary::{self, Parameter, Setting},
    },
    value,
};

/// Shows where the threads of a running parallel program wait for each other.
///
/// The program is not recompiled or relinked, and no library is loaded: sbt finds the
/// program's barriers and watches every arrival from outside, with eBPF.
#[derive(Debug, Parser)]
#[command(name = "sbt", version, disable_help_subcommand = true)]
pub struct Cli {
    /// The chosen command with its options.
    #[command(subcommand)]
    pub command: Command,
}

/// What `sbt ctl` may ask for.
#[derive(Clone, Debug, Subcommand)]
pub enum Ctl {
    /// Begin to count, if sbt waits for --start-at or --start-after; after `stop` put the probes
    /// on again.
    Start,
    /// Take the probes off: the program goes on unwatched.
    Stop,
    /// Count everything anew from now on.
    Reset,
    /// Note this moment under a name.
    Mark {
        /// The name.
        #[arg(value_parser = control::name)]
        name: String,
    },
    /// Print the report so far.
    Snapshot {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

/// All commands with their options.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a program, watch it, and report when it ends.
    ///
    /// The program keeps its own input, output, signals and exit status.
    Run {
        /// How to watch and report.
        #[command(flatten)]
        options: Options,
        /// Under sudo, run the program as root and not as the user who called sudo.
        #[arg(long)]
        as_root: bool,
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, value_name = "PROG")]
        program: Vec<OsString>,
    },
    /// Watch a running process. Ctrl-C ends watching, and the process goes on.
    Attach {
        /// How to watch and report.
        #[command(flatten)]
        options: Options,
        /// The number of the process, or of one of its threads.
        #[arg(value_parser = value::process, allow_negative_numbers = true)]
        pid: u32,
    },
    /// Watch a built-in example program.
    Demo {
        /// How to watch and report.
        #[command(flatten)]
        options: Options,
        /// Under sudo, run the program as root and not as the user who called sudo.
        #[arg(long)]
        as_root: bool,
        /// Threads of the program [default: one for each CPU that it may use, from 2 to 4].
        #[arg(short = 't', long, allow_negative_numbers = true,
              value_parser = clap::value_parser!(u32).range(2..=256))]
        threads: Option<u32>,
        /// How long the program works: 10, 2.5s, 2m [default: 8.5s].
        #[arg(long, value_name = "TIME", value_parser = value::seconds, allow_hyphen_values = true)]
        seconds: Option<Duration>,
        /// Give the program a fixed amount of work instead of a time: 1 takes some seconds.
        #[arg(long, allow_negative_numbers = true, conflicts_with = "seconds")]
        scale: Option<f64>,
        /// The name of the program; `sbt demo list` shows all programs, and what to see in
        /// each.
        #[arg(default_value = "lu-block")]
        name: String,
    },
    /// Look at a process that hangs: which thread is missing at which barrier, and what
    /// that thread waits for.
    ///
    /// This also works for a process that hung before sbt was started. Your own processes
    /// need no root.
    Hang {
        /// The number of the process, or of one of its threads.
        #[arg(value_parser = value::process, allow_negative_numbers = true)]
        pid: u32,
        /// Look also at the processes that the process has started.
        #[arg(long)]
        children: bool,
        /// Where the answer goes.
        #[command(flatten)]
        to: Destination,
    },
    /// Control a running sbt from a script: start and stop watching, note a moment, see the
    /// report so far.
    Ctl {
        /// The number of sbt, or of the process that it watches.
        pid: u32,
        /// What to do.
        #[command(subcommand)]
        order: Ctl,
    },
    /// Show a report, from a recording (`sbt run -o FILE`) or a report in JSON.
    ///
    /// This needs neither the program nor any privilege. The recordings of the ranks of an MPI job
    /// (`mpirun … sbt run -o FOLDER/ -- PROG`) give one report of the job.
    Report {
        /// The recording; or the folder with the recordings of a job, or these recordings.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Show also estimates of the figures without the cost of watching.
        #[arg(long)]
        compensated: bool,
        /// Write --perfetto, --csv, --csv-episodes and --folded even if the recording is
        /// cut or damaged: these files do not say what is missing.
        #[arg(long)]
        allow_incomplete: bool,
        /// Other forms.
        #[command(flatten)]
        exports: Exports,
        /// Where the answer goes.
        #[command(flatten)]
        to: Destination,
    },
    /// Compare two runs: what got slower, and whether the change is more than noise.
    ///
    /// Sites are recognised even if their lines have moved. This needs neither the program
    /// nor any privilege.
    Diff {
        /// The run before: a recording (`sbt run -o FILE`), or a report in JSON.
        #[arg(value_name = "BEFORE")]
        before: PathBuf,
        /// The run after: a recording, or a report in JSON.
        #[arg(value_name = "AFTER")]
        after: PathBuf,
        /// Exit with status 1 if the whole run is slower by more than this, or if a site or
        /// phase is, beyond the noise: 10%.
        #[arg(long, value_name = "PCT", value_parser = value::tolerance, allow_hyphen_values = true)]
        tolerance: Option<f64>,
        /// Compare a recording even if it is cut or damaged, by the part that is there.
        #[arg(long)]
        allow_incomplete: bool,
        /// Where the answer goes.
        #[command(flatten)]
        to: Destination,
    },
    /// Check rules for CI, on a program that sbt runs and watches, or on a recording.
    ///
    /// Exit status: 0 all rules hold, 1 a rule is broken or could not be measured, 3 the
    /// program hung or stood still for too long, 4 the program failed, 5 too many events were
    /// lost, or the recording is not complete. Rules may also be in sbt.toml, under [check].
    #[command(
        override_usage = "sbt check [RULES] [OPTIONS] -- PROG [ARGS]...\n       \
        sbt check [RULES] [OPTIONS] FILE"
    )]
    Check {
        /// Write the results of the rules as JUnit XML, which CI services read.
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
        /// How to watch and report.
        #[command(flatten)]
        options: Options,
        /// Under sudo, run the program as root and not as the user who called sudo.
        #[arg(long)]
        as_root: bool,
        /// A recording (`sbt run -o FILE`), or a report in JSON.
        #[arg(
            value_name = "FILE",
            conflicts_with = "program",
            required_unless_present = "program"
        )]
        file: Option<PathBuf>,
        /// The program and its arguments.
        #[arg(last = true, value_name = "PROG")]
        program: Vec<OsString>,
        // Last, so that no other option is under its heading.
        /// The rules of the check.
        #[command(flatten)]
        rules: Box<Rules>,
    },
    /// Run a program with several numbers of threads: how much faster it gets, and which
    /// phases do not.
    #[command(long_about = scale_about(), override_usage = SCALE_USAGE)]
    Scale(Box<Scale>),
    /// Play a recording in the live screen, with pause, single steps and speed.
    ///
    /// This needs neither the program nor any privilege.
    Replay {
        /// The recording.
        file: PathBuf,
        /// How fast to play: 1 is the real speed; 1/16, 1/8 … 1, 2 … 4096, or max.
        #[arg(long, value_name = "TIMES", default_value_t = Speed::Real, allow_hyphen_values = true)]
        speed: Speed,
        /// When to use bold text and colours.
        #[arg(long, value_enum, default_value_t = Color::Auto)]
        color: Color,
    },
    /// Check what this machine and this user allow, and what to do if something is missing.
    Doctor {
        /// Show for each BPF program of sbt how many instructions it has, and how many the
        /// kernel's verifier checked to accept it.
        #[arg(long)]
        programs: bool,
    },
    /// List the barriers of a program or process. Without PROG or PID, list the counters of
    /// this machine for --events, and why others are missing.
    List {
        /// A program, or the number of a process.
        #[arg(value_name = "PROG|PID")]
        of: Option<String>,
    },
    /// Print a script with which a shell completes sbt's commands and options.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the manual pages to a folder: one for sbt, and one for each command.
    Man {
        /// The folder, which is created if it does not exist.
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// The demo program itself, without the monitor.
    #[command(name = "__demo", hide = true)]
    DemoProgram {
        /// The program's name.
        name: String,
        /// Threads.
        threads: u32,
        /// Size.
        scale: f64,
        /// Work of that size again and again, for so long.
        #[arg(long, value_name = "TIME", value_parser = value::seconds)]
        seconds: Option<Duration>,
        /// One that hangs does so for longer, since somebody looks at it.
        #[arg(long)]
        patient: bool,
    },
}

const SCALE_USAGE: &str = "sbt scale -n LIST [OPTIONS] -- PROG [ARG | {n}]...\n       \
     sbt scale --vary NAME=LIST [-n LIST] [OPTIONS] -- PROG [ARG | {NAME} | {n}]...";

fn scale_about() -> String {
    format!(
        "Run a program with several numbers of threads: how much faster it gets, and which phases \
         do not.\n\n\
         `{PLACE_IN_HELP}` in its arguments or in --env becomes the number of threads; without \
         any, OpenMP programs get the number in `OMP_NUM_THREADS`.\n\n\
         With --vary NAME=A,B,C the program runs with each value in place of {NAME_IN_HELP}, and a \
         table compares all combinations. -n may be left out then."
    )
}

/// [`counts::PLACE`], which clap takes for the end of a line in texts of help unless
/// something stands in between: a code for terminals that changes nothing, and that is left
/// out where there is none.
const PLACE_IN_HELP: &str = "{\u{1b}[0mn}";

/// The place of a parameter, as [`PLACE_IN_HELP`].
const NAME_IN_HELP: &str = "`{\u{1b}[0mNAME}`";

/// The options of `sbt scale`.
#[derive(Args, Debug)]
pub struct Scale {
    /// The numbers of threads: 1,2,4,8.
    #[arg(short = 'n', long = "threads", value_name = "LIST", value_parser = counts::list,
          allow_hyphen_values = true, required_unless_present = "parameters")]
    pub counts: Option<Counts>,
    /// Vary a parameter too: run every combination of values and numbers of threads. May be
    /// given several times.
    #[arg(long = "vary", value_name = "NAME=A,B,C", value_parser = vary::parameter)]
    pub parameters: Vec<Parameter>,
    /// The value that is the serial version: it runs with one thread, and speed-ups of all
    /// others count against its time [default: against the fewest threads].
    #[arg(long, value_name = "NAME=A", value_parser = vary::setting, requires = "parameters")]
    pub serial: Option<Setting>,
    /// How many runs for each number of threads and each value; their median is used.
    #[arg(long, default_value_t = 3, value_name = "TIMES", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// Set an environment variable of the program, with the number of threads in its value.
    #[arg(long = "env", value_name = "NAME={n}", value_parser = counts::variable)]
    pub variables: Vec<Variable>,
    /// Write also an HTML page with plots.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// How to watch and report.
    #[command(flatten)]
    pub options: Options,
    /// Under sudo, run the program as root and not as the user who called sudo.
    #[arg(long)]
    pub as_root: bool,
    /// The index of the one job that this process is for.
    #[arg(long, hide = true, requires = "into")]
    pub one: Option<usize>,
    /// The number of the run among those of this job.
    #[arg(long, hide = true, requires = "one", default_value_t = 1)]
    pub run: u32,
    /// The number of the open file that its report goes to.
    #[arg(long, hide = true, requires = "one")]
    pub into: Option<i32>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROG")]
    pub program: Vec<OsString>,
}

/// See [`crate::settings::Settings::budget`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget(pub Option<f64>);

fn budget(text: &str) -> Result<Budget, String> {
    value::percent(text).map(Budget)
}

/// See [`crate::settings::Settings::hang_time`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HangTime(pub Option<Duration>);

fn hang_time(text: &str) -> Result<HangTime, String> {
    value::hang_time(text).map(HangTime)
}

/// The common options of run, attach and demo. A setting that `sbt.toml` or the environment may
/// also give is not set here unless the user typed it.
#[derive(Args, Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own, typed or not"
)]
pub struct Options {
    /// Write the report as JSON, to --output, or to standard output if no program is run.
    #[arg(long)]
    pub json: bool,
    /// Write the report to a file.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Stop watching after this time: 10, 10s, 500ms, 2m. The program goes on.
    #[arg(long, value_name = "TIME", value_parser = value::seconds, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// Count from the moment on at which a thread first passes this function or line, or a
    /// --mark of this name. What comes before leaves no trace in the figures.
    #[arg(long, value_name = "MARK", value_parser = spec::mark, conflicts_with = "start_after")]
    pub start_at: Option<Mark>,
    /// Count from this time after the start on: 30, 30s, 500ms, 2m.
    #[arg(long, value_name = "TIME", value_parser = value::seconds, allow_hyphen_values = true)]
    pub start_after: Option<Duration>,
    /// Stop watching when a thread first passes this function or line after counting has begun.
    /// The program goes on.
    #[arg(long, value_name = "MARK", value_parser = spec::mark)]
    pub stop_at: Option<Mark>,
    /// Watch departures from barriers too: how long the release of the threads takes
    /// [default: auto].
    #[arg(long, value_enum)]
    pub departures: Option<Departures>,
    /// Limit for the cost of watching, in percent of a thread's time: 2%, 0.5, off. Above
    /// the limit sbt watches less, and the report says so [default: 2%].
    #[arg(long, value_name = "PCT", value_parser = budget, allow_hyphen_values = true)]
    pub budget: Option<Budget>,
    /// Report also estimates of the figures without the cost of watching.
    #[arg(long)]
    pub compensated: bool,
    /// How to watch the program. ebpf needs root or two capabilities. The others need no
    /// privilege for your own processes: perf and ptrace slow them down more, and perf can
    /// watch a few barriers only; inject slows them down least and sees arrivals only
    /// [default: ebpf, or ptrace if ebpf is not permitted].
    #[arg(long, value_enum)]
    pub backend: Option<Backend>,
    /// Watch the futex system call, for locks and for barriers that a program makes from
    /// futexes. This slows all processes a little [default: auto].
    #[arg(long, value_enum)]
    pub futex: Option<Futexes>,
    /// Look for barriers that only spin. auto: count a function that is proven to be one;
    /// point: only name the function [default: auto].
    #[arg(long, value_enum)]
    pub spin: Option<Spins>,
    /// What to measure of threads between barriers. light: how long they ran, were ready
    /// and were blocked; full: also what blocked them, and who took the CPU [default:
    /// light].
    #[arg(long, value_enum)]
    pub states: Option<States>,
    /// Look where threads sleep, for what, and which thread holds that. Threads are not stopped,
    /// and the looks take less than 0.5 % of the program's CPU time [default: auto].
    #[arg(long, value_enum)]
    pub waits: Option<Waits>,
    /// Watch also the processes that the program starts [default: in run, check and scale].
    #[arg(long, overrides_with = "no_children")]
    pub children: bool,
    /// Do not watch processes that the program starts.
    #[arg(long, overrides_with = "children")]
    pub no_children: bool,
    /// Print each episode of a barrier: file.c:120, 120, a function or a name. With =NAME the
    /// barrier gets this name, too.
    #[arg(long, value_name = "SITE[=NAME]", value_parser = spec::watched)]
    pub watch: Vec<Watched>,
    /// Print each episode of all barriers.
    #[arg(long)]
    pub watch_all: bool,
    /// Give a barrier a name: file.c:120=NAME.
    #[arg(long = "name", value_name = "SITE=NAME", value_parser = spec::named)]
    pub names: Vec<SiteName>,
    /// Report the time from one barrier to another as one phase.
    #[arg(long = "phase", value_name = "NAME=SITE..SITE", value_parser = spec::phase)]
    pub phases: Vec<Conceptual>,
    /// Count how often a function begins or a line (file.c:120) is passed, and measure the
    /// times between these marks.
    #[arg(long = "mark", value_name = "FUNCTION|FILE:LINE[=NAME]", value_parser = spec::mark)]
    pub marks: Vec<Mark>,
    /// Watch a function of the program as a barrier.
    ///
    /// ARG is the number of the argument that is the barrier, 1 to 6; with 0 all calls are
    /// one barrier; without ARG debug information decides. COUNT is the number of the
    /// argument that holds the number of participants. `FILE:LINE`, the line of a loop in
    /// which threads spin, means the barrier inside of a function to which the loop belongs.
    #[arg(long = "barrier", value_name = "SYMBOL[:ARG[:COUNT]]", value_parser = spec::barrier)]
    pub barriers: Vec<UserBarrier>,
    /// Read these counters for each thread and phase, named as in perf; `free` means all
    /// that cost next to nothing. `sbt list` shows the counters of this machine.
    #[arg(short = 'e', long = "events", value_name = "A,B", value_parser = counters::commas)]
    pub events: Vec<Events>,
    /// Sample each thread HZ times per second of its CPU time: shows the time by function,
    /// and the functions on the critical path [default: 0, off].
    #[arg(long, value_name = "HZ", value_parser = value::sample, allow_hyphen_values = true)]
    pub sample: Option<u32>,
    /// Write folded stacks of the samples for flame graphs: `main;f;g 1234`, in µs of
    /// normalised processor time.
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Record the run to a file: `sbt report FILE` shows it later, on any machine. With a folder
    /// (`job/`), `sbt run` gives each rank of an MPI job a file of its own there, HOST-RANK.sbt, and
    /// prints no report: `sbt report FOLDER` shows the job.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Record only the events of the last SECONDS, with statistics of the whole run, so
    /// that the file does not grow with the run.
    #[arg(long, value_name = "SECONDS", value_parser = value::seconds, allow_hyphen_values = true,
          requires = "record", conflicts_with = "stats_only")]
    pub keep: Option<Duration>,
    /// Save what --keep holds to a file of its own whenever this happens: `phase SITE > 50ms`,
    /// `barrier SITE > 5ms`, `idle SITE > 1s` (all without SITE: anywhere), `hang`. The files are
    /// named after --record: run-1.sbt, run-2.sbt …
    #[arg(long, value_name = "RULE", requires = "keep")]
    pub save_when: Vec<SaveRule>,
    /// Record only the statistics for the report.
    #[arg(long, requires = "record")]
    pub stats_only: bool,
    /// Warn of episodes that take longer than MS milliseconds from first to last arrival
    /// [default: 1000].
    #[arg(long, value_name = "MS", value_parser = value::milliseconds, allow_hyphen_values = true)]
    pub warn_time: Option<Duration>,
    /// Do not warn of long episodes.
    #[arg(long)]
    pub no_warnings: bool,
    /// When threads wait at a barrier for this time and no thread arrives, look for the
    /// missing threads and what they do: 10, 30s, 2m, off [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = hang_time, allow_hyphen_values = true)]
    pub hang_time: Option<HangTime>,
    /// Print the time of each phase when it ends.
    #[arg(long)]
    pub phase_times: bool,
    /// Open the live screen; this needs a terminal.
    #[arg(long, overrides_with = "no_tui")]
    pub tui: bool,
    /// Do not open the live screen: the program keeps the terminal.
    #[arg(long, overrides_with = "tui")]
    pub no_tui: bool,
    /// Close the live screen when the program ends, without waiting for a key.
    #[arg(long)]
    pub exit_with_program: bool,
    /// When to use bold and dim text.
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
    /// Write no report to standard error.
    #[arg(short, long)]
    pub quiet: bool,
    /// Show the settings at the start, and where each comes from.
    #[arg(short, long)]
    pub verbose: bool,
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
    fn help_of_scale_shows_where_the_number_goes() {
        let mut command = Cli::command();
        let scale = command.find_subcommand_mut("scale").unwrap();
        let help = scale.render_long_help().to_string();
        for line in [
            "`{n}` in its arguments or in --env becomes",
            "-- PROG [ARG | {n}]...",
            "--env <NAME={n}>",
            "in place of `{NAME}`, and",
            "-- PROG [ARG | {NAME} | {n}]...",
        ] {
            assert!(help.contains(line), "{line}: {help}");
        }
        assert!(!help.contains('\u{1b}'), "{help}");
        // No text of any command has one that would become the end of a line.
        let short = scale.render_help().to_string();
        assert!(short.contains("[ARG | {n}]"), "{short}");
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        for (arguments, words) in [
            (["--name", "lu.c:1"], "SITE=NAME"),
            (["--phase", "p=a"], "SITE..SITE"),
            (["--mark", "12"], "FILE:LINE"),
            (["--barrier", "bar:7"], "1 to 6"),
            (["--watch", "lu.c:0"], "line"),
            (["--warn-time", "soon"], "1000"),
            (["--duration", "soon"], "10s"),
            (["--hang-time", "never"], "or off"),
            (["--hang-time", "-3"], "expected a time such as 10s, or off"),
            (["--events", "cylces"], "`cycles`"),
            (["--sample", "20000"], "1 to 10000"),
            (["--duration", "-1s"], "expected a time such as 10s"),
            (["--warn-time", "-1"], "expected a time such as 1000"),
        ] {
            let all = ["sbt", "run"].iter().chain(&arguments).chain(&["prog"]);
            let error = Cli::try_parse_from(all).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            assert!(!error.contains("-- "), "{error}");
        }
        let error = Cli::try_parse_from(["sbt", "attach", "-1"]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("the number of a process"), "{error}");
    }
}
