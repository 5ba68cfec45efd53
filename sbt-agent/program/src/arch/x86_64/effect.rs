//! The reads and writes of an instruction, as far as a waiting loop is concerned.

use iced_x86::{InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory};

use super::instruction::{Access, Instruction};

/// A set of places that hold values, one bit each: bits 0 to 15 are the registers, bit 16 the
/// flags; the rest are words of the thread's own, on its stack or thread-local.
pub type Places = u64;

pub const FLAGS: Places = 1 << 16;

/// The bit of the first of the thread's own words.
const FIRST_WORD: usize = 17;

/// The registers, in the order of their bits.
const GENERAL: [Register; 16] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RSP,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// The places that a called function may change: rax, rcx, rdx, rsi, rdi, r8 to r11, and flags.
pub const CALLER_SAVED: Places = 0b1111_1100_0111 | FLAGS;

/// Where an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// The address is a constant.
    Fixed,
    /// From the value that a register had when the function was entered.
    Given(Register),
    /// From one of the thread's own words.
    Word(Places),
    /// From the result of the instruction at this address.
    Made(u64),
}

/// An address in memory, as far as two can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    root: Root,
    index: Register,
    displacement: u64,
}

impl Operand {
    /// Whether the address is the same for every thread.
    pub fn is_fixed(self) -> bool {
        self.fixed().is_some()
    }

    /// The address, if it is the same for every thread.
    pub fn fixed(self) -> Option<u64> {
        let is_fixed = self.root == Root::Fixed && self.index == Register::None;
        is_fixed.then_some(self.displacement)
    }
}

/// The effect of an instruction.
#[derive(Clone, Copy, Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts about an instruction"
)]
pub struct Effect {
    /// The places whose values the instruction uses.
    pub reads: Places,
    /// The places that the instruction overwrites.
    pub writes: Places,
    /// The places that the instruction may overwrite.
    pub may_write: Places,
    /// The address in memory, other than the thread's own, that the instruction reads; `None` if it
    /// reads none.
    pub load: Option<Operand>,
    /// Whether the instruction reads such memory.
    pub loads: bool,
    /// The places that the read address depends on.
    pub address: Places,
    /// The address in such memory that the instruction writes.
    pub store: Option<Operand>,
    /// Whether no other thread can come in between the instruction's read and its write.
    pub is_atomic: bool,
    /// Whether the written value depends on the read one, with no other thread in between.
    pub counts: bool,
    /// Whether the instruction writes only if it reads an expected value.
    pub compares: bool,
    /// Whether the instruction reads a clock.
    pub is_clock: bool,
    /// Whether the instruction moves the stack pointer.
    pub moves_stack: bool,
    /// Whether no loop that only waits has such an instruction.
    pub is_work: bool,
}

/// The value of each register: its origin, and its distance from the origin.
pub type Holds = [(Root, u64); 16];

/// The thread's own words in a function, and the values of the registers.
pub struct Words {
    /// Whether rbp points into the stack.
    has_frame: bool,
    known: Vec<(Register, u64)>,
    /// The values of the registers before the next instruction, as far as the path to it is known.
    holds: Holds,
    factory: InstructionInfoFactory,
}

impl Words {
    /// For a function that begins with these instructions.
    pub fn of(mut beginning: impl Iterator<Item = Instruction>) -> Self {
        Self {
            has_frame: beginning.any(|instruction| instruction.sets_frame()),
            known: Vec::new(),
            holds: GENERAL.map(|register| (Root::Given(register), 0)),
            factory: InstructionInfoFactory::new(),
        }
    }

    /// The origin of a register's value, and its distance from the origin.
    fn origin(&self, register: Register) -> (Root, u64) {
        if !register.is_gpr64() {
            return (Root::Fixed, 0);
        }
        self.holds[register.number()]
    }

    /// The present values of the registers.
    pub const fn holds(&self) -> Holds {
        self.holds
    }

    /// Takes the values of the registers from another place, from which the next instruction is
    /// reached.
    pub const fn come(&mut self, holds: &Holds) {
        self.holds = *holds;
    }

