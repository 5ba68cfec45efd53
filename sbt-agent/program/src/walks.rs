//! The return addresses from which the kernel side walks on to the caller, kept up to date.
//!
//! Rules that the files tell are learned before the program runs. The other rules are learned from
//! the chains of callers that come: where they end, and where they should not have gone on.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    rc::Rc,
    sync::Arc,
};

use sbt_common::{Code, Cookie, MAX_CALLERS, Rule, layout};

use super::{
    callers::{At, Callers, Read},
    calls::Calls,
    files::ProbedFile,
    futex_ways,
    runtimes::{self, ALL, Role, c11},
    syscalls, vdso,
};
mod regions;

use crate::{
    point::{Function, Point},
    syscalls::SYSCALL,
};
use sbt_engine::place::short;

/// A new rule for the code around a return address; `None` takes the rule back.
pub type Change = (Code, Option<Rule>);

/// The owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The user: a program, or a library that is not installed with the system.
    User,
    /// The system or a programming language: a library.
    System,
    /// The C library or the dynamic linker: a function that they call begins a thread or the
    /// program.
    C,
}

/// The most return addresses that are walked from: each takes two rules.
const MAX_LEARNED: usize = sbt_common::MAX_RULES as usize / 2;

/// The most return addresses that are learned from files. The rest is left to chains of callers,
/// which tell where the program really is; the libraries of a large program may have more callers
/// than there is room for.
const MAX_SEEDED: usize = MAX_LEARNED / 2;

/// Libraries of compilers and of the system, wherever they are installed; runtimes with barriers
/// name their own ([`runtimes::Runtime::libraries`]).
const LIBRARIES: [&str; 5] = ["libgcc_s", "libtbb", "libm.so", "librt.so", "libdl.so"];

const SYSTEM_FOLDERS: [&str; 4] = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"];

/// Functions of C libraries that call functions of a program, as static programs contain them.
const C_STARTS: [&str; 9] = [
    "start_thread",
    "__libc_start_call_main",
    "__libc_start_main",
    "__libc_start_main_impl",
    "libc_start_main_stage2",
    "_start",
    "__clone",
    "clone3",
    "__call_tls_dtors",
];

impl Owner {
    /// The owner of the file at a path. `is_program`: see [`super::elf::is_program`].
    pub(super) fn of(path: &Path, is_program: bool) -> Self {
        let path = path.to_string_lossy();
        let begins = |names: &[&str]| names.iter().any(|name| short(&path).starts_with(name));
        let is_library = short(&path).contains(".so");
        let is_kernels = vdso::is(Path::new(&*path));
        let is_runtime = |is_c: bool| {
            let all = ALL.iter();
            let mut of_role = all.filter(|runtime| (runtime.role == Role::CLibrary) == is_c);
            of_role.any(|runtime| begins(runtime.libraries))
        };
        if is_library && is_runtime(true) || is_kernels {
            Self::C
        } else if is_runtime(false)
            || begins(&LIBRARIES)
            || !is_program && SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder))
        {
            Self::System
        } else {
            Self::User
        }
    }

    /// The owner of code in a file of this owner, by the function's name.
    pub(super) fn of_function(self, name: Option<&str>) -> Self {
        match name {
            Some(name) if C_STARTS.contains(&name) => Self::C,
            _ => self,
        }
    }
}

/// One call of a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// The number of the file.
    pub(super) file: usize,
    /// The return address in the file.
    pub(super) address: u64,
    /// The owner of the code.
    pub(super) owner: Owner,
    /// Whether any of the functions there belongs neither to the system nor to a language's
    /// library.
    pub(super) is_own: bool,
}

impl Link {
    fn is_of_system(&self) -> bool {
        self.owner == Owner::System
    }
}

/// The files of a process by number, each with its owner.
pub(super) type Files<'a> = [(&'a Arc<ProbedFile>, Owner)];

/// The rules in force and their reasons.
#[derive(Default)]
pub(super) struct Walks {
    callers: Callers,
    /// The names of functions that are barriers, or may be part of one.
    names: HashSet<String>,
    /// Whether the program's own files use any of these functions.
    is_concerned: bool,
    /// For each return address that is walked from, the code by which it is recognised.
    learned: HashMap<At, Vec<Code>>,
    /// The rule for each code; `None` if two places with this code have different rules.
    told: HashMap<Code, Option<Rule>>,
    /// Return addresses that are walked from because nothing in the chain was the program's own.
    of_libraries: HashSet<At>,
    regions: regions::Regions,
    changes: Vec<Change>,
    changed: bool,
    seeded: usize,
    /// Whether chains begin with system calls, too; if so, for how many files the functions for
    /// system calls have been learned.
    system_calls: Option<usize>,
    /// Whether any file uses the condition variables of C11.
    uses_c11: bool,
}

