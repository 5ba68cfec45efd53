//! Where threads are → the program's own loops in which they wait.

use memchr::memchr2_iter;
use sbt_common::Cookie;

use super::{Resolver, module::function_at, system::WAITING};
use crate::{
    clock,
    debuginfo::Symbol,
    elf::code_at,
    files::ProbedFile,
    inside::Functions,
    point::Function,
    runtimes::{self, mpi::messages},
    spin::{
        meeting::Meeting,
        wait::{Purpose, Waiting, recognise},
    },
    walks::Owner,
    wanted::Binary,
};
use sbt_engine::place::{Frame, NoFunction, SpinPlace, printable, short};

/// The most instructions of a loop whose functions are compared.
const MAX_READS: usize = 8;

/// Functions of libraries that get a lock or the turn of a thread, and may spin for that.
const GETS: [&str; 9] = [
    "pthread_spin_lock",
    "GOMP_critical_start",
    "GOMP_critical_name_start",
    "GOMP_ordered_start",
    "__kmpc_critical",
    "__kmpc_critical_with_hint",
    "__kmpc_ordered",
    "omp_set_lock",
    "omp_set_nest_lock",
];

/// A waiting loop.
#[derive(Clone, Debug)]
pub struct Wait {
    /// Identifies the loop's function.
    pub id: WaitId,
    /// Where the loop is.
    pub place: SpinPlace,
    /// How it can be watched as a barrier; `None` if it cannot.
    pub way: Option<Way>,
}

/// How a waiting loop can be watched as a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By its function, which does nothing but wait. The number is that of the argument that points to
    /// what threads wait for, 0 for none.
    Function(u8),
    /// Inside of a function, where threads count by the instruction at this address.
    Inside(u64),
}

/// Identifies a waiting loop's function: by file and start address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitId {
    module: usize,
    function: u64,
}

impl Resolver {
    /// Whether an address is just behind a call in a file of the program's own.
    pub fn is_return(&mut self, address: u64) -> bool {
        let found = self.find(address.wrapping_sub(1));
        found.is_some_and(|(module, vaddr)| {
            self.modules[module].owner == Owner::User
                && self.modules[module].is_after_call(vaddr.wrapping_add(1))
        })
    }

    /// Whether the process uses a library of MPI, whose functions wait far from the program's own call.
    pub fn uses_mpi(&self) -> bool {
        self.modules.iter().any(|module| module.file.has_mpi())
    }

    /// The function of a library by which a running thread is getting a lock, its turn or a message, and
    /// the return address of the program's own call of it. `at`: the address of its instruction; `stack`:
    /// the top of its stack.
    pub fn gets_lock(&mut self, at: u64, stack: &[u64]) -> Option<(&'static str, u64)> {
        let (module, _) = self.find(at)?;
        let file = &self.modules[module];
        if file.owner == Owner::User && !file.file.is_runtime() {
            return None;
        }
        // The nearest call of the program's own is the one that has not come back yet.
        let returns_to = *stack.iter().find(|word| self.is_own_call(**word))?;
        let (module, call) = self.find(returns_to.wrapping_sub(1))?;
        let file = &self.modules[module];
        let imports = file.imports();
        let called = imports.called_before(file.image(), &file.segments, call.wrapping_add(1))?;
        let gets = GETS.into_iter().find(|name| *name == called);
        Some((gets.or_else(|| messages::waits_in(&called))?, returns_to))
    }

    /// Whether an address is just behind a call in the program's own code. Runtimes do not count: on
    /// the way to where they wait, they call functions of their own.
    fn is_own_call(&mut self, address: u64) -> bool {
        let found = self.find(address.wrapping_sub(1));
        let is_runtime = found.is_some_and(|(module, _)| self.modules[module].file.is_runtime());
        !is_runtime && self.is_return(address)
    }

    /// The program's own function and line that make the call before a return address.
    pub fn call_before(&mut self, returns_to: u64) -> Option<(Frame, String, u64)> {
        let (module, vaddr) = self.find(returns_to.wrapping_sub(1))?;
        let frames = self.frames(module, vaddr);
        let own = frames.iter().find(|frame| !frame.is_of_library());
        let frame = own.or_else(|| frames.first()).cloned().unwrap_or_default();
        let shown = self.modules[module].file.shown.to_string_lossy();
        Some((frame, printable(short(&shown)), vaddr))
    }

    /// Whether an address is in code of the program's own.
    pub fn is_own(&mut self, address: u64) -> bool {
        let found = self.find(address);
        found.is_some_and(|(module, _)| self.modules[module].owner == Owner::User)
    }

