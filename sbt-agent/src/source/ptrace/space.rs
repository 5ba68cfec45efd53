//! The memory that threads share: what lies where in it, and the breakpoints.
//!
//! A breakpoint is one byte, `int3`, and bytes are written through /proc/PID/mem, while the
//! threads run: nobody is stopped for it. A thread may have hit one that is being taken
//! away: it is known as stale by the byte that lies there then.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
};

use iced_x86::Instruction;

use super::{
    displaced::{self, LONGEST, ROOM, Words},
    foreign::Foreign,
    inject::Failed,
    mapped::{self, Mapped},
    stop::Stop,
    wire::Watched,
    witness::Witnesses,
};
use crate::source::twin::{Program, is_counted};
use sbt_program::{access::rights::Writing, process, trace::Registers};

mod copies;
mod others;
mod room;

use others::Behind;

/// The one byte of a breakpoint, also of the kernel's probes.
pub const INT3: u8 = 0xcc;

/// `int 3` with the number apart, which is not ours.
const LONG_INT3: [u8; 2] = [0xcd, 3];

/// Breakpoints of one memory: a program with more has been told to have them.
const MOST: usize = 65_536;

/// How much is put elsewhere at a time: a page, bytes.
pub const PAGE: u64 = 4096;

/// One place.
#[allow(clippy::struct_excessive_bools, reason = "each is known for itself")]
#[derive(Clone, Debug)]
struct Breakpoint {
    /// What the program's code is there and behind; zeros where there is no more memory.
    code: [u8; LONGEST],
    instruction: Instruction,
    /// What is done there, and what that is told.
    hits: Vec<(Program, u64)>,
    /// Where the instruction lies elsewhere, and how long it is there.
    elsewhere: Option<(u64, u64)>,
    on: bool,
    /// Whether it has ever been: a copy of the memory may have been taken then.
    was_on: bool,
    /// Whether a thread has stopped there since somebody looked.
    hit: bool,
    /// Whether one has ever.
    was_hit: bool,
    /// Whether a barrier counts by itself how often threads come there.
    is_counted: bool,
    /// Whether the next instruction does not do in its place, just to ask.
    is_alone: bool,
    /// Whether another's probe takes what comes there, and nothing else is watched instead.
    is_blind: bool,
}

impl Breakpoint {
    /// In whose place it stands.
    const fn original(&self) -> u8 {
        self.code[0]
    }
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
    /// What tells the kernel's probes from breakpoints of ours.
    pub foreign: Foreign,
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
#[allow(clippy::struct_excessive_bools, reason = "each is known for itself")]
#[derive(Debug)]
pub struct Space {
    process: u32,
    memory: File,
    points: BTreeMap<u64, Breakpoint>,
    /// Breakpoints that were taken away for good, by address: a process that was forked before that
    /// has copies of them, and may be announced later.
    former: BTreeMap<u64, Breakpoint>,
    /// Where instructions lie elsewhere, and how much of each page is taken, bytes.
    pages: Vec<(u64, u64)>,
    /// None more is to be had.
    no_page: bool,
    /// Why the last one could not be had.
    no_room: Option<String>,
    /// Where a breakpoint cannot be.
    given_up: BTreeSet<u64>,
    /// Something else has breakpoints where ours belong, or has taken ours away.
    disturbed: bool,
    /// And nothing is seen of threads that come there.
    blind: bool,
    /// Second instructions of places that are watched at those, too, by address.
    behind: BTreeMap<u64, Behind>,
    /// Those that have told what they were to tell.
    over: Vec<u64>,
    /// Nothing tells of libraries that are loaded: another's probe is where that would be seen.
    misses_libraries: bool,
    /// What barriers say of how often threads came.
    witnesses: Witnesses,
    /// Addresses in no file, and whether the kernel has put them on stacks.
    strange: RefCell<BTreeMap<u64, bool>>,
    /// How often threads may have come to a place unseen that has nothing which counts them.
    uncounted: u64,
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

