//! The libraries that a program's dynamic linker would load, found from files alone: nothing is
//! executed.
//!
//! The order of the search is that of glibc (ld.so(8)) and of musl (ldso/dynlink.c). Not followed
//! are words besides `$ORIGIN` in paths, subdirectories for the processor (`glibc-hwcaps`), and that
//! programs which gain privileges ignore the environment: a library that is missed, or taken for
//! another, is found when the program has loaded it.
//!
//! All of these files may be hostile: each name and path in them only leads to files that are
//! opened for reading, and the work has a bound.

mod cache;

use std::{
    collections::HashSet,
    env,
    ffi::OsStr,
    fs,
    io::{self, ErrorKind, Read as _},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use memchr::memmem;

use super::{
    elf::{self, Dynamic},
    file_id::FileId,
};
use crate::access::target;
use crate::arch;
use cache::Cache;

/// Lists libraries that glibc preloads into every program, whatever the environment says.
const PRELOADED: &str = "/etc/ld.so.preload";

/// The list that `ldconfig` writes.
const CACHE: &str = "/etc/ld.so.cache";

/// Where musl looks for libraries if the system has no list of folders.
const MUSL: &[u8] = b"/lib:/usr/local/lib:/usr/lib";

/// The libraries that are parts of musl's linker itself: the name between `lib` and the first dot.
const OF_MUSL: [&[u8]; 7] = [b"c", b"pthread", b"rt", b"m", b"dl", b"util", b"xnet"];

/// The longest list of libraries or folders that is read from a file, bytes.
const MAX_LIST: u64 = 1 << 16;

/// The longest list of `ldconfig`, bytes: enough for 100 000 libraries.
const MAX_CACHE: u64 = 16 << 20;

/// The most paths at which libraries may be; programs with hundreds of libraries stay below a tenth
/// of it, unless each has a long list of folders.
const MAX_PATHS: usize = 1 << 16;

/// The longest name of a file, bytes (`NAME_MAX`).
const MAX_NAME: usize = 255;

/// The longest path that the kernel opens, bytes.
const MAX_PATH: usize = 4096;

/// The most bytes of names and paths that are kept of all files.
const MAX_BYTES: usize = 8 << 20;

/// The environment variables that a dynamic linker obeys.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `LD_LIBRARY_PATH`.
    pub library_path: Vec<u8>,
    /// `LD_PRELOAD`.
    pub preload: Vec<u8>,
    /// The folder that programs are started in.
    pub current: PathBuf,
}

impl Environment {
    /// The environment of this process, which the programs that it starts inherit.
    pub fn here() -> Self {
        let variable = |name| env::var_os(name).unwrap_or_default().into_vec();
        Self {
            library_path: variable("LD_LIBRARY_PATH"),
            preload: variable("LD_PRELOAD"),
            current: env::current_dir().unwrap_or_default(),
        }
    }
}

/// The files that `interpreter`, the dynamic linker that `program` asks for, would load for the
/// program, the interpreter among them.
///
/// `None` if the interpreter is not a dynamic linker of glibc or musl, or if the program asks for
/// more than any program does that is not hostile.
pub fn libraries(
    program: &Path,
    interpreter: &Path,
    environment: &Environment,
) -> Option<Vec<PathBuf>> {
    let image = elf::open_regular(interpreter).and_then(|file| elf::map(&file));
    let image = image.ok()?;
    let is_musl = memmem::find(&image, b"/etc/ld-musl-").is_some();
    if !is_musl && memmem::find(&image, b"/ld.so.cache\0").is_none() {
        return None;
    }
    let (cache, system) = if is_musl {
        (Cache::default(), musl_folders(interpreter))
    } else {
        let list = read(Path::new(CACHE), MAX_CACHE).unwrap_or_default();
        let folders = arch::files::FOLDERS.map(|folder| folder.as_bytes().to_vec());
        (Cache::read(&list), folders.to_vec())
    };
    let mut search = Search {
        environment,
        is_musl,
        cache,
        system,
        loaded: Vec::new(),
        ids: HashSet::new(),
        names: HashSet::new(),
        paths: 0,
        bytes: 0,
    };
    // $ORIGIN is the folder of the file itself, whatever links lead to the file.
    let program = target::act(|| fs::canonicalize(program)).ok()?.ok()?;
    if !search.load(&program, None)? || !search.load(interpreter, None)? {
        return None;
    }
    for name in preloaded(is_musl, environment) {
        search.need(0, &name)?;
    }
    let mut next = 0;
    while next < search.loaded.len() {
        for name in search.loaded[next].dynamic.needed.clone() {
            search.need(next, &name)?;
        }
        next += 1;
    }
    let libraries = search.loaded.into_iter().skip(1);
    Some(libraries.map(|file| file.path).collect())
}

