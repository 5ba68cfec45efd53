//! Handles probes and breakpoints of other tools at the places of sbt's breakpoints.
//!
//! If the kernel has a probe (uprobe) at the same place, the kernel takes the trap, and the thread
//! does not stop for sbt: both bytes are the same byte. Then the next instruction is watched
//! instead, if the same can be seen there. Where nothing else tells whose the byte is, this does:
//! whether threads that come to the next instruction have stopped at the first.

use std::os::unix::fs::FileExt as _;

use super::{
    super::{foreign::Foreign, witness::Held},
    Breakpoint, PAGE, Space, Wanted, is_at, mapped,
};
use crate::source::twin::Program;
use sbt_program::{
    arch::{BREAKPOINT, displaced, prologue},
    file_id::FileId,
    process,
};

/// The largest number of places that are watched at their second instruction.
const MOST: usize = 256;

/// How much code is searched for jumps back to the second instruction, bytes.
const LOOKED_THROUGH: usize = 4096;

/// After so many threads have passed without a stop, only a kernel probe explains it.
pub(super) const CERTAIN: u32 = 3;

/// The second instruction of a place, watched besides or instead of the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    /// Address of the first instruction.
    pub of: u64,
    /// How far the first instruction moves rsp down, bytes.
    pub moved: u64,
    /// Threads that came here without a stop at the first instruction, since the last stop there.
    pub unannounced: u32,
    /// Whether the second instruction is watched only to find out if threads stop at the first.
    pub asks: bool,
    /// Whether threads may be on their way that passed the first instruction before it had a
    /// breakpoint.
    pub is_new: bool,
}

impl Behind {
    /// Forgets whether threads stop at the first instruction.
    pub(super) const fn anew(self) -> Self {
        Self {
            unannounced: 0,
            is_new: true,
            ..self
        }
    }
}

/// A stop as the programs are to see it: at the first instruction of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenStop {
    /// Address of the first instruction.
    pub at: u64,
    /// How far the first instruction has moved rsp down, bytes.
    pub moved: u64,
}

/// The result of a look at all breakpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoundBreakpoints {
    /// Whether breakpoints must be set or moved now.
    pub is_changed: bool,
    /// The number of arrivals that were not seen.
    pub missing: u64,
}

impl Space {
    /// The address at which the place at `at` is to be watched: the next instruction, if another
    /// tool's probe stands at the first. `None` if neither is possible.
    pub(super) fn instead_of(&mut self, at: u64, foreign: &Foreign) -> Option<u64> {
        if let Some((behind, _)) = self.behind_of(at) {
            return Some(behind);
        }
        let is_ours = self.points.get(&at).is_some_and(|point| point.on);
        let is_theirs =
            self.has_probe(at, foreign) || !is_ours && is_at(&self.memory, at, BREAKPOINT);
        if !is_theirs {
            return Some(at);
        }
        self.disturbed = true;
        if !self.points.get(&at).is_some_and(|point| point.is_blind) {
            self.may_have_missed(at);
        }
        let behind = self.watch_behind(at, false, foreign);
        self.blind |= behind.is_none();
        if let Some(point) = self.points.get_mut(&at) {
            point.is_blind = behind.is_none();
        }
        behind
    }

    /// Counts one time in which threads may have passed a breakpoint without a stop.
    fn may_have_missed(&mut self, at: u64) {
        let is_uncounted = |point: &Breakpoint| point.on && point.was_hit && !point.is_counted;
        self.uncounted += u64::from(self.points.get(&at).is_some_and(is_uncounted));
    }

    fn behind_of(&self, at: u64) -> Option<(u64, Behind)> {
        let mut all = self.behind.iter();
        all.find(|(_, behind)| behind.of == at)
            .map(|(place, behind)| (*place, *behind))
    }

    /// Begins to watch the instruction after the one at `at`. Returns its address; `None` if it
    /// cannot be watched.
    fn watch_behind(&mut self, at: u64, asks: bool, foreign: &Foreign) -> Option<u64> {
        if self.behind.len() >= MOST {
            return None;
        }
        let code = self.code_at(at, foreign)?;
        let (length, moved) = prologue::beyond(&code)?;
        let place = at + length;
        let is_taken = self.points.contains_key(&place) || is_at(&self.memory, place, BREAKPOINT);
        if asks
            && !displaced::decode(&code[usize::try_from(length).ok()?..], place)
                .is_some_and(|next| displaced::is_simple(&next))
        {
            return None;
        }
        if is_taken || self.behind.contains_key(&place) || self.given_up.contains(&place) {
            return None;
        }
        let behind = Behind {
            of: at,
            moved,
            unannounced: 0,
            asks,
            is_new: true,
        };
        self.behind.insert(place, behind);
        Some(place)
    }

