//! The memory that threads share: which file lies where in it, and the breakpoints.
//!
//! A breakpoint is one byte, `int3`. Bytes are written through /proc/PID/mem while the threads run:
//! no thread is stopped for that. A thread may hit a breakpoint that is just being taken out: it is
//! recognised by the byte that lies there by then.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
};

use super::{
    foreign::Foreign,
    inject::Failed,
    mapped::{self, Mapped},
    stop::Stop,
    wire::Watched,
    witness::Witnesses,
};
use crate::source::twin::{Program, is_counted};
use sbt_program::{
    access::rights::Writing,
    arch::{
        BREAKPOINT, Instruction, LONG_BREAKPOINT, Registers,
        displaced::{self, LONGEST, ROOM, Words},
    },
    process,
};

mod copies;
mod others;
mod room;

use others::Behind;

/// How many breakpoints one memory gets at most.
const MOST: usize = 65_536;

/// The size of a page that displaced instructions are put into, bytes.
pub const PAGE: u64 = 4096;

/// A breakpoint, set or not.
#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Debug)]
struct Breakpoint {
    /// The program's code from there on; zeros beyond the end of the memory.
    code: [u8; LONGEST],
    instruction: Instruction,
    /// The programs that run at a hit, with their cookies.
    hits: Vec<(Program, u64)>,
    /// Where a copy of the instruction lies, and its length there, bytes.
    elsewhere: Option<(u64, u64)>,
    on: bool,
    /// Whether the byte has ever been set: a forked process may have a copy of it.
    was_on: bool,
    /// Whether a thread has stopped there since the last look for other tools.
    hit: bool,
    /// Whether a thread has ever stopped there.
    was_hit: bool,
    /// Whether a barrier's own count tells how many threads come there.
    is_counted: bool,
    /// Whether the next instruction cannot be watched just to find probes of others.
    is_alone: bool,
    /// Whether another tool's probe takes the traps here, and nothing else can be watched instead.
    is_blind: bool,
}

impl Breakpoint {
    /// The first byte of the program's own code.
    const fn original(&self) -> u8 {
        self.code[0]
    }
}

/// The places to watch, and the part of them that is on at present.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Files with their places.
    pub files: Vec<Watched>,
    /// Whether departures are reported.
    pub departures: bool,
    /// Whether condition variables are watched.
    pub condvars: bool,
    /// Whether watching is paused.
    pub paused: bool,
    /// Tells kernel probes from sbt's breakpoints.
    pub foreign: Foreign,
}

impl Wanted {
    fn is_on(&self, program: Program, for_departures: bool) -> bool {
        let wanted = match program {
            Program::Condvar => self.condvars,
            Program::Return => self.departures,
            // Libraries loaded during a pause must be known after it.
            Program::Mapped => return true,
            _ => self.departures || !for_departures,
        };
        wanted && !self.paused
    }
}

/// The memory of one or more processes, with its breakpoints.
#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Debug)]
pub struct Space {
    process: u32,
    memory: File,
    points: BTreeMap<u64, Breakpoint>,
    /// Breakpoints that were taken out for good, by address: a child forked before has copies of
    /// them, and may become known later.
    former: BTreeMap<u64, Breakpoint>,
    /// Pages for copies of instructions, and how many bytes of each are used.
    pages: Vec<(u64, u64)>,
    /// Whether no more pages can be had.
    no_page: bool,
    /// Why the last page could not be had.
    no_room: Option<String>,
    /// Addresses where a breakpoint cannot be.
    given_up: BTreeSet<u64>,
    /// Whether another tool has breakpoints where sbt's belong, or has taken one of sbt's out.
    disturbed: bool,
    /// Whether threads pass some place unseen because of another tool.
    blind: bool,
    /// Second instructions of places, watched besides or instead of the first, by address.
    behind: BTreeMap<u64, Behind>,
    /// Second instructions that need not be watched any more.
    over: Vec<u64>,
    /// Whether another tool's probe hides that libraries are loaded.
    misses_libraries: bool,
    /// Finds unseen arrivals by the barriers' own counts.
    witnesses: Witnesses,
    /// Addresses that are in no file, and whether each is a return address of the kernel's probes.
    strange: RefCell<BTreeMap<u64, bool>>,
    /// The number of times that threads may have passed a place unseen that no barrier counts.
    uncounted: u64,
    /// The executable mappings, when they could last be read.
    mapped: Vec<Mapped>,
    /// Whether the process has forbidden looking into it since then.
    closed: bool,
}

