//! Probes and breakpoints of others at the places of ours.
//!
//! Where the kernel has a probe (uprobe) the kernel takes the trap, and the thread does not stop for
//! us: our byte and the kernel's are the same byte. Then the next instruction is watched, if the
//! same can be seen there. Whether threads that come to the next instruction have stopped at the
//! first tells whose the byte is, even where nothing else does.

use std::os::unix::fs::FileExt as _;

use super::{
    super::{displaced, foreign::Foreign, witness::Held},
    Breakpoint, INT3, PAGE, Space, Wanted, is_at, mapped,
};
use crate::source::twin::Program;
use sbt_program::{files::FileId, process, prologue};

/// At most so many places are watched at two instructions each.
const MOST: usize = 256;

/// How much code is searched for jumps back, bytes.
const LOOKED_THROUGH: usize = 4096;

/// After so many threads that passed without a stop nothing else explains it.
pub(super) const CERTAIN: u32 = 3;

/// The second instruction of a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    /// Address of the first instruction.
    pub of: u64,
    /// How far the first instruction moves rsp down, bytes.
    pub moved: u64,
    /// Threads that came here without a stop at the first instruction, since the last stop there.
    pub unannounced: u32,
    /// Whether the only purpose is to see whether threads stop at the first instruction.
    pub asks: bool,
    /// Threads may be on their way that passed the first instruction before our breakpoint stood
    /// there.
    pub is_new: bool,
}

impl Behind {
    /// With nothing known yet of what the kernel tells.
    pub(super) const fn anew(self) -> Self {
        Self {
            unannounced: 0,
            is_new: true,
            ..self
        }
    }
}

/// Where a thread has stopped, as the programs are to see it: at the first instruction of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The instruction's address.
    pub at: u64,
    /// How far the first instruction moves rsp down, bytes.
    pub moved: u64,
}

/// What a look at all breakpoints has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Something is to be put elsewhere, or back.
    pub is_changed: bool,
    /// Arrivals that were not seen.
    pub missing: u64,
}

impl Space {
    /// Where the place at `at` is to be watched: at the next instruction if another tool's probe
    /// stands there; `None` if neither does.
    pub(super) fn instead_of(&mut self, at: u64, foreign: &Foreign) -> Option<u64> {
        if let Some((behind, _)) = self.behind_of(at) {
            return Some(behind);
        }
        let is_ours = self.points.get(&at).is_some_and(|point| point.on);
        let is_theirs = self.has_probe(at, foreign) || !is_ours && is_at(&self.memory, at, INT3);
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

    /// Threads may have come to one of ours without a stop.
    fn may_have_missed(&mut self, at: u64) {
        let is_uncounted = |point: &Breakpoint| point.on && point.was_hit && !point.is_counted;
        self.uncounted += u64::from(self.points.get(&at).is_some_and(is_uncounted));
    }

    fn behind_of(&self, at: u64) -> Option<(u64, Behind)> {
        let mut all = self.behind.iter();
        all.find(|(_, behind)| behind.of == at)
            .map(|(place, behind)| (*place, *behind))
    }

    /// Begins to watch the instruction behind the one at `at`: the address.
    fn watch_behind(&mut self, at: u64, asks: bool, foreign: &Foreign) -> Option<u64> {
        if self.behind.len() >= MOST {
            return None;
        }
        let code = self.code_at(at, foreign)?;
        let (length, moved) = prologue::beyond(&code)?;
        let place = at + length;
        let is_taken = self.points.contains_key(&place) || is_at(&self.memory, place, INT3);
        if asks
            && !displaced::decode(&code[usize::try_from(length).ok()?..], place)
                .is_some_and(|it| displaced::is_simple(&it))
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

    /// The program's code from an address on, whatever stands in memory.
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
        (code.first() != Some(&INT3)).then_some(code)
    }

    fn file_at(&self, at: u64) -> Option<(FileId, u64)> {
        mapped::file_at(&self.mapped, at)
    }

    /// Whether the kernel has a probe there that is meant for everybody.
    pub(super) fn has_probe(&self, at: u64, foreign: &Foreign) -> bool {
        let Some((id, offset)) = self.file_at(at) else {
            return false;
        };
        let open = || {
            let mappings = process::mappings(self.process);
            let mapping = mappings
                .iter()
                .find(|it| (it.start..it.end).contains(&at))?;
            mapping.file(self.process).ok()
        };
        foreign.has_probe(id, offset, open)
    }

    /// Whether the byte at a breakpoint is the kernel's, too: then it is not for us to take away.
    pub(super) fn is_theirs(&self, at: u64, foreign: &Foreign) -> bool {
        let certain = |(_, behind): (u64, Behind)| behind.unannounced >= CERTAIN;
        self.has_probe(at, foreign) || self.behind_of(at).is_some_and(certain)
    }

    /// A thread has stopped at a breakpoint: how the programs are to see the stop, and whether they
    /// have seen it already. `passed`: where the thread has stopped before.
    pub fn see(&mut self, at: u64, passed: &mut Option<u64>) -> (Seen, bool) {
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
            let seen = Seen {
                at: behind.of,
                moved: behind.moved,
            };
            if is_told && behind.asks {
                // The first instruction is ours: nothing more to ask.
                self.over.push(at);
            } else if should_have_stopped && !is_told && std::mem::take(&mut behind.asks) {
                self.disturbed = true;
                let point = self.points.get(&seen.at);
                self.uncounted += u64::from(point.is_some_and(|point| !point.is_counted));
            }
            return (seen, is_told);
        }
        for behind in self.behind.values_mut().filter(|it| it.of == at) {
            behind.unannounced = 0;
        }
        if let Some(point) = self.points.get_mut(&at) {
            point.hit = true;
            point.was_hit = true;
        }
        (Seen { at, moved: 0 }, false)
    }

