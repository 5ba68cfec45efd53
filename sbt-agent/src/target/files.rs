//! Files that the target maps, kept open: the same file by whatever name, also
//! after it was replaced, deleted, or the target's namespace is gone.

use std::{
    fs::File,
    io,
    os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use memmap2::Mmap;

use super::elf::{self, ElfError, Function, Point};

/// What makes a file the same: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// A file with what can be probed in it.
#[derive(Debug)]
pub struct ProbedFile {
    /// Which file.
    pub id: FileId,
    /// Its path as the target sees it.
    pub shown: PathBuf,
    /// Where to put probes; empty if there is nothing to watch.
    pub points: Vec<Point>,
    file: File,
}

impl ProbedFile {
    /// Opens `path` and looks for barrier functions. `shown`: the path as the
    /// target sees it.
    pub fn open(path: &Path, shown: &Path) -> io::Result<Self> {
        let file = elf::open_regular(path)?;
        let meta = file.metadata()?;
        let image = elf::map(&file)?;
        let points = match elf::points(&image) {
            Ok(points) => points,
            // Data, scripts, another machine's code: nothing to probe.
            Err(ElfError::NotElf) => Vec::new(),
            Err(error) => return Err(io::Error::other(error)),
        };
        Ok(Self {
            id: FileId {
                device: meta.dev(),
                inode: meta.ino(),
            },
            shown: shown.to_owned(),
            points,
            file,
        })
    }

    /// Whether it has such a function.
    pub fn has(&self, function: Function) -> bool {
        self.points.iter().any(|point| point.function == function)
    }

    /// A path that opens this very file as long as `self` lives.
    pub fn open_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// The file's bytes.
    pub fn image(&self) -> io::Result<Mmap> {
        elf::map(&self.file)
    }
}
