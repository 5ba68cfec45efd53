//! Handles stops of threads: what each means, and how the thread goes on.

use std::{fs, os::unix::fs::MetadataExt as _, time::Instant};

use sbt_common::{Clocks, Cookie, kind};

use super::{
    super::{
        clocks::{now_ns, told},
        standing::Standing,
        stop::{self, News, Stop, StopReason},
    },
    MOST_BYGONE, MOST_PENDING, Slot, Space, TOLD_APART, Traced, Tracer,
};
use crate::{
    kernel::privilege,
    source::twin::{self, Hit, Machine as _, Program},
};
use sbt_engine::place::printable;
use sbt_program::{
    access::rights,
    arch::Registers,
    gain::{self, Credentials},
    process,
    trace::{self, Id},
};

/// The note on a child that was killed at a breakpoint because nobody could trace it.
const UNTRACED: &str = "a process that forbids tracing (clone with CLONE_UNTRACED) has ended with \
    SIGTRAP, probably at one of sbt's breakpoints, which it inherited from its parent; use \
    --backend ebpf or perf";

impl Tracer {
    /// Adds a thread. `born_ns`: when it began, ns; 0 if it existed before.
    pub(super) fn enlist(
        &mut self,
        id: Id,
        (process, space): (u32, Option<u32>),
        born_ns: u64,
        heard: bool,
    ) {
        let tid = id.cast_unsigned();
        let slot = Slot::new((process, tid, space.unwrap_or(0)), born_ns, told);
        let traced = Traced {
            slot,
            space,
            heard,
            ended: false,
            passed: None,
        };
        self.threads.insert(id, traced);
        self.known.tell([process]);
    }

    pub(super) fn hear(&mut self, news: News) {
        match news {
            News::Ended(id) => self.ended(id),
            News::Stopped(stop) => {
                let id = stop.id();
                self.unsettled.remove(&id);
                if let StopReason::Executed(former) = stop.why()
                    && !self.threads.contains_key(&id)
                    && let Some(former) = self.threads.get(&former)
                {
                    // The thread has taken the number of a first thread that had ended.
                    let (process, heard) = (former.slot.process, former.heard);
                    self.enlist(id, (process, None), 0, heard);
                }
                if self.threads.contains_key(&id) {
                    self.stopped(stop);
                } else if stop.why() == StopReason::Ends {
                    // Killed before it began, or while it was let go: resumed here, since nobody
                    // else does.
                    stop.resume();
                } else {
                    stop.keep();
                    self.early.insert(stop.id(), (stop, Instant::now()));
                }
            }
        }
    }

    fn stopped(&mut self, stop: Stop) {
        self.see(&stop);
        match stop.why() {
            StopReason::Signal { trap: true, .. } => self.hit(stop),
            StopReason::Started { new, borrows } => self.started(stop, new, borrows),
            StopReason::Executed(former) => self.executed(stop, former),
            StopReason::Ends => {
                self.tell_end(stop.id());
                self.go_on(stop, true);
            }
            StopReason::Asked | StopReason::Called => self.go_on(stop, true),
            // Single steps are waited for where they are made.
            StopReason::Signal {
                number: libc::SIGCHLD,
                ..
            } => {
                self.hear_of_end(&stop);
                self.go_on(stop, false);
            }
            StopReason::Group | StopReason::Stepped | StopReason::Signal { .. } => {
                self.go_on(stop, false);
            }
        }
    }

    /// A child has ended. If a trap has killed it and it was never reported, it could not be
    /// traced, and had copies of the breakpoints.
    fn hear_of_end(&mut self, of: &Stop) {
        let Some((child, libc::SIGTRAP)) = trace::ended_by_signal(of.id()) else {
            return;
        };
        // In another pid namespace the child's number says nothing.
        let is_known = self.known.may_have(child.cast_unsigned());
        if !is_known && !process::has_other_numbers(of.id().cast_unsigned()) {
            self.note_once(UNTRACED);
        }
    }

