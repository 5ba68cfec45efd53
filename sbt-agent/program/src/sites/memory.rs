//! The mappings in the memory of each process.

use std::{path::PathBuf, sync::Arc};

use super::Resolver;
use crate::clock;
use crate::{
    file_id::FileId,
    files::ProbedFile,
    process::{self, Mapping},
    vdso,
};

/// The most unmapped mappings that are remembered.
const MAX_UNMAPPED: usize = 64;

#[derive(Clone, Copy)]
pub(super) struct Mapped {
    start: u64,
    end: u64,
    offset: u64,
    id: FileId,
    module: usize,
    /// Whether any code there has been called.
    used: bool,
}

/// Above this number of processes, those that have ended unseen are forgotten.
const MAX_ENDED: usize = sbt_common::MAX_FOLLOWED as usize;

/// After so many executed programs, addresses are declared to have a new meaning: the kernel side
/// and the reader of its records tell apart the chains of callers of so many executions only.
const EXECUTIONS_REMEMBERED: u32 = 256;

/// The mappings in the memory of one process.
#[derive(Clone, Default)]
pub(super) struct Space {
    pub(super) pid: u32,
    pub(super) program: Option<PathBuf>,
    pub(super) code_start: Option<u64>,
    pub(super) executions: u32,
    /// In the order of addresses.
    pub(super) mapped: Vec<Mapped>,
    /// Former mappings whose addresses are still free, the latest last.
    pub(super) unmapped: Vec<Mapped>,
    /// The time at which the mappings were last read, `CLOCK_MONOTONIC`, ns; 0 if never.
    pub(super) looked_ns: u64,
}

impl Space {
    /// The files that are mapped; a file may come more than once.
    pub(super) fn modules(&self) -> impl Iterator<Item = usize> {
        self.mapped.iter().map(|mapped| mapped.module)
    }
}

impl Resolver {
    /// Makes `process` the subject of the following calls; 0 stands for the target.
    pub fn turn_to(&mut self, process: u32) {
        let process = if process == 0 { self.target } else { process };
        if process == self.space.pid {
            return;
        }
        let new = self.others.remove(&process).unwrap_or_else(|| Space {
            pid: process,
            // Only the program that the target was started from is known; this process may have
            // executed another one since.
            executions: 1,
            ..Space::default()
        });
        let old = std::mem::replace(&mut self.space, new);
        self.others.insert(old.pid, old);
    }

    /// A process has started another, which has a copy of its memory.
    pub fn forked(&mut self, process: u32, child: u32) {
        self.turn_to(process);
        if self.others.len() >= MAX_ENDED {
            let target = self.target;
            self.others
                .retain(|pid, _| *pid == target || process::folder(*pid).exists());
        }
        let space = Space {
            pid: child,
            looked_ns: 0,
            ..self.space.clone()
        };
        self.others.insert(child, space);
    }

    /// Sets where the program's code begins, for the time when the mappings are gone.
    pub fn set_code_start(&mut self, address: Option<u64>) {
        self.space.code_start = address.or(self.space.code_start);
    }

    /// The process has executed a program: the first time the program that it was started from,
    /// later another one.
    pub fn executed(&mut self) {
        self.space.mapped.clear();
        self.space.unmapped.clear();
        self.space.code_start = None;
        self.space.looked_ns = 0;
        if self.space.executions > 0 {
            self.space.program = None;
        }
        self.space.executions += 1;
        self.executions += 1;
        if self.executions.is_multiple_of(EXECUTIONS_REMEMBERED) {
            self.walks.renew();
        }
    }

    /// A process has ended.
    pub fn ended(&mut self, process: u32) {
        if process == self.target {
            return;
        }
        if process == self.space.pid {
            self.turn_to(self.target);
        }
        self.others.remove(&process);
    }

    /// Reads the process's mappings again, unless a read that began after `time_ns` has seen the
    /// change already. Reading the mappings of a program with many libraries takes a millisecond,
    /// and the dynamic linker reports each library twice.
    pub fn refresh_since(&mut self, time_ns: u64) {
        if self.space.looked_ns <= time_ns {
            self.refresh();
        }
    }

    /// To be called once the files that [`Self::new_files`] returned have their probes: a dynamic
    /// linker among them may have mapped libraries before it could tell. Reads the mappings of its
    /// processes again, and returns whether there were any.
    pub fn catch_up(&mut self) -> bool {
        let processes = std::mem::take(&mut self.unheard);
        let turned_to = self.space.pid;
        for process in &processes {
            self.turn_to(*process);
            self.refresh();
        }
        self.turn_to(turned_to);
        !processes.is_empty()
    }