    /// The program's code from an address on, without any breakpoints or probes.
    fn code_at(&self, at: u64, foreign: &Foreign) -> Option<Vec<u8>> {
        let mut code = vec![0; LOOKED_THROUGH];
        let from_file = self.file_at(at).map(|(id, offset)| {
            let _opened = self.has_probe(at, foreign);
            foreign.read(id, offset, &mut code)
        });
        let count = match from_file {
            Some(count @ 1..) => count,
            _ => self.memory.read_at(&mut code, at).ok()?,
        };
        code.truncate(count);
        self.uncover(at, &mut code);
        (code.first() != Some(&BREAKPOINT)).then_some(code)
    }

    fn file_at(&self, at: u64) -> Option<(FileId, u64)> {
        mapped::file_at(&self.mapped, at)
    }

    /// Whether the kernel has a probe there for all processes.
    pub(super) fn has_probe(&self, at: u64, foreign: &Foreign) -> bool {
        let Some((id, offset)) = self.file_at(at) else {
            return false;
        };
        let open = || {
            let mappings = process::mappings(self.process);
            let mapping = mappings
                .iter()
                .find(|mapping| (mapping.start..mapping.end).contains(&at))?;
            mapping.file(self.process).ok()
        };
        foreign.has_probe(id, offset, open)
    }

    /// Whether a kernel probe shares the byte of this breakpoint: then sbt must not remove the
    /// byte.
    pub(super) fn is_theirs(&self, at: u64, foreign: &Foreign) -> bool {
        let certain = |(_, behind): (u64, Behind)| behind.unannounced >= CERTAIN;
        self.has_probe(at, foreign) || self.behind_of(at).is_some_and(certain)
    }

    /// A thread has stopped at a breakpoint. Returns how the programs are to see the stop, and
    /// whether they have seen it already. `passed`: the breakpoint of the thread's last stop;
    /// updated.
    pub fn see(&mut self, at: u64, passed: &mut Option<u64>) -> (SeenStop, bool) {
        let before = passed.replace(at);
        if let Some(behind) = self.behind.get_mut(&at) {
            let is_told = before == Some(behind.of);
            let first = self.points.get(&behind.of);
            let should_have_stopped = !behind.is_new && first.is_none_or(|point| point.on);
            if is_told {
                behind.unannounced = 0;
            } else if should_have_stopped {
                behind.unannounced = behind.unannounced.saturating_add(1);
            }
            let seen = SeenStop {
                at: behind.of,
                moved: behind.moved,
            };
            if is_told && behind.asks {
                // The first breakpoint works: no need to watch the second any more.
                self.over.push(at);
            } else if should_have_stopped && !is_told && std::mem::take(&mut behind.asks) {
                self.disturbed = true;
                let point = self.points.get(&seen.at);
                self.uncounted += u64::from(point.is_some_and(|point| !point.is_counted));
            }
            return (seen, is_told);
        }
        for behind in self.behind.values_mut().filter(|behind| behind.of == at) {
            behind.unannounced = 0;
        }
        if let Some(point) = self.points.get_mut(&at) {
            point.hit = true;
            point.was_hit = true;
        }
        (SeenStop { at, moved: 0 }, false)
    }

    /// A breakpoint has just been set: from now on threads stop there, unless a kernel probe takes
    /// the traps.
    pub(super) fn begins_to_stop(&mut self, at: u64) {
        for (place, behind) in &mut self.behind {
            if behind.of == at {
                *behind = behind.anew();
            }
            behind.is_new |= *place == at;
        }
    }

    /// All stops of threads up to now have been handled.
    pub fn has_heard_all(&mut self) {
        for behind in self.behind.values_mut() {
            behind.is_new = false;
        }
    }

