//! x86-64, as Linux and the System V ABI use it.

pub mod awaits;
pub mod breakpoint;
pub mod code;
pub mod displaced;
pub mod effect;
pub mod files;
pub mod frame;
pub mod handed;
pub mod instruction;
pub mod passed;
pub mod patterns;
pub mod prologue;
pub mod registers;
pub mod rehearsal;
pub mod stubs;
pub mod trampoline;
pub mod unwind;
pub mod values;
pub mod ways;
