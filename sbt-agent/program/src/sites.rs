//! Return addresses → places in the source. Resolved lazily, each chain once, and never while
//! events are being received.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

mod called;
mod memory;
mod module;
mod region;
mod relation;
mod shared;
mod spins;
mod stacks;
mod system;
mod tail;

pub use called::{CLibrary, Called, InRuntime};
pub use relation::Meeting;
pub use sbt_engine::place::NamedFunction;
pub use sbt_engine::place::{NoFunction, SpinPlace};
pub use shared::SharedFiles;
pub use spins::{Wait, WaitId, Way};
pub use stacks::{CallAt, Ends, KnownRegisters, Stacks, Standing};
pub use system::SystemCaller;

use memory::Space;
use module::Module;

use super::{
    debuginfo::DebugInfo,
    elf,
    file_id::FileId,
    files::ProbedFile,
    process::Mapping,
    runtimes,
    walks::{Change, Link, Owner, Walks, is_all_c},
    wanted::Wanted,
};
use crate::access::target::Root;
use crate::process::mapping::Closed;
use sbt_engine::{
    model::ids::PlaceId,
    place::{Call, Frame, Place, printable, short},
};

/// The most unreadable files that are reported.
const MAX_CLOSED: usize = 4;

/// Resolves addresses of a process and of its descendants.
pub struct Resolver {
    target: u32,
    /// The memory of the process that [`Self::turn_to`] has chosen last.
    space: Space,
    /// The memory of all other processes, by process.
    others: HashMap<u32, Space>,
    /// The number of programs that have been executed in all.
    executions: u32,
    shared: SharedFiles,
    modules: Vec<Module>,
    by_id: HashMap<FileId, usize>,
    unprobed: Vec<usize>,
    /// The processes in which a dynamic linker was found that had no probes.
    unheard: BTreeSet<u32>,
    places: Vec<Rc<Place>>,
    by_key: HashMap<Place, PlaceId>,
    walks: Walks,
    /// Files that may not be read, each with the missing capability.
    closed: BTreeSet<(PathBuf, &'static str)>,
}

impl Resolver {
    /// A resolver for a process. `program` is the file that the process was started from, if known:
    /// it serves for a process that ends before sbt can ask the kernel. Files that are found are
    /// searched for `wanted`.
    pub fn new(pid: u32, program: Option<PathBuf>, wanted: Arc<Wanted>) -> Self {
        Self::sharing(pid, program, SharedFiles::new(wanted))
    }

    /// A resolver as from [`Self::new`] that shares the files with others.
    pub fn sharing(pid: u32, program: Option<PathBuf>, shared: SharedFiles) -> Self {
        Self {
            target: pid,
            space: Space {
                pid,
                program,
                ..Space::default()
            },
            others: HashMap::new(),
            executions: 0,
            shared,
            modules: Vec::new(),
            by_id: HashMap::new(),
            unprobed: Vec::new(),
            unheard: BTreeSet::new(),
            places: Vec::new(),
            by_key: HashMap::new(),
            walks: Walks::default(),
            closed: BTreeSet::new(),
        }
    }

    /// All places so far, by [`PlaceId`].
    pub fn places(&self) -> &[Rc<Place>] {
        &self.places
    }

    /// The files found since the last call: they may hold barriers.
    pub fn new_files(&mut self) -> Vec<Arc<ProbedFile>> {
        let new = std::mem::take(&mut self.unprobed);
        new.into_iter()
            .map(|index| Arc::clone(&self.modules[index].file))
            .collect()
    }

    /// The files that this resolver shares with others.
    pub fn shared(&self) -> SharedFiles {
        self.shared.clone()
    }

    /// All files found so far, the program first.
    pub fn files(&self) -> Vec<Arc<ProbedFile>> {
        let modules = self.modules.iter();
        modules.map(|module| Arc::clone(&module.file)).collect()
    }

    /// The rules for walking that have been learned since the last call, and those that must be
    /// forgotten. `None` if nothing has changed; an empty list means that addresses have a new
    /// meaning.
    pub fn new_rules(&mut self) -> Option<Vec<Change>> {
        let modules = self.modules.iter();
        let files: Vec<_> = modules.map(|module| (&module.file, module.owner)).collect();
        self.walks.seed(&files);
        self.walks.take()
    }

