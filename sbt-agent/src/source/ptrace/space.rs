//! The memory that threads share: what lies where in it, and the breakpoints.
//!
//! A breakpoint is one byte, `int3`, and bytes are written through /proc/PID/mem, while the
//! threads run: nobody is stopped for it. A thread may have hit one that is being taken
//! away: it is known as stale by the byte that lies there then.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
};

use iced_x86::Instruction;

use super::{
    counters::Counters,
    displaced::{self, LONGEST, ROOM, Words},
    gap,
    inject::{self, Failed},
    mapped::{self, Mapped},
    stop::Stop,
    wire::Watched,
};
use crate::{
    rights::Writing,
    source::hits::{Machine, Program, Records},
    target::{
        memory::Memory,
        process,
        trace::{self, Id, Registers},
    },
};

const INT3: u8 = 0xcc;

/// `int 3` with the number apart, which is not ours.
const LONG_INT3: [u8; 2] = [0xcd, 3];

/// Breakpoints of one memory: a program with more has been told to have them.
const MOST: usize = 65_536;

/// Code that is looked through for an instruction that calls the kernel, bytes.
const SEARCHED: u64 = 4 << 20;

/// How much is put elsewhere at a time: a page, bytes.
pub const PAGE: u64 = 4096;

/// More of them no program needs.
const MOST_PAGES: usize = 256;

/// An instruction may mean something so far away from where it is, and so must lie near to
/// where it was, bytes: addresses in it are 32 bits.
const NEAR: u64 = 1 << 30;

/// One place.
#[derive(Debug)]
struct Breakpoint {
    original: u8,
    instruction: Instruction,
    /// What is done there, and what that is told.
    hits: Vec<(Program, u64)>,
    /// Where the instruction lies elsewhere, and how long it is there.
    elsewhere: Option<(u64, u64)>,
    on: bool,
    /// Whether it has ever been: a copy of the memory may have been taken then.
    was_on: bool,
}

/// What is to be watched, and what of it at present.
#[derive(Debug, Default)]
pub struct Wanted {
    /// In which files.
    pub files: Vec<Watched>,
    /// See [`super::wire::Order`].
    pub departures: bool,
    /// See there.
    pub condvars: bool,
    /// Nothing, for a while.
    pub paused: bool,
}

impl Wanted {
    fn is_on(&self, program: Program, for_departures: bool) -> bool {
        let wanted = match program {
            Program::Condvar => self.condvars,
            Program::Return => self.departures,
            // Libraries that come meanwhile must be known afterwards.
            Program::Mapped => return true,
            _ => self.departures || !for_departures,
        };
        wanted && !self.paused
    }
}

/// See above.
#[derive(Debug)]
pub struct Space {
    process: u32,
    memory: File,
    points: BTreeMap<u64, Breakpoint>,
    /// Where instructions lie elsewhere, and how much of each page is taken, bytes.
    pages: Vec<(u64, u64)>,
    /// None more is to be had.
    no_page: bool,
    /// Where a breakpoint cannot be.
    given_up: BTreeSet<u64>,
    /// Something else has breakpoints where ours belong, or has taken ours away.
    disturbed: bool,
    /// What lay where when that could be read last.
    mapped: Vec<Mapped>,
    /// Since then it has forbidden that.
    closed: bool,
}

/// That of a process.
fn open(process: u32) -> io::Result<File> {
    let path = process::folder(process).join("mem");
    // It is the file of that process's user: root may write to it only as it may to others'.
    let _writing = Writing::begin();
    OpenOptions::new().read(true).write(true).open(path)
}

impl Space {
    /// That of a process, with no breakpoints in it.
    pub fn of(process: u32) -> io::Result<Self> {
        Ok(Self {
            process,
            memory: open(process)?,
            points: BTreeMap::new(),
            pages: Vec::new(),
            no_page: false,
            given_up: BTreeSet::new(),
            disturbed: false,
            mapped: Vec::new(),
            closed: false,
        })
    }

    /// That of a process that was forked from one with this memory: a copy.
    pub fn copied(&self, process: u32) -> io::Result<Self> {
        let memory = open(process)?;
        // What lies in the copy is what lay here when it was made, which is over.
        let copy = |(at, point): (&u64, &Breakpoint)| {
            let on = point.was_on && is_at(&memory, *at, INT3);
            let copy = Breakpoint {
                hits: point.hits.clone(),
                on,
                ..*point
            };
            (*at, copy)
        };
        let points = self.points.iter().map(copy).collect();
        Ok(Self {
            process,
            memory,
            points,
            pages: self.pages.clone(),
            given_up: self.given_up.clone(),
            mapped: self.mapped.clone(),
            ..*self
        })
    }

