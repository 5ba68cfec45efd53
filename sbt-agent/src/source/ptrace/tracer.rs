//! The process that traces for sbt: a copy of sbt that does nothing else.
//!
//! A separate process, because breakpoints lie in the target's memory: if sbt itself set them and
//! were killed, the target would die at the next one. This process notices sbt's end, takes all
//! breakpoints out and lets the target go. Signals meant for sbt do not reach it.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, FromRawFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    panic::{self, AssertUnwindSafe},
    time::{Duration, Instant},
};

use anyhow::Context as _;

use self::known::KnownProcesses;
use super::{
    COUNTS, calibrate,
    clocks::Usage,
    counters::Counters,
    space::{Space, Wanted},
    stop::{self, Stop},
    wire::{Answer, Done, Line, Order},
};
use crate::{
    kernel::privilege,
    source::twin::{Programs, Records, Slot},
};
use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, ppoll},
    sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction},
    sys::time::TimeSpec,
};
use sbt_program::{
    launch, process,
    trace::{self, Id},
};

/// The number of bytes of records that may wait for sbt to read them; records beyond that count as
/// lost.
const MOST_PENDING: usize = 8 << 20;

/// The number of removed breakpoints that are noted one by one; others are only counted.
const TOLD_APART: u32 = 3;

/// How long to wait at the end for threads to stop, and for a parent to report a new thread.
const PATIENCE: Duration = Duration::from_secs(2);

/// The number of stops that are served before orders are read.
const AT_ONCE: u32 = 256;

/// The note on a process that no longer lets sbt look into it.
const CLOSED: &str = "a process has forbidden others to read its memory (PR_SET_DUMPABLE): \
    libraries that it loads later are not watched or named; with sudo they are";

/// The note on a child whose parent was killed while forking.
const LOST_CHILD: &str = "a process was killed while it forked: its child went on unwatched";

/// The number of memories without threads that are remembered, each for at most
/// [`FORGOTTEN_AFTER`].
const MOST_BYGONE: usize = 256;

/// By then any forked child has stopped and was let go.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(5);

/// The error where a breakpoint cannot be set.
const REFUSED: &str = "cannot set breakpoints";

/// Options of ptrace: which events stop a thread.
const OPTIONS: i32 = libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT
    | libc::PTRACE_O_TRACESYSGOOD;

mod forked;
mod known;
mod looks;
mod others;
mod seize;
mod stops;

/// A traced thread.
struct Traced {
    slot: Slot,
    /// The number of its memory; `None` before it has executed a program.
    space: Option<u32>,
    /// Whether its events are reported. Not so in a process that is only traced until it has a
    /// memory of its own.
    heard: bool,
    /// Whether its end has been reported.
    ended: bool,
    /// The breakpoint at which it stopped last.
    passed: Option<u64>,
}

struct Tracer {
    /// Pidfd of sbt: unlike pipes, whose ends others may have inherited, it shows that sbt ends.
    sbt: OwnedFd,
    line: Line,
    pipe: File,
    target: u32,
    children: bool,
    wanted: Wanted,
    programs: Programs,
    usage: Usage,
    counters: Counters,
    threads: HashMap<Id, Traced>,
    /// Stopped new threads whose parent has not reported them yet, and since when.
    early: HashMap<Id, (Stop, Instant)>,
    /// New threads that were let go because no parent reported them for too long.
    released: HashMap<Id, Instant>,
    spaces: HashMap<u32, Space>,
    last_space: u32,
    /// Memories without threads, the most recent last. A child whose parent was killed while
    /// forking has a copy of one of them.
    bygone: VecDeque<(Instant, Space)>,
    out: Records,
    /// The number of bytes of `out` that have been written.
    written: usize,
    lost: u64,
    told_lost: u64,
    notes: Vec<String>,
    /// Notes that need not be repeated.
    told: HashSet<String>,
    /// Processes known to the tracer. A SIGTRAP that kills any other child comes from a copied
    /// breakpoint.
    known: KnownProcesses,
    /// Arrivals that no breakpoint reported.
    unseen: u64,
    /// The time at which the tracer last looked for breakpoints and probes of others.
    looked: Instant,
    /// Breakpoints that were removed so that threads could go on.
    taken_away: u32,
    /// Threads that may have begun to fork before they were traced: the child is not traced.
    unsettled: HashSet<Id>,
    /// The look that is under way.
    looking: Option<looks::Look>,
    /// Whether the target is being let go.
    leaving: bool,
    /// Since when the target is being let go.
    left: Option<Instant>,
}