    fn module(&mut self, mapping: &Mapping) -> Option<usize> {
        // A file that cannot be opened or is not ELF only stays unnamed.
        let file = mapping.file(self.space.pid);
        if let Err(Closed::Missing(capability)) = &file
            && self.closed.len() < MAX_CLOSED
        {
            self.closed.insert((mapping.path.clone(), *capability));
        }
        let file = file.ok()?;
        // A known file is not read again: a process may not live for that long.
        let id = FileId::of(&file).ok()?;
        if let Some(index) = self.by_id.get(&id) {
            return Some(*index);
        }
        if let Some(known) = self.shared.find(id) {
            return Some(self.add_unprobed(known));
        }
        Some(self.add(ProbedFile::read(file, &mapping.path).ok()?))
    }

    fn add(&mut self, mut file: ProbedFile) -> usize {
        if let Some(index) = self.by_id.get(&file.id) {
            return *index;
        }
        file.look_for(&self.shared.wanted, &Root::path_of(self.space.pid));
        let file = Arc::new(file);
        self.shared.add(&file);
        self.add_unprobed(file)
    }

    fn add_unprobed(&mut self, file: Arc<ProbedFile>) -> usize {
        self.unprobed.push(self.modules.len());
        if file.tells_of_libraries() {
            self.unheard.insert(self.space.pid);
        }
        self.add_known(file)
    }

    fn add_known(&mut self, file: Arc<ProbedFile>) -> usize {
        self.by_id.insert(file.id, self.modules.len());
        self.modules.push(Module::new(file));
        self.modules.len() - 1
    }

    /// Takes over files that were found in another way, the program first. They are neither
    /// searched again nor reported by [`Self::new_files`].
    pub fn know(&mut self, files: &[Arc<ProbedFile>]) {
        for file in files {
            if !self.by_id.contains_key(&file.id) {
                self.add_known(Arc::clone(file));
            }
        }
    }

    /// Messages about wishes that are met only in part, and about what sbt cannot read or
    /// recognise.
    pub fn notes(&self) -> Vec<String> {
        let files: Vec<_> = self.modules.iter().map(|module| &*module.file).collect();
        let strange = files.iter().filter(|file| file.has_unknown_openmp());
        let strange = strange.map(|file| {
            let shown = file.shown.to_string_lossy();
            format!(
                "{} contains an OpenMP runtime that sbt does not know: its barriers are not \
                 watched",
                printable(&shown)
            )
        });
        let closed = self.closed.iter().map(|(path, capability)| {
            format!(
                "sbt may not read {} (missing {capability}): it set no probes there and does not \
                 know the names of its functions",
                printable(&path.to_string_lossy())
            )
        });
        let unfit = files.iter().flat_map(|file| {
            let shown = printable(&file.shown.to_string_lossy());
            let line = move |name: &&str| {
                format!(
                    "{name} in {shown} is not watched: no probe can be set where the function \
                    begins"
                )
            };
            file.unfit.iter().map(line)
        });
        let mut notes = self.shared.wanted.notes(&files);
        notes.extend(unfit);
        notes.extend(closed);
        notes.extend(strange);
        notes
    }

    /// Why a program may show no barrier although it has some.
    pub fn why_nothing_is_found(&self) -> Option<String> {
        let program = match (self.modules.first(), &self.space.program) {
            (Some(module), _) => Arc::clone(&module.file),
            (None, Some(path)) => Arc::new(ProbedFile::open(path, path).ok()?),
            (None, None) => return None,
        };
        let image = program.image();
        (elf::interpreter(image).is_none() && !elf::has_symbols(image)).then(|| {
            format!(
                "{} is statically linked and stripped: sbt cannot find its barriers without \
                 symbols; link it dynamically, or keep its symbols",
                printable(&program.shown.to_string_lossy())
            )
        })
    }

    /// The place of a new chain of callers.
    pub fn place(&mut self, addresses: &[u64]) -> PlaceId {
        let place = self.resolve(addresses);
        let key = place.key();
        let new = PlaceId(u32::try_from(self.places.len()).unwrap_or(u32::MAX));
        let id = *self.by_key.entry(key).or_insert(new);
        if id == new {
            self.places.push(Rc::new(place));
        }
        id
    }