    /// Puts breakpoints where they are wanted, and takes others away; what the target has
    /// unmapped or mapped since is found.
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
                let Some(above) = place.offset.checked_sub(mapping.offset) else {
                    continue;
                };
                let at = mapping.start.saturating_add(above);
                // By now something else may lie there, if nobody may look, but where ours lie.
                let may_be = is_known || self.points.contains_key(&at);
                if at >= mapping.end || !may_be {
                    continue;
                }
                let is_on = wanted.is_on(place.program, place.for_departures);
                let instead = self.instead_of(at, &wanted.foreign);
                self.misses_libraries |= instead.is_none() && place.program == Program::Mapped;
                let ours = self.points.contains_key(&at).then_some(at);
                let both = ours
                    .into_iter()
                    .chain(instead.filter(|it| Some(*it) != ours));
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
            .map(|(at, it)| (*at, is_on(*at, it)))
            .collect();
        for (at, is_on) in all {
            self.turn(at, is_on, &wanted.foreign)?;
        }
        Ok(())
    }

    /// Turns one on or off. The byte stays if it is the kernel's as well: who has its probe there
    /// takes that away, and a byte of ours with it.
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

    /// Looks what lies where; false if that is not to be known, and what lay there before may have
    /// gone since.
    fn look(&mut self) -> bool {
        match mapped::of(self.process) {
            Ok(mapped) if !mapped.is_empty() => {
                self.mapped = mapped;
                true
            }
            // It closes at this moment, or ends.
            Ok(_) => false,
            Err(error) => {
                // Others are ours, such as that there is no file left to open.
                self.closed |= error.kind() == io::ErrorKind::PermissionDenied;
                false
            }
        }
    }

    /// Forgets breakpoints that have gone with the code in which they were. `blind`: nothing else
    /// tells whether it is that code still.
    fn forget_gone(&mut self, blind: bool) {
        let mut gone = Vec::new();
        for (at, point) in &self.points {
            let mut code = [0; LONGEST];
            let count = self.memory.read_at(&mut code, *at).unwrap_or(0);
            let is_there = count > 0;
            self.disturbed |= is_there && point.on && code[0] == point.original();
            let is_ours = if point.on {
                code[0] == INT3
            } else {
                let compared = if blind {
                    LONGEST
                } else {
                    point.instruction.len()
                };
                // Other breakpoints of ours may lie in it.
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

    /// Takes all away that is ours.
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
            let _written = switch(&self.memory, at, point, true)?;
        }
        Ok(())
    }

    /// Something is to be done at an address; false if there is no code, or no room.
    fn add(&mut self, at: u64, program: Program, cookie: u64) -> bool {
        if let Some(point) = self.points.get_mut(&at) {
            point.is_counted |= is_counted(program, cookie);
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
        let mut code = [0; LONGEST];
        let Ok(length) = self.memory.read_at(&mut code, at) else {
            return false;
        };
        if code[0] == INT3 {
            // Not one of ours, which are known. What lies below it is not known either.
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

    /// Reads as the program would without us; also of a process that has forbidden to look into
    /// it, of which what is open already may be read.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let is_read = self.memory.read_exact_at(bytes, address).is_ok();
        if is_read {
            self.uncover(address, bytes);
        }
        is_read
    }

    /// Puts what the program's code is in the place of breakpoints.
    pub fn uncover(&self, from: u64, bytes: &mut [u8]) {
        let until = from.saturating_add(bytes.len() as u64);
        for (at, point) in self.points.range(from..until) {
            if let Ok(index) = usize::try_from(at - from) {
                bytes[index] = point.original();
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
        registers.rip = place;
        Ok(stop)
    }

    /// Takes one away for good, since the thread that has hit it could not get past it.
    pub fn give_up(&mut self, at: u64, foreign: &Foreign) {
        self.given_up.insert(at);
        let _gone = self.turn(at, false, foreign);
        self.retire(at);
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
}

/// Turns one on or off, unless another byte lies there than one of ours; whether the byte was
/// written.
fn switch(memory: &File, at: u64, point: &mut Breakpoint, on: bool) -> io::Result<bool> {
    let (from, to) = if on {
        (point.original(), INT3)
    } else {
        (INT3, point.original())
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

#[cfg(test)]
mod tests;
