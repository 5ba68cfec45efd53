//! What the agent writes into the maps of the BPF programs, and reads from them.

use std::{
    collections::{HashMap, HashSet},
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
};

use sbt_common::{
    Code, Futex, Kmp, Lock, MAX_LOCKS, MAX_RULES, Mpi, Rule, State, bytes, name, read,
};

use super::{configure::possible_cpus, sleeps::SumMaps};
use crate::kernel::bpf;
use crate::kernel::counting::OnCpu;

/// The maps that the agent reads or writes, and what it has written.
pub struct Maps {
    lost: OwnedFd,
    state: OwnedFd,
    silenced: OwnedFd,
    passed: OwnedFd,
    followed: OwnedFd,
    rules: OwnedFd,
    locks: OwnedFd,
    unlisted: OwnedFd,
    kmp: OwnedFd,
    mpi: OwnedFd,
    events: OwnedFd,
    /// The sums of sleeps.
    pub sums: SumMaps,
    /// Number of CPUs, as in [`sbt_common::Config::cpus`].
    cpus: u32,
    /// When watching of futexes began, `CLOCK_MONOTONIC` ns; 0 if they are not watched.
    futexes_ns: u64,
    /// Whether threads report their counters, and how many perf events are read for each report.
    counts: bool,
    events_used: u64,
    /// The generation whose probes count; others are ignored.
    generation: u16,
    /// Code for which the map holds a rule of unwinding.
    known_rules: HashSet<Code>,
}

