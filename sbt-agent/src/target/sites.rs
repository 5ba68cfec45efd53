//! Return addresses → places in the source. Lazily, each chain once, and never
//! on the way of the events.

use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use super::{
    alternatives,
    debuginfo::{DebugInfo, Symbol},
    elf,
    files::{FileId, ProbedFile},
    locks::{self, LockKind},
    process::{self, Mapping},
    walks::{Change, Link, Owner, Walks, is_all_c},
    wanted::Wanted,
};
use crate::{
    model::site::PlaceId,
    place::{Call, Frame, Place, printable, short},
    recognise::Relation,
};

mod spins;

pub use spins::{NoFunction, SpinPlace, WaitId};

struct Module {
    file: Arc<ProbedFile>,
    segments: Vec<elf::Segment>,
    owner: Owner,
    /// It can be executed by itself.
    is_program: bool,
    debug: OnceCell<Option<DebugInfo>>,
}

impl Module {
    fn new(file: Arc<ProbedFile>) -> Self {
        let image = file.image().ok();
        let image = image.as_deref().unwrap_or_default();
        let is_program = elf::interpreter(image).is_some();
        let owner = Owner::of(&file.shown, is_program);
        Self {
            segments: elf::load_segments(image).unwrap_or_default(),
            owner,
            is_program,
            file,
            debug: OnceCell::new(),
        }
    }

    /// Whether a call may end there.
    fn is_after_call(&self, vaddr: u64) -> bool {
        self.file
            .image()
            .is_ok_and(|image| elf::is_after_call(&image, &self.segments, vaddr))
    }

    /// File offset → the file's own address.
    fn vaddr(&self, offset: u64) -> Option<u64> {
        let mut segments = self.segments.iter();
        segments.find_map(|segment| segment.address(offset))
    }
}

/// So many functions around a wait, and around a wake, may belong to a barrier.
const MAX_RELATED: usize = 3;
/// Who makes a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemCaller {
    /// The program, or a library that is not one of the following.
    Program,
    /// The C library's function for system calls: whoever has called it.
    Syscall,
    /// Another function of the C library, or of a runtime: a mutex, a condition
    /// variable, a barrier that is known in another way.
    Library,
}

/// The function of the C library through which programs make system calls.
pub(super) const SYSCALL: &str = "syscall";

/// How the functions of the C library begin that wait on futexes, in a program
/// that they are linked into.
const WAITING: [&str; 8] = [
    "pthread_",
    "__pthread_",
    "__lll_",
    "__futex_",
    "futex_",
    "sem_",
    "__new_sem_",
    "__timedwait",
];

/// How many mappings are remembered that are gone.
const MAX_UNMAPPED: usize = 64;

#[derive(Clone)]
struct Mapped {
    start: u64,
    end: u64,
    offset: u64,
    module: usize,
    /// Whether anything was called from there.
    used: bool,
}

/// More processes than this are not remembered once they have ended.
const MAX_ENDED: usize = 256;

/// What lies where in the memory of one process.
#[derive(Clone, Default)]
struct Space {
    pid: u32,
    program: Option<PathBuf>,
    code_start: Option<u64>,
    executions: u32,
    mapped: Vec<Mapped>,
    /// What is mapped no more, nor anything in its place, the latest last.
    unmapped: Vec<Mapped>,
}

/// Resolves addresses of a process and of those that descend from it.
pub struct Resolver {
    target: u32,
    /// Of the process that it was told of last.
    space: Space,
    /// Those of all others, by process.
    others: HashMap<u32, Space>,
    wanted: Arc<Wanted>,
    modules: Vec<Module>,
    by_id: HashMap<FileId, usize>,
    unprobed: Vec<usize>,
    places: Vec<Rc<Place>>,
    by_key: HashMap<Place, PlaceId>,
    walks: Walks,
}

impl Resolver {
    /// For a process, of which `program` is what it was started from, if we
    /// know: for one that ends before we can ask the kernel. In the files that
    /// it finds it looks for what is `wanted`.
    pub fn new(pid: u32, program: Option<PathBuf>, wanted: Arc<Wanted>) -> Self {
        Self {
            target: pid,
            space: Space {
                pid,
                program,
                ..Space::default()
            },
            others: HashMap::new(),
            wanted,
            modules: Vec::new(),
            by_id: HashMap::new(),
            unprobed: Vec::new(),
            places: Vec::new(),
            by_key: HashMap::new(),
            walks: Walks::default(),
        }
    }

    /// All places so far, by [`PlaceId`].
    pub fn places(&self) -> &[Rc<Place>] {
        &self.places
    }