    /// Takes our breakpoints out of a copy of this memory that cannot be opened, by a thread that
    /// stands in it.
    ///
    /// # Errors
    /// That is forbidden too.
    pub fn clean_copy(&self, id: Id) -> io::Result<()> {
        for (at, point) in self.points.iter().filter(|(_, point)| point.was_on) {
            let word = trace::peek(id, *at)?.to_ne_bytes();
            // Nothing of ours, or else of somebody's.
            let [INT3, rest @ ..] = word else { continue };
            let mut clean = [point.original; 8];
            clean[1..].copy_from_slice(&rest);
            trace::poke(id, *at, u64::from_ne_bytes(clean))?;
        }
        Ok(())
    }

    /// Puts breakpoints where they are wanted, and takes others away; what the target has
    /// unmapped or mapped since is found.
    ///
    /// # Errors
    /// The memory cannot be written to.
    pub fn refresh(&mut self, wanted: &Wanted) -> io::Result<()> {
        let memory = &self.memory;
        self.points.retain(|at, point| {
            let mut byte = [0];
            let is_there = memory.read_at(&mut byte, *at).is_ok_and(|count| count == 1);
            self.disturbed |= is_there && point.on && byte == [point.original];
            // Where other code lies now, ours went with the old one.
            is_there && byte == [if point.on { INT3 } else { point.original }]
        });
        for point in self.points.values_mut() {
            point
                .hits
                .retain(|(program, _)| *program == Program::Return);
        }
        let mut on: BTreeMap<u64, bool> = BTreeMap::new();
        let mapped = mapped::of(self.process);
        if mapped.is_empty() {
            // What was known before is there still, if some of it is.
            self.closed |= !self.points.is_empty();
        } else {
            self.mapped = mapped;
        }
        for mapping in self.mapped.clone() {
            let id = mapping.id;
            let same = |file: &&Watched| (file.device, file.inode) == (id.device, id.inode);
            let Some(file) = wanted.files.iter().find(same) else {
                continue;
            };
            for place in &file.places {
                let Some(above) = place.offset.checked_sub(mapping.offset) else {
                    continue;
                };
                let at = mapping.start.saturating_add(above);
                if at >= mapping.end || !self.add(at, place.program, place.cookie) {
                    continue;
                }
                *on.entry(at).or_default() |= wanted.is_on(place.program, place.for_departures);
            }
        }
        let is_on = |at: u64, point: &Breakpoint| {
            let returns = point.hits.iter().any(|hit| hit.0 == Program::Return);
            let returns = returns && wanted.is_on(Program::Return, true);
            returns || on.get(&at).copied().unwrap_or(false)
        };
        for (at, point) in &mut self.points {
            let is_on = is_on(*at, point);
            switch(&self.memory, *at, point, is_on)?;
        }
        Ok(())
    }

    /// Takes all away.
    pub fn clean(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for (at, point) in &mut self.points {
            self.disturbed |= point.on && is_at(&self.memory, *at, point.original);
            if let Err(error) = switch(&self.memory, *at, point, false) {
                result = Err(error);
            }
        }
        result
    }

    /// Whether something else has breakpoints in the way of ours, so that threads do not come
    /// to them: the kernel's uprobes are such, and serve theirs before anybody learns of it.
    pub fn is_disturbed(&self) -> bool {
        self.disturbed
    }

    /// Whether the process has forbidden to look into it, so that what it loads from then on is
    /// not known.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Watches the return to an address.
    pub fn watch_return(&mut self, at: u64) -> io::Result<()> {
        let known = |point: &Breakpoint| point.on && point.hits.contains(&(Program::Return, 0));
        if at == 0 || self.points.get(&at).is_some_and(known) {
            return Ok(());
        }
        if self.add(at, Program::Return, 0)
            && let Some(point) = self.points.get_mut(&at)
        {
            switch(&self.memory, at, point, true)?;
        }
        Ok(())
    }

