//! The destination of a report, and its form.

use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use nix::unistd::{AccessFlags, access};
use serde::Serialize;

use crate::{
    ci,
    show::{table::Style, text},
};
use sbt_engine::{place::printable, report::Report};
use sbt_program::access::typed;

pub mod exports;
mod fresh;
pub mod guard;
mod options;
mod progress;
mod replace;

pub use fresh::Fresh;
pub use options::{Destination, Exports};

/// Style of text in files.
pub const PLAIN: Style = Style {
    width: 80,
    color: false,
    unicode: true,
};

/// Maximum number of saved reports per process and folder.
const MAX_SAVED: usize = 1000;

/// When to use bold and colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The user's wishes for the report.
#[derive(Clone, Debug)]
pub struct Wish {
    /// JSON instead of text. JSON goes to standard output if no file is named.
    pub json: bool,
    /// A file to write to instead of a stream.
    pub file: Option<PathBuf>,
    /// Whether text has bold and colours.
    pub color: Color,
    /// Print no report if all went well and no file was named.
    pub quiet: bool,
    /// Add estimates without the cost of watching to a text report.
    pub compensated: bool,
}

impl Wish {
    fn text(&self, report: &Report, style: Style) -> String {
        text::with(report, style, self.compensated)
    }
}

/// Style of text on standard error.
pub fn style(color: Color, terminal: bool) -> Style {
    let color = match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    };
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_default()
        .to_lowercase();
    Style {
        width: if terminal { terminal_width() } else { 80 },
        color,
        unicode: locale.contains("utf-8") || locale.contains("utf8"),
    }
}

/// Whether a terminal is available for the live screen: it is not dumb, and the shell's job control
/// has sbt in the foreground.
pub fn has_terminal() -> bool {
    let smart = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    let tty = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/tty");
    smart && tty.is_ok_and(|tty| nix::unistd::tcgetpgrp(&tty) == Ok(nix::unistd::getpgrp()))
}

fn terminal_width() -> usize {
    // SAFETY: a structure of integers may be zero; the call fills it.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is standard error, and the structure is the one that TIOCGWINSZ fills.
    let result = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    if result == 0 && size.ws_col > 0 {
        usize::from(size.ws_col).max(60)
    } else {
        80
    }
}

/// Writes a report to its destination.
pub fn deliver(report: &Report, wish: &Wish) -> anyhow::Result<()> {
    deliver_beside(report, wish, |report, style| wish.text(report, style))
}

/// Writes findings about a program that ran beside sbt. Standard output belongs to the program, so
/// it is used only for JSON and only if no program runs. `text` formats the findings for people.
pub fn deliver_beside<T: Serialize>(
    found: &T,
    wish: &Wish,
    text: impl Fn(&T, Style) -> String,
) -> anyhow::Result<()> {
    if let Some(path) = &wish.file {
        let text = if wish.json {
            to_json(found)?
        } else {
            let style = Style {
                color: wish.color == Color::Always,
                ..PLAIN
            };
            text(found, style)
        };
        return write_report(path, &text, wish.json);
    }
    if wish.json {
        return print_json(&to_json(found)?);
    }
    if !wish.quiet {
        let terminal = io::stderr().is_terminal();
        let text = text(found, style(wish.color, terminal));
        let text = ci::tame(&text);
        let result = io::stderr().lock().write_all(text.as_bytes());
        // A terminal that has hung up answers EIO.
        let gone = |error: &io::Error| error.raw_os_error() == Some(libc::EIO);
        if !result.as_ref().is_err_and(gone) {
            ignore_broken_pipe(result).context("writing the report")?;
        }
    }
    Ok(())
}

/// Writes the result of a command that runs no program, to standard output or to a file. `text`
/// formats the result for people.
pub fn deliver_asked<T: Serialize>(
    asked: &T,
    to: &Destination,
    text: impl Fn(&T, Style) -> String,
) -> anyhow::Result<()> {
    let text = match &to.output {
        _ if to.json => to_json(asked)?,
        Some(_) => {
            let color = to.color == Color::Always;
            text(asked, Style { color, ..PLAIN })
        }
        None => text(asked, style(to.color, io::stdout().is_terminal())),
    };
    match &to.output {
        Some(path) => write_report(path, &text, to.json),
        None if to.json => print_json(&text),
        None => print(&ci::tame(&text)),
    }
}