    /// Whether the call before a return address has called the function that contains the
    /// instruction at `address`.
    pub fn has_called(&mut self, returns_to: u64, address: u64) -> bool {
        let Some((module, vaddr)) = self.find(address) else {
            return false;
        };
        let call = self.find(returns_to.wrapping_sub(Cookie::CALL.into()));
        let Some((_, call)) = call.filter(|(caller, _)| *caller == module) else {
            return false;
        };
        let file = std::sync::Arc::clone(&self.modules[module].file);
        let Some(function) = file
            .unwind()
            .and_then(|unwind| Some(unwind.function(vaddr)?.start))
        else {
            return false;
        };
        let segments = &self.modules[module].segments;
        let code = code_at(
            self.modules[module].image(),
            segments,
            call,
            Cookie::CALL.into(),
        );
        let code = code.and_then(|code| <[u8; 5]>::try_from(code.bytes).ok());
        let Some([0xe8, to @ ..]) = code else {
            return false;
        };
        let next = call.wrapping_add(Cookie::CALL.into());
        next.wrapping_add_signed(i32::from_le_bytes(to).into()) == function
    }

    /// Whether an address is in a function that is already watched as a barrier.
    pub fn is_watched(&mut self, address: u64) -> bool {
        let Some((module, vaddr)) = self.find(address) else {
            return false;
        };
        let file = std::sync::Arc::clone(&self.modules[module].file);
        let mut barriers = file
            .points
            .iter()
            .filter(|point| match point.function {
                Function::Call { .. } => true,
                Function::Team(team) => runtimes::is_inside(point.layout, team.ends),
                _ => false,
            })
            .peekable();
        if barriers.peek().is_none() {
            return false;
        }
        let Some(unwind) = file.unwind() else {
            return false;
        };
        let start = |vaddr: u64| Some(unwind.function(vaddr)?.start);
        let mine = start(vaddr);
        let segments = &self.modules[module].segments;
        mine.is_some()
            && barriers.any(|point| {
                let mut segments = segments.iter();
                let vaddr = segments.find_map(|segment| segment.address(point.entry_offset));
                vaddr.and_then(start) == mine
            })
    }

    /// The waiting loop that contains the instruction at an address, unless it is that of a lock.
    pub fn waits_at(&mut self, address: u64) -> Option<Wait> {
        let (wait, purpose) = self.waiting_at(address)?;
        (purpose != Purpose::Lock).then_some(wait)
    }

    /// The waiting loop that contains the instruction at an address, unless it is that of a barrier
    /// or a runtime's: of a lock or a flag.
    pub fn spins_at(&mut self, address: u64) -> Option<SpinPlace> {
        let (wait, purpose) = self.waiting_at(address)?;
        (purpose != Purpose::Barrier && !self.is_watched(address)).then_some(wait.place)
    }

    fn waiting_at(&mut self, address: u64) -> Option<(Wait, Purpose)> {
        let (module, vaddr) = self.find(address)?;
        self.waiting_in(module, vaddr)
    }

    /// The waiting loops of the barriers that the program's own files have by their code alone, one
    /// for each barrier, until `until_ns`.
    pub fn barriers_in_code(&mut self, until_ns: u64) -> Vec<Wait> {
        let mut found = Vec::new();
        for module in 0..self.modules.len() {
            let file = std::sync::Arc::clone(&self.modules[module].file);
            if self.modules[module].owner != Owner::User || file.is_runtime() {
                continue;
            }
            let unwind = file.unwind();
            let debug = self.debug(module);
            let function = |address: u64| function_at(debug, unwind.as_deref(), address);
            let functions = Functions {
                image: self.modules[module].image(),
                segments: &self.modules[module].segments,
                imports: self.modules[module].imports(),
                function: &function,
                known: &file.meetings,
            };
            let mut all = functions.all_meetings(|| clock::now_ns() < until_ns);
            all.sort_by_key(|meeting| (meeting.counter, meeting.counts_at));
            all.dedup_by_key(|meeting| meeting.counter);
            found.extend(
                all.into_iter()
                    .filter_map(|meeting| Some(self.waiting_in(module, meeting.waits_at)?.0)),
            );
        }
        found
    }

