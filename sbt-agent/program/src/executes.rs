//! Whether a program will execute other programs, and which, as far as files tell: wrappers (`env`,
//! `timeout`, a shell, `mpirun`) have them among their arguments, scripts in their text.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs,
    io::Read,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{elf, files::ProbedFile, libraries::find_program};

/// The most programs that are found: each costs milliseconds.
const MAX_PROGRAMS: usize = 8;

/// The most words that are looked at: a program may be given thousands of files.
const MAX_WORDS: usize = 256;

/// The most bytes of a script that are read.
const MAX_SCRIPT: u64 = 1 << 16;

/// Whether a program is known to start processes: one of its files, except for the C library
/// itself, uses a function that does.
pub fn start_processes(files: &[Arc<ProbedFile>]) -> bool {
    import_any(
        files,
        &[
            "fork",
            "vfork",
            "_Fork",
            "clone",
            "posix_spawn",
            "posix_spawnp",
            "popen",
            "system",
            "forkpty",
            "daemon",
        ],
    )
}

/// Whether a program is known to execute others, in its own process or in new ones. `files`: the
/// program itself first. A dynamic linker loads its argument into its own process, which counts as
/// execution, too.
pub fn execute_others(files: &[Arc<ProbedFile>]) -> bool {
    if files.first().is_some_and(|file| file.is_loader()) {
        return true;
    }
    let executes = [
        "execv", "execve", "execvp", "execvpe", "execl", "execlp", "execle", "execveat", "fexecve",
    ];
    start_processes(files) || import_any(files, &executes)
}

/// Whether a program uses tasks of OpenMP, by its files.
pub fn use_openmp_tasks(files: &[Arc<ProbedFile>]) -> bool {
    import_any(
        files,
        &[
            "GOMP_task",
            "GOMP_taskloop",
            "GOMP_taskloop_ull",
            "__kmpc_omp_task_alloc",
        ],
    )
}

fn import_any(files: &[Arc<ProbedFile>], names: &[&str]) -> bool {
    let names: HashSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut files = files.iter().filter(|file| !file.is_linker);
    files.any(|file| file.imports_any(&names))
}

/// Programs that a script names, or that the arguments of a script or program name; the words of an
/// argument count as well, because the argument may be a shell's commands. `path`: the value of
/// `PATH`, in which names without a slash are looked for. Names without a slash in a script are
/// ignored: scripts are full of tools.
pub fn programs_named(
    program: &Path,
    arguments: &[OsString],
    path: Option<&OsStr>,
) -> Vec<PathBuf> {
    let mut found = NamedPrograms::default();
    found.add_script(program);
    let words = arguments.iter().flat_map(|all| words(all.as_bytes()));
    let words = words.filter(|word| !word.starts_with(b"-"));
    for word in words.take(MAX_WORDS) {
        let word = OsStr::from_bytes(word);
        found.add_program(find_program(word, path));
        found.add_script(Path::new(word));
    }
    found.programs
}

/// The words of a shell's commands, or of another language's.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b";&|()[]{}<>,'\"`".contains(byte);
    text.split(is_end).filter(|word| !word.is_empty())
}

#[derive(Default)]
struct NamedPrograms {
    programs: Vec<PathBuf>,
}

impl NamedPrograms {
    fn add_program(&mut self, program: Option<PathBuf>) {
        let is_full = self.programs.len() >= MAX_PROGRAMS;
        let is_new = |program: &PathBuf| !is_full && !self.programs.contains(program);
        let program = program.filter(|program| is_new(program) && is_elf(program));
        self.programs.extend(program);
    }

    /// Adds the programs that a file names, if it is a script.
    fn add_script(&mut self, file: &Path) {
        let Ok(mut file) = elf::open_regular(file) else {
            return;
        };
        let (mut start, mut text) = ([0; 2], Vec::new());
        let is_script = file.read_exact(&mut start).is_ok() && start == *b"#!";
        if !is_script || file.take(MAX_SCRIPT).read_to_end(&mut text).is_err() {
            return;
        }
        let commands = text.iter().position(|byte| *byte == b'\n');
        for word in words(&text[commands.unwrap_or(text.len())..]) {
            if word.contains(&b'/') {
                self.add_program(Some(PathBuf::from(OsStr::from_bytes(word))));
            }
        }
    }
}

fn is_elf(path: &Path) -> bool {
    let is_file = fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0);
    let mut start = [0; 4];
    is_file
        && elf::open_regular(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok())
        && start == *b"\x7fELF"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    fn names(programs: &[PathBuf]) -> Vec<&OsStr> {
        let names = programs.iter().filter_map(|path| path.file_name());
        names.collect()
    }

    #[test]
    fn programs_are_found_among_arguments() {
        let arguments = [
            "-n",
            "4",
            "/bin/true",
            "exec '/bin/false'; echo no/such/file | /bin/true",
            "/etc/passwd",
        ];
        let arguments = arguments.map(OsString::from);
        let found = programs_named("/bin/env".as_ref(), &arguments, None);
        // `echo` is found because programs are looked for in a default path without `PATH`.
        assert_eq!(names(&found), ["true", "false", "echo"]);
        let none = programs_named("".as_ref(), &["--".into(), "".into()], None);
        assert_eq!(none, Vec::<PathBuf>::new());
    }

    #[test]
    fn programs_are_found_in_scripts() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("job");
        let text =
            "#!/bin/sh\ncd /; ls | cat\nOMP_NUM_THREADS=2 \"/bin/true\" </dev/null >/tmp/out\n";
        fs::write(&script, text).unwrap();
        assert_eq!(names(&programs_named(&script, &[], None)), ["true"]);
        // The script is executed by a shell.
        let found = programs_named("/bin/sh".as_ref(), &[script.clone().into()], None);
        assert_eq!(names(&found), ["true"]);
        fs::write(&script, &text[1..]).unwrap();
        assert_eq!(names(&programs_named(&script, &[], None)), [""; 0]);
    }

    #[test]
    fn what_is_static_is_told_from_libraries_that_need_none() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.c");
        fs::write(
            &source,
            "#include <unistd.h>\nint main(void) { return fork() < 0; }",
        )
        .unwrap();
        let open = |path: &Path| Arc::new(ProbedFile::open(path, path).unwrap());
        for options in [&["-static"][..], &["-static-pie"], &["-pie"], &["-no-pie"]] {
            let program = folder.path().join("a");
            let mut gcc = std::process::Command::new("gcc");
            gcc.args(options).arg(&source).arg("-o").arg(&program);
            assert!(gcc.status().unwrap().success());
            let file = open(&program);
            let is_static = options[0].starts_with("-static");
            assert_eq!(file.is_static(), is_static, "{options:?}");
            // A static program does not tell which functions it uses.
            assert_eq!(start_processes(&[Arc::clone(&file)]), !is_static);
            assert_eq!(execute_others(&[file]), !is_static);
        }
        for loader in ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"] {
            let file = open(Path::new(loader));
            assert!(!file.is_static(), "{loader}");
            assert!(execute_others(&[file]), "{loader}");
        }
        assert!(!execute_others(&[]));
    }
}
