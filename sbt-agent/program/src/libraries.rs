//! The files that a program will map, found before it runs.
//!
//! A probe that is attached to a file before the program maps it misses nothing. So sbt finds out
//! what the dynamic linker will load ([`super::linker`]), without executing anything. Libraries
//! that the program loads later are reported by the linker's debugger hook
//! ([`crate::point::Function::LinkerMapped`]).

use std::collections::HashSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::access::target;

use super::{
    arch, elf,
    linker::{self, Environment},
    runtimes::mpi,
};

/// How often the interpreter of a script may be a script again; the kernel's limit.
const MAX_SCRIPTS: usize = 4;

/// How many bytes of a script's first line the kernel reads.
const MAX_SHEBANG: u64 = 256;

/// Where execvp looks if there is no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Files that a program maps. Each file is listed once, and all are readable 64-bit x86 ELF files.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WillMap {
    /// The program, its interpreter, its libraries, and a library of MPI that was installed together
    /// with it. If these are not known, also the system's C
    /// libraries.
    pub certain: Vec<PathBuf>,
    /// The system's C libraries besides: wrappers execute another program that will use them.
    pub possible: Vec<PathBuf>,
}

/// The files that will be mapped when `program` is executed with this process's environment (which
/// names libraries to preload and folders to search).
pub fn will_map(program: &Path) -> WillMap {
    will_map_in(&Environment::here(), program)
}

fn will_map_in(environment: &Environment, program: &Path) -> WillMap {
    let mut files = Files::default();
    let mut all_known = true;
    for program in executed(program) {
        if let Some(interpreter) = files.add(&program) {
            files.add(&interpreter);
            let found = linker::libraries(&program, &interpreter, environment);
            all_known &= found.is_some();
            for library in found.unwrap_or_default() {
                files.add(&library);
            }
            // Python loads MPI's library when a script asks for it, and a launcher starts programs
            // that load it.
            for library in mpi::beside(&program) {
                files.add(&library);
            }
        }
    }
    let known = files.paths.len();
    if files.any_dynamic || known == 0 {
        files.add_well_known();
    }
    let possible = if all_known && known > 0 {
        files.paths.split_off(known)
    } else {
        Vec::new()
    };
    WillMap {
        certain: files.paths,
        possible,
    }
}

/// The C libraries of this system that have barriers of their own.
pub fn well_known() -> Vec<PathBuf> {
    let mut files = Files::default();
    files.add_well_known();
    files.paths
}

/// Finds a program as execvp does: `name` itself if it has a slash, else in the folders of `path`,
/// the value of `PATH`. `None` if there is no such executable file.
///
/// The search has the rights of the user that will execute the program.
pub fn find_program(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    target::act(|| find_executable(name, path)).ok()?
}

fn find_executable(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    let executable = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        (metadata.is_file() && metadata.permissions().mode() & 0o111 != 0).then_some(())
    };
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return executable(&path).map(|()| path);
    }
    if name.is_empty() {
        return None;
    }
    env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH))).find_map(|folder| {
        // An empty entry is the current folder; the result must have a slash.
        let folder = match folder.as_os_str() {
            empty if empty.is_empty() => Path::new("."),
            folder => Path::new(folder),
        };
        let path = folder.join(name);
        executable(&path).map(|()| path)
    })
}

/// The files found so far.
#[derive(Default)]
struct Files {
    paths: Vec<PathBuf>,
    /// Device and inode of each file: several names may lead to one file.
    seen: HashSet<(u64, u64)>,
    any_dynamic: bool,
}

impl Files {
    fn add_well_known(&mut self) {
        for path in arch::files::WELL_KNOWN.map(Path::new) {
            self.add(path);
            // Barriers were in a library of their own before glibc 2.34.
            self.add(&path.with_file_name("libpthread.so.0"));
        }
    }

    /// Adds a file if it is a program or library of this machine and not known yet. Returns its
    /// interpreter, whether it was known or not.
    fn add(&mut self, path: &Path) -> Option<PathBuf> {
        let file = elf::open_regular(path).ok()?;
        let metadata = file.metadata().ok()?;
        let image = elf::map(&file).ok()?;
        elf::load_segments(&image).ok()?;
        if self.seen.insert((metadata.dev(), metadata.ino())) {
            self.paths.push(path.to_owned());
        }
        let interpreter = elf::interpreter(&image);
        self.any_dynamic |= interpreter.is_some();
        interpreter
    }
}

/// The programs that are executed for `program`: the program itself, for a script also its
/// interpreter, and the program that `env` is to find.
fn executed(program: &Path) -> Vec<PathBuf> {
    let mut programs = vec![program.to_owned()];
    let mut newest = program.to_owned();
    for _ in 0..MAX_SCRIPTS {
        let Some((interpreter, argument)) = shebang(&newest) else {
            break;
        };
        programs.push(interpreter.clone());
        newest = interpreter;
        if newest.file_name() == Some(OsStr::new("env")) {
            let path = env::var_os("PATH");
            let found = argument
                .as_deref()
                .and_then(env_program)
                .and_then(|name| find_program(name, path.as_deref()));
            if let Some(found) = found {
                programs.push(found.clone());
                newest = found;
            }
        }
    }
    programs
}

/// Interpreter and argument in the first line of a script.
fn shebang(path: &Path) -> Option<(PathBuf, Option<OsString>)> {
    let mut line = Vec::new();
    let file: File = elf::open_regular(path).ok()?;
    file.take(MAX_SHEBANG).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?;
    let line = line.split(|&byte| byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace);
    let (interpreter, argument) = line.split_at(end.unwrap_or(line.len()));
    if interpreter.is_empty() {
        return None;
    }
    let argument = argument.trim_ascii();
    Some((
        PathBuf::from(OsStr::from_bytes(interpreter)),
        (!argument.is_empty()).then(|| OsString::from_vec(argument.to_vec())),
    ))
}

/// The program in the arguments of `env`: the first that is neither an option nor an assignment.
/// Quotes and options with a separate value are ignored.
fn env_program(arguments: &OsStr) -> Option<&OsStr> {
    arguments
        .as_bytes()
        .split(u8::is_ascii_whitespace)
        .map(|word| word.strip_prefix(b"-S").unwrap_or(word))
        .find(|word| !word.is_empty() && !word.starts_with(b"-") && !word.contains(&b'='))
        .map(OsStr::from_bytes)
}

#[cfg(test)]
#[path = "libraries_tests.rs"]
mod tests;
