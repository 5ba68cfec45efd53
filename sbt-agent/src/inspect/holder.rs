//! Who holds a lock, by the number that is written in it.

use std::{cell::RefCell, collections::HashMap, fs};

use super::thread::Glance;
use sbt_engine::hang::scene::{Holder, ThreadId};
use sbt_program::process;

/// The threads of a look by their numbers in their own process namespaces.
#[derive(Default)]
pub struct Numbers {
    /// By process, and number there.
    threads: HashMap<(u32, u32), ThreadId>,
    /// Of others, by process and number there: whether they may be alive.
    others: RefCell<HashMap<(u32, u32), bool>>,
}

impl Numbers {
    /// Of threads that are alive.
    pub fn of(threads: impl Iterator<Item = (ThreadId, u32)>) -> Self {
        let threads = threads.map(|(id, own)| ((id.process, own), id));
        Self {
            threads: threads.collect(),
            others: RefCell::default(),
        }
    }

    /// A thread of a process.
    pub fn thread(&self, process: u32, number: u32) -> Option<ThreadId> {
        self.threads.get(&(process, number)).copied()
    }

    /// A process, by its own number: that of its first thread.
    pub fn process(&self, number: u32) -> Option<u32> {
        let mut known = self.threads.iter();
        let found = known.find(|((process, own), id)| *own == number && id.thread == *process);
        found.map(|((process, _), _)| *process)
    }

    /// Whose number is written in a lock of a process. `still`: whether the lock says the
    /// same when it is read once more.
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
            // Of a process whose first thread has ended.
            if is_alive(number, number) {
                return Holder::Unknown;
            }
        } else if self.may_be_in(process, number) {
            // It was started since the threads were listed.
            return Holder::Unknown;
        }
        // It may have let go before it ended.
        if still() {
            Holder::Gone { thread: number }
        } else {
            Holder::Unknown
        }
    }

    /// Whether a thread of a process has a number there now, as far as that can be told.
    fn may_be_in(&self, process: u32, number: u32) -> bool {
        let mut others = self.others.borrow_mut();
        // Many may wait for the same lock.
        *others.entry((process, number)).or_insert_with(|| {
            let mut any = false;
            let has = process::thread_ids(process).any(|thread| {
                any = true;
                let glance = Glance::at(ThreadId { process, thread });
                glance.is_some_and(|it| it.own_number == number && !it.has_ended())
            });
            // One that ends while the threads are listed may hide another.
            has || !any || has_our_numbers(process) && is_alive(process, number)
        })
    }
}

/// Whether there is a thread with such numbers here.
fn is_alive(process: u32, thread: u32) -> bool {
    let glance = Glance::at(ThreadId { process, thread });
    glance.is_some_and(|it| !it.has_ended())
}

/// Whether a process has the same numbers for threads as we have.
pub fn has_our_numbers(process: u32) -> bool {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/pid")).ok();
    let own = namespace("self");
    own.is_some() && own == namespace(&process.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than the kernel gives.
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
        // No thread of it can be seen.
        let holder = none.holder(NOBODY, NOBODY, false, || true);
        assert_eq!(holder, Holder::Unknown);
    }
}
