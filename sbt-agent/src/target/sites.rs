//! Return addresses → places in the source. Lazily, each chain once, and never
//! on the way of the events.

use std::{
    cell::OnceCell,
    collections::HashMap,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use super::{
    debuginfo::DebugInfo,
    elf,
    files::{FileId, ProbedFile},
    process::{self, Mapping},
    wanted::Wanted,
};
use crate::{
    event::CallersId,
    model::site::PlaceId,
    place::{Frame, Place, printable, short},
};

struct Module {
    file: Arc<ProbedFile>,
    segments: Vec<elf::Segment>,
    debug: OnceCell<Option<DebugInfo>>,
}

impl Module {
    fn new(file: Arc<ProbedFile>) -> Self {
        let segments = file
            .image()
            .ok()
            .and_then(|image| elf::load_segments(&image).ok())
            .unwrap_or_default();
        Self {
            file,
            segments,
            debug: OnceCell::new(),
        }
    }

    /// File offset → the file's own address.
    fn vaddr(&self, offset: u64) -> Option<u64> {
        let segment = self
            .segments
            .iter()
            .find(|segment| offset >= segment.offset && offset - segment.offset < segment.filesz)?;
        Some(segment.vaddr + (offset - segment.offset))
    }
}

struct Mapped {
    start: u64,
    end: u64,
    offset: u64,
    module: usize,
}

/// Resolves addresses of one process.
pub struct Resolver {
    pid: u32,
    program: Option<PathBuf>,
    wanted: Arc<Wanted>,
    code_start: Option<u64>,
    executions: u32,
    modules: Vec<Module>,
    by_id: HashMap<FileId, usize>,
    unprobed: Vec<usize>,
    mapped: Vec<Mapped>,
    places: Vec<Rc<Place>>,
    by_key: HashMap<Place, PlaceId>,
    by_callers: HashMap<CallersId, PlaceId>,
}

impl Resolver {
    /// For a process, of which `program` is what it was started from, if we
    /// know: for one that ends before we can ask the kernel. In the files that
    /// it finds it looks for what is `wanted`.
    pub fn new(pid: u32, program: Option<PathBuf>, wanted: Arc<Wanted>) -> Self {
        Self {
            pid,
            program,
            wanted,
            code_start: None,
            executions: 0,
            modules: Vec::new(),
            by_id: HashMap::new(),
            unprobed: Vec::new(),
            mapped: Vec::new(),
            places: Vec::new(),
            by_key: HashMap::new(),
            by_callers: HashMap::new(),
        }
    }

    /// All places so far, by [`PlaceId`].
    pub fn places(&self) -> &[Rc<Place>] {
        &self.places
    }

    /// Where the program's code begins, for when the mappings are gone.
    pub fn set_code_start(&mut self, address: Option<u64>) {
        self.code_start = address.or(self.code_start);
    }

    /// The target has executed a program: the first time the one that it was
    /// started from, later another.
    pub fn executed(&mut self) {
        self.mapped.clear();
        self.code_start = None;
        if self.executions > 0 {
            self.program = None;
        }
        self.executions += 1;
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
        let mappings = process::mappings(self.pid);
        if mappings.is_empty() {
            return;
        }
        let mut mapped = Vec::new();
        for mapping in &mappings {
            let known = self.mapped.iter().find(|old| {
                old.start == mapping.start && old.end == mapping.end && old.offset == mapping.offset
            });
            let module =
                match known.filter(|old| self.modules[old.module].file.shown == mapping.path) {
                    Some(old) => Some(old.module),
                    None => self.module(mapping),
                };
            if let Some(module) = module {
                mapped.push(Mapped {
                    start: mapping.start,
                    end: mapping.end,
                    offset: mapping.offset,
                    module,
                });
            }
        }
        self.mapped = mapped;
    }

    fn module(&mut self, mapping: &Mapping) -> Option<usize> {
        // A file that cannot be opened or is not ELF only stays unnamed.
        let file = mapping.open(self.pid).ok()?;
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

    fn find(&self, address: u64) -> Option<(usize, u64)> {
        let mapped = self
            .mapped
            .iter()
            .find(|mapped| (mapped.start..mapped.end).contains(&address))?;
        let offset = address - mapped.start + mapped.offset;
        Some((mapped.module, self.modules[mapped.module].vaddr(offset)?))
    }

    /// For a process that has ended unseen: the program's own code lies where
    /// the kernel said it began.
    fn find_in_program(&mut self, address: u64) -> Option<(usize, u64)> {
        let (start, program) = (self.code_start?, self.program.clone()?);
        let file = ProbedFile::open(&program, &program).ok()?;
        let module = self.add(file);
        let first = self.modules[module]
            .segments
            .iter()
            .find(|segment| segment.executable)?;
        let vaddr = address.checked_sub(start)?.checked_add(first.vaddr)?;
        (vaddr - first.vaddr < first.memsz).then_some((module, vaddr))
    }

    /// What is wanted and can be had in part only.
    pub fn notes(&self) -> Vec<String> {
        let files: Vec<_> = self.modules.iter().map(|module| &*module.file).collect();
        self.wanted.notes(&files)
    }

    /// Why a program may show no barrier although it has some.
    pub fn why_nothing_is_found(&self) -> Option<String> {
        let program = match (self.modules.first(), &self.program) {
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

    /// The place that a chain of callers is, resolving it if it is new.
    pub fn place(&mut self, callers: CallersId, addresses: &[u64]) -> PlaceId {
        if let Some(place) = self.by_callers.get(&callers) {
            return *place;
        }
        let place = self.resolve(addresses);
        let key = place.key();
        let new = PlaceId(u32::try_from(self.places.len()).unwrap_or(u32::MAX));
        let id = *self.by_key.entry(key).or_insert(new);
        if id == new {
            self.places.push(Rc::new(place));
        }
        self.by_callers.insert(callers, id);
        id
    }

    fn resolve(&mut self, addresses: &[u64]) -> Place {
        let mut place = Place {
            binary: "?".into(),
            offset: addresses.first().copied().unwrap_or(0),
            into_function: None,
            frames: Vec::new(),
            of_runtime: false,
        };
        for (depth, address) in addresses.iter().enumerate() {
            // A return address is that of the next instruction, which may
            // belong to another line: the call is before it.
            let call = address.wrapping_sub(1);
            if self.find(call).is_none() {
                self.refresh();
            }
            let Some((module, vaddr)) = self.find(call).or_else(|| self.find_in_program(call))
            else {
                continue;
            };
            let frames = self.frames(module, vaddr);
            if depth == 0 {
                let shown = self.modules[module].file.shown.to_string_lossy();
                short(&shown).clone_into(&mut place.binary);
                place.offset = vaddr + 1;
                let file = &self.modules[module].file;
                let function = frames.first().and_then(|frame| frame.function.as_deref());
                place.of_runtime =
                    file.is_runtime() || function.is_some_and(|name| file.is_of_runtime(name));
                place.into_function = self
                    .debug(module)
                    .and_then(|debug| debug.function_start(vaddr))
                    .map(|start| place.offset - start);
            }
            place.frames.extend(frames);
        }
        place
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
        let root = process::folder(self.pid).join("root");
        if root.join("usr").exists() {
            root
        } else {
            PathBuf::from("/")
        }
    }
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
