//! The code that compilers make of waiting at a `std::barrier` of libstdc++ (`bits/atomic_wait.h`): the
//! thread adds itself to a count of sleepers, and looks at the barrier's phase, a byte, with pauses in
//! between, before it sleeps.

use std::collections::BTreeSet;

use iced_x86::{Mnemonic, OpKind};

use super::{
    code::Code,
    instruction::{Callee, Flow, Instruction},
    prologue::{Stand, stand},
};

/// The ways in which an instruction begins that adds 1 to a word in one atomic step.
const ADDING: [&[u8]; 4] = [
    &[0xf0, 0x83],
    &[0xf0, 0x41, 0x83],
    &[0xf0, 0xff],
    &[0xf0, 0x41, 0xff],
];

/// The most instructions from there to the look at the phase.
const LOOKS: usize = 40;

/// `pause`, and the most bytes from there to it.
const PAUSE: [u8; 2] = [0xf3, 0x90];
const PAUSES: usize = 256;

/// The most instructions between an arrival and a wait that follows at once: the thread counts itself,
/// and the last one wakes the others.
const AT_ONCE: usize = 400;

/// The most instructions from the beginning of a function to a wait in it.
const IN_FUNCTION: usize = 160;

/// Number of the system call for futexes, which wakes the others.
const FUTEX: u64 = 202;

/// The instructions at which threads have just begun to wait, in the order of addresses.
pub fn waits_of_libstdcxx(text: &Code<'_>) -> Vec<Instruction> {
    let adding = ADDING.iter().flat_map(|bytes| text.find(bytes));
    let mut waits: Vec<Instruction> = adding.filter_map(|at| wait_at(text, at)).collect();
    waits.sort_by_key(Instruction::at);
    waits
}

/// The instruction after the addition at `at`, if a wait begins there.
fn wait_at(text: &Code<'_>, at: u64) -> Option<Instruction> {
    let adds = text.instructions(at, u64::MAX).next()?;
    let Instruction(adding) = &adds;
    let adds_one = match adding.mnemonic() {
        Mnemonic::Add => adding.op1_kind() == OpKind::Immediate8to32 && adding.immediate8() == 1,
        Mnemonic::Inc => true,
        _ => false,
    };
    let is_word = adding.op0_kind() == OpKind::Memory && adding.memory_size().size() == 4;
    if !adds_one || !is_word {
        return None;
    }
    let near = text.from(at);
    memchr::memmem::find(&near[..near.len().min(PAUSES)], &PAUSE)?;
    let mut here = adds.next();
    for _ in 0..LOOKS {
        let next = text.instructions(here, u64::MAX).next()?;
        here = match next.flow() {
            Flow::Next | Flow::Branch(_) => next.next(),
            Flow::Jump(to) => to,
            _ => return None,
        };
        let Instruction(decoded) = &next;
        let reads = (0..decoded.op_count()).any(|op| decoded.op_kind(op) == OpKind::Memory);
        if reads && decoded.memory_size().size() == 1 {
            return place_after(text, &adds);
        }
    }
    None
}

/// Where a probe goes: on an instruction that always follows, if possible on one that the kernel
/// emulates. The addition itself cannot bear one.
fn place_after(text: &Code<'_>, adds: &Instruction) -> Option<Instruction> {
    let following = text.instructions(adds.next(), u64::MAX);
    let mut goes_on = true;
    let always = following.take_while(|next| {
        // A jump is the last that always follows.
        std::mem::replace(&mut goes_on, next.flow() == Flow::Next)
    });
    let bears = |next: &Instruction| stand(text.bytes_of(next)).ok();
    let places = always.take(LOOKS);
    let places: Vec<_> = places
        .filter_map(|next| Some((bears(&next)?, next)))
        .collect();
    let emulated = places.iter().find(|(how, _)| *how == Stand::Emulated);
    emulated.or(places.first()).map(|(_, next)| *next)
}

/// Whether a thread that arrives by the call at `arrival` does something else before it waits at one
/// of `waits`.
pub fn is_apart(text: &Code<'_>, arrival: &Instruction, waits: &[Instruction]) -> bool {
    let is_wait = |instruction: &Instruction| {
        let found = waits.binary_search_by_key(&instruction.at(), Instruction::at);
        found.is_ok()
    };
    let inside = |function: u64| {
        let code = text.instructions(function, u64::MAX).take(IN_FUNCTION);
        code.take_while(move |next| match next.flow() {
            Flow::Return => false,
            Flow::Jump(to) => to > function,
            _ => true,
        })
    };
    let mut ways = vec![arrival.next()];
    let mut seen = BTreeSet::new();
    while let Some(from) = ways.pop() {
        let mut wakes = false;
        for next in text.instructions(from, u64::MAX) {
            if is_wait(&next) || !seen.insert(next.at()) || seen.len() > AT_ONCE {
                break;
            }
            wakes |= is_number_of_futex(&next);
            match next.flow() {
                Flow::Branch(to) => ways.push(to),
                Flow::Jump(to) => {
                    ways.push(to);
                    break;
                }
                Flow::Call(_) if wakes => wakes = false,
                Flow::Call(Callee::At(to)) if inside(to).any(|next| is_wait(&next)) => break,
                Flow::Call(Callee::At(to)) if inside(to).any(|next| is_number_of_futex(&next)) => {}
                Flow::Call(_) | Flow::Return => return true,
                _ => {}
            }
        }
    }
    false
}

/// Whether an instruction takes the number of that system call as the argument of a call.
fn is_number_of_futex(Instruction(instruction): &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Mov
        && instruction.op1_kind() == OpKind::Immediate32
        && u64::from(instruction.immediate32()) == FUTEX
}
