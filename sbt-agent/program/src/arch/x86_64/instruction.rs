//! One instruction, as code asks for it that knows no architecture.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
};

use super::registers::{FRAME, Register, STACK};

/// A decoded instruction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Instruction(pub(super) iced_x86::Instruction);

/// The instructions of some code whose first byte lies at `at`. Bytes that are no instruction come
/// as invalid instructions ([`Instruction::is_valid`]).
pub fn decode(code: &[u8], at: u64) -> impl Iterator<Item = Instruction> {
    Decoder::with_ip(64, code, at, DecoderOptions::NONE)
        .into_iter()
        .map(Instruction)
}

/// The byte with which an instruction begins that changes memory in one atomic step.
pub const LOCK: u8 = 0xf0;

/// The target of a call, as far as two targets can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Callee {
    /// The function or stub at an address.
    At(u64),
    /// The function that the pointer at an address points to.
    Through(u64),
    /// A target that is known at run time only; equal to no other target.
    Unknown,
}

/// The effect of an instruction on the flow of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next instruction follows.
    Next,
    /// A call of a function.
    Call(Callee),
    /// A call of the kernel, after which the next instruction follows.
    System,
    /// A jump to an address.
    Jump(u64),
    /// A jump to an address, or on to the next instruction.
    Branch(u64),
    /// A jump to a target in a register or in memory; the address of the memory if it is constant.
    Indirect(Option<u64>),
    /// The function returns.
    Return,
    /// The kernel is entered by a trap.
    Trap,
    /// A transaction begins or ends.
    Transaction,
}

/// How something is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether it is read, or may be.
    pub reads: bool,
    /// Whether it is written, or may be.
    pub writes: bool,
}

impl Access {
    pub(super) const fn of(access: OpAccess) -> Self {
        let (reads, writes) = match access {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write | OpAccess::CondWrite => (false, true),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
            OpAccess::None | OpAccess::NoMemAccess => (false, false),
        };
        Self { reads, writes }
    }
}

/// The registers and memory that an instruction uses and changes.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts about an instruction"
)]
pub struct Uses {
    /// Registers, each as a whole.
    pub registers: Vec<(Register, Access)>,
    /// Whether it asks for the flags.
    pub reads_flags: bool,
    /// Whether it sets any of the flags.
    pub sets_flags: bool,
    /// The use of the memory that it names; `None` if it names none.
    pub memory: Option<Access>,
    /// Whether it writes any memory, also the stack by a push.
    pub writes_memory: bool,
    /// Whether it overwrites its first operand, whatever that held.
    pub overwrites: bool,
}

/// Finds out what instructions use.
pub struct Analysis(InstructionInfoFactory);

impl Analysis {
    pub fn new() -> Self {
        Self(InstructionInfoFactory::new())
    }

    /// The registers and memory that an instruction uses and changes.
    pub fn uses(&mut self, instruction: &Instruction) -> Uses {
        let Instruction(instruction) = instruction;
        let info = self.0.info(instruction);
        let registers = info.used_registers().iter();
        let registers = registers.map(|used| {
            let whole = used.register().full_register();
            (whole, Access::of(used.access()))
        });
        let mut operands = 0..instruction.op_count();
        let named = operands.find(|operand| instruction.op_kind(*operand) == OpKind::Memory);
        let mut memory = info.used_memory().iter();
        Uses {
            registers: registers.collect(),
            reads_flags: instruction.rflags_read() != 0,
            sets_flags: instruction.rflags_modified() != 0,
            memory: named.map(|operand| Access::of(info.op_access(operand))),
            writes_memory: memory.any(|used| Access::of(used.access()).writes),
            overwrites: info.op0_access() == OpAccess::Write,
        }
    }
}

/// A place in memory, as an instruction names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The register that holds the base; `None` if the address is constant.
    pub base: Option<Register>,
    /// The register that is added; [`Register::None`] for none.
    pub index: Register,
    /// The number of bytes added, or the constant address.
    pub offset: u64,
}

/// The value that an instruction puts into a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The register keeps its value.
    Nothing,
    /// A constant address.
    Address(u64),
    /// The word at a constant address.
    WordAt(u64),
    /// A word of the function's frame, at this offset from the frame pointer.
    WordOfFrame(u64),
    /// A value from anywhere else.
    Other,
}

/// The operands of a move: equal for two instructions that move the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved(OpKind, Register, Register, u64);

impl Instruction {
    /// Whether the bytes are an instruction.
    pub fn is_valid(&self) -> bool {
        !self.0.is_invalid()
    }

    /// The virtual address of the first byte.
    pub fn at(&self) -> u64 {
        self.0.ip()
    }

    /// The address behind it.
    pub fn next(&self) -> u64 {
        self.0.next_ip()
    }

