//! How glibc's dynamic linker finds libraries: ld.so(8); elf/dl-load.c, elf/dl-deps.c and
//! elf/rtld.c of glibc.
//!
//! The subdirectories that glibc searched until 2.36 besides `glibc-hwcaps` (`tls`, `haswell` and
//! the like) are not searched here: a library from one of them is found when the program has loaded
//! it.

use std::{
    path::{Path, PathBuf},
    rc::Rc,
};

use crate::arch::cpu::Cpu;

use super::{
    cache::Cache,
    tokens::{Secure, Tokens, folder_of, join},
    walk::{Files, FoundFile, Object, PROGRAM, TooMuch, Walk},
};

/// The inputs of the linker besides the files that it loads.
pub struct Rules {
    /// `LD_LIBRARY_PATH`; empty if it does not count.
    pub library_path: Vec<u8>,
    /// The libraries of `LD_PRELOAD` and of `/etc/ld.so.preload`, in this order.
    pub preloaded: Vec<Vec<u8>>,
    /// The list of `ldconfig`.
    pub cache: Cache,
    /// The system's folders, each with a slash at its end.
    pub system: Vec<Vec<u8>>,
    pub cpu: Cpu,
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
    for (path, object) in [program, linker] {
        let path = path.as_os_str().as_encoded_bytes();
        let soname = object.dynamic.soname.clone();
        let number = walk.load(path.to_vec(), object, None)?;
        if number != PROGRAM {
            walk.name(path, number);
        }
        if let Some(soname) = soname {
            walk.name(&soname, number);
        }
    }
    let mut search = Search { walk, rules };
    let mut order = vec![PROGRAM];
    for name in &rules.preloaded {
        // In names of preloaded libraries, words such as `$ORIGIN` are replaced only if the name is
        // a path.
        let path = search.expand(PROGRAM, name);
        let path = path.filter(|_| name.contains(&b'/'));
        search.need(PROGRAM, path.as_deref().unwrap_or(name), &mut order)?;
    }
    let mut next = 0;
    while let Some(&number) = order.get(next) {
        next += 1;
        let dynamic = Rc::clone(&search.walk.at(number).dynamic);
        for name in &dynamic.needed {
            if let Some(name) = search.expand(number, name) {
                search.need(number, &name, &mut order)?;
            }
        }
    }
    Ok(search.walk.paths())
}

struct Search<'a, F> {
    walk: Walk<'a, F>,
    rules: &'a Rules,
}

