//! The common part of both dynamic linkers: the files that have been loaded, and the limits for the
//! work that a hostile program may cause.

use std::{
    collections::HashMap,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    rc::Rc,
};

use super::tokens::MAX_PATH;
use crate::{elf::Dynamic, files::FileId};

/// The most paths that are tried and names that are asked for; programs with hundreds of libraries
/// stay below a tenth of it.
const MAX_STEPS: u32 = 1 << 16;

/// The most bytes of names and paths that are kept of all files.
const MAX_BYTES: usize = 8 << 20;

/// Where a walk finds files: the disk, or a test's replacement.
pub trait Files {
    /// The file at a path.
    fn open(&mut self, path: &Path) -> FoundFile;
}

/// The content of a path.
#[derive(Clone, Debug)]
pub enum FoundFile {
    /// No readable file.
    Nothing,
    /// Something else than a 64-bit x86 ELF file.
    Foreign,
    /// A program or library.
    Object(Object),
}

/// A program or library.
#[derive(Clone, Debug)]
pub struct Object {
    /// Identifies the file: several paths may lead to one file.
    pub id: FileId,
    /// The file's requests to the dynamic linker.
    pub dynamic: Rc<Dynamic>,
}

/// A file that the dynamic linker has loaded.
pub struct Loaded {
    /// The path by which the file was found.
    pub path: Vec<u8>,
    /// The file's requests to the dynamic linker.
    pub dynamic: Rc<Dynamic>,
    /// The number of the file that needed this file first; `None` for the program and its linker.
    pub loader: Option<usize>,
}

/// The files that have been loaded, in the order of loading, and how much work is still allowed.
pub struct Walk<'a, F> {
    files: &'a mut F,
    loaded: Vec<Loaded>,
    ids: HashMap<FileId, usize>,
    names: HashMap<Vec<u8>, usize>,
    steps: u32,
    bytes: usize,
}

/// The program's number among the loaded files.
pub const PROGRAM: usize = 0;

/// The error that the program asks for more than any program does that is not hostile.
#[derive(Debug)]
pub struct TooMuch;

impl<'a, F: Files> Walk<'a, F> {
    pub fn new(files: &'a mut F) -> Self {
        Self {
            files,
            loaded: Vec::new(),
            ids: HashMap::new(),
            names: HashMap::new(),
            steps: MAX_STEPS,
            bytes: MAX_BYTES,
        }
    }

    /// Counts one step.
    pub fn step(&mut self) -> Result<(), TooMuch> {
        self.steps = self.steps.checked_sub(1).ok_or(TooMuch)?;
        Ok(())
    }

    /// The file of a number.
    pub fn at(&self, number: usize) -> &Loaded {
        &self.loaded[number]
    }

    /// The number of files that have been loaded.
    pub fn len(&self) -> usize {
        self.loaded.len()
    }

    /// The number of the loaded file that has a name.
    pub fn named(&self, name: &[u8]) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// Gives a name to a loaded file, unless another file has the name.
    pub fn name(&mut self, name: &[u8], number: usize) {
        if !self.names.contains_key(name) {
            self.names.insert(name.to_vec(), number);
        }
    }

    /// The file at a path; counts as one step.
    pub fn open(&mut self, path: &[u8]) -> Result<FoundFile, TooMuch> {
        self.step()?;
        if path.is_empty() || path.len() >= MAX_PATH {
            return Ok(FoundFile::Nothing);
        }
        Ok(self.files.open(Path::new(OsStr::from_bytes(path))))
    }

    /// Loads a file unless it is loaded already; returns its number.
    pub fn load(
        &mut self,
        path: Vec<u8>,
        object: Object,
        loader: Option<usize>,
    ) -> Result<usize, TooMuch> {
        if let Some(number) = self.ids.get(&object.id) {
            return Ok(*number);
        }
        let size = object.dynamic.bytes() + path.len();
        self.bytes = self.bytes.checked_sub(size).ok_or(TooMuch)?;
        let number = self.loaded.len();
        self.ids.insert(object.id, number);
        self.loaded.push(Loaded {
            path,
            dynamic: object.dynamic,
            loader,
        });
        Ok(number)
    }

    /// The paths of all files but the program.
    pub fn paths(self) -> Vec<PathBuf> {
        let loaded = self.loaded.into_iter().skip(PROGRAM + 1);
        loaded
            .map(|file| PathBuf::from(OsStr::from_bytes(&file.path)))
            .collect()
    }
}
