//! How musl's dynamic linker finds libraries: `load_library`, `path_open` and `fixup_rpath` of
//! ldso/dynlink.c.

use std::{
    path::{Path, PathBuf},
    rc::Rc,
};

use super::{
    tokens::{folder_of, join},
    walk::{Files, FoundFile, Object, PROGRAM, TooMuch, Walk},
};

/// Where libraries are looked for if the system has no list of folders.
pub const FOLDERS: &[u8] = b"/lib:/usr/local/lib:/usr/lib";

/// The libraries that are parts of the linker itself: the name between `lib` and the first dot.
const OWN: [&[u8]; 7] = [b"c", b"pthread", b"rt", b"m", b"dl", b"util", b"xnet"];

/// The longest name of a library that is looked for, bytes.
const MAX_NAME: usize = 255;

/// The longest list of folders after its words are replaced, bytes.
const MAX_LIST: usize = 1 << 20;

/// The linker's number among the loaded files.
const LINKER: usize = PROGRAM + 1;

/// The inputs of the linker besides the files that it loads.
pub struct Rules {
    /// `LD_LIBRARY_PATH`; empty if it does not count.
    pub library_path: Vec<u8>,
    /// The libraries of `LD_PRELOAD`.
    pub preloaded: Vec<Vec<u8>>,
    /// The folders of the system, separated by colons or newlines.
    pub folders: Vec<u8>,
    /// Whether the program gains privileges (`AT_SECURE`).
    pub is_secure: bool,
    /// The folder that relative paths start from.
    pub current: Vec<u8>,
}

/// The libraries that the linker loads for a program, and the linker itself.
///
/// # Errors
/// The program asks for more than any program does that is not hostile.
pub fn libraries(
    files: &mut impl Files,
    rules: &Rules,
    program: (&Path, Object),
    linker: (&Path, Object),
) -> Result<Vec<PathBuf>, TooMuch> {
    let mut walk = Walk::new(files);
    walk.name(linker.0.as_os_str().as_encoded_bytes(), LINKER);
    for (path, object) in [program, linker] {
        walk.load(path.as_os_str().as_encoded_bytes().to_vec(), object, None)?;
    }
    let mut search = Search { walk, rules };
    for name in &rules.preloaded {
        search.need(PROGRAM, name)?;
    }
    let mut next = 0;
    while next < search.walk.len() {
        let dynamic = Rc::clone(&search.walk.at(next).dynamic);
        for name in &dynamic.needed {
            search.need(next, name)?;
        }
        next += 1;
    }
    Ok(search.walk.paths())
}

struct Search<'a, F> {
    walk: Walk<'a, F>,
    rules: &'a Rules,
}

impl<F: Files> Search<'_, F> {
    fn need(&mut self, loader: usize, name: &[u8]) -> Result<(), TooMuch> {
        self.walk.step()?;
        if is_own(name) || self.walk.named(name).is_some() {
            return Ok(());
        }
        let by_path = name.contains(&b'/');
        let path = if by_path {
            Some(name.to_vec())
        } else {
            self.find(loader, name)?
        };
        let found = match &path {
            Some(path) => self.walk.open(path)?,
            None => FoundFile::Nothing,
        };
        if let (Some(path), FoundFile::Object(object)) = (path, found) {
            let number = self.walk.load(path, object, Some(loader))?;
            if !by_path {
                self.walk.name(name, number);
            }
        }
        Ok(())
    }

    /// The first file of a name where the linker looks for it, even if the file is not a library.
    fn find(&mut self, loader: usize, name: &[u8]) -> Result<Option<Vec<u8>>, TooMuch> {
        if name.len() > MAX_NAME {
            return Ok(None);
        }
        if let Some(path) = self.in_list(&self.rules.library_path, name)? {
            return Ok(Some(path));
        }
        let mut next = Some(loader);
        while let Some(number) = next {
            self.walk.step()?;
            next = self.walk.at(number).loader;
            if let Some(list) = self.run_path(number)
                && let Some(path) = self.in_list(&list, name)?
            {
                return Ok(Some(path));
            }
        }
        self.in_list(&self.rules.folders, name)
    }

    fn in_list(&mut self, list: &[u8], name: &[u8]) -> Result<Option<Vec<u8>>, TooMuch> {
        let folders = list.split(|byte| b":\n".contains(byte));
        for folder in folders.filter(|folder| !folder.is_empty()) {
            let path = join(folder, b"", name);
            if !matches!(self.walk.open(&path)?, FoundFile::Nothing) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// The folders that a file names. `$ORIGIN` is the only word that musl replaces.
    fn run_path(&self, number: usize) -> Option<Vec<u8>> {
        let file = self.walk.at(number);
        let list = file
            .dynamic
            .runpath
            .as_ref()
            .or(file.dynamic.rpath.as_ref())?;
        if !list.contains(&b'$') {
            return Some(list.clone());
        }
        let is_relative = !file.path.starts_with(b"/");
        if self.rules.is_secure && (number == PROGRAM || is_relative) {
            return None;
        }
        let origin = folder_of(&file.path, &self.rules.current);
        expand(list, &origin)
    }
}

/// Replaces `$ORIGIN` in a list of folders; `None` if the list has another word.
fn expand(list: &[u8], origin: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = list;
    while let Some(at) = memchr::memchr(b'$', rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(origin);
        let word = &rest[at..];
        rest = word
            .strip_prefix(b"$ORIGIN")
            .or_else(|| word.strip_prefix(b"${ORIGIN}"))?;
        if out.len() > MAX_LIST {
            return None;
        }
    }
    out.extend_from_slice(rest);
    Some(out)
}

/// Whether a name is that of a library that is part of the linker itself, such as `libc.so`.
fn is_own(name: &[u8]) -> bool {
    name.strip_prefix(b"lib").is_some_and(|rest| {
        let mut parts = OWN.iter().filter_map(|own| rest.strip_prefix(*own));
        parts.any(|behind| behind.starts_with(b"."))
    })
}

#[cfg(test)]
#[path = "musl_tests.rs"]
mod tests;
