//! The barriers of runtimes, at which threads sleep or spin.

use std::{collections::HashMap, rc::Rc};

use super::{
    barriers::FoundBarrier,
    futex::Futex,
    seen::{InspectedThread, functions, held, library_calls},
    wait::{Waits, unread},
};
use sbt_engine::{
    event::Kind,
    hang::scene::{Doing, WaitFor},
};
use sbt_program::{
    memory::Memory,
    runtimes::{
        gomp::{self, Construct},
        teams,
        waits::{Wants, wants},
    },
    sites::InRuntime,
};

/// The barriers at ends of regions of LLVM's OpenMP at which threads wait.
#[derive(Default)]
pub struct Regions {
    /// Index of the barrier of each team, by process and way to it. Mostly there is one way.
    ends: HashMap<(u32, teams::TeamOffsets), HashMap<u64, usize>>,
    /// The words that [`teams::infos`] has read, by process and [`teams::TeamOffsets::threads`]:
    /// read once for all threads.
    infos: HashMap<(u32, u64), Rc<[u64]>>,
    /// The ways to teams that were used, by process.
    ways: Vec<(u32, teams::TeamOffsets)>,
}

impl Regions {
    fn waits(&mut self, process: u32, way: teams::TeamOffsets, team: u64, barrier: usize) {
        let all = self.ends.entry((process, way)).or_default();
        all.entry(team).or_insert(barrier);
    }

    fn team(
        &mut self,
        process: u32,
        memory: Memory,
        way: teams::TeamOffsets,
        held: &[u64],
    ) -> Option<(u64, u32)> {
        if !self.ways.contains(&(process, way)) {
            self.ways.push((process, way));
        }
        let infos = self.infos.entry((process, way.threads));
        let infos = infos.or_insert_with(|| teams::infos(memory, way.threads).into());
        teams::team(memory, way, infos, held)
    }

    /// The address of a thread's team.
    fn team_of(&mut self, process: u32, memory: Memory, held: &[u64]) -> Option<u64> {
        let ways: Vec<teams::TeamOffsets> = self
            .ways
            .iter()
            .filter(|(of, _)| *of == process)
            .map(|(_, way)| *way)
            .collect();
        let mut all = ways.into_iter();
        all.find_map(|way| Some(self.team(process, memory, way, held)?.0))
    }

    /// Index of the barrier at which this thread's team waits.
    fn end(&mut self, process: u32, memory: Memory, held: &[u64]) -> Option<usize> {
        let ways = self.ends.keys().filter(|end| end.0 == process);
        let ways: Vec<teams::TeamOffsets> = ways.map(|end| end.1).collect();
        ways.into_iter().find_map(|way| {
            let (team, _) = self.team(process, memory, way, held)?;
            self.ends.get(&(process, way))?.get(&team).copied()
        })
    }
}