    /// Resumes a thread, or lets it go for good. `ours`: its stop concerned sbt alone.
    fn go_on(&mut self, stop: Stop, ours: bool) {
        if self.leaving {
            return self.let_go(stop, ours);
        }
        stop.begin_call_again();
        if ours { stop.resume() } else { stop.pass() }
    }

    pub(super) fn let_go(&mut self, stop: Stop, ours: bool) {
        let id = stop.id();
        // The thread has hit a breakpoint and not reported it yet. Let go now, it would be killed
        // by the signal: it is let go after that stop.
        if matches!(stop.why(), StopReason::Asked | StopReason::Group)
            && self.threads.contains_key(&id)
            && process::has_pending(id.cast_unsigned(), libc::SIGTRAP)
        {
            // Also if its whole process is stopped: the signal comes before that stop.
            return stop.resume();
        }
        let traced = self.threads.remove(&id);
        let space = traced.and_then(|traced| self.spaces.get(&traced.space?));
        if let Ok(mut registers) = stop.registers() {
            let home = space.and_then(|space| space.home(registers.at()));
            let again = stop.interrupts_calls() && registers.begin_again();
            if home.is_some() || again {
                registers.set_at(home.unwrap_or(registers.at()));
                let _gone = stop.set_registers(&registers);
            }
        }
        stop.let_go(ours);
    }

    fn hit(&mut self, stop: Stop) {
        let time_ns = now_ns();
        let id = stop.id();
        let (Some(traced), Ok(mut registers)) = (self.threads.get_mut(&id), stop.registers())
        else {
            // At most a thread of a 32-bit program, which has no breakpoints.
            return self.go_on(stop, false);
        };
        let at = registers.at_breakpoint();
        let Some(space) = traced.space.and_then(|number| self.spaces.get_mut(&number)) else {
            return self.go_on(stop, false);
        };
        let Some(hits) = space.hits(at) else {
            // The program's own `int3`.
            return self.go_on(stop, false);
        };
        registers.set_at(at);
        let (seen, is_told) = space.see(at, &mut traced.passed);
        let mut missing = 0;
        if traced.heard && !hits.is_empty() && !is_told {
            // The registers as they were on the first instruction of the place.
            let mut as_seen = registers;
            as_seen.set_at(seen.at);
            as_seen.set_stack(registers.stack().wrapping_add(seen.moved));
            let now = self.usage.at(traced.slot.process, id, time_ns);
            let before = self.out.bytes.len();
            for hit in &hits {
                let machine = Standing {
                    registers: &as_seen,
                    id,
                    space: Some(space),
                    counters: Some(&self.counters),
                    process: traced.slot.process,
                };
                let mut at = Hit {
                    machine: &machine,
                    slot: &mut traced.slot,
                    now,
                    out: &mut self.out,
                };
                self.programs.run(*hit, &mut at);
                let returns = returns_at(*hit, &as_seen);
                let returns = returns.filter(|_| self.wanted.departures && !self.wanted.paused);
                if let Some(to) = returns.map(|at| machine.word(at)) {
                    // If this fails, only departures are missing.
                    let _unwatched = space.watch_return(to);
                }
                if twin::is_counted(hit.0, hit.1) {
                    missing += space.witness(as_seen.numbered(1));
                }
                if hit.0 == Program::Mapped
                    && let Err(error) = space.refresh(&self.wanted)
                {
                    self.notes.push(format!("cannot set breakpoints: {error}"));
                }
            }
            // Records that nobody reads are dropped.
            if before - self.written > MOST_PENDING {
                twin::each(&self.out.bytes[before..], |_| self.lost += 1);
                self.out.bytes.truncate(before);
                self.programs.walks.repeat();
            }
        }
        let stop = match space.pass(stop, &mut registers, at) {
            Ok(stop) => stop,
            Err((stop, why)) => {
                space.give_up(at, &self.wanted.foreign);
                self.taken_away += 1;
                if self.taken_away <= TOLD_APART {
                    self.notes
                        .push(format!("a breakpoint at {at:#x} had to be removed: {why}"));
                }
                let Some(stop) = stop else { return };
                registers.set_at(at);
                stop
            }
        };
        let _gone = stop.set_registers(&registers);
        if let Some(space) = self.threads.get(&id).and_then(|traced| traced.space) {
            self.lose(space, missing);
        }
        self.go_on(stop, true);
    }

