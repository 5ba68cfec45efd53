//! Objects of musl at which threads wait, by what their memory holds (musl 1.1.16 to 1.2.5).

use super::{barriers::FoundBarrier, futex::Futex};
use sbt_engine::event::Kind;
use sbt_program::memory::Memory;

/// Offsets in `struct pthread` (`src/internal/pthread_impl.h`): the structure begins with its own
/// address, and threads that wait for its end wait at `detach_state`.
const NUMBER: u64 = 48;
const DETACH_STATE: u64 = 56;

/// Offsets in `struct instance` (`src/thread/pthread_barrier_wait.c`), which lies on the stack of
/// the thread that came first: `count` of the others, `last` on which these wait, and `finished` on
/// which the first waits.
const LAST: u64 = 4;
const FINISHED: u64 = 12;

/// The most threads of a barrier; more are garbage.
const MOST: u32 = 1 << 20;

/// The number of the thread, in its own pid namespace, for whose end a thread waits at a futex.
pub fn joined(futex: Futex, memory: Memory) -> Option<u32> {
    let thread = futex.address.checked_sub(DETACH_STATE)?;
    if memory.word(thread) != Some(thread) {
        return None;
    }
    let number = memory.bytes(thread + NUMBER)?;
    Some(u32::from_ne_bytes(number))
}

/// The barrier at which a thread waits at a futex: the present round of it. How many threads it
/// waits for is not in the memory of the round.
pub fn barrier(futex: Futex, memory: Memory) -> Option<FoundBarrier> {
    let number = |address: u64| memory.bytes(address).map(u32::from_ne_bytes);
    let is_first = futex.expected == 1;
    let before = if is_first { FINISHED } else { LAST };
    let round = futex.address.checked_sub(before)?;
    let (count, last) = (number(round)?, number(round.checked_add(LAST)?)?);
    let finished = number(round.checked_add(FINISHED)?)?;
    (count < MOST && last == 0 && finished <= 1).then(|| FoundBarrier {
        address: round,
        kind: Kind::Pthread,
        participants: None,
        arrived: Some(count + 1),
        shared: false,
        at_end: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(words: &[u32], at: usize, expected: u32) -> (Futex, Memory) {
        let address = words.as_ptr().expose_provenance() as u64 + 4 * at as u64;
        let futex = Futex {
            address,
            expected,
            inherits: false,
            plain: true,
            timed: false,
            private: true,
        };
        let memory = Memory {
            thread: std::process::id(),
        };
        (futex, memory)
    }

    #[test]
    fn first_and_others_wait_at_one_barrier() {
        let round = [2_u32, 0, 0, 1];
        let (first, memory) = here(&round, 3, 1);
        let (other, _) = here(&round, 1, 0);
        let [first, other] = [first, other].map(|futex| barrier(futex, memory).unwrap());
        assert_eq!(first.address, other.address);
        assert_eq!((first.arrived, first.participants), (Some(3), None));
        let garbage = [u32::MAX, 0, 0, 1];
        let (futex, memory) = here(&garbage, 1, 0);
        assert!(barrier(futex, memory).is_none());
    }

    #[test]
    fn a_thread_is_known_by_its_own_address() {
        let mut thread = [0_u64; 10];
        let own = thread.as_ptr().expose_provenance() as u64;
        thread[0] = own;
        thread[6] = 77;
        let (mut futex, memory) = here(&[0], 0, 2);
        futex.address = own + DETACH_STATE;
        assert_eq!(joined(futex, memory), Some(77));
        futex.address += 8;
        assert_eq!(joined(futex, memory), None);
        assert_eq!(thread[6], 77);
    }
}