impl Maps {
    /// Takes the maps out of `all`. The error is the name of a map that is missing.
    pub fn take(all: &mut HashMap<String, OwnedFd>, cpus: u32) -> Result<Self, &'static str> {
        let sums = SumMaps::take(all)?;
        let mut take = |name: &'static str| all.remove(name).ok_or(name);
        Ok(Self {
            sums,
            lost: take(name::LOST)?,
            state: take(name::STATE)?,
            silenced: take(name::SILENCED)?,
            passed: take(name::PASSED)?,
            followed: take(name::FOLLOWED)?,
            rules: take(name::RULES)?,
            locks: take(name::LOCKS)?,
            unlisted: take(name::UNLISTED)?,
            kmp: take(name::KMP)?,
            mpi: take(name::MPI)?,
            events: take(name::EVENTS)?,
            cpus,
            futexes_ns: 0,
            counts: false,
            events_used: 0,
            generation: 0,
            known_rules: HashSet::new(),
        })
    }

    /// From now on counts hits of the probes of this generation only.
    pub fn set_generation(&mut self, generation: u16) -> io::Result<()> {
        self.generation = generation;
        self.renew_state()
    }

    /// Makes the programs forget what they know of barrier objects and of return addresses, and
    /// read the settings anew.
    fn renew_state(&self) -> io::Result<()> {
        // A value never used before makes the programs read everything afresh.
        let now = sbt_program::clock::now_ns();
        let state = State {
            trust: now,
            generation: u64::from(self.generation),
            epoch: now,
            walks: if self.known_rules.is_empty() { 0 } else { now },
            futexes: self.futexes_ns,
            counts: u64::from(self.counts),
            events: self.events_used,
        };
        bpf::map_update(self.state.as_fd(), 0, bytes(&state))
    }

    /// From now on counts waits on futexes; waits that began before are ignored.
    pub fn begin_futexes(&mut self) -> io::Result<()> {
        self.futexes_ns = sbt_program::clock::now_ns();
        self.renew_state()
    }

    /// Waits by futex ([`name::LOCKS`]), and how many waits found no room there
    /// ([`name::UNLISTED`], summed over all CPUs).
    pub fn locks(&self) -> io::Result<(Vec<(Futex, Lock)>, u64)> {
        let map = self.locks.as_fd();
        let mut found = Vec::new();
        for key in self.futexes()? {
            let mut value = [0; size_of::<Lock>()];
            if bpf::map_read(map, &key, &mut value)? {
                found.extend(read::<Futex>(&key).zip(read::<Lock>(&value)));
            }
        }
        Ok((found, sum_per_cpu(self.unlisted.as_fd())?))
    }

    /// Removes all futexes from the map, or those of one process.
    pub fn clear_locks(&self, process: Option<u32>) -> io::Result<()> {
        for key in self.futexes()? {
            let futex = read::<Futex>(&key);
            let is_other = |futex: Futex| process.is_some_and(|process| futex.process != process);
            if !futex.is_some_and(is_other) {
                // A futex that is absent already is as good.
                let _absent = bpf::map_remove(self.locks.as_fd(), &key);
            }
        }
        Ok(())
    }

    /// The keys of the map, in no order. If a key disappears meanwhile, the kernel starts again
    /// from the first one, so keys may come twice.
    fn futexes(&self) -> io::Result<Vec<[u8; size_of::<Futex>()]>> {
        let mut found = Vec::new();
        let mut last = None;
        while let Some(next) = bpf::map_next_key(self.locks.as_fd(), last)?
            && found.len() < MAX_LOCKS as usize
        {
            found.push(next);
            last = Some(next);
        }
        Ok(found)
    }

    /// Adds rules for the code around return addresses; `None` removes a rule. Earlier rules stay
    /// in force until all changes are made.
    pub fn change_rules(&mut self, changes: &[(Code, Option<Rule>)]) -> io::Result<()> {
        let map = self.rules.as_fd();
        for (code, rule) in changes {
            let key = bytes(code);
            match rule {
                // No room for the rule: chains of callers end at this code.
                Some(_)
                    if self.known_rules.len() >= MAX_RULES as usize
                        && !self.known_rules.contains(code) => {}
                Some(rule) => {
                    bpf::map_insert(map, key, bytes(rule))?;
                    self.known_rules.insert(*code);
                }
                None => {
                    // A rule that is absent already is as good.
                    let _absent = bpf::map_remove(map, key);
                    self.known_rules.remove(code);
                }
            }
        }
        self.renew_state()
    }

    /// Stores how probes in LLVM's OpenMP find the team.
    pub fn set_kmp(&self, index: u16, way: Kmp) -> io::Result<()> {
        bpf::map_update(self.kmp.as_fd(), index.into(), bytes(&way))
    }

    /// Returns a function, for any thread, that tells the programs where Open MPI keeps the number
    /// of a communicator.
    pub fn mpi_teacher(&self) -> io::Result<impl FnOnce(Mpi) + Send + use<>> {
        let map = self.mpi.try_clone()?;
        Ok(move |mpi: Mpi| {
            // If the kernel refuses, the agent goes on reading communicators itself.
            let _refused = bpf::map_update(map.as_fd(), 0, bytes(&mpi));
        })
    }

    /// Lets the programs read perf events: for each event, its descriptors by CPU. The caller keeps
    /// them open.
    pub fn set_events(&self, events: &[Vec<OnCpu>]) -> io::Result<()> {
        for (event, all) in (0..).zip(events) {
            for (cpu, counter) in all {
                let index = event * self.cpus + cpu;
                let fd = counter.as_raw_fd().cast_unsigned();
                bpf::map_update(self.events.as_fd(), index, &fd.to_ne_bytes())?;
            }
        }
        Ok(())
    }

    /// Makes threads report their counters, or stop reporting. Each report includes the first
    /// `events` perf events that were set.
    pub fn tell_counts(&mut self, on: bool, events: usize) -> io::Result<()> {
        (self.counts, self.events_used) = (on, events as u64);
        self.renew_state()
    }

    /// Records that have found no room so far, over all CPUs.
    pub fn lost(&self) -> io::Result<u64> {
        sum_per_cpu(self.lost.as_fd())
    }

    /// Makes the programs ignore a condition variable or futex until a time, ns: see
    /// [`name::SILENCED`].
    pub fn silence(&self, key: u64, until_ns: u64) -> io::Result<()> {
        bpf::map_insert(
            self.silenced.as_fd(),
            &key.to_ne_bytes(),
            &until_ns.to_ne_bytes(),
        )
    }

    /// Adds a running process to the children that are watched: see [`name::FOLLOWED`].
    pub fn follow(&self, process: u32) -> io::Result<()> {
        let one = 1_u32.to_ne_bytes();
        bpf::map_insert(self.followed.as_fd(), &process.to_ne_bytes(), &one)
    }

    /// How many uses of silenced condition variables the programs ignored, over all CPUs: see
    /// [`name::PASSED`].
    pub fn passed(&self) -> io::Result<u64> {
        sum_per_cpu(self.passed.as_fd())
    }
}

fn sum_per_cpu(map: BorrowedFd<'_>) -> io::Result<u64> {
    let mut per_cpu = vec![0; possible_cpus()];
    bpf::map_lookup(map, 0, &mut per_cpu)?;
    Ok(per_cpu.iter().sum())
}
