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
//! | `sbt.toml`, an environment variable, sbt's own search | the caller | [`as_caller`] |
//! | the target: its ELF files, debug links, scripts | the user that the target runs as | [`target`] |
//! | the kernel: `/proc/PID/…` of the target, `/sys` | sbt itself | not here |
//!
//! The caller is the user who has called sudo, doas or pkexec; without these, the caller is the
//! user who runs sbt, without the capabilities that override the permissions of files.

use std::{
    io,
    path::{Path, PathBuf},
};

mod invoker;
pub mod rights;
pub mod target;
pub mod typed;
mod user;

pub use invoker::Invoker;
pub(crate) use invoker::TOLD;
pub use user::{Scope, User, caller, changes_user, is_scoped};

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
    /// Whether the user has typed the path.
    is_typed: bool,
}

impl NamedFile {
    /// A path that the user has typed.
    pub const fn typed(path: PathBuf) -> Self {
        let is_typed = true;
        Self { path, is_typed }
    }

    /// A path from a settings file.
    pub const fn in_settings(path: PathBuf) -> Self {
        let is_typed = false;
        Self { path, is_typed }
    }

    /// Reads the path by `read`, with the caller's rights if settings name the path. For a path
    /// that the user has typed, `read` itself chooses the rights.
    ///
    /// # Errors
    /// Those of `read`, or this thread cannot take the caller's rights.
    pub fn read<T>(&self, read: impl FnOnce(&Path) -> anyhow::Result<T>) -> anyhow::Result<T> {
        if self.is_typed {
            read(&self.path)
        } else {
            as_caller(|| read(&self.path))?
        }
    }
}
