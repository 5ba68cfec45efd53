//! The paths inside of a C library from its lock functions to the system call of futexes.
//!
//! A thread that waits for a mutex has passed through one to three functions of the C library. To
//! find the program's line at which the thread waits, the kernel side has to follow the return
//! addresses in all of these functions. Learning these addresses one after the other from chains of
//! callers would take several passes over the rings: a lock that is used for a short time, or while
//! sbt hardly gets a CPU, would never be reported.

use std::collections::{BTreeSet, HashMap};

use object::{LittleEndian, read::elf::ElfFile64};

use super::{
    arch::{self, Callee, Flow},
    elf::{code_at, names},
    unwind::Unwind,
};

/// Prefixes of the functions that programs call to take or release a lock, without leading
/// underscores.
const LOCKS: [&str; 4] = ["pthread_mutex_", "pthread_rwlock_", "sem_", "mtx_"];

/// The most nested calls on a path.
const MAX_DEPTH: usize = 4;

/// The most bytes that are read of each function.
const LONGEST: u64 = 1 << 14;

/// The most functions that are read.
const MAX_FUNCTIONS: usize = 1 << 10;

/// The return addresses on the paths from lock functions to the system call of futexes, including
/// the address behind the system call itself: virtual addresses in ascending order.
pub(super) fn returns(unwind: &Unwind) -> Vec<u64> {
    let Ok(file) = ElfFile64::<LittleEndian>::parse(unwind.image()) else {
        return Vec::new();
    };
    let is_lock = |name: &[u8]| {
        let underscores = name.iter().take_while(|byte| **byte == b'_').count();
        let bare = &name[underscores..];
        LOCKS.iter().any(|lock| bare.starts_with(lock.as_bytes()))
    };
    let mut search = Search {
        unwind,
        known: HashMap::new(),
        returns: BTreeSet::new(),
    };
    for symbol in names::defined(&file).filter(|symbol| is_lock(symbol.name)) {
        search.leads_to_futex(symbol.address(), MAX_DEPTH);
    }
    search.returns.into_iter().collect()
}

struct Search<'a> {
    unwind: &'a Unwind,
    /// Whether functions, by start address, lead to the system call.
    known: HashMap<u64, bool>,
    returns: BTreeSet<u64>,
}

impl Search<'_> {
    fn leads_to_futex(&mut self, address: u64, depth: usize) -> bool {
        let Some(function) = self.unwind.function(address).copied() else {
            return false;
        };
        if let Some(known) = self.known.get(&function.start) {
            return *known;
        }
        if depth == 0 || self.known.len() >= MAX_FUNCTIONS {
            return false;
        }
        // The answer while the function itself is being read, because it may call itself.
        self.known.insert(function.start, false);
        let (start, end) = (function.start, function.end);
        let length = (end - start).min(LONGEST);
        let Some(code) = code_at(self.unwind.image(), self.unwind.segments(), start, length) else {
            return false;
        };
        let bytes = code.bytes;
        let mut leads = false;
        // The number of the next system call, if it was put into the register just before.
        let mut number = None;
        let is_outside = |to: u64| !(start..end).contains(&to);
        for instruction in arch::decode(bytes, start) {
            match instruction.flow() {
                Flow::Call(Callee::At(to)) if is_outside(to) => {
                    number = None;
                    if self.leads_to_futex(to, depth - 1) {
                        self.returns.insert(instruction.next());
                        leads = true;
                    }
                }
                Flow::Jump(to) | Flow::Branch(to) if is_outside(to) => {
                    leads |= self.leads_to_futex(to, depth - 1);
                }
                _ if instruction.is_system_call() => {
                    if number == u64::try_from(libc::SYS_futex).ok() {
                        self.returns.insert(instruction.next());
                        leads = true;
                    }
                    number = None;
                }
                _ => number = instruction.number_of_system_call().or(number),
            }
        }
        self.known.insert(start, leads);
        leads
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::super::unwind::tests::{map, symbol};
    use super::*;

    /// A C library as compilers make it: the system call is made two calls below the mutex, and
    /// another system call beside it.
    const SOURCE: &str = "
        static volatile int cell;
        __attribute__((noinline, noclone)) long futex(void) {
            long result;
            __asm__ volatile(\"mov $202, %%eax; syscall\" : \"=a\"(result) : : \"rcx\", \"r11\", \"memory\");
            return result;
        }
        __attribute__((noinline, noclone)) long yield(void) {
            long result;
            __asm__ volatile(\"mov $24, %%eax; syscall\" : \"=a\"(result) : : \"rcx\", \"r11\", \"memory\");
            return result;
        }
        __attribute__((noinline, noclone)) long wait(void) { cell++; futex(); return cell; }
        __attribute__((noinline, noclone)) long jumps(void) { cell++; return futex(); }
        int __pthread_mutex_lock(void) { yield(); wait(); return cell; }
        int sem_wait(void) { jumps(); return cell; }
        int other(void) { futex(); wait(); return cell; }
        int main(void) { return other() + __pthread_mutex_lock() + sem_wait(); }";

    #[test]
    fn all_calls_on_the_way_to_a_futex_are_found() {
        let image = || map(&["-O2", "-fno-inline"], SOURCE);
        let unwind = Unwind::of(image()).unwrap();
        let image = image();
        let function = |address: u64| unwind.function(address - 1).unwrap().start;
        let found: Vec<u64> = returns(&unwind).into_iter().map(function).collect();
        let mut expected =
            ["futex", "wait", "__pthread_mutex_lock", "sem_wait"].map(|name| symbol(&image, name));
        expected.sort_unstable();
        // One return address in each function; none for the other system call, and none in a
        // function that is not for locks.
        assert_eq!(found, expected);
    }
}