    fn waiting_in(&mut self, module: usize, vaddr: u64) -> Option<(Wait, Purpose)> {
        let file = std::sync::Arc::clone(&self.modules[module].file);
        if self.modules[module].owner != Owner::User || file.is_runtime() {
            return None;
        }
        let unwind = file.unwind();
        let image = self.modules[module].image();
        let imports = self.modules[module].imports();
        let segments = &self.modules[module].segments;
        let debug = self.debug(module);
        let function = |address: u64| function_at(debug, unwind.as_deref(), address);
        let symbol = function(vaddr)?;
        let is_waiting = |name: &str| WAITING.iter().any(|begin| name.starts_with(begin));
        if file.is_of_runtime(&symbol.name) || file.is_static() && is_waiting(&symbol.name) {
            return None;
        }
        let functions = Functions {
            image,
            segments,
            imports,
            function: &function,
            known: &file.meetings,
        };
        let callee = |target| functions.callee(target);
        let code = functions.code(&symbol)?;
        let mut waiting = recognise(code, symbol.start, vaddr, &callee)?;
        // Counted are all places of a barrier, or none.
        let is_whole = |meeting: &Meeting| functions.barrier(&symbol, meeting.counts_at).is_some();
        waiting.meeting = waiting.meeting.filter(is_whole);
        let id = WaitId {
            module,
            function: symbol.start,
        };
        let (place, is_inlined) = self.spin_place(module, &symbol, &waiting, image)?;
        let is_whole = waiting.is_plain && !waiting.is_nested && !is_inlined;
        let way = if is_whole {
            let object = self.is_given(module, &symbol, &waiting);
            Some(Way::Function(object.into()))
        } else {
            let meeting = waiting.meeting.as_ref();
            meeting.map(|meeting| Way::Inside(meeting.counts_at))
        };
        let wait = Wait { id, place, way };
        Some((wait, waiting.purpose))
    }

    /// The file of a waiting loop, with only its function to be watched as a barrier. `object`: the
    /// argument that points to what threads wait for, 0 for none. `None` if it cannot be probed.
    pub fn watches_wait(&mut self, id: WaitId, object: u8) -> Option<ProbedFile> {
        let file = std::sync::Arc::clone(&self.modules[id.module].file);
        let unwind = file.unwind();
        let debug = self.debug(id.module)?;
        let symbol = function_at(Some(debug), unwind.as_deref(), id.function)?;
        let binary = Binary::new(&file.shown, self.modules[id.module].image(), debug)?;
        let points = binary.spinning(&symbol, object)?;
        // A function whose end is not seen cannot be told from a lock.
        let has_end = points
            .iter()
            .any(|point| point.function == Function::CallExit);
        has_end.then(|| file.with_points(points).ok()).flatten()
    }

    /// The file of a waiting loop, with only the barrier to be watched at which threads count by
    /// the instruction at `counts_at`, and all functions that have a part of it. `None` if not all
    /// of it can be probed.
    pub fn watches_inside(
        &mut self,
        id: WaitId,
        counts_at: u64,
    ) -> Option<(ProbedFile, Vec<WaitId>)> {
        let file = std::sync::Arc::clone(&self.modules[id.module].file);
        let unwind = file.unwind();
        let debug = self.debug(id.module);
        let function = |address: u64| function_at(debug, unwind.as_deref(), address);
        let functions = Functions {
            image: self.modules[id.module].image(),
            segments: &self.modules[id.module].segments,
            imports: self.modules[id.module].imports(),
            function: &function,
            known: &file.meetings,
        };
        let (points, starts) = functions.barrier(&function(id.function)?, counts_at)?;
        let of = |function| WaitId { function, ..id };
        let ids = starts.into_iter().map(of).collect();
        Some((file.with_points(points).ok()?, ids))
    }

