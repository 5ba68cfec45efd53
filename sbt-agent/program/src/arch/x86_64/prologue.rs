//! The choice of the instruction of a function on which to put a probe.
//!
//! The kernel emulates a few instructions when a probe hits them and single-steps all others out of
//! line, which costs 3 to 15 times as much. So the probe goes to the first emulated instruction of
//! the straight line with which a function begins, as long as three conditions hold. Every call
//! passes the instruction exactly once. The arguments, and the caller's rbp, are still in their
//! registers. No other thread can have noticed the call: an arrival must be stamped before the
//! barrier counts it, or the last thread to arrive may seem to arrive after others have left. A
//! wrong choice would miss calls silently: so any doubt ends the search, and byte 0 is always
//! right.

mod inside;
mod kernel;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};

pub use inside::{Body, ways_out};
pub(crate) use kernel::is_emulated;
pub use kernel::{Refusal, Stand, is_probeable, stand};

use super::{registers::ARGUMENTS, trampoline::can_be_replaced};

/// One instruction of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePlace {
    /// Bytes from the function's first byte.
    pub offset: u32,
    /// Bytes that rsp has moved down since the function was entered, before this instruction
    /// executes: the return address lies that far above rsp.
    pub stack_moved: u16,
    /// Whether the kernel emulates the instruction instead of stepping it.
    pub emulated: bool,
}

/// Where the probes of a function go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// For a probe of the call: the arguments are still in their registers.
    pub entry: ProbePlace,
    /// For a uretprobe. The kernel takes the word at rsp as the return address, so
    /// [`ProbePlace::stack_moved`] is 0 here. Equal to `entry` if `stack_moved` is 0 there: then both
    /// share one breakpoint.
    pub ret: ProbePlace,
}

/// Chooses for a function of up to six arguments, none of which may be lost.
///
/// `code` is the function from its first byte, at most as long as its symbol. With more code, more
/// branches back into the prologue are seen. Any bytes are fine: in doubt the choice is byte 0.
/// `None` if no probe may stand on byte 0, nor on an instruction behind it that every call passes
/// as well ([`stand`]).
pub fn choose(code: &[u8]) -> Option<Choice> {
    choose_keeping(code, ARGUMENTS.len())
}

/// Like [`choose`], but keeps only the first `arguments` (0 to 6) of the function: the other
/// registers may have been overwritten.
pub fn choose_keeping(code: &[u8], arguments: usize) -> Option<Choice> {
    let kept = &ARGUMENTS[..arguments.min(ARGUMENTS.len())];
    let first = stand(code).ok().map(|stand| ProbePlace {
        offset: 0,
        stack_moved: 0,
        emulated: stand == Stand::Emulated,
    });
    let entry = search(code, kept, |_, bytes, _| is_emulated(bytes))
        .or_else(|| search(code, kept, |_, bytes, _| is_probeable(bytes)))
        .or(first)?;
    let unmoved = || {
        search(code, kept, |_, bytes, moved| {
            moved == 0 && is_probeable(bytes)
        })
    };
    // An instruction of the entry's kind at which rsp had not moved would have been found as the
    // entry already: the search takes the first good instruction.
    let ret = match entry.stack_moved {
        0 => entry,
        _ => first.or_else(unmoved)?,
    };
    Some(Choice { entry, ret })
}

/// Chooses the one instruction of a function that a jump may replace: it has room for the jump, does
/// not lie at byte 0, and otherwise fulfils what [`choose_keeping`] asks for. Byte 0 is left to kernel
/// probes, which execute the instruction of the file. `None` if the function has no such instruction.
pub fn choose_lone(code: &[u8], arguments: usize) -> Option<ProbePlace> {
    let kept = &ARGUMENTS[..arguments.min(ARGUMENTS.len())];
    search(code, kept, |instruction, _, _| {
        instruction.ip() != 0 && can_be_replaced(instruction)
    })
}

/// The first good instruction of the straight line from byte 0. `is_good` is given an instruction, its
/// bytes, and how far rsp has moved there.
fn search(
    code: &[u8],
    kept: &[Register],
    is_good: impl Fn(&Instruction, &[u8], i64) -> bool,
) -> Option<ProbePlace> {
    // An instruction at or after a jump's target may be passed twice.
    let end = first_target(code).unwrap_or(u64::MAX);
    let mut info = InstructionInfoFactory::new();
    let mut stack = Stack { moved: 0 };
    for instruction in decoder(code) {
        if instruction.is_invalid() || instruction.ip() >= end {
            return None;
        }
        let bytes = bytes_of(code, &instruction)?;
        if is_good(&instruction, bytes, stack.moved) {
            return Some(ProbePlace {
                offset: u32::try_from(instruction.ip()).ok()?,
                stack_moved: u16::try_from(stack.moved).ok()?,
                emulated: is_emulated(bytes),
            });
        }
        let straight = instruction.flow_control() == FlowControl::Next;
        // Callers are found from rbp, so that it must stay.
        let kept = [kept, &[Register::RBP]].concat();
        if !straight
            || writes_any(&mut info, &instruction, &kept)
            || is_noticed(&mut info, &instruction)
        {
            return None;
        }
        stack = stack.after(&instruction, &mut info)?;
    }
    None
}

