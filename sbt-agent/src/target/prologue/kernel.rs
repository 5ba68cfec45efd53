//! What Linux does with an instruction that a probe stands on.

/// The opcodes that are not set in `good_insns_64` in Linux,
/// arch/x86/kernel/uprobes.c.
const REFUSED: [u8; 40] = [
    0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0x62, 0x6c, 0x6d,
    0x6e, 0x6f, 0x82, 0x9a, 0xcc, 0xcd, 0xce, 0xcf, 0xd4, 0xd5, 0xd6, 0xe4, 0xe5, 0xe6, 0xe7, 0xea,
    0xec, 0xed, 0xee, 0xef, 0xf1, 0xf4, 0xfa, 0xfb,
];

/// Whether the kernel emulates the instruction, in every version that has
/// uprobes with BPF: `branch_setup_xol_ops` and `push_setup_xol_ops` in Linux,
/// arch/x86/kernel/uprobes.c.
///
/// Longer nops are emulated by Linux ≥ 6.16 only, `66 90` cannot be probed at
/// all before 6.2, and a branch with prefixes may be refused: none of these
/// count.
pub fn is_emulated(bytes: &[u8]) -> bool {
    let push_or_nop = matches!(bytes, [0x50..=0x57 | 0x90] | [0x41, 0x50..=0x57]);
    let short_jump = matches!(bytes, [0x70..=0x7f | 0xeb, _]);
    let jump_or_call = matches!(bytes, [0xe8 | 0xe9, _, _, _, _]);
    let conditional = matches!(bytes, [0x0f, 0x80..=0x8f, _, _, _, _]);
    push_or_nop || short_jump || jump_or_call || conditional
}

/// Whether a probe may stand on the instruction that `bytes` begin with, in
/// every version that has uprobes with BPF (`arch_uprobe_analyze_insn`, same
/// file).
///
/// Some the kernel refuses; but of a file that is not mapped yet it finds out
/// only when it is, and tells nobody: the probe is never hit. Others it accepts
/// and gets wrong. Of an instruction with a VEX or EVEX prefix it looks at the
/// opcode as if there were no prefix: it takes `vpshufd` for `jo` and jumps, and
/// leaves out a `vmovdqa` to memory as a `jg` that is not taken. So none of these
/// count.
pub fn is_probeable(bytes: &[u8]) -> bool {
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
        // What enters the kernel goes on from the copy that is stepped, and a
        // transaction that fails does so there.
        | [0x0f, 0x05 | 0x34, ..]
        | [0xc7, 0xf8, ..] => false,
        // xchg with r8 passes for a nop, as which it does nothing.
        [0x90, ..] => !operand_size && !rex,
        [0xe8 | 0xe9 | 0xeb | 0x70..=0x7f, ..] | [0x0f, 0x80..=0x8f, ..] => !operand_size,
        // mov to ss holds interrupts off; XOP is not decoded.
        [0x8e, modrm, ..] => register(*modrm) != 2,
        [0x8f, modrm, ..] => register(*modrm) == 0,
        [opcode, ..] => !REFUSED.contains(opcode),
    }
}

/// The middle field of what follows many opcodes.
const fn register(modrm: u8) -> u8 {
    modrm >> 3 & 7
}
