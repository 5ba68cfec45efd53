//! Files that the user has typed on the command line.
//!
//! They are opened with the caller's rights, also under sudo: a program that the caller watches can
//! replace folders and files by links, and those lead no further than the caller could go without
//! sudo.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use super::{
    rights::Writing,
    user::{Scope, caller, is_scoped},
};

/// The paths of sbt's own streams, which root's terminal may be, too.
const STREAMS: [&str; 2] = ["/dev/stdout", "/dev/stderr"];

/// Calls `act`, which opens or changes the file at `path`, with the caller's rights.
///
/// # Errors
/// Those of `act`, or this thread cannot take the caller's rights.
pub fn act<T, E: From<io::Error>>(path: &Path, act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let is_stream = STREAMS.iter().any(|stream| path == Path::new(stream));
    let user = caller().filter(|_| !is_stream);
    if user.is_none() && nix::unistd::Uid::effective().is_root() && !is_scoped() {
        let _writing = Writing::begin();
        return act();
    }
    let _scope = Scope::begin(user)?;
    act()
}

fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    act(path, || options.open(path)).map_err(|error| match caller() {
        Some(user) if error.kind() == ErrorKind::PermissionDenied => io::Error::new(
            error.kind(),
            format!(
                "{error} for user {}, as whom sbt under sudo opens files: name another file, or \
                 start sbt from a shell of root (sudo -i)",
                user.uid
            ),
        ),
        _ => error,
    })
}

/// Opens a file for writing, or creates a new file; existing content stays.
///
/// # Errors
/// The caller may not write the file.
pub fn write(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    open(path, options.write(true).create(true).truncate(false))
}

/// Opens an existing file for writing; its content stays.
///
/// # Errors
/// The file does not exist, or the caller may not write it.
pub fn write_existing(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().write(true))
}

/// Creates a new file.
///
/// # Errors
/// The file exists, or the caller may not create it.
pub fn create_new(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().write(true).create_new(true))
}

/// Opens a file of any kind for reading, without waiting for the other end of a pipe.
///
/// # Errors
/// The caller may not read the file.
pub fn read(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    open(path, options.read(true).custom_flags(libc::O_NONBLOCK))
}

/// Removes a file if it is empty.
///
/// # Errors
/// The caller may not remove the file.
pub fn remove_if_empty(path: &Path) -> io::Result<()> {
    act(path, || {
        let is = fs::symlink_metadata(path)?;
        if is.is_file() && is.len() == 0 {
            fs::remove_file(path)?;
        }
        Ok(())
    })
}

/// Creates a folder and its missing parents.
///
/// # Errors
/// The caller may not create one of the folders.
pub fn make_folders(path: &Path) -> io::Result<()> {
    act(path, || fs::create_dir_all(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_made_as_far_as_they_are_missing() {
        let all = tempfile::tempdir().unwrap();
        let folder = all.path().join("a/b/c");
        make_folders(&folder).unwrap();
        make_folders(&folder).unwrap();
        assert!(folder.is_dir());
        fs::write(all.path().join("file"), "").unwrap();
        assert!(make_folders(&all.path().join("file/d")).is_err());
    }

    #[test]
    fn only_what_is_empty_is_removed() {
        let all = tempfile::tempdir().unwrap();
        let at = |name: &str| all.path().join(name);
        fs::write(at("empty"), "").unwrap();
        fs::write(at("full"), "x").unwrap();
        std::os::unix::fs::symlink("empty", at("link")).unwrap();
        for name in ["link", "full", "empty"] {
            remove_if_empty(&at(name)).unwrap();
        }
        assert!(!at("empty").exists() && at("full").exists() && at("link").is_symlink());
    }
}