    /// Something is to be done at an address; false if there is no code, or no room.
    fn add(&mut self, at: u64, program: Program, cookie: u64) -> bool {
        if let Some(point) = self.points.get_mut(&at) {
            if !point.hits.contains(&(program, cookie)) {
                point.hits.push((program, cookie));
                // Who ends something is heard before who begins another.
                point.hits.sort_by_key(|hit| hit.0 != Program::Return);
            }
            return true;
        }
        if self.points.len() >= MOST || self.given_up.contains(&at) {
            return false;
        }
        let mut bytes = [0; LONGEST];
        let Ok(length) = self.memory.read_at(&mut bytes, at) else {
            return false;
        };
        if bytes[0] == INT3 {
            // Not one of ours, which are known. What lies below it is not known either.
            self.disturbed = true;
            return false;
        }
        self.uncover(at, &mut bytes[..length]);
        let Some(instruction) = displaced::decode(&bytes[..length], at) else {
            return false;
        };
        let point = Breakpoint {
            original: bytes[0],
            instruction,
            hits: vec![(program, cookie)],
            elsewhere: None,
            on: false,
            was_on: false,
        };
        self.points.insert(at, point);
        true
    }

    /// Puts what the program's code is in the place of breakpoints.
    fn uncover(&self, from: u64, bytes: &mut [u8]) {
        let until = from.saturating_add(bytes.len() as u64);
        for (at, point) in self.points.range(from..until) {
            if let Ok(index) = usize::try_from(at - from) {
                bytes[index] = point.original;
            }
        }
    }

    /// What is done where a thread has hit `int3`, which lies at this address. `None` if it
    /// is the program's own; nothing if the breakpoint has been taken away meanwhile.
    pub fn hits(&mut self, at: u64) -> Option<Vec<(Program, u64)>> {
        let memory = &self.memory;
        match self.points.get_mut(&at) {
            Some(point) if point.on => Some(point.hits.clone()),
            Some(point) => {
                // It lies there, in whatever way it came to: the thread must get past it.
                point.on = is_at(memory, at, INT3);
                Some(Vec::new())
            }
            None => {
                // Also as an instruction of two bytes.
                let is_long = is_at(memory, at, LONG_INT3[1])
                    && is_at(memory, at.wrapping_sub(1), LONG_INT3[0]);
                let own = is_long || is_at(memory, at, INT3);
                (!own).then(Vec::new)
            }
        }
    }

