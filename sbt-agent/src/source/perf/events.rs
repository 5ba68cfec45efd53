//! The perf events of threads, and the rings that the kernel writes records into.
//!
//! Each thread has an event for each address and CPU, and one more for each CPU that reports
//! starts, ends and the like. Threads that begin later inherit all of them; the kernel lets an
//! inherited event be mapped only if it is for one CPU. All events of a CPU write into two rings,
//! which belong to events of sbt itself: one ring for hits, and one for lives. Each record in the
//! latter wakes sbt, since a program that was executed must be watched soon.

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
    record::{EACH, Format, Record, SAMPLE, STACK, ThreadEvent},
};
use crate::kernel::perf::{self, PAGE, Ring};
use sbt_program::{arch::Registers, clock};

/// Pages of a ring of hits; a MiB holds some 800 hits. The first size is taken that the user may
/// lock on each CPU: half a MiB and a part of `ulimit -l` (`perf_event_open(2)`).
const HIT_PAGES: [usize; 7] = [512, 256, 128, 64, 32, 16, 8];

/// Pages of all CPUs together: sbt must stay small on machines with many CPUs.
const MOST_PAGES: usize = 8192;

/// Pages of a ring of lives, unless the ring of hits is smaller.
const LIFE_PAGES: usize = 32;

/// How many files events leave for everything else that sbt opens.
const SPARE_FILES: i32 = 64;

/// How long after its time stamp a record may become readable, ns. Other threads cannot interrupt
/// its writer.
const LATE_NS: u64 = 1_000_000;

/// Open events that are closed together.
#[derive(Debug, Default)]
pub struct Opened {
    /// The time at which the events were opened, ns: they report nothing from before.
    pub since_ns: u64,
    all: Mutex<Vec<Counter>>,
    /// Where to add the records that found no room, when the events are closed. `None` if events do
    /// not count them.
    lost: Option<Arc<AtomicU64>>,
}

impl Opened {
    /// No events yet, opened at `since_ns`.
    pub fn since(since_ns: u64) -> Self {
        Self {
            since_ns,
            all: Mutex::default(),
            lost: None,
        }
    }

    /// Adds an event.
    pub fn push(&mut self, event: Counter) {
        self.all().push(event);
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.with_all(|all| all.is_empty())
    }

    /// Adds the events of `others`.
    pub fn append(&mut self, mut others: Self) {
        self.all().append(others.all());
    }

    /// Enables or disables all events.
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

/// The rings of all CPUs; opens the events that write into them.
#[derive(Debug)]
pub struct Events {
    cpus: Vec<Cpu>,
    children: bool,
    switches: bool,
    /// Sum of records that found no room in closed events. `None` before Linux 6.0, where events do
    /// not count them.
    lost: Option<Arc<AtomicU64>>,
    /// Highest descriptor that events may use: higher ones are kept for other files.
    last_file: i32,
    format: Format,
    /// Records read that may still have earlier ones before them.
    pending: Vec<Record>,
}

#[derive(Debug)]
struct Cpu {
    number: u32,
    hits: Ring,
    lives: Ring,
}

impl Events {
    /// Makes the rings. `children`: whether child processes inherit events; `switches`: whether
    /// threads report when they get and lose a CPU.
    ///
    /// # Errors
    /// Errors of the kernel: the user may not have the events.
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

    /// Whether threads report when they get and lose a CPU.
    pub const fn has_switches(&self) -> bool {
        self.switches
    }

    /// An empty set of events, opened now.
    pub fn none(&self) -> Opened {
        let mut none = Opened::since(clock::now_ns());
        none.lost.clone_from(&self.lost);
        none
    }

    /// The number of records of closed events that found no room. Rings report lost records only
    /// when there is room again, so these may include some not reported. 0 if the kernel does not
    /// say.
    pub fn closed_lost(&self) -> u64 {
        let lost = self.lost.as_ref();
        lost.map_or(0, |lost| lost.load(Ordering::Relaxed))
    }

    /// Makes a thread report its life, and all threads that it starts. `on`: whether its switches
    /// are reported at once; otherwise when the events are enabled.
    ///
    /// # Errors
    /// Errors of the kernel; `ESRCH`: the thread has ended.
    pub fn tell_life(&self, thread: u32, on: bool) -> io::Result<Opened> {
        let mut all = self.none();
        let mut life = nothing(false);
        life.task(true).comm(true).comm_exec(true);
        life.mmap(true).mmap2(true);
        for cpu in &self.cpus {
            all.push(self.open(&mut life, thread, cpu, &cpu.lives)?);
        }
        if self.switches {
            // Switches are many: they go into the ring of hits, so that they do not wake sbt.
            let mut switches = nothing(false);
            switches.context_switch(true).enabled(on);
            for cpu in &self.cpus {
                all.push(self.open(&mut switches, thread, cpu, &cpu.hits)?);
            }
        }
        Ok(all)
    }

