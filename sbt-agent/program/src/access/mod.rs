//! Opening of files with the rights of the user to whom they belong.
//!
//! sbt often has more rights than the user it works for: sbt is root under sudo, and its binary may
//! have capabilities. A path may come from somebody with fewer rights: the watched program and its
//! folders belong to the user, and either may be hostile. So the origin of a path decides with
//! whose rights sbt opens the file, and all such paths are opened here:
//!
//! | the path comes from | opened with the rights of | in |
//! |---|---|---|
//! | the command line | the caller; under sudo root opens what the caller may not, along a way that only root can have laid | [`typed`] |
//! | `sbt.toml` (files to write) | the caller; only a new file below the folder of `sbt.toml` | [`below`] |
//! | `sbt.toml` (files to read), an environment variable, sbt's own search | the caller | [`as_caller`] |
//! | the target: its ELF files, debug links, scripts | the user that the target runs as | [`target`] |
//! | the kernel: `/proc/PID/…` of the target, `/sys` | sbt itself | not here |
//!
//! The caller is the user who has called sudo, doas or pkexec; without these, the caller is the
//! user who runs sbt, without the capabilities that override the permissions of files.

use std::{
    io,
    path::{Path, PathBuf},
};

pub mod below;
mod invoker;
pub mod rights;
pub mod target;
pub mod typed;
mod user;

pub use invoker::Invoker;
pub(crate) use invoker::TOLD;
pub use user::{Scope, User, caller, changes_user, is_scoped};

use below::Below;

/// Calls `act` with the rights of the caller.
///
/// # Errors
/// This thread cannot take the caller's rights.
pub fn as_caller<T>(act: impl FnOnce() -> T) -> io::Result<T> {
    let _scope = Scope::begin(caller())?;
    Ok(act())
}

/// The path of a file, and whether the user has typed the path or a settings file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// The path as it is written.
    pub path: PathBuf,
    /// The line of the settings that names the path; `None` if the user has typed the path.
    line: Option<Line>,
}

/// A line of a settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    /// The settings file; absolute, or relative to the working directory.
    file: PathBuf,
    /// The line as messages name it: `sbt.toml:3`.
    shown: String,
}

impl NamedFile {
    /// A path that the user has typed.
    pub const fn typed(path: PathBuf) -> Self {
        Self { path, line: None }
    }

    /// A path from the settings file `file`, on the line that messages call `shown`.
    pub fn in_settings(path: PathBuf, file: &Path, shown: String) -> Self {
        let file = file.to_owned();
        let line = Some(Line { file, shown });
        Self { path, line }
    }

    /// Reads the path by `read`, with the caller's rights if settings name the path. For a path
    /// that the user has typed, `read` itself chooses the rights.
    ///
    /// # Errors
    /// Those of `read`, or this thread cannot take the caller's rights.
    pub fn read<T>(&self, read: impl FnOnce(&Path) -> anyhow::Result<T>) -> anyhow::Result<T> {
        match self.line {
            Some(_) => as_caller(|| read(&self.path))?,
            None => read(&self.path),
        }
    }

    /// The checked file to write, for a path from a settings file; `None` if the user has typed the
    /// path. `option`: the command line option to suggest instead.
    ///
    /// # Errors
    /// The path leads out of the folder of the settings.
    pub fn below(&self, option: &'static str) -> anyhow::Result<Option<Below>> {
        let line = self.line.as_ref();
        line.map(|line| Below::new(&line.file, &line.shown, &self.path, option))
            .transpose()
    }
}
