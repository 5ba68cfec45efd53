//! Opening a file that a process has mapped from outside: exactly that file, whatever lies at its
//! path by now, and whichever root the process has.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::folder;
use crate::{access::target, file_id::FileId, vdso};

/// An executable mapping of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Offset in the file of the first address.
    pub offset: u64,
    /// The path of the file as the target sees it.
    pub path: PathBuf,
    /// Identifies the file.
    pub(crate) id: FileId,
}

/// Why a mapped file cannot be opened.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Closed {
    /// The file is gone, or the mapping is not of a file.
    #[error("it is gone")]
    Gone,
    /// The file is there, and this capability would help to open it.
    #[error("missing {0}")]
    Missing(&'static str),
}

impl Mapping {
    /// The address of the byte at an offset of the file; `None` if it is not mapped here.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let at = self.start.checked_add(offset.checked_sub(self.offset)?)?;
        (at < self.end).then_some(at)
    }

    /// Opens the mapped file by the kernel's own link to it, which works for deleted files and
    /// other namespaces but not for every user; else by path.
    pub fn file(&self, pid: u32) -> Result<File, Closed> {
        if vdso::is(&self.path) {
            let file = vdso::path().and_then(|path| target::open_as_sbt(&path));
            return file.map_err(|_| Closed::Gone);
        }
        let link = format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end);
        target::open_as_sbt(Path::new(&link)).or_else(|by_link| {
            let by_path = self.by_path(pid);
            by_path.map_err(|by_path| {
                let root = fs::read_link(folder(pid).join("root"));
                let may_look =
                    !root.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
                why(&self.path, may_look, by_link.kind(), by_path.kind())
            })
        })
    }

    /// Opens the file by its path below the target's root. For a target that has changed its root,
    /// the kernel tells the path below sbt's own root, which is tried next. A file that has
    /// replaced the mapped file since is not opened.
    ///
    /// The content of the file is in the process's memory, so sbt may read the file with its own
    /// rights. With these rights sbt opens no other file to which a path leads.
    fn by_path(&self, pid: u32) -> io::Result<File> {
        let root = folder(pid).join("root");
        let is_it = |device, inode| FileId { device, inode } == self.id;
        target::open_known(Some(&root), &self.path, is_it)
            .or_else(|_| target::open_known(None, &self.path, is_it))
            .or_else(|_| target::open_below(&root, &self.path).and_then(|file| self.check(file)))
    }

    /// Accepts a file by its inode alone if mappings have another device number than files, as on
    /// some file systems.
    fn check(&self, file: File) -> io::Result<File> {
        let id = FileId::of(&file)?;
        if id.inode == self.id.inode || id.device != self.id.device {
            return Ok(file);
        }
        Err(ErrorKind::NotFound.into())
    }

    /// Whether the mapping is a part of this file.
    pub fn is_of(&self, file: FileId) -> bool {
        self.id == file
    }
}

/// Why the file could not be opened: names the capability that would have helped, if any.
fn why(path: &Path, may_look: bool, by_link: ErrorKind, by_path: ErrorKind) -> Closed {
    if !may_look {
        return Closed::Missing("CAP_SYS_PTRACE");
    }
    let path = path.to_string_lossy();
    // Memory without a file that was made executable has such names as well.
    let is_memory = ["/memfd:", "/SYSV", "/dev/"];
    let was_file = !is_memory.iter().any(|start| path.starts_with(start));
    match (by_link, by_path) {
        (ErrorKind::PermissionDenied, ErrorKind::PermissionDenied) => {
            Closed::Missing("CAP_DAC_READ_SEARCH")
        }
        (ErrorKind::PermissionDenied, ErrorKind::NotFound) if was_file => {
            Closed::Missing("CAP_CHECKPOINT_RESTORE")
        }
        _ => Closed::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn the_capability_that_is_missing_is_named() {
        use ErrorKind::{NotFound, PermissionDenied};
        let looked = why;
        let why = |path: &str, by_link, by_path| looked(Path::new(path), true, by_link, by_path);
        assert_eq!(
            why("/home/a/prog", PermissionDenied, PermissionDenied),
            Closed::Missing("CAP_DAC_READ_SEARCH")
        );
        assert_eq!(
            why("/lib/a.so (deleted)", PermissionDenied, NotFound),
            Closed::Missing("CAP_CHECKPOINT_RESTORE")
        );
        let jit = "/memfd:jit (deleted)";
        assert_eq!(why(jit, PermissionDenied, NotFound), Closed::Gone);
        assert_eq!(why("/lib/a.so", NotFound, NotFound), Closed::Gone);
        assert_eq!(
            looked(
                Path::new("/lib/a.so"),
                false,
                PermissionDenied,
                PermissionDenied
            ),
            Closed::Missing("CAP_SYS_PTRACE")
        );
    }

    #[test]
    fn what_took_the_place_of_a_file_is_another() {
        let pid = std::process::id();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        let mut mapping = process::mappings(pid).swap_remove(0);
        mapping.id = FileId::of(&File::open(&path).unwrap()).unwrap();
        mapping.path.clone_from(&path);
        assert_eq!(
            mapping
                .by_path(pid)
                .map(|file| FileId::of(&file).unwrap())
                .unwrap(),
            mapping.id
        );
        let new = folder.path().join("b");
        fs::write(&new, "new").unwrap();
        fs::rename(&new, &path).unwrap();
        assert!(mapping.by_path(pid).is_err());
    }
}
