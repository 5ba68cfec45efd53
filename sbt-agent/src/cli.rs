//! What can be typed. Types only: what happens is elsewhere.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};

mod check;
mod layer;

pub use check::Rules;
pub use layer::{layer, say_how_to_watch};

use crate::{
    output::{Color, Destination, Exports},
    settings::{Conceptual, Mark, SiteName, UserBarrier, spec},
};
use sbt_engine::{
    choices::{Backend, Departures, Futexes, States},
    counters::{self, Events},
    live::pace::Speed,
    pattern::Pattern,
    scale::counts::{self, Counts, Variable},
    value,
};

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
        #[arg(value_parser = value::process, allow_negative_numbers = true)]
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
        #[arg(short = 't', long, default_value_t = 4, allow_negative_numbers = true,
              value_parser = clap::value_parser!(u32).range(2..=256))]
        threads: u32,
        /// For how long it works: 10, 2.5s, 2m [default: 8.5s].
        #[arg(long, value_name = "TIME", value_parser = value::seconds, allow_hyphen_values = true)]
        seconds: Option<Duration>,
        /// Let it do an amount of work instead, however long that takes: 1 takes some seconds.
        #[arg(long, allow_negative_numbers = true, conflicts_with = "seconds")]
        scale: Option<f64>,
        /// Which one; `sbt demo list` tells what each shows.
        #[arg(default_value = "lu-block")]
        name: String,
    },
    /// Look at a process that does not go on: who is missing at which barrier, and what that
    /// thread waits for.
    ///
    /// Also of one that hung before sbt came. Root is not needed for processes of your own.
    Hang {
        /// The process, or one of its threads.
        #[arg(value_parser = value::process, allow_negative_numbers = true)]
        pid: u32,
        /// Look at the processes that it has started as well.
        #[arg(long)]
        children: bool,
        /// Where the answer goes.
        #[command(flatten)]
        to: Destination,
    },
    /// Show the report of a recording (`sbt run -o FILE`), or of a report in JSON.
    ///
    /// Neither the program nor any privilege is needed.
    Report {
        /// The recording.
        file: PathBuf,
        /// Also tell the figures as they would be without the cost of watching.
        #[arg(long)]
        compensated: bool,
        /// Write --perfetto, --csv, --csv-episodes and --folded also of a recording that is cut
        /// or damaged: these files do not say what is missing.
        #[arg(long)]
        allow_incomplete: bool,
        /// Other forms.
        #[command(flatten)]
        exports: Exports,
        /// Where the answer goes.
        #[command(flatten)]
        to: Destination,
    },
    /// Show what got slower from one run to another, and whether that is more than noise.
    ///
    /// Sites are found again where lines have moved. Neither the program nor any privilege is
    /// needed.
    Diff {
        /// The run before: a recording (`sbt run -o FILE`), or a report in JSON.
        #[arg(value_name = "BEFORE")]
        before: PathBuf,
        /// The run after, likewise.
        #[arg(value_name = "AFTER")]
        after: PathBuf,
        /// Exit with 1 if the whole run takes longer by more than this, or a site or phase
        /// beyond the noise: 10%.
        #[arg(long, value_name = "PCT", value_parser = value::tolerance, allow_hyphen_values = true)]
        tolerance: Option<f64>,
        /// Compare also a recording that is cut or damaged, by what is left of it.
        #[arg(long)]
        allow_incomplete: bool,
        /// Where the answer goes.
        #[command(flatten)]
        to: Destination,
    },
    /// Judge a run by rules, for CI: a program that is run under watch, or a recording.
    ///
    /// Exit status: 0 all rules hold, 1 one is broken or could not be measured, 3 a hang,
    /// 4 the program failed, 5 too much was lost to judge or a recording is not complete. Rules may also be in sbt.toml,
    /// under [check].
    #[command(
        override_usage = "sbt check [RULES] [OPTIONS] -- PROG [ARGS]...\n       \
        sbt check [RULES] [OPTIONS] FILE"
    )]
    Check {
        /// Write what came of the rules as JUnit, which CI services read.
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
        /// How to watch and report.
        #[command(flatten)]
        options: Options,
        /// Keep root for the program, where sudo was used to start sbt.
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
        /// What must hold.
        #[command(flatten)]
        rules: Box<Rules>,
    },
    /// Run a program at several numbers of threads: how much faster it gets, and which phase
    /// stops doing so.
    #[command(long_about = scale_about(), override_usage = SCALE_USAGE)]
    Scale(Box<Scale>),
    /// Show a recording in the live screen, as it happened, with pause, step and speed.
    ///
    /// Neither the program nor any privilege is needed.
    Replay {
        /// The recording.
        file: PathBuf,
        /// How many times as fast as it happened: 1/16, 1/8 … 1, 2 … 4096, or max.
        #[arg(long, value_name = "TIMES", default_value_t = Speed::Real, allow_hyphen_values = true)]
        speed: Speed,
        /// Bold text and colours.
        #[arg(long, value_enum, default_value_t = Color::Auto)]
        color: Color,
    },
    /// Say what this machine and this user may do, and what to type if not.
    Doctor {
        /// What the kernel says of each of sbt's BPF programs: how many instructions it
        /// has, and how many the verifier has looked at to accept it.
        #[arg(long)]
        programs: bool,
    },
    /// Show which barriers a program or process has; without one, which counters this
    /// machine has, for --events, and which not and why.
    List {
        /// A program, or the number of a process.
        #[arg(value_name = "PROG|PID")]
        of: Option<String>,
    },
    /// Print the script that a shell needs to complete sbt's commands and options.
    Completions {
        /// For which shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the manual pages to a folder, one for sbt and one for each command.
    Man {
        /// The folder; it is made if it is not there.
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// The demo program itself, without the monitor.
    #[command(name = "__demo", hide = true)]
    DemoProgram {
        /// Which one.
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

const SCALE_USAGE: &str = "sbt scale -n LIST [OPTIONS] -- PROG [ARG | {n}]...";

fn scale_about() -> String {
    format!(
        "Run a program at several numbers of threads: how much faster it gets, and which phase \
         stops doing so.\n\n\
         `{PLACE_IN_HELP}` in its arguments or in --env becomes the number; without any, OpenMP \
         programs get it in `OMP_NUM_THREADS`."
    )
}

/// [`counts::PLACE`], which clap takes for the end of a line in texts of help unless
/// something stands in between: a code for terminals that changes nothing, and that is left
/// out where there is none.
const PLACE_IN_HELP: &str = "{\u{1b}[0mn}";

/// What `sbt scale` is told.
#[derive(Args, Debug)]
pub struct Scale {
    /// Numbers of threads: 1,2,4,8.
    #[arg(short = 'n', long = "threads", value_name = "LIST", value_parser = counts::list,
          allow_hyphen_values = true)]
    pub counts: Counts,
    /// Runs at each number; medians count.
    #[arg(long, default_value_t = 3, value_name = "TIMES", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// Set a variable of the program's environment; the number is put into its value too.
    #[arg(long = "env", value_name = "NAME={n}", value_parser = counts::variable)]
    pub variables: Vec<Variable>,
    /// Write a page with plots to a file as well.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// How to watch and report.
    #[command(flatten)]
    pub options: Options,
    /// Keep root for the program, where sudo was used to start sbt.
    #[arg(long)]
    pub as_root: bool,
    /// The number of the one run that this process is for.
    #[arg(long, hide = true, requires = "into")]
    pub one: Option<u32>,
    /// Which of those with this number it is.
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

/// What run, attach and demo have in common. What may also be said in `sbt.toml`
/// or in the environment is not set here unless it was typed.
#[derive(Args, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own, typed or not"
)]
pub struct Options {
    /// Report as JSON, to --output, or to standard output where no program runs.
    #[arg(long)]
    pub json: bool,
    /// Write the report to a file.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Stop watching after this time: 10, 10s, 500ms, 2m. The program runs on.
    #[arg(long, value_name = "TIME", value_parser = value::seconds, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// Watch departures too: they tell how long the release took [default: auto].
    #[arg(long, value_enum)]
    pub departures: Option<Departures>,
    /// How much of its time watching may cost a thread: 2%, 0.5, off. Above it less
    /// is watched, and the report says so [default: 2%].
    #[arg(long, value_name = "PCT", value_parser = budget, allow_hyphen_values = true)]
    pub budget: Option<Budget>,
    /// Tell also what would have been without the cost of watching.
    #[arg(long)]
    pub compensated: bool,
    /// How the program is watched. ebpf needs root or two capabilities; perf and ptrace
    /// are for the user's own processes without any, and cost them more; perf has room for
    /// few barriers [default: ebpf, or ptrace where that is not permitted].
    #[arg(long, value_enum)]
    pub backend: Option<Backend>,
    /// Watch the system calls of futexes: barriers made of nothing else, and
    /// locks. It costs every process a little [default: auto].
    #[arg(long, value_enum)]
    pub futex: Option<Futexes>,
    /// What is asked about threads between barriers: how long they ran, were ready
    /// and blocked; full: also on what, and who took the CPU [default: light].
    #[arg(long, value_enum)]
    pub states: Option<States>,
    /// Watch the processes that the program starts as well [default: in run].
    #[arg(long, overrides_with = "no_children")]
    pub children: bool,
    /// Watch the one process alone.
    #[arg(long, overrides_with = "children")]
    pub no_children: bool,
    /// Tell each episode of a barrier: file.c:120, 120, a function or a name.
    #[arg(long, value_name = "SITE")]
    pub watch: Vec<Pattern>,
    /// Tell each episode of all barriers.
    #[arg(long)]
    pub watch_all: bool,
    /// Give a barrier a name: file.c:120=NAME.
    #[arg(long = "name", value_name = "SITE=NAME", value_parser = spec::named)]
    pub names: Vec<SiteName>,
    /// Take all from one barrier to another as one phase.
    #[arg(long = "phase", value_name = "NAME=SITE..SITE", value_parser = spec::phase)]
    pub phases: Vec<Conceptual>,
    /// Tell when a function begins or a line (file.c:120) is passed.
    #[arg(long = "mark", value_name = "FUNCTION|FILE:LINE[=NAME]", value_parser = spec::mark)]
    pub marks: Vec<Mark>,
    /// Take a function of the program's own as a barrier.
    ///
    /// ARG: which of its arguments is the barrier, from 1 to 6; without it, or
    /// with 0, the function is the one barrier. COUNT: which of them is the
    /// number of participants.
    #[arg(long = "barrier", value_name = "SYMBOL[:ARG[:COUNT]]", value_parser = spec::barrier)]
    pub barriers: Vec<UserBarrier>,
    /// Count these for each thread and phase, as perf names them; `free`: what
    /// costs next to nothing. `sbt list` shows what there is.
    #[arg(short = 'e', long = "events", value_name = "A,B", value_parser = counters::commas)]
    pub events: Vec<Events>,
    /// Sample where threads are so many times a second of their time on a CPU: tells the
    /// time by function, and the functions on the critical path [default: 0, not at all].
    #[arg(long, value_name = "HZ", value_parser = value::sample, allow_hyphen_values = true)]
    pub sample: Option<u32>,
    /// Write folded stacks of the samples for flame graphs: `main;f;g 1234`, µs of
    /// normalised processor time.
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Record the run: `sbt report FILE` shows it later, on any machine.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Keep in the recording what happened in so many last seconds, and statistics of the
    /// whole run: it does not grow with the run.
    #[arg(long, value_name = "SECONDS", value_parser = value::seconds, allow_hyphen_values = true,
          requires = "record", conflicts_with = "stats_only")]
    pub keep: Option<Duration>,
    /// Keep only statistics in the recording: the report.
    #[arg(long, requires = "record")]
    pub stats_only: bool,
    /// Warn of episodes that take longer, from first to last arrival [default: 1000].
    #[arg(long, value_name = "MS", value_parser = value::milliseconds, allow_hyphen_values = true)]
    pub warn_time: Option<Duration>,
    /// Do not warn of long episodes.
    #[arg(long)]
    pub no_warnings: bool,
    /// When threads wait at a barrier for so long and nobody comes, look at who is missing
    /// and what it does: 10, 30s, 2m, off [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = hang_time, allow_hyphen_values = true)]
    pub hang_time: Option<HangTime>,
    /// Tell the time of each phase when it ends.
    #[arg(long)]
    pub phase_times: bool,
    /// Open the live screen, wherever there is a terminal.
    #[arg(long, overrides_with = "no_tui")]
    pub tui: bool,
    /// No live screen: the program keeps the terminal.
    #[arg(long, overrides_with = "tui")]
    pub no_tui: bool,
    /// Close the live screen when the program ends, without waiting for a key.
    #[arg(long)]
    pub exit_with_program: bool,
    /// Bold and dim text.
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
    /// No report on standard error.
    #[arg(short, long)]
    pub quiet: bool,
    /// Show the settings at start, and where each comes from.
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