/// Opens the memory of a process.
fn open(process: u32) -> io::Result<File> {
    let path = process::folder(process).join("mem");
    // The file belongs to that process's user: root may open it only with the right to open other
    // users' files.
    let _writing = Writing::begin();
    OpenOptions::new().read(true).write(true).open(path)
}

impl Space {
    /// The memory of a process, with no breakpoints in it.
    pub fn of(process: u32) -> io::Result<Self> {
        Ok(Self {
            process,
            memory: open(process)?,
            points: BTreeMap::new(),
            former: BTreeMap::new(),
            pages: Vec::new(),
            no_page: false,
            no_room: None,
            given_up: BTreeSet::new(),
            disturbed: false,
            blind: false,
            behind: BTreeMap::new(),
            over: Vec::new(),
            misses_libraries: false,
            witnesses: Witnesses::default(),
            strange: RefCell::default(),
            uncounted: 0,
            mapped: Vec::new(),
            closed: false,
        })
    }

    /// Puts breakpoints where they are wanted, and takes others out. Takes account of what the
    /// target has mapped and unmapped since the last call.
    ///
    /// # Errors
    /// The memory cannot be written to.
    pub fn refresh(&mut self, wanted: &Wanted) -> io::Result<()> {
        let is_known = self.look();
        self.forget_gone(!is_known);
        for point in self.points.values_mut() {
            point
                .hits
                .retain(|(program, _)| *program == Program::Return);
        }
        let mut on: BTreeMap<u64, bool> = BTreeMap::new();
        for mapping in self.mapped.clone() {
            let id = mapping.id;
            let same = |file: &&Watched| (file.device, file.inode) == (id.device, id.inode);
            let Some(file) = wanted.files.iter().find(same) else {
                continue;
            };
            for place in &file.places {
                let Some(at) = mapping.address_of(place.offset) else {
                    continue;
                };
                // If mappings cannot be read, something else may lie there, unless a breakpoint
                // does.
                if !is_known && !self.points.contains_key(&at) {
                    continue;
                }
                let is_on = wanted.is_on(place.program, place.for_departures);
                let instead = self.instead_of(at, &wanted.foreign);
                self.misses_libraries |= instead.is_none() && place.program == Program::Mapped;
                let ours = self.points.contains_key(&at).then_some(at);
                let both = ours
                    .into_iter()
                    .chain(instead.filter(|instead| Some(*instead) != ours));
                for at in both {
                    if self.add(at, place.program, place.cookie) {
                        *on.entry(at).or_default() |= is_on;
                    }
                }
            }
        }
        let is_on = |at: u64, point: &Breakpoint| {
            let returns = point.hits.iter().any(|hit| hit.0 == Program::Return);
            let returns = returns && wanted.is_on(Program::Return, true);
            returns || on.get(&at).copied().unwrap_or(false)
        };
        let all: Vec<(u64, bool)> = self
            .points
            .iter()
            .map(|(at, point)| (*at, is_on(*at, point)))
            .collect();
        for (at, is_on) in all {
            self.turn(at, is_on, &wanted.foreign)?;
        }
        Ok(())
    }

    /// Turns a breakpoint on or off. The byte stays if a kernel probe needs it as well: whoever has
    /// the probe takes the byte away with it.
    fn turn(&mut self, at: u64, on: bool, foreign: &Foreign) -> io::Result<()> {
        let stays = self.points.get(&at).is_some_and(|point| point.on && !on)
            && self.is_theirs(at, foreign);
        self.disturbed |= stays;
        let Some(point) = self.points.get_mut(&at) else {
            return Ok(());
        };
        if stays {
            point.on = false;
            return Ok(());
        }
        if switch(&self.memory, at, point, on)? && on {
            self.begins_to_stop(at);
        }
        Ok(())
    }

    /// Reads what is mapped. False if that cannot be read; mappings known before may then be gone.
    fn look(&mut self) -> bool {
        match mapped::of(self.process) {
            Ok(mapped) if !mapped.is_empty() => {
                self.mapped = mapped;
                true
            }
            // The process forbids looking at this moment, or ends.
            Ok(_) => false,
            Err(error) => {
                // Other errors are sbt's own, as too many open files.
                self.closed |= error.kind() == io::ErrorKind::PermissionDenied;
                false
            }
        }
    }