    /// Reads the process's mappings again. If the process is gone, nothing changes.
    pub fn refresh(&mut self) {
        let now_ns = clock::now_ns();
        let old = std::mem::take(&mut self.space.mapped);
        // No two mappings begin at one address.
        let at_start = |start: u64| {
            let at = old.binary_search_by_key(&start, |old| old.start).ok()?;
            Some(old[at])
        };
        let mappings = process::mappings_again(self.space.pid, |mapping| {
            at_start(mapping.start).filter(|old| {
                (old.end, old.offset, old.id) == (mapping.end, mapping.offset, mapping.id)
            })
        });
        if mappings.is_empty() {
            self.space.mapped = old;
            return;
        }
        self.space.looked_ns = now_ns;
        let mut mapped = Vec::with_capacity(mappings.len());
        for (mapping, known) in &mappings {
            if let Some(known) = known {
                mapped.push(*known);
                continue;
            }
            let module = if vdso::is(&mapping.path) {
                self.kernels_code(mapping)
            } else {
                self.module(mapping)
            };
            if let Some(module) = module {
                let before = at_start(mapping.start);
                mapped.push(Mapped {
                    start: mapping.start,
                    end: mapping.end,
                    offset: mapping.offset,
                    id: mapping.id,
                    module,
                    used: before.is_some_and(|old| old.module == module && old.used),
                });
            }
        }
        mapped.sort_by_key(|mapped| mapped.start);
        let first_from = |start: u64| mapped.partition_point(|new| new.start < start);
        let is_gone = |old: &&Mapped| {
            let new = mapped.get(first_from(old.start));
            new.is_none_or(|new| new.start != old.start || new.module != old.module)
        };
        if old.iter().filter(is_gone).any(|old| old.used) {
            self.walks.renew();
        }
        // Addresses of calls from former mappings may be looked up later.
        self.space.unmapped.extend(old);
        let is_free = |old: &Mapped| {
            let before = first_from(old.end).checked_sub(1);
            before.is_none_or(|last| mapped[last].end <= old.start)
        };
        self.space.unmapped.retain(is_free);
        let excess = self.space.unmapped.len().saturating_sub(MAX_UNMAPPED);
        self.space.unmapped.drain(..excess);
        self.space.mapped = mapped;
    }

    /// The code that the kernel maps into each process (vDSO); no probes are put there.
    fn kernels_code(&mut self, mapping: &Mapping) -> Option<usize> {
        let mut known = self.modules.iter();
        let known = known.position(|module| vdso::is(&module.file.shown));
        known.or_else(|| {
            Some(self.add_known(Arc::new(
                ProbedFile::of_mapping(mapping, self.space.pid).ok()?,
            )))
        })
    }

    pub(super) fn find(&mut self, address: u64) -> Option<(usize, u64)> {
        let holds = |mapped: &&mut Mapped| (mapped.start..mapped.end).contains(&address);
        let mapped = self.space.mapped.iter_mut().find(holds);
        let mapped = mapped.or_else(|| self.space.unmapped.iter_mut().rev().find(holds))?;
        mapped.used = true;
        let offset = address - mapped.start + mapped.offset;
        Some((mapped.module, self.modules[mapped.module].vaddr(offset)?))
    }

    /// For a process that has ended unseen: finds an address in the program's own code, which lies
    /// where the kernel said it began.
    pub(super) fn find_in_program(&mut self, address: u64) -> Option<(usize, u64)> {
        let start = self.space.code_start?;
        let Some(program) = self.space.program.clone() else {
            return self.find_in_any_program(start, address);
        };
        let file = ProbedFile::open(&program, &program).ok()?;
        let module = self.add(file);
        Some((module, self.vaddr_in_program(module, start, address)?))
    }

    /// For a child that has executed an unknown program: searches the known programs for one that
    /// has a call at this address. If two different programs fit, neither is taken: a wrong name is
    /// worse than none.
    fn find_in_any_program(&self, start: u64, address: u64) -> Option<(usize, u64)> {
        let mut found = (0..self.modules.len()).filter_map(|module| {
            if !self.modules[module].is_program_at(start) {
                return None;
            }
            let vaddr = self.vaddr_in_program(module, start, address)?;
            let is_call = self.modules[module].is_after_call(vaddr.checked_add(1)?);
            is_call.then_some((module, vaddr))
        });
        let first = found.next()?;
        // Copies of one program say the same.
        let is_copy = |other: usize| self.modules[first.0].is_copy(&self.modules[other]);
        found
            .all(|(other, vaddr)| vaddr == first.1 && is_copy(other))
            .then_some(first)
    }

    /// The address in the program's own numbering, if its code begins at `start`.
    fn vaddr_in_program(&self, module: usize, start: u64, address: u64) -> Option<u64> {
        let mut segments = self.modules[module].segments.iter();
        let first = segments.find(|segment| segment.executable)?;
        let vaddr = address.checked_sub(start)?.checked_add(first.vaddr)?;
        (vaddr - first.vaddr < first.memsz).then_some(vaddr)
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, process::Command};