impl Waits<'_> {
    /// Index of the barrier of a runtime in which a thread sleeps or spins. `held`: values that may
    /// be an address of it, or near it.
    pub(super) fn of_runtime(
        &mut self,
        seen: &InspectedThread,
        held: &[u64],
        futex: Option<Futex>,
        memory: Memory,
    ) -> Option<usize> {
        let found = library_calls(seen)
            .filter_map(|call| Some((call.address, call.called.runtime?)))
            .find(|(_, found)| {
                matches!(
                    found,
                    InRuntime::Gomp | InRuntime::Kmp { .. } | InRuntime::Rust
                )
            });
        let Some((address, runtime)) = found else {
            return self.of_openmp(seen, held, futex.is_some(), memory);
        };
        match runtime {
            InRuntime::Gomp => {
                let is_futex = futex.is_some();
                let found = self.gomp(seen.id.process, held, is_futex, memory)?;
                Some(self.barriers.waits(seen.id, found))
            }
            InRuntime::Kmp {
                threads,
                team,
                count,
                ends,
            } => {
                let way = teams::TeamOffsets {
                    threads: address.checked_add_signed(threads)?,
                    team,
                    count,
                };
                let process = seen.id.process;
                let team = self.regions.team(process, memory, way, held);
                let found = FoundBarrier {
                    participants: team.map(|team| team.1),
                    // If no team was found, the address of all threads stands for the only team.
                    ..unread(team.map_or(way.threads, |team| team.0), Kind::Kmp)
                };
                let barrier = self.barriers.waits(seen.id, found);
                if ends && let Some((team, _)) = team {
                    self.regions.waits(process, way, team, barrier);
                }
                Some(barrier)
            }
            // For a moment, another thread holds the lock of the barrier's count.
            InRuntime::Rust => {
                let waits = wants(&functions(seen)) == Some(Wants::BarrierOf(Kind::Rust));
                let address = futex.filter(|_| waits)?.address;
                Some(self.barriers.waits(seen.id, unread(address, Kind::Rust)))
            }
            InRuntime::OfGomp | InRuntime::OfKmp => None,
        }
    }

    /// Index of the barrier of an OpenMP runtime in which a thread waits, where the code of the
    /// runtime did not tell: by the function that the program has called, and by the memory of the
    /// barrier if it has the form that is known.
    fn of_openmp(
        &mut self,
        seen: &InspectedThread,
        held: &[u64],
        is_futex: bool,
        memory: Memory,
    ) -> Option<usize> {
        let mut in_library = library_calls(seen).filter_map(|call| call.called.runtime);
        let is_gomp = match in_library.next()? {
            InRuntime::OfGomp => true,
            InRuntime::OfKmp => false,
            _ => return None,
        };
        let functions = functions(seen);
        let mut all = functions.iter();
        let construct = all.find_map(|(name, _, _)| gomp::construct(name));
        let calls = seen
            .followed
            .as_ref()
            .map_or(0, |followed| followed.calls.len());
        // Threads that a runtime keeps for its regions have no call of the program.
        let is_own = library_calls(seen).count() < calls;
        if matches!(construct, Some(Construct::Critical | Construct::Ordered)) {
            return None;
        }
        if is_gomp && let Some(found) = self.gomp(seen.id.process, held, is_futex, memory) {
            let is_end = found.at_end.is_some_and(|threads| threads > 0);
            let is_known = self.barriers.has(seen.id.process, found.address);
            if is_own || is_end || is_known {
                return Some(self.barriers.waits(seen.id, found));
            }
        }
        if !is_own || construct != Some(Construct::Barrier) {
            return None;
        }
        let kind = if is_gomp { Kind::Gomp } else { Kind::Kmp };
        // All threads of the process are taken for one team.
        let process = seen.id.process;
        let address = *self
            .unknown_teams
            .entry(process)
            .or_insert_with(|| held.first().copied().unwrap_or_default());
        Some(self.barriers.waits(seen.id, unread(address, kind)))
    }

    fn gomp(
        &self,
        process: u32,
        held: &[u64],
        is_futex: bool,
        memory: Memory,
    ) -> Option<FoundBarrier> {
        let of = |address: u64| {
            let bytes = memory.read(address, gomp::LENGTH);
            let barrier = gomp::waiting(&bytes, address, is_futex)?;
            Some(FoundBarrier {
                address,
                kind: Kind::Gomp,
                participants: Some(barrier.count),
                arrived: Some(barrier.arrived),
                shared: false,
                at_end: gomp::at_end(&bytes),
            })
        };
        // Threads wait on `generation`, 4 bytes after the beginning.
        let addresses = || {
            let both = |held: &u64| [held.checked_sub(4), Some(*held)];
            held.iter().flat_map(both).flatten()
        };
        let known = addresses().find(|address| self.barriers.has(process, *address));
        known.and_then(of).or_else(|| {
            addresses().find_map(|address| of(address).filter(|found| found.participants > Some(1)))
        })
    }

    /// The barrier of a thread of LLVM's OpenMP that already waits for the next region. As long as
    /// another thread of its team waits at the end of the last region, that is where this thread
    /// is.
    pub(super) fn between_regions(
        &mut self,
        seen: &InspectedThread,
        doing: &Doing,
    ) -> Option<usize> {
        let waits = match doing {
            Doing::Running => true,
            Doing::Waiting(wait) => {
                matches!(wait, WaitFor::Condvar { .. } | WaitFor::Futex { .. })
            }
            _ => false,
        };
        let calls = seen.followed.as_ref().map(|followed| &followed.calls)?;
        let is_in = calls
            .iter()
            .any(|call| call.called.runtime == Some(InRuntime::OfKmp));
        let is_idle = is_in && library_calls(seen).count() == calls.len();
        if !waits || !is_idle {
            return None;
        }
        let memory = Memory {
            thread: seen.id.thread,
        };
        let futex = Futex::of(seen.glance.call, memory);
        let held = futex.map_or_else(|| held(seen), |futex| vec![futex.address]);
        let Some(barrier) = self.regions.end(seen.id.process, memory, &held) else {
            // The others of its team may stand at a barrier inside of the region.
            if let Some(team) = self.regions.team_of(seen.id.process, memory, &held)
                && let Some(barrier) = self.barriers.at(seen.id.process, team)
            {
                self.barriers.add_past_end(barrier, seen.id);
            }
            return None;
        };
        self.barriers.add(barrier, seen.id);
        Some(barrier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_threads_have_in_common_is_read_once() {
        let address = |words: &[u64]| words.as_ptr().expose_provenance() as u64;
        let team = [3_u64];
        let info = [0, address(&team)];
        let mut array = vec![0; 300];
        array[0] = address(&info);
        let threads = [address(&array)];
        let way = teams::TeamOffsets {
            threads: address(&threads),
            team: 8,
            count: 0,
        };
        let memory = Memory {
            thread: std::process::id(),
        };
        let (mut regions, held) = (Regions::default(), [address(&info)]);
        let found = Some((address(&team), 3));
        assert_eq!(regions.team(1, memory, way, &held), found);
        // The array is not read again for the next thread.
        let nobody =
            Regions::default().team(1, memory, teams::TeamOffsets { threads: 8, ..way }, &held);
        assert_eq!(nobody, None);
        let without = std::mem::replace(&mut array[0], 0);
        assert_eq!(without, held[0]);
        assert_eq!(regions.team(1, memory, way, &held), found);
        // However many threads wait at an end, there is one entry.
        for _ in 0..100 {
            regions.waits(1, way, address(&team), 7);
        }
        assert_eq!(regions.ends[&(1, way)].len(), 1);
        assert_eq!(regions.end(1, memory, &held), Some(7));
        assert_eq!(regions.end(2, memory, &held), None, "another process");
    }
}
