//! Conversion between records and bytes.

use super::{
    Arrive, Asleep, Away, CODE_AROUND, Callers, Clocks, Code, Condvar, Config, Counted, Counts,
    Depart, Futex, Head, Init, Kmp, Left, Lock, MAKE_LIST, MAX_CALLERS, MAX_EVENTS, Made, Make,
    Making, Mapping, Memory, Mpi, Outer, Reading, Rule, STACK_WORDS, Sleep, Sleeper, Slept, Speed,
    State, Sums, TASK_COUNTS, Taker, Thread, WAKERS, Woken,
};

/// A type that may be copied out of raw bytes.
///
/// # Safety
/// The type is `repr(C)`, without padding, and every bit pattern is a value.
pub unsafe trait Plain: Copy + 'static {}

// SAFETY: integers and arrays of them only; the sizes below leave no padding.
unsafe impl Plain for Head {}
// SAFETY: as above.
unsafe impl Plain for Arrive {}
// SAFETY: as above.
unsafe impl Plain for Condvar {}
// SAFETY: as above.
unsafe impl Plain for Futex {}
// SAFETY: as above.
unsafe impl Plain for Lock {}
// SAFETY: as above.
unsafe impl Plain for Callers {}
// SAFETY: as above.
unsafe impl Plain for Code {}
// SAFETY: as above.
unsafe impl Plain for Rule {}
// SAFETY: as above.
unsafe impl Plain for Config {}
// SAFETY: as above.
unsafe impl Plain for State {}
// SAFETY: as above.
unsafe impl Plain for Depart {}
// SAFETY: as above.
unsafe impl Plain for Memory {}
// SAFETY: as above.
unsafe impl Plain for Mpi {}
// SAFETY: as above.
unsafe impl Plain for Outer {}
// SAFETY: as above.
unsafe impl Plain for Kmp {}
// SAFETY: as above.
unsafe impl Plain for Init {}
// SAFETY: as above.
unsafe impl Plain for Thread {}
// SAFETY: as above.
unsafe impl Plain for Mapping {}
// SAFETY: as above.
unsafe impl Plain for Counts {}
// SAFETY: as above.
unsafe impl Plain for Sums {}
// SAFETY: as above.
unsafe impl Plain for Counted {}
// SAFETY: as above.
unsafe impl Plain for Away {}
// SAFETY: as above.
unsafe impl Plain for Taker {}
// SAFETY: as above.
unsafe impl Plain for Left {}
// SAFETY: as above.
unsafe impl Plain for Sleeper {}
// SAFETY: as above.
unsafe impl Plain for Sleep {}
// SAFETY: as above.
unsafe impl Plain for Slept {}
// SAFETY: as above.
unsafe impl Plain for Asleep {}
// SAFETY: as above.
unsafe impl Plain for Woken {}
// SAFETY: as above.
unsafe impl Plain for Speed {}
// SAFETY: as above.
unsafe impl Plain for Make {}
// SAFETY: as above.
unsafe impl Plain for Made {}
// SAFETY: as above.
unsafe impl Plain for Making {}

/// Copies a record out of the bytes of a ring; `None` if the length does not fit.
#[must_use]
pub fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() != size_of::<T>() {
        return None;
    }
    // SAFETY: long enough by the check above, and T is Plain.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The bytes of a value.
#[must_use]
pub fn bytes<T: Plain>(value: &T) -> &[u8] {
    let start = core::ptr::from_ref(value).cast();
    // SAFETY: Plain types are without padding, so every byte is initialised.
    unsafe { core::slice::from_raw_parts(start, size_of::<T>()) }
}

const _: () = {
    assert!(size_of::<Head>() == 8);
    assert!(size_of::<Clocks>() == 24);
    assert!(size_of::<Arrive>() == 56);
    assert!(size_of::<Condvar>() == 56);
    assert!(size_of::<Callers>() == 32 + 8 * MAX_CALLERS);
    assert!(size_of::<Rule>() == 16);
    assert!(size_of::<Code>() == 8 + 2 * CODE_AROUND);
    assert!(size_of::<Depart>() == 40);
    assert!(size_of::<Memory>() == 40);
    assert!(size_of::<Mpi>() == 8);
    assert!(size_of::<Init>() == 32);
    assert!(size_of::<Thread>() == 72);
    assert!(size_of::<Mapping>() == 24);
    assert!(size_of::<Config>() == 184);
    assert!(size_of::<State>() == 56);
    assert!(size_of::<Futex>() == 16);
    assert!(size_of::<Lock>() == 72);
    assert!(size_of::<Kmp>() == 144);
    assert!(size_of::<Away>() == 40);
    assert!(size_of::<Taker>() == 48);
    assert!(size_of::<Left>() == 64);
    assert!(size_of::<Reading>() == 24);
    assert!(size_of::<Sleeper>() == 48);
    assert!(size_of::<Sleep>() == 24);
    assert!(size_of::<Slept>() == 32 + 16 * WAKERS);
    assert!(size_of::<Asleep>() == 96 + 8 * STACK_WORDS);
    assert!(size_of::<Woken>() == 24);
    assert!(size_of::<Speed>() == 24);
    assert!(size_of::<Make>() == 88 + 4 * MAKE_LIST);
    assert!(size_of::<Made>() == 40);
    assert!(size_of::<Making>() == 32);
    assert!(size_of::<Counts>() == 24 + 8 * TASK_COUNTS);
    assert!(size_of::<Sums>() == 32 + 24 * MAX_EVENTS);
    assert!(size_of::<Counted>() == 16 + 48 * MAX_EVENTS);
};