    use super::*;
    use crate::{elf, wanted::Wanted};

    /// The resolver of a process that has ended unseen, and an address from which a call may have
    /// come.
    fn resolver(programs: &[&Path], start: u64) -> (Resolver, u64) {
        let mut resolver = Resolver::new(0, None, Arc::new(Wanted::default()));
        for program in programs {
            let file = ProbedFile::open(program, program).unwrap();
            resolver.add(file);
        }
        resolver.set_code_start(Some(start));
        let image = std::fs::read(programs[0]).unwrap();
        let segments = elf::load_segments(&image).unwrap();
        let code = segments.iter().find(|segment| segment.executable).unwrap();
        let mut calls = (code.vaddr..code.vaddr + code.memsz)
            .filter(|vaddr| elf::is_after_call(&image, &segments, *vaddr));
        let middle = calls.nth(500).unwrap();
        (resolver, start + middle - 1 - code.vaddr)
    }

    #[test]
    fn of_two_programs_that_may_be_meant_none_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let build = |name: &str, options: &[&str]| {
            let path = folder.path().join(name);
            let source = folder.path().join(format!("{name}.c"));
            let calls = "__asm__(\".globl f\\nf: ret\\n.rept 1000\\ncall f\\n.endr\");";
            std::fs::write(
                &source,
                format!("{calls} int main(void) {{ return VALUE; }}"),
            )
            .unwrap();
            let mut gcc = Command::new("gcc");
            gcc.args(options).arg("-o").arg(&path).arg(&source);
            assert!(gcc.status().unwrap().success());
            path
        };
        let one = build("one", &["-DVALUE=1"]);
        let copy = folder.path().join("copy");
        std::fs::copy(&one, &copy).unwrap();
        let other = build("other", &["-DVALUE=2"]);
        let fixed = build("fixed", &["-DVALUE=3", "-no-pie"]);
        let moved = 0x5555_5555_6000;
        let found = |programs: &[&Path], start| {
            let (mut resolver, address) = resolver(programs, start);
            resolver.find_in_program(address).map(|found| found.0)
        };
        assert_eq!(found(&[&one], moved), Some(0));
        assert_eq!(found(&[&one, &copy], moved), Some(0));
        assert_eq!(found(&[&one, &other], moved), None);
        assert_eq!(found(&[&one, &copy, &other], moved), None);
        // A program that cannot be moved is not at that address.
        assert_eq!(found(&[&one, &fixed], moved), Some(0));
        assert_eq!(found(&[&fixed], moved), None);
        assert_eq!(found(&[&fixed], 0x40_1000), Some(0));
    }

    #[test]
    fn what_a_linker_mapped_before_it_could_tell_is_found() {
        let mut resolver = Resolver::new(std::process::id(), None, Arc::default());
        resolver.refresh();
        let found = resolver.new_files();
        assert!(found.iter().any(|file| file.tells_of_libraries()));
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("library");
        std::fs::copy(std::env::current_exe().unwrap(), &library).unwrap();
        let file = std::fs::File::open(&library).unwrap();
        // SAFETY: nobody changes the copy, and nothing in it is run.
        let mapped = unsafe { memmap2::MmapOptions::new().map_exec(&file) }.unwrap();
        assert!(resolver.catch_up());
        let id = FileId::of(&file).unwrap();
        assert!(resolver.new_files().iter().any(|file| file.id == id));
        assert!(!resolver.catch_up(), "no other linker was found");
        drop(mapped);

        // A linker that had its probes before the program was executed has told everything.
        let mut resolver = Resolver::new(std::process::id(), None, Arc::default());
        resolver.know(&found);
        resolver.refresh();
        assert!(!resolver.catch_up());
    }

    #[test]
    fn mappings_are_read_again_only_for_what_came_after_the_last_look() {
        let mut resolver = Resolver::new(std::process::id(), None, Arc::default());
        let before_ns = clock::now_ns();
        resolver.refresh_since(before_ns);
        let looked_ns = resolver.space.looked_ns;
        assert!(looked_ns >= before_ns);
        assert!(!resolver.space.mapped.is_empty());
        resolver.refresh_since(before_ns.saturating_sub(1));
        assert_eq!(resolver.space.looked_ns, looked_ns);
        resolver.refresh_since(clock::now_ns());
        assert!(resolver.space.looked_ns > looked_ns);
        // A process that executes a program, and a child, have mappings of their own.
        resolver.executed();
        assert_eq!(resolver.space.looked_ns, 0);
        resolver.refresh();
        resolver.forked(std::process::id(), 1);
        resolver.turn_to(1);
        assert_eq!(resolver.space.looked_ns, 0);
    }
}
