//! Files that the target maps, kept open: a file stays the same by whatever name, also after it was
//! replaced or deleted, or after the target's namespace is gone.

use std::{
    collections::HashSet,
    ffi::OsStr,
    fs::File,
    io,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use memmap2::Mmap;
use sbt_common::layout;

use super::{
    debuginfo::DebugInfo,
    elf::{self, DynamicNames, ElfError},
    unwind::Unwind,
};
use crate::{
    access::target::Root,
    file_id::FileId,
    inside::KnownMeetings,
    point::{Function, Point},
    points::Found,
    process::mapping::Mapping,
    runtimes::Role,
};

/// The most bytes of code that are searched in some milliseconds.
const MUCH_CODE: u64 = 4 << 20;

/// The probes that a file has for one of the user's wishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// The file has nothing of that name.
    Nothing,
    /// The file has the place, but it cannot be probed; with the reason.
    Refused(String),
    /// At least one place.
    Points(Vec<Point>),
}

/// How a file was linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linked {
    /// A library: it has a name by which programs link to it.
    Library,
    /// A program that the C library is linked into.
    Static,
    /// A program with a dynamic linker, a plug-in, or no ELF file.
    Other,
}

impl Linked {
    fn of(image: &[u8]) -> Self {
        if elf::is_named_library(image) {
            Self::Library
        } else if elf::is_static(image) {
            Self::Static
        } else {
            Self::Other
        }
    }
}

/// A file with what can be probed in it.
#[derive(Debug)]
pub struct ProbedFile {
    /// Identifies the file.
    pub id: FileId,
    /// The file's path as the target sees it.
    pub shown: PathBuf,
    /// Where to put probes; empty if there is nothing to watch.
    pub points: Vec<Point>,
    /// Functions of the C library in which no probe may stand.
    pub(super) unfit: Vec<&'static str>,
    /// Whether the file defines the barriers of an OpenMP runtime, of whatever version.
    defines_openmp: bool,
    /// Whether the file is a dynamic linker, whose functions the program does not call.
    pub(super) is_linker: bool,
    /// How the file was linked.
    linked: Linked,
    /// The file's offers for each of the user's wishes, in the order of the wishes.
    pub(super) offers: Vec<Offer>,
    /// For each of the user's wishes, the number of places where the function is inlined and not
    /// probed.
    pub(super) inlined: Vec<usize>,
    /// Where sbt finds the target's `/`.
    pub(super) root: PathBuf,
    file: File,
    image: Arc<Mmap>,
    dynamic_names: OnceLock<DynamicNames>,
    debug: OnceLock<Option<DebugInfo>>,
    unwind: OnceLock<Option<Arc<Unwind>>>,
    /// Barriers inside of functions, as far as they were searched for.
    pub(super) meetings: KnownMeetings,
}

impl ProbedFile {
    /// Opens `path` and looks for barrier functions. `shown`: the path as the target sees it, from
    /// sbt's own folder if it is relative.
    pub fn open(path: &Path, shown: &Path) -> io::Result<Self> {
        let file = elf::open_regular(path)?;
        // Separate debug information is searched for beside the file, below the target's root.
        Self::read(file, &std::path::absolute(shown)?)
    }

    /// Opens a file that a process has mapped, and looks for what can be probed in it.
    pub fn of_mapping(mapping: &Mapping, pid: u32) -> io::Result<Self> {
        let file = mapping.file(pid).map_err(io::Error::other)?;
        Self::read(file, &mapping.path)
    }

    /// Looks for barrier functions in a regular file. `shown`: its path as the target sees it.
    pub fn read(file: File, shown: &Path) -> io::Result<Self> {
        let id = FileId::of(&file)?;
        let image = elf::map(&file)?;
        let found = match Found::of(&image) {
            Ok(found) => found,
            // Data, scripts, and programs for another machine have nothing to probe.
            Err(ElfError::NotElf) => Found::default(),
            Err(error) => return Err(io::Error::other(error)),
        };
        Ok(Self {
            id,
            shown: shown.to_owned(),
            points: found.points,
            unfit: found.unfit,
            defines_openmp: found.defines_openmp,
            is_linker: elf::is_linker(&image),
            linked: Linked::of(&image),
            offers: Vec::new(),
            inlined: Vec::new(),
            root: PathBuf::from("/"),
            file,
            image: Arc::new(image),
            dynamic_names: OnceLock::new(),
            debug: OnceLock::new(),
            unwind: OnceLock::new(),
            meetings: KnownMeetings::default(),
        })
    }