    /// What is said from here on is of that process; 0 stands for the target.
    pub fn turn_to(&mut self, process: u32) {
        let process = if process == 0 { self.target } else { process };
        if process == self.space.pid {
            return;
        }
        let new = self.others.remove(&process).unwrap_or_else(|| Space {
            pid: process,
            // The program that the target was started from is known; whether this
            // one has executed another since is not.
            executions: 1,
            ..Space::default()
        });
        let old = std::mem::replace(&mut self.space, new);
        self.others.insert(old.pid, old);
    }

    /// A process has started another, whose memory is as its own.
    pub fn forked(&mut self, process: u32, child: u32) {
        self.turn_to(process);
        if self.others.len() >= MAX_ENDED {
            let target = self.target;
            self.others
                .retain(|pid, _| *pid == target || process::folder(*pid).exists());
        }
        let space = Space {
            pid: child,
            ..self.space.clone()
        };
        self.others.insert(child, space);
    }

    /// Where the program's code begins, for when the mappings are gone.
    pub fn set_code_start(&mut self, address: Option<u64>) {
        self.space.code_start = address.or(self.space.code_start);
    }

    /// The target has executed a program: the first time the one that it was
    /// started from, later another.
    pub fn executed(&mut self) {
        self.space.mapped.clear();
        self.space.unmapped.clear();
        self.space.code_start = None;
        if self.space.executions > 0 {
            self.space.program = None;
        }
        self.space.executions += 1;
    }

    /// The files found since this was last asked: they may hold barriers.
    pub fn new_files(&mut self) -> Vec<Arc<ProbedFile>> {
        let new = std::mem::take(&mut self.unprobed);
        new.into_iter()
            .map(|index| Arc::clone(&self.modules[index].file))
            .collect()
    }

    /// Looks at the process's mappings again. A process that is gone leaves
    /// things as they are.
    pub fn refresh(&mut self) {
        let mappings = process::mappings(self.space.pid);
        if mappings.is_empty() {
            return;
        }
        let mut mapped = Vec::new();
        for mapping in &mappings {
            let known = self.space.mapped.iter().find(|old| {
                old.start == mapping.start && old.end == mapping.end && old.offset == mapping.offset
            });
            let module =
                match known.filter(|old| self.modules[old.module].file.shown == mapping.path) {
                    Some(old) => Some(old.module),
                    None => self.module(mapping),
                };
            if let Some(module) = module {
                let is_same = |old: &&Mapped| old.start == mapping.start && old.module == module;
                let used = self
                    .space
                    .mapped
                    .iter()
                    .find(is_same)
                    .is_some_and(|old| old.used);
                mapped.push(Mapped {
                    start: mapping.start,
                    end: mapping.end,
                    offset: mapping.offset,
                    module,
                    used,
                });
            }
        }
        let is_gone = |old: &&Mapped| {
            let is_same = |new: &Mapped| new.start == old.start && new.module == old.module;
            !mapped.iter().any(is_same)
        };
        if self.space.mapped.iter().filter(is_gone).any(|old| old.used) {
            self.walks.renew();
        }
        // What was called from there may come to be asked for later.
        let old = std::mem::take(&mut self.space.mapped);
        self.space.unmapped.extend(old);
        let is_free = |old: &Mapped| {
            let overlaps = |new: &Mapped| new.start < old.end && old.start < new.end;
            !mapped.iter().any(overlaps)
        };
        self.space.unmapped.retain(is_free);
        let excess = self.space.unmapped.len().saturating_sub(MAX_UNMAPPED);
        self.space.unmapped.drain(..excess);
        self.space.mapped = mapped;
    }

    /// Takes the rules that have been learned since this was last asked, and
    /// those that are to be forgotten. `None` if nothing has changed; with
    /// nothing in it, addresses mean something else.
    pub fn new_rules(&mut self) -> Option<Vec<Change>> {
        let modules = self.modules.iter();
        let files: Vec<_> = modules
            .map(|module| (&*module.file, module.owner))
            .collect();
        self.walks.seed(&files);
        self.walks.take()
    }

    fn module(&mut self, mapping: &Mapping) -> Option<usize> {
        // A file that cannot be opened or is not ELF only stays unnamed.
        let file = mapping.open(self.space.pid).ok()?;
        Some(self.add(file))
    }

    fn add(&mut self, mut file: ProbedFile) -> usize {
        if let Some(index) = self.by_id.get(&file.id) {
            return *index;
        }
        file.look_for(&self.wanted, &self.root());
        self.unprobed.push(self.modules.len());
        self.add_known(Arc::new(file))
    }

