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
        gomp, teams,
        waits::{Wants, wants},
    },
    sites::InRuntime,
};

/// The barriers at ends of regions of LLVM's OpenMP at which threads wait.
#[derive(Default)]
pub struct Regions {
    /// Index of the barrier of each team, by process and way to it. Mostly there is one way.
    ends: HashMap<(u32, teams::Way), HashMap<u64, usize>>,
    /// What [`teams::infos`] has read, by process and [`teams::Way::threads`]: read once for all
    /// threads.
    infos: HashMap<(u32, u64), Rc<[u64]>>,
}

impl Regions {
    fn waits(&mut self, process: u32, way: teams::Way, team: u64, barrier: usize) {
        let all = self.ends.entry((process, way)).or_default();
        all.entry(team).or_insert(barrier);
    }

    fn team(
        &mut self,
        process: u32,
        memory: Memory,
        way: teams::Way,
        held: &[u64],
    ) -> Option<(u64, u32)> {
        let infos = self.infos.entry((process, way.threads));
        let infos = infos.or_insert_with(|| teams::infos(memory, way.threads).into());
        teams::team(memory, way, infos, held)
    }

    /// Index of the barrier at which this thread's team waits.
    fn end(&mut self, process: u32, memory: Memory, held: &[u64]) -> Option<usize> {
        let ways = self.ends.keys().filter(|end| end.0 == process);
        let ways: Vec<teams::Way> = ways.map(|end| end.1).collect();
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
        let (address, runtime) = library_calls(seen)
            .filter_map(|call| Some((call.address, call.called.runtime?)))
            .find(|(_, found)| {
                matches!(
                    found,
                    InRuntime::Gomp | InRuntime::Kmp { .. } | InRuntime::Rust
                )
            })?;
        match runtime {
            InRuntime::Gomp => {
                let found = self.gomp(seen.id.process, held, memory)?;
                Some(self.barriers.waits(seen.id, found))
            }
            InRuntime::Kmp {
                threads,
                team,
                count,
                ends,
            } => {
                let way = teams::Way {
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

    fn gomp(&self, process: u32, held: &[u64], memory: Memory) -> Option<FoundBarrier> {
        let of = |address: u64| {
            let bytes = memory.read(address, gomp::LENGTH);
            let barrier = gomp::waiting(&bytes, address)?;
            Some(FoundBarrier {
                address,
                kind: Kind::Gomp,
                participants: Some(barrier.count),
                arrived: Some(barrier.arrived),
                shared: false,
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
        let barrier = self.regions.end(seen.id.process, memory, &held)?;
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
        let way = teams::Way {
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
        let nobody = Regions::default().team(1, memory, teams::Way { threads: 8, ..way }, &held);
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