    /// The same file with other points to watch, besides those that are watched in it.
    pub(super) fn with_points(&self, points: Vec<Point>) -> io::Result<Self> {
        Ok(Self {
            id: self.id,
            shown: self.shown.clone(),
            points,
            unfit: Vec::new(),
            is_linker: self.is_linker,
            linked: self.linked,
            defines_openmp: self.defines_openmp,
            offers: Vec::new(),
            inlined: Vec::new(),
            root: self.root.clone(),
            file: self.file.try_clone()?,
            image: Arc::clone(&self.image),
            dynamic_names: OnceLock::new(),
            debug: OnceLock::new(),
            unwind: OnceLock::new(),
            meetings: KnownMeetings::default(),
        })
    }

    /// Adds a point, unless the function is a known barrier: one function is one barrier, whichever
    /// source names it first. A barrier may have marks besides.
    pub(super) fn add(&mut self, new: &Point) {
        let is_barrier = |point: &Point| match point.function {
            Function::BarrierWait | Function::Call { .. } => true,
            // A barrier of a language, unless it is inlined into another function.
            Function::Team(_) => point.is_of_language() && point.layout != layout::STD_INLINED,
            _ => false,
        };
        let is_known = self.points.iter().any(|old| {
            let at_entry = old.entry_offset == new.entry_offset;
            at_entry && old.function == new.function
                || (at_entry || old.return_offset == new.return_offset)
                    && is_barrier(old)
                    && is_barrier(new)
        });
        if !is_known {
            self.points.push(new.clone());
        }
    }

    /// Opens the file's names and lines.
    pub(super) fn debug_info(&self) -> Option<DebugInfo> {
        DebugInfo::open(&self.open_path(), &self.shown, &self.root).ok()
    }

    /// The file's names and lines, opened once for all threads of sbt. `root`: the target's `/` now.
    pub(super) fn debug(&self, root: impl FnOnce() -> Root) -> Option<&DebugInfo> {
        let open = || DebugInfo::open(&self.open_path(), &self.shown, root().path()).ok();
        self.debug.get_or_init(open).as_ref()
    }

    /// The file's names and lines, if they were opened.
    pub(super) fn opened(&self) -> Option<&DebugInfo> {
        self.debug.get()?.as_ref()
    }

    /// The file's functions and how to get to their callers, read once for all threads of sbt.
    pub(super) fn unwind(&self) -> Option<Arc<Unwind>> {
        let read = || {
            let unwind = self
                .is_whole()
                .then(|| Unwind::of(Arc::clone(&self.image)))?;
            Some(Arc::new(unwind?))
        };
        self.unwind.get_or_init(read).clone()
    }

    /// Whether the file has a point of this function.
    pub fn has(&self, function: Function) -> bool {
        self.points.iter().any(|point| point.function == function)
    }

    /// Whether the file uses a function of another file that has one of these names.
    pub fn imports_any(&self, names: &HashSet<String>) -> bool {
        let known = self.dynamic_names();
        let mut numbers = names.iter().map(|name| DynamicNames::number(name));
        // Another name may have the same hash.
        numbers.any(|number| known.may_import(number))
            && self.is_whole()
            && elf::imports_any(&self.image, names)
    }

    /// Whether the program may use a function of one of its `files`. Anything linked into a program is
    /// there because the program uses it. Each MPI function has a second name (MPI 3.1, section
    /// 14.2), which counts too.
    pub fn is_used(files: &[&Self], index: usize, symbol: &str) -> bool {
        let names = HashSet::from([symbol.to_owned(), format!("P{symbol}")]);
        let mut others = files.iter().enumerate().filter(|(at, _)| *at != index);
        !files[index].is_library() || others.any(|(_, other)| other.imports_any(&names))
    }

    /// Whether to search the file's code takes longer than a program may wait.
    pub(super) fn has_much_code(&self) -> bool {
        elf::length_of_code(&self.image) > MUCH_CODE
    }

    /// Whether the file is still as long as its mapping: a read behind its end would end sbt.
    fn is_whole(&self) -> bool {
        let meta = self.file.metadata();
        meta.is_ok_and(|meta| meta.len() >= self.image.len() as u64)
    }

    /// The names of the file's symbols for the dynamic linker, read once.
    pub(super) fn dynamic_names(&self) -> &DynamicNames {
        self.dynamic_names
            .get_or_init(|| DynamicNames::of(&self.image))
    }

    /// Whether the file is a library that has barriers of its own: a C library, or the runtime of a
    /// language.
    pub fn is_runtime(&self) -> bool {
        let is_barrier = |point: &Point| match point.function {
            Function::BarrierWait => true,
            // The barrier of a language may be compiled into any library.
            Function::Kmp(_) | Function::Team(_) => {
                point.runtime().is_some_and(|runtime| runtime.is_library)
            }
            _ => false,
        };
        self.is_library() && self.points.iter().any(is_barrier)
    }