    fn add_known(&mut self, file: Arc<ProbedFile>) -> usize {
        self.by_id.insert(file.id, self.modules.len());
        self.modules.push(Module::new(file));
        self.modules.len() - 1
    }

    /// Takes over files that were found in another way, the program first, so
    /// that they are neither searched again nor told of as new.
    pub fn know(&mut self, files: &[Arc<ProbedFile>]) {
        for file in files {
            if !self.by_id.contains_key(&file.id) {
                self.add_known(Arc::clone(file));
            }
        }
    }

    fn find(&mut self, address: u64) -> Option<(usize, u64)> {
        let holds = |mapped: &&mut Mapped| (mapped.start..mapped.end).contains(&address);
        let mapped = self.space.mapped.iter_mut().find(holds);
        let mapped = mapped.or_else(|| self.space.unmapped.iter_mut().rev().find(holds))?;
        mapped.used = true;
        let offset = address - mapped.start + mapped.offset;
        Some((mapped.module, self.modules[mapped.module].vaddr(offset)?))
    }

    /// For a process that has ended unseen: the program's own code lies where
    /// the kernel said it began.
    fn find_in_program(&mut self, address: u64) -> Option<(usize, u64)> {
        let start = self.space.code_start?;
        let Some(program) = self.space.program.clone() else {
            return self.find_in_any_program(start, address);
        };
        let file = ProbedFile::open(&program, &program).ok()?;
        let module = self.add(file);
        Some((module, self.vaddr_in_program(module, start, address)?))
    }

    /// For a child of which it is not known what it executed: where there is a call
    /// in one of the programs that others have.
    fn find_in_any_program(&self, start: u64, address: u64) -> Option<(usize, u64)> {
        (0..self.modules.len()).find_map(|module| {
            if !self.modules[module].is_program {
                return None;
            }
            let vaddr = self.vaddr_in_program(module, start, address)?;
            let is_call = self.modules[module].is_after_call(vaddr.checked_add(1)?);
            is_call.then_some((module, vaddr))
        })
    }

    /// A program's own address, when its code begins at `start`.
    fn vaddr_in_program(&self, module: usize, start: u64, address: u64) -> Option<u64> {
        let mut segments = self.modules[module].segments.iter();
        let first = segments.find(|segment| segment.executable)?;
        let vaddr = address.checked_sub(start)?.checked_add(first.vaddr)?;
        (vaddr - first.vaddr < first.memsz).then_some(vaddr)
    }

    /// What is wanted and can be had in part only.
    pub fn notes(&self) -> Vec<String> {
        let files: Vec<_> = self.modules.iter().map(|module| &*module.file).collect();
        self.wanted.notes(&files)
    }

    /// Why a program may show no barrier although it has some.
    pub fn why_nothing_is_found(&self) -> Option<String> {
        let program = match (self.modules.first(), &self.space.program) {
            (Some(module), _) => Arc::clone(&module.file),
            (None, Some(path)) => Arc::new(ProbedFile::open(path, path).ok()?),
            (None, None) => return None,
        };
        let image = program.image().ok()?;
        (elf::interpreter(&image).is_none() && !elf::has_symbols(&image)).then(|| {
            format!(
                "{} is linked statically and stripped: it has no symbols by which its barriers \
                 could be found; link it dynamically, or keep its symbols",
                printable(&program.shown.to_string_lossy())
            )
        })
    }

    /// The place that a new chain of callers is.
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

    /// From now on chains of callers come that begin with a system call. The way
    /// is followed from the C library's function to whoever has called it.
    pub fn follow_system_calls(&mut self) {
        self.walks.follow_system_calls();
    }

    /// Whether the call that returns to an address is one of OpenMP's own.
    pub fn is_openmp(&mut self, address: u64) -> bool {
        let found = self.find(address.wrapping_sub(1));
        found.is_some_and(|(module, _)| self.modules[module].file.is_openmp())
    }

    /// Who makes a system call, by the address behind it.
    pub fn system_caller(&mut self, address: u64) -> SystemCaller {
        if !self.walks.follows_system_calls() {
            return SystemCaller::Program;
        }
        let call = address.wrapping_sub(1);
        if self.find(call).is_none() {
            self.refresh();
        }
        let Some((module, vaddr)) = self.find(call).or_else(|| self.find_in_program(call)) else {
            return SystemCaller::Program;
        };
        let frames = self.frames(module, vaddr);
        let name = frames.last().and_then(|frame| frame.function.as_deref());
        let Module { owner, file, .. } = &self.modules[module];
        let is_runtime = || file.is_runtime() || name.is_some_and(|name| file.is_of_runtime(name));
        let is_waiting = |name: &str| WAITING.iter().any(|begin| name.starts_with(begin));
        match (owner, name) {
            (_, Some(SYSCALL)) => SystemCaller::Syscall,
            (Owner::C, _) => SystemCaller::Library,
            (Owner::User, Some(name)) if file.is_static() && is_waiting(name) => {
                SystemCaller::Library
            }
            _ if is_runtime() => SystemCaller::Library,
            _ => SystemCaller::Program,
        }
    }