/// Obeys the orders that come through the socket at standard input; writes records to standard
/// output. Returns when all threads are let go. `words`: pid of the parent, pid of the target, and
/// whether there are counters.
///
/// # Errors
/// Started by anybody but sbt, or without the rights it needs.
pub fn run(mut words: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let mut number = || words.next()?.to_str()?.parse().ok();
    let (number, target) = number().zip(number()).context("of sbt's own")?;
    let counts = words.next().is_some_and(|word| word == COUNTS);
    let sbt = launch::pidfd(number)?;
    // If the pid belongs to another process by now, sbt has ended before.
    anyhow::ensure!(
        process::parent(std::process::id()) == Some(number),
        "sbt is gone"
    );
    privilege::limit_to_trace(target, counts)?;
    // SAFETY: the parent has passed these two descriptors on.
    let (socket, pipe) = unsafe { (OwnedFd::from_raw_fd(0), OwnedFd::from_raw_fd(1)) };
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    // Above some limit a larger pipe needs a privilege; the default size has to do then.
    let _as_it_is = fcntl(&pipe, FcntlArg::F_SETPIPE_SZ(1 << 20));
    listen_to_signals()?;
    // Each memory takes a descriptor, and some threads do.
    crate::source::allow_files();
    // Otherwise its name would be that of the link by which it was started.
    let _as_it_is = nix::sys::prctl::set_name(trace::SERVER);
    let mut tracer = Tracer {
        sbt,
        line: Line::new(UnixStream::from(socket))?,
        pipe: File::from(pipe),
        target: 0,
        children: false,
        wanted: Wanted::default(),
        programs: Programs::default(),
        usage: Usage::default(),
        counters: Counters::default(),
        threads: HashMap::new(),
        early: HashMap::new(),
        released: HashMap::new(),
        spaces: HashMap::new(),
        last_space: 0,
        bygone: VecDeque::new(),
        out: Records::default(),
        written: 0,
        lost: 0,
        told_lost: 0,
        notes: Vec::new(),
        told: HashSet::new(),
        known: KnownProcesses::default(),
        unseen: 0,
        looked: Instant::now(),
        taken_away: 0,
        unsettled: HashSet::new(),
        looking: None,
        leaving: false,
        left: None,
    };
    // A bug in sbt must not kill the target.
    let worked = panic::catch_unwind(AssertUnwindSafe(|| tracer.work()));
    worked.unwrap_or_else(|panic| {
        let told = panic.downcast_ref::<String>().map(String::as_str);
        let told = told.or_else(|| panic.downcast_ref::<&str>().copied());
        tracer.notes.push(format!(
            "the tracing process has failed ({}): the program went on unwatched",
            told.unwrap_or("no reason given")
        ));
        tracer.leave();
        tracer.work()
    })
}

/// Lets SIGCHLD, sent at each stop of a thread, interrupt `ppoll`. Ignores other signals.
fn listen_to_signals() -> io::Result<()> {
    extern "C" fn nothing(_: i32) {}
    let ignored = [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGPIPE,
        // A limit of CPU time may be inherited.
        Signal::SIGXCPU,
        Signal::SIGALRM,
        Signal::SIGVTALRM,
        Signal::SIGPROF,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGTSTP,
        Signal::SIGTTIN,
        Signal::SIGTTOU,
    ];
    let set = |signal, handler| {
        let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
        // SAFETY: the handlers do nothing.
        unsafe { sigaction(signal, &action) }
    };
    for signal in ignored {
        set(signal, SigHandler::SigIgn)?;
    }
    set(Signal::SIGCHLD, SigHandler::Handler(nothing))?;
    let child: SigSet = [Signal::SIGCHLD].into_iter().collect();
    child.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    Ok(())
}

impl Tracer {
    fn work(&mut self) -> anyhow::Result<()> {
        loop {
            // Read orders even while stops follow each other without end.
            let mut heard = 0;
            // An error means that no thread is traced.
            while heard < AT_ONCE
                && let Ok(Some(news)) = stop::next()
            {
                self.hear(news);
                heard += 1;
            }
            if heard < AT_ONCE {
                self.release_lost();
                self.spaces.values_mut().for_each(Space::has_heard_all);
            }
            self.look_for_others();
            self.write();
            // A thread that does not stop, as one that waits for a `vfork` child, is released by
            // the kernel when this process ends.
            let is_late = self.left.is_some_and(|since| since.elapsed() > PATIENCE);
            if self.leaving && (self.threads.is_empty() || is_late) {
                self.release_orphans();
                return self.end();
            }
            let mut polls = vec![
                PollFd::new(self.line.socket().as_fd(), PollFlags::POLLIN),
                PollFd::new(self.sbt.as_fd(), PollFlags::POLLIN),
            ];
            if self.leaving {
                // No order comes any more.
                polls.clear();
            }
            if self.written < self.out.bytes.len() {
                polls.push(PollFd::new(self.pipe.as_fd(), PollFlags::POLLOUT));
            }
            // A stop interrupts the wait, as does input to read or room to write.
            let timeout = match self.left {
                _ if heard == AT_ONCE => Some(TimeSpec::new(0, 0)),
                None if self.early.is_empty() && self.spaces.is_empty() => None,
                None if self.early.is_empty() => Some(TimeSpec::from_duration(self.look_every())),
                _ => Some(TimeSpec::from_duration(PATIENCE)),
            };
            let _woken = ppoll(&mut polls, timeout, Some(SigSet::empty()));
            let is_ready =
                |poll: &PollFd<'_>| poll.revents().is_some_and(|events| !events.is_empty());
            let [ordered, gone] = match &polls[..] {
                [line, sbt, ..] if !self.leaving => [is_ready(line), is_ready(sbt)],
                _ => [false; 2],
            };
            if gone {
                self.leave();
            } else if ordered {
                let order = self.line.hear::<Order>().unwrap_or_else(|error| {
                    self.notes.push(format!(
                        "the tracing process did not understand an order: {error}"
                    ));
                    None
                });
                self.obey(order);
            }
        }
    }

