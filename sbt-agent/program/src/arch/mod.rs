//! All that knows the processor: one folder for each architecture, and this file, which names what
//! an architecture gives and selects one.
//!
//! Nothing here uses another module of this crate. Another architecture is another folder that
//! gives the same names.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as here;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("sbt runs on x86-64: another architecture needs a folder in sbt-program's src/arch");

pub(crate) use here::instruction::{Analysis, Flow, LOCK, Put, decode};
/// Instructions: what they do to the flow of control, to registers and to memory.
pub use here::instruction::{Callee, Instruction};
/// The code of a file, and what is found by searching all of it.
pub(crate) use here::{
    code::{Code, Transfer, transfer},
    stubs::Stubs,
};
/// Calls in raw bytes: whether one ends there, what it calls, and what it passes.
pub(crate) use here::{
    handed::{Handed, address_handed, handed},
    instruction::{Called, called_by, ends_with_call, ends_with_direct_call},
    passed::address_passed,
};
/// On which instruction a probe may stand, and how the kernel executes that instruction.
pub mod prologue {
    pub(crate) use super::here::prologue::is_emulated;
    pub use super::here::prologue::{
        Body, Choice, ProbePlace, Refusal, Stand, beyond, choose, choose_keeping, choose_lone,
        is_probeable, stand, ways_out,
    };
}
/// Programs: the machine and the relocations of their files, and where their dynamic linkers lie.
pub(crate) use here::files;
/// Registers: their roles in calls, the numbers that probes use for them, and the registers of a
/// thread that stands still.
pub use here::registers::Registers;
pub(crate) use here::registers::{
    ARGUMENTS, FRAME, KEPT, ON_STACK, OTHER_REGISTERS, RESULT, Register, STACK, number,
};
/// Code that a thread of the target runs in place of one instruction, to note that it has come there.
pub use here::trampoline;
/// Unwinding: DWARF's numbers of registers, and functions that keep a frame pointer.
pub(crate) use here::unwind;
/// The effects of a waiting loop's instructions, a simulated thread that executes them, the values of
/// registers after some code, and the code that compilers make of the runtimes' barriers.
pub(crate) use here::{awaits, effect, patterns, rehearsal, values};
/// Breakpoints: the instruction, and how a thread executes what a breakpoint has displaced.
pub use here::{
    breakpoint::{BREAKPOINT, LONG_BREAKPOINT},
    displaced,
};
/// System calls that a thread makes for sbt: the code for them, and the signal frame from which the
/// thread goes on.
pub use here::{
    frame,
    ways::{self, InjectionCode},
};
