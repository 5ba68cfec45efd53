//! The process that traces for sbt: a copy of it that does nothing else.
//!
//! It is one of its own because breakpoints lie in the target's memory: were they sbt's
//! own, the target would die of the next one when sbt is killed. This process notices that
//! instead, takes them all away and lets the target go. Signals that are meant for sbt do
//! not reach it.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, FromRawFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    panic::{self, AssertUnwindSafe},
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, ppoll},
    sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction},
    sys::time::TimeSpec,
};
use sbt_common::kind;

use super::{
    calibrate,
    clocks::{Usage, now_ns, told},
    space::{Space, Standing, Wanted},
    stop::{self, News, Stop, Why},
    wire::{Answer, Done, Line, Order},
};
use crate::{
    session::privilege,
    source::hits::{self, Machine as _, Program, Programs, Records, Slot},
    target::{
        launch, process,
        trace::{self, Id, Registers},
    },
};

/// Bytes of records that wait for sbt to read them; what is more is counted as lost.
const MOST_PENDING: usize = 8 << 20;

/// Stops that are served before orders are looked for.
const AT_ONCE: u32 = 256;

/// What the kernel is to tell of.
const OPTIONS: i32 = libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT;

/// A thread that is traced.
struct Traced {
    slot: Slot,
    /// In whose memory it runs; `None` before it has executed a program.
    space: Option<u32>,
    /// Told of: not so in a process that nobody wants to hear of, which is only traced until
    /// it has a memory of its own.
    heard: bool,
    /// Its end has been told.
    ended: bool,
}

struct Tracer {
    /// sbt, which may leave copies of its descriptors behind in others.
    sbt: OwnedFd,
    line: Line,
    pipe: File,
    target: u32,
    children: bool,
    wanted: Wanted,
    programs: Programs,
    usage: Usage,
    threads: HashMap<Id, Traced>,
    /// Those of which nobody has said who started them.
    early: HashMap<Id, Stop>,
    spaces: HashMap<u32, Space>,
    last_space: u32,
    out: Records,
    /// How many bytes of it have been written.
    written: usize,
    lost: u64,
    told_lost: u64,
    notes: Vec<String>,
    /// The target is being let go; what is to be said afterwards.
    leaving: bool,
}

/// Traces as it is told by the socket that is its standard input; records go to its standard
/// output. Returns when all are let go. `sbt`: who has started us.
pub fn run(sbt: u32) -> anyhow::Result<()> {
    let number = sbt;
    let sbt = launch::pidfd(number)?;
    // Was it another one of that number, sbt has gone before.
    anyhow::ensure!(
        process::parent(std::process::id()) == Some(number),
        "sbt is gone"
    );
    privilege::limit()?;
    // SAFETY: whoever has started us has given us these.
    let (socket, pipe) = unsafe { (OwnedFd::from_raw_fd(0), OwnedFd::from_raw_fd(1)) };
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    // Larger ones need a privilege beyond some limit.
    let _as_it_is = fcntl(&pipe, FcntlArg::F_SETPIPE_SZ(1 << 20));
    listen_to_signals()?;
    // Else it would be called as the link by which it was started.
    let _as_it_is = nix::sys::prctl::set_name(c"sbt-trace");
    let mut tracer = Tracer {
        sbt,
        line: Line::new(UnixStream::from(socket))?,
        pipe: File::from(pipe),
        target: 0,
        children: false,
        wanted: Wanted::default(),
        programs: Programs::default(),
        usage: Usage::default(),
        threads: HashMap::new(),
        early: HashMap::new(),
        spaces: HashMap::new(),
        last_space: 0,
        out: Records::default(),
        written: 0,
        lost: 0,
        told_lost: 0,
        notes: Vec::new(),
        leaving: false,
    };
    // A mistake of ours must not be the target's end.
    let worked = panic::catch_unwind(AssertUnwindSafe(|| tracer.work()));
    worked.unwrap_or_else(|_panic| {
        tracer.leave();
        tracer.work()
    })
}

