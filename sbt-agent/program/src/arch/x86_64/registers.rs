//! The registers of x86-64 by their role in calls, by the numbers that probes use for them, and as
//! ptrace(2) and the samples of perf events give them.

pub use iced_x86::Register;

/// The stack pointer.
pub const STACK: Register = Register::RSP;

/// The register that functions may use as a frame pointer.
pub const FRAME: Register = Register::RBP;

/// The register of a function's result.
pub const RESULT: Register = Register::RAX;

/// The registers of the first six integer arguments, System V ABI.
pub const ARGUMENTS: [Register; 6] = [
    Register::RDI,
    Register::RSI,
    Register::RDX,
    Register::RCX,
    Register::R8,
    Register::R9,
];

/// The registers for no argument that a called function may change as well.
pub const OTHER_VOLATILE: [Register; 3] = [Register::RAX, Register::R10, Register::R11];

/// The registers that a called function must preserve.
pub const KEPT: [Register; 6] = [
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// The registers besides [`ARGUMENTS`] that may hold an object; their numbers follow those of the
/// arguments.
const OTHERS: [Register; 9] = [
    Register::RAX,
    Register::RBX,
    Register::RBP,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// Stands for the stack pointer, beside the numbers of registers.
pub const ON_STACK: u8 = 16;

/// The register's number in [`sbt_common::Cookie::object`], from 1; `None` if it has none.
pub fn number(register: Register) -> Option<u8> {
    let mut numbered = ARGUMENTS.iter().chain(&OTHERS);
    let index = numbered.position(|known| *known == register)?;
    u8::try_from(index + 1).ok()
}

/// The register of a number: the inverse of [`number`].
pub fn register_of(number: u8) -> Option<Register> {
    let index = usize::from(number).checked_sub(1)?;
    ARGUMENTS.iter().chain(&OTHERS).nth(index).copied()
}

/// `NT_X86_XSTATE`: the number by which ptrace(2) gives all registers of the XSAVE area, in the
/// standard format.
pub const OTHER_REGISTERS: usize = 0x202;

/// The general registers of a thread, as ptrace(2) gives them.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Registers(pub(super) libc::user_regs_struct);

/// The flag `TF`: the thread makes single steps of its own.
const STEPS: u64 = 1 << 8;

/// How far the instruction pointer of a thread that stands at a breakpoint lies behind the
/// breakpoint, bytes.
const BEHIND_BREAKPOINT: u64 = 1;

/// The length of the instruction that calls the kernel, bytes.
const SYSTEM_CALL: u64 = 2;

/// Bit of `PERF_REG_X86_BP`, `_SP` and `_IP` in the set of registers that a sample has.
const BIT_BP: u64 = 1 << 6;
const BIT_SP: u64 = 1 << 7;
const BIT_IP: u64 = 1 << 8;

impl Registers {
    /// The general registers, as the kernel numbers them for samples (`PERF_REG_X86_AX` to `_IP`,
    /// and `_R8` to `_R15`).
    pub const ALL_IN_SAMPLES: u64 = 0x1ff | 0xff << 16;

    /// The stack pointer and the instruction pointer in samples, which have them in this order.
    pub const PLACE_IN_SAMPLES: u64 = BIT_SP | BIT_IP;

    /// The frame pointer, the stack pointer and the instruction pointer in samples, which have them
    /// in this order.
    pub const FRAME_IN_SAMPLES: u64 = BIT_BP | BIT_SP | BIT_IP;

    /// Registers whose values are all 0.
    pub const fn none() -> Self {
        // SAFETY: a structure of numbers, for which zeros are values.
        Self(unsafe { std::mem::zeroed() })
    }

    /// The registers of a sample that has [`Self::ALL_IN_SAMPLES`]; `None` for any other number of
    /// values.
    pub fn of_sample(values: &[u64]) -> Option<Self> {
        // In the order of `PERF_REG_X86_*`.
        let at: &[u64; 17] = values.try_into().ok()?;
        Some(Self(libc::user_regs_struct {
            rax: at[0],
            rbx: at[1],
            rcx: at[2],
            rdx: at[3],
            rsi: at[4],
            rdi: at[5],
            rbp: at[6],
            rsp: at[7],
            rip: at[8],
            r8: at[9],
            r9: at[10],
            r10: at[11],
            r11: at[12],
            r12: at[13],
            r13: at[14],
            r14: at[15],
            r15: at[16],
            ..Self::none().0
        }))
    }

    /// The registers as words, for comparing.
    pub const fn words(self) -> [u64; size_of::<Self>() / 8] {
        // SAFETY: a structure of words alone.
        unsafe { std::mem::transmute(self) }
    }

    /// The inverse of [`Self::words`]; `None` for another number of words.
    pub fn of_words(words: &[u64]) -> Option<Self> {
        let words: [u64; size_of::<Self>() / 8] = words.try_into().ok()?;
        // SAFETY: a structure of words alone.
        Some(unsafe { std::mem::transmute::<[u64; size_of::<Self>() / 8], Self>(words) })
    }

    /// The values of [`KEPT`], in that order.
    pub const fn kept(&self) -> [u64; KEPT.len()] {
        let all = &self.0;
        [all.rbx, all.rbp, all.r12, all.r13, all.r14, all.r15]
    }

    /// The instruction pointer.
    pub const fn at(&self) -> u64 {
        self.0.rip
    }

    /// Sets the instruction pointer.
    pub const fn set_at(&mut self, address: u64) {
        self.0.rip = address;
    }

    /// The address of the breakpoint at which a thread stands.
    pub const fn at_breakpoint(&self) -> u64 {
        self.0.rip.wrapping_sub(BEHIND_BREAKPOINT)
    }

    /// The address of the instruction by which a thread that stands right behind a system call has
    /// called the kernel.
    pub const fn at_system_call(&self) -> u64 {
        self.0.rip.wrapping_sub(SYSTEM_CALL)
    }

    /// The stack pointer.
    pub const fn stack(&self) -> u64 {
        self.0.rsp
    }

    /// Sets the stack pointer.
    pub const fn set_stack(&mut self, address: u64) {
        self.0.rsp = address;
    }

    /// The frame pointer, where functions keep one.
    pub const fn frame(&self) -> u64 {
        self.0.rbp
    }

    /// The address of the thread's own data.
    pub const fn thread_data(&self) -> u64 {
        self.0.fs_base
    }

    /// Sets the address of the thread's own data.
    pub const fn set_thread_data(&mut self, address: u64) {
        self.0.fs_base = address;
    }

    /// The value of a register by its number in [`sbt_common::Cookie::object`]: the arguments of a
    /// function have the numbers from 1 on. The instruction pointer for other numbers.
    pub const fn numbered(&self, number: u8) -> u64 {
        let Self(registers) = self;
        match number {
            1 => registers.rdi,
            2 => registers.rsi,
            3 => registers.rdx,
            4 => registers.rcx,
            5 => registers.r8,
            6 => registers.r9,
            7 => registers.rax,
            8 => registers.rbx,
            9 => registers.rbp,
            10 => registers.r10,
            11 => registers.r11,
            12 => registers.r12,
            13 => registers.r13,
            14 => registers.r14,
            15 => registers.r15,
            _ => registers.rip,
        }
    }

    /// Sets the value that [`Self::numbered`] gives for a number; the instruction pointer for numbers
    /// that are no register's.
    pub const fn set_numbered(&mut self, number: u8, value: u64) {
        let Self(registers) = self;
        let place = match number {
            1 => &mut registers.rdi,
            2 => &mut registers.rsi,
            3 => &mut registers.rdx,
            4 => &mut registers.rcx,
            5 => &mut registers.r8,
            6 => &mut registers.r9,
            7 => &mut registers.rax,
            8 => &mut registers.rbx,
            9 => &mut registers.rbp,
            10 => &mut registers.r10,
            11 => &mut registers.r11,
            12 => &mut registers.r12,
            13 => &mut registers.r13,
            14 => &mut registers.r14,
            15 => &mut registers.r15,
            _ => &mut registers.rip,
        };
        *place = value;
    }

    /// These registers, so that a thread that stands in or right behind a system call stands before
    /// it instead, as the kernel would make it if a signal had come. `None` if the call must not be
    /// made again, or has ended with a result.
    pub fn before_call(&self) -> Option<Self> {
        /// `ERESTARTSYS`, `ERESTARTNOINTR` and `ERESTARTNOHAND` (linux/errno.h): the results with
        /// which the kernel makes a call again as if nothing had happened. With others it goes on
        /// where it was, which only the kernel is able to.
        const AGAIN: [i64; 3] = [512, 513, 514];
        let Self(mut registers) = *self;
        let number = registers.orig_rax.cast_signed();
        if number < 0 {
            return Some(*self);
        }
        if !AGAIN.contains(&registers.rax.cast_signed().wrapping_neg()) {
            return None;
        }
        registers.rax = registers.orig_rax;
        registers.rip = registers.rip.wrapping_sub(SYSTEM_CALL);
        registers.orig_rax = u64::MAX;
        Some(Self(registers))
    }

    /// Whether a thread that stands at a system call is about to begin it.
    pub const fn begins_call(&self) -> bool {
        /// What the kernel puts there until the call has a result (`ENOSYS`).
        const NO_RESULT: i64 = -38;
        self.0.rax.cast_signed() == NO_RESULT
    }

    /// These registers behind a system call that has ended, so that they are those of no call. `None`
    /// if the call has not ended with a result.
    pub fn behind_call(&self) -> Option<Self> {
        /// Errors beyond this are for the kernel alone.
        const LAST: i64 = 511;
        let Self(mut registers) = *self;
        let is_for_kernel = (-1000..-LAST).contains(&registers.rax.cast_signed());
        registers.orig_rax = u64::MAX;
        (!is_for_kernel).then_some(Self(registers))
    }

    /// Sets the first arguments of a function or of a system call; at most three.
    pub fn set_arguments(&mut self, arguments: &[u64]) {
        let Self(registers) = self;
        let places = [&mut registers.rdi, &mut registers.rsi, &mut registers.rdx];
        for (place, argument) in places.into_iter().zip(arguments) {
            *place = *argument;
        }
    }

    /// The values that may be addresses of objects: all registers but the instruction pointer and
    /// the stack pointer, those first that keep an object during calls.
    pub const fn held(&self) -> [u64; 15] {
        let Self(r) = self;
        [
            r.rdi, r.rbx, r.rbp, r.r12, r.r13, r.r14, r.r15, r.rsi, r.rdx, r.rcx, r.r8, r.r9,
            r.rax, r.r10, r.r11,
        ]
    }

    /// The number of the system call that the thread is in, or has just left; negative if none.
    pub const fn system_call(&self) -> i64 {
        self.0.orig_rax.cast_signed()
    }

    /// Sets the number that [`Self::system_call`] returns, and the result of the call.
    pub const fn set_system_call(&mut self, number: i64, result: u64) {
        self.0.orig_rax = number.cast_unsigned();
        self.0.rax = result;
    }

    /// The result of a system call.
    pub const fn result(&self) -> u64 {
        self.0.rax
    }

    /// Whether the thread makes single steps of its own.
    pub const fn makes_steps(&self) -> bool {
        self.0.eflags & STEPS != 0
    }

    /// These registers, about to call the kernel by the instruction at `at` with up to six
    /// arguments; other registers stay as they are.
    #[must_use]
    pub fn calling(self, at: u64, number: libc::c_long, arguments: &[u64]) -> Self {
        let Self(mut registers) = self;
        registers.rip = at;
        registers.rax = number.cast_unsigned();
        registers.orig_rax = u64::MAX;
        let places = [
            &mut registers.rdi,
            &mut registers.rsi,
            &mut registers.rdx,
            &mut registers.r10,
            &mut registers.r8,
            &mut registers.r9,
        ];
        for (place, argument) in places.into_iter().zip(arguments) {
            *place = *argument;
        }
        Self(registers)
    }

    /// The result of the system call by the instruction at `at`; `None` if the thread does not
    /// stand right behind that instruction.
    pub const fn result_of_call_at(&self, at: u64) -> Option<u64> {
        if self.0.rip == at + SYSTEM_CALL {
            Some(self.0.rax)
        } else {
            None
        }
    }

    /// Restarts a system call that has ended with `EINTR` only because its thread was asked to
    /// stop; most calls restart by themselves (signal(7) names the others). Returns whether the
    /// registers are those of such a call. If a signal has come as well, and the program handles
    /// it, the call ends as it would have without sbt. A relative time limit starts anew.
    pub fn begin_again(&mut self) -> bool {
        /// `ERESTARTNOHAND` (linux/errno.h): the result with which the kernel restarts other calls
        /// by itself.
        const UNLESS_HANDLED: i64 = 514;
        let is_in_call = self.0.orig_rax.cast_signed() >= 0;
        let is_interrupted = self.0.rax.cast_signed() == -i64::from(libc::EINTR);
        if is_in_call && is_interrupted {
            self.0.rax = (-UNLESS_HANDLED).cast_unsigned();
        }
        is_in_call && is_interrupted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are those of [`sbt_common::Cookie::object`], as the BPF programs read them.
    #[test]
    fn numbers() {
        for (register, expected) in [
            (Register::RDI, Some(1)),
            (Register::R9, Some(6)),
            (Register::RAX, Some(7)),
            (Register::RBX, Some(8)),
            (Register::RBP, Some(9)),
            (Register::R10, Some(10)),
            (Register::R15, Some(15)),
            (Register::RSP, None),
            (Register::EDI, None),
        ] {
            assert_eq!(number(register), expected, "{register:?}");
        }
    }

    #[test]
    fn a_number_names_the_register_that_it_sets() {
        for number in 1..=15 {
            let mut registers = Registers::none();
            registers.set_numbered(number, 77);
            assert_eq!(registers.numbered(number), 77);
            assert_eq!(registers.at(), 0);
            let register = register_of(number).unwrap();
            assert_eq!(super::number(register), Some(number));
        }
        assert_eq!((register_of(0), register_of(16)), (None, None));
    }

    #[test]
    fn a_call_is_made_again_only_where_the_kernel_would() {
        let in_call = |result: i64| {
            let mut registers = Registers::none();
            registers.set_at(0x1002);
            registers.set_system_call(202, result.cast_unsigned());
            registers
        };
        for result in [-512, -513, -514] {
            let before = in_call(result).before_call().unwrap();
            assert_eq!((before.at(), before.result()), (0x1000, 202));
            assert!(before.system_call() < 0);
            assert!(in_call(result).behind_call().is_none());
        }
        // Goes on with its rest of time; ended with a result; interrupted.
        for result in [-516, 0, 7, -4] {
            assert!(in_call(result).before_call().is_none(), "{result}");
        }
        assert!(in_call(-516).behind_call().is_none());
        for result in [0, 7, -4, -511] {
            let behind = in_call(result).behind_call().unwrap();
            assert_eq!((behind.at(), behind.system_call()), (0x1002, -1));
            assert!(!in_call(result).begins_call());
        }
        assert!(in_call(-38).begins_call());
        let mut outside = in_call(5);
        outside.set_system_call(-1, 5);
        assert_eq!(outside.before_call().unwrap().words(), outside.words());
    }
}
