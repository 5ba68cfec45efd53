//! Where a report goes, and in which form.

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
use sbt_program::access::{Named, typed};

pub mod exports;
mod fresh;
pub mod guard;
mod options;
mod progress;
mod replace;

pub use fresh::Fresh;
pub use options::{Destination, Exports};

/// How a file wants its text.
pub const PLAIN: Style = Style {
    width: 80,
    color: false,
    unicode: true,
};

/// The option that names the file for folded stacks.
pub const FOLDED: &str = "--folded";

/// Reports of one process that are saved in one folder.
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

/// What the user asked for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// JSON instead of text; to standard output if no file is named.
    pub json: bool,
    /// A file instead of a stream.
    pub file: Option<PathBuf>,
    /// See [`Color`].
    pub color: Color,
    /// Nothing, if all went well and no file was named.
    pub quiet: bool,
    /// As text also what would have been unwatched.
    pub compensated: bool,
}

impl Wish {
    fn text(&self, report: &Report, style: Style) -> String {
        text::with(report, style, self.compensated)
    }
}

/// How standard error wants its text.
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

/// Whether there is a terminal that a screen can be opened on: one that is more
/// than a printer, and for us to use by the shell's job control.
pub fn has_terminal() -> bool {
    let smart = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    let tty = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/tty");
    smart && tty.is_ok_and(|tty| nix::unistd::tcgetpgrp(&tty) == Ok(nix::unistd::getpgrp()))
}

fn terminal_width() -> usize {
    // SAFETY: a structure of integers, which the call fills.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is ours and the structure is the one meant.
    let result = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    if result == 0 && size.ws_col > 0 {
        usize::from(size.ws_col).max(60)
    } else {
        80
    }
}

/// Writes a report where it belongs.
pub fn deliver(report: &Report, wish: &Wish) -> anyhow::Result<()> {
    deliver_beside(report, wish, |report, style| wish.text(report, style))
}

/// Writes what was found while a program ran: not to standard output, which is the
/// program's, unless JSON is wanted and no program runs. `text`: how it is written for
/// people.
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
        // So a terminal answers that is gone.
        let gone = |error: &io::Error| error.raw_os_error() == Some(libc::EIO);
        if !result.as_ref().is_err_and(gone) {
            ignore_broken_pipe(result).context("writing the report")?;
        }
    }
    Ok(())
}

/// Writes what was asked for, and not watched beside a program: to standard output, or to
/// a file. `text`: how it is written for people.
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

/// Writes a report as text to a new file of the working directory, named after
/// the target's process id.
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
    anyhow::bail!("there are too many saved reports here")
}

/// Writes to standard output.
///
/// # Errors
/// Not all of it could be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    printed(written.and_then(|()| stdout.flush()))
}

/// What has come of writing to standard output.
///
/// # Errors
/// Not all of it could be written.
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

/// As JSON, on lines of its own.
pub fn to_json(report: &impl serde::Serialize) -> anyhow::Result<String> {
    let mut text = serde_json::to_string_pretty(report).context("writing JSON")?;
    text.push('\n');
    Ok(text)
}

/// A reader that has gone away is no failure of ours.
fn ignore_broken_pipe(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Makes sure, before anything is measured, that a file can be written. That it may be is
/// for [`guard::check`] to say, first.
pub fn check_file(path: &Path) -> anyhow::Result<()> {
    let is_fifo = fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo());
    let checked = if is_fifo {
        // Opening it would wait for a reader, who would have read to the end when it is closed.
        access(path, AccessFlags::W_OK).map_err(io::Error::from)
    } else {
        typed::write(path).map(drop)
    };
    checked.with_context(|| format!("cannot write {}", path.display()))
}

/// Opens the file for a recording before anything is measured; what is in it stays until
/// the recording begins. That it may be written is for [`guard::check`] to say, first.
///
/// # Errors
/// It is no regular file, or cannot be written.
pub fn for_recording(path: &Path) -> anyhow::Result<fs::File> {
    let shown = printable(&path.to_string_lossy());
    if let Ok(metadata) = fs::metadata(path) {
        anyhow::ensure!(
            metadata.is_file(),
            "cannot record into {shown}: it is no regular file"
        );
    }
    typed::write(path).with_context(|| format!("cannot write {shown}"))
}

/// Opens the file for folded stacks, which takes the place of what was there if it was typed,
/// and is new if settings name it.
///
/// # Errors
/// It cannot be written.
pub fn for_stacks(named: &Named) -> anyhow::Result<fs::File> {
    if let Some(below) = named.below(FOLDED)? {
        return below.create();
    }
    let path = &named.path;
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

/// Writes a report to the file that was asked for. A report that cannot be written there goes to
/// standard error: it may have taken hours to make. `json`: what the text is.
///
/// # Errors
/// It could not be written to the file.
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

/// Writes a file of which nothing else is to remain.
pub fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        let mut file = typed::write(path)?;
        // /dev/stdout and pipes cannot be cut off.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        match file.write_all(text.as_bytes()) {
            // As of standard output: whoever reads has had enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
