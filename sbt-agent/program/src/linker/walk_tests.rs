//! Files of tests, in place of the files of the disk.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    rc::Rc,
};

use super::walk::{Files, FoundFile, Object};
use crate::{elf::Dynamic, files::FileId};

/// Files by path, and the paths that were tried.
#[derive(Default)]
pub struct Fake {
    files: HashMap<PathBuf, FoundFile>,
    inodes: u64,
    pub tried: Vec<PathBuf>,
}

impl Files for Fake {
    fn open(&mut self, path: &Path) -> FoundFile {
        self.tried.push(path.to_owned());
        self.files.get(path).cloned().unwrap_or(FoundFile::Nothing)
    }
}

impl Fake {
    /// Adds a file that needs these libraries.
    pub fn add(&mut self, path: &str, needed: &[&str]) -> Object {
        self.add_with(path, needed, |_| {})
    }

    /// Adds a file that needs these libraries, with changes to its dynamic table by `more`.
    pub fn add_with(
        &mut self,
        path: &str,
        needed: &[&str],
        more: impl FnOnce(&mut Dynamic),
    ) -> Object {
        let mut dynamic = Dynamic {
            needed: needed.iter().map(|name| name.as_bytes().to_vec()).collect(),
            ..Dynamic::default()
        };
        more(&mut dynamic);
        self.inodes += 1;
        let object = Object {
            id: FileId {
                device: 1,
                inode: self.inodes,
            },
            dynamic: Rc::new(dynamic),
        };
        let found = FoundFile::Object(object.clone());
        self.files.insert(PathBuf::from(path), found);
        object
    }

    /// Adds a file of another processor.
    pub fn add_foreign(&mut self, path: &str) {
        self.files.insert(PathBuf::from(path), FoundFile::Foreign);
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }
}
