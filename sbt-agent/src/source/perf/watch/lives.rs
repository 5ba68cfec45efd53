//! Of whose life is heard: where threads begin and end, what they execute and when they run.

use std::{io, sync::Arc};

use super::{
    super::{cover, events::Opened, run::Run, space::Space},
    LIFE, ROUNDS, SWITCHES, Watch, told,
};
use sbt_program::{clock, process};

impl Watch {
    /// Begins to hear of a process and all that its threads start. `runs`: its memory is that
    /// of its own program.
    ///
    /// # Errors
    /// The kernel's; it has ended.
    pub fn hear_of(&mut self, process: u32, runs: bool) -> io::Result<()> {
        let number = self.next_space();
        if runs {
            let space = Space::new(number, 0);
            self.spaces.insert(process, space);
        } else {
            self.held = Some(process);
        }
        let (lives, threads) = self.open_lives(process)?;
        for thread in threads {
            self.enlist(thread, process, number, (0, Run::UNKNOWN));
            self.call(thread, told(process, thread));
        }
        self.lives.insert(process, Arc::new(lives));
        Ok(())
    }

    /// Has each thread of a process tell of its life. Which those are.
    fn open_lives(&self, process: u32) -> io::Result<(Opened, Vec<u32>)> {
        let gone = || io::Error::from_raw_os_error(libc::ESRCH);
        let events = self.events.as_ref().ok_or_else(gone)?;
        let mut all = events.none();
        let mut threads = Vec::new();
        cover::each_thread(process, ROUNDS, |thread, _| {
            all.append(events.tell_life(thread, self.begun_ns != 0)?);
            threads.push(thread);
            Ok(true)
        })?;
        if threads.is_empty() {
            return Err(gone());
        }
        Ok((all, threads))
    }

    /// Whether a thread goes on of which the kernel says that it has ended, at a time, ns. It
    /// ends the events of one that executes a program by which it gains privileges, or that
    /// its user may not read, with that word (`begin_new_exec`): they are opened again then.
    /// False where nobody may. `is_within_exec`: nothing was heard of it since it executed one.
    pub(super) fn goes_on(
        &mut self,
        tid: u32,
        process: u32,
        time_ns: u64,
        is_within_exec: bool,
    ) -> bool {
        let Some(lives) = self.lives.get(&process) else {
            return false;
        };
        if tid == process && lives.since_ns > time_ns {
            // Those were opened again already, and this was an event of before.
            self.forget_tellers(process);
            return true;
        }
        is_within_exec && !process::thread_has_ended(process, process) && self.hear_again(process)
    }

    /// Has a process tell of its life again; whether it does.
    fn hear_again(&mut self, process: u32) -> bool {
        let (lives, threads) = match self.open_lives(process) {
            Ok(opened) => opened,
            Err(error) => {
                // Who may not is told so where its program is followed.
                if error.kind() != io::ErrorKind::PermissionDenied {
                    self.note_failure(process, Err(error));
                }
                return false;
            }
        };
        if !threads.contains(&process) {
            return false;
        }
        self.lives.insert(process, Arc::new(lives));
        self.forget_tellers(process);
        let now = clock::now_ns();
        let usage = process::usage(process);
        let number = self.spaces.get(&process).map_or(0, |space| space.number);
        for tid in threads {
            // When it ran meanwhile was not told.
            let (run_ns, _) = usage.get(&tid).copied().unwrap_or_default();
            let run = Run::existing(run_ns, now);
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.run = run;
            } else {
                self.enlist(tid, process, number, (0, run));
                self.call(tid, told(process, tid));
            }
        }
        true
    }

    fn forget_tellers(&mut self, process: u32) {
        let threads = self.threads.values_mut();
        for thread in threads.filter(|thread| thread.slot.process == process) {
            let tellers = &mut thread.tellers;
            tellers.retain(|((of, _), _)| ![LIFE, SWITCHES].contains(of));
        }
    }
}
