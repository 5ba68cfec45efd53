//! The code that compilers make of waiting at a `std::barrier` of libstdc++ (`bits/atomic_wait.h`): the
//! thread adds itself to the count of sleepers in one of a pool of 16 entries, which the address of
//! the barrier's phase chooses, and looks at the phase, a byte, with pauses in between, before it
//! sleeps.

use std::collections::BTreeSet;

use iced_x86::{Mnemonic, OpKind, Register};

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

/// The offset of an entry of the pool is a number with these bits; and the most bytes from the
/// instruction that computes it to the addition.
const ENTRIES: [u8; 4] = [0x80, 0x07, 0, 0];
const COMPUTES: u64 = 128;

/// The most instructions from the addition to the look at the phase.
const LOOKS: usize = 40;

/// `pause`, and the most bytes from the addition to it.
const PAUSE: [u8; 2] = [0xf3, 0x90];
const PAUSES: usize = 256;

/// The most instructions between an arrival and a wait that follows at once: the thread counts itself,
/// and the last one wakes the others.
const AT_ONCE: usize = 400;

/// The most instructions from the beginning of a function to a wait in it.
const IN_FUNCTION: usize = 160;

/// Number of the system call for futexes, which wakes the others.
const FUTEX: u64 = 202;

/// A place where a thread begins to wait.
#[derive(Clone, Copy, Debug)]
pub struct Begin {
    /// The address of the addition.
    adds_at: u64,
    /// The instruction for a probe: each thread that waits passes it once, at most twice.
    pub place: Instruction,
}

/// The places where threads begin to wait, in the order of addresses. `arrivals`: calls in the code,
/// in the order of addresses; from them on the code is known to be instructions.
pub fn waits_of_libstdcxx(text: &Code<'_>, arrivals: &[Instruction]) -> Vec<Begin> {
    let adding = ADDING.iter().flat_map(|bytes| text.find(bytes));
    let mut waits: Vec<Begin> = adding
        .filter_map(|at| wait_at(text, arrivals, at))
        .collect();
    waits.sort_by_key(|wait| wait.adds_at);
    waits
}

fn wait_at(text: &Code<'_>, arrivals: &[Instruction], at: u64) -> Option<Begin> {
    let adds = text.instructions(at, u64::MAX).next()?;
    let Instruction(adding) = &adds;
    let adds_one = match adding.mnemonic() {
        Mnemonic::Add => adding.op1_kind() == OpKind::Immediate8to32 && adding.immediate8() == 1,
        Mnemonic::Inc => true,
        _ => false,
    };
    let is_word = adding.op0_kind() == OpKind::Memory && adding.memory_size().size() == 4;
    // The entry for a barrier at a fixed address is known when the code is made.
    let chooses = adding.memory_base() == Register::RIP || chooses_entry(text, at);
    let near = text.from(at);
    let pauses = memchr::memmem::find(&near[..near.len().min(PAUSES)], &PAUSE).is_some();
    if !adds_one || !is_word || !chooses || !pauses || !looks_at_byte(text, &adds) {
        return None;
    }
    let after = place_after(text, &adds);
    let place = after.or_else(|| place_before(text, arrivals, &adds))?;
    Some(Begin { adds_at: at, place })
}

/// Whether code before the addition at `at` computes the offset of an entry.
fn chooses_entry(text: &Code<'_>, at: u64) -> bool {
    let before = text.from(at.saturating_sub(COMPUTES));
    let length = usize::try_from(COMPUTES).unwrap_or(0).min(before.len());
    memchr::memmem::find(&before[..length], &ENTRIES).is_some()
}

/// Whether the thread looks at a byte before it calls anything.
fn looks_at_byte(text: &Code<'_>, adds: &Instruction) -> bool {
    let mut here = adds.next();
    for _ in 0..LOOKS {
        let Some(next) = text.instructions(here, u64::MAX).next() else {
            return false;
        };
        here = match next.flow() {
            Flow::Next | Flow::Branch(_) => next.next(),
            Flow::Jump(to) => to,
            _ => return false,
        };
        let Instruction(decoded) = &next;
        let reads = (0..decoded.op_count()).any(|op| decoded.op_kind(op) == OpKind::Memory);
        if reads && decoded.memory_size().size() == 1 {
            return true;
        }
    }
    false
}

/// A place behind the addition, which cannot bear a probe itself: up to the first instruction to which
/// the loop that waits comes back.
fn place_after(text: &Code<'_>, adds: &Instruction) -> Option<Instruction> {
    let loops = text.instructions(adds.next(), adds.next() + PAUSES as u64);
    let targets: BTreeSet<u64> = loops.filter_map(|next| jumps_to(&next)).collect();
    let mut goes_on = true;
    let once = text.instructions(adds.next(), u64::MAX).take_while(|next| {
        // A jump is the last that always follows.
        let is_first = std::mem::replace(&mut goes_on, next.flow() == Flow::Next);
        is_first && !targets.contains(&next.at())
    });
    best(text, once.take(LOOKS))
}