impl<F: Files> Search<'_, F> {
    /// Loads a library that the file `loader` needs, and appends it to `order`, the files whose
    /// needs are still to be looked at.
    fn need(&mut self, loader: usize, name: &[u8], order: &mut Vec<usize>) -> Result<(), TooMuch> {
        self.walk.step()?;
        if self.walk.named(name).is_some() {
            return Ok(());
        }
        let found = if name.contains(&b'/') {
            self.object(name)?.map(|object| (name.to_vec(), object))
        } else {
            self.find(loader, name)?
        };
        // A missing library keeps the program from starting: nothing is loaded for it.
        let Some((path, object)) = found else {
            return Ok(());
        };
        let soname = object.dynamic.soname.clone();
        let before = self.walk.len();
        let number = self.walk.load(path, object, Some(loader))?;
        if number == before {
            order.push(number);
        }
        for name in [Some(name), soname.as_deref()].into_iter().flatten() {
            self.walk.name(name, number);
        }
        Ok(())
    }

    /// Looks for a name without a slash where the linker does, in its order.
    fn find(&mut self, loader: usize, name: &[u8]) -> Result<Option<(Vec<u8>, Object)>, TooMuch> {
        let dynamic = Rc::clone(&self.walk.at(loader).dynamic);
        let mut next = dynamic.runpath.is_none().then_some(loader);
        while let Some(number) = next {
            self.walk.step()?;
            let file = self.walk.at(number);
            next = file.loader;
            let dynamic = Rc::clone(&file.dynamic);
            // A DT_RPATH beside a DT_RUNPATH does not count.
            if dynamic.runpath.is_none()
                && let Some(list) = &dynamic.rpath
                && let Some(found) = self.in_list(number, list, b":", name)?
            {
                return Ok(Some(found));
            }
        }
        let rules = self.rules;
        if let Some(found) = self.in_list(PROGRAM, &rules.library_path, b":;", name)? {
            return Ok(Some(found));
        }
        if let Some(list) = &dynamic.runpath
            && let Some(found) = self.in_list(loader, list, b":", name)?
        {
            return Ok(Some(found));
        }
        if let Some(path) = rules.cache.get(name) {
            let is_system = || rules.system.iter().any(|folder| path.starts_with(folder));
            if !(dynamic.skips_system && is_system())
                && let Some(object) = self.object(path)?
            {
                return Ok(Some((path.to_vec(), object)));
            }
        }
        if !dynamic.skips_system {
            for folder in &rules.system {
                if let Some(found) = self.in_folder(folder, name)? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// Looks in the folders of a list from a file or from the environment. An empty list has no
    /// folders, but an empty entry in a list is the current folder.
    fn in_list(
        &mut self,
        owner: usize,
        list: &[u8],
        separators: &[u8],
        name: &[u8],
    ) -> Result<Option<(Vec<u8>, Object)>, TooMuch> {
        if list.is_empty() {
            return Ok(None);
        }
        for entry in list.split(|byte| separators.contains(byte)) {
            self.walk.step()?;
            let folder = match entry {
                b"" => Some(b".".to_vec()),
                entry => self.expand(owner, entry),
            };
            if let Some(folder) = folder.filter(|folder| !folder.is_empty())
                && let Some(found) = self.in_folder(&folder, name)?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Looks in one folder, first in its subdirectories for the processor.
    fn in_folder(
        &mut self,
        folder: &[u8],
        name: &[u8],
    ) -> Result<Option<(Vec<u8>, Object)>, TooMuch> {
        for subfolder in self.rules.cpu.level.folders().chain([Vec::new()]) {
            let path = join(folder, &subfolder, name);
            if let Some(object) = self.object(&path)? {
                return Ok(Some((path, object)));
            }
        }
        Ok(None)
    }

    /// The library at a path; `None` if there is none, or only a file for another processor.
    fn object(&mut self, path: &[u8]) -> Result<Option<Object>, TooMuch> {
        Ok(match self.walk.open(path)? {
            FoundFile::Object(object) => Some(object),
            FoundFile::Foreign | FoundFile::Nothing => None,
        })
    }

    /// A path that the file `owner` names, with its words replaced.
    fn expand(&self, owner: usize, path: &[u8]) -> Option<Vec<u8>> {
        if !path.contains(&b'$') {
            return Some(path.to_vec());
        }
        let rules = self.rules;
        let origin = folder_of(&self.walk.at(owner).path, &rules.current);
        let tokens = Tokens {
            origin: &origin,
            lib: lib(&rules.system),
            platform: rules.cpu.platform.as_bytes(),
            secure: rules.is_secure.then(|| Secure {
                system: (owner == PROGRAM).then_some(&rules.system[..]),
            }),
        };
        tokens.expand(path)
    }
}

/// The value of `$LIB`, from the first of the system's folders: all of the folder from `lib` on, or
/// else its last part.
fn lib(system: &[Vec<u8>]) -> &[u8] {
    let first = system.first().map_or(&b"/lib/"[..], Vec::as_slice);
    let first = first.strip_suffix(b"/").unwrap_or(first);
    let first = first.strip_prefix(b"/usr").unwrap_or(first);
    if first.starts_with(b"/lib") {
        return &first[1..];
    }
    first.rsplit(|byte| *byte == b'/').next().unwrap_or(first)
}

#[cfg(test)]
#[path = "glibc_tests.rs"]
mod tests;