    /// Forgets breakpoints that are gone with their code. `blind`: the mappings cannot be read, so
    /// the code itself must tell whether it is still the same.
    fn forget_gone(&mut self, blind: bool) {
        let mut gone = Vec::new();
        for (at, point) in &self.points {
            let mut code = [0; LONGEST];
            let count = self.memory.read_at(&mut code, *at).unwrap_or(0);
            let is_there = count > 0;
            self.disturbed |= is_there && point.on && code[0] == point.original();
            let is_ours = if point.on {
                code[0] == BREAKPOINT
            } else {
                let compared = if blind {
                    LONGEST
                } else {
                    point.instruction.length()
                };
                // Other breakpoints may lie in these bytes.
                let first = code[0];
                self.uncover(*at, &mut code[..count]);
                first == point.original() && code[..compared] == point.code[..compared]
            };
            if !is_there || !is_ours {
                gone.push(*at);
            }
        }
        for at in gone {
            self.retire(at);
        }
    }

    /// Takes all breakpoints out.
    pub fn clean(&mut self, foreign: &Foreign) -> io::Result<()> {
        let mut result = Ok(());
        let all: Vec<u64> = self.points.keys().copied().collect();
        for at in all {
            let original = self.points.get(&at).filter(|point| point.on);
            let original = original.map(Breakpoint::original);
            self.disturbed |= original.is_some_and(|byte| is_at(&self.memory, at, byte));
            if let Err(error) = self.turn(at, false, foreign) {
                result = Err(error);
            }
        }
        result
    }

    /// Whether another tool has breakpoints in the way of sbt's, so that threads do not stop there.
    /// The kernel's uprobes are such: the kernel serves them before any tracer learns of the trap.
    pub fn is_disturbed(&self) -> bool {
        self.disturbed
    }

    /// Whether the process forbids looking into it, so that libraries loaded since are not known.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Sets a breakpoint at a return address.
    pub fn watch_return(&mut self, at: u64) -> io::Result<()> {
        let known = |point: &Breakpoint| point.on && point.hits.contains(&(Program::Return, 0));
        if at == 0 || self.points.get(&at).is_some_and(known) {
            return Ok(());
        }
        if self.add(at, Program::Return, 0)
            && let Some(point) = self.points.get_mut(&at)
        {
            let _written = switch(&self.memory, at, point, true)?;
        }
        Ok(())
    }

    /// Adds a program to be run at an address. False if there is no code, or no room.
    fn add(&mut self, at: u64, program: Program, cookie: u64) -> bool {
        if let Some(point) = self.points.get_mut(&at) {
            point.is_counted |= is_counted(program, cookie);
            if !point.hits.contains(&(program, cookie)) {
                point.hits.push((program, cookie));
                // Ends of something are handled before beginnings of something else.
                point.hits.sort_by_key(|hit| hit.0 != Program::Return);
            }
            return true;
        }
        if self.points.len() >= MOST || self.given_up.contains(&at) {
            return false;
        }
        let mut code = [0; LONGEST];
        let Ok(length) = self.memory.read_at(&mut code, at) else {
            return false;
        };
        if code[0] == BREAKPOINT {
            // Not a breakpoint of sbt, all of which are known. What the byte replaces is not known.
            self.disturbed = true;
            self.blind = true;
            return false;
        }
        self.uncover(at, &mut code[..length]);
        let Some(instruction) = displaced::decode(&code[..length], at) else {
            return false;
        };
        let point = Breakpoint {
            code,
            instruction,
            hits: vec![(program, cookie)],
            elsewhere: None,
            on: false,
            was_on: false,
            hit: false,
            was_hit: false,
            is_counted: is_counted(program, cookie),
            is_alone: false,
            is_blind: false,
        };
        self.points.insert(at, point);
        true
    }