    /// Whether a place is a call by which a library calls a function that other code has given to it, and has no
    /// name: the function has gone on to the barrier by a jump, and is the place that is not known.
    pub fn is_call_back(&self, place: &Place) -> bool {
        let is_named = |frame: &Frame| frame.function.is_some();
        let mut modules = self.modules.iter();
        let module =
            modules.find(|module| short(&module.file.shown.to_string_lossy()) == place.binary);
        !place.frames.iter().any(is_named)
            && module.is_some_and(|module| module.calls_back(place.offset))
    }

    /// Announces that chains of callers will begin with a system call: sbt then walks from the C
    /// library's function to its caller.
    pub fn follow_system_calls(&mut self) {
        self.walks.follow_system_calls();
    }

    fn resolve(&mut self, addresses: &[u64]) -> Place {
        // The function for system calls is not the place, if its caller is known.
        let addresses = match addresses {
            [first, others @ ..]
                if !others.is_empty()
                    && (self.system_caller(*first) == SystemCaller::Syscall
                        || self.is_in_condition_of_c(*first)) =>
            {
                others
            }
            all => all,
        };
        let (links, frames) = self.locate(addresses);
        let place = self.place_of(addresses, &links, frames);
        let is_of_openmp = || {
            let first = links.first();
            self.walks.follows_regions() && first.is_some_and(|link| self.returns_to_openmp(link))
        };
        let is_whole = links.len() == addresses.len();
        if is_whole && (!place.of_runtime || is_all_c(&links) || is_of_openmp()) {
            let modules = self.modules.iter();
            let files: Vec<_> = modules.map(|module| (&module.file, module.owner)).collect();
            self.walks.consider(&files, &links);
        }
        place
    }

    /// The calls of a chain, innermost first, each with its functions and lines, up to the first
    /// address that is unknown or does not follow a call.
    fn locate(&mut self, addresses: &[u64]) -> (Vec<Link>, Vec<Vec<Frame>>) {
        let (mut links, mut all) = (Vec::new(), Vec::new());
        for (depth, address) in addresses.iter().enumerate() {
            // The return address is the address of the next instruction, which may belong to
            // another line: the call is before it.
            let call = address.wrapping_sub(1);
            if self.find(call).is_none() {
                self.refresh();
            }
            let Some((module, vaddr)) = self.find(call).or_else(|| self.find_in_program(call))
            else {
                break;
            };
            // A later address that does not follow a call was found by mistake.
            if depth > 0 && !self.modules[module].is_after_call(vaddr + 1) {
                break;
            }
            let (link, frames) = self.link(module, vaddr + 1);
            links.push(link);
            all.push(frames);
        }
        (links, all)
    }

    /// The call that returns to an address of a file, with its functions and lines.
    fn link(&mut self, module: usize, address: u64) -> (Link, Vec<Frame>) {
        let frames = self.frames_of_call(module, address - 1);
        let name = frames.last().and_then(|frame| frame.function.as_deref());
        let owner = self.modules[module].owner.of_function(name);
        let link = Link {
            file: module,
            address,
            owner,
            is_own: owner == Owner::User
                && (frames.is_empty() || frames.iter().any(|frame| !frame.is_of_library())),
        };
        (link, frames)
    }