    /// Watches an address of a thread, and of all threads that it starts, on one CPU. `cpu` is an
    /// index, from 0.
    ///
    /// # Errors
    /// Errors of the kernel; `ENOSPC`: no debug register is free.
    pub fn watch(&self, thread: u32, address: u64, cpu: usize, on: bool) -> io::Result<Counter> {
        let cpu = self.cpus.get(cpu).ok_or(io::ErrorKind::InvalidInput)?;
        let mut event = breakpoint(address);
        // The new program has something else at the address.
        event.enabled(on).remove_on_exec(true);
        self.open(&mut event, thread, cpu, &cpu.hits)
    }

    /// How many more addresses of a thread can be watched, for each CPU.
    ///
    /// # Errors
    /// Errors of the kernel; `ESRCH`: the thread has ended.
    pub fn room(&self, thread: u32) -> io::Result<Vec<usize>> {
        // Any address does: these events are never enabled or inherited.
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

    /// Opens an event of the target on one CPU, which writes into the ring `to`.
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

    /// Fails if the event's descriptor is one that is kept for other files.
    fn spare(&self, event: Counter) -> io::Result<Counter> {
        if event.as_raw_fd() > self.last_file {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        Ok(event)
    }

    /// Descriptors that become readable when the rings should be read.
    pub fn descriptors(&self) -> Vec<i32> {
        let rings = self.cpus.iter().flat_map(|cpu| [&cpu.hits, &cpu.lives]);
        rings.map(Ring::descriptor).collect()
    }

    /// Reads all rings. Returns the records, in the order of time, that are certain to come before
    /// all records read later; with `all` every record.
    pub fn take(&mut self, all: bool) -> Vec<Record> {
        let now = clock::now_ns();
        self.read();
        let time = |record: &Record| record.time_ns;
        // A thread has executed a program; or a first thread has ended, which may also mean that it
        // has executed one: see `Watch::goes_on`.
        let is_urgent = |record: &&Record| match record.what {
            ThreadEvent::Named { executed, .. } => executed,
            ThreadEvent::Ended => record.thread == record.process,
            _ => false,
        };
        let mut until = now.saturating_sub(LATE_NS);
        if all {
            until = u64::MAX;
        } else if let Some(last) = self.pending.iter().filter(is_urgent).map(time).max() {
            // An urgent record cannot wait. Rings that were read first may since have got earlier
            // ones.
            self.read();
            until = until.max(last.saturating_add(1));
        }
        // The records of each ring are nearly sorted already; this sort is fast then.
        let pending = &mut self.pending;
        pending.sort_by_key(time);
        let ready = pending.partition_point(|record| record.time_ns < until);
        pending.drain(..ready).collect()
    }

    fn read(&mut self) {
        for cpu in &mut self.cpus {
            for (ring, among_hits) in [(&mut cpu.lives, false), (&mut cpu.hits, true)] {
                ring.each(|record| {
                    let record = Record::parse(record, &self.format, cpu.number);
                    let record = record.map(|record| Record {
                        among_hits,
                        ..record
                    });
                    self.pending.extend(record);
                });
            }
        }
    }
}

/// The highest descriptor that events may have.
fn last_file() -> i32 {
    let most = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(most, _)| most);
    let most = i32::try_from(most).unwrap_or(i32::MAX);
    most - SPARE_FILES.min(most / 4)
}

/// The ring of an event of sbt itself, of `pages` pages. A reader is woken after `wake` bytes.
fn own(cpu: u32, pages: usize, wake: usize) -> io::Result<Ring> {
    let mut event = nothing(false);
    // The event watches sbt's first thread, which lives as long as sbt.
    event.observe_pid(std::process::id().cast_signed());
    event.one_cpu(cpu as usize);
    event.clockid(Clock::MONOTONIC).wakeup_watermark(wake);
    Ring::new(&event, [pages * PAGE])
}

/// How an event is read. `lost`: whether it can tell how many of its records found no room.
fn format_of(lost: bool) -> ReadFormat {
    if lost {
        ReadFormat::LOST
    } else {
        ReadFormat::empty()
    }
}

/// An event that counts nothing, but may report other things. `lost`: see [`format_of`].
fn nothing(lost: bool) -> Builder<'static> {
    let mut event = Builder::new(Software::DUMMY);
    event
        .enabled(true)
        .sample(EACH)
        .read_format(format_of(lost));
    event
}

/// An event for the execution of an address by this thread. Enabled.
pub fn breakpoint(address: u64) -> Builder<'static> {
    let mut event = Builder::new(Breakpoint::execute(address));
    event.enabled(true).sample_period(1).sample(SAMPLE);
    event
        .sample_regs_user(Registers::ALL_IN_SAMPLES)
        .sample_stack_user(STACK);
    event.read_format(ReadFormat::empty());
    event
}