/// The place behind the first instruction of this code, if a breakpoint there sees the same as on
/// the first instruction: that instruction is passed once, changes no register but rsp, and other
/// threads cannot notice it. Returns the length of the instruction, and how far rsp moves down,
/// both in bytes.
///
/// With more code, more branches back are seen.
pub fn beyond(code: &[u8]) -> Option<(u64, u64)> {
    let first = decoder(code)
        .iter()
        .next()
        .filter(|instruction| !instruction.is_invalid())?;
    let behind = first.next_ip();
    let mut info = InstructionInfoFactory::new();
    let changes = info.info(&first).used_registers().iter().any(|used| {
        let register = used.register().full_register();
        is_write(used.access()) && register.is_gpr() && register != Register::RSP
    });
    let straight = first.flow_control() == FlowControl::Next;
    if !straight || changes || is_noticed(&mut info, &first) {
        return None;
    }
    let is_inside = |target: u64| target > 0 && target <= behind;
    let mut targets = decoder(code)
        .into_iter()
        .filter_map(|instruction| jump_target(&instruction));
    let moved = Stack { moved: 0 }.after(&first, &mut info)?.moved;
    let moved = u64::try_from(moved).ok()?;
    (!targets.any(is_inside)).then_some((behind, moved))
}

/// How far rsp lies below its value at the function's entry, bytes.
#[derive(Clone, Copy)]
struct Stack {
    moved: i64,
}

impl Stack {
    /// `None` if it is unclear how the instruction moves rsp.
    fn after(self, instruction: &Instruction, info: &mut InstructionInfoFactory) -> Option<Self> {
        let rsp_first = instruction.op0_kind() == OpKind::Register
            && instruction.op0_register() == Register::RSP;
        let immediate = || {
            let kind = instruction.op1_kind();
            matches!(kind, OpKind::Immediate8to64 | OpKind::Immediate32to64)
                .then(|| instruction.immediate(1).cast_signed())
        };
        let down = match instruction.mnemonic() {
            Mnemonic::Push => -i64::from(instruction.stack_pointer_increment()),
            Mnemonic::Pop if !writes_explicitly(instruction, Register::RSP) => {
                -i64::from(instruction.stack_pointer_increment())
            }
            Mnemonic::Sub if rsp_first => immediate()?,
            Mnemonic::Add if rsp_first => immediate()?.checked_neg()?,
            Mnemonic::Lea
                if rsp_first
                    && instruction.memory_base() == Register::RSP
                    && instruction.memory_index() == Register::None =>
            {
                instruction
                    .memory_displacement64()
                    .cast_signed()
                    .checked_neg()?
            }
            _ if writes_any(info, instruction, &[Register::RSP]) => return None,
            _ => 0,
        };
        let moved = self.moved.checked_add(down)?;
        Some(Self { moved })
    }
}

/// Whether the instruction's first operand is the register, of any width.
fn writes_explicitly(instruction: &Instruction, register: Register) -> bool {
    instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().full_register() == register
}

/// Whether the instruction writes, or may write, a part of any of `registers`.
fn writes_any(
    info: &mut InstructionInfoFactory,
    instruction: &Instruction,
    registers: &[Register],
) -> bool {
    info.info(instruction)
        .used_registers()
        .iter()
        .any(|used| is_write(used.access()) && registers.contains(&used.register().full_register()))
}

/// Whether other threads may see that the instruction was executed: it writes to memory other than
/// the thread's stack and its own variables (fs).
fn is_noticed(info: &mut InstructionInfoFactory, instruction: &Instruction) -> bool {
    info.info(instruction).used_memory().iter().any(|used| {
        let is_own = used.base() == Register::RSP || used.segment() == Register::FS;
        is_write(used.access()) && !is_own
    })
}

const fn is_write(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

/// The lowest offset inside `code` that a jump in it goes to.
fn first_target(code: &[u8]) -> Option<u64> {
    decoder(code)
        .into_iter()
        .filter_map(|instruction| jump_target(&instruction))
        .filter(|&target| usize::try_from(target).is_ok_and(|target| target < code.len()))
        .min()
}

/// The target of a direct jump. `None` for a call, which enters a function anew.
fn jump_target(instruction: &Instruction) -> Option<u64> {
    let jumps = matches!(
        instruction.flow_control(),
        FlowControl::ConditionalBranch
            | FlowControl::UnconditionalBranch
            | FlowControl::XbeginXabortXend
    );
    (jumps && instruction.op0_kind() == OpKind::NearBranch64).then(|| instruction.near_branch64())
}

fn decoder(code: &[u8]) -> Decoder<'_> {
    Decoder::with_ip(64, code, 0, DecoderOptions::NONE)
}

/// The bytes that `instruction` was decoded from, given that code begins at 0.
fn bytes_of<'a>(code: &'a [u8], instruction: &Instruction) -> Option<&'a [u8]> {
    let start = usize::try_from(instruction.ip()).ok()?;
    code.get(start..start.checked_add(instruction.len())?)
}

#[cfg(test)]
#[path = "prologue_tests.rs"]
mod tests;
