//! Which barrier a probe was hit for, and from where: registers and memory in, object out.

use crate::{Caller, Cookie, Reader, Registers, layout, team};

impl Cookie {
    /// Where on the stack the return address of the probed function lies.
    #[inline(always)]
    pub fn returns_at(self, registers: &impl Registers) -> u64 {
        registers.rsp().wrapping_add(u64::from(self.stack_moved))
    }

    /// The object of a function that the user has named, or of MPI. `at`: see
    /// [`Cookie::returns_at`]; `argument` gives the arguments 1 to 6, and the instruction pointer
    /// for 0: without an object the function itself is the barrier.
    #[inline(always)]
    pub fn called(self, at: u64, argument: impl Fn(u8) -> u64, memory: &impl Reader) -> u64 {
        if self.object > 6 {
            memory.word(at.wrapping_add(8 * u64::from(self.object - 6)))
        } else {
            argument(self.object)
        }
    }
}

/// A barrier of a team that a thread comes to.
#[derive(Clone, Copy, Debug)]
pub struct TeamHit {
    /// Address of the barrier object.
    pub object: u64,
    /// Number of threads of the team; 0 if unknown.
    pub count: u32,
    /// What follows the number of threads in memory: in GNU OpenMP the round.
    pub round: u32,
    /// The caller of the barrier.
    pub caller: Caller,
}

impl TeamHit {
    /// What a probe with this cookie was hit for.
    #[inline(always)]
    pub fn read(cookie: Cookie, registers: &impl Registers, memory: &impl Reader) -> Self {
        let inlined = cookie.layout == layout::STD_INLINED;
        let spilled = cookie.count & team::SPILLED != 0;
        let (stack, probed, frame) = (registers.rsp(), registers.rip(), registers.rbp());
        let from_stack = spilled || cookie.count & team::ON_STACK != 0;
        let held = match (cookie.object, from_stack) {
            (0, true) => stack,
            (0, false) => probed,
            (number, _) => registers.numbered(number),
        };
        let base = if spilled {
            let above = i64::from(cookie.stack_moved.cast_signed());
            memory.word(held.wrapping_add_signed(above))
        } else if cookie.layout == layout::STD_POINTED {
            memory.word(held)
        } else {
            held
        };
        let above = if inlined && !spilled {
            i64::from(cookie.far())
        } else {
            i64::from(cookie.displacement.cast_signed())
        };
        let object = base.wrapping_add_signed(above);
        let [count, round] = if cookie.count & team::HAS_COUNT == 0 {
            [0, 0]
        } else {
            memory.halves(object)
        };
        let (at, address) = if inlined {
            // As if the inlined function had been called.
            let returns_to = probed.wrapping_add(u64::from(Cookie::CALL));
            (stack.wrapping_sub(8), returns_to)
        } else {
            let at = cookie.returns_at(registers);
            (at, memory.word(at))
        };
        // The runtime's own code may have changed rbp meanwhile.
        let rbp = if cookie.layout == layout::GOMP {
            0
        } else {
            frame
        };
        Self {
            object,
            count,
            round,
            caller: Caller { at, address, rbp },
        }
    }
}