    /// Updates the values of the registers after an instruction.
    fn follow(&mut self, instruction: &iced_x86::Instruction, effect: &Effect) {
        let to = instruction.op0_register();
        let new = match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Mov, OpKind::Register) => Some(self.origin(instruction.op1_register())),
            (Mnemonic::Mov, OpKind::Memory) if !effect.loads && effect.reads != 0 => {
                Some((Root::Word(effect.reads & !0xffff), 0))
            }
            (Mnemonic::Lea, _) if instruction.memory_index() == Register::None => {
                let (root, offset) = self.origin(instruction.memory_base());
                Some((
                    root,
                    offset.wrapping_add(instruction.memory_displacement64()),
                ))
            }
            (Mnemonic::Add, OpKind::Immediate8to64 | OpKind::Immediate32to64) => {
                let (root, offset) = self.origin(to);
                Some((root, offset.wrapping_add(instruction.immediate(1))))
            }
            _ => None,
        };
        for register in GENERAL {
            if (effect.writes | effect.may_write) & 1 << register.number() != 0 {
                let made = (Root::Made(instruction.ip()), 0);
                self.holds[register.number()] = new.filter(|_| register == to).unwrap_or(made);
            }
        }
    }

    /// Forgets the values of the registers that a called function may change.
    pub fn call(&mut self, at: u64) {
        for register in GENERAL {
            if CALLER_SAVED & 1 << register.number() != 0 {
                self.holds[register.number()] = (Root::Made(at), 0);
            }
        }
    }

    /// The bit of one of the thread's own words, or no bit if its value is unknown; `None` if other
    /// threads may write the memory.
    fn own(&mut self, memory: &UsedMemory) -> Option<Places> {
        let base = memory.base();
        let is_local = memory.segment() == Register::FS && base == Register::None;
        let is_stack = base == Register::RSP || base == Register::RBP && self.has_frame;
        if !(is_local || is_stack) {
            return None;
        }
        // An element of an array of the thread's own: its value is unknown.
        if memory.index() != Register::None {
            return Some(0);
        }
        let key = (
            if is_local { Register::FS } else { base },
            memory.displacement(),
        );
        let number = self.known.iter().position(|known| *known == key);
        let number = number.unwrap_or_else(|| {
            self.known.push(key);
            self.known.len() - 1
        });
        // If there are too many to tell apart, they share the last bit.
        Some(1 << (FIRST_WORD + number).min(63))
    }

    /// The effect of an instruction other than a call.
    pub fn effect(&mut self, instruction: &Instruction) -> Effect {
        let Instruction(instruction) = instruction;
        let mut effect = Effect {
            is_atomic: instruction.has_lock_prefix(),
            compares: instruction.mnemonic() == Mnemonic::Cmpxchg,
            counts: instruction.has_lock_prefix() && instruction.mnemonic() != Mnemonic::Xchg,
            ..Effect::default()
        };
        let (registers, memory) = {
            let info = self.factory.info(instruction);
            (info.used_registers().to_vec(), info.used_memory().to_vec())
        };
        for used in registers {
            let full = used.register().full_register();
            if full == Register::RSP {
                effect.moves_stack |= !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
                continue;
            }
            if full.is_segment_register() || full == Register::RIP {
                continue;
            }
            let Some(bit) = register(full) else {
                effect.is_work = true;
                continue;
            };
            effect.add(used.access(), bit);
        }
        for memory in &memory {
            if memory.access() == OpAccess::NoMemAccess {
                continue;
            }
            if let Some(word) = self.own(memory) {
                effect.add(memory.access(), word);
                continue;
            }
            let (root, offset) = self.origin(memory.base());
            let operand = Operand {
                root,
                index: memory.index(),
                displacement: offset.wrapping_add(memory.displacement()),
            };
            let Access { reads, writes } = Access::of(memory.access());
            if reads {
                effect.load = Some(operand);
                effect.loads = true;
                let registers = [memory.base(), memory.index()];
                let bits = registers.map(|part| register(part.full_register()).unwrap_or(0));
                effect.address |= bits[0] | bits[1];
            }
            if writes {
                effect.store = Some(operand);
                effect.is_atomic |= instruction.mnemonic() == Mnemonic::Xchg;
            }
        }
        if instruction.rflags_read() != 0 {
            effect.reads |= FLAGS;
        }
        if instruction.rflags_modified() != 0 {
            effect.writes |= FLAGS;
        }
        effect.is_clock = matches!(instruction.mnemonic(), Mnemonic::Rdtsc | Mnemonic::Rdtscp);
        effect.is_work |= instruction.has_rep_prefix() || is_work(instruction);
        self.follow(instruction, &effect);
        effect
    }
}

impl Effect {
    fn add(&mut self, how: OpAccess, places: Places) {
        match how {
            OpAccess::Read | OpAccess::CondRead => self.reads |= places,
            OpAccess::Write => self.writes |= places,
            OpAccess::CondWrite => self.may_write |= places,
            OpAccess::ReadWrite => {
                self.reads |= places;
                self.writes |= places;
            }
            OpAccess::ReadCondWrite => {
                self.reads |= places;
                self.may_write |= places;
            }
            OpAccess::None | OpAccess::NoMemAccess => {}
        }
    }
}

/// The bit of a general register.
fn register(full: Register) -> Option<Places> {
    full.is_gpr64().then(|| 1 << full.number())
}

/// Whether an instruction multiplies, divides or calls the kernel, which is more than waiting.
fn is_work(instruction: &iced_x86::Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Mul
            | Mnemonic::Imul
            | Mnemonic::Div
            | Mnemonic::Idiv
            | Mnemonic::Mulx
            | Mnemonic::Syscall
            | Mnemonic::Int
            | Mnemonic::Cpuid
            | Mnemonic::Popcnt
            | Mnemonic::Crc32
    )
}

/// Whether a function, given its instructions, uses its first argument as a whole register, as it
/// would use a pointer.
pub fn first_is_pointer(instructions: impl Iterator<Item = Instruction>) -> bool {
    let mut factory = InstructionInfoFactory::new();
    for Instruction(instruction) in instructions {
        // Saving a register is not a use.
        let is_push = instruction.mnemonic() == Mnemonic::Push;
        if is_push && instruction.op0_kind() == OpKind::Register {
            continue;
        }
        let info = factory.info(&instruction);
        let of_it = info.used_registers().iter();
        let mut of_it = of_it.filter(|used| used.register().full_register() == Register::RDI);
        let read = of_it.clone().find(|used| {
            !matches!(
                used.access(),
                OpAccess::None | OpAccess::Write | OpAccess::CondWrite
            )
        });
        if let Some(read) = read {
            return read.register() == Register::RDI;
        }
        if of_it.next().is_some() {
            return false;
        }
    }
    false
}
