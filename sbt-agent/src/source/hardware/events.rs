//! The kernel's side: events of threads, and the rings that it writes what happens into.
//!
//! Each thread has an event for each address and CPU, and one more for each CPU that tells of
//! its life. Threads that begin later inherit them all; the kernel maps an inherited event only
//! if it is one CPU's. All that is told on a CPU goes into two rings there, which belong to
//! events of sbt's own: one for hits, and one for lives, of which each record wakes sbt, since
//! a program that was executed is to be watched soon.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd},
};

use aya_obj::generated::{perf_event_attr, perf_type_id};

use super::record::{EACH, REGISTERS, Record, SAMPLE, STACK, What};
use crate::{
    clock,
    source::perf::{self, Ring},
};

/// `PERF_COUNT_SW_DUMMY`: nothing is counted.
const DUMMY: u64 = 9;

/// `HW_BREAKPOINT_X`.
const EXECUTE: u32 = 4;

/// Pages of a ring of hits: some 800 hits a MiB. The first is taken that an ordinary user may
/// lock on each CPU: half a MiB and a part of `ulimit -l` (`perf_event_open(2)`).
const HIT_PAGES: [usize; 7] = [512, 256, 128, 64, 32, 16, 8];

/// Pages of a ring of lives.
const LIFE_PAGES: usize = 32;

/// A record may be stamped so long before it can be read, ns: who writes it cannot be
/// interrupted by other threads.
const LATE_NS: u64 = 1_000_000;

/// The rings of all CPUs, and what opens the events that write there.
#[derive(Debug)]
pub struct Events {
    cpus: Vec<Cpu>,
    children: bool,
    switches: bool,
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
        for pages in HIT_PAGES {
            let cpu = |number: &u32| {
                Ok(Cpu {
                    number: *number,
                    hits: own(*number, pages, pages * 1024)?,
                    lives: own(*number, LIFE_PAGES, 1)?,
                })
            };
            match cpus.iter().map(cpu).collect::<io::Result<Vec<_>>>() {
                Ok(all) if !all.is_empty() => {
                    return Ok(Self {
                        cpus: all,
                        children,
                        switches,
                        pending: Vec::new(),
                    });
                }
                Ok(_) => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Has a thread tell of its life, and those that it starts.
    ///
    /// # Errors
    /// The kernel's; `ESRCH`: it has ended.
    pub fn tell_life(&self, thread: u32) -> io::Result<Vec<OwnedFd>> {
        let mut attr = self.attr()?;
        attr.type_ = perf::SOFTWARE;
        attr.config = DUMMY;
        attr.sample_type = EACH;
        attr.set_task(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_mmap(1);
        attr.set_mmap2(1);
        let lives = self.open(&attr, thread, |cpu| &cpu.lives)?;
        if !self.switches {
            return Ok(lives);
        }
        // These are many: they wake nobody.
        let mut attr = self.attr()?;
        attr.type_ = perf::SOFTWARE;
        attr.config = DUMMY;
        attr.sample_type = EACH;
        attr.set_context_switch(1);
        let mut all = self.open(&attr, thread, |cpu| &cpu.hits)?;
        all.extend(lives);
        Ok(all)
    }

    /// Watches an address of a thread, and of those that it starts.
    ///
    /// # Errors
    /// The kernel's; `ENOSPC`: as many are watched as can be.
    pub fn watch(&self, thread: u32, address: u64, on: bool) -> io::Result<Vec<OwnedFd>> {
        let mut attr = self.attr()?;
        breakpoint(&mut attr, address);
        attr.set_disabled(u64::from(!on));
        // Something else lies there then.
        attr.set_remove_on_exec(1);
        self.open(&attr, thread, |cpu| &cpu.hits)
    }

    fn attr(&self) -> io::Result<perf_event_attr> {
        let mut attr = perf::attr()?;
        attr.set_exclude_kernel(1);
        attr.set_exclude_hv(1);
        attr.set_inherit(1);
        attr.set_inherit_thread(u64::from(!self.children));
        attr.set_sample_id_all(1);
        attr.set_use_clockid(1);
        attr.clockid = libc::CLOCK_MONOTONIC;
        Ok(attr)
    }

    fn open<'a>(
        &'a self,
        attr: &perf_event_attr,
        thread: u32,
        ring: impl Fn(&'a Cpu) -> &'a Ring,
    ) -> io::Result<Vec<OwnedFd>> {
        let open = |cpu: &'a Cpu| {
            let event = perf::open_at(attr, thread, cpu.number)?;
            let to = ring(cpu).event().as_raw_fd();
            perf::control(&event, perf::SET_OUTPUT, to)?;
            Ok(event)
        };
        self.cpus.iter().map(open).collect()
    }

    /// What becomes readable when it is time to look.
    pub fn descriptors(&self) -> Vec<i32> {
        let rings = self.cpus.iter().flat_map(|cpu| [&cpu.hits, &cpu.lives]);
        rings.map(|ring| ring.event().as_raw_fd()).collect()
    }

    /// Reads all rings; what is certain to come before all that is read later, in the order
    /// of time. `last`: everything; and so if a program was executed, which cannot wait.
    pub fn take(&mut self, last: bool) -> Vec<Record> {
        let now = clock::now_ns();
        let pending = &mut self.pending;
        for cpu in &mut self.cpus {
            for ring in [&mut cpu.lives, &mut cpu.hits] {
                ring.each(|head, body| {
                    pending.extend(Record::parse(head, body, cpu.number));
                });
            }
        }
        let is_urgent = |record: &Record| matches!(record.what, What::Named { executed: true, .. });
        let until = if last || pending.iter().any(is_urgent) {
            u64::MAX
        } else {
            now.saturating_sub(LATE_NS)
        };
        // What comes of each ring is nearly sorted already, which this sort makes use of.
        pending.sort_by_key(|record| record.time_ns);
        let ready = pending.partition_point(|record| record.time_ns < until);
        pending.drain(..ready).collect()
    }
}

/// A ring of an event of our own, of so many pages; a reader is woken after so many bytes.
fn own(cpu: u32, pages: usize, wake: usize) -> io::Result<Ring> {
    let mut attr = perf::attr()?;
    attr.type_ = perf::SOFTWARE;
    attr.config = DUMMY;
    attr.sample_type = EACH;
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = u32::try_from(wake).unwrap_or(1);
    // Of the first thread, which lives as long as sbt.
    Ring::new(perf::open_at(&attr, std::process::id(), cpu)?, [pages])
}

/// Makes an event one of an address that is executed.
pub fn breakpoint(attr: &mut perf_event_attr, address: u64) {
    attr.type_ = perf_type_id::PERF_TYPE_BREAKPOINT as u32;
    attr.__bindgen_anon_1.sample_period = 1;
    attr.bp_type = EXECUTE;
    attr.__bindgen_anon_3.bp_addr = address;
    attr.__bindgen_anon_4.bp_len = size_of::<libc::c_long>() as u64;
    attr.sample_type = SAMPLE;
    attr.sample_regs_user = REGISTERS;
    attr.sample_stack_user = STACK;
}