    /// A breakpoint of ours has been put somewhere: from now on threads stop there, if no probe of
    /// the kernel takes them.
    pub(super) fn begins_to_stop(&mut self, at: u64) {
        for (place, behind) in &mut self.behind {
            if behind.of == at {
                *behind = behind.anew();
            }
            behind.is_new |= *place == at;
        }
    }

    /// All stops have been heard of that threads made before now.
    pub fn has_heard_all(&mut self) {
        for behind in self.behind.values_mut() {
            behind.is_new = false;
        }
    }

    /// Looks whether all breakpoints are still there and hit, and how many arrivals nobody saw.
    pub fn look_for_others(&mut self, wanted: &Wanted) -> Found {
        let mut found = Found {
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

    /// Whether something is to be done about one.
    fn look_at(&mut self, at: u64, foreign: &Foreign) -> bool {
        let Some(point) = self.points.get_mut(&at).filter(|point| point.on) else {
            return false;
        };
        let was_hit = std::mem::take(&mut point.hit);
        let is_away = is_at(&self.memory, at, point.original());
        let is_watched_behind = self.behind_of(at).is_some();
        if is_away {
            // Whoever had a probe here has taken it away, and ours with it.
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
        let (is_alone, was_blind) = point.map_or((false, false), |it| (it.is_alone, it.is_blind));
        let is_probed = self.has_probe(at, foreign);
        // One that only asks needs no page for its instruction, as another may.
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

    /// How many arrivals were not seen since the last call. Where nothing counts them, one for each
    /// time in which there may have been some.
    pub fn missing(&mut self) -> u64 {
        let mut witnesses = std::mem::take(&mut self.witnesses);
        let missing = witnesses.look(|object| self.held(object));
        self.witnesses = witnesses;
        missing + std::mem::take(&mut self.uncounted)
    }

    /// Whether what is loaded has to be looked for.
    pub fn misses_libraries(&self) -> bool {
        self.misses_libraries
    }

    /// The program has been watched from its first instruction on.
    pub fn begins(&mut self) {
        self.witnesses.begin();
    }

    /// Nobody looks for a while.
    pub fn forget_witnesses(&mut self) {
        self.witnesses.forget();
    }

    /// A thread comes to a barrier of glibc: how many have come before that nobody saw.
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

    /// Whether the kernel has put an address in the place of one to which a thread returns, so that
    /// another's probe sees the return.
    pub fn is_of_return_probe(&self, address: u64) -> bool {
        // It is the beginning of a page of the kernel's.
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

    /// Whether threads come to places where nothing can be seen of them.
    pub fn is_blind(&self) -> bool {
        self.blind
    }
}
