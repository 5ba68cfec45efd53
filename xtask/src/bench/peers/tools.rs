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
    /// The command that runs a program under the tool; [`Tool::command`] has the words in capitals.
    words: &'static str,
    /// The tool's count in a run.
    read: fn(&Run<'_>) -> Result<Option<Seen>>,
}

/// A run under a tool that has just ended.
pub struct Run<'a> {
    pub program: &'a Program,
    pub printed: &'a str,
    /// The file that the tool writes.
    file: &'a Path,
}

impl Run<'_> {
    fn written(&self) -> Result<String> {
        fs::read_to_string(self.file).context("it wrote no file")
    }
}

/// All tools. The first is the run without a tool, which shows how much a program's times vary.
pub fn all() -> [Tool; 9] {
    let perf = Some(("perf", "linux-perf"));
    [
        Tool {
            name: "nothing, again",
            package: None,
            late: "",
            words: "PROGRAM",
            read: |_| Ok(None),
        },
        Tool {
            name: "`sbt run`",
            package: None,
            late: "yes: for each episode, site and thread, with the reason",
            words: "SBT run --no-tui --quiet --json --output OUTPUT -- PROGRAM",
            read: |run| read::sbt(&run.written()?).map(Some),
        },
        Tool {
            name: "`sbt run --budget off`",
            package: None,
            late: "the same",
            words: "SBT run --no-tui --quiet --json --budget off --output OUTPUT -- PROGRAM",
            read: |run| read::sbt(&run.written()?).map(Some),
        },
        Tool {
            name: "`bpftrace`, uprobe and uretprobe, arrivals and time inside by thread",
            package: Some(("bpftrace", "bpftrace")),
            late: "over the whole run: who waits least; no episodes, no places",
            words: "bpftrace -q -o OUTPUT BPFTRACE_SCRIPT -c LINE",
            read: |run| Ok(read::bpftrace(&run.written()?)),
        },
        Tool {
            name: "`perf record`, uprobe",
            package: perf,
            late: "no: times and threads are in its file, for a script of one's own",
            words: "unshare --mount sh -c TRACEFS sh \
                    perf record -q -e sbt_bench:arrival -o OUTPUT -- PROGRAM",
            read: |run| {
                let mut report = process::command("perf");
                report.args(["report", "--stats", "-i"]).arg(run.file);
                Ok(read::perf_record(&process::read(&mut report)?))
            },
        },
        Tool {
            name: "`perf trace -s -e futex`",
            package: perf,
            late: "over the whole run: who sleeps least, on any futex",
            words: "unshare --mount sh -c TRACEFS sh \
                    perf trace -s -e futex -o OUTPUT -- PROGRAM",
            read: |run| Ok(read::perf_trace(&run.written()?)),
        },
        Tool {
            name: "`strace -f -c -e trace=futex`",
            package: Some(("strace", "strace")),
            late: "no: one sum for all threads",
            words: "strace -f -c -e trace=futex -o OUTPUT PROGRAM",
            read: |run| Ok(read::strace(&run.written()?)),
        },
        Tool {
            name: "`ltrace -f -c -x FUNCTION`",
            package: Some(("ltrace", "ltrace")),
            late: "no: one sum for all threads",
            words: "ltrace -f -c -L -x FUNCTION@LIBRARY -o OUTPUT PROGRAM",
            read: |run| Ok(read::ltrace(&run.written()?, run.program.function)),
        },
        Tool {
            name: "`gdb`, a breakpoint that prints and goes on",
            package: Some(("gdb", "gdb")),
            late: "no: only the order, and it is that of the stops",
            words: "gdb -q -nx -batch -x GDB_SCRIPT --args PROGRAM",
            read: |run| Ok(Some(read::gdb(run.printed))),
        },
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

    /// Writes the script of a tool, and returns its path.
    fn write(&self, script: &str) -> Result<OsString> {
        fs::write(&self.script, script)?;
        Ok(self.script.clone().into())
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
        if !self.words.contains(EVENT) {
            return Ok(None);
        }
        // Remove the event of an earlier run that was killed.
        let _none = process::read(perf_probe().args(["-d", EVENT]));
        process::read(
            perf_probe()
                .args(["-q", "-x"])
                .arg(&program.library)
                .arg(format!("{EVENT}={}", program.function)),
        )?;
        Ok(Some(Prepared))
    }

    /// A command that runs a program under the tool.
    pub fn command(&self, program: &Program, sbt: &Path, scratch: &Scratch) -> Result<Command> {
        // The file may be left from an earlier run.
        let _none = fs::remove_file(&scratch.output);
        let mut words: Vec<OsString> = Vec::new();
        for word in self.words.split_whitespace() {
            let word = match word {
                "PROGRAM" => {
                    words.extend_from_slice(program.arguments());
                    continue;
                }
                // None of the program's arguments contains a blank.
                "LINE" => program.arguments().join(&OsString::from(" ")),
                "SBT" => sbt.into(),
                "OUTPUT" => scratch.output.clone().into(),
                "TRACEFS" => TRACEFS.into(),
                "FUNCTION@LIBRARY" => {
                    let library = program.library.file_name().unwrap_or_default();
                    format!("{}@{}", program.function, library.display()).into()
                }
                "BPFTRACE_SCRIPT" => scratch.write(&bpftrace_script(program))?,
                "GDB_SCRIPT" => scratch.write(&gdb_script(program.function))?,
                word => word.into(),
            };
            words.push(word);
        }
        let mut command = under(&words[0]);
        command.args(&words[1..]);
        Ok(command)
    }

    /// The tool's count in the run that has just ended with this `output`; `None` if there is
    /// nothing to count with.
    pub fn seen(&self, program: &Program, scratch: &Scratch, output: &str) -> Result<Option<Seen>> {
        (self.read)(&Run {
            program,
            printed: output,
            file: &scratch.output,
        })
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Err(error) = process::read(perf_probe().args(["-q", "-d", EVENT])) {
            eprintln!("the probe {EVENT} is still there: {error:#}");
        }
    }
}

/// `perf probe`, where it finds tracefs; further arguments are to be added.
fn perf_probe() -> Command {
    let mut unshare = process::command("unshare");
    unshare.args(["--mount", "sh", "-c", TRACEFS, "sh", "perf", "probe"]);
    unshare
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
