//! The barriers of the languages' own libraries, which are made of atomics and futexes:
//! `std::barrier` of C++20 and `std::sync::Barrier` of Rust.
//!
//! - libc++ counts a thread in an exported function, `__arrive_barrier_algorithm_base`
//!   (libcxx/src/barrier.cpp). Its argument points to an object that begins with the address of the
//!   number of threads, the first word of the barrier.
//! - Rust waits in `Barrier::wait` (library/std/src/sync/barrier.rs), compiled with the library and
//!   never inlined. Where the number of threads lies in the object is the compiler's choice: the
//!   offset is read from the comparison with the number.
//! - libstdc++ (include/std/barrier) is inlined into the program. An arriving thread first hashes
//!   its id to find its place in the tree, by a call with a seed that stands in the code. Then it
//!   loads the barrier's phase, a byte, and the number of threads, a word, of the object whose
//!   address is in one and the same register. The probe goes on that call. Without optimisation
//!   `__tree_barrier::arrive` is a function.

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};
use memchr::memmem;
use object::{LittleEndian, read::elf::ElfFile64};
use sbt_common::layout;

use super::sweep::Code;
use crate::point::Team;
use crate::{
    elf::{Segment, code_at, names},
    point::{Function, Point},
    prologue::{Stand, stand},
    registers::{KEPT, number},
};

/// `mov edx, 0xc70f6907`: the seed of `std::_Hash_impl::hash` (`include/bits/functional_hash.h` of
/// libstdc++).
const SEED: [u8; 5] = [0xba, 0x07, 0x69, 0x0f, 0xc7];

/// The most instructions from the seed to the call, and from the call to both loads.
const NEAR: usize = 16;

/// The most bytes that are read of a function's beginning.
const BEGINNING: u64 = 512;

/// The most points of a file, more than a program has.
const MAX_POINTS: usize = 256;

/// The function that a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BarrierFunction {
    LibCxx,
    LibStdCxx,
    Rust,
}

/// Recognises a function by its mangled name (Itanium C++ ABI; Rust's legacy and v0 schemes, whose
/// hashes differ from compiler to compiler).
fn named(name: &[u8]) -> Option<BarrierFunction> {
    let has = |part: &[u8]| memmem::find(name, part).is_some();
    if name.starts_with(b"_ZNSt") && has(b"31__arrive_barrier_algorithm_baseE") {
        Some(BarrierFunction::LibCxx)
    } else if name.starts_with(b"_ZNSt14__tree_barrierI") && name.ends_with(b"E6arriveEl") {
        Some(BarrierFunction::LibStdCxx)
    } else if name.starts_with(b"_ZN3std4sync7barrier7Barrier4wait17h")
        || (name.starts_with(b"_RNv")
            && has(b"3std4sync7barrier")
            && name.ends_with(b"7Barrier4wait"))
    {
        Some(BarrierFunction::Rust)
    } else {
        None
    }
}

/// The addresses of the functions of C++'s library that were compiled into a file.
pub fn functions_of_libraries(image: &[u8]) -> Vec<u64> {
    const PREFIXES: [&[u8]; 3] = [b"_ZNSt", b"_ZNKSt", b"_ZSt"];
    let Ok(file) = ElfFile64::<LittleEndian>::parse(image) else {
        return Vec::new();
    };
    let functions = names::full(&file).filter(|symbol| {
        let is = |name: &[u8]| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        symbol.is_function() && symbol.is_definition() && is(symbol.name)
    });
    functions.map(|symbol| symbol.address()).collect()
}