impl Walks {
    /// The rules that have changed since the last call. An empty list means that addresses have a
    /// new meaning.
    pub(super) fn take(&mut self) -> Option<Vec<Change>> {
        let changes = std::mem::take(&mut self.changes);
        std::mem::take(&mut self.changed).then_some(changes)
    }

    /// Declares that addresses have a new meaning, so that what is remembered of them may be wrong.
    pub(super) fn renew(&mut self) {
        self.changed = true;
    }

    /// Walks on from system calls, too.
    pub(super) fn follow_system_calls(&mut self) {
        if self.system_calls.is_none() {
            self.system_calls = Some(0);
            // Searches all files again, for callers of the function for system calls.
            self.seeded = 0;
        }
    }

    /// Whether sbt walks on from system calls.
    pub(super) fn follows_system_calls(&self) -> bool {
        self.system_calls.is_some()
    }

    /// Learns to walk on from the functions for system calls, and through the functions for locks,
    /// before any is called.
    fn seed_system_calls(&mut self, files: &Files<'_>) {
        let Some(seeded) = self.system_calls else {
            return;
        };
        self.system_calls = Some(files.len());
        for (number, (file, owner)) in (0..).zip(files).skip(seeded) {
            let has_library = *owner == Owner::C || file.is_static();
            if !has_library && !file.has(Function::CondWait) {
                continue;
            }
            if let Some(unwind) = file.unwind()
                && let Some(address) = syscalls::address(&unwind)
            {
                self.learn(files, (number, address));
            }
            // Only a C library has functions for locks, and it has the functions for condition
            // variables, too.
            if !file.has(Function::CondWait) {
                continue;
            }
            let ways = file.unwind();
            for address in ways.iter().flat_map(|unwind| futex_ways::returns(unwind)) {
                self.learn_library_at(files, (number, address));
            }
        }
    }

    /// Learns the rules that the files tell, if there are more files than last time.
    pub(super) fn seed(&mut self, files: &Files<'_>) {
        self.seed_system_calls(files);
        let seeded = self.seeded;
        if seeded == files.len() {
            return;
        }
        self.seeded = files.len();
        let before = self.names.len();
        for (file, _) in &files[seeded..] {
            self.names.extend(barriers(file).flat_map(names_of));
        }
        self.seed_libraries(files);
        self.seed_conditions(files, seeded);
        self.seed_regions(files, seeded);
        if self.follows_system_calls() {
            self.names.insert(SYSCALL.to_owned());
        }
        let all = (0..).zip(files);
        let users = || all.clone().filter(|(_, (_, owner))| *owner == Owner::User);
        let has_new_names = self.names.len() > before;
        if !self.is_concerned {
            let from = if has_new_names { 0 } else { seeded };
            self.is_concerned =
                users()
                    .skip_while(|(number, _)| *number < from)
                    .any(|(_, (file, _))| {
                        barriers(file).next().is_some() || file.imports_any(&self.names)
                    });
            if !self.is_concerned {
                return;
            }
        }
        // The calls of a new file may be of no concern.
        let mut is_changed = seeded == 0 || has_new_names;
        let whole: HashSet<String> = files
            .iter()
            .flat_map(|(file, _)| whole_barriers(file).flat_map(names_of))
            .collect();
        for (number, (file, _)) in users() {
            if number >= seeded {
                is_changed |=
                    barriers(file).next().is_some() || self.callers.concerns(file, &self.names);
            }
            let read = Arc::clone(file);
            let is_searched = !file.has_much_code() || uses_barriers(file, &whole);
            self.callers
                .expect(number, file, is_searched, move || read_file(&read));
        }
        if !is_changed || self.learned.len() >= MAX_SEEDED {
            return;
        }
        let mut starts = Vec::new();
        for (number, (file, _)) in users() {
            starts.extend(barriers(file).filter_map(|point| {
                let unwind = file.unwind()?;
                let start = unwind.function(unwind.address(point.entry_offset)?)?.start;
                Some((number, start))
            }));
        }
        for (file, address) in self.callers.walked(&starts, &self.names, MAX_SEEDED) {
            if self.learned.len() >= MAX_SEEDED {
                break;
            }
            self.learn(files, (file, address));
        }
        for (number, (file, _)) in users() {
            self.learn_inlined(files, number, file);
        }
    }

