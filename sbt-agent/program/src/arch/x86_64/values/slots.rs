//! What a function has put aside in its own stack frame.
//!
//! Only the function itself writes there, as long as it has given the frame's address to nobody.

use iced_x86::{FlowControl, InstructionInfoFactory, Mnemonic, OpKind, UsedMemory};

use super::{
    super::{
        instruction::Access,
        registers::{FRAME, Register, STACK},
    },
    Value,
};

/// A part of the frame whose content is known.
struct Slot {
    /// The address, less the stack pointer at the function's beginning, bytes.
    at: i64,
    /// Its length, bytes.
    size: i64,
    value: Value,
}

/// The known part of the frame. Addresses are relative to the stack pointer at the function's beginning.
pub struct Slots {
    /// The stack pointer, if known.
    stack: Option<i64>,
    /// The frame pointer; `None` if the register holds something else.
    frame: Option<i64>,
    /// Whether others than the stack and frame pointers may hold an address in the frame.
    is_shared: bool,
    known: Vec<Slot>,
    factory: InstructionInfoFactory,
}

impl Slots {
    /// At the beginning of a function.
    pub fn at_entry() -> Self {
        Self {
            stack: Some(0),
            frame: None,
            is_shared: false,
            known: Vec::new(),
            factory: InstructionInfoFactory::new(),
        }
    }

    /// The known content of the memory that an instruction reads as its second operand.
    pub fn loaded(&self, instruction: &iced_x86::Instruction) -> Option<Value> {
        let (at, size) = self.named(instruction)?;
        let mut known = self.known.iter();
        let slot = known.find(|slot| (slot.at, slot.size) == (at, size))?;
        Some(slot.value)
    }

    /// Executes an instruction. `value`: the content of the register that is its second operand.
    pub fn step(&mut self, instruction: &iced_x86::Instruction, value: Option<Value>) {
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => {
                if self.is_shared {
                    self.known.clear();
                }
                return;
            }
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => self.known.clear(),
            // What follows is reached from a place where the frame is not yet given up.
            FlowControl::Return => {
                self.known.clear();
                (self.stack, self.frame) = (None, None);
                return;
            }
            _ => {}
        }
        let stored = value.and_then(|value| {
            let is_move = instruction.mnemonic() == Mnemonic::Mov
                && instruction.op0_kind() == OpKind::Memory
                && instruction.op1_kind() == OpKind::Register;
            let (at, size) = self.named(instruction).filter(|_| is_move)?;
            // What lies above belongs to the caller.
            let fits = size == 8 || size == 4 && is_short(value);
            (fits && at + size <= 0).then_some(Slot { at, size, value })
        });
        self.is_shared |= self.shares(instruction);
        let info = self.factory.info(instruction);
        let written: Vec<UsedMemory> = info
            .used_memory()
            .iter()
            .filter(|memory| Access::of(memory.access()).writes)
            .copied()
            .collect();
        let changes = |register| {
            let mut used = info.used_registers().iter();
            used.any(|used| {
                used.register().full_register() == register && Access::of(used.access()).writes
            })
        };
        let (moves_stack, moves_frame) = (changes(STACK), changes(FRAME));
        for memory in &written {
            self.write(memory);
        }
        self.known.extend(stored);
        let stack = self.stack;
        if moves_stack {
            self.stack = self.moved(instruction);
            // What lies below the stack pointer may be overwritten at any time.
            let lowest = self.stack.unwrap_or(i64::MAX);
            if stack.is_none_or(|before| before < lowest) {
                self.known.retain(|slot| slot.at >= lowest);
            }
        }
        if moves_frame {
            let is_set = copies(instruction, FRAME, STACK);
            self.frame = stack.filter(|_| is_set);
        }
    }

    /// Where the memory operand of an instruction lies in the frame, and its size, bytes.
    fn named(&self, instruction: &iced_x86::Instruction) -> Option<(i64, i64)> {
        if instruction.segment_prefix() != Register::None
            || instruction.memory_index() != Register::None
        {
            return None;
        }
        let base = self.base(instruction.memory_base())?;
        let at = base.checked_add(instruction.memory_displacement64().cast_signed())?;
        let size = i64::try_from(instruction.memory_size().size()).ok()?;
        Some((at, size))
    }

    /// What a register holds, if it points into the frame.
    fn base(&self, register: Register) -> Option<i64> {
        match register {
            STACK => self.stack,
            FRAME => self.frame,
            _ => None,
        }
    }

    /// Whether an instruction copies an address in the frame to where it is not followed.
    fn shares(&self, instruction: &iced_x86::Instruction) -> bool {
        let is_own =
            |register: Register| register == STACK || register == FRAME && self.frame.is_some();
        let to = instruction.op0_register();
        match instruction.mnemonic() {
            Mnemonic::Lea => {
                let parts = [instruction.memory_base(), instruction.memory_index()];
                to != STACK && parts.into_iter().any(is_own)
            }
            Mnemonic::Push => is_own(to),
            Mnemonic::Cmp | Mnemonic::Test => false,
            // A new stack or frame pointer.
            _ if is_own(to) || copies(instruction, FRAME, STACK) => false,
            _ => (1..instruction.op_count()).any(|operand| {
                instruction.op_kind(operand) == OpKind::Register
                    && is_own(instruction.op_register(operand).full_register())
            }),
        }
    }

    /// The stack pointer after an instruction that changes it.
    fn moved(&self, instruction: &iced_x86::Instruction) -> Option<i64> {
        let stack = self.stack?;
        if instruction.mnemonic() == Mnemonic::Leave {
            return self.frame.map(|frame| frame + 8);
        }
        if instruction.is_stack_instruction() {
            let by = i64::from(instruction.stack_pointer_increment());
            return stack.checked_add(by).filter(|_| by != 0);
        }
        if copies(instruction, STACK, FRAME) {
            return self.frame;
        }
        let is_number = matches!(
            instruction.op1_kind(),
            OpKind::Immediate8to64 | OpKind::Immediate32to64
        );
        let number = || instruction.immediate(1).cast_signed();
        match instruction.mnemonic() {
            Mnemonic::Sub if is_number => stack.checked_sub(number()),
            Mnemonic::Add if is_number => stack.checked_add(number()),
            Mnemonic::Lea => self.named(instruction).map(|(at, _)| at),
            _ => None,
        }
    }

    /// Forgets what a write to memory may overwrite.
    fn write(&mut self, memory: &UsedMemory) {
        let is_plain = memory.index() == Register::None
            && !matches!(memory.segment(), Register::FS | Register::GS);
        let base = self.base(memory.base()).filter(|_| is_plain);
        let size = i64::try_from(memory.memory_size().size()).unwrap_or(i64::MAX);
        if let Some(at) =
            base.and_then(|base| base.checked_add(memory.displacement().cast_signed()))
            && size > 0
        {
            self.known
                .retain(|slot| slot.at + slot.size <= at || at.saturating_add(size) <= slot.at);
            return;
        }
        let may_be_own = |register| register == STACK || register == FRAME && self.frame.is_some();
        if self.is_shared || may_be_own(memory.base()) || may_be_own(memory.index()) {
            self.known.clear();
        }
    }
}

/// Whether an instruction copies one register to another.
fn copies(instruction: &iced_x86::Instruction, to: Register, from: Register) -> bool {
    instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == to
        && instruction.op1_register() == from
}

/// Whether the lower half of a register has the whole value.
const fn is_short(value: Value) -> bool {
    match value {
        Value::Argument(_) | Value::Leaf { .. } => true,
        Value::Number(number) => number >> 32 == 0,
        _ => false,
    }
}