    /// What a wait on a futex is for, if that is a lock, and the place in the program
    /// from which the thread has come to it.
    pub fn lock(&mut self, addresses: &[u64]) -> (Option<LockKind>, Option<PlaceId>) {
        // The function of a library that the program has called.
        let mut called: Option<String> = None;
        let mut of_c_library = false;
        for (depth, address) in addresses.iter().enumerate() {
            let call = address.wrapping_sub(1);
            let made_by = self.system_caller(*address);
            let Some((module, vaddr)) = self.find(call).or_else(|| self.find_in_program(call))
            else {
                break;
            };
            let frames = self.frames(module, vaddr);
            let is_library = made_by == SystemCaller::Library
                || !frames.is_empty() && frames.iter().all(Frame::is_of_library);
            if made_by == SystemCaller::Syscall || is_library {
                of_c_library |= made_by == SystemCaller::Library;
                if is_library {
                    called = frames.last().and_then(|frame| frame.function.clone());
                }
                continue;
            }
            // A function that has left by a jump shows in the call of it only.
            let module = &self.modules[module];
            let number = self.by_id.get(&module.file.id).copied().unwrap_or_default();
            let file = Arc::clone(&module.file);
            let by_call = of_c_library
                .then(|| self.walks.called_by(number, &file, vaddr + 1))
                .flatten();
            // What the compiler has inlined of a library's lock.
            let inlined = frames.iter().filter(|frame| frame.is_of_library());
            let names = by_call
                .into_iter()
                .chain(called)
                .chain(inlined.filter_map(|frame| frame.function.clone()));
            let mut kinds = names.map(|name| locks::of_function(&name, of_c_library));
            let kind = kinds.next().flatten();
            return (kind, Some(self.place(&addresses[depth..])));
        }
        let kind = called.and_then(|name| locks::of_function(&name, of_c_library));
        // Without the call nobody knows whether it is a lock of the library itself.
        (kind.filter(|kind| *kind != LockKind::Library), None)
    }

    fn resolve(&mut self, addresses: &[u64]) -> Place {
        // The function for system calls is no place, if it is known who calls it.
        let addresses = match addresses {
            [first, others @ ..]
                if !others.is_empty() && self.system_caller(*first) == SystemCaller::Syscall =>
            {
                others
            }
            all => all,
        };
        let mut place = Place {
            binary: "?".into(),
            offset: addresses.first().copied().unwrap_or(0),
            into_function: None,
            frames: Vec::new(),
            outer: Vec::new(),
            of_runtime: false,
        };
        let mut links = Vec::new();
        for (depth, address) in addresses.iter().enumerate() {
            // A return address is that of the next instruction, which may
            // belong to another line: the call is before it.
            let call = address.wrapping_sub(1);
            if self.find(call).is_none() {
                self.refresh();
            }
            let Some((module, vaddr)) = self.find(call).or_else(|| self.find_in_program(call))
            else {
                break;
            };
            // Who is not just behind a call was found by mistake.
            if depth > 0 && !self.modules[module].is_after_call(vaddr + 1) {
                break;
            }
            let frames = self.frames(module, vaddr);
            let name = frames.last().and_then(|frame| frame.function.as_deref());
            let owner = self.modules[module].owner.of_function(name);
            links.push(Link {
                file: module,
                address: vaddr + 1,
                owner,
                is_own: owner == Owner::User
                    && (frames.is_empty() || frames.iter().any(|frame| !frame.is_of_library())),
            });
            let shown = self.modules[module].file.shown.to_string_lossy();
            let binary = short(&shown).to_owned();
            let offset = vaddr + 1;
            let start = self
                .debug(module)
                .and_then(|debug| debug.function_start(vaddr));
            let into_function = start.map(|start| offset - start);
            if depth == 0 {
                let file = &self.modules[module].file;
                let function = frames.first().and_then(|frame| frame.function.as_deref());
                let of_runtime =
                    file.is_runtime() || function.is_some_and(|name| file.is_of_runtime(name));
                place = Place {
                    binary,
                    offset,
                    into_function,
                    frames,
                    of_runtime,
                    ..place
                };
                continue;
            }
            // That a runtime has called the program tells nobody anything.
            let inner = &links[..depth];
            if owner == Owner::C && !is_all_c(inner)
                || owner == Owner::System && inner.iter().any(|link| link.is_own)
            {
                break;
            }
            let call = Call {
                binary,
                offset,
                into_function,
                frame: 0,
            };
            place.add_caller(call, frames);
        }
        place.drop_outer_library();
        if links.len() == addresses.len() && (!place.of_runtime || is_all_c(&links)) {
            let modules = self.modules.iter();
            let files: Vec<_> = modules
                .map(|module| (&*module.file, module.owner))
                .collect();
            self.walks.consider(&files, &links);
        }
        place
    }

