//! How to find the team of a thread in LLVM's OpenMP, and the bits of
//! [`count`](crate::Cookie::count) for [`KMP`](crate::layout::KMP).

use crate::{Caller, Cookie, Reader, Registers};

/// [`stack_moved`](crate::Cookie::stack_moved) counts from rbp instead of rsp.
pub const FRAME: u8 = 1;
/// The thread goes on without being released: nothing shows when it leaves the barrier.
pub const PASSES: u8 = 2;
/// This barrier ends a parallel region.
pub const ENDS: u8 = 4;
/// In [`Outer::above`]: the return address lies above the frame whose address the inner function
/// has saved right below its own return address.
pub const SAVED: u32 = 0;
/// In [`Outer::above`]: the return address lies above the frame whose address is in rbp.
pub const HELD: u32 = 1;

/// Where a team counts the rounds of its explicit barriers, of the ends of its parallel regions and
/// of its reductions: offsets of `t.t_bar[].b_arrived` in `kmp_team_t`, 64 bits each
/// (`openmp/runtime/src/kmp.h`; each is a cache line of 64 bytes behind the previous one, see
/// `LibompDefinitions.cmake`). The barriers of `KMP_PLAIN_BARRIER_PATTERN=dist` do not count.
pub const ARRIVED: [u32; 3] = [0x40, 0x80, 0xc0];
/// What a round adds to these counts: `KMP_BARRIER_STATE_BUMP`.
pub const ROUND: u64 = 4;
/// The counts of a living team are below this. A larger count means that the team is gone and its
/// memory holds something else: pointers of the allocator, or the pattern with which the allocator
/// or the runtime fills freed memory (`MALLOC_PERTURB_`; `___kmp_free` in `kmp_alloc.cpp`, in some
/// builds). The runtime ends before the program's first thread does. The limit is the number of
/// rounds for which the record has bits.
pub const MOST: u64 = ROUND << 32;

/// [`arrived`](crate::Memory::arrived) for [`KMP`](crate::layout::KMP): the thread ends.
pub const LAST: u32 = 1;
/// As [`LAST`], and the team is gone: its rounds are unknown.
pub const GONE: u32 = 2;

/// Number of rounds of a team, from the counts at [`ARRIVED`]; `None` if the team is gone.
#[inline(always)]
pub const fn rounds(counts: [u64; 3]) -> Option<u32> {
    let [a, b, c] = counts;
    if a | b | c >= MOST {
        return None;
    }
    Some((a.wrapping_add(b).wrapping_add(c) / ROUND) as u32)
}

/// Number of rounds that the barriers of a team have had; `None` if the team is gone.
#[inline(always)]
pub fn rounds_of(team: u64, memory: &impl Reader) -> Option<u32> {
    rounds(ARRIVED.map(|at| memory.word(team.wrapping_add(u64::from(at)))))
}

/// How to get from the number of an LLVM OpenMP thread to its team, for one probe: a value of the
/// map [`crate::name::KMP`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Kmp {
    /// Offset from the probed instruction to the variable `__kmp_threads`, which points to an array
    /// of pointers to `kmp_info_t`, one for each thread.
    pub threads: i32,
    /// `kmp_info_t` → `th.th_team`, a pointer
    pub team: u32,
    /// `kmp_team_t` → `t.t_nproc`, 32 bits
    pub count: u32,
    /// Zero.
    pub reserved: u32,
    /// The calls in the runtime itself that may lead to the function of the probe; zeros after the
    /// last.
    pub outer: [Outer; MAX_OUTER],
}

/// A call of an inner function by an outer function of the runtime, which the program has called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Outer {
    /// Offset from the probed instruction to the instruction behind the call.
    pub returns: i32,
    /// Offset on the stack from the return address of this call to the return address of the outer
    /// function; or [`SAVED`], or [`HELD`].
    pub above: u32,
}

/// Length of [`Kmp::outer`].
pub const MAX_OUTER: usize = 16;

/// A barrier of LLVM's OpenMP that a thread comes to.
#[derive(Clone, Copy, Debug)]
pub struct KmpHit {
    /// Address of the team.
    pub team: u64,
    /// Number of threads of the team; 0 if it cannot be read.
    pub count: u32,
    /// Where on the stack the return address of the runtime's function lies.
    pub at: u64,
    /// The program's call of the runtime.
    pub caller: Caller,
}

impl Kmp {
    /// What a probe with this cookie was hit for; `None` if the thread has no team.
    #[inline(always)]
    pub fn hit(
        &self,
        cookie: Cookie,
        registers: &impl Registers,
        memory: &impl Reader,
    ) -> Option<KmpHit> {
        let number = registers.numbered(cookie.object) as u32;
        let threads = registers.rip().wrapping_add_signed(i64::from(self.threads));
        let threads = memory.word(threads);
        let thread = memory.word(threads.wrapping_add(u64::from(number) * 8));
        let team = memory.word(thread.wrapping_add(u64::from(self.team)));
        if team == 0 {
            return None;
        }
        let [count] = memory.halves(team.wrapping_add(u64::from(self.count)));
        let (stack, frame) = (registers.rsp(), registers.rbp());
        let from_frame = cookie.count & FRAME != 0;
        let base = if from_frame { frame } else { stack };
        let at = base.wrapping_add(u64::from(cookie.stack_moved));
        Some(KmpHit {
            team,
            count,
            at,
            // rip is loaded once more: kept meanwhile, it costs room on the stack.
            caller: self.caller(registers.rip(), at, frame, memory),
        })
    }

    /// The program's call of the runtime. `at` is where the innermost return address lies on the
    /// stack. The caller's rbp is known only if the last function of the runtime has a frame pointer,
    /// and so stored the caller's rbp just below the return address.
    #[inline(always)]
    fn caller(&self, probed: u64, at: u64, frame: u64, memory: &impl Reader) -> Caller {
        let address = memory.word(at);
        let saved_below = |at: u64| memory.word(at.wrapping_sub(8));
        for outer in &self.outer {
            if outer.returns == 0 {
                break;
            }
            if probed.wrapping_add_signed(i64::from(outer.returns)) == address {
                let at = match outer.above {
                    SAVED => memory.word(at.wrapping_sub(8)).wrapping_add(8),
                    HELD => frame.wrapping_add(8),
                    above => at.wrapping_add(u64::from(above)),
                };
                let has_frame = matches!(outer.above, SAVED | HELD);
                return Caller {
                    at,
                    address: memory.word(at),
                    rbp: if has_frame { saved_below(at) } else { 0 },
                };
            }
        }
        let has_frame = frame.wrapping_add(8) == at;
        Caller {
            at,
            address,
            rbp: if has_frame { saved_below(at) } else { 0 },
        }
    }
}