    /// Learns to walk on from libraries of a language that call barriers for the program, as MPI's
    /// libraries for Fortran do: the place is the caller of the library.
    fn seed_libraries(&mut self, files: &Files<'_>) {
        let all = files.iter().flat_map(|(file, _)| whole_barriers(file));
        let mut names: HashSet<String> = all.flat_map(names_of).collect();
        for _ in 0..MAX_CALLERS {
            let mut outer = HashSet::new();
            for (number, (file, owner)) in (0..).zip(files) {
                let is_between = *owner == Owner::System && barriers(file).next().is_none();
                if !is_between || !file.imports_any(&names) {
                    continue;
                }
                let Some(calls) = self.calls(number, file).cloned() else {
                    continue;
                };
                for call in names.iter().flat_map(|name| calls.imported(name)) {
                    let function = calls.function(call.from);
                    let own = function.map_or(&[][..], |function| calls.names(function));
                    outer.extend(own.iter().cloned());
                    if call.returns {
                        self.of_libraries.insert((number, call.next));
                        self.learn(files, (number, call.next));
                    }
                }
            }
            outer.retain(|name| !names.contains(name));
            if outer.is_empty() {
                return;
            }
            names = outer;
        }
    }

    /// Learns to walk on from the condition variables of C11 to their users, before the program
    /// runs: a fast program may be over before chains of callers have told that. Files before
    /// `seeded` have already been asked whether they use any.
    fn seed_conditions(&mut self, files: &Files<'_>, seeded: usize) {
        let names = c11::condition_names();
        self.uses_c11 |= files[seeded..]
            .iter()
            .any(|(file, owner)| *owner != Owner::C && file.imports_any(&names));
        for (number, (file, _)) in (0..).zip(files) {
            // In a static program C11's functions stand beside their users.
            let has_any = file.has(Function::CondWait) && (self.uses_c11 || file.is_static());
            if !has_any {
                continue;
            }
            let Some(unwind) = file.unwind() else {
                continue;
            };
            for address in c11::calls_of_conditions(&unwind) {
                self.learn_library_at(files, (number, address));
            }
        }
    }

    /// Learns to walk on from barriers that are inlined into a function with several callers: such
    /// a barrier counts as called there.
    fn learn_inlined(&mut self, files: &Files<'_>, number: usize, file: &ProbedFile) {
        for point in barriers(file).filter(|point| point.layout == layout::STD_INLINED) {
            let Some(address) = file
                .unwind()
                .and_then(|unwind| unwind.address(point.entry_offset))
                .map(|address| address + u64::from(Cookie::CALL))
            else {
                continue;
            };
            let function = self.callers.function_of(number, address);
            if function.is_some_and(|function| self.callers.leads_on(function, MAX_CALLERS - 1)) {
                self.learn(files, (number, address));
            }
        }
    }

    fn learn(&mut self, files: &Files<'_>, at: At) {
        if self.learned.contains_key(&at) || self.learned.len() >= MAX_LEARNED {
            return;
        }
        let Some((file, _)) = files.get(at.0) else {
            return;
        };
        let Some(unwind) = file.unwind() else {
            return;
        };
        let Some(rule) = unwind.rule(at.1) else {
            return;
        };
        let probed: Vec<u64> = file
            .points
            .iter()
            .flat_map(|point| [point.entry_offset, point.return_offset])
            .collect();
        let codes = unwind.codes(at.1, &probed);
        for code in &codes {
            let told = self.told.entry(*code).or_insert(Some(rule));
            if *told != Some(rule) {
                *told = None;
            }
            self.changes.push((*code, *told));
        }
        self.learned.insert(at, codes);
        self.changed = true;
    }

    /// Looks at a new chain, innermost first, in which all addresses are known: whether the walk
    /// should have gone on, or should not have gone so far.
    pub(super) fn consider(&mut self, files: &Files<'_>, chain: &[Link]) {
        let Some((last, inner)) = chain.split_last() else {
            return;
        };
        let has_own = chain.iter().any(|link| link.is_own);
        match last.owner {
            Owner::User => {
                let function = self.function(files, last);
                let is_inside = |link: &Link| self.callers.function_of(link.file, link.address);
                let again =
                    function.is_some() && inner.iter().any(|link| is_inside(link) == function);
                let frames = MAX_CALLERS.saturating_sub(chain.len());
                if !has_own && frames > 0 {
                    self.learn_library(files, last);
                } else if let Some(function) = function
                    && !again
                    && self.callers.leads_on(function, frames)
                {
                    self.learn(files, (last.file, last.address));
                }
            }
            Owner::System if !has_own => self.learn_library(files, last),
            // A lock, for example: the caller tells which of its functions the program has called.
            Owner::C if self.follows_system_calls() && is_all_c(chain) => {
                self.learn_library(files, last);
            }
            Owner::C if !has_own && inner.last().is_some_and(Link::is_of_system) => {
                self.dead_end(inner);
            }
            Owner::System | Owner::C => {
                // The caller of the C library or of a runtime does not belong to the program.
                let begun = inner.last().filter(|link| link.owner == Owner::User);
                if let Some(begun) = begun
                    && let Some(function) = self.function(files, begun)
                    && self.callers.is_begun(function)
                {
                    self.forget(function);
                }
            }
        }
    }

    fn learn_library(&mut self, files: &Files<'_>, link: &Link) {
        self.learn_library_at(files, (link.file, link.address));
    }