/// The names of the libraries that are loaded before those that the program needs.
fn preloaded(is_musl: bool, environment: &Environment) -> Vec<Vec<u8>> {
    let mut names = words(&environment.preload, b" :\t\n");
    if !is_musl {
        let list = read(Path::new(PRELOADED), MAX_LIST).unwrap_or_default();
        for line in list.split(|byte| *byte == b'\n') {
            let text = line.split(|byte| *byte == b'#').next().unwrap_or_default();
            names.append(&mut words(text, b" \t:"));
        }
    }
    names
}

fn words(text: &[u8], separators: &[u8]) -> Vec<Vec<u8>> {
    let words = text.split(|byte| separators.contains(byte));
    let words = words.filter(|word| !word.is_empty());
    words.map(<[u8]>::to_vec).collect()
}

/// The folders of the list that lies beside the folder of musl's linker: in /etc for a linker in
/// /lib.
fn musl_folders(interpreter: &Path) -> Vec<Vec<u8>> {
    let prefix = interpreter.parent().and_then(Path::parent);
    let list = prefix
        .unwrap_or_else(|| Path::new(""))
        .join(arch::files::MUSL_FOLDERS);
    match read(&list, MAX_LIST) {
        Ok(list) => words(&list, b":\n"),
        Err(error) if error.kind() == ErrorKind::NotFound => words(MUSL, b":"),
        Err(_) => Vec::new(),
    }
}

fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = elf::open_regular(path)?;
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file that the dynamic linker has loaded.
struct Loaded {
    /// The path by which the file was found.
    path: PathBuf,
    /// The file's requests to the dynamic linker.
    dynamic: Dynamic,
    /// The number of the file that needed this file first; `None` for the program and its linker.
    loader: Option<usize>,
}

/// The files that have been loaded so far, in the order of loading, and where others are looked for.
struct Search<'a> {
    environment: &'a Environment,
    is_musl: bool,
    cache: Cache,
    /// The folders that are searched last.
    system: Vec<Vec<u8>>,
    loaded: Vec<Loaded>,
    /// Several paths may lead to one file.
    ids: HashSet<FileId>,
    /// Names that were asked for, or that loaded files have.
    names: HashSet<Vec<u8>>,
    /// The number of paths at which libraries may be, so far.
    paths: usize,
    /// The size of all that is kept of the loaded files.
    bytes: usize,
}

