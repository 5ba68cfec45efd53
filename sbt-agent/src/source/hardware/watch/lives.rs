//! Of whose life is heard: where threads begin and end, what they execute and when they run.

use std::{io, sync::Arc};

use super::{
    super::{cover, run::Run, space::Space},
    LIFE, ROUNDS, SWITCHES, Watch, told,
};
use crate::{clock, target::process};

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
        for thread in self.open_lives(process)? {
            self.enlist(thread, process, number, (0, Run::UNKNOWN));
            self.call(thread, told(process, thread));
        }
        Ok(())
    }

    /// Has each thread of a process tell of its life. Which those are.
    fn open_lives(&mut self, process: u32) -> io::Result<Vec<u32>> {
        let mut threads = Vec::new();
        let Some(events) = &self.events else {
            return Ok(threads);
        };
        let mut all = events.none();
        cover::each_thread(process, ROUNDS, |thread, _| {
            all.append(events.tell_life(thread, self.begun_ns != 0)?);
            threads.push(thread);
            Ok(true)
        })?;
        if threads.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        self.lives.insert(process, Arc::new(all));
        Ok(threads)
    }

    /// The kernel ends the events of a thread that executes a program by which it gains
    /// privileges, or that its user may not read (`begin_new_exec`), and says that the thread
    /// has ended. Whether this is what that meant, at this time, ns; it is heard of again
    /// then. False where nobody may.
    pub(super) fn goes_on_unheard(&mut self, process: u32, time_ns: u64) -> bool {
        let lives = self.lives.get(&process);
        if lives.is_some_and(|lives| lives.since_ns > time_ns) {
            self.forget_tellers(process);
            return true;
        }
        !process::thread_has_ended(process, process) && self.hear_again(process)
    }

    /// Has a process tell of its life whose events have ended; whether it does.
    pub(super) fn hear_again(&mut self, process: u32) -> bool {
        let Ok(threads) = self.open_lives(process) else {
            return false;
        };
        self.forget_tellers(process);
        let now = clock::now_ns();
        let usage = process::usage(process);
        for tid in threads {
            // When it ran meanwhile was not told.
            if let Some(thread) = self.threads.get_mut(&tid)
                && !thread.run.is_unknown()
            {
                let (run_ns, _) = usage.get(&tid).copied().unwrap_or_default();
                thread.run = Run::existing(run_ns, now);
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
