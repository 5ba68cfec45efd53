//! The events that change the watch, and the changes of its probes.

use std::time::{Duration, Instant};

use super::{super::understanding::Understanding, Notes, Watch};
use crate::source::{Source, abilities::Scope};
use sbt_engine::event::Event;
use sbt_program::{clock, process};

/// The changes to the probes that a batch of events may require.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each stands for itself")]
pub struct Changes {
    has_forked: bool,
    someone_ended: bool,
    first_ended: bool,
    /// A thread other than the target's first thread has executed a program.
    first_replaced: bool,
}

impl Watch {
    /// Takes one event in, before `understanding` does. Returns the time of the target's first exec,
    /// in ns, if the event is that exec.
    pub fn hear(
        &mut self,
        event: &Event,
        understanding: &mut Understanding,
        changes: &mut Changes,
        notes: &mut Notes,
    ) -> Option<u64> {
        let began_ns = self.lifetime.push(event);
        self.alone.push(event, clock::now_ns);
        match event {
            Event::Exit { tid, .. } => {
                changes.someone_ended = true;
                changes.first_ended |= *tid == self.pid;
            }
            Event::Callers { id, addresses, .. } => self.locks.know(*id, addresses),
            Event::Thread { shown, .. } => {
                self.scheduling.look_at_thread(shown.1, shown.0);
                if let Some(rank) = self.processes.meet(shown.1) {
                    understanding.set_rank(shown.1, rank);
                }
            }
            Event::Exec {
                replaced, process, ..
            } => self.executed(*process, *replaced, understanding, changes, notes),
            Event::Forked {
                child, followed, ..
            } => {
                changes.has_forked = true;
                self.processes.forked(*child, *followed);
            }
            Event::Ended { process, .. } => {
                self.leave_locks(*process, notes);
                self.processes.ended(*process);
            }
            Event::Lock {
                process,
                address,
                callers,
            } => {
                if let Some(addresses) = self.locks.addresses(*callers) {
                    let lock = understanding.lock(*process, addresses);
                    self.locks.found((*process, *address), lock);
                }
            }
            _ => {}
        }
        began_ns
    }

    /// A process has executed a program. `replaced`: by a thread that was not its first.
    fn executed(
        &mut self,
        process: u32,
        replaced: bool,
        understanding: &mut Understanding,
        changes: &mut Changes,
        notes: &mut Notes,
    ) {
        if let Some(rank) = self.processes.executed(process) {
            understanding.set_rank(process, rank);
        }
        self.leave_locks(process, notes);
        if [0, self.pid].contains(&process) {
            self.cpus.begin_anew();
            if replaced {
                changes.first_replaced = true;
                // The first thread's id now belongs to the thread that executed the program, which
                // has not ended.
                changes.first_ended = false;
                self.first_ends = false;
            }
        }
    }

    /// Forgets the locks of a process that has ended or executed a program.
    fn leave_locks(&mut self, process: u32, notes: &mut Notes) {
        if let Some(source) = self.source.as_deref()
            && let Some(counts) = source.locks()
            && let Err(error) = self.locks.leave(process, counts)
        {
            notes.push(format!("forgetting locks: {error}"));
        }
    }

    /// Updates the probes after a batch of events.
    pub fn follow(
        &mut self,
        changes: Changes,
        understanding: &mut Understanding,
        notes: &mut Notes,
    ) {
        self.first_ends |= changes.first_ended;
        if self.source.is_none() {
            return;
        }
        self.silence(understanding.take_silenced());
        let Some(source) = self.source.as_deref_mut() else {
            return;
        };
        if let Some(scoping) = source.scoping() {
            if changes.has_forked {
                notes.keep(scoping.widen_for_children());
            }
            if changes.first_replaced && scoping.scope() == Scope::Target {
                // The kernel had bound the probes to the first thread.
                notes.keep(scoping.renew());
                // The program may do so repeatedly; one note is enough.
                notes.push_once(
                    "a thread other than the first executed a new program: sbt set the probes a \
                    moment after the start of the new program",
                );
            }
        }
        loop {
            // Errors about the files of a process that has ended meanwhile do not matter.
            if let Err(error) = source.attach(&understanding.new_files())
                && process::find(self.pid).is_ok()
            {
                notes.push(format!("{error:#}"));
            }
            if !understanding.catch_up() {
                break;
            }
        }
        if let Some(rules) = understanding.new_rules()
            && let Some(callers) = source.callers()
        {
            notes.keep(callers.learn(&rules));
        }
        if changes.someone_ended {
            self.notice_first(notes);
        }
    }

    /// If the first thread is known to be about to end: as [`Self::notice_first`].
    pub fn notice_end_of_first(&mut self, notes: &mut Notes) {
        if self.first_ends {
            self.notice_first(notes);
        }
    }

    /// Watches for a first thread that ends before its process: then the probes, bound to the first
    /// thread, have to be widened. The kernel reports the end before the thread has ended, so this
    /// waits a few milliseconds for the end: until the probes are widened, other users of probes
    /// may make the kernel treat these probes as unused.
    fn notice_first(&mut self, notes: &mut Notes) {
        const PAUSE: Duration = Duration::from_micros(100);
        const LONGEST: Duration = Duration::from_millis(3);
        let scoping = self.source.as_deref_mut().and_then(Source::scoping);
        let Some(scoping) = scoping.filter(|scoping| scoping.scope() == Scope::Target) else {
            // The probes are not bound to the first thread.
            self.first_ends = false;
            return;
        };
        let begun = Instant::now();
        let has_ended = || process::first_thread_has_ended(self.pid);
        while self.first_ends && !has_ended() && begun.elapsed() < LONGEST {
            std::thread::sleep(PAUSE);
        }
        if process::goes_on_without_first(self.pid) {
            notes.keep(scoping.widen());
        }
    }
}
