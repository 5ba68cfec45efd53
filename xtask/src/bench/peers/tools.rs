//! The tools, and how each is told to do the nearest job that it can.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::programs::{Program, under};
use super::read::{self, Seen};
use crate::process;

/// A tool, or none.
pub struct Tool {
    /// How it is called in tables.
    pub name: &'static str,
    /// The program that must be there, and Debian's package with it.
    pub package: Option<(&'static str, &'static str)>,
    /// Whether it tells who was late.
    pub late: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    /// Its further options.
    Sbt(&'static [&'static str]),
    Bpftrace,
    PerfRecord,
    PerfTrace,
    Strace,
    Ltrace,
    Gdb,
}

/// All of them; the first is none, which says how much a program differs from itself.
pub fn all() -> [Tool; 9] {
    let tool = |name, package, kind, late| Tool {
        name,
        package,
        late,
        kind,
    };
    let perf = Some(("perf", "linux-perf"));
    [
        tool("nothing, again", None, Kind::Nothing, ""),
        tool(
            "`sbt run`",
            None,
            Kind::Sbt(&[]),
            "yes: for each episode, site and thread, with the reason",
        ),
        tool(
            "`sbt run --budget off`",
            None,
            Kind::Sbt(&["--budget", "off"]),
            "the same",
        ),
        tool(
            "`bpftrace`, uprobe and uretprobe, arrivals and time inside by thread",
            Some(("bpftrace", "bpftrace")),
            Kind::Bpftrace,
            "over the whole run: who waits least; no episodes, no places",
        ),
        tool(
            "`perf record`, uprobe",
            perf,
            Kind::PerfRecord,
            "no: times and threads are in its file, for a script of one's own",
        ),
        tool(
            "`perf trace -s -e futex`",
            perf,
            Kind::PerfTrace,
            "over the whole run: who sleeps least, on any futex",
        ),
        tool(
            "`strace -f -c -e trace=futex`",
            Some(("strace", "strace")),
            Kind::Strace,
            "no: one sum for all threads",
        ),
        tool(
            "`ltrace -f -c -x FUNCTION`",
            Some(("ltrace", "ltrace")),
            Kind::Ltrace,
            "no: one sum for all threads",
        ),
        tool(
            "`gdb`, a breakpoint that prints and goes on",
            Some(("gdb", "gdb")),
            Kind::Gdb,
            "no: only the order, and it is that of the stops",
        ),
    ]
}

/// Files that tools write and read.
pub struct Scratch {
    output: PathBuf,
    script: PathBuf,
}

impl Scratch {
    /// In a folder that is there.
    pub fn new(folder: &Path) -> Self {
        Self {
            output: folder.join("output"),
            script: folder.join("script"),
        }
    }
}

/// What was set up for a tool; goes with it.
pub struct Prepared;

/// The event that stands for an arrival, for perf.
const EVENT: &str = "sbt_bench:arrival";

/// Shows what the kernel can trace to a command in a mount space of its own, if nobody has
/// for all.
const TRACEFS: &str = "ls /sys/kernel/tracing/events >/dev/null 2>&1 \
                       || mount -t tracefs tracefs /sys/kernel/tracing || exit 1; exec \"$@\"";

impl Tool {
    /// What has to be done once for all runs of a program.
    ///
    /// # Errors
    /// The tool cannot watch this program here.
    pub fn prepare(&self, program: &Program) -> Result<Option<Prepared>> {
        if self.kind != Kind::PerfRecord {
            return Ok(None);
        }
        // Left over from a run that was killed.
        let _none = process::read(perf(process::command("unshare")).args(["probe", "-d", EVENT]));
        process::read(
            perf(process::command("unshare"))
                .args(["probe", "-q", "-x"])
                .arg(&program.library)
                .arg(format!("{EVENT}={}", program.function)),
        )?;
        Ok(Some(Prepared))
    }

