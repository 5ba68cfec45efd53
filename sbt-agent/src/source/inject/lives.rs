//! When threads begin, end, get a CPU and lose it, and when the program executes another or maps code:
//! from perf events of the threads, where this user may have them; else by looking into /proc now and
//! then, which does not show who has a CPU.

use std::{
    collections::BTreeSet,
    io,
    time::{Duration, Instant},
};

use crate::{
    kernel::counting,
    source::perf::{
        cover,
        events::{Events, Opened},
        record::{Record, ThreadEvent},
    },
};
use sbt_program::{clock, process};

/// How many rounds to look for new threads: those that begin meanwhile have inherited the events.
const ROUNDS: usize = 16;

/// The pause between two looks into /proc.
const LOOKS: Duration = Duration::from_millis(10);

/// The pause between two looks at what is mapped.
const LOOKS_AT_CODE: Duration = Duration::from_millis(250);

/// Tells of the lives of the threads of one process.
pub enum Lives {
    /// The kernel reports.
    Told(Box<(Events, Opened)>),
    /// By looking at /proc now and then, where this user may have no perf events.
    Seen(Looks),
}

impl Lives {
    /// For a process. `switches`: whether to tell when threads get and lose a CPU.
    pub fn of(process: u32, switches: bool) -> Self {
        match told(process, switches) {
            Ok(told) => Self::Told(Box::new(told)),
            Err(_) => Self::Seen(Looks::of(process)),
        }
    }

    /// Whether the times of beginnings and ends are exact.
    pub const fn are_exact(&self) -> bool {
        matches!(self, Self::Told(_))
    }

    /// Whether it is told when threads get and lose a CPU.
    pub fn tell_switches(&self) -> bool {
        match self {
            Self::Told(told) => told.0.has_switches(),
            Self::Seen(_) => false,
        }
    }

    /// What has happened, in the order of time. With `last` everything.
    pub fn take(&mut self, last: bool) -> Vec<Record> {
        match self {
            Self::Told(told) => told.0.take(last),
            Self::Seen(looks) => looks.take(last),
        }
    }

    /// Descriptors that become readable when something has happened.
    pub fn descriptors(&self) -> Vec<i32> {
        match self {
            Self::Told(told) => told.0.descriptors(),
            Self::Seen(_) => Vec::new(),
        }
    }
}

fn told(process: u32, switches: bool) -> io::Result<(Events, Opened)> {
    let events = Events::new(&counting::online(), false, switches)?;
    let mut all = events.none();
    cover::each_thread(process, ROUNDS, |thread, _| {
        all.append(events.tell_life(thread, true)?);
        Ok(true)
    })?;
    Ok((events, all))
}

/// Looks at a process now and then.
pub struct Looks {
    process: u32,
    threads: BTreeSet<u32>,
    last: Instant,
    looked_at_code: Instant,
    mapped: usize,
    program: Option<std::path::PathBuf>,
}

impl Looks {
    fn of(process: u32) -> Self {
        Self {
            process,
            threads: process::thread_ids(process).collect(),
            last: Instant::now(),
            looked_at_code: Instant::now(),
            mapped: process::mappings(process).len(),
            program: program(process),
        }
    }

    fn take(&mut self, last: bool) -> Vec<Record> {
        let mut found = Vec::new();
        if !last && self.last.elapsed() < LOOKS {
            return found;
        }
        self.last = Instant::now();
        let now = clock::now_ns();
        let process = self.process;
        let mut tell = |thread, what| {
            found.push(Record {
                time_ns: now,
                process,
                thread,
                cpu: 0,
                event: 0,
                what,
                among_hits: false,
            });
        };
        let threads: BTreeSet<u32> = process::thread_ids(process).collect();
        for thread in threads.difference(&self.threads) {
            let thread = *thread;
            tell(process, ThreadEvent::Started { process, thread });
        }
        for thread in self.threads.difference(&threads) {
            tell(*thread, ThreadEvent::Ended);
        }
        self.threads = threads;
        let is_new = program(process).filter(|new| self.program.as_ref() != Some(new));
        if let Some(new) = is_new {
            self.program = Some(new);
            let comm = crate::source::ptrace::clocks::told(process, process).comm;
            tell(
                process,
                ThreadEvent::Named {
                    comm,
                    executed: true,
                },
            );
        }
        if self.looked_at_code.elapsed() >= LOOKS_AT_CODE {
            self.looked_at_code = Instant::now();
            let mapped = process::mappings(process).len();
            if mapped != self.mapped {
                self.mapped = mapped;
                tell(process, ThreadEvent::Mapped);
            }
        }
        found
    }
}

/// The path of the program that a process executes.
fn program(process: u32) -> Option<std::path::PathBuf> {
    std::fs::read_link(process::folder(process).join("exe")).ok()
}