    fn place_of(&mut self, addresses: &[u64], links: &[Link], frames: Vec<Vec<Frame>>) -> Place {
        let in_openmp = self.calls_in_openmp(links);
        let begin = links.get(in_openmp).filter(|_| in_openmp > 0);
        let barrier = begin.and_then(|begin| {
            let address = self.last_barrier_of_region(begin)?;
            Some(self.link(begin.file, address))
        });
        let mut chain: Vec<(Link, Vec<Frame>)> = if let Some(barrier) = barrier {
            vec![barrier]
        } else {
            let calls = links.iter().copied().zip(frames).skip(in_openmp);
            let mut chain = calls.collect();
            self.place_end_of_region(&mut chain);
            self.place_tail(&mut chain);
            chain
        };
        // A thread of the runtime has one place, however far the walk went in the runtime.
        if in_openmp == 0
            && links
                .first()
                .is_some_and(|link| self.returns_to_openmp(link))
        {
            chain.truncate(1);
        }
        let mut place = Place {
            binary: "?".into(),
            offset: addresses.first().copied().unwrap_or(0),
            into_function: None,
            works_before: false,
            frames: Vec::new(),
            outer: Vec::new(),
            of_runtime: false,
        };
        let mut inner: Vec<Link> = Vec::new();
        for (depth, (link, frames)) in chain.into_iter().enumerate() {
            let (module, offset) = (link.file, link.address);
            // The call of the program by a runtime is of no interest.
            let is_begin = link.owner == Owner::C && !is_all_c(&inner)
                || link.owner == Owner::System && inner.iter().any(|link| link.is_own);
            if depth > 0 && is_begin {
                break;
            }
            inner.push(link);
            let shown = self.modules[module].file.shown.to_string_lossy();
            let binary = short(&shown).to_owned();
            let debug = self.debug(module);
            let start = debug.and_then(|debug| debug.function_start(offset - 1));
            let into_function = start.map(|start| offset - start);
            let works_before =
                start.is_some_and(|start| self.modules[module].works_before(start, offset));
            if depth == 0 {
                let file = &self.modules[module].file;
                let function = frames.first().and_then(|frame| frame.function.as_deref());
                let of_runtime =
                    file.is_runtime() || function.is_some_and(|name| file.is_of_runtime(name));
                place = Place {
                    binary,
                    offset,
                    into_function,
                    works_before,
                    frames,
                    of_runtime,
                    ..place
                };
                continue;
            }
            let call = Call {
                binary,
                offset,
                into_function,
                works_before,
                frame: 0,
            };
            place.add_caller(call, frames);
        }
        place.drop_outer_library();
        place
    }

    /// Whether a call is made by a condition variable of C11: the place is then the caller above.
    fn is_in_condition_of_c(&mut self, address: u64) -> bool {
        let call = address.wrapping_sub(1);
        let found = self.find(call).filter(|found| {
            let module = &self.modules[found.0];
            // A static program has the C library in it.
            module.owner != Owner::User || module.file.is_static()
        });
        found.is_some_and(|(module, vaddr)| self.in_condition(module, vaddr).is_of_c)
    }

    /// The functions and lines at an address. For the C library only the function: its lines are of
    /// no interest, and reading the debug information of a whole library takes longer than many a
    /// program runs.
    fn frames(&self, module: usize, vaddr: u64) -> Vec<Frame> {
        let is_of_c = self.modules[module].owner == Owner::C;
        let frames = self.debug(module).map(|debug| {
            if is_of_c {
                debug.function(vaddr).into_iter().collect()
            } else {
                debug.frames(vaddr)
            }
        });
        let frames = frames.unwrap_or_default().into_iter();
        frames
            .map(|frame| Frame {
                function: frame.function,
                file: frame.file,
                line: frame.line,
                inlined: frame.inlined,
            })
            .collect()
    }

    /// The functions and lines of a call. If the debug information has no line, a call of LLVM's
    /// OpenMP may name its line itself.
    fn frames_of_call(&mut self, module: usize, vaddr: u64) -> Vec<Frame> {
        let mut frames = self.frames(module, vaddr);
        let has_line = frames.last().is_some_and(|frame| frame.line.is_some());
        if has_line || !self.modules.iter().any(|module| module.file.has_openmp()) {
            return frames;
        }
        let file = Arc::clone(&self.modules[module].file);
        let function = file.unwind();
        let function = function.and_then(|unwind| Some(unwind.function(vaddr)?.start));
        let said = function.and_then(|function| {
            let segments = &self.modules[module].segments;
            runtimes::ident::said(self.modules[module].image(), segments, function, vaddr + 1)
        });
        if let Some(said) = said {
            let named = frames.pop().and_then(|frame| frame.function);
            frames.push(Frame {
                function: named.or(Some(said.function)),
                file: Some(said.file),
                line: Some(said.line),
                inlined: false,
            });
        }
        frames
    }

    fn debug(&self, module: usize) -> Option<&DebugInfo> {
        self.modules[module].file.debug(|| Root::of(self.space.pid))
    }
}

/// Opens the files that a program will map, before it begins, and searches them for `wanted`: see
/// [`super::libraries::will_map`].
pub fn open_all(paths: &[PathBuf], wanted: &Wanted) -> Vec<Arc<ProbedFile>> {
    paths
        .iter()
        .filter_map(|path| {
            let mut file = ProbedFile::open(Path::new(path), path).ok()?;
            file.look_for(wanted, Path::new("/"));
            Some(Arc::new(file))
        })
        .collect()
}
