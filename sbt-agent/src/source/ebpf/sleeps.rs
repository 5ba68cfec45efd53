//! Sums of how long threads sleep, and samples of the places: the agent's side of the BPF programs
//! at switches and wakes. A handle of its own, since another thread reads it than that of the
//! events.

use std::{
    collections::HashMap,
    io,
    os::fd::{AsFd as _, OwnedFd},
    sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
};

use procfs::{FromRead as _, process::Stat};
use sbt_common::{Asleep, MAX_SLEEPS, SLEEPER_SLOTS, Sleep, Sleeper, Slept, Woken, name, read};

use super::{configure::possible_cpus, raw::Raw};
use crate::kernel::bpf;
use sbt_engine::looks::{
    ThreadId,
    sums::{Key, Sum, Sums},
};
use sbt_program::clock;

/// The programs, with the tracepoints on which they are put: wakes first, so that no beginning of a
/// sleep is seen without its end.
pub const PROGRAMS: [(&str, &std::ffi::CStr); 2] =
    [("woken", c"sched_waking"), ("asleep", c"sched_switch")];

/// The most samples that wait to be looked at.
const MOST_SAMPLES: usize = 256;

/// A sleep that was sampled, or the end of one.
pub enum Sample {
    /// A thread goes to sleep.
    Asleep(Box<Asleep>),
    /// The thread is woken.
    Woken(Woken),
}

/// Hands samples on, at the end of the rings.
#[derive(Clone)]
pub struct Samples(SyncSender<Sample>);

/// The way of samples, with its end.
pub fn way() -> (Samples, Receiver<Sample>) {
    let (sender, receiver) = sync_channel(MOST_SAMPLES);
    (Samples(sender), receiver)
}

impl Samples {
    /// Takes a sample. Returns whether the record is one. What finds no room is dropped.
    pub fn take(&self, raw: &Raw) -> bool {
        let sample = match raw {
            Raw::Asleep(record) => Sample::Asleep(record.clone()),
            Raw::Woken(record) => Sample::Woken(*record),
            _ => return false,
        };
        match self.0.try_send(sample) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => true,
        }
    }
}

/// The maps of the sums.
pub struct SumMaps {
    sleepers: OwnedFd,
    sleeps: OwnedFd,
    slept: OwnedFd,
    since: OwnedFd,
}

impl SumMaps {
    /// Takes the maps out of `all`. The error is the name of a map that is missing.
    pub fn take(all: &mut HashMap<String, OwnedFd>) -> Result<Self, &'static str> {
        let mut take = |name: &'static str| all.remove(name).ok_or(name);
        Ok(Self {
            sleepers: take(name::SLEEPERS)?,
            sleeps: take(name::SLEEPS)?,
            slept: take(name::SLEPT)?,
            since: take(name::SINCE)?,
        })
    }

    /// Another handle of the same maps.
    fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            sleepers: self.sleepers.try_clone()?,
            sleeps: self.sleeps.try_clone()?,
            slept: self.slept.try_clone()?,
            since: self.since.try_clone()?,
        })
    }

    /// Number of sleeps so far, and of those that found no room, over all CPUs.
    fn counts(&self) -> io::Result<(u64, u64)> {
        let sum = |index| -> io::Result<u64> {
            let mut per_cpu = vec![0; possible_cpus()];
            bpf::map_lookup(self.slept.as_fd(), index, &mut per_cpu)?;
            Ok(per_cpu.iter().sum())
        };
        Ok((sum(0)?, sum(1)?))
    }

    fn keys(&self) -> io::Result<Vec<[u8; size_of::<Sleep>()]>> {
        let mut found = Vec::new();
        let mut last = None;
        while let Some(next) = bpf::map_next_key(self.sleeps.as_fd(), last)?
            && found.len() < MAX_SLEEPS as usize
        {
            found.push(next);
            last = Some(next);
        }
        Ok(found)
    }

    /// The sleep of a thread that goes on now.
    fn sleeper(&self, tid: u32) -> Option<Sleeper> {
        let slot = tid & (SLEEPER_SLOTS - 1);
        let mut value = [0; size_of::<Sleeper>()];
        bpf::map_read(self.sleepers.as_fd(), &slot.to_ne_bytes(), &mut value).ok()?;
        read::<Sleeper>(&value).filter(|entry| entry.tid == tid && entry.since_ns != 0)
    }
}

/// Sums of sleeps.
pub struct Sleeps {
    maps: SumMaps,
    programs: Vec<OwnedFd>,
    /// Links of the programs while they run.
    links: Vec<OwnedFd>,
    /// Samples of sleeps.
    pub samples: Receiver<Sample>,
    /// When counts began, ns.
    begun_ns: u64,
    /// When the programs were switched on, ns; `None` if they are off.
    on_ns: Option<u64>,
    /// For how long they ran before, ns.
    before_ns: u64,
}

