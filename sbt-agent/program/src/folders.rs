//! The folders of /proc about processes and their threads.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::status::Status;

/// The folder in /proc about a process: the process's own or, when its first thread has ended
/// before the others, that of a living thread.
pub fn folder(pid: u32) -> PathBuf {
    let own = PathBuf::from(format!("/proc/{pid}"));
    if is_alive(&own) {
        return own;
    }
    tasks(pid).find(|task| is_alive(task)).unwrap_or(own)
}

/// The folders of the threads of a process; none if the process is gone.
pub(crate) fn tasks(pid: u32) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .filter_map(|task| Some(task.ok()?.path()))
}

/// Whether a thread, by its folder, has not ended.
pub(crate) fn is_alive(folder: &Path) -> bool {
    match Status::read(folder) {
        Ok(status) => !status
            .field("State")
            .is_some_and(|state| state.starts_with(['Z', 'X'])),
        // No other error means that the thread has ended: sbt may just have no file descriptor
        // left.
        Err(error) => {
            error.kind() != io::ErrorKind::NotFound && error.raw_os_error() != Some(libc::ESRCH)
        }
    }
}