    /// Its length, bytes.
    pub fn length(&self) -> usize {
        self.0.len()
    }

    /// The effect on the flow of control.
    pub fn flow(&self) -> Flow {
        match self.0.flow_control() {
            FlowControl::Next => Flow::Next,
            FlowControl::Call if self.target().is_none() => Flow::System,
            FlowControl::Call | FlowControl::IndirectCall => Flow::Call(self.callee()),
            FlowControl::UnconditionalBranch => Flow::Jump(self.0.near_branch64()),
            FlowControl::ConditionalBranch => Flow::Branch(self.0.near_branch64()),
            FlowControl::IndirectBranch => Flow::Indirect(self.word()),
            FlowControl::Return => Flow::Return,
            FlowControl::Interrupt | FlowControl::Exception => Flow::Trap,
            FlowControl::XbeginXabortXend => Flow::Transaction,
        }
    }

    fn callee(&self) -> Callee {
        match (self.target(), self.word()) {
            (Some(target), _) => Callee::At(target),
            (None, Some(word)) => Callee::Through(word),
            (None, None) => Callee::Unknown,
        }
    }

    /// The address to which it goes or may go, if that is constant.
    pub fn target(&self) -> Option<u64> {
        (self.0.op0_kind() == OpKind::NearBranch64).then(|| self.0.near_branch64())
    }

    /// The address of the memory that it names, relative to the code itself.
    pub fn word(&self) -> Option<u64> {
        let is_relative = self.0.is_ip_rel_memory_operand();
        is_relative.then(|| self.0.ip_rel_memory_address())
    }

    /// The constant that it uses as a second operand, if that may be an address.
    pub fn constant(&self) -> Option<u64> {
        let may_be_address = matches!(
            self.0.op1_kind(),
            OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64
        );
        may_be_address.then(|| self.0.immediate(1))
    }

    /// Whether it calls the kernel.
    pub fn is_system_call(&self) -> bool {
        self.0.mnemonic() == Mnemonic::Syscall
    }

    /// The constant that it puts into the register for the number of a system call.
    pub fn number_of_system_call(&self) -> Option<u64> {
        self.moved_constant()
            .filter(|_| self.0.op0_register() == Register::EAX)
    }