impl Sleeps {
    /// With these maps and programs, in the order of [`PROGRAMS`]; not yet on.
    pub fn new(
        maps: &SumMaps,
        programs: Vec<OwnedFd>,
        samples: Receiver<Sample>,
    ) -> io::Result<Self> {
        Ok(Self {
            maps: maps.try_clone()?,
            programs,
            links: Vec::new(),
            samples,
            begun_ns: clock::now_ns(),
            on_ns: None,
            before_ns: 0,
        })
    }

    /// Begins to sum up.
    pub fn on(&mut self) -> io::Result<()> {
        if self.on_ns.is_some() {
            return Ok(());
        }
        let now_ns = clock::now_ns();
        self.begin(now_ns)?;
        for (program, (_, tracepoint)) in self.programs.iter().zip(PROGRAMS) {
            let link = bpf::attach_raw_tracepoint(program.as_fd(), &tracepoint.to_owned())?;
            self.links.push(link);
        }
        self.on_ns = Some(now_ns);
        Ok(())
    }

    /// Sleeps that began before are not counted.
    fn begin(&self, now_ns: u64) -> io::Result<()> {
        bpf::map_update(self.maps.since.as_fd(), 0, &now_ns.to_ne_bytes())
    }

    /// Sums up no more.
    pub fn off(&mut self) {
        super::attach::detach(std::mem::take(&mut self.links));
        if let Some(on_ns) = self.on_ns.take() {
            self.before_ns += clock::now_ns().saturating_sub(on_ns);
        }
    }

    /// Number of sleeps so far.
    pub fn count(&self) -> u64 {
        self.maps.counts().map_or(0, |(all, _)| all)
    }

    /// Sums begin anew.
    pub fn reset(&mut self, now_ns: u64) {
        for key in self.maps.keys().unwrap_or_default() {
            // A sum that is absent already is as good.
            let _absent = bpf::map_remove(self.maps.sleeps.as_fd(), &key);
        }
        // Without it the sleeps of this moment count whole.
        let _whole = self.begin(now_ns);
        (self.begun_ns, self.before_ns) = (now_ns, 0);
        self.on_ns = self.on_ns.map(|_| now_ns);
    }

    /// The sums so far, with the sleeps of `threads` that go on.
    pub fn sums(&self, threads: &[ThreadId]) -> io::Result<Sums> {
        let now_ns = clock::now_ns();
        let mut all: HashMap<Key, Sum> = HashMap::new();
        for key in self.maps.keys()? {
            let mut value = [0; size_of::<Slept>()];
            if !bpf::map_read(self.maps.sleeps.as_fd(), &key, &mut value)? {
                continue;
            }
            let known = read::<Sleep>(&key).zip(read::<Slept>(&value));
            all.extend(known.map(|(sleep, slept)| (key_of(&sleep), sum(&slept))));
        }
        for who in threads.iter().filter(|_| self.on_ns.is_some()) {
            let Some(entry) = self.maps.sleeper(who.thread) else {
                continue;
            };
            // A thread that runs was woken on its way to sleep.
            if runs(*who) {
                continue;
            }
            let from_ns = entry.since_ns.max(self.on_ns.unwrap_or(0));
            let key = Key {
                who: *who,
                object: entry.object,
                call: entry.call,
            };
            let sum = all.entry(key).or_default();
            let ns = now_ns.saturating_sub(from_ns);
            sum.times += 1;
            sum.total_ns += ns;
            sum.max_ns = sum.max_ns.max(ns);
        }
        let on_ns = self.on_ns.map_or(0, |on_ns| now_ns.saturating_sub(on_ns));
        Ok(Sums {
            all: all.into_iter().collect(),
            watched_ns: self.before_ns + on_ns,
            span_ns: now_ns.saturating_sub(self.begun_ns),
            missed: self.maps.counts()?.1,
        })
    }
}

/// Whether a thread is known to be on a CPU, or ready for one.
fn runs(who: ThreadId) -> bool {
    let path = format!("/proc/{}/task/{}/stat", who.process, who.thread);
    Stat::from_file(path).is_ok_and(|stat| stat.state == 'R')
}

fn key_of(sleep: &Sleep) -> Key {
    Key {
        who: ThreadId {
            process: sleep.process,
            thread: sleep.tid,
        },
        object: sleep.object,
        call: sleep.call,
    }
}

fn sum(slept: &Slept) -> Sum {
    let used = slept.wakers.iter().filter(|waker| waker.tid != 0);
    Sum {
        times: slept.times,
        total_ns: slept.total_ns,
        max_ns: slept.max_ns,
        wakers: used
            .map(|waker| {
                let who = ThreadId {
                    process: waker.process,
                    thread: waker.tid,
                };
                (who, waker.ns)
            })
            .collect(),
    }
}
