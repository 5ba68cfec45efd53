//! How many CPUs a process may use.

use nix::{
    sched::{CpuSet, sched_getaffinity},
    unistd::Pid,
};

use super::process;

/// The most threads that are asked: further threads hardly run elsewhere.
const MOST_THREADS: usize = 64;

/// The number of CPUs that the threads of a process may run on, all together: each thread may be
/// bound to CPUs of its own. `None` if the process is gone, or if the machine has more than the
/// 1024 CPUs that the C library's set has room for.
pub fn allowed(pid: u32) -> Option<u32> {
    allowed_to(pid).1
}

/// The number of threads that were asked, and the number of CPUs that they may run on.
fn allowed_to(pid: u32) -> (usize, Option<u32>) {
    let threads = process::thread_ids(pid).take(MOST_THREADS);
    let sets: Vec<CpuSet> = threads
        .filter_map(|thread| sched_getaffinity(Pid::from_raw(thread.cast_signed())).ok())
        .collect();
    let is_allowed = |cpu: &usize| sets.iter().any(|set| set.is_set(*cpu).unwrap_or(false));
    let number = (0..CpuSet::count()).filter(is_allowed).count();
    let number = u32::try_from(number).ok().filter(|number| *number > 0);
    (sets.len(), number)
}

/// How many CPUs a process may use while it has all its threads. If each thread is bound to one
/// CPU, asking when only the last thread is left would give one CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpus {
    /// The number of threads that were asked when `number` was found.
    threads: usize,
    /// The number of threads that were asked last.
    last: usize,
    /// The number of CPUs; `None` if unknown.
    pub number: Option<u32>,
}

impl Cpus {
    /// Asks again, and keeps the answer unless more threads were asked before.
    pub fn look(&mut self, pid: u32) {
        self.take(allowed_to(pid));
    }

    fn take(&mut self, (threads, number): (usize, Option<u32>)) {
        if number.is_none() {
            return;
        }
        // If new threads have come since others have gone, the threads of now count.
        if threads >= self.threads || threads > self.last {
            (self.threads, self.number) = (threads, number);
        }
        self.last = threads;
    }

    /// Forgets earlier threads, because the process executes another program.
    pub const fn begin_anew(&mut self) {
        self.threads = 0;
    }
}

#[cfg(test)]
mod tests {
    use nix::sched::sched_setaffinity;

    use super::*;

    #[test]
    fn threads_that_have_gone_take_no_cpus_with_them() {
        let mut cpus = Cpus::default();
        for (told, number) in [
            ((1, Some(8)), Some(8)),
            // More threads, which are bound to fewer CPUs.
            ((4, Some(4)), Some(4)),
            ((1, Some(1)), Some(4)),
            ((4, Some(2)), Some(2)),
            ((0, None), Some(2)),
            ((1, Some(1)), Some(2)),
            // New threads, and fewer.
            ((3, Some(6)), Some(6)),
            ((3, Some(3)), Some(3)),
            ((2, Some(2)), Some(3)),
            ((2, Some(1)), Some(3)),
        ] {
            cpus.take(told);
            assert_eq!(cpus.number, number, "{told:?}");
        }
        cpus.begin_anew();
        cpus.take((1, Some(1)));
        assert_eq!(cpus.number, Some(1));
    }

    #[test]
    fn cpus_of_all_threads_count() {
        let all = allowed(std::process::id()).unwrap();
        let this = std::thread::available_parallelism().unwrap();
        assert!(usize::try_from(all).unwrap() >= this.get());
        // A bound thread takes no CPU from the others.
        std::thread::spawn(move || {
            let mine = sched_getaffinity(Pid::from_raw(0)).unwrap();
            let first = (0..CpuSet::count()).find(|cpu| mine.is_set(*cpu).unwrap());
            let mut one = CpuSet::new();
            one.set(first.unwrap()).unwrap();
            sched_setaffinity(Pid::from_raw(0), &one).unwrap();
            assert_eq!(allowed(std::process::id()), Some(all));
        })
        .join()
        .unwrap();
        assert_eq!(allowed(u32::MAX >> 1), None);
    }
}
