//! Events of lives: when threads begin, end, execute programs and get a CPU.

use std::{io, sync::Arc};

use super::{
    super::{cover, events::Opened, run::Run, space::Space},
    LIFE, ROUNDS, SWITCHES, Watch, told,
};
use sbt_program::{clock, process};

impl Watch {
    /// Begins to watch the lives of a process and of all threads that its threads start. `runs`:
    /// whether its memory is that of its own program.
    ///
    /// # Errors
    /// Errors of the kernel; the process has ended.
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

    /// Opens events of lives for each thread of a process. Returns the events and the threads.
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

    /// Whether a thread goes on although the kernel reports its end at `time_ns`. The kernel ends
    /// the events of a thread with that record if the thread executes a program that gives
    /// privileges, or that its user may not read (`begin_new_exec`). The events are opened again
    /// then, if that is allowed; false otherwise. `is_within_exec`: nothing was heard of the thread
    /// since it executed a program.
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
            // The events were opened again already, and an earlier one has reported this.
            self.forget_tellers(process);
            return true;
        }
        is_within_exec && !process::thread_has_ended(process, process) && self.hear_again(process)
    }

    /// Opens the events of lives of a process again. Returns whether that worked.
    fn hear_again(&mut self, process: u32) -> bool {
        let (lives, threads) = match self.open_lives(process) {
            Ok(opened) => opened,
            Err(error) => {
                // If that is forbidden, the note comes where the program is followed.
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
            // Switches in between were not reported.
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