    /// A thread has started another thread or a process. `borrows`: by `vfork`, so that parent and
    /// child mostly share the memory.
    fn started(&mut self, stop: Stop, new: Id, borrows: bool) {
        let time_ns = now_ns();
        let parent = stop.id();
        let tid = new.cast_unsigned();
        if self.released.remove(&new).is_some()
            && process::tracer(tid, tid) != Some(std::process::id())
        {
            return self.go_on(stop, true);
        }
        let Some(traced) = self.threads.get(&parent) else {
            return self.go_on(stop, true);
        };
        let (process, space, heard) = (traced.slot.process, traced.space, traced.heard);
        if !stop::is_ours(new) {
            // The new thread has ended before it was known.
            self.known.tell([tid]);
            return self.go_on(stop, true);
        }
        // A process has the number of its first thread.
        let is_thread = trace::is_thread_of(process, new);
        let its = if is_thread {
            process
        } else {
            new.cast_unsigned()
        };
        if is_thread {
            self.enlist(new, (process, space), time_ns, heard);
            self.counters.begin(new, true);
        } else {
            let shared = shares_memory(parent, new).or_else(|| self.was_to_share(parent, space));
            let shared = shared.unwrap_or(borrows);
            let space = if shared {
                space
            } else {
                space.and_then(|number| self.copy(number, new))
            };
            self.enlist(new, (its, space), time_ns, heard && self.children);
            if heard && self.children {
                self.counters.begin(new, true);
                let now = self.usage.at(process, parent, time_ns);
                if let Some(traced) = self.threads.get(&parent) {
                    twin::tell_mapping(kind::FORK, false, its, &traced.slot, now, &mut self.out);
                }
            }
            if !self.children && !shared {
                self.release_child(new, space);
            }
        }
        if let Some((early, _)) = self.early.remove(&new) {
            self.stopped(early);
        } else if !stop::is_ours(new) {
            // The new thread ended, or was let go, while its first stop was waited for.
            self.ended(new);
        }
        self.go_on(stop, true);
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
        if former != id {
            // The thread now has the number of the first thread, which is gone.
            self.usage.forget(former);
            self.counters.forget(id);
            self.counters.forget(former);
            self.counters.begin(id, false);
        }
        self.forget_unused(id);
        let Some(heard) = self.threads.get(&id).map(|traced| traced.heard) else {
            return self.go_on(stop, true);
        };
        if !heard || self.leaving {
            // The new program's memory has no breakpoints in it.
            return self.let_go(stop, true);
        }
        let is_first = self
            .threads
            .get(&id)
            .is_some_and(|traced| traced.space.is_none());
        // sbt itself has reported the program that it starts.
        if process != self.target || !is_first {
            self.notice_loss(process);
        }
        self.programs.walks.renew();
        let space = Space::of(process).and_then(|mut space| {
            space.refresh(&self.wanted)?;
            if !self.wanted.paused {
                space.begins();
            }
            Ok(space)
        });
        let space = match space {
            Ok(space) => Some(self.keep(space)),
            Err(error) => {
                self.notes.push(format!(
                    "cannot set breakpoints in a newly executed program ({error}): it went on \
                     unwatched; {}",
                    privilege::become_root()
                ));
                None
            }
        };
        let now = self.usage.at(process, id, time_ns);
        if let Some(traced) = self.threads.get_mut(&id) {
            traced.space = space;
            traced.slot.space = space.unwrap_or(0);
            traced.slot.begin_anew();
            // The flag may be that of the first thread, whose number it has taken.
            traced.ended = false;
            let replaced = former != id;
            twin::tell_mapping(kind::EXEC, replaced, 0, &traced.slot, now, &mut self.out);
        }
        self.go_on(stop, true);
    }