impl Search<'_> {
    /// Loads a library that the file `loader` needs. A missing library keeps the program from
    /// starting: nothing is loaded for it. `None` if there is too much to do.
    fn need(&mut self, loader: usize, name: &[u8]) -> Option<()> {
        if self.is_musl && is_of_musl(name) || self.names.contains(name) {
            return Some(());
        }
        let places = self.places(loader, name);
        self.paths += places.len();
        if self.paths > MAX_PATHS {
            return None;
        }
        for path in places {
            if self.load(&path, Some(loader))? {
                self.names.insert(name.to_vec());
                break;
            }
        }
        Some(())
    }

    /// The paths at which a library that the file `loader` needs may be, in the order of the search.
    fn places(&self, loader: usize, name: &[u8]) -> Vec<PathBuf> {
        if name.contains(&b'/') {
            return self.expand(loader, name).into_iter().collect();
        }
        if name.len() > MAX_NAME {
            return Vec::new();
        }
        let file = OsStr::from_bytes(name);
        let folders = self.folders(loader).into_iter();
        let mut all: Vec<PathBuf> = folders.map(|folder| folder.join(file)).collect();
        all.extend(
            self.cache
                .get(name)
                .map(|path| OsStr::from_bytes(path).into()),
        );
        let system = self.system.iter().map(|folder| OsStr::from_bytes(folder));
        all.extend(system.map(|folder| Path::new(folder).join(file)));
        all
    }

    /// The folders in which a library that the file `loader` needs is looked for before those of the
    /// system.
    fn folders(&self, loader: usize) -> Vec<PathBuf> {
        let own = &self.loaded[loader].dynamic;
        let mut inherited = Vec::new();
        let mut next = (self.is_musl || own.runpath.is_none()).then_some(loader);
        while let Some(number) = next
            && inherited.len() <= MAX_PATHS
        {
            let dynamic = &self.loaded[number].dynamic;
            // A DT_RPATH beside a DT_RUNPATH does not count. For musl both are alike.
            let list = match &dynamic.runpath {
                Some(list) => self.is_musl.then_some(list),
                None => dynamic.rpath.as_ref(),
            };
            if let Some(list) = list {
                inherited.append(&mut self.in_list(number, list));
            }
            next = self.loaded[number].loader;
        }
        let mut folders = self.in_list(0, &self.environment.library_path);
        if self.is_musl {
            folders.append(&mut inherited);
            return folders;
        }
        inherited.append(&mut folders);
        if let Some(list) = &own.runpath {
            inherited.append(&mut self.in_list(loader, list));
        }
        inherited
    }

    /// The folders of a list that the file `owner` names, or the environment. An empty list has no
    /// folders, but for glibc an empty entry in a list is the current folder.
    fn in_list(&self, owner: usize, list: &[u8]) -> Vec<PathBuf> {
        if list.is_empty() {
            return Vec::new();
        }
        let entries = list.split(|byte| b":;\n".contains(byte));
        let folders = entries.filter_map(|entry| match entry {
            b"" => (!self.is_musl).then(|| PathBuf::from(".")),
            entry => self.expand(owner, entry),
        });
        folders.collect()
    }

    /// A path that the file `owner` names, with the folder of that file in place of `$ORIGIN`;
    /// `None` if the path has other words.
    fn expand(&self, owner: usize, path: &[u8]) -> Option<PathBuf> {
        let mut out = Vec::new();
        let mut rest = path;
        while let Some(at) = memchr::memchr(b'$', rest) {
            let whole = self.environment.current.join(&self.loaded[owner].path);
            out.extend_from_slice(&rest[..at]);
            out.extend_from_slice(whole.parent()?.as_os_str().as_bytes());
            let word = &rest[at..];
            let bare = word.strip_prefix(b"$ORIGIN").filter(|rest| {
                let mut behind = rest.iter();
                behind
                    .next()
                    .is_none_or(|next| !next.is_ascii_alphanumeric() && *next != b'_')
            });
            rest = bare.or_else(|| word.strip_prefix(b"${ORIGIN}"))?;
            if out.len() > MAX_PATH {
                return None;
            }
        }
        out.extend_from_slice(rest);
        Some(PathBuf::from(OsStr::from_bytes(&out)))
    }

    /// Loads the file at a path. Returns whether it is a program or library of this machine; `None`
    /// if there is too much to do.
    fn load(&mut self, path: &Path, loader: Option<usize>) -> Option<bool> {
        let opened = elf::open_regular(&self.environment.current.join(path));
        let Ok(file) = opened else {
            return Some(false);
        };
        let (Ok(id), Ok(image)) = (FileId::of(&file), elf::map(&file)) else {
            return Some(false);
        };
        let Ok(dynamic) = Dynamic::of(&image) else {
            return Some(false);
        };
        if !self.ids.insert(id) {
            return Some(true);
        }
        self.bytes += dynamic.bytes() + path.as_os_str().len();
        if self.bytes > MAX_BYTES {
            return None;
        }
        self.names.extend(dynamic.soname.clone());
        let path = path.to_owned();
        self.loaded.push(Loaded {
            path,
            dynamic,
            loader,
        });
        Some(true)
    }
}

/// Whether a name is that of a library that is part of musl's linker, such as `libc.so`.
fn is_of_musl(name: &[u8]) -> bool {
    name.strip_prefix(b"lib").is_some_and(|rest| {
        let mut parts = OF_MUSL.iter().filter_map(|own| rest.strip_prefix(*own));
        parts.any(|behind| behind.starts_with(b"."))
    })
}

#[cfg(test)]
#[path = "linker_tests.rs"]
mod tests;
