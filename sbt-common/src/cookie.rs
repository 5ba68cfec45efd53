//! What a probe tells the BPF program that it runs: 64 bits, set when it is attached.

/// How the memory of a barrier object is laid out; bits 0 to 6 of a probe's cookie.
pub mod layout {
    /// The object cannot be read: the participant count stays unknown.
    pub const OPAQUE: u8 = 0;
    /// glibc ≥ 2.25, `struct pthread_barrier` (sysdeps/nptl/internaltypes.h):
    /// `in`, `current_round`, `count`, `shared`, `out`, 32 bits each.
    pub const GLIBC: u8 = 1;
    /// musl, `pthread_barrier_t` (include/alltypes.h.in, pthread_impl.h):
    /// `_b_lock`, `_b_waiters`, `_b_limit` (count - 1, sign bit if shared), …
    pub const MUSL: u8 = 2;
    /// A function that the user named: nothing is known about the object, but an argument of the
    /// function may be the count.
    pub const USER: u8 = 3;
    /// GNU OpenMP, `gomp_barrier_t` (libgomp/config/linux/bar.h): `total`,
    /// `generation`, 32 bits each, …
    pub const GOMP: u8 = 4;
    /// LLVM's OpenMP: the object is the team, `kmp_team_t`, which is found through the number of
    /// the thread; see [`crate::Kmp`].
    pub const KMP: u8 = 5;
    /// `std::barrier` of C++: the object begins with the number of threads.
    pub const STD: u8 = 6;
    /// As [`STD`], but the register points to a word that holds the object's address.
    pub const STD_POINTED: u8 = 7;
    /// As [`STD`], inlined into the program: the probe stands on a call there, and the call is the
    /// place. The field for the stack's move is not needed, and extends the displacement: see
    /// [`super::Cookie::far`].
    pub const STD_INLINED: u8 = 8;
    /// `std::sync::Barrier` of Rust, from its field with the number of threads on.
    pub const RUST: u8 = 9;
    /// A collective operation of MPI: the object is the communicator, which each process describes
    /// by itself.
    pub const MPI: u8 = 10;
    /// As [`MPI`], of a library whose communicators are numbers of 32 bits: MPICH and its kin.
    pub const MPI_NUMBERED: u8 = 11;
}

/// Bits of [`Cookie::count`] for teams.
pub mod team {
    /// The object begins with the number of threads.
    pub const HAS_COUNT: u8 = 1;
    /// The object's address is not in the register, but in the word at register +
    /// [`super::Cookie::stack_moved`], which is in two's complement.
    pub const SPILLED: u8 = 2;
    /// This barrier ends a parallel region: see [`crate::record::ENDS`].
    pub const ENDS: u8 = 4;
    /// The object lies in the frame of the function: see [`super::Cookie::object`].
    pub const ON_STACK: u8 = 8;
}

/// What a probe tells the BPF program that it runs, packed into its 64-bit cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// The kernel single-steps the probed instruction instead of emulating it.
    pub stepped: bool,
    /// One of [`layout`]; for condition variables, [`crate::kind::WAIT`] or [`crate::kind::WAKE`]; for
    /// functions of MPI that make something, the function: see [`crate::Make`].
    pub layout: u8,
    /// Where the object's address is. For [`layout::USER`] and teams: the number of the argument, 1
    /// to 6, or 0 for none. For MPI: 1 to 15, where arguments from 7 on are on the
    /// stack. For teams also other registers: 7 rax, 8 rbx, 9 rbp, 10 to 15 the registers of these
    /// numbers; 0 is the rip of the probe, or rsp with [`team::SPILLED`] or [`team::ON_STACK`].
    pub object: u8,
    /// The argument with the number of participants, numbered as `object`; 0 for none. For a
    /// function that wakes waiters of a condition variable: how many it wakes at most, 0 for all.
    /// For teams: bits of [`team`]; for [`layout::KMP`]: bits of [`crate::kmp`]. For functions of MPI
    /// that make something: the argument that is a list.
    pub count: u8,
    /// Number of bytes by which the prologue has moved the stack pointer down before the probed
    /// instruction: the return address lies that far above the stack pointer.
    pub stack_moved: u16,
    /// For teams: offset of the object from the register's value, bytes, in two's complement. For
    /// [`layout::KMP`]: the number of the [`crate::Kmp`]. For functions of MPI that make something: how
    /// many numbers an element of the list has, or [`crate::LENGTH_UNKNOWN`]. For collective operations
    /// of MPI: the number of the function, see [`crate::Arrive::collective`].
    pub displacement: u16,
    /// A probe counts while this equals the low bits of [`crate::State::generation`].
    pub generation: u16,
}

