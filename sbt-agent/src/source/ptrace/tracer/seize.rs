//! Begins to trace the threads of a process.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use nix::{poll::ppoll, sys::signal::SigSet, sys::time::TimeSpec};
use sbt_program::{
    process,
    trace::{self, Id},
};

use super::{OPTIONS, REFUSED, Space, Tracer, stops::shares_memory};
use crate::source::ptrace::stop;

/// By then a thread that has not stopped is not forking any more, but waits: for its `vfork` child,
/// which shares the memory, or for a disk.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// How long to wait for the next stop before the time is looked at again.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

impl Tracer {
    /// Traces all threads of a process. `runs`: whether the process runs its own program already.
    pub(super) fn seize(&mut self, pid: u32, runs: bool) -> anyhow::Result<()> {
        let traces = |tid| process::tracer(pid, tid) == Some(std::process::id());
        if process::thread_ids(pid).any(traces) {
            // Its traced parent has reported the fork, or will.
            return Ok(());
        }
        let space = match self.shared_with(pid) {
            Some(space) => Some(space),
            None if runs => Some(self.keep(Space::of(pid)?)),
            None => None,
        };
        // Threads that begin meanwhile are traced automatically if their parent is traced, unless the
        // parent was already in the middle of making them. When it has settled they are listed. A list
        // may lack a thread if others end while it is read, so it is read twice.
        while self.seize_listed(pid, space, runs)? || self.seize_listed(pid, space, runs)? {
            if runs {
                self.settle(pid);
            }
        }
        // From now on the process reports the children that it forks.
        self.known.tell(process::children(pid));
        // Some files to be watched may be known already.
        if let Some(space) = space.and_then(|number| self.spaces.get_mut(&number)) {
            space.refresh(&self.wanted).context(REFUSED)?;
        }
        Ok(())
    }

    /// Traces the threads of a process that are not traced yet. Returns whether there were any: those
    /// that a traced thread has made are traced from their beginning, and do not count.
    fn seize_listed(&mut self, pid: u32, space: Option<u32>, runs: bool) -> anyhow::Result<bool> {
        let mut some = false;
        for tid in process::thread_ids(pid) {
            let id = Id::try_from(tid)?;
            // A new thread may have stopped already, before its parent has reported it.
            if self.threads.contains_key(&id) || self.early.contains_key(&id) {
                continue;
            }
            match trace::seize(id, OPTIONS) {
                Ok(()) => {
                    some = true;
                    self.released.remove(&id);
                    self.enlist(id, (pid, space), 0, true);
                    self.counters.begin(id, !runs);
                }
                // The thread has ended, maybe before the others of its process.
                Err(_) if process::thread_has_ended(pid, tid) => {}
                // The thread has begun meanwhile, and is traced already.
                Err(_) if process::tracer(pid, tid) == Some(std::process::id()) => {
                    while let Ok(Some(news)) = stop::next() {
                        self.hear(news);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(some)
    }

    /// The memory that this process shares with a traced one, as a child of `vfork` does.
    fn shared_with(&self, pid: u32) -> Option<u32> {
        // Threads that have ended have no memory any more.
        let living = self.threads.iter().filter(|(_, traced)| !traced.ended);
        let by_space = living.filter_map(|(id, traced)| Some((traced.space?, *id)));
        let by_space: BTreeMap<u32, Id> = by_space.collect();
        let of_it: Vec<Id> = process::thread_ids(pid)
            .filter_map(|tid| Id::try_from(tid).ok())
            .collect();
        by_space.into_iter().find_map(|(space, its)| {
            let same = |id: &Id| shares_memory(its, *id) == Some(true);
            of_it.iter().any(same).then_some(space)
        })
    }

    /// Waits until no thread of the process is in the middle of a fork that began before the thread
    /// was traced: the kernel decides at the beginning of a fork whether the child is traced, and
    /// copies the memory later. A child that is not traced would end at the breakpoints in its copy.
    fn settle(&mut self, pid: u32) {
        // A thread that sleeps or stands still is not forking. For others a stop shows that the
        // thread has left the kernel.
        let of_it = self
            .threads
            .iter()
            .filter(|(_, traced)| traced.slot.process == pid);
        let busy = of_it.filter(|(id, _)| process::is_busy(pid, id.cast_unsigned()));
        let busy: Vec<Id> = busy.map(|(id, _)| *id).collect();
        let stopping = busy.into_iter().filter(|id| trace::interrupt(*id).is_ok());
        self.unsettled.extend(stopping);
        self.hear_until(SETTLED_AFTER, |this| this.unsettled.is_empty());
        self.unsettled.clear();
    }

    /// Handles stops until something is so, or for at most this long.
    pub(super) fn hear_until(&mut self, longest: Duration, is_so: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            let rest = longest.saturating_sub(begin.elapsed());
            // Checked before the next stop is taken: one that is taken must be handled.
            if rest.is_zero() {
                break;
            }
            match stop::next() {
                Ok(Some(news)) => self.hear(news),
                // SIGCHLD interrupts the wait.
                Ok(None) => {
                    let rest = TimeSpec::from_duration(rest.min(LONGEST_WAIT));
                    let _woken = ppoll(&mut [], Some(rest), Some(SigSet::empty()));
                }
                Err(_) => break,
            }
        }
    }
}