    /// Has the instruction done that lies there, by a thread that stands at it.
    ///
    /// # Errors
    /// There is no other place for it, or the thread has ended.
    pub fn pass(&mut self, stop: Stop, registers: &mut Registers, at: u64) -> Result<Stop, Failed> {
        registers.rip = at;
        let Some(point) = self.points.get(&at).filter(|point| point.on) else {
            // It lies there again.
            return Ok(stop);
        };
        let memory = Words64(&self.memory);
        let instruction = point.instruction;
        // What is called for a thread is not on the shadow stack, and the return from there would
        // be its end.
        if displaced::is_call(&instruction) && process::has_shadow_stack(self.process) {
            let why = "the processor keeps return addresses a second time";
            return Err((Some(stop), why.into()));
        }
        if displaced::emulate(&instruction, registers, &memory) {
            return Ok(stop);
        }
        if let Some((place, _)) = point.elsewhere {
            registers.rip = place;
            return Ok(stop);
        }
        let stop = self.make_room(stop, registers, at)?;
        let none = "there is no room for the instruction in the place of which one stands";
        let Some(index) = self.room_for(at) else {
            let memory = Words64(&self.memory);
            if !process::has_shadow_stack(self.process)
                && displaced::emulate_return(&instruction, registers, &memory)
            {
                return Ok(stop);
            }
            return Err((Some(stop), none.into()));
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
        registers.rip = place;
        Ok(stop)
    }

    /// Takes one away for good, since the thread that has hit it could not get past it.
    pub fn give_up(&mut self, at: u64) {
        self.given_up.insert(at);
        if let Some(mut point) = self.points.remove(&at) {
            let _gone = switch(&self.memory, at, &mut point, false);
        }
    }

    /// Where a thread stands in the program's own code, that stands elsewhere.
    pub fn home(&self, rip: u64) -> Option<u64> {
        let mut pages = self.pages.iter();
        pages.find(|(page, taken)| (*page..page + taken).contains(&rip))?;
        let (at, point) = self.points.iter().find(|(_, point)| {
            let Some((place, _)) = point.elsewhere else {
                return false;
            };
            (place..place + ROOM as u64).contains(&rip)
        })?;
        let (place, length) = point.elsewhere?;
        // A jump is made of several instructions; what lies behind them has been done.
        match rip - place {
            0 => Some(*at),
            within if within == length => Some(point.instruction.next_ip()),
            _ => None,
        }
    }

    /// Has a thread, which is in its own code, map a page near an address.
    fn make_room(&mut self, stop: Stop, registers: &Registers, near: u64) -> Result<Stop, Failed> {
        if self.room_for(near).is_some() || self.no_page || self.pages.len() == MOST_PAGES {
            return Ok(stop);
        }
        if inject::is_forbidden(self.process) {
            self.no_page = true;
            return Ok(stop);
        }
        let wish = gap::near(near, &process::occupied(self.process), NEAR);
        let Some((call, wish)) = self.finds_call(near).zip(wish) else {
            self.no_page = true;
            return Ok(stop);
        };
        let arguments = [
            wish,
            PAGE,
            (libc::PROT_READ | libc::PROT_EXEC) as u64,
            (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64,
            u64::MAX,
            0,
        ];
        let (stop, page) = inject::call(stop, registers, call, (libc::SYS_mmap, arguments))?;
        // The kernel's errors are the last page.
        if page == 0 || page % PAGE != 0 || page > u64::MAX - PAGE {
            self.no_page = true;
        } else {
            self.pages.push((page, 0));
        }
        Ok(stop)
    }

    /// Which page has room for an instruction, and is near enough to it.
    fn room_for(&self, at: u64) -> Option<usize> {
        let fits =
            |(page, taken): &(u64, u64)| taken + ROOM as u64 <= PAGE && page.abs_diff(at) < NEAR;
        self.pages.iter().position(fits)
    }

    /// Where an instruction lies that calls the kernel.
    fn finds_call(&self, near: u64) -> Option<u64> {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        let mut mappings = process::mappings(self.process);
        // The C library's own code has some, and so has mostly what is watched.
        mappings.sort_by_key(|mapping| !(mapping.start..mapping.end).contains(&near));
        mappings.iter().find_map(|mapping| {
            let length = (mapping.end - mapping.start).min(SEARCHED);
            let mut code = vec![0; usize::try_from(length).ok()?];
            let count = self.memory.read_at(&mut code, mapping.start).ok()?;
            let found = memchr::memmem::find(&code[..count], &SYSCALL)?;
            let at = mapping.start + found as u64;
            // Not one of which the first byte is a breakpoint.
            self.points.range(at..at + 2).next().is_none().then_some(at)
        })
    }
}

/// Turns one on or off. What is not ours any more stays as it is.
fn switch(memory: &File, at: u64, point: &mut Breakpoint, on: bool) -> io::Result<()> {
    let (from, to) = if on {
        (point.original, INT3)
    } else {
        (INT3, point.original)
    };
    if point.on != on {
        if is_at(memory, at, from) {
            memory.write_all_at(&[to], at)?;
        }
        point.on = on;
        point.was_on |= on;
    }
    Ok(())
}

/// Whether that byte lies there.
fn is_at(memory: &File, at: u64, byte: u8) -> bool {
    let mut found = [0];
    memory.read_exact_at(&mut found, at).is_ok() && found == [byte]
}

/// Words of the target's memory.
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

/// A thread that stands, with its memory, as programs look at it.
pub struct Standing<'a> {
    /// Its registers.
    pub registers: &'a Registers,
    /// It.
    pub id: Id,
    /// Its process.
    pub process: u32,
    /// Its memory; none before it has executed a program.
    pub space: Option<&'a Space>,
    /// What is counted, if anything is.
    pub counters: Option<&'a Counters>,
}

impl Machine for Standing<'_> {
    fn registers(&self) -> &Registers {
        self.registers
    }

    fn tell_counters(&self, seq: u32, time_ns: u64, out: &mut Records) {
        if let Some(counters) = self.counters {
            counters.tell((self.process, self.id), seq, time_ns, out);
        }
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let memory = Memory {
            thread: self.id.cast_unsigned(),
        };
        let all = memory
            .fill(address, bytes)
            .is_ok_and(|count| count == bytes.len());
        let Some(space) = self.space else {
            return all;
        };
        // Of a process that has forbidden to look into it only what is open already may be read.
        let all = all || space.memory.read_exact_at(bytes, address).is_ok();
        if all {
            space.uncover(address, bytes);
        }
        all
    }
}
