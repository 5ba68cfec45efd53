//! Which files are opened with whose rights.
//!
//! sbt often has more rights than the user it works for: it is root under sudo, and its binary may have capabilities. A
//! path may come from somebody with fewer rights: the watched program and its folders are the user's, and either may be
//! hostile. So the origin of a path decides with whose rights sbt opens the file, and all such paths are opened here:
//!
//! | the path comes from | opened with the rights of | in |
//! |---|---|---|
//! | the command line | the caller; under sudo root opens what the caller may not, along a way that only root can have laid | [`typed`] |
//! | `sbt.toml` (what is written) | the caller; only a new file below the folder of `sbt.toml` | [`below`] |
//! | `sbt.toml` (what is read), an environment variable, sbt's own search | the caller | [`as_caller`] |
//! | the target: its ELF files, debug links, scripts | the user that the target runs as | [`target`] |
//! | the kernel: `/proc/PID/…` of the target, `/sys` | sbt itself | not here |
//!
//! The caller is the user who has called sudo, doas or pkexec, and otherwise the user who runs sbt, without the
//! capabilities that pass over the permissions of files.

use std::{
    io,
    path::{Path, PathBuf},
};

pub mod below;
mod invoker;
pub mod target;
pub mod typed;
mod user;

pub use invoker::Invoker;
pub(crate) use invoker::TOLD;
pub use user::{Scope, User, caller, changes_user, is_scoped};

use below::Below;

/// Does something with the rights of the caller.
///
/// # Errors
/// This thread cannot take the caller's rights.
pub fn as_caller<T>(act: impl FnOnce() -> T) -> io::Result<T> {
    let _scope = Scope::begin(caller())?;
    Ok(act())
}

/// A file, and whether the user has typed its path or a file of settings names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The path as it is written.
    pub path: PathBuf,
    /// The line of the settings that has it; `None` if it was typed.
    line: Option<Line>,
}

/// A line of a file of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    /// The file, absolute or from the working directory.
    file: PathBuf,
    /// As messages name it: `sbt.toml:3`.
    shown: String,
}

impl Named {
    /// A path that the user has typed.
    pub const fn typed(path: PathBuf) -> Self {
        Self { path, line: None }
    }

    /// A path in the file of settings `file`, on the line that messages call `shown`.
    pub fn in_settings(path: PathBuf, file: &Path, shown: String) -> Self {
        let file = file.to_owned();
        let line = Some(Line { file, shown });
        Self { path, line }
    }

    /// Reads what the path names, by `read`, with the rights that its origin has.
    ///
    /// # Errors
    /// Those of `read`, or this thread cannot take the caller's rights.
    pub fn read<T>(&self, read: impl FnOnce(&Path) -> anyhow::Result<T>) -> anyhow::Result<T> {
        match self.line {
            Some(_) => as_caller(|| read(&self.path))?,
            None => read(&self.path),
        }
    }

    /// What a file of settings names to be written, and may have written; `None` if the path was typed. `option`: what
    /// to type instead.
    ///
    /// # Errors
    /// The path leads out of the folder of the settings.
    pub fn below(&self, option: &'static str) -> anyhow::Result<Option<Below>> {
        let line = self.line.as_ref();
        line.map(|line| Below::new(&line.file, &line.shown, &self.path, option))
            .transpose()
    }
}