impl Cookie {
    /// Length in bytes of the call on which a probe for [`layout::STD_INLINED`] stands. The place
    /// is the address behind it, as with any call.
    pub const CALL: u8 = 5;

    /// For [`layout::STD_INLINED`]: offset in bytes, with [`Cookie::displacement`] as the lower
    /// half and [`Cookie::stack_moved`] as the upper. The object lies that far above the register's
    /// value; with [`team::SPILLED`], the word with its address does.
    #[must_use]
    pub const fn far(self) -> i32 {
        (self.displacement as u32 | (self.stack_moved as u32) << 16).cast_signed()
    }

    /// Packs: bits 0-6 the layout, 7 whether it is stepped, 8-11 the object, 12-15 the count, 16-31
    /// the stack's move, 32-47 the displacement, 48-63 the generation.
    #[must_use]
    pub const fn pack(self) -> u64 {
        (self.layout & 127) as u64
            | (self.stepped as u64) << 7
            | (self.object as u64 & 15) << 8
            | (self.count as u64 & 15) << 12
            | (self.stack_moved as u64) << 16
            | (self.displacement as u64) << 32
            | (self.generation as u64) << 48
    }

    /// The inverse of [`Cookie::pack`].
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "taking the fields apart is the point"
    )]
    pub const fn unpack(bits: u64) -> Self {
        Self {
            stepped: bits & 128 != 0,
            layout: bits as u8 & 127,
            object: (bits >> 8) as u8 & 15,
            count: (bits >> 12) as u8 & 15,
            stack_moved: (bits >> 16) as u16,
            displacement: (bits >> 32) as u16,
            generation: (bits >> 48) as u16,
        }
    }
}

/// What the probe of a mark tells its BPF program, packed into its cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkCookie {
    /// The mark: its index in the settings.
    pub mark: u8,
    /// See [`Cookie::stepped`].
    pub stepped: bool,
    /// See [`Cookie::generation`].
    pub generation: u16,
}

impl MarkCookie {
    /// Instead of a mark: a parallel region of OpenMP begins here.
    pub const REGION: u8 = u8::MAX;

    /// Instead of a mark: a thread that has arrived at a barrier begins to wait there.
    pub const AWAITS: u8 = u8::MAX - 1;

    /// What [`crate::Depart::mark`] tells; `rsp` is the stack pointer at the mark.
    #[must_use]
    #[inline(always)]
    pub const fn told(self, rsp: u64) -> u32 {
        let mark = self.mark as u32;
        if self.mark == Self::REGION {
            mark | ((rsp >> 3) as u32) << 8
        } else {
            mark
        }
    }

    /// Packs: bits 0-7 the mark, 8 whether it is stepped, 48-63 the generation.
    #[must_use]
    pub const fn pack(self) -> u64 {
        self.mark as u64 | (self.stepped as u64) << 8 | (self.generation as u64) << 48
    }

    /// The inverse of [`MarkCookie::pack`].
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "taking the fields apart is the point"
    )]
    pub const fn unpack(bits: u64) -> Self {
        Self {
            mark: bits as u8,
            stepped: bits & 256 != 0,
            generation: (bits >> 48) as u16,
        }
    }
}
