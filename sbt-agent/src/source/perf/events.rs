//! The kernel's side: events of threads, and the rings that it writes what happens into.
//!
//! Each thread has an event for each address and CPU, and one more for each CPU that tells of
//! its life. Threads that begin later inherit them all; the kernel maps an inherited event only
//! if it is one CPU's. All that is told on a CPU goes into two rings there, which belong to
//! events of sbt's own: one for hits, and one for lives, of which each record wakes sbt, since
//! a program that was executed is to be watched soon.

use std::{
    io,
    os::fd::AsRawFd as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use nix::sys::resource::{Resource, getrlimit};
use perf_event::{
    Builder, Clock, Counter, ReadFormat,
    events::{Breakpoint, Software},
};

use super::{
    place::ROOM,
    record::{EACH, Format, REGISTERS, Record, SAMPLE, STACK, What},
};
use crate::kernel::perf::{self, PAGE, Ring};
use sbt_program::clock;

/// Pages of a ring of hits: some 800 hits a MiB. The first is taken that an ordinary user may
/// lock on each CPU: half a MiB and a part of `ulimit -l` (`perf_event_open(2)`).
const HIT_PAGES: [usize; 7] = [512, 256, 128, 64, 32, 16, 8];

/// Of all CPUs together: sbt is to stay small on machines with many.
const MOST_PAGES: usize = 8192;

/// Pages of a ring of lives, if those of hits are as many.
const LIFE_PAGES: usize = 32;

/// Files that are left to sbt for all else that it opens.
const SPARE_FILES: i32 = 64;

/// A record may be stamped so long before it can be read, ns: who writes it cannot be
/// interrupted by other threads.
const LATE_NS: u64 = 1_000_000;

/// Events that are open, and are closed together.
#[derive(Debug, Default)]
pub struct Opened {
    /// Since when, ns: none of them tells of what was before.
    pub since_ns: u64,
    all: Mutex<Vec<Counter>>,
    /// How many of their records found no room, if they know: for the sum of all that were
    /// closed.
    lost: Option<Arc<AtomicU64>>,
}

impl Opened {
    /// None yet, since a time, ns.
    pub fn since(since_ns: u64) -> Self {
        Self {
            since_ns,
            all: Mutex::default(),
            lost: None,
        }
    }

    /// One more.
    pub fn push(&mut self, event: Counter) {
        self.all().push(event);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.with_all(|all| all.is_empty())
    }

    /// Others too.
    pub fn append(&mut self, mut others: Self) {
        self.all().append(others.all());
    }

    /// Turns them on or off.
    pub fn switch(&self, on: bool) {
        self.with_all(|all| all.iter_mut().for_each(|event| perf::switch(event, on)));
    }

    fn all(&mut self) -> &mut Vec<Counter> {
        self.all.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_all<T>(&self, take: impl FnOnce(&mut Vec<Counter>) -> T) -> T {
        take(&mut self.all.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(sum) = self.lost.clone() {
            let lost = |event: &mut Counter| event.read_full().ok()?.lost();
            let lost = self.all().iter_mut().filter_map(lost).sum();
            sum.fetch_add(lost, Ordering::Relaxed);
        }
    }
}

/// The rings of all CPUs, and what opens the events that write there.
#[derive(Debug)]
pub struct Events {
    cpus: Vec<Cpu>,
    children: bool,
    switches: bool,
    /// See [`Opened`]; none before Linux 6.0, where events do not know.
    lost: Option<Arc<AtomicU64>>,
    /// Files with higher numbers are for others.
    last_file: i32,
    format: Format,
    /// What was read, and may have others before it still.
    pending: Vec<Record>,
}

#[derive(Debug)]
struct Cpu {
    number: u32,
    hits: Ring,
    lives: Ring,
}

impl Events {
    /// Makes the rings. `children`: whether processes inherit events as well; `switches`:
    /// whether threads tell when they get a CPU and lose it.
    ///
    /// # Errors
    /// The kernel's: the user may not have them.
    pub fn new(cpus: &[u32], children: bool, switches: bool) -> io::Result<Self> {
        let mut last = io::ErrorKind::NotFound.into();
        let counts_lost = nothing(true).build().is_ok();
        let most = HIT_PAGES.iter().filter(|pages| {
            let is_least = Some(*pages) == HIT_PAGES.last();
            *pages * cpus.len() <= MOST_PAGES || is_least
        });
        for pages in most {
            let cpu = |number: &u32| {
                Ok(Cpu {
                    number: *number,
                    hits: own(*number, *pages, pages * 1024)?,
                    lives: own(*number, LIFE_PAGES.min(*pages), 1)?,
                })
            };
            match cpus.iter().map(cpu).collect::<io::Result<Vec<_>>>() {
                Ok(all) if !all.is_empty() => {
                    return Ok(Self {
                        cpus: all,
                        children,
                        switches,
                        lost: counts_lost.then(Arc::default),
                        last_file: last_file(),
                        format: Format::from(*breakpoint(0).sample_id_all(true).attrs()),
                        pending: Vec::new(),
                    });
                }
                Ok(_) => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// None yet.
    pub fn none(&self) -> Opened {
        let mut none = Opened::since(clock::now_ns());
        none.lost.clone_from(&self.lost);
        none
    }

    /// How many records found no room of the events that have been closed: what the rings
    /// tell of only when there is room again. 0 where the kernel does not say.
    pub fn closed_lost(&self) -> u64 {
        let lost = self.lost.as_ref();
        lost.map_or(0, |lost| lost.load(Ordering::Relaxed))
    }

    /// Has a thread tell of its life, and those that it starts. `on`: also of its switches,
    /// which are told of else when the events are turned on.
    ///
    /// # Errors
    /// The kernel's; `ESRCH`: it has ended.
    pub fn tell_life(&self, thread: u32, on: bool) -> io::Result<Opened> {
        let mut all = self.none();
        let mut life = nothing(false);
        life.task(true).comm(true).comm_exec(true);
        life.mmap(true).mmap2(true);
        for cpu in &self.cpus {
            all.push(self.open(&mut life, thread, cpu, &cpu.lives)?);
        }
        if self.switches {
            // These are many: they wake nobody.
            let mut switches = nothing(false);
            switches.context_switch(true).enabled(on);
            for cpu in &self.cpus {
                all.push(self.open(&mut switches, thread, cpu, &cpu.hits)?);
            }
        }
        Ok(all)
    }

    /// Watches an address of a thread, and of those that it starts, on one CPU, the first of
    /// which is 0 whatever it is called.
    ///
    /// # Errors
    /// The kernel's; `ENOSPC`: as many are watched as can be.
    pub fn watch(&self, thread: u32, address: u64, cpu: usize, on: bool) -> io::Result<Counter> {
        let cpu = self.cpus.get(cpu).ok_or(io::ErrorKind::InvalidInput)?;
        let mut event = breakpoint(address);
        // Something else lies there then.
        event.enabled(on).remove_on_exec(true);
        self.open(&mut event, thread, cpu, &cpu.hits)
    }

    /// For how many more addresses of a thread there is room, on each CPU.
    ///
    /// # Errors
    /// The kernel's; `ESRCH`: it has ended.
    pub fn room(&self, thread: u32) -> io::Result<Vec<usize>> {
        // Whatever lies there: they are never on, nor does anybody inherit them.
        let mut event = breakpoint(0);
        event.observe_pid(thread.cast_signed()).enabled(false);
        let mut room = |cpu: &Cpu| {
            event.one_cpu(cpu.number as usize);
            let mut trials = Vec::new();
            while trials.len() < ROOM {
                match event.build().and_then(|trial| self.spare(trial)) {
                    Ok(trial) => trials.push(trial),
                    Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(trials.len())
        };
        self.cpus.iter().map(&mut room).collect()
    }

    /// Opens one as one of the target's.
    fn open(
        &self,
        event: &mut Builder<'_>,
        thread: u32,
        cpu: &Cpu,
        to: &Ring,
    ) -> io::Result<Counter> {
        event.observe_pid(thread.cast_signed());
        event.one_cpu(cpu.number as usize);
        event.inherit(true).inherit_thread(!self.children);
        event.sample_id_all(true).clockid(Clock::MONOTONIC);
        event.read_format(format_of(self.lost.is_some()));
        let event = self.spare(event.build()?)?;
        to.admit(&event)?;
        Ok(event)
    }

    /// One that leaves files to others.
    fn spare(&self, event: Counter) -> io::Result<Counter> {
        if event.as_raw_fd() > self.last_file {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        Ok(event)
    }

    /// What becomes readable when it is time to look.
    pub fn descriptors(&self) -> Vec<i32> {
        let rings = self.cpus.iter().flat_map(|cpu| [&cpu.hits, &cpu.lives]);
        rings.map(Ring::descriptor).collect()
    }

    /// Reads all rings; what is certain to come before all that is read later, in the order
    /// of time. `all`: everything.
    pub fn take(&mut self, all: bool) -> Vec<Record> {
        let now = clock::now_ns();
        self.read();
        let time = |record: &Record| record.time_ns;
        // Of a first thread: also what it says that has just executed a program; see
        // `Watch::goes_on`.
        let is_urgent = |record: &&Record| match record.what {
            What::Named { executed, .. } => executed,
            What::Ended => record.thread == record.process,
            _ => false,
        };
        let mut until = now.saturating_sub(LATE_NS);
        if all {
            until = u64::MAX;
        } else if let Some(last) = self.pending.iter().filter(is_urgent).map(time).max() {
            // It cannot wait, nor may what came before it and lies where was looked first.
            self.read();
            until = until.max(last.saturating_add(1));
        }
        // What comes of each ring is nearly sorted already, which this sort makes use of.
        let pending = &mut self.pending;
        pending.sort_by_key(time);
        let ready = pending.partition_point(|record| record.time_ns < until);
        pending.drain(..ready).collect()
    }

    fn read(&mut self) {
        for cpu in &mut self.cpus {
            for ring in [&mut cpu.lives, &mut cpu.hits] {
                ring.each(|record| {
                    let record = Record::parse(record, &self.format, cpu.number);
                    self.pending.extend(record);
                });
            }
        }
    }
}

/// The last file that may be had for events.
fn last_file() -> i32 {
    let most = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(most, _)| most);
    let most = i32::try_from(most).unwrap_or(i32::MAX);
    most - SPARE_FILES.min(most / 4)
}

/// A ring of an event of our own, of so many pages; a reader is woken after so many bytes.
fn own(cpu: u32, pages: usize, wake: usize) -> io::Result<Ring> {
    let mut event = nothing(false);
    // Of the first thread, which lives as long as sbt.
    event.observe_pid(std::process::id().cast_signed());
    event.one_cpu(cpu as usize);
    event.clockid(Clock::MONOTONIC).wakeup_watermark(wake);
    Ring::new(&event, [pages * PAGE])
}

/// How an event is read. `lost`: it can be asked how many of its records found no room.
fn format_of(lost: bool) -> ReadFormat {
    if lost {
        ReadFormat::LOST
    } else {
        ReadFormat::empty()
    }
}

/// An event that counts nothing, and may tell of something else. `lost`: see [`format_of`].
fn nothing(lost: bool) -> Builder<'static> {
    let mut event = Builder::new(Software::DUMMY);
    event
        .enabled(true)
        .sample(EACH)
        .read_format(format_of(lost));
    event
}

/// An event of an address that is executed, of this thread and on.
pub fn breakpoint(address: u64) -> Builder<'static> {
    let mut event = Builder::new(Breakpoint::execute(address));
    event.enabled(true).sample_period(1).sample(SAMPLE);
    event.sample_regs_user(REGISTERS).sample_stack_user(STACK);
    event.read_format(ReadFormat::empty());
    event
}
