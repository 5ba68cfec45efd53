//! The tools, and how each is used for the most similar job that it can do.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::programs::{Program, under};
use super::read::{self, Seen};
use crate::process;

/// A tool, or the run without a tool.
pub struct Tool {
    /// Name in tables.
    pub name: &'static str,
    /// The program that must be installed, and its Debian package.
    pub package: Option<(&'static str, &'static str)>,
    /// Whether the tool tells which thread was late.
    pub late: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    /// Additional options of sbt.
    Sbt(&'static [&'static str]),
    Bpftrace,
    PerfRecord,
    PerfTrace,
    Strace,
    Ltrace,
    Gdb,
}

/// All tools. The first is the run without a tool, which shows how much a program's times vary.
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

/// Files that the tools write and read.
pub struct Scratch {
    output: PathBuf,
    script: PathBuf,
}

impl Scratch {
    /// Files in an existing folder.
    pub fn new(folder: &Path) -> Self {
        Self {
            output: folder.join("output"),
            script: folder.join("script"),
        }
    }
}

/// Setup for a tool, undone when this is dropped.
pub struct Prepared;

/// perf's event for an arrival.
const EVENT: &str = "sbt_bench:arrival";

/// Runs a command in a mount namespace of its own with tracefs, unless tracefs is already mounted
/// for all.
const TRACEFS: &str = "ls /sys/kernel/tracing/events >/dev/null 2>&1 \
                       || mount -t tracefs tracefs /sys/kernel/tracing || exit 1; exec \"$@\"";

impl Tool {
    /// Sets up a tool once for all runs of a program.
    ///
    /// # Errors
    /// If the tool cannot watch this program here.
    pub fn prepare(&self, program: &Program) -> Result<Option<Prepared>> {
        if self.kind != Kind::PerfRecord {
            return Ok(None);
        }
        // Remove the event of an earlier run that was killed.
        let _none = process::read(perf(process::command("unshare")).args(["probe", "-d", EVENT]));
        process::read(
            perf(process::command("unshare"))
                .args(["probe", "-q", "-x"])
                .arg(&program.library)
                .arg(format!("{EVENT}={}", program.function)),
        )?;
        Ok(Some(Prepared))
    }

    /// A command that runs a program under the tool.
    pub fn command(&self, program: &Program, sbt: &Path, scratch: &Scratch) -> Result<Command> {
        // The file may be left from an earlier run.
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

    /// The tool's count in the run that has just ended with this `output`; `None` if there is
    /// nothing to count with.
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
        // A tool without any entry has counted 0.
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

/// A command that runs `perf` through `unshare`; further arguments go to perf.
fn perf(mut unshare: Command) -> Command {
    unshare.args(["--mount", "sh", "-c", TRACEFS, "sh", "perf"]);
    unshare
}

/// A program and its arguments in one string; none of them contains a blank.
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