    /// Notes that a program has been executed that would have had privileges if it were not traced.
    fn notice_loss(&mut self, process: u32) {
        let namespace = |process: u32| {
            let link = process::folder(process).join("ns/user");
            fs::metadata(link).map(|metadata| metadata.ino()).ok()
        };
        // In another user namespace, files have other owners.
        if rights::may_look_at_all() || namespace(process) != namespace(std::process::id()) {
            return;
        }
        let exe = process::folder(process).join("exe");
        let gain = Credentials::of(process).and_then(|who| gain::of_file(&exe, &who));
        if let Some((gain, path)) = gain.zip(fs::read_link(exe).ok()) {
            self.note_once(&format!(
                "{} ran without the privileges that its file gives, {gain}, since it was traced; \
                 to keep them, {}",
                printable(&path.to_string_lossy()),
                privilege::become_root()
            ));
        }
    }

    /// Forgets memories that no thread uses any more, except perhaps `leaves`, a thread that leaves
    /// its own.
    fn forget_unused(&mut self, leaves: Id) {
        let used: Vec<u32> = self
            .threads
            .iter()
            .filter(|(id, _)| **id != leaves)
            .filter_map(|(_, traced)| traced.space)
            .collect();
        let gone = self
            .spaces
            .extract_if(|number, _| !used.contains(number))
            .map(|(_, space)| space);
        let now = Instant::now();
        self.bygone.extend(gone.map(|space| (now, space)));
        let before = self.bygone.len().saturating_sub(MOST_BYGONE);
        self.bygone.drain(..before);
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
        // The memory may be gone right after this.
        if let Some(number) = traced.space.filter(|_| !self.leaving) {
            let missing = self.spaces.get_mut(&number).map_or(0, Space::missing);
            self.lose(number, missing);
        }
        let Some(traced) = self.threads.get_mut(&id) else {
            return;
        };
        // The end of a child that has used no barrier is not reported.
        if process == self.target || traced.slot.announced {
            let now = self.usage.at(process, id, now_ns());
            let registers = trace::registers(id).unwrap_or_else(|_| Registers::none());
            let machine = Standing {
                registers: &registers,
                id,
                space: traced.space.and_then(|number| self.spaces.get(&number)),
                counters: Some(&self.counters),
                process,
            };
            twin::tell_end(&mut Hit {
                machine: &machine,
                slot: &mut traced.slot,
                now,
                out: &mut self.out,
            });
        }
    }

    fn ended(&mut self, id: Id) {
        self.unsettled.remove(&id);
        self.looks_in_vain(id);
        if let Some((early, _)) = self.early.remove(&id) {
            early.resume();
        }
        self.tell_end(id);
        self.usage.forget(id);
        self.counters.forget(id);
        let Some(traced) = self.threads.remove(&id) else {
            return;
        };
        let process = traced.slot.process;
        let mut others = self.threads.values().map(|other| other.slot.process);
        if others.any(|other| other == process) {
            return;
        }
        self.notice_others();
        self.forget_unused(id);
        if self.children && traced.heard && process != self.target {
            let now = Clocks {
                time_ns: now_ns(),
                ..Clocks::default()
            };
            twin::tell_mapping(kind::END, false, 0, &traced.slot, now, &mut self.out);
        }
    }
}

/// The place on the stack of the address to which the thread returns from the function, if this hit
/// tells it.
fn returns_at((program, cookie): (Program, u64), registers: &Registers) -> Option<u64> {
    match program {
        Program::Arrive => {
            let moved = Cookie::unpack(cookie).stack_moved;
            Some(registers.stack().wrapping_add(moved.into()))
        }
        Program::Leave => Some(registers.stack()),
        _ => None,
    }
}

/// Whether two processes share one memory, as after `vfork`. `None` if the kernel does not tell, as
/// in containers with a filter.
pub(super) fn shares_memory(one: Id, other: Id) -> Option<bool> {
    /// `KCMP_VM` (linux/kcmp.h)
    const VM: i32 = 1;
    // SAFETY: numbers only.
    let result = unsafe { libc::syscall(libc::SYS_kcmp, one, other, VM, 0, 0) };
    (result >= 0).then_some(result == 0)
}