    /// Whether programs link to the file.
    pub fn is_library(&self) -> bool {
        self.linked == Linked::Library
    }

    /// Whether the file is the library of OpenMP.
    pub fn is_openmp(&self) -> bool {
        self.is_library() && self.has_openmp()
    }

    /// Whether barriers of OpenMP were found in the file.
    pub fn has_openmp(&self) -> bool {
        let mut runtimes = self.points.iter().filter_map(Point::runtime);
        runtimes.any(|runtime| runtime.role == Role::OpenMp)
    }

    /// Whether collectives of MPI were found in the file.
    pub(super) fn has_mpi(&self) -> bool {
        let mut runtimes = self.points.iter().filter_map(Point::runtime);
        runtimes.any(|runtime| runtime.role == Role::Mpi)
    }

    /// Whether the file has an OpenMP runtime in which sbt does not find the barriers.
    pub(super) fn has_unknown_openmp(&self) -> bool {
        self.defines_openmp && !self.has_openmp()
    }

    /// Whether the file is a program that uses no functions but its own.
    pub fn is_static(&self) -> bool {
        self.linked == Linked::Static
    }

    /// Whether probes in the file tell of libraries that are mapped.
    pub(super) fn tells_of_libraries(&self) -> bool {
        let mut points = self.points.iter();
        points.any(|point| point.function == Function::LinkerMapped)
    }

    /// Whether the file loads the program that it is given, if it is executed itself.
    pub(super) fn is_loader(&self) -> bool {
        // musl's dynamic linker is its C library, and has no `DT_SONAME`.
        let name = self.shown.file_name().map(OsStr::as_encoded_bytes);
        self.is_linker || name.is_some_and(|name| name.starts_with(b"ld-musl"))
    }

    /// Whether a function of the file belongs to the runtime of a language that was linked into the
    /// program. Such functions have names that programs may not use.
    pub fn is_of_runtime(&self, function: &str) -> bool {
        let mut runtimes = self.points.iter().filter_map(Point::runtime);
        runtimes.any(|runtime| {
            let prefix = runtime.prefix;
            prefix.is_some_and(|prefix| function.starts_with(prefix))
        })
    }

    /// A path that opens this very file as long as `self` lives.
    pub fn open_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Where the threads of this C library keep their numbers: the distance from a thread's pointer,
    /// bytes. `None` if the file does not tell.
    pub fn thread_number(&self) -> Option<u32> {
        self.is_whole()
            .then(|| elf::thread_number(&self.image))
            .flatten()
    }

    /// The file's bytes, mapped once: to map a file again costs a page fault for each page again.
    pub fn image(&self) -> &[u8] {
        &self.image
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs, process::Command, thread};

    use super::*;

    #[test]
    fn names_and_functions_are_read_once_for_all_threads() {
        let own = std::env::current_exe().unwrap();
        let file = ProbedFile::open(&own, &own).unwrap();
        assert!(file.opened().is_none());
        let times = Cell::new(0);
        let root = || {
            times.set(times.get() + 1);
            Root::of(std::process::id())
        };
        let names = std::ptr::from_ref(file.debug(root).unwrap());
        assert!(std::ptr::eq(names, file.debug(root).unwrap()));
        assert_eq!(times.get(), 1);
        let functions = file.unwind().unwrap();
        thread::scope(|scope| {
            let other = scope.spawn(|| (file.opened().is_some(), file.unwind().unwrap()));
            let (is_open, read) = other.join().unwrap();
            assert!(is_open);
            assert!(Arc::ptr_eq(&read, &functions));
        });
    }

    #[test]
    fn a_function_of_a_library_is_used_if_another_file_imports_it() {
        let folder = tempfile::tempdir().unwrap();
        let library = |name: &str, source: &str| {
            let (path, code) = (folder.path().join(name), folder.path().join("a.c"));
            fs::write(&code, source).unwrap();
            let mut gcc = Command::new("gcc");
            gcc.args(["-shared", "-fPIC", "-o"]).arg(&path).arg(&code);
            gcc.arg(format!("-Wl,-soname,{name}"));
            assert!(gcc.status().unwrap().success());
            ProbedFile::open(&path, &path).unwrap()
        };
        let mpi = library("libmpi.so", "int MPI_Barrier(int all) { return all; }");
        let by_second_name = "int PMPI_Barrier(int); int f(void) { return PMPI_Barrier(0); }";
        let user = library("user.so", by_second_name);
        let files = [&mpi, &user];
        assert!(ProbedFile::is_used(&files, 0, "MPI_Barrier"));
        assert!(!ProbedFile::is_used(&files, 0, "MPI_Init"));
        assert!(!ProbedFile::is_used(&files[..1], 0, "MPI_Barrier"));
    }
}