    /// Checks whether all breakpoints are still there and hit, and how many arrivals were not seen.
    pub fn look_for_others(&mut self, wanted: &Wanted) -> FoundBreakpoints {
        let mut found = FoundBreakpoints {
            missing: self.missing(),
            is_changed: self.misses_libraries,
        };
        for place in std::mem::take(&mut self.over) {
            let _gone = self.turn(place, false, &wanted.foreign);
            found.is_changed |= self.behind.contains_key(&place);
            self.retire(place);
        }
        if wanted.paused {
            return found;
        }
        let all: Vec<u64> = self.points.keys().copied().collect();
        for at in all {
            found.is_changed |= self.look_at(at, &wanted.foreign);
        }
        found
    }

    /// Checks one breakpoint. Returns whether breakpoints must be set or moved now.
    fn look_at(&mut self, at: u64, foreign: &Foreign) -> bool {
        let Some(point) = self.points.get_mut(&at).filter(|point| point.on) else {
            return false;
        };
        let was_hit = std::mem::take(&mut point.hit);
        let is_away = is_at(&self.memory, at, point.original());
        let is_watched_behind = self.behind_of(at).is_some();
        if is_away {
            // Another tool had a probe here, and has removed the byte with it.
            self.disturbed = true;
            if !is_watched_behind {
                self.may_have_missed(at);
            }
            if let Some(point) = self.points.get_mut(&at) {
                point.on = false;
            }
            return true;
        }
        let point = self.points.get(&at);
        let returns = |point: &Breakpoint| point.hits.iter().any(|hit| hit.0 == Program::Return);
        if is_watched_behind || self.behind.contains_key(&at) || point.is_none_or(returns) {
            return false;
        }
        let (is_alone, was_blind) =
            point.map_or((false, false), |point| (point.is_alone, point.is_blind));
        let is_probed = self.has_probe(at, foreign);
        // Watching the second instruction just to ask is limited to simple instructions, which need
        // no page for a copy.
        let is_known = was_hit || is_alone;
        if is_probed && was_blind || !is_probed && !was_blind && is_known {
            return false;
        }
        if is_probed {
            self.disturbed = true;
            self.may_have_missed(at);
        }
        let behind = self.watch_behind(at, !is_probed, foreign);
        let is_blind = is_probed && behind.is_none();
        self.blind |= is_blind;
        if let Some(point) = self.points.get_mut(&at) {
            point.is_alone = behind.is_none();
            point.is_blind = is_blind;
        }
        behind.is_some()
    }

    /// The number of arrivals that were not seen since the last call. Where no barrier counts them,
    /// one for each time in which threads may have passed unseen.
    pub fn missing(&mut self) -> u64 {
        let mut witnesses = std::mem::take(&mut self.witnesses);
        let missing = witnesses.look(|object| self.held(object));
        self.witnesses = witnesses;
        missing + std::mem::take(&mut self.uncounted)
    }

    /// Whether loaded libraries must be looked for from time to time.
    pub fn misses_libraries(&self) -> bool {
        self.misses_libraries
    }

    /// Notes that the program has been watched from its first instruction on.
    pub fn begins(&mut self) {
        self.witnesses.begin();
    }

    /// Forgets the barriers' counts, because watching pauses.
    pub fn forget_witnesses(&mut self) {
        self.witnesses.forget();
    }

    /// A thread comes to a barrier of glibc. Returns how many earlier arrivals were not seen.
    pub fn witness(&mut self, object: u64) -> u64 {
        self.held(object)
            .map_or(0, |held| self.witnesses.arrive(object, held))
    }

    fn held(&self, object: u64) -> Option<Held> {
        let mut words = [[0; 4]; 4];
        let bytes = words.as_flattened_mut();
        self.memory.read_exact_at(bytes, object).ok()?;
        Some(words.map(u32::from_ne_bytes).into())
    }

    /// Whether a return address was replaced by the kernel's own, so that another tool's return
    /// probe sees the return.
    pub fn is_of_return_probe(&self, address: u64) -> bool {
        // The kernel's address is at the beginning of a page of its own.
        if address == 0 || !address.is_multiple_of(PAGE) || self.file_at(address).is_some() {
            return false;
        }
        let mut strange = self.strange.borrow_mut();
        if let Some(known) = strange.get(&address) {
            return *known;
        }
        if strange.len() >= MOST {
            return false;
        }
        let is_it = process::is_of_return_probe(self.process, address);
        strange.insert(address, is_it);
        is_it
    }

    /// Whether threads pass some place where they cannot be seen.
    pub fn is_blind(&self) -> bool {
        self.blind
    }
}
