//! Which files a program will map, before it runs.
//!
//! A probe on a file that is attached before the program maps it misses
//! nothing. So `sbt run` asks the program's own interpreter, the dynamic
//! linker, what it would load. What the program loads later on its own, the
//! linker's debugger hook tells ([`crate::target::elf::Function::LinkerMapped`]).

use std::collections::HashSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use crate::{access::target, target::elf};

/// How long the interpreter may take; it takes milliseconds.
const LIST_LIMIT: Duration = Duration::from_secs(1);

/// How much of what it says is read, bytes.
const MAX_LIST: usize = 1 << 20;

/// How often one script's interpreter may be a script again, as the kernel has it.
const MAX_SCRIPTS: usize = 4;

/// How much of a script's first line the kernel reads, bytes.
const MAX_SHEBANG: u64 = 256;

/// C libraries and linkers by the names that distributions give them.
const WELL_KNOWN: [&str; 7] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib64/libc.so.6",
    "/usr/lib64/libc.so.6",
    "/usr/lib/libc.so.6",
    "/lib/libc.so.6",
    "/lib/ld-musl-x86_64.so.1",
];

/// Where execvp looks if there is no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Files that a program maps. Each is there once, and all are readable 64-bit
/// x86 ELF files.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WillMap {
    /// Itself, its interpreter and its libraries; whatever there is, if these
    /// are not known.
    pub certain: Vec<PathBuf>,
    /// The system's C libraries besides: wrappers execute another program that
    /// will use them.
    pub possible: Vec<PathBuf>,
}

/// The files that will be mapped when `program` is executed.
///
/// To ask the interpreter means to execute it, with this process's environment
/// (which names libraries to preload and folders to search) and as `user`, a
/// pair of user and group id, if given: sbt may be running as root for somebody.
pub fn will_map(program: &Path, user: Option<(u32, u32)>) -> WillMap {
    let mut files = Files::default();
    let mut all_listed = true;
    for program in executed(program) {
        let interpreter = files.add(&program);
        if let Some(interpreter) = &interpreter {
            files.add(interpreter);
            let listed = list(interpreter, &program, user);
            all_listed &= listed.is_some();
            for library in listed.unwrap_or_default() {
                files.add(&library);
            }
        }
    }
    let known = files.paths.len();
    if files.any_dynamic || known == 0 {
        files.add_well_known();
    }
    let possible = if all_listed && known > 0 {
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

/// Finds a program as execvp does: `name` itself if it has a slash, else in the
/// folders of `path`, the value of `PATH`. `None` if there is no such file that
/// somebody may execute.
///
/// It is looked for with the rights of the user that will execute it.
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
        // An empty entry is the current folder; the result shall have a slash.
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
    /// Device and inode of each: several names may lead to one file.
    seen: HashSet<(u64, u64)>,
    any_dynamic: bool,
}

impl Files {
    fn add_well_known(&mut self) {
        for path in WELL_KNOWN.map(Path::new) {
            self.add(path);
            // Barriers were in a library of their own before glibc 2.34.
            self.add(&path.with_file_name("libpthread.so.0"));
        }
    }

    /// Adds a file if it is a program or library of this machine and not there
    /// yet, and gives its interpreter in either case.
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

/// The program that is executed for `program`, and any that this one executes
/// first: a script stands for its interpreter and what `env` is to find.
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

/// The program in the arguments of `env`: the first that is neither an option
/// nor an assignment. Quotes and options with a separate value are not looked at.
fn env_program(arguments: &OsStr) -> Option<&OsStr> {
    arguments
        .as_bytes()
        .split(u8::is_ascii_whitespace)
        .map(|word| word.strip_prefix(b"-S").unwrap_or(word))
        .find(|word| !word.is_empty() && !word.starts_with(b"-") && !word.contains(&b'='))
        .map(OsStr::from_bytes)
}

/// What the interpreter says it would load for the program; `None` if it could
/// not be asked or did not answer in time.
fn list(interpreter: &Path, program: &Path, user: Option<(u32, u32)>) -> Option<Vec<PathBuf>> {
    // A program may ask for any interpreter: only those that are known to
    // understand the question are asked.
    if !interpreter.file_name()?.as_bytes().starts_with(b"ld") {
        return None;
    }
    // Nor does root execute what somebody else could have written.
    let owned = fs::metadata(interpreter).ok()?;
    if user.is_none() && nix::unistd::geteuid().is_root() && !is_roots(owned.uid(), owned.mode()) {
        return None;
    }
    let mut command = Command::new(interpreter);
    // With a slash in it, it is neither an option nor looked for elsewhere.
    command.arg("--list").arg(Path::new(".").join(program));
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command.stdout(Stdio::piped());
    if let Some((uid, gid)) = user {
        // This also drops the supplementary groups if sbt is root.
        command.uid(uid).gid(gid);
    }
    let mut child = command.spawn().ok()?;
    let text = child.stdout.take().and_then(all_of);
    // Either it has said all or is late; it must be waited for in both cases.
    let _ = child.kill();
    let _ = child.wait();
    text.map(|text| parse_list(&text))
}

/// All that is written into a pipe until nobody can any more, if that is in time. Not read by a
/// thread of its own: a signal that is to be heard may not come to one that is about to end.
fn all_of(mut pipe: ChildStdout) -> Option<Vec<u8>> {
    let latest = Instant::now() + LIST_LIMIT;
    let mut text = Vec::new();
    let mut part = [0; 4096];
    while text.len() < MAX_LIST {
        let left = latest.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::try_from(left).ok()?) {
            Ok(0) => return None,
            Ok(_) => match pipe.read(&mut part) {
                Ok(0) => break,
                Ok(length) => text.extend_from_slice(&part[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // What was read before an error is still good.
                Err(_) => break,
            },
            Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
    Some(text)
}

/// Whether nobody but root may write a file, by its owner and its mode.
fn is_roots(owner: u32, mode: u32) -> bool {
    owner == 0 && mode & 0o022 == 0
}

/// Reads the output of `ld.so --list`, of glibc and musl alike:
/// `libc.so.6 => /lib/libc.so.6 (0x7f…)` or `/lib/ld.so (0x7f…)`.
fn parse_list(text: &[u8]) -> Vec<PathBuf> {
    text.split(|&byte| byte == b'\n')
        .filter_map(|line| {
            // Searched from the end: paths may have spaces and parentheses.
            let end = find_last(line, b" (0x")?;
            let (line, address) = (line[..end].trim_ascii_start(), &line[end + 4..]);
            let digits = address.strip_suffix(b")")?;
            if !digits.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            let path = match find_first(line, b" => ") {
                Some(at) => &line[at + 4..],
                None => line,
            };
            // The vdso has no path.
            path.contains(&b'/')
                .then(|| PathBuf::from(OsStr::from_bytes(path)))
        })
        .collect()
}

fn find_first(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn find_last(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).rposition(|window| window == part)
}

#[cfg(test)]
#[path = "libraries_tests.rs"]
mod tests;