/// Stops of threads interrupt a sleep, and nothing else does.
fn listen_to_signals() -> io::Result<()> {
    extern "C" fn nothing(_: i32) {}
    let ignored = [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGPIPE,
        Signal::SIGTSTP,
        Signal::SIGTTIN,
        Signal::SIGTTOU,
    ];
    let set = |signal, handler| {
        let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
        // SAFETY: handlers that do nothing.
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
            // Orders are heard too while stops follow each other without end.
            let mut heard = 0;
            // An error: none is left to be traced, or none yet.
            while heard < AT_ONCE
                && let Ok(Some(news)) = stop::next()
            {
                self.hear(news);
                heard += 1;
            }
            self.write();
            if self.leaving && self.threads.is_empty() {
                self.release_orphans();
                return self.end();
            }
            let mut polls = vec![
                PollFd::new(self.line.socket().as_fd(), PollFlags::POLLIN),
                PollFd::new(self.sbt.as_fd(), PollFlags::POLLIN),
            ];
            if self.leaving {
                // Nothing more will be said.
                polls.clear();
            }
            if self.written < self.out.bytes.len() {
                polls.push(PollFd::new(self.pipe.as_fd(), PollFlags::POLLOUT));
            }
            // Interrupted by a stop, or else there is something to hear or room to write.
            let timeout = (heard == AT_ONCE).then(|| TimeSpec::new(0, 0));
            let _woken = ppoll(&mut polls, timeout, Some(SigSet::empty()));
            let is_ready = |poll: &PollFd<'_>| poll.revents().is_some_and(|it| !it.is_empty());
            let [ordered, gone] = match &polls[..] {
                [line, sbt, ..] if !self.leaving => [is_ready(line), is_ready(sbt)],
                _ => [false; 2],
            };
            if gone {
                self.leave();
            } else if ordered {
                let order = self.line.hear::<Order>().unwrap_or(None);
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
            } => {
                if self.target == 0 {
                    self.target = pid;
                    self.children = children;
                    self.wanted.departures = departures;
                    self.wanted.condvars = true;
                    done.hit_ns = calibrate::hit_ns().ok();
                }
                self.seize(pid, runs)
            }
            Order::Watch { files, ways } => {
                self.wanted.files.extend(files);
                self.programs.kmp = ways.iter().map(Into::into).collect();
                self.refresh()
            }
            Order::Learn(lessons) => {
                let lessons = lessons.iter().filter_map(super::wire::Lesson::read);
                self.programs.walks.learn(lessons);
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
            Order::Pause => {
                self.wanted.paused = true;
                self.refresh()
            }
            Order::Resume => {
                self.wanted.paused = false;
                for traced in self.threads.values_mut() {
                    traced.slot.begin_anew();
                }
                self.refresh()
            }
            Order::Detach => return self.leave(),
        };
        done.notes = std::mem::take(&mut self.notes);
        let answer: Answer = result.map(|()| done).map_err(|error| format!("{error:#}"));
        if self.line.say(&answer).is_err() {
            // sbt is gone.
            self.leave();
        }
    }

    fn seize(&mut self, pid: u32, runs: bool) -> anyhow::Result<()> {
        let space = if runs {
            Some(self.keep(Space::of(pid)?))
        } else {
            None
        };
        // Those that begin meanwhile are traced by themselves, if they who start them are.
        loop {
            let mut some = false;
            for tid in process::thread_ids(pid) {
                let id = Id::try_from(tid)?;
                if self.threads.contains_key(&id) {
                    continue;
                }
                match trace::seize(id, OPTIONS) {
                    Ok(()) => {
                        some = true;
                        self.enlist(id, (pid, space), 0, true);
                    }
                    // It has ended, maybe before the others of its process.
                    Err(_) if !process::has_thread(pid, tid) => {}
                    // It has begun meanwhile, and is traced already.
                    Err(_) if self.early.contains_key(&id) || some => {
                        while let Ok(Some(news)) = stop::next() {
                            self.hear(news);
                        }
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            if !some {
                return Ok(());
            }
        }
    }

    fn keep(&mut self, space: Space) -> u32 {
        self.last_space += 1;
        self.spaces.insert(self.last_space, space);
        self.last_space
    }

    fn enlist(&mut self, id: Id, (process, space): (u32, Option<u32>), born_ns: u64, heard: bool) {
        let tid = id.cast_unsigned();
        let slot = Slot::new((process, tid, space.unwrap_or(0)), born_ns, told);
        let traced = Traced {
            slot,
            space,
            heard,
            ended: false,
        };
        self.threads.insert(id, traced);
    }

    /// Puts breakpoints where they belong now.
    fn refresh(&mut self) -> anyhow::Result<()> {
        self.programs.walks.renew();
        for space in self.spaces.values_mut() {
            space
                .refresh(&self.wanted)
                .map_err(|error| anyhow::anyhow!("cannot set breakpoints: {error}"))?;
        }
        Ok(())
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Ended(id) => self.ended(id),
            News::Stopped(stop) => {
                let id = stop.id();
                if let Why::Executed(former) = stop.why()
                    && !self.threads.contains_key(&id)
                    && let Some(former) = self.threads.get(&former)
                {
                    // It has taken the place of a first thread that had ended.
                    let (process, heard) = (former.slot.process, former.heard);
                    self.enlist(id, (process, None), 0, heard);
                }
                if self.threads.contains_key(&id) {
                    self.stopped(stop);
                } else {
                    self.early.insert(stop.id(), stop);
                }
            }
        }
    }

    fn stopped(&mut self, stop: Stop) {
        match stop.why() {
            Why::Signal { trap: true, .. } => self.hit(stop),
            Why::Started(new) => self.started(stop, new),
            Why::Executed(former) => self.executed(stop, former),
            Why::Ends => {
                self.tell_end(stop.id());
                self.go_on(stop, true);
            }
            Why::Asked | Why::Stepped => self.go_on(stop, true),
            Why::Group | Why::Signal { .. } => self.go_on(stop, false),
        }
    }

    /// Lets a thread go on, or go for good. `ours`: what it was stopped by was for us alone.
    fn go_on(&mut self, stop: Stop, ours: bool) {
        if !self.leaving {
            return if ours { stop.resume() } else { stop.pass() };
        }
        self.let_go(stop, ours);
    }

    fn let_go(&mut self, stop: Stop, ours: bool) {
        let id = stop.id();
        let traced = self.threads.remove(&id);
        let space = traced.and_then(|traced| self.spaces.get(&traced.space?));
        if let (Some(space), Ok(mut registers)) = (space, stop.registers())
            && let Some(rip) = space.home(registers.rip)
        {
            registers.rip = rip;
            let _gone = stop.set_registers(&registers);
        }
        stop.let_go(ours);
    }

    fn hit(&mut self, stop: Stop) {
        let time_ns = now_ns();
        let id = stop.id();
        let (Some(traced), Ok(mut registers)) = (self.threads.get_mut(&id), stop.registers())
        else {
            // Of a 32-bit program, at most: nothing of ours.
            return self.go_on(stop, false);
        };
        let at = registers.rip.wrapping_sub(1);
        let Some(space) = traced.space.and_then(|number| self.spaces.get_mut(&number)) else {
            return self.go_on(stop, false);
        };
        let Some(hits) = space.hits(at) else {
            // The program's own.
            return self.go_on(stop, false);
        };
        registers.rip = at;
        if traced.heard && !hits.is_empty() {
            let now = self.usage.at(traced.slot.process, id, time_ns);
            let before = self.out.bytes.len();
            for hit in &hits {
                let machine = Standing {
                    registers: &registers,
                    id,
                    space: Some(space),
                };
                let slot = &mut traced.slot;
                self.programs.run(*hit, &machine, slot, now, &mut self.out);
                let returns = returns_at(*hit, &registers);
                let returns = returns.filter(|_| self.wanted.departures && !self.wanted.paused);
                if let Some(to) = returns.map(|at| machine.word(at)) {
                    // Only departures would be missing.
                    let _unwatched = space.watch_return(to);
                }
                if hit.0 == Program::Mapped
                    && let Err(error) = space.refresh(&self.wanted)
                {
                    self.notes.push(format!("cannot set breakpoints: {error}"));
                }
            }
            // What nobody reads is not kept for ever.
            if before - self.written > MOST_PENDING {
                hits::each(&self.out.bytes[before..], |_| self.lost += 1);
                self.out.bytes.truncate(before);
                self.programs.walks.repeat();
            }
        }
        let stop = match space.pass(stop, &mut registers, at) {
            Ok(stop) => stop,
            Err((stop, why)) => {
                space.give_up(at);
                self.notes.push(format!(
                    "a breakpoint at {at:#x} had to be taken away: {why}"
                ));
                let Some(stop) = stop else { return };
                registers.rip = at;
                stop
            }
        };
        let _gone = stop.set_registers(&registers);
        self.go_on(stop, true);
    }

    /// A thread has started another one, or a process.
    fn started(&mut self, stop: Stop, new: Id) {
        let time_ns = now_ns();
        let parent = stop.id();
        let Some(traced) = self.threads.get(&parent) else {
            return self.go_on(stop, true);
        };
        let (process, space, heard) = (traced.slot.process, traced.space, traced.heard);
        // One that has ended at once is a thread or a process that nobody will miss.
        let its = process::of_thread(new.cast_unsigned()).unwrap_or(process);
        if its == process {
            self.enlist(new, (process, space), time_ns, heard);
        } else {
            let shared = shares_memory(parent, new);
            let space = if shared {
                space
            } else {
                let copy = space
                    .and_then(|number| self.spaces.get(&number))
                    .and_then(|space| space.copied(its).ok());
                copy.map(|copy| self.keep(copy))
            };
            self.enlist(new, (its, space), time_ns, heard && self.children);
            if heard && self.children {
                let now = self.usage.at(process, parent, time_ns);
                if let Some(traced) = self.threads.get(&parent) {
                    hits::tell_mapping(kind::FORK, false, its, &traced.slot, now, &mut self.out);
                }
            }
            if !self.children && !shared {
                self.release_child(new, space);
            }
        }
        if let Some(early) = self.early.remove(&new) {
            self.stopped(early);
        }
        self.go_on(stop, true);
    }

    /// A process that nobody wants to hear of has a memory of its own, with our breakpoints.
    fn release_child(&mut self, id: Id, space: Option<u32>) {
        if let Some(space) = space.and_then(|number| self.spaces.get_mut(&number)) {
            let _gone = space.clean();
        }
        // It has not begun: it is about to stop for us, if it has not.
        let stop = self.early.remove(&id).map_or_else(
            || match stop::wait_for(id) {
                Ok(News::Stopped(stop)) => Some(stop),
                _ => None,
            },
            Some,
        );
        match stop {
            Some(stop) => {
                let ours = stop.why() == Why::Asked;
                self.let_go(stop, ours);
            }
            None => drop(self.threads.remove(&id)),
        }
        if let Some(number) = space {
            self.spaces.remove(&number);
        }
    }

    fn executed(&mut self, stop: Stop, former: Id) {
        let time_ns = now_ns();
        let id = stop.id();
        let Some(process) = self.threads.get(&id).map(|traced| traced.slot.process) else {
            return self.go_on(stop, true);
        };
        self.threads
            .retain(|other, traced| *other == id || traced.slot.process != process);
        self.usage.forget(id);
        self.forget_unused(id);
        let Some(heard) = self.threads.get(&id).map(|traced| traced.heard) else {
            return self.go_on(stop, true);
        };
        if !heard {
            // Nothing of ours is left in it.
            return self.let_go(stop, true);
        }
        self.programs.walks.renew();
        let space = Space::of(process).and_then(|mut space| {
            space.refresh(&self.wanted)?;
            Ok(space)
        });
        let space = match space {
            Ok(space) => Some(self.keep(space)),
            Err(error) => {
                self.notes.push(format!(
                    "cannot set breakpoints in a program that was executed: {error}"
                ));
                None
            }
        };
        let now = self.usage.at(process, id, time_ns);
        if let Some(traced) = self.threads.get_mut(&id) {
            traced.space = space;
            traced.slot.space = space.unwrap_or(0);
            traced.slot.begin_anew();
            let replaced = former != id;
            hits::tell_mapping(kind::EXEC, replaced, 0, &traced.slot, now, &mut self.out);
        }
        self.go_on(stop, true);
    }

    /// Forgets memories in which nobody runs any more but, maybe, a thread that leaves its own.
    fn forget_unused(&mut self, leaves: Id) {
        let used: Vec<u32> = self
            .threads
            .iter()
            .filter(|(id, _)| **id != leaves)
            .filter_map(|(_, traced)| traced.space)
            .collect();
        self.spaces.retain(|number, _| used.contains(number));
    }

    fn tell_end(&mut self, id: Id) {
        let Some(traced) = self.threads.get_mut(&id) else {
            return;
        };
        if traced.ended || !traced.heard {
            return;
        }
        traced.ended = true;
        let process = traced.slot.process;
        // A child that has used no barrier is nobody's concern.
        if process == self.target || traced.slot.announced {
            let now = self.usage.at(process, id, now_ns());
            let registers = trace::registers(id).unwrap_or_else(|_| trace::no_registers());
            let machine = Standing {
                registers: &registers,
                id,
                space: None,
            };
            hits::tell_end(&machine, &mut traced.slot, now, &mut self.out);
        }
    }

    fn ended(&mut self, id: Id) {
        if let Some(early) = self.early.remove(&id) {
            early.resume();
        }
        self.tell_end(id);
        self.usage.forget(id);
        let Some(traced) = self.threads.remove(&id) else {
            return;
        };
        let process = traced.slot.process;
        let mut others = self.threads.values().map(|other| other.slot.process);
        if others.any(|other| other == process) {
            return;
        }
        self.forget_unused(id);
        if self.children && traced.heard && process != self.target {
            let now = sbt_common::Clocks {
                time_ns: now_ns(),
                ..sbt_common::Clocks::default()
            };
            hits::tell_mapping(kind::END, false, 0, &traced.slot, now, &mut self.out);
        }
    }

    /// Writes what there is room for.
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
                // Nobody reads any more.
                Err(_) => {
                    self.written = self.out.bytes.len();
                }
            }
        }
        self.out.bytes.drain(..self.written);
        self.written = 0;
    }

    /// Begins to let all go.
    fn leave(&mut self) {
        self.leaving = true;
        for space in self.spaces.values_mut() {
            // Where that fails nobody is left.
            let _gone = space.clean();
        }
        let gone: Vec<Id> = self
            .threads
            .keys()
            .copied()
            .filter(|id| trace::interrupt(*id).is_err())
            .collect();
        for id in gone {
            // A zombie that nobody has waited for, at most.
            self.threads.remove(&id);
        }
    }

    /// Lets those go of which nobody will say any more who has started them.
    fn release_orphans(&mut self) {
        for (id, stop) in std::mem::take(&mut self.early) {
            // A process may have a copy of a memory with our breakpoints in it.
            let process = process::of_thread(id.cast_unsigned());
            for space in self.spaces.values() {
                let copy = process.and_then(|process| space.copied(process).ok());
                let _gone = copy.map(|mut copy| copy.clean());
            }
            let ours = stop.why() == Why::Asked;
            stop.let_go(ours);
        }
    }

    /// All are gone: says so, after everything that happened.
    fn end(&mut self) -> anyhow::Result<()> {
        fcntl(&self.pipe, FcntlArg::F_SETFL(OFlag::empty()))?;
        self.write();
        let done = Done {
            notes: std::mem::take(&mut self.notes),
            hit_ns: None,
        };
        // Nobody listens if sbt is gone.
        let _unheard = self.line.say(&Answer::Ok(done));
        Ok(())
    }
}

/// Where on the stack the address lies to which a thread returns when it leaves, if the hit
/// tells that.
fn returns_at((program, cookie): (Program, u64), registers: &Registers) -> Option<u64> {
    match program {
        Program::Arrive => {
            let moved = sbt_common::Cookie::unpack(cookie).stack_moved;
            Some(registers.rsp.wrapping_add(moved.into()))
        }
        Program::Leave => Some(registers.rsp),
        _ => None,
    }
}

/// Whether two processes have one memory: a `vfork` does that.
fn shares_memory(one: Id, other: Id) -> bool {
    /// `KCMP_VM` (linux/kcmp.h)
    const VM: i32 = 1;
    // SAFETY: numbers only.
    let result = unsafe { libc::syscall(libc::SYS_kcmp, one, other, VM, 0, 0) };
    result == 0
}
