//! Calls of the kernel's function `bpf_rdonly_cast`: see [`RDONLY_CAST`].

use aya_obj::generated::bpf_insn;
use sbt_common::{Config, RDONLY_CAST};

/// `BPF_JMP | BPF_CALL` of linux/bpf.h.
const CALL: u8 = 0x85;

/// `BPF_PSEUDO_KFUNC_CALL` of linux/bpf.h: the source register of a call of one of the kernel's
/// functions.
const OF_KERNEL: u8 = 2;

/// `BPF_ALU64 | BPF_MOV | BPF_X` of linux/bpf.h.
const MOVE: u8 = 0xbf;

/// The number of `bpf_rdonly_cast` in this kernel's BTF; `None` if the kernel does not have the
/// function, or if its type information is unknown.
pub(super) fn of(config: &Config) -> Option<u32> {
    (config.rdonly_cast != 0 && config.task_type != 0).then_some(config.rdonly_cast)
}

/// The instructions of a program, with calls of the kernel's function `bpf_rdonly_cast` of this number
/// instead of [`RDONLY_CAST`]. If the number is `None`, with the function's result instead, which is its
/// first argument.
pub(super) fn replace(instructions: &[bpf_insn], function: Option<u32>) -> Vec<bpf_insn> {
    let mut replaced = instructions.to_vec();
    let calls = replaced
        .iter_mut()
        .filter(|one| one.code == CALL && one.src_reg() == 0 && one.imm == RDONLY_CAST);
    for call in calls {
        if let Some(number) = function {
            call.set_src_reg(OF_KERNEL);
            call.imm = number.cast_signed();
        } else {
            call.code = MOVE;
            call.set_dst_reg(0);
            call.set_src_reg(1);
            call.imm = 0;
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(code: u8, imm: i32) -> bpf_insn {
        // SAFETY: an instruction of zeros is valid data.
        let mut made: bpf_insn = unsafe { std::mem::zeroed() };
        made.code = code;
        made.imm = imm;
        made
    }

    #[test]
    fn calls_are_of_the_kernels_function_or_copy_the_argument() {
        let program = [instruction(CALL, 12), instruction(CALL, RDONLY_CAST)];
        let shown = |program: Vec<bpf_insn>| -> Vec<_> {
            let fields = program.iter();
            fields
                .map(|one| (one.code, one.dst_reg(), one.src_reg(), one.imm))
                .collect()
        };
        let calls = shown(replace(&program, Some(77)));
        assert_eq!(calls, [(CALL, 0, 0, 12), (CALL, 0, OF_KERNEL, 77)]);
        let moves = shown(replace(&program, None));
        assert_eq!(moves, [(CALL, 0, 0, 12), (MOVE, 0, 1, 0)]);
    }
}
