//! Copies of a memory: a forked process begins with a copy that has breakpoints in it.
//!
//! The copy is as old as the fork. sbt hears of the fork later, and may have changed the parent's
//! memory meanwhile. So a copy is compared with every breakpoint that the parent has ever had.

use std::{cell::RefCell, collections::BTreeMap, fs::File, io, os::unix::fs::FileExt as _};

use super::{
    super::{
        foreign::Foreign,
        mapped::{self, Mapped},
    },
    Breakpoint, LONGEST, MOST, PAGE, Space, Witnesses, is_at, open,
};
use sbt_program::{
    arch::{
        BREAKPOINT,
        displaced::{self, ROOM},
    },
    trace::{self, Id},
};

impl Space {
    /// The memory of a process that was forked from one with this memory.
    ///
    /// # Errors
    /// The memory of that process cannot be opened.
    pub fn copied(&self, process: u32) -> io::Result<Self> {
        let memory = open(process)?;
        let copy = |at: u64, point: &Breakpoint| Breakpoint {
            hits: point.hits.clone(),
            on: point.was_on && is_at(&memory, at, BREAKPOINT),
            elsewhere: point.elsewhere.filter(|(place, _)| {
                let displaced = displaced::elsewhere(&point.instruction, *place);
                displaced.is_some_and(|(bytes, _)| holds(&memory, *place, &bytes))
            }),
            ..*point
        };
        // A former breakpoint runs no programs, but a thread must get past it.
        let former = self.former.iter();
        let former = former.filter(|(at, point)| is_copied(&memory, **at, point));
        let former = former.map(|(at, point)| {
            let silent = Breakpoint {
                hits: Vec::new(),
                ..copy(*at, point)
            };
            (*at, silent)
        });
        let current = self
            .points
            .iter()
            .map(|(at, point)| (*at, copy(*at, point)));
        let points: BTreeMap<u64, Breakpoint> = former.chain(current).collect();
        let is_used = |page: u64| {
            let used = |point: &Breakpoint| {
                let place = point.elsewhere.map(|(place, _)| place);
                place.is_some_and(|place| (page..page + PAGE).contains(&place))
            };
            points.values().any(used)
        };
        let pages = self.pages.iter().copied();
        Ok(Self {
            process,
            // Pages of the parent may have been mapped after the fork.
            pages: pages.filter(|(page, _)| is_used(*page)).collect(),
            memory,
            former: self.former.clone(),
            no_room: self.no_room.clone(),
            given_up: self.given_up.clone(),
            mapped: self.mapped.clone(),
            // Threads of the parent's memory say nothing about this memory.
            behind: self
                .behind
                .iter()
                .map(|(at, behind)| (*at, behind.anew()))
                .collect(),
            over: Vec::new(),
            witnesses: Witnesses::default(),
            strange: RefCell::default(),
            uncounted: 0,
            points,
            ..*self
        })
    }

    /// Takes sbt's breakpoints out of a copy of this memory that cannot be opened. Uses a stopped
    /// thread of the copy, and what is known of this memory.
    ///
    /// # Errors
    /// The kernel forbids writing through the thread, too.
    pub fn clean_copy(&self, id: Id, theirs: &[Mapped], foreign: &Foreign) -> io::Result<()> {
        let mut some = false;
        let mut forbidden = None;
        let all = self.former.iter().chain(&self.points);
        for (at, point) in all.filter(|(_, point)| point.was_on) {
            if !mapped::is_alike(&self.mapped, theirs, *at) || self.has_probe(*at, foreign) {
                continue;
            }
            match clean_word(id, *at, point.original()) {
                Ok(()) => some = true,
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Err(error),
                // This address may be unmapped; if all fail, none can be written.
                Err(error) => forbidden = Some(error),
            }
        }
        forbidden.filter(|_| !some).map_or(Ok(()), Err)
    }

    /// Forgets breakpoints at addresses where another file lies than in this memory. For a process
    /// of which it is not known whose copy it has.
    pub fn forget_others(&mut self, theirs: &[Mapped]) {
        let ours = &self.mapped;
        let is_alike = |at: &u64, _: &mut Breakpoint| mapped::is_alike(ours, theirs, *at);
        self.points.retain(is_alike);
        self.former.retain(is_alike);
    }

    /// Stops watching a place. Keeps it as a former breakpoint: a child forked before, and not yet
    /// known, may still have the byte.
    pub(super) fn retire(&mut self, at: u64) {
        self.behind.remove(&at);
        if let Some(point) = self.points.remove(&at)
            && point.was_on
            && (self.former.len() < MOST || self.former.contains_key(&at))
        {
            self.former.insert(at, point);
        }
    }
}

/// Whether a memory has this breakpoint at an address, in the instruction for which it was made.
fn is_copied(memory: &File, at: u64, point: &Breakpoint) -> bool {
    let length = point.instruction.length().clamp(1, LONGEST);
    let mut code = point.code;
    code[0] = BREAKPOINT;
    holds(memory, at, &code[..length])
}

/// Whether a memory holds these bytes at an address.
fn holds(memory: &File, at: u64, bytes: &[u8]) -> bool {
    let mut found = [0; ROOM];
    let Some(found) = found.get_mut(..bytes.len()) else {
        return false;
    };
    memory.read_exact_at(found, at).is_ok() && found == bytes
}

/// Takes a breakpoint out through a stopped thread, if one lies there.
fn clean_word(id: Id, at: u64, original: u8) -> io::Result<()> {
    // Reads the aligned word: after the byte there may be no memory.
    let (start, index) = (at & !7, at & 7);
    let mut word = trace::peek(id, start)?;
    let shift = 8 * index;
    if word >> shift & 0xff == u64::from(BREAKPOINT) {
        word ^= u64::from(BREAKPOINT ^ original) << shift;
        trace::poke(id, start, word)?;
    }
    Ok(())
}