/// The points of a file.
pub fn points(
    file: &ElfFile64<'_, LittleEndian>,
    image: &[u8],
    segments: &[Segment],
    text: &Code<'_>,
) -> Vec<Point> {
    let mut points = inlined(text, segments);
    // `barrier` is a part of each name that `named` accepts.
    if !names::may_hold(file, b"barrier") {
        return points;
    }
    let mut seen = Vec::new();
    for symbol in names::defined(file).filter(names::NamedSymbol::is_function) {
        let Some((name, named)) = symbol
            .text()
            .and_then(|name| Some((name, named(name.as_bytes())?)))
        else {
            continue;
        };
        let (start, end) = (
            symbol.address(),
            symbol.address().saturating_add(symbol.size()),
        );
        if seen.contains(&start) || points.len() >= MAX_POINTS {
            continue;
        }
        seen.push(start);
        let offsets = segments.iter().find_map(|segment| {
            Some(segment.file_offset(start)?..=segment.file_offset(end.saturating_sub(1))?)
        });
        // A barrier that is inlined into the function is watched there.
        if offsets.is_some_and(|offsets| {
            points
                .iter()
                .any(|point: &Point| offsets.contains(&point.entry_offset))
        }) {
            continue;
        }
        points.extend(of_function(
            named,
            name,
            start,
            symbol.size(),
            image,
            segments,
        ));
    }
    points
}

fn of_function(
    named: BarrierFunction,
    name: &str,
    start: u64,
    size: u64,
    image: &[u8],
    segments: &[Segment],
) -> Vec<Point> {
    let Some(code) = code_at(image, segments, start, size.min(BEGINNING)) else {
        return Vec::new();
    };
    let team = |displacement: i32, has_count| {
        Function::Team(Team {
            register: 1,
            spilled: None,
            displacement,
            has_count,
            ends: false,
        })
    };
    let point = |function, symbol, layout| Point::of_function(function, symbol, &code, layout);
    match named {
        BarrierFunction::LibCxx => {
            // Programs import the function by its mangled name.
            point(team(0, true), name, layout::STD_POINTED)
                .into_iter()
                .collect()
        }
        // The number of threads is the first word of the object.
        BarrierFunction::LibStdCxx => point(team(0, true), "std::barrier::arrive", layout::STD)
            .into_iter()
            .collect(),
        BarrierFunction::Rust => {
            let count = count_of_rust(&Code::new(start, code.bytes));
            let symbol = "std::sync::Barrier::wait";
            let enters = team(count.unwrap_or_default().into(), count.is_some());
            let enters = point(enters, symbol, layout::RUST);
            let leaves = point(Function::TeamEnd, symbol, layout::RUST);
            enters.into_iter().chain(leaves).collect()
        }
    }
}

/// The offset of the number of threads from the first argument: of the number with which a counter
/// of the same object is compared right after it was incremented.
fn count_of_rust(code: &Code<'_>) -> Option<u16> {
    let field = |instruction: &Instruction, op: u32| {
        (instruction.op_kind(op) == OpKind::Memory
            && instruction.memory_base() == Register::RDI
            && instruction.memory_index() == Register::None
            && instruction.memory_size().size() == 8)
            .then(|| instruction.memory_displacement64())
    };
    let mut counter = None;
    for instruction in code.instructions(0, u64::MAX).take(4 * NEAR) {
        if instruction.mnemonic() == Mnemonic::Mov
            && let Some(at) = field(&instruction, 0)
        {
            counter = Some(at);
        } else if let Some(counter) = counter
            && matches!(instruction.mnemonic(), Mnemonic::Mov | Mnemonic::Cmp)
            && let Some(at) = field(&instruction, 1).or_else(|| field(&instruction, 0))
            && at != counter
        {
            return u16::try_from(at).ok();
        }
    }
    None
}

/// Where arrivals at barriers of libstdc++ are inlined.
fn inlined(text: &Code<'_>, segments: &[Segment]) -> Vec<Point> {
    text.find(&SEED)
        .take(MAX_POINTS)
        .filter_map(|at| {
            let mut near = text.instructions(at, u64::MAX);
            let call = near.by_ref().take(NEAR).find(is_call)?;
            let team = object_after(call.ip(), near.take(NEAR))?;
            let stand = stand(text.bytes_of(&call)).ok()?;
            let offset = segments
                .iter()
                .find_map(|segment| segment.file_offset(call.ip()))?;
            Some(Point {
                function: Function::Team(team),
                symbol: "std::barrier::arrive".to_owned(),
                entry_offset: offset,
                stack_moved: 0,
                return_offset: offset,
                entry_emulated: stand == Stand::Emulated,
                layout: layout::STD_INLINED,
            })
        })
        .collect()
}

