//! The libraries that a program's dynamic linker would load, found from files alone: nothing is
//! executed. The rules are those of glibc and musl, in [`glibc`] and [`musl`].
//!
//! All of these files may be hostile: each name and path in them only leads to files that are
//! opened for reading, and the work has a bound.

mod cache;
mod glibc;
mod musl;
mod tokens;
mod walk;
#[cfg(test)]
mod walk_tests;

use std::{
    collections::HashSet,
    env,
    ffi::OsStr,
    fs,
    io::{self, ErrorKind, Read as _},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    rc::Rc,
};

use memchr::memmem;

use super::{
    elf::{self, Dynamic},
    files::FileId,
};
use crate::access::target;
use crate::arch::{self, cpu::Cpu};
use cache::Cache;
use walk::{Files, FoundFile, Object};

/// Lists libraries that are preloaded into every program, whatever the environment says.
const PRELOADED: &str = "/etc/ld.so.preload";

/// The list that `ldconfig` writes, if the linker does not name another.
const CACHE: &str = "/etc/ld.so.cache";

/// The folders of the system, if the linker does not name others.
const SYSTEM: [&str; 4] = ["/lib64/", "/usr/lib64/", "/lib/", "/usr/lib/"];

/// The longest list of libraries or folders that is read from a file, bytes.
const MAX_LIST: u64 = 1 << 16;

/// The longest list of `ldconfig`, bytes: enough for 100 000 libraries.
const MAX_CACHE: u64 = 16 << 20;

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

    /// The part of the environment that counts in a program that gains privileges.
    fn without_paths(&self) -> Self {
        Self {
            current: self.current.clone(),
            ..Self::default()
        }
    }
}

/// The files that `interpreter`, the dynamic linker that `program` asks for, would load for the
/// program, the interpreter among them. `is_secure`: the program gains privileges, so that most of
/// the environment does not count.
///
/// `None` if the interpreter is not a dynamic linker of glibc or musl, or if the program asks for
/// more than any program does that is not hostile.
pub fn libraries(
    program: &Path,
    interpreter: &Path,
    is_secure: bool,
    environment: &Environment,
) -> Option<Vec<PathBuf>> {
    let mut disk = Disk {
        current: &environment.current,
        absent: HashSet::new(),
    };
    let FoundFile::Object(of_program) = disk.open(program) else {
        return None;
    };
    let FoundFile::Object(of_linker) = disk.open(interpreter) else {
        return None;
    };
    // $ORIGIN is the folder of the file itself, whatever links lead to the file.
    let program = target::act(|| fs::canonicalize(program)).ok()?.ok()?;
    let (program, linker) = ((&*program, of_program), (interpreter, of_linker));
    let image = elf::open_regular(interpreter).and_then(|file| elf::map(&file));
    let image = image.ok()?;
    let secure = is_secure.then(|| environment.without_paths());
    let environment = secure.as_ref().unwrap_or(environment);
    let found = if memmem::find(&image, b"/etc/ld-musl-").is_some() {
        let rules = musl_rules(interpreter, is_secure, environment);
        musl::libraries(&mut disk, &rules, program, linker)
    } else if let Some(cache) = path_of_cache(&image) {
        let rules = glibc_rules(&image, &cache, is_secure, environment);
        glibc::libraries(&mut disk, &rules, program, linker)
    } else {
        return None;
    };
    found.ok()
}

fn glibc_rules(
    image: &[u8],
    cache: &Path,
    is_secure: bool,
    environment: &Environment,
) -> glibc::Rules {
    let cpu = Cpu::here();
    let cache = read(cache, MAX_CACHE).unwrap_or_default();
    let of_system = read(Path::new(PRELOADED), MAX_LIST).unwrap_or_default();
    let preloaded = words(&environment.preload, b" :");
    let preloaded = preloaded.chain(of_system.split(|byte| *byte == b'\n').flat_map(|line| {
        let text = line.split(|byte| *byte == b'#').next().unwrap_or_default();
        words(text, b" \t:")
    }));
    glibc::Rules {
        library_path: environment.library_path.clone(),
        preloaded: preloaded.map(<[u8]>::to_vec).collect(),
        cache: Cache::read(&cache, cpu.level),
        system: folders_of_system(image),
        cpu,
        is_secure,
        current: environment.current.as_os_str().as_bytes().to_vec(),
    }
}