    /// Reads memory as it would be without breakpoints. Works for a process that forbids looking
    /// into it, too, since its memory is open already.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let is_read = self.memory.read_exact_at(bytes, address).is_ok();
        if is_read {
            self.uncover(address, bytes);
        }
        is_read
    }

    /// Replaces breakpoints in bytes read from address `from` by the program's own code.
    pub fn uncover(&self, from: u64, bytes: &mut [u8]) {
        let until = from.saturating_add(bytes.len() as u64);
        for (at, point) in self.points.range(from..until) {
            if let Ok(index) = usize::try_from(at - from) {
                bytes[index] = point.original();
            }
        }
    }

    /// Whether a breakpoint of sbt stands at an address.
    pub fn has_breakpoint(&self, at: u64) -> bool {
        self.points.get(&at).is_some_and(|point| point.on)
    }

    /// The programs to run for a thread that has hit `int3` at this address. `None` if the `int3`
    /// is the program's own; empty if the breakpoint was taken out meanwhile.
    pub fn hits(&mut self, at: u64) -> Option<Vec<(Program, u64)>> {
        let memory = &self.memory;
        match self.points.get_mut(&at) {
            Some(point) if point.on => Some(point.hits.clone()),
            Some(point) => {
                // However the byte came to be there, the thread must get past it.
                point.on = is_at(memory, at, BREAKPOINT);
                Some(Vec::new())
            }
            None => {
                // The program's own `int3` may be the one of two bytes.
                let is_long = is_at(memory, at, LONG_BREAKPOINT[1])
                    && is_at(memory, at.wrapping_sub(1), LONG_BREAKPOINT[0]);
                let own = is_long || is_at(memory, at, BREAKPOINT);
                (!own).then(Vec::new)
            }
        }
    }

    /// Takes a thread past the breakpoint that it has hit, as if it had run the instruction there.
    ///
    /// # Errors
    /// The instruction can be run nowhere else, or the thread has ended.
    pub fn pass(&mut self, stop: Stop, registers: &mut Registers, at: u64) -> Result<Stop, Failed> {
        registers.set_at(at);
        let Some(point) = self.points.get(&at).filter(|point| point.on) else {
            // The instruction lies there again.
            return Ok(stop);
        };
        let memory = Words64(&self.memory);
        let instruction = point.instruction;
        // An emulated call puts nothing on the shadow stack: the return from it would kill the
        // thread.
        if displaced::is_call(&instruction) && process::has_shadow_stack(self.process) {
            let why = "the processor uses a shadow stack";
            return Err((Some(stop), why.into()));
        }
        if displaced::emulate(&instruction, registers, &memory) {
            return Ok(stop);
        }
        if let Some((place, _)) = point.elsewhere {
            registers.set_at(place);
            return Ok(stop);
        }
        let stop = self.make_room(stop, registers, at)?;
        let none = "no free page near the breakpoint to run the displaced instruction";
        let Some(index) = self.room_for(at) else {
            let memory = Words64(&self.memory);
            if !process::has_shadow_stack(self.process)
                && displaced::emulate_return(&instruction, registers, &memory)
            {
                return Ok(stop);
            }
            let why = self.no_room.clone();
            return Err((Some(stop), why.unwrap_or_else(|| none.into())));
        };
        let (page, taken) = &mut self.pages[index];
        let place = *page + *taken;
        let Some((bytes, length)) = displaced::elsewhere(&instruction, place) else {
            return Err((Some(stop), none.into()));
        };
        if let Err(error) = self.memory.write_all_at(&bytes, place) {
            return Err((Some(stop), error.to_string()));
        }
        *taken += ROOM as u64;
        if let Some(point) = self.points.get_mut(&at) {
            point.elsewhere = Some((place, length));
        }
        registers.set_at(place);
        Ok(stop)
    }

    /// Takes a breakpoint out for good, because a thread that has hit it could not get past it.
    pub fn give_up(&mut self, at: u64, foreign: &Foreign) {
        self.given_up.insert(at);
        let _gone = self.turn(at, false, foreign);
        self.retire(at);
    }

    /// The address in the program's own code for a thread that runs a copied instruction.
    pub fn home(&self, now: u64) -> Option<u64> {
        let mut pages = self.pages.iter();
        pages.find(|(page, taken)| (*page..page + taken).contains(&now))?;
        let (at, point) = self.points.iter().find(|(_, point)| {
            let Some((place, _)) = point.elsewhere else {
                return false;
            };
            (place..place + ROOM as u64).contains(&now)
        })?;
        let (place, length) = point.elsewhere?;
        // A copied jump may be several instructions; the address after them means that it is done.
        match now - place {
            0 => Some(*at),
            within if within == length => Some(point.instruction.next()),
            _ => None,
        }
    }
}

/// Writes or removes the byte of a breakpoint, unless another byte than expected lies there.
/// Returns whether a byte was written.
fn switch(memory: &File, at: u64, point: &mut Breakpoint, on: bool) -> io::Result<bool> {
    let (from, to) = if on {
        (point.original(), BREAKPOINT)
    } else {
        (BREAKPOINT, point.original())
    };
    if point.on == on {
        return Ok(false);
    }
    let is_from = is_at(memory, at, from);
    if is_from {
        memory.write_all_at(&[to], at)?;
    }
    point.on = on;
    point.was_on |= on;
    Ok(is_from)
}

/// Whether this byte lies there.
fn is_at(memory: &File, at: u64, byte: u8) -> bool {
    let mut found = [0];
    memory.read_exact_at(&mut found, at).is_ok() && found == [byte]
}

/// The target's memory, read and written in words of 8 bytes.
struct Words64<'a>(&'a File);

impl Words for Words64<'_> {
    fn read(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, address).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }

    fn write(&self, address: u64, value: u64) -> bool {
        self.0.write_all_at(&value.to_ne_bytes(), address).is_ok()
    }
}

#[cfg(test)]
mod tests;
