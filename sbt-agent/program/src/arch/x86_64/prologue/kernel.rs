//! The way in which Linux executes an instruction under a probe.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

/// The opcodes that are not set in `good_insns_64` in Linux, arch/x86/kernel/uprobes.c.
const REFUSED: [u8; 40] = [
    0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0x62, 0x6c, 0x6d,
    0x6e, 0x6f, 0x82, 0x9a, 0xcc, 0xcd, 0xce, 0xcf, 0xd4, 0xd5, 0xd6, 0xe4, 0xe5, 0xe6, 0xe7, 0xea,
    0xec, 0xed, 0xee, 0xef, 0xf1, 0xf4, 0xfa, 0xfb,
];

/// How Linux executes an instruction with a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// Linux emulates the instruction.
    Emulated,
    /// Linux executes a copy of the instruction by a single step.
    Stepped,
}

/// Why no probe may stand on an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The kernel refuses the instruction, or executes it wrongly.
    #[error("the kernel cannot probe this instruction")]
    Unfit,
    /// Linux may replace the instruction by a call: see [`stand`].
    #[error(
        "Linux may replace a probe on a nop of five bytes by a call, which overwrites data that \
         the function keeps below its stack pointer"
    )]
    Nop,
}

/// Whether a probe may stand on the instruction that `bytes` begin with, and what that costs, in
/// every version of Linux that has uprobes with BPF (arch/x86/kernel/uprobes.c). All choices of a
/// place for a probe use this function.
///
/// The kernel refuses some instructions. If a file is not mapped yet, the kernel finds that out
/// only when the file is mapped, and tells nobody: the probe is never hit. The kernel accepts other
/// instructions and executes them wrongly. It looks at the opcode of an instruction with a VEX or
/// EVEX prefix as if there were no prefix: it takes `vpshufd` for `jo` and jumps, and skips a
/// `vmovdqa` to memory as a `jg` that is not taken. So all such instructions are refused.
///
/// An instruction of five bytes that does nothing is replaced by a call when its probe is first hit
/// (`can_optimize`: since 6.18 any nop, since 6.19 all that `insn_is_nop` knows). The call pushes
/// its return address to where leaf functions keep their variables (the red zone of the x86-64
/// ABI), and their results are wrong then. Breakpoints that are not the kernel's uprobes would do
/// no harm there; they go to the same places, so that all backends count the same.
///
/// # Errors
/// No probe may stand there.
pub fn stand(bytes: &[u8]) -> Result<Stand, Refusal> {
    let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
    let bytes = bytes.get(..instruction.len()).unwrap_or_default();
    if instruction.is_invalid() || !is_accepted(bytes) {
        return Err(Refusal::Unfit);
    }
    if instruction.len() == REPLACED && does_nothing(&instruction) {
        return Err(Refusal::Nop);
    }
    Ok(if has_emulation(bytes) {
        Stand::Emulated
    } else {
        Stand::Stepped
    })
}

/// Whether a probe may stand on the instruction that `bytes` begin with.
pub fn is_probeable(bytes: &[u8]) -> bool {
    stand(bytes).is_ok()
}

/// Whether a probe may stand on the instruction that `bytes` begin with, and costs little.
pub fn is_emulated(bytes: &[u8]) -> bool {
    stand(bytes) == Ok(Stand::Emulated)
}

/// The length of the instructions that Linux replaces by a call, bytes.
const REPLACED: usize = 5;

/// Whether executing the instruction changes nothing, whatever its purpose.
fn does_nothing(instruction: &Instruction) -> bool {
    let same = instruction.op0_register() == instruction.op1_register();
    match instruction.mnemonic() {
        Mnemonic::Nop | Mnemonic::Reservednop | Mnemonic::Pause => true,
        Mnemonic::Jmp => {
            instruction.op0_kind() == OpKind::NearBranch64
                && instruction.near_branch64() == instruction.next_ip()
        }
        Mnemonic::Mov | Mnemonic::Xchg => {
            instruction.op0_kind() == OpKind::Register
                && instruction.op1_kind() == OpKind::Register
                && same
        }
        Mnemonic::Lea => {
            instruction.op0_register() == instruction.memory_base()
                && instruction.memory_index() == Register::None
                && instruction.memory_displacement64() == 0
        }
        _ => false,
    }
}

/// Whether the kernel emulates the instruction: `branch_setup_xol_ops` and `push_setup_xol_ops`.
///
/// Longer nops are emulated by Linux ≥ 6.16 only, `66 90` cannot be probed at all before 6.2, and a
/// branch with prefixes may be refused: none of these count.
fn has_emulation(bytes: &[u8]) -> bool {
    let push_or_nop = matches!(bytes, [0x50..=0x57 | 0x90] | [0x41, 0x50..=0x57]);
    let short_jump = matches!(bytes, [0x70..=0x7f | 0xeb, _]);
    let jump_or_call = matches!(bytes, [0xe8 | 0xe9, _, _, _, _]);
    let conditional = matches!(bytes, [0x0f, 0x80..=0x8f, _, _, _, _]);
    push_or_nop || short_jump || jump_or_call || conditional
}

/// Whether the kernel accepts the instruction and executes it correctly
/// (`arch_uprobe_analyze_insn`).
fn is_accepted(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut operand_size = false;
    while let [
        prefix @ (0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3),
        after @ ..,
    ] = rest
    {
        if !matches!(prefix, 0x64..=0x67 | 0xf2 | 0xf3) {
            return false;
        }
        operand_size |= *prefix == 0x66;
        rest = after;
    }
    let mut rex = false;
    if let [0x40..=0x4f, after @ ..] = rest {
        rex = true;
        rest = after;
    }
    match rest {
        []
        // VEX, EVEX.
        | [0xc4 | 0xc5 | 0x62, ..]
        // After an instruction that enters the kernel, execution goes on from the stepped copy, and
        // so it does after a transaction that fails.
        | [0x0f, 0x05 | 0x34, ..]
        | [0xc7, 0xf8, ..] => false,
        // The kernel takes xchg with r8 for a nop, and does nothing.
        [0x90, ..] => !operand_size && !rex,
        [0xe8 | 0xe9 | 0xeb | 0x70..=0x7f, ..] | [0x0f, 0x80..=0x8f, ..] => !operand_size,
        // mov to ss holds interrupts off; XOP is not decoded.
        [0x8e, modrm, ..] => register(*modrm) != 2,
        [0x8f, modrm, ..] => register(*modrm) == 0,
        [opcode, ..] => !REFUSED.contains(opcode),
    }
}

/// The middle field of the `ModRM` byte, which follows many opcodes.
const fn register(modrm: u8) -> u8 {
    modrm >> 3 & 7
}