fn is_call(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    )
}

/// Where an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A constant, relative to the code.
    Code,
    /// A register that calls preserve holds the address.
    Kept(Register),
    /// The word at this offset from such a register, or from rsp, holds the address.
    Spilled(Register, i16),
}

/// The barrier whose phase and number of threads these instructions load. They follow right after
/// the call at `call`, and use only registers and words that are the same before the call.
fn object_after(call: u64, instructions: impl Iterator<Item = Instruction>) -> Option<Team> {
    let mut info = InstructionInfoFactory::new();
    let mut written: Vec<Register> = Vec::new();
    let mut loaded: Vec<(Register, Origin)> = Vec::new();
    // The origin and offset of each loaded byte and word, and the register that the last word was
    // loaded into.
    let (mut bytes, mut words) = (Vec::new(), Vec::new());
    let mut last_word = Register::None;
    for instruction in instructions {
        let base = instruction.memory_base();
        let displacement = instruction.memory_displacement64().cast_signed();
        let mut spilled = None;
        if instruction.op_count() == 2
            && instruction.op1_kind() == OpKind::Memory
            && instruction.memory_index() == Register::None
        {
            let keeps = |register| KEPT.contains(&register) && !written.contains(&register);
            let origin = match base {
                Register::RIP => Some(Origin::Code),
                _ if keeps(base) => Some(Origin::Kept(base)),
                _ => loaded
                    .iter()
                    .find(|(to, _)| *to == base)
                    .map(|(_, from)| *from),
            };
            let is_word =
                instruction.mnemonic() == Mnemonic::Mov && instruction.memory_size().size() == 8;
            let is_byte = matches!(instruction.mnemonic(), Mnemonic::Movzx | Mnemonic::Mov)
                && instruction.memory_size().size() == 1;
            if let Some(origin) = origin {
                if is_byte {
                    bytes.push((origin, displacement));
                } else if is_word {
                    words.push((origin, displacement));
                    last_word = instruction.op0_register();
                }
            }
            if is_word && (keeps(base) || base == Register::RSP) {
                let at = i16::try_from(displacement).ok();
                spilled = at.map(|at| (instruction.op0_register(), Origin::Spilled(base, at)));
            }
            // The phase lies behind the number, within 256 bytes.
            let number_of = |phase: &(Origin, i64)| {
                let near = |word: &&(Origin, i64)| {
                    word.0 == phase.0 && (1..256).contains(&phase.1.wrapping_sub(word.1))
                };
                words.iter().filter(near).min_by_key(|word| word.1)
            };
            if let Some((origin, displacement)) = bytes.iter().find_map(number_of) {
                return team(*origin, *displacement, call);
            }
        }
        // The address of a barrier at a fixed address may be made in two ways. Then the computation
        // of the tree's (n + 1) / 2 leaves tells which word is the number.
        if instruction.mnemonic() == Mnemonic::Lea
            && base == last_word
            && displacement == 1
            && !bytes.is_empty()
            && let Some((origin, displacement)) = words.last()
        {
            return team(*origin, *displacement, call);
        }
        if !matches!(
            instruction.flow_control(),
            FlowControl::Next | FlowControl::ConditionalBranch
        ) {
            return None;
        }
        for used in info.info(&instruction).used_registers() {
            if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead) {
                let register = used.register().full_register();
                written.push(register);
                loaded.retain(|(to, _)| *to != register);
            }
        }
        loaded.extend(spilled);
    }
    None
}

fn team(origin: Origin, displacement: i64, call: u64) -> Option<Team> {
    let (register, spilled, displacement) = match origin {
        Origin::Code => (0, None, displacement.wrapping_sub(call.cast_signed())),
        Origin::Kept(register) => (number(register)?, None, displacement),
        Origin::Spilled(Register::RSP, at) => (0, Some(at), displacement),
        Origin::Spilled(register, at) => (number(register)?, Some(at), displacement),
    };
    Some(Team {
        register,
        spilled,
        displacement: i32::try_from(displacement).ok()?,
        has_count: true,
        ends: false,
    })
}

#[cfg(test)]
#[path = "language_tests.rs"]
mod tests;