    /// How two calls stand to each other, by their return addresses: one of a
    /// function that waits and one of a function that wakes.
    pub fn relation(&mut self, wait: &[u64], wake: &[u64]) -> Relation {
        let ([innermost_wait, ..], [innermost_wake, ..]) = (wait, wake) else {
            return Relation::Unknown;
        };
        let relation = self.relation_of(*innermost_wait, *innermost_wake);
        if relation != Relation::Apart {
            return relation;
        }
        // Functions that only wait, or only wake, for others. Whoever calls the one
        // or the other may be a barrier, but also somebody who makes or takes.
        let near = |chain: &[u64]| chain.len().min(MAX_RELATED);
        let callers = wake[..near(wake)]
            .iter()
            .flat_map(|wake| wait[..near(wait)].iter().map(move |wait| (*wait, *wake)));
        for (wait, wake) in callers {
            if self.relation_of(wait, wake) == Relation::Alternatives {
                return Relation::Unknown;
            }
        }
        Relation::Apart
    }

    fn relation_of(&mut self, wait: u64, wake: u64) -> Relation {
        let mut find = |address: u64| {
            let call = address.wrapping_sub(1);
            if self.find(call).is_none() {
                self.refresh();
            }
            let found = self.find(call).or_else(|| self.find_in_program(call));
            found.map(|(module, vaddr)| (module, vaddr.wrapping_add(1)))
        };
        let (Some(wait), Some(wake)) = (find(wait), find(wake)) else {
            return Relation::Unknown;
        };
        if wait.0 != wake.0 {
            return Relation::Apart;
        }
        let module = &self.modules[wake.0];
        let Ok(image) = module.file.image() else {
            return Relation::Unknown;
        };
        // Without its symbols a function still has its entry for unwinding.
        let unwind = self.walks.unwind(wake.0, &module.file);
        let debug = self.debug(wake.0);
        let function = |address: u64| {
            let named = debug.and_then(|debug| debug.spanning(&[address]).pop().flatten());
            named.or_else(|| {
                let function = unwind.as_ref()?.function(address)?;
                Some(Symbol {
                    name: String::new(),
                    start: function.start,
                    size: function.end - function.start,
                })
            })
        };
        alternatives::relation(&image, &module.segments, &function, wait.1, wake.1)
    }

    fn frames(&self, module: usize, vaddr: u64) -> Vec<Frame> {
        self.debug(module)
            .map(|debug| debug.frames(vaddr))
            .unwrap_or_default()
            .into_iter()
            .map(|frame| Frame {
                function: frame.function,
                file: frame.file,
                line: frame.line,
                inlined: frame.inlined,
            })
            .collect()
    }

    fn debug(&self, module: usize) -> Option<&DebugInfo> {
        let module = &self.modules[module];
        let (path, shown) = (module.file.open_path(), &module.file.shown);
        module
            .debug
            .get_or_init(|| DebugInfo::open(&path, shown, &self.root()).ok())
            .as_ref()
    }

    /// Where the target's `/` is; ours if the target is gone.
    fn root(&self) -> PathBuf {
        let root = process::folder(self.space.pid).join("root");
        if root.join("usr").exists() {
            root
        } else {
            PathBuf::from("/")
        }
    }
}

/// Whether a program is known to start processes: one of its files, not the C
/// library itself, uses a function that does.
pub fn start_processes(files: &[Arc<ProbedFile>]) -> bool {
    const STARTS: [&str; 10] = [
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
    ];
    let names: HashSet<String> = STARTS.into_iter().map(str::to_owned).collect();
    let mut files = files.iter().filter(|file| !file.is_linker);
    files.any(|file| file.imports_any(&names))
}

/// Opens what a program will map before it begins, and looks in it for what is
/// wanted: see [`super::libraries::will_map`].
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