    /// The constant that the instruction puts into the register of the first argument: `None` if it
    /// does not change the register, `Some(None)` if the value is no constant.
    #[allow(
        clippy::option_option,
        reason = "an unknown value differs from an unchanged register"
    )]
    pub fn first_argument(&self) -> Option<Option<u64>> {
        let is_first = self.0.op0_kind() == OpKind::Register
            && self.0.op0_register().full_register() == Register::RDI;
        let asks = matches!(self.0.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
        (is_first && !asks).then(|| self.moved_constant())
    }

    fn moved_constant(&self) -> Option<u64> {
        let is_moved =
            self.0.mnemonic() == Mnemonic::Mov && self.0.op1_kind() == OpKind::Immediate32;
        is_moved.then(|| u64::from(self.0.immediate32()))
    }

    /// Whether it is typical of waiting.
    pub fn is_of_waiting(&self) -> bool {
        let swaps = self.0.mnemonic() == Mnemonic::Xchg
            && self.0.op0_kind().max(self.0.op1_kind()) == OpKind::Memory;
        swaps
            || self.0.has_lock_prefix()
            || matches!(self.0.mnemonic(), Mnemonic::Pause | Mnemonic::Syscall)
    }

    /// Whether it may take a lock itself, as Rust's mutex does, whose code is inlined.
    pub fn takes_lock(&self) -> bool {
        self.0.has_lock_prefix() && self.0.mnemonic() == Mnemonic::Cmpxchg
    }

    /// Whether it points the frame pointer to the stack.
    pub fn sets_frame(&self) -> bool {
        self.0.mnemonic() == Mnemonic::Mov
            && self.0.op0_register() == FRAME
            && self.0.op1_register() == STACK
    }

    /// The memory that it reads or writes by naming it; `None` for thread-local variables.
    pub fn memory(&self) -> Option<Named> {
        let Self(instruction) = self;
        let mut operands = 0..instruction.op_count();
        let is_memory = operands.any(|operand| instruction.op_kind(operand) == OpKind::Memory);
        let of_thread = [Register::FS, Register::GS].contains(&instruction.segment_prefix());
        if !is_memory || instruction.mnemonic() == Mnemonic::Lea || of_thread {
            return None;
        }
        Some(Named {
            base: match instruction.memory_base() {
                Register::RIP | Register::None => None,
                register => Some(register.full_register()),
            },
            index: instruction.memory_index(),
            offset: instruction.memory_displacement64(),
        })
    }

    /// Whether a register is part of the address of memory that it reads or writes.
    pub fn addresses_by(&self, register: Register) -> bool {
        let parts = [self.0.memory_base(), self.0.memory_index()];
        self.0.mnemonic() != Mnemonic::Lea && parts.contains(&register)
    }

    /// The value that the instruction puts into a register, given as a whole.
    pub fn puts_into(&self, register: Register) -> Put {
        let Self(instruction) = self;
        if instruction.op0_kind() != OpKind::Register
            || instruction.op0_register().full_register() != register
        {
            return Put::Nothing;
        }
        let offset = instruction.memory_displacement64();
        let is_plain = instruction.op1_kind() == OpKind::Memory
            && instruction.memory_index() == Register::None
            && instruction.segment_prefix() == Register::None;
        let from = instruction.memory_base();
        let is_fixed = matches!(from, Register::RIP | Register::None);
        match instruction.mnemonic() {
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push => Put::Nothing,
            Mnemonic::Lea if is_plain && is_fixed => Put::Address(offset),
            Mnemonic::Mov if is_plain && is_fixed => Put::WordAt(offset),
            Mnemonic::Mov if is_plain && from == FRAME => Put::WordOfFrame(offset),
            _ => Put::Other,
        }
    }

    /// The register that is its second operand, as a whole.
    pub fn source(&self) -> Option<Register> {
        let is_register = self.0.op1_kind() == OpKind::Register;
        is_register.then(|| self.0.op1_register().full_register())
    }

    /// The register that is its first operand, as it is named.
    pub fn destination(&self) -> Register {
        self.0.op0_register()
    }

    /// The operand that the instruction moves into a register; `None` if it makes the register's
    /// value in another way.
    pub fn moved(&self) -> Option<Moved> {
        (self.0.mnemonic() == Mnemonic::Mov).then(|| {
            let (base, displacement) = (self.0.memory_base(), self.0.memory_displacement64());
            Moved(self.0.op1_kind(), self.0.op1_register(), base, displacement)
        })
    }

    /// Whether it calls the function to which a member of a structure points.
    pub fn calls_member(&self) -> bool {
        self.0.flow_control() == FlowControl::IndirectCall
            && self.0.op0_kind() == OpKind::Memory
            && self.0.memory_displacement64() != 0
    }

    /// Base register and displacement of the word that it counts in, atomically; `None` if it does
    /// not count.
    pub fn counts(&self) -> Option<(Register, u64)> {
        let Self(instruction) = self;
        let locked = instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xadd;
        let counting = matches!(
            instruction.mnemonic(),
            Mnemonic::Sub | Mnemonic::Add | Mnemonic::Dec | Mnemonic::Xadd
        );
        let plain = instruction.op0_kind() == OpKind::Memory
            && instruction.memory_index() == Register::None
            && instruction.memory_base() != Register::RIP;
        (locked && counting && plain).then(|| {
            (
                instruction.memory_base(),
                instruction.memory_displacement64(),
            )
        })
    }

    /// Whether it may write to a part of a register.
    pub fn writes(&self, register: Register) -> bool {
        let mut info = InstructionInfoFactory::new();
        info.info(&self.0).used_registers().iter().any(|used| {
            used.register().full_register() == register
                && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
        })
    }
}

/// The target of the call at the end of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// The function that the pointer at an address points to.
    Through(u64),
    /// The function or stub at an address.
    At(u64),
}

/// The bytes of the longest call that [`called_by`] knows.
const CALL: usize = 6;

/// The target of the call before an address. `before` returns the given number of bytes before that
/// address.
pub fn called_by<'a>(returns: u64, before: impl Fn(u64) -> Option<&'a [u8]>) -> Option<Called> {
    let bytes = <[u8; CALL]>::try_from(before(CALL as u64)?).ok()?;
    let [_, _, distance @ ..] = bytes;
    let to = returns.wrapping_add_signed(i32::from_le_bytes(distance).into());
    match bytes {
        [0xff, 0x15, ..] => Some(Called::Through(to)),
        [_, 0xe8, ..] => Some(Called::At(to)),
        _ => None,
    }
}

/// Whether the instruction before an address may be a call: `call rel32`, or a call through a
/// register or memory, `ff /2`, of whatever length. `before` gives so many bytes before that
/// address.
pub fn ends_with_call<'a>(before: impl Fn(u64) -> Option<&'a [u8]>) -> bool {
    ends_with_direct_call(&before)
        || (2..=7).any(|length| {
            before(length)
                .is_some_and(|bytes| bytes[0] == 0xff && bytes.len() > 1 && bytes[1] & 0x38 == 0x10)
        })
}

/// Whether the instruction before an address may be a `call rel32`.
pub fn ends_with_direct_call<'a>(before: impl Fn(u64) -> Option<&'a [u8]>) -> bool {
    before(5).is_some_and(|bytes| bytes[0] == 0xe8)
}