    fn obey(&mut self, order: Option<Order>) {
        let Some(order) = order else {
            // sbt is gone.
            return self.leave();
        };
        let mut done = Done::default();
        let result = match order {
            Order::Seize {
                pid,
                runs,
                children,
                departures,
                counters,
            } => {
                if self.target == 0 {
                    self.target = pid;
                    self.children = children;
                    self.wanted.departures = departures;
                    self.wanted.condvars = true;
                    self.counters = Counters::new(counters);
                    done.hit_ns = calibrate::hit_ns().ok();
                    #[cfg(debug_assertions)]
                    trace::fault::arm();
                }
                self.seize(pid, runs)
            }
            Order::Watch { files, ways } => {
                self.wanted.files.extend(files);
                self.programs.kmp = ways.into_iter().map(|way| way.0).collect();
                self.refresh()
            }
            Order::Learn(lessons) => {
                let lessons = lessons.into_iter();
                let rules = lessons.map(|(code, rule)| (code.0, rule.map(|rule| rule.0)));
                self.programs.walks.learn(rules);
                Ok(())
            }
            Order::Departures(on) => {
                self.wanted.departures = on;
                self.refresh()
            }
            Order::Condvars(on) => {
                self.wanted.condvars = on;
                self.refresh()
            }
            Order::Count(plan) => {
                self.counters.choose(plan);
                Ok(())
            }
            Order::Look(thread) => {
                done.stood = Some(self.look(thread));
                Ok(())
            }
            Order::Pause => {
                self.look_for_missing();
                self.wanted.paused = true;
                self.refresh()
            }
            Order::Resume => {
                self.wanted.paused = false;
                self.spaces.values_mut().for_each(Space::forget_witnesses);
                for traced in self.threads.values_mut() {
                    traced.slot.begin_anew();
                }
                self.refresh()
            }
            Order::Detach => return self.leave(),
        };
        self.notice_others();
        // Nobody reads the notes of a look.
        if done.stood.is_none() {
            done.notes = std::mem::take(&mut self.notes);
        }
        let answer: Answer = result.map(|()| done).map_err(|error| format!("{error:#}"));
        if self.line.say(&answer).is_err() {
            // sbt is gone.
            self.leave();
        }
    }

    fn keep(&mut self, space: Space) -> u32 {
        self.last_space += 1;
        self.spaces.insert(self.last_space, space);
        self.last_space
    }

    /// Puts breakpoints where they belong now.
    fn refresh(&mut self) -> anyhow::Result<()> {
        self.programs.walks.renew();
        for space in self.spaces.values_mut() {
            space.refresh(&self.wanted).context(REFUSED)?;
        }
        Ok(())
    }

    /// Writes as many bytes as the pipe takes.
    fn write(&mut self) {
        if self.lost != self.told_lost {
            self.told_lost = self.lost;
            self.out.bytes.extend(8_u16.to_ne_bytes());
            self.out.bytes.extend(self.lost.to_ne_bytes());
        }
        while self.written < self.out.bytes.len() {
            match self.pipe.write(&self.out.bytes[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The reader is gone.
                Err(_) => {
                    self.written = self.out.bytes.len();
                }
            }
        }
        self.out.bytes.drain(..self.written);
        self.written = 0;
    }

    /// Begins to let all threads go.
    fn leave(&mut self) {
        self.look_for_missing();
        self.leaving = true;
        self.usage.close();
        self.left.get_or_insert_with(Instant::now);
        for space in self.spaces.values_mut() {
            // Fails only if no thread is left.
            let _gone = space.clean(&self.wanted.foreign);
        }
        self.notice_others();
        let gone: Vec<Id> = self
            .threads
            .keys()
            .copied()
            .filter(|id| {
                let is_over = trace::interrupt(*id).is_err();
                // A first thread stays as a zombie as long as others run.
                let process = self.threads.get(id).map_or(0, |traced| traced.slot.process);
                is_over || process::thread_has_ended(process, id.cast_unsigned())
            })
            .collect();
        for id in gone {
            // At most a zombie, for which nobody has waited.
            self.threads.remove(&id);
        }
    }

    /// Ends, after writing all records: answers with the last notes.
    fn end(&mut self) -> anyhow::Result<()> {
        fcntl(&self.pipe, FcntlArg::F_SETFL(OFlag::empty()))?;
        self.write();
        if let Some(more @ 1..) = self.taken_away.checked_sub(TOLD_APART) {
            self.notes.push(format!(
                "{more} more breakpoints had to be removed, for the same reasons"
            ));
        }
        self.note_unseen();
        let done = Done {
            notes: std::mem::take(&mut self.notes),
            ..Done::default()
        };
        // If sbt is gone nobody reads the answer.
        let _unheard = self.line.say(&Answer::Ok(done));
        Ok(())
    }
}