    /// The place of a waiting loop, and whether the loop is part of an inlined function; `None` if
    /// the loop belongs to a library of the language.
    fn spin_place(
        &self,
        module: usize,
        symbol: &Symbol,
        waiting: &Waiting,
        image: &[u8],
    ) -> Option<(SpinPlace, bool)> {
        let frames = self.frames_of_loop(module, waiting);
        let own = frames.iter().position(|frame| !frame.is_of_library());
        let names = |frame: &Frame| frame.function.clone();
        let (inner, own) = match own {
            Some(own) => (&frames[..own], Some(&frames[own])),
            None if frames.is_empty() => (&frames[..], None),
            None => return None,
        };
        // Reading an atomic variable is inlined library code, too, and does not count.
        let mut inner = inner.iter().filter_map(names);
        if inner.any(|name| name.contains("wait")) {
            return None;
        }
        let shown = self.modules[module].file.shown.to_string_lossy();
        let outer = frames.last().and_then(names);
        let is_inlined = own.is_some_and(|frame| frame.inlined);
        let is_whole = waiting.is_plain && !waiting.is_nested && !is_inlined;
        let line = own.and_then(|frame| {
            let file = printable(short(frame.file.as_deref()?));
            Some(format!("{file}:{}", frame.line?))
        });
        // By its line it is counted inside of its function.
        let line = line.filter(|_| !is_whole && waiting.meeting.is_some());
        let is_by_line = line.is_some();
        let barrier = if let Some(line) = line {
            Ok(line)
        } else if symbol.name.is_empty() {
            Err(NoFunction::NoSymbol)
        } else if is_inlined
            || waiting.works_between
            || waiting.is_nested && !self.is_called(module, symbol, image)
        {
            Err(NoFunction::PartOf(
                outer.unwrap_or_else(|| symbol.name.clone()),
            ))
        } else {
            self.written(module, symbol, outer.as_deref(), waiting)
        };
        let place = SpinPlace {
            function: own.and_then(names).map(|name| printable(&name)),
            file: own.and_then(|frame| frame.file.clone()),
            line: own.and_then(|frame| frame.line),
            binary: printable(short(&shown)),
            offset: waiting.start,
            is_barrier: waiting.purpose == Purpose::Barrier,
            is_nested: waiting.is_nested && !is_by_line,
            may_work: !waiting.is_plain && !is_by_line,
            barrier,
        };
        Some((place, is_inlined))
    }

    /// Whether the function is given what threads wait for as its first argument. Without debug
    /// information, a pointer is taken for it.
    fn is_given(&self, module: usize, symbol: &Symbol, waiting: &Waiting) -> bool {
        let debug = self.debug(module);
        let told = debug.and_then(|debug| debug.first_is_pointer(symbol.start));
        !waiting.is_fixed && told.unwrap_or(waiting.has_pointer)
    }

    /// The functions and the line of a loop, innermost first: of functions inlined into the loop,
    /// such as one that pauses, only the caller.
    fn frames_of_loop(&self, module: usize, waiting: &Waiting) -> Vec<Frame> {
        let mut frames = self.frames(module, waiting.start);
        for address in waiting.reads.iter().take(MAX_READS) {
            let others = self.frames(module, *address);
            let same =
                |(a, b): &(&Frame, &Frame)| a.function == b.function && a.inlined == b.inlined;
            let pairs = frames.iter().rev().zip(others.iter().rev());
            let shared = pairs.take_while(same).count();
            if shared > 0 {
                frames.drain(..frames.len() - shared);
            }
        }
        frames
    }

    /// The name by which a user would declare the function to be a barrier.
    fn written(
        &self,
        module: usize,
        symbol: &Symbol,
        name: Option<&str>,
        waiting: &Waiting,
    ) -> Result<String, NoFunction> {
        let debug = self.debug(module).ok_or(NoFunction::NoSymbol)?;
        let means_it = |name: &&str| {
            // `--barrier` would take all functions of that name.
            let found = debug.functions(name).unwrap_or_default();
            found.len() == 1 && found[0].start == symbol.start
        };
        let names = [name, Some(symbol.name.as_str())];
        let name = names.into_iter().flatten().find(means_it);
        let name = printable(name.ok_or(NoFunction::NoSymbol)?);
        let file = &self.modules[module];
        let name = if file.is_program {
            name
        } else {
            let file = file.file.shown.to_string_lossy();
            format!("{}!{name}", printable(short(&file)))
        };
        if self.is_given(module, symbol, waiting) {
            Ok(name)
        } else {
            Ok(format!("{name}:0"))
        }
    }

    /// Whether a call or a jump in the file leads to a function from outside of the function, or
    /// whether other files may call it.
    fn is_called(&self, module: usize, symbol: &Symbol, image: &[u8]) -> bool {
        let module = &self.modules[module];
        if !module.is_program {
            return true;
        }
        let own = symbol.start..symbol.start.saturating_add(symbol.size);
        let segments = module.segments.iter().filter(|segment| segment.executable);
        for segment in segments {
            let Some(code) = code_at(image, &module.segments, segment.vaddr, segment.filesz) else {
                continue;
            };
            let leads_there = |at: usize| {
                let offset = code.bytes.get(at + 1..at + 5)?;
                let offset = i32::from_le_bytes(offset.try_into().ok()?);
                let next = segment.vaddr.wrapping_add(at as u64 + 5);
                let is_it = next.wrapping_add_signed(offset.into()) == symbol.start;
                (is_it && !own.contains(&next.wrapping_sub(5))).then_some(())
            };
            // `call` and `jmp`.
            let mut places = memchr2_iter(0xe8, 0xe9, code.bytes);
            if places.any(|at| leads_there(at).is_some()) {
                return true;
            }
        }
        false
    }
}