    fn learn_library_at(&mut self, files: &Files<'_>, at: At) {
        if self.regions.is_dead_end(at) {
            return;
        }
        self.of_libraries.insert(at);
        self.learn(files, at);
    }

    /// The calls of a file, which is read on first use.
    fn calls(&mut self, number: usize, file: &ProbedFile) -> Option<&Rc<Calls>> {
        if self.callers.file(number).is_none() {
            let calls = Calls::of(file.unwind()?)?;
            self.callers.add(number, Rc::new(calls));
        }
        self.callers.file(number)
    }

    fn function(&mut self, files: &Files<'_>, link: &Link) -> Option<At> {
        let (file, _) = files.get(link.file)?;
        self.calls(link.file, file)?;
        self.callers.function_of(link.file, link.address)
    }

    /// Takes back the rules that lead from a function to callers of no interest. The rules that
    /// lead to the function stay, even if they distinguish nothing: a place must not change while
    /// the program runs.
    fn forget(&mut self, function: At) {
        let needless: Vec<At> = self
            .learned
            .keys()
            .filter(|at| !self.of_libraries.contains(at))
            .filter(|(file, address)| self.callers.function_of(*file, *address) == Some(function))
            .copied()
            .collect();
        for at in needless {
            self.unlearn(at);
        }
    }

    fn unlearn(&mut self, at: At) {
        for code in self.learned.remove(&at).unwrap_or_default() {
            self.told.remove(&code);
            self.changes.push((code, None));
        }
        self.changed = true;
    }
}

/// The rules that are learned from a program's file alone: from its barriers, and then from each of
/// its first `limit` functions, as if each had been seen in a chain of callers. Used to try out
/// foreign bytes.
pub fn of_program(file: &Arc<ProbedFile>, limit: usize) -> Vec<Change> {
    let files = [(file, Owner::User)];
    let mut walks = Walks::default();
    walks.follow_system_calls();
    walks.seed(&files);
    let Some(unwind) = file.unwind() else {
        return Vec::new();
    };
    for function in unwind.functions().iter().take(limit) {
        for address in [function.start.saturating_add(1), function.end] {
            // Asks the questions that are asked when stacks are taken.
            let _ends = unwind.is_outermost(address) || unwind.is_signal(address);
            let _rule = unwind.rule_at(address);
            let link = Link {
                file: 0,
                address,
                owner: Owner::User,
                is_own: true,
            };
            walks.consider(&files, &[link]);
            walks.consider(
                &files,
                &[Link {
                    is_own: false,
                    ..link
                }],
            );
        }
    }
    walks.take().unwrap_or_default()
}

/// The calls of a file of the program's own.
fn read_file(file: &ProbedFile) -> Option<Read> {
    let unwind = file.unwind()?;
    let of_libraries = runtimes::functions_of_libraries(unwind.image());
    Some(Read {
        calls: Rc::new(Calls::of(unwind)?),
        of_libraries: of_libraries.into_iter().collect(),
    })
}

/// Whether all calls of a chain are in the C library.
pub(super) fn is_all_c(chain: &[Link]) -> bool {
    chain.iter().all(|link| link.owner == Owner::C)
}

/// The names of a barrier's function: the functions of MPI have a second name each, for tools that
/// replace the first (MPI 3.1, section 14.2).
pub(super) fn names_of(point: &Point) -> impl Iterator<Item = String> + use<> {
    let is_of_mpi = [layout::MPI, layout::MPI_NUMBERED].contains(&point.layout);
    let second = is_of_mpi.then(|| format!("P{}", point.symbol));
    [point.symbol.clone()].into_iter().chain(second)
}

/// Where a thread enters a barrier, or a function that may be part of one. Barriers in a runtime's
/// own code are left out: the way to them is always the same.
fn barriers(file: &ProbedFile) -> impl Iterator<Item = &Point> {
    file.points.iter().filter(|point| match point.function {
        Function::Team(_) => point.is_of_language(),
        Function::BarrierWait
        | Function::Call { .. }
        | Function::CondWait
        | Function::CondWake { .. } => true,
        _ => false,
    })
}

/// Whether a file has barriers of its own, or uses barriers of these names.
fn uses_barriers(file: &ProbedFile, names: &HashSet<String>) -> bool {
    let is_whole = |point: &Point| {
        !matches!(
            point.function,
            Function::CondWait | Function::CondWake { .. }
        )
    };
    barriers(file).any(is_whole) || file.imports_any(names)
}

/// The functions of a file that are barriers, and not only a part of one.
pub(super) fn whole_barriers(file: &ProbedFile) -> impl Iterator<Item = &Point> {
    barriers(file).filter(|point| {
        matches!(
            point.function,
            Function::BarrierWait | Function::Call { .. }
        )
    })
}
