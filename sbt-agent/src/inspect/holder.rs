//! Finds the thread that holds a lock, by the number written in it.

use std::{cell::RefCell, collections::HashMap, fs};

use super::thread::Glance;
use sbt_engine::hang::scene::{Holder, ThreadId};
use sbt_program::process;

/// Threads by their numbers in their own pid namespaces.
#[derive(Default)]
pub struct Numbers {
    /// By process and the thread's own number.
    threads: HashMap<(u32, u32), ThreadId>,
    /// Whether other threads may be alive, by process and the thread's own number.
    others: RefCell<HashMap<(u32, u32), bool>>,
}

impl Numbers {
    /// Stores these threads, which are alive, with their own numbers.
    pub fn of(threads: impl Iterator<Item = (ThreadId, u32)>) -> Self {
        let threads = threads.map(|(id, own)| ((id.process, own), id));
        Self {
            threads: threads.collect(),
            others: RefCell::default(),
        }
    }

    /// The thread of a process with this own number.
    pub fn thread(&self, process: u32, number: u32) -> Option<ThreadId> {
        self.threads.get(&(process, number)).copied()
    }

    /// The process with this own number: that of its first thread.
    pub fn process(&self, number: u32) -> Option<u32> {
        let mut known = self.threads.iter();
        let found = known.find(|((process, own), id)| *own == number && id.thread == *process);
        found.map(|((process, _), _)| *process)
    }

    /// The holder of a lock in the memory of a process, by the number written in the lock. `still`:
    /// whether the lock has the same content when it is read again.
    pub fn holder(
        &self,
        process: u32,
        number: u32,
        shared: bool,
        still: impl Fn() -> bool,
    ) -> Holder {
        if let Some(id) = self.thread(process, number) {
            return Holder::Thread(id);
        }
        if shared {
            let mut others = self.threads.iter();
            let found = others.find(|((_, own), _)| *own == number);
            if let Some((_, id)) = found {
                return Holder::Thread(*id);
            }
            if !has_our_numbers(process) {
                return Holder::Unknown;
            }
            if let Ok(found) = process::find(number) {
                return Holder::Thread(ThreadId {
                    process: found.pid,
                    thread: number,
                });
            }
            // The holder may belong to a process whose first thread has ended.
            if is_alive(number, number) {
                return Holder::Unknown;
            }
        } else if self.may_be_in(process, number) {
            // The holder was started after the threads were listed.
            return Holder::Unknown;
        }
        // The holder may have released the lock before it ended.
        if still() {
            Holder::Gone { thread: number }
        } else {
            Holder::Unknown
        }
    }

    /// Whether a thread of the process may have this number now.
    fn may_be_in(&self, process: u32, number: u32) -> bool {
        let mut others = self.others.borrow_mut();
        // Kept, since many threads may wait for the same lock.
        *others.entry((process, number)).or_insert_with(|| {
            let mut any = false;
            let has = process::thread_ids(process).any(|thread| {
                any = true;
                let glance = Glance::at(ThreadId { process, thread });
                glance.is_some_and(|glance| glance.own_number == number && !glance.has_ended())
            });
            // If a thread ends while threads are listed, another may be missing from the list.
            has || !any || has_our_numbers(process) && is_alive(process, number)
        })
    }
}

/// Whether this thread exists, by its number in sbt's pid namespace.
fn is_alive(process: u32, thread: u32) -> bool {
    let glance = Glance::at(ThreadId { process, thread });
    glance.is_some_and(|glance| !glance.has_ended())
}

/// Whether a process is in the same pid namespace as sbt.
pub fn has_our_numbers(process: u32) -> bool {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/pid")).ok();
    let own = namespace("self");
    own.is_some() && own == namespace(&process.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number larger than any that the kernel gives.
    const NOBODY: u32 = 1 << 29;

    fn this() -> ThreadId {
        ThreadId {
            process: std::process::id(),
            thread: nix::unistd::gettid().as_raw().cast_unsigned(),
        }
    }

    #[test]
    fn who_came_after_the_threads_were_listed_is_not_gone() {
        let ThreadId { process, thread } = this();
        let none = Numbers::default();
        let holder = |shared| none.holder(process, thread, shared, || true);
        assert_eq!(holder(false), Holder::Unknown);
        assert_eq!(holder(true), Holder::Thread(this()));
        let listed = Numbers::of([(this(), 5)].into_iter());
        let holder = listed.holder(process, 5, false, || true);
        assert_eq!(holder, Holder::Thread(this()));
        assert_eq!(listed.process(5), None, "this is not the first thread");
    }

    #[test]
    fn who_has_ended_is_gone_unless_it_let_go_before() {
        let process = this().process;
        let gone = Holder::Gone { thread: NOBODY };
        let none = Numbers::default();
        for shared in [false, true] {
            let holder = |still| none.holder(process, NOBODY, shared, || still);
            assert_eq!(holder(true), gone);
            assert_eq!(holder(false), Holder::Unknown);
        }
        // No thread of this process can be seen.
        let holder = none.holder(NOBODY, NOBODY, false, || true);
        assert_eq!(holder, Holder::Unknown);
    }
}