/// Saves a report as text in a new file of the working directory, which is named after the
/// program's process id.
pub fn save(report: &Report, pid: u32) -> anyhow::Result<PathBuf> {
    let names = (1..).map(|number| match number {
        1 => format!("sbt-{pid}.txt"),
        _ => format!("sbt-{pid}-{number}.txt"),
    });
    let text = text::render(report, PLAIN);
    for path in names.take(MAX_SAVED).map(PathBuf::from) {
        let written = match typed::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => Err(error),
            Ok(mut file) => file.write_all(text.as_bytes()),
        };
        written.with_context(|| format!("cannot write {}", path.display()))?;
        return Ok(path);
    }
    anyhow::bail!("this folder has too many saved reports")
}

/// Writes to standard output.
///
/// # Errors
/// The text could not be written completely.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    printed(written.and_then(|()| stdout.flush()))
}

/// Turns the result of writing to standard output into an error with a message.
///
/// # Errors
/// The text could not be written completely.
pub fn printed(written: io::Result<()>) -> anyhow::Result<()> {
    ignore_broken_pipe(written).context("cannot write to standard output")
}

/// Writes JSON to standard output.
pub fn print_json(text: &str) -> anyhow::Result<()> {
    print(&ci::tame_json(text))
}

/// Writes a page to a file.
pub fn write_page(path: &Path, page: &str) -> anyhow::Result<()> {
    write_file(path, page)
}

/// A report as JSON, with a newline at its end.
pub fn to_json(report: &impl serde::Serialize) -> anyhow::Result<String> {
    let mut text = serde_json::to_string_pretty(report).context("writing JSON")?;
    text.push('\n');
    Ok(text)
}

/// A reader that has closed the pipe is no error.
fn ignore_broken_pipe(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Checks, before anything is measured, that a file can be written. [`guard::check`] has to be
/// called first: it checks that the file may be overwritten.
pub fn check_file(path: &Path) -> anyhow::Result<()> {
    let is_fifo = fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo());
    let checked = if is_fifo {
        // Opening the pipe would wait for a reader, and closing it would end the reader's input.
        access(path, AccessFlags::W_OK).map_err(io::Error::from)
    } else {
        typed::write(path).map(drop)
    };
    checked.with_context(|| format!("cannot write {}", path.display()))
}

/// Opens the file for a recording before anything is measured. Its content stays until the
/// recording begins. [`guard::check`] has to be called first: it checks that the file may be
/// overwritten.
///
/// # Errors
/// The file is not regular, or cannot be written.
pub fn for_recording(path: &Path) -> anyhow::Result<fs::File> {
    let shown = printable(&path.to_string_lossy());
    if let Ok(metadata) = fs::metadata(path) {
        anyhow::ensure!(
            metadata.is_file(),
            "cannot record into {shown}: it is not a regular file"
        );
    }
    typed::write(path).with_context(|| format!("cannot write {shown}"))
}

/// Opens the file for folded stacks, and removes its previous content.
///
/// # Errors
/// The file cannot be written.
pub fn for_stacks(path: &Path) -> anyhow::Result<fs::File> {
    let open = || {
        let file = typed::write(path)?;
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        Ok(file)
    };
    let file: io::Result<_> = open();
    file.with_context(|| format!("cannot write {}", printable(&path.to_string_lossy())))
}

/// Writes a report to the file that the user named. If this fails, the report goes to standard
/// error: it may have taken hours to make. `json` says whether the text is JSON.
///
/// # Errors
/// The file could not be written.
pub fn write_report(path: &Path, text: &str, json: bool) -> anyhow::Result<()> {
    write_file(path, text).map_err(|error| {
        let text = if json {
            ci::tame_json(text)
        } else {
            ci::tame(text)
        };
        let said = io::stderr().lock().write_all(text.as_bytes());
        match said {
            Ok(()) => anyhow::anyhow!("{error:#}; the report is on standard error instead"),
            Err(_) => error,
        }
    })
}

/// Writes a file and removes its previous content.
pub fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        let mut file = typed::write(path)?;
        // /dev/stdout and pipes cannot be truncated.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        match file.write_all(text.as_bytes()) {
            // As for standard output: a reader that has closed the pipe is no error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