/// A place in front of the addition, from which nothing but the addition follows.
fn place_before(
    text: &Code<'_>,
    arrivals: &[Instruction],
    adds: &Instruction,
) -> Option<Instruction> {
    let behind = arrivals.partition_point(|arrival| arrival.at() < adds.at());
    let arrival = arrivals[..behind].last()?;
    let known: Vec<Instruction> = text
        .instructions(arrival.at(), adds.next() + PAUSES as u64)
        .collect();
    let targets: BTreeSet<u64> = known.iter().filter_map(jumps_to).collect();
    let index = known.iter().position(|next| next.at() == adds.at())?;
    let mut is_target = targets.contains(&adds.at());
    let block = known[..index].iter().rev().copied().take_while(|next| {
        let falls_through = next.flow() == Flow::Next && !is_target;
        is_target = targets.contains(&next.at());
        falls_through
    });
    best(text, block.take(LOOKS))
}

fn jumps_to(instruction: &Instruction) -> Option<u64> {
    match instruction.flow() {
        Flow::Branch(to) | Flow::Jump(to) => Some(to),
        _ => None,
    }
}

/// The first of these instructions that the kernel emulates, or else that can bear a probe.
fn best(text: &Code<'_>, places: impl Iterator<Item = Instruction>) -> Option<Instruction> {
    let bears = |place: &Instruction| stand(text.bytes_of(place)).ok();
    let places: Vec<_> = places
        .filter_map(|place| Some((bears(&place)?, place)))
        .collect();
    let emulated = places.iter().find(|(how, _)| *how == Stand::Emulated);
    emulated.or(places.first()).map(|(_, place)| *place)
}

/// Whether a thread that arrives by the call at `arrival` always does something else, by a call or with
/// floating-point numbers, before it waits at one of `waits`.
pub fn is_apart(text: &Code<'_>, arrival: &Instruction, waits: &[Begin]) -> bool {
    let is_wait = |instruction: &Instruction| {
        let found = waits.binary_search_by_key(&instruction.at(), |wait| wait.adds_at);
        found.is_ok()
    };
    let inside = |function: u64| {
        let code = text.instructions(function, u64::MAX).take(IN_FUNCTION);
        code.take_while(move |next| match next.flow() {
            Flow::Return | Flow::Indirect(_) => false,
            Flow::Jump(to) => to > function,
            _ => true,
        })
    };
    let mut ways = vec![arrival.next()];
    let mut seen = BTreeSet::new();
    while let Some(from) = ways.pop() {
        let mut wakes = false;
        for next in text.instructions(from, u64::MAX) {
            if is_wait(&next) {
                return false;
            }
            if !seen.insert(next.at()) || seen.len() > AT_ONCE || computes(&next) {
                break;
            }
            wakes |= is_number_of_futex(&next);
            match next.flow() {
                Flow::Next => {}
                Flow::Branch(to) => ways.push(to),
                Flow::Jump(to) => {
                    ways.push(to);
                    break;
                }
                Flow::Call(_) if wakes => wakes = false,
                Flow::Call(Callee::At(to)) if inside(to).any(|next| is_wait(&next)) => {
                    return false;
                }
                Flow::Call(Callee::At(to)) if inside(to).any(|next| is_number_of_futex(&next)) => {}
                // The jump may lead to a function that waits.
                Flow::Indirect(_) => return false,
                _ => break,
            }
        }
    }
    true
}

/// Whether an instruction computes with floating-point numbers, which no barrier does.
fn computes(Instruction(instruction): &Instruction) -> bool {
    let is_vector = |op| {
        instruction.op_kind(op) == OpKind::Register
            && instruction.op_register(op).is_vector_register()
    };
    let moves = matches!(
        instruction.mnemonic(),
        Mnemonic::Movaps
            | Mnemonic::Movups
            | Mnemonic::Movdqa
            | Mnemonic::Movdqu
            | Mnemonic::Movsd
            | Mnemonic::Movss
            | Mnemonic::Movq
            | Mnemonic::Movd
            | Mnemonic::Pxor
            | Mnemonic::Xorps
    );
    !moves && (0..instruction.op_count()).any(is_vector)
}

/// Whether an instruction takes the number of that system call as the argument of a call.
fn is_number_of_futex(Instruction(instruction): &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Mov
        && instruction.op1_kind() == OpKind::Immediate32
        && u64::from(instruction.immediate32()) == FUTEX
}
