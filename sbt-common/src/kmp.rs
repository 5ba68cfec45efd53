//! How to find the team of a thread in LLVM's OpenMP, and the bits of
//! [`count`](crate::Cookie::count) for [`KMP`](crate::layout::KMP).

/// [`stack_moved`](crate::Cookie::stack_moved) counts from rbp, and not from rsp.
pub const FRAME: u8 = 1;
/// The thread goes on without being released: nothing shows when it leaves.
pub const PASSES: u8 = 2;
/// A parallel region ends with this barrier.
pub const ENDS: u8 = 4;
/// [`Outer::above`]: it lies above the frame whose address the inner
/// function has saved right below its own return address.
pub const SAVED: u32 = 0;
/// Likewise, above the frame whose address is in rbp.
pub const HELD: u32 = 1;

/// Where a team counts the rounds of its explicit barriers, of the ends of its parallel
/// regions and of its reductions: offsets of `t.t_bar[].b_arrived` in `kmp_team_t`, 64 bits each
/// (`openmp/runtime/src/kmp.h`; a line of the cache each behind the first one, which are 64
/// bytes by `LibompDefinitions.cmake`). The barriers of `KMP_PLAIN_BARRIER_PATTERN=dist` do not count.
pub const ARRIVED: [u32; 3] = [0x40, 0x80, 0xc0];
/// What a round adds there: `KMP_BARRIER_STATE_BUMP`.
pub const ROUND: u64 = 4;
/// More than that they do not hold while the team is there: then it is gone, and something else
/// lies there, as pointers of the allocator, or what it or the runtime fills with what it frees
/// (`MALLOC_PERTURB_`; `___kmp_free` in `kmp_alloc.cpp`, which a part of the builds does). The
/// runtime ends before the program's first thread does. As many rounds as the record has bits for.
pub const MOST: u64 = ROUND << 32;

/// [`arrived`](crate::Memory::arrived) for [`KMP`](crate::layout::KMP): the thread ends.
pub const LAST: u32 = 1;
/// Likewise, and the team is gone: its rounds are not known.
pub const GONE: u32 = 2;

/// How many rounds a team has had, by the counts at [`ARRIVED`]; `None` if it is gone.
#[inline(always)]
pub const fn rounds(counts: [u64; 3]) -> Option<u32> {
    let [a, b, c] = counts;
    if a | b | c >= MOST {
        return None;
    }
    Some((a.wrapping_add(b).wrapping_add(c) / ROUND) as u32)
}

/// How to get from the number of a thread of LLVM's OpenMP to its team, for one
/// probe: values of the map [`crate::name::KMP`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Kmp {
    /// How far above the probed instruction the variable `__kmp_threads` lies: it
    /// points to an array of pointers to `kmp_info_t`, one for each thread.
    pub threads: i32,
    /// `kmp_info_t` → `th.th_team`, a pointer
    pub team: u32,
    /// `kmp_team_t` → `t.t_nproc`, 32 bits
    pub count: u32,
    /// Zero.
    pub reserved: u32,
    /// Who of the runtime's own calls the function in which the probe is; zeros
    /// after the last.
    pub outer: [Outer; MAX_OUTER],
}

/// A call in a function of the runtime that the program has called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Outer {
    /// How far above the probed instruction the one lies to which it returns.
    pub returns: i32,
    /// How far above that return address on the stack that of the function lies,
    /// or [`SAVED`], or [`HELD`].
    pub above: u32,
}

/// Length of [`Kmp::outer`].
pub const MAX_OUTER: usize = 16;