fn musl_rules(interpreter: &Path, is_secure: bool, environment: &Environment) -> musl::Rules {
    // The list lies beside the folder of the linker: in /etc for a linker in /lib.
    let prefix = interpreter.parent().and_then(Path::parent);
    let list = prefix
        .unwrap_or_else(|| Path::new(""))
        .join(arch::files::MUSL_FOLDERS);
    let folders = match read(&list, MAX_LIST) {
        Ok(folders) => folders,
        Err(error) if error.kind() == ErrorKind::NotFound => musl::FOLDERS.to_vec(),
        Err(_) => Vec::new(),
    };
    musl::Rules {
        library_path: environment.library_path.clone(),
        preloaded: words(&environment.preload, b" \t\n\r\x0b\x0c:")
            .map(<[u8]>::to_vec)
            .collect(),
        folders,
        is_secure,
        current: environment.current.as_os_str().as_bytes().to_vec(),
    }
}

fn words<'a>(text: &'a [u8], separators: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let words = text.split(|byte| separators.contains(byte));
    words.filter(|word| !word.is_empty())
}

fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = elf::open_regular(path)?;
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Where a linker of glibc finds the list of `ldconfig`: the path is a text in the linker, since
/// each glibc is built for one place. `None` if the image has no such text and so is not a linker
/// of glibc.
fn path_of_cache(image: &[u8]) -> Option<PathBuf> {
    const NAME: &[u8] = b"/ld.so.cache\0";
    let at = memmem::find(image, NAME)?;
    let text = path_that_ends_at(image, at + NAME.len() - 1);
    Some(text.map_or_else(
        || PathBuf::from(CACHE),
        |text| OsStr::from_bytes(text).into(),
    ))
}

/// The folders that a linker of glibc searches last, each with a slash at its end: the longest
/// sequence of such texts in the linker.
fn folders_of_system(image: &[u8]) -> Vec<Vec<u8>> {
    let mut best: Vec<&[u8]> = Vec::new();
    let mut row: Vec<&[u8]> = Vec::new();
    let mut end_of_row = None;
    for at in memmem::find_iter(image, b"/\0") {
        let end = at + 1;
        let Some(text) = path_that_ends_at(image, end).filter(|text| has_library_name(text)) else {
            continue;
        };
        if end_of_row != Some(end - text.len()) {
            row.clear();
        }
        row.push(text);
        end_of_row = Some(end + 1);
        if row.len() > best.len() {
            best.clone_from(&row);
        }
    }
    if best.is_empty() {
        return SYSTEM.map(|folder| folder.as_bytes().to_vec()).to_vec();
    }
    best.into_iter().map(<[u8]>::to_vec).collect()
}

fn has_library_name(folder: &[u8]) -> bool {
    folder
        .split(|byte| *byte == b'/')
        .any(|part| part.starts_with(b"lib"))
}

/// The absolute path that ends at the terminating zero at an offset.
fn path_that_ends_at(image: &[u8], end: usize) -> Option<&[u8]> {
    /// Bytes; longer than any path that a glibc is built for.
    const MAX_LENGTH: usize = 512;
    let before = &image[end.saturating_sub(MAX_LENGTH)..end];
    let is_of_path = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(byte);
    let length = before
        .iter()
        .rev()
        .take_while(|byte| is_of_path(byte))
        .count();
    let text = &before[before.len() - length..];
    text.starts_with(b"/").then_some(text)
}

/// The files of this machine.
struct Disk<'a> {
    /// The folder that relative paths start from.
    current: &'a Path,
    /// Folders that are known not to exist.
    absent: HashSet<PathBuf>,
}

impl Files for Disk<'_> {
    fn open(&mut self, path: &Path) -> FoundFile {
        let path = &*self.current.join(path);
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| self.absent.contains(folder)) {
            return FoundFile::Nothing;
        }
        let file = match elf::open_regular(path) {
            Ok(file) => file,
            Err(error) => {
                if let Some(folder) = folder
                    && error.kind() == ErrorKind::NotFound
                    && target::act(|| !folder.is_dir()).unwrap_or_default()
                {
                    self.absent.insert(folder.to_owned());
                }
                return FoundFile::Nothing;
            }
        };
        let (Ok(id), Ok(image)) = (FileId::of(&file), elf::map(&file)) else {
            return FoundFile::Foreign;
        };
        Dynamic::of(&image).map_or(FoundFile::Foreign, |dynamic| {
            let dynamic = Rc::new(dynamic);
            FoundFile::Object(Object { id, dynamic })
        })
    }
}

#[cfg(test)]
#[path = "linker_tests.rs"]
mod tests;
