//! Takes in the events that the source hands over.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use super::{Session, View};
use crate::{
    ci,
    naming::Naming,
    source::{Batch, Scope, Source},
};
use sbt_engine::event::{CallersId, Event};
use sbt_program::process;

impl Session {
    pub(super) fn take(&mut self, batch: &Batch) {
        let mut has_forked = false;
        let mut someone_ended = false;
        let mut first_ended = false;
        let mut first_replaced = false;
        for event in batch {
            if let Some(time_ns) = self.lifetime.push(event) {
                self.begin_program(time_ns);
            }
            match event {
                Event::Exit { tid, .. } => {
                    someone_ended = true;
                    first_ended |= *tid == self.pid;
                }
                Event::Callers {
                    id,
                    process,
                    addresses,
                } => self.called(*id, *process, addresses),
                Event::Thread {
                    shown, code_start, ..
                } => {
                    self.resolver.turn_to(shown.1);
                    self.resolver.set_code_start(*code_start);
                    self.processes.meet(shown.1, &mut self.model);
                }
                Event::Exec {
                    replaced, process, ..
                } => {
                    self.executed(*process);
                    self.look_at_maps(*process);
                    if [0, self.pid].contains(process) {
                        self.cpus.begin_anew();
                    }
                    if *replaced && [0, self.pid].contains(process) {
                        first_replaced = true;
                        // The first thread's id now belongs to the thread that executed the
                        // program, which has not ended.
                        first_ended = false;
                        self.first_ends = false;
                    }
                }
                // Refresh at once: the process may end before all places are found.
                Event::Mapped { process, time_ns } => {
                    self.resolver.turn_to(*process);
                    self.resolver.refresh_since(*time_ns);
                }
                Event::Forked {
                    process,
                    child,
                    followed,
                    ..
                } => {
                    has_forked = true;
                    self.processes.forked(*child, *followed);
                    if let Some(child) = child {
                        self.resolver.forked(*process, *child);
                    }
                }
                Event::Ended { process, .. } => {
                    self.leave_locks(*process);
                    self.resolver.ended(*process);
                    self.processes.ended(*process);
                }
                Event::Lock {
                    process,
                    address,
                    callers,
                } => {
                    self.resolver.turn_to(*process);
                    let at = (*process, *address);
                    self.locks.found(at, *callers, &mut self.resolver);
                    continue;
                }
                _ => {}
            }
            self.recognition
                .push(event, &mut self.resolver, &mut self.model);
        }
        self.narrate();
        self.write_down();
        View::heard(&mut self.view);
        self.first_ends |= first_ended;
        self.follow_up(has_forked, first_replaced, someone_ended);
    }

    fn look_at_maps(&mut self, process: u32) {
        self.resolver.turn_to(process);
        self.resolver.refresh();
    }

    /// Updates the probes after a batch of events. `first_replaced`: a thread other than the
    /// target's first thread has executed a program.
    fn follow_up(&mut self, has_forked: bool, first_replaced: bool, someone_ended: bool) {
        let Some(source) = self.source.as_deref_mut() else {
            return;
        };
        self.recognition.silence(source);
        if has_forked && let Err(error) = source.widen_for_children() {
            self.notes.push(format!("{error:#}"));
        }
        if first_replaced && source.scope() == Scope::Target {
            // The kernel had bound the probes to the first thread.
            if let Err(error) = source.renew() {
                self.notes.push(format!("{error:#}"));
            }
            // The program may do so repeatedly; one note is enough.
            let note = "a thread other than the first executed a new program: sbt set the probes a \
                moment after the start of the new program";
            if !self.notes.iter().any(|known| known == note) {
                self.notes.push(note.into());
            }
        }
        // Errors about the files of a process that has ended meanwhile do not matter.
        if let Err(error) = source.attach(&self.resolver.new_files())
            && process::find(self.pid).is_ok()
        {
            self.notes.push(format!("{error:#}"));
        }
        if let Some(rules) = self.resolver.new_rules()
            && let Err(error) = source.learn(&rules)
        {
            self.notes.push(format!("{error:#}"));
        }
        if someone_ended {
            self.notice_first();
        }
    }

    /// Watches for a first thread that ends before its process: then the probes, bound to the first
    /// thread, have to be widened. The kernel reports the end before the thread has ended, so this
    /// waits a few milliseconds for the end: until the probes are widened, other users of probes
    /// may make the kernel treat these probes as unused.
    pub(super) fn notice_first(&mut self) {
        const PAUSE: Duration = Duration::from_micros(100);
        const LONGEST: Duration = Duration::from_millis(3);
        let scope = self.source.as_deref().map(Source::scope);
        if scope != Some(Scope::Target) {
            // The probes are not bound to the first thread.
            self.first_ends = false;
            return;
        }
        let begun = Instant::now();
        let has_ended = || process::first_thread_has_ended(self.pid);
        while self.first_ends && !has_ended() && begun.elapsed() < LONGEST {
            std::thread::sleep(PAUSE);
        }
        if process::goes_on_without_first(self.pid)
            && let Some(source) = self.source.as_deref_mut()
            && let Err(error) = source.widen()
        {
            self.notes.push(format!("{error:#}"));
        }
    }

    /// Takes in a chain of callers that is new, or whose number now means another chain.
    fn called(&mut self, id: CallersId, process: u32, addresses: &[u64]) {
        self.resolver.turn_to(process);
        let place = self.resolver.place(addresses);
        self.recognition
            .know(id, process, addresses, &mut self.resolver);
        self.locks.know(id, addresses);
        let known = &self.resolver.places()[place.0 as usize];
        let roles = Naming(&self.settings).roles(known);
        self.recognition.define(id, place, roles);
    }

    /// A process has executed a program: all addresses known of the process are invalid.
    fn executed(&mut self, process: u32) {
        self.resolver.turn_to(process);
        self.resolver.executed();
        self.processes.executed(process, &mut self.model);
        self.leave_locks(process);
    }

    /// Forgets the locks of a process that has ended or executed a program.
    fn leave_locks(&mut self, process: u32) {
        if let Some(source) = self.source.as_deref()
            && let Err(error) = self.locks.leave(process, source)
        {
            self.notes.push(format!("forgetting locks: {error}"));
        }
    }

    /// Prints the episodes that the model has ready to print.
    pub(super) fn narrate(&mut self) {
        // Look as soon as the costs are known: the queue of episodes that wait for the costs is
        // bounded.
        self.cost.look(&mut self.model);
        let places = self.resolver.places();
        let text = self
            .narrator
            .tell(&mut self.model, places, &self.settings, &self.counters);
        if !text.is_empty() {
            self.tell(&text);
        }
    }

    /// Tells the user some lines, on the live screen if there is one, else on standard error.
    pub(super) fn tell(&mut self, text: &str) {
        if let Some(view) = &mut self.view {
            view.observer.told(text);
            return;
        }
        let text = ci::tame(text);
        // Ignore errors: a closed standard error has no reader.
        drop(std::io::stderr().lock().write_all(text.as_bytes()));
    }
}