    /// To run a program under it.
    pub fn command(&self, program: &Program, sbt: &Path, scratch: &Scratch) -> Result<Command> {
        // Of a former run.
        let _none = fs::remove_file(&scratch.output);
        let mut command = match self.kind {
            Kind::Nothing => return Ok(program.command()),
            Kind::Sbt(options) => {
                let mut command = under(sbt);
                command.args(["run", "--no-tui", "--quiet", "--json"]);
                command.args(options).arg("--output").arg(&scratch.output);
                command.arg("--");
                command
            }
            Kind::Bpftrace => {
                fs::write(&scratch.script, bpftrace_script(program))?;
                let mut command = under("bpftrace");
                command.args(["-q", "-o"]).arg(&scratch.output);
                command.arg(&scratch.script).arg("-c").arg(line(program));
                return Ok(command);
            }
            Kind::PerfRecord => {
                let mut command = perf(under("unshare"));
                command.args(["record", "-q", "-e", EVENT, "-o"]);
                command.arg(&scratch.output).arg("--");
                command
            }
            Kind::PerfTrace => {
                let mut command = perf(under("unshare"));
                command.args(["trace", "-s", "-e", "futex", "-o"]);
                command.arg(&scratch.output).arg("--");
                command
            }
            Kind::Strace => {
                let mut command = under("strace");
                command.args(["-f", "-c", "-e", "trace=futex", "-o"]);
                command.arg(&scratch.output);
                command
            }
            Kind::Ltrace => {
                let library = program.library.file_name().unwrap_or_default();
                let mut command = under("ltrace");
                command.args(["-f", "-c", "-L", "-x"]);
                command.arg(format!("{}@{}", program.function, library.display()));
                command.arg("-o").arg(&scratch.output);
                command
            }
            Kind::Gdb => {
                fs::write(&scratch.script, gdb_script(program.function))?;
                let mut command = under("gdb");
                command.args(["-q", "-nx", "-batch", "-x"]);
                command.arg(&scratch.script).arg("--args");
                command
            }
        };
        command.args(program.arguments());
        Ok(command)
    }

    /// What it has counted in the run that has just ended and printed `output`; None where
    /// there is nothing to count with.
    pub fn seen(&self, program: &Program, scratch: &Scratch, output: &str) -> Result<Option<Seen>> {
        let written = || fs::read_to_string(&scratch.output).context("it wrote no file");
        let seen = match self.kind {
            Kind::Nothing => return Ok(None),
            Kind::Sbt(_) => read::sbt(&written()?),
            Kind::Bpftrace => read::bpftrace(&written()?),
            Kind::PerfTrace => read::perf_trace(&written()?),
            Kind::Strace => read::strace(&written()?),
            Kind::Ltrace => read::ltrace(&written()?, program.function),
            Kind::Gdb => Some(read::gdb(output)),
            Kind::PerfRecord => {
                let mut report = process::command("perf");
                report
                    .args(["report", "--stats", "-i"])
                    .arg(&scratch.output);
                read::perf_record(&process::read(&mut report)?)
            }
        };
        // A tool that lists nothing has seen nothing.
        Ok(Some(seen.unwrap_or(self.none())))
    }

    fn none(&self) -> Seen {
        match self.kind {
            Kind::PerfTrace | Kind::Strace => Seen::FutexCalls(0),
            _ => Seen::Arrivals(0),
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        let mut remove = perf(process::command("unshare"));
        if let Err(error) = process::read(remove.args(["probe", "-q", "-d", EVENT])) {
            eprintln!("the probe {EVENT} is still there: {error:#}");
        }
    }
}

/// `perf`, started by `unshare`, whose further arguments follow.
fn perf(mut unshare: Command) -> Command {
    unshare.args(["--mount", "sh", "-c", TRACEFS, "sh", "perf"]);
    unshare
}

/// A program and its arguments as one, none of which has a blank.
fn line(program: &Program) -> OsString {
    program.arguments().join(&OsString::from(" "))
}

fn bpftrace_script(program: &Program) -> String {
    let place = format!("{}:{}", program.library.display(), program.function);
    format!(
        "uprobe:{place} /pid == cpid/ {{ @arrivals[tid] = count(); @since[tid] = nsecs; }}\n\
         uretprobe:{place} /@since[tid]/ {{ @inside[tid] = sum(nsecs - @since[tid]); \
         delete(@since[tid]); }}\n"
    )
}

fn gdb_script(function: &str) -> String {
    format!(
        "set pagination off\nset breakpoint pending on\nset debuginfod enabled off\n\
         set print thread-events off\nset print inferior-events off\nbreak {function}\ncommands\n\
         silent\nprintf \"arrival %d\\n\", $_thread\ncontinue\nend\nrun\n"
    )
}
