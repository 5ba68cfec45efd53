//! Barriers that return into the runtime of OpenMP: the function of a parallel region ends with a
//! jump to the barrier. The thread that began the region has the program's call further up its
//! stack, and sbt walks on to that call. The other threads have nothing of the program there.

use std::collections::HashSet;

use object::{LittleEndian, read::elf::ElfFile64};

use super::{At, Files, Link, Owner, Walks};
use crate::{
    arch::{Callee, Code, Flow},
    calls::Call,
    elf::{code_at, names},
    files::ProbedFile,
    point::Function,
    runtimes::regions::{BARRIERS, CALLS_REGION, FORKS},
    unwind::Unwind,
};

/// The most bytes of a function that are searched for calls.
const MAX_FUNCTION: u64 = 1 << 16;

/// The calls in a function of a runtime.
#[derive(Default)]
struct Inside {
    /// The return addresses of calls through pointers.
    through_pointers: Vec<u64>,
    /// The called function and the return address of each other call.
    direct: Vec<(u64, u64)>,
}

impl Inside {
    fn of(unwind: &Unwind, address: u64) -> Option<Self> {
        let function = unwind.function(address)?;
        let length = (function.end - function.start).min(MAX_FUNCTION);
        let bytes = code_at(unwind.image(), unwind.segments(), function.start, length)?.bytes;
        let code = Code::new(function.start, bytes);
        let mut inside = Self::default();
        for instruction in code.instructions(function.start, function.start + length) {
            match instruction.flow() {
                Flow::Call(Callee::At(target)) => inside.direct.push((target, instruction.next())),
                Flow::Call(_) => inside.through_pointers.push(instruction.next()),
                _ => {}
            }
        }
        Some(inside)
    }
}

/// The return addresses through which a runtime comes from functions that begin a region to the
/// region's function: these functions, or functions that they call, call through a pointer, or call
/// one of `callers`, the functions that contain a call of [`CALLS_REGION`].
fn returns(begins: &[u64], unwind: &Unwind, callers: &HashSet<u64>) -> Vec<u64> {
    let leads_on = |inside: &Inside| {
        let direct = inside.direct.iter();
        let direct = direct.filter(|(target, _)| callers.contains(target));
        let through_pointers = inside.through_pointers.iter().copied();
        let all: Vec<u64> = through_pointers
            .chain(direct.map(|(_, next)| *next))
            .collect();
        all
    };
    let mut found = Vec::new();
    for begin in begins {
        let Some(inside) = Inside::of(unwind, *begin) else {
            continue;
        };
        found.extend(leads_on(&inside));
        for (target, next) in &inside.direct {
            let inner = Inside::of(unwind, *target).unwrap_or_default();
            let inner = leads_on(&inner);
            if !inner.is_empty() {
                found.push(*next);
                found.extend(inner);
            }
        }
    }
    found
}

fn address_of(image: &[u8], name: &str) -> Option<u64> {
    let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
    let mut named = names::defined(&file).filter(|symbol| symbol.text() == Some(name));
    named.next().map(|symbol| symbol.address())
}

/// Facts about regions that end with a jump to a barrier.
#[derive(Default)]
pub(super) struct Regions {
    /// Whether any region of the program does so.
    is_any: bool,
    /// Return addresses from which a walk comes only to the beginning of a runtime's own thread.
    dead_ends: HashSet<At>,
}

impl Regions {
    pub(super) fn is_dead_end(&self, at: At) -> bool {
        self.dead_ends.contains(&at)
    }
}

impl Walks {
    /// Whether regions of the program end with a jump to a barrier.
    pub(crate) fn follows_regions(&self) -> bool {
        self.regions.is_any
    }

    /// Learns to walk on from where a runtime of OpenMP calls the functions of regions, before the
    /// program runs, if any region of the program ends with a jump to a barrier. Files before
    /// `seeded` have already been asked.
    pub(super) fn seed_regions(&mut self, files: &Files<'_>, seeded: usize) {
        let all = || (0..).zip(files);
        if !self.regions.is_any {
            // Only the files that are new may end with one.
            self.regions.is_any = all()
                .skip(seeded)
                .any(|(number, (file, owner))| *owner == Owner::User && self.ends(number, file));
        }
        if !self.regions.is_any {
            return;
        }
        for (number, (file, owner)) in all() {
            if *owner != Owner::System || !file.has_openmp() {
                continue;
            }
            let Some(unwind) = file.unwind() else {
                continue;
            };
            let [calls_region, forks] =
                [CALLS_REGION, FORKS].map(|name| address_of(unwind.image(), name));
            let outer = self.calls_by_all_means(number, file, CALLS_REGION, calls_region);
            let callers = outer.iter().filter_map(|call| unwind.function(call.from));
            let callers = callers.map(|function| function.start).collect();
            let begins = file.points.iter();
            let begins = begins.filter(|point| point.function == Function::Region);
            let begins = begins.filter_map(|point| unwind.address(point.entry_offset));
            let begins: Vec<u64> = begins.chain(forks).collect();
            let mut found = returns(&begins, &unwind, &callers);
            let forked = self.calls_by_all_means(number, file, FORKS, forks);
            found.extend(outer.iter().chain(&forked).map(|call| call.next));
            let innermost = calls_region.and_then(|at| Inside::of(&unwind, at));
            found.extend(innermost.unwrap_or_default().through_pointers);
            for address in found {
                self.learn_library_at(files, (number, address));
            }
        }
    }

    /// The calls, in a library, of a function of the library: by its address, and by its name as
    /// exported functions are called.
    fn calls_by_all_means(
        &mut self,
        number: usize,
        file: &ProbedFile,
        name: &str,
        address: Option<u64>,
    ) -> Vec<Call> {
        let calls = self.calls(number, file).zip(address);
        calls.map_or_else(Vec::new, |(calls, address)| {
            [calls.direct(address), calls.imported(name)].concat()
        })
    }

    /// Whether a function of a file ends with a jump to a barrier of OpenMP.
    fn ends(&mut self, number: usize, file: &ProbedFile) -> bool {
        let names: HashSet<String> = BARRIERS.map(str::to_owned).into();
        file.imports_any(&names) && self.jumps(number, file).next().is_some()
    }

    /// The jumps of a file to barriers of OpenMP.
    fn jumps(&mut self, number: usize, file: &ProbedFile) -> impl Iterator<Item = Call> + use<> {
        let calls = self.calls(number, file).cloned();
        let all = calls.into_iter().flat_map(|calls| {
            let by_name = BARRIERS.map(|name| calls.imported(name));
            by_name.into_iter().flatten()
        });
        all.filter(|call| !call.returns)
    }

    /// The jump to a barrier with which the function of a region ends; `None` if the function has
    /// none or several.
    pub(crate) fn last_barrier(
        &mut self,
        number: usize,
        file: &ProbedFile,
        function: u64,
    ) -> Option<Call> {
        let unwind = file.unwind()?;
        let range = unwind.function(function)?;
        let range = range.start..range.end;
        let mut own = self
            .jumps(number, file)
            .filter(|call| range.contains(&call.from));
        own.next().filter(|_| own.next().is_none())
    }

    /// Takes in a chain that ends where the C library begins a thread, and in which nothing is the
    /// program's own: sbt does not walk on from the outermost function of the runtime again.
    pub(super) fn dead_end(&mut self, inner: &[Link]) {
        let Some(link) = inner.last() else {
            return;
        };
        let at = (link.file, link.address);
        if self.of_libraries.remove(&at) {
            self.regions.dead_ends.insert(at);
            self.unlearn(at);
        }
    }
}
