//! The code that a thread of the target runs in place of one instruction: it notes in a ring that the
//! thread has come there, executes the instruction, and jumps back.
//!
//! A jump of five bytes replaces the instruction, so that only instructions of at least five bytes
//! qualify: no thread can then stand, and nothing can jump, amid the bytes that change.
//!
//! Where possible the first byte stays as it is ([`entry`]). A kernel probe or a debugger's breakpoint
//! that comes later replaces that byte, and when it goes, it puts the *program's* byte back: with
//! another first byte, what remains would be neither the jump nor the instruction.
//!
//! The code changes nothing that the program could see but the ring. It keeps all registers and
//! flags, leaves the 128 bytes below the stack pointer alone, and calls nothing. It reads only memory
//! of the thread itself, and what the displaced function is about to read anyway.
//!
//! ```text
//! control word   0: off; else the address of the first ring
//! ring           owner (8 bytes), number of records begun (8 bytes), 48 bytes unused, records
//! record         see [`at`]
//! ```
//!
//! A thread owns the ring whose first word is its thread pointer, and reserves a record in it by one
//! instruction, so that a signal handler that comes in between reserves another. A thread without a
//! ring takes a free one of those that follow the ring where it looks first; if there is none, it
//! uses the last ring of all, which all such threads share, and reserves with a locked instruction.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, FlowControl, IcedError, Instruction as Raw,
    InstructionBlock, MemoryOperand, OpKind, Register,
};

use super::{displaced::decode, instruction::Instruction, registers::register_of};

/// Length of a jump, and of the shortest instruction that it can replace, bytes.
pub const JUMP: usize = 5;

/// The greatest length of what replaces an instruction, bytes.
pub const LONGEST_ENTRY: usize = JUMP + 1;

/// `jmp rel32` and `call rel32`.
const JMP: u8 = 0xe9;
const CALL: u8 = 0xe8;

/// Bytes for the code of one place, at most.
pub const ROOM: usize = 1024;

/// Size of a ring's head and of a record, bytes.
pub const RECORD: u64 = 64;

/// How many rings a thread looks at for a free one.
pub const LOOKS: u32 = 8;

/// Offsets in a record, bytes.
pub mod at {
    /// Lower half of the record's number plus 1, 32 bits: written last.
    pub const NUMBER: usize = 0;
    /// The number of the place, 32 bits.
    pub const PLACE: usize = 4;
    /// The time stamp counter, 64 bits.
    pub const TIME: usize = 8;
    /// The thread's number as the C library knows it, 32 bits.
    pub const THREAD: usize = 16;
    /// The lower half of the register with the number of participants, 32 bits.
    pub const COUNT: usize = 20;
    /// The stack pointer, 64 bits.
    pub const STACK: usize = 24;
    /// The register with the object, 64 bits.
    pub const OBJECT: usize = 32;
    /// The return address, 64 bits.
    pub const CALLER: usize = 40;
    /// The first 16 bytes of the object.
    pub const MEMORY: usize = 48;
}

/// Bytes by which the code has moved the stack pointer down when the record is written: the 128 bytes
/// below it that belong to the program, and five saved words.
const MOVED: i64 = RED_ZONE + 5 * 8;

/// Bytes below the stack pointer that belong to the code (System V ABI).
const RED_ZONE: i64 = 128;

/// Where rcx, rax, rdx and rsi are saved, in bytes from the stack pointer.
const SAVED: [(Register, i64); 4] = [
    (Register::RCX, 32),
    (Register::RAX, 24),
    (Register::RDX, 8),
    (Register::RSI, 0),
];

/// A factor that spreads thread pointers over the rings: the golden ratio of 2³¹.
const SPREAD: i32 = 0x4f1b_bcdd;

/// Bit from which on the product of [`SPREAD`] chooses the ring.
const CHOOSES_FROM: u32 = 31;

/// What is noted of a thread that comes to a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// The register that holds the object, by its number in [`sbt_common::Cookie::object`]; 0 for
    /// none.
    pub object: u8,
    /// If set, the 16 bytes at this distance from that register's value are copied, bytes.
    pub memory: Option<i32>,
    /// The register that holds the number of participants, numbered alike; 0 for none.
    pub count: u8,
    /// How far above the stack pointer the return address lies, bytes.
    pub stack_moved: u16,
}

/// Where the rings are, and how they are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Address of the control word.
    pub control: u64,
    /// The number of rings that threads may look at first, as a power of two. [`LOOKS`] more follow,
    /// and the shared one.
    pub rings: u32,
    /// The number of records of a ring, as a power of two.
    pub records: u32,
    /// Distance from a thread's pointer to its number, as the C library keeps it, bytes.
    pub number: u32,
}

impl Rings {
    /// The number of rings in memory.
    pub const fn count(&self) -> u32 {
        (1 << self.rings) + LOOKS + 1
    }

    /// The size of a ring, bytes.
    pub const fn size(&self) -> u64 {
        RECORD + (RECORD << self.records)
    }

    /// The size of all rings, bytes.
    pub const fn total(&self) -> u64 {
        self.size() * self.count() as u64
    }
}

/// A place, and the code for it.
#[derive(Clone, Copy, Debug)]
pub struct Trampoline<'a> {
    /// The instruction that is replaced.
    pub displaced: &'a Instruction,
    /// The number that records of this place get.
    pub place: u32,
    /// What is noted.
    pub capture: Capture,
    /// Where it is noted.
    pub rings: Rings,
}

/// Whether an instruction can be replaced by a jump, and executed elsewhere.
pub(super) fn can_be_replaced(instruction: &Raw) -> bool {
    let is_near = instruction.op0_kind() == OpKind::NearBranch64;
    let goes_on = match instruction.flow_control() {
        FlowControl::Next => true,
        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch | FlowControl::Call => {
            is_near
        }
        _ => false,
    };
    instruction.len() >= JUMP && goes_on && !instruction.is_invalid()
}

/// Whether an instruction can be replaced by a jump, and executed elsewhere.
pub fn is_replaceable(instruction: &Instruction) -> bool {
    can_be_replaced(&instruction.0)
}

/// The bytes that lead a thread from an instruction at `from` to the code at `to` that displaces it: a
/// jump, as a rule with the instruction's own first byte. `code` begins with the instruction. `None` if it
/// cannot be replaced, or if the code is too far away.
pub fn entry(code: &[u8], from: u64, to: u64) -> Option<Vec<u8>> {
    let displaced = decode(code, from).filter(is_replaceable)?;
    let first = *code.first()?;
    let (prefix, opcode): (&[u8], u8) = if is_entered_by_call(&displaced.0) {
        (&[], CALL)
    } else if is_without_effect(first) && displaced.length() > JUMP {
        (&code[..1], JMP)
    } else {
        (&[], JMP)
    };
    let next = from.wrapping_add((prefix.len() + JUMP) as u64);
    let distance = i32::try_from(to.wrapping_sub(next).cast_signed()).ok()?;
    Some([prefix, &[opcode], &distance.to_le_bytes()].concat())
}

/// Where such bytes at `from` lead to; `None` if they are another instruction. Calls of the program look
/// alike.
pub fn target(bytes: &[u8], from: u64) -> Option<u64> {
    let prefix = usize::from(is_without_effect(*bytes.first()?));
    let [JMP | CALL, distance @ ..] = *bytes.get(prefix..)?.first_chunk::<JUMP>()? else {
        return None;
    };
    let next = from.wrapping_add((prefix + JUMP) as u64);
    Some(next.wrapping_add_signed(i64::from(i32::from_le_bytes(distance))))
}

/// Whether a byte may stand before a jump without changing it: a REX prefix, or one that chooses a
/// segment (Intel SDM, volume 2, 2.1.1 and 2.2.1).
const fn is_without_effect(prefix: u8) -> bool {
    matches!(
        prefix,
        0x40..=0x4f | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65
    )
}

/// Whether a call leads to the code that displaces this instruction, since it is such a call itself. The
/// return address on the stack is then the one that the instruction would have put there.
fn is_entered_by_call(displaced: &Raw) -> bool {
    displaced.flow_control() == FlowControl::Call && displaced.len() == JUMP
}

/// The processor's time stamp now.
pub fn stamp() -> u64 {
    // SAFETY: reads a register that every program may read, unless it has asked the kernel not to.
    unsafe { std::arch::x86_64::_rdtsc() }
}

impl Trampoline<'_> {
    /// The code at address `place`. `None` if it cannot work there: too far away from what the
    /// displaced instruction refers to.
    pub fn code(&self, place: u64) -> Option<Vec<u8>> {
        let instructions = self.instructions().ok()?;
        let block = InstructionBlock::new(&instructions, place);
        let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).ok()?;
        let code = encoded.code_buffer;
        (code.len() <= ROOM && can_be_replaced(&self.displaced.0)).then_some(code)
    }

    fn instructions(&self) -> Result<Vec<Raw>, IcedError> {
        let mut code = Block::default();
        self.begin(&mut code)?;
        code.label(HAS_RING);
        // Reserves a record. Only this thread and its signal handlers use the ring: no lock.
        code.add(Raw::with2(Code::Mov_r32_imm32, Register::EAX, 1_u32))?;
        code.add(Raw::with2(
            Code::Xadd_rm64_r64,
            word(Register::RSI, 8),
            Register::RAX,
        ))?;
        code.label(HAS_NUMBER);
        self.write(&mut code)?;
        code.add(Raw::with1(Code::Pop_r64, Register::RSI))?;
        code.add(Raw::with1(Code::Pop_r64, Register::RDX))?;
        code.add(Raw::with1(Code::Pop_r64, Register::RAX))?;
        // The overflow flag, then the others.
        code.add(Raw::with2(Code::Add_AL_imm8, Register::AL, 0x7f_u32))?;
        code.push(Raw::with(Code::Sahf));
        code.add(Raw::with1(Code::Pop_r64, Register::RAX))?;
        code.label(OFF);
        code.add(Raw::with1(Code::Pop_r64, Register::RCX))?;
        let stack = word(Register::RSP, RED_ZONE);
        code.add(Raw::with2(Code::Lea_r64_m, Register::RSP, stack))?;
        self.go_on(&mut code)?;
        self.find_ring(&mut code)?;
        Ok(code.instructions)
    }

    /// Bytes by which the stack pointer has moved down when the record is written.
    fn moved(&self) -> i64 {
        let call = if is_entered_by_call(&self.displaced.0) {
            8
        } else {
            0
        };
        MOVED + call
    }

    /// Saves what is used, and looks for the thread's ring, which is in rsi then.
    fn begin(&self, code: &mut Block) -> Result<(), IcedError> {
        let stack = word(Register::RSP, -RED_ZONE);
        code.add(Raw::with2(Code::Lea_r64_m, Register::RSP, stack))?;
        code.add(Raw::with1(Code::Push_r64, Register::RCX))?;
        let control = self.rings.control.cast_signed();
        let control = MemoryOperand::with_base_displ(Register::RIP, control);
        code.add(Raw::with2(Code::Mov_r64_rm64, Register::RCX, control))?;
        // Needs no flags.
        code.add(Raw::with_branch(Code::Jrcxz_rel8_64, OFF))?;
        code.add(Raw::with1(Code::Push_r64, Register::RAX))?;
        code.push(Raw::with(Code::Lahf));
        code.add(Raw::with1(Code::Seto_rm8, Register::AL))?;
        code.add(Raw::with1(Code::Push_r64, Register::RAX))?;
        code.add(Raw::with1(Code::Push_r64, Register::RDX))?;
        code.add(Raw::with1(Code::Push_r64, Register::RSI))?;
        // The System V ABI: the first word of a thread's data is its own address.
        code.add(Raw::with2(Code::Mov_r64_rm64, Register::RDX, of_thread(0)))?;
        let spread = Raw::with3(
            Code::Imul_r64_rm64_imm32,
            Register::RSI,
            Register::RDX,
            SPREAD,
        );
        code.add(spread)?;
        code.add(Raw::with2(Code::Shr_rm64_imm8, Register::RSI, CHOOSES_FROM))?;
        let last = (1_u32 << self.rings.rings) - 1;
        code.add(Raw::with2(Code::And_rm32_imm32, Register::ESI, last))?;
        let size = i32::try_from(self.rings.size()).unwrap_or(i32::MAX);
        let scaled = Raw::with3(
            Code::Imul_r64_rm64_imm32,
            Register::RSI,
            Register::RSI,
            size,
        );
        code.add(scaled)?;
        code.add(Raw::with2(Code::Add_rm64_r64, Register::RSI, Register::RCX))?;
        code.add(Raw::with2(
            Code::Cmp_rm64_r64,
            word(Register::RSI, 0),
            Register::RDX,
        ))?;
        code.add(Raw::with_branch(Code::Jne_rel32_64, FIND))?;
        Ok(())
    }

    /// Writes the record. rax is its number, rsi the ring.
    fn write(&self, code: &mut Block) -> Result<(), IcedError> {
        code.add(Raw::with2(Code::Mov_r64_rm64, Register::RCX, Register::RAX))?;
        let last = (1_u32 << self.rings.records) - 1;
        code.add(Raw::with2(Code::And_rm32_imm32, Register::EAX, last))?;
        code.add(Raw::with2(
            Code::Shl_rm64_imm8,
            Register::RAX,
            RECORD.trailing_zeros(),
        ))?;
        let record = MemoryOperand::with_base_index_scale_displ_size(
            Register::RSI,
            Register::RAX,
            1,
            RECORD.cast_signed(),
            1,
        );
        code.add(Raw::with2(Code::Lea_r64_m, Register::RSI, record))?;
        let put = |at: usize| word(Register::RSI, i64::try_from(at).unwrap_or(0));
        let number = of_thread(i64::from(self.rings.number));
        code.add(Raw::with2(Code::Mov_r32_rm32, Register::EAX, number))?;
        code.add(Raw::with2(
            Code::Mov_rm32_r32,
            put(at::THREAD),
            Register::EAX,
        ))?;
        let stack = word(Register::RSP, self.moved());
        code.add(Raw::with2(Code::Lea_r64_m, Register::RAX, stack))?;
        code.add(Raw::with2(
            Code::Mov_rm64_r64,
            put(at::STACK),
            Register::RAX,
        ))?;
        let above = self.moved() + i64::from(self.capture.stack_moved);
        let returns = word(Register::RSP, above);
        code.add(Raw::with2(Code::Mov_r64_rm64, Register::RAX, returns))?;
        code.add(Raw::with2(
            Code::Mov_rm64_r64,
            put(at::CALLER),
            Register::RAX,
        ))?;
        if load(code, self.capture.count)? {
            code.add(Raw::with2(
                Code::Mov_rm32_r32,
                put(at::COUNT),
                Register::EAX,
            ))?;
        }
        if load(code, self.capture.object)? {
            code.add(Raw::with2(
                Code::Mov_rm64_r64,
                put(at::OBJECT),
                Register::RAX,
            ))?;
            if let Some(distance) = self.capture.memory {
                for half in [0, 8] {
                    let from = word(Register::RAX, i64::from(distance) + half);
                    code.add(Raw::with2(Code::Mov_r64_rm64, Register::RDX, from))?;
                    let to = put(at::MEMORY + usize::try_from(half).unwrap_or(0));
                    code.add(Raw::with2(Code::Mov_rm64_r64, to, Register::RDX))?;
                }
            }
        }
        // The time comes after the look at the object: who lost the CPU in between would otherwise seem to
        // have seen arrivals of the future. Without the fence the processor may read the time ahead of
        // that look, and even of the load that has released the thread from its last barrier.
        code.push(Raw::with(Code::Lfence));
        code.push(Raw::with(Code::Rdtsc));
        code.add(Raw::with2(Code::Shl_rm64_imm8, Register::RDX, 32_u32))?;
        code.add(Raw::with2(Code::Or_rm64_r64, Register::RAX, Register::RDX))?;
        code.add(Raw::with2(Code::Mov_rm64_r64, put(at::TIME), Register::RAX))?;
        code.add(Raw::with2(Code::Mov_rm32_imm32, put(at::PLACE), self.place))?;
        let next = word(Register::RCX, 1);
        code.add(Raw::with2(Code::Lea_r32_m, Register::EAX, next))?;
        // Stores become visible in their order: with the number, all of the record is there.
        code.add(Raw::with2(
            Code::Mov_rm32_r32,
            put(at::NUMBER),
            Register::EAX,
        ))?;
        Ok(())
    }

    /// Executes the displaced instruction, and jumps back behind it.
    fn go_on(&self, code: &mut Block) -> Result<(), IcedError> {
        let mut displaced = self.displaced.0;
        let next = displaced.next_ip();
        displaced.set_ip(0);
        match displaced.flow_control() {
            FlowControl::Call if is_entered_by_call(&displaced) => {
                let target = displaced.near_branch64();
                code.add(Raw::with_branch(Code::Jmp_rel32_64, target))?;
            }
            FlowControl::Call => {
                // The return address is the one that the program's own call would have pushed.
                let halves = [next & 0xffff_ffff, next >> 32];
                let [low, high] = halves.map(|half| u32::try_from(half).unwrap_or(0));
                let stack = word(Register::RSP, -8);
                code.add(Raw::with2(Code::Lea_r64_m, Register::RSP, stack))?;
                code.add(Raw::with2(
                    Code::Mov_rm32_imm32,
                    word(Register::RSP, 0),
                    low,
                ))?;
                code.add(Raw::with2(
                    Code::Mov_rm32_imm32,
                    word(Register::RSP, 4),
                    high,
                ))?;
                let target = displaced.near_branch64();
                code.add(Raw::with_branch(Code::Jmp_rel32_64, target))?;
            }
            FlowControl::UnconditionalBranch => code.push(displaced),
            _ => {
                code.push(displaced);
                code.add(Raw::with_branch(Code::Jmp_rel32_64, next))?;
            }
        }
        Ok(())
    }

    /// Finds a ring for a thread that does not own the first at which it looks.
    fn find_ring(&self, code: &mut Block) -> Result<(), IcedError> {
        let owner = word(Register::RSI, 0);
        let size = i32::try_from(self.rings.size()).unwrap_or(i32::MAX);
        code.label(FIND);
        for look in 0..u64::from(LOOKS) {
            let next = NEXT + look;
            code.add(Raw::with2(Code::Mov_r64_rm64, Register::RAX, owner))?;
            code.add(Raw::with2(Code::Cmp_rm64_r64, Register::RAX, Register::RDX))?;
            code.add(Raw::with_branch(Code::Je_rel32_64, HAS_RING))?;
            code.add(Raw::with2(
                Code::Test_rm64_r64,
                Register::RAX,
                Register::RAX,
            ))?;
            code.add(Raw::with_branch(Code::Jne_rel32_64, next))?;
            let mut take = Raw::with2(Code::Cmpxchg_rm64_r64, owner, Register::RDX)?;
            take.set_has_lock_prefix(true);
            code.push(take);
            code.add(Raw::with_branch(Code::Je_rel32_64, HAS_RING))?;
            code.label(next);
            code.add(Raw::with2(Code::Add_rm64_imm32, Register::RSI, size))?;
        }
        // The shared ring is the last one.
        let last = self.rings.size() * u64::from(self.rings.count() - 1);
        let last = i32::try_from(last).unwrap_or(i32::MAX);
        let shared = word(Register::RCX, i64::from(last));
        code.add(Raw::with2(Code::Lea_r64_m, Register::RSI, shared))?;
        code.add(Raw::with2(Code::Mov_r32_imm32, Register::EAX, 1_u32))?;
        let counter = word(Register::RSI, 8);
        let mut reserve = Raw::with2(Code::Xadd_rm64_r64, counter, Register::RAX)?;
        reserve.set_has_lock_prefix(true);
        code.push(reserve);
        code.add(Raw::with_branch(Code::Jmp_rel32_64, HAS_NUMBER))?;
        Ok(())
    }
}

/// Loads the value that a register had at the place into rax. `number`: as in [`Capture`]. False if it
/// is no register.
fn load(code: &mut Block, number: u8) -> Result<bool, IcedError> {
    let Some(register) = register_of(number) else {
        return Ok(false);
    };
    let saved = SAVED.iter().find(|(saved, _)| *saved == register);
    match saved {
        Some((_, above)) => {
            let saved = word(Register::RSP, *above);
            code.add(Raw::with2(Code::Mov_r64_rm64, Register::RAX, saved))?;
        }
        None => code.add(Raw::with2(Code::Mov_r64_rm64, Register::RAX, register))?,
    }
    Ok(true)
}

// Addresses that stand for places in the code: no program has anything there.
const OFF: u64 = 1;
const HAS_RING: u64 = 2;
const HAS_NUMBER: u64 = 3;
const FIND: u64 = 4;
const NEXT: u64 = 16;

/// Instructions in a row.
#[derive(Default)]
struct Block {
    instructions: Vec<Raw>,
    /// The label of the next instruction; 0 for none.
    label: u64,
}

impl Block {
    fn label(&mut self, label: u64) {
        self.label = label;
    }

    fn push(&mut self, mut instruction: Raw) {
        instruction.set_ip(std::mem::take(&mut self.label));
        self.instructions.push(instruction);
    }

    fn add(&mut self, instruction: Result<Raw, IcedError>) -> Result<(), IcedError> {
        self.push(instruction?);
        Ok(())
    }
}

/// The word at a distance from a register's value.
fn word(base: Register, distance: i64) -> MemoryOperand {
    MemoryOperand::with_base_displ(base, distance)
}

/// The word at a distance from the thread pointer.
const fn of_thread(distance: i64) -> MemoryOperand {
    MemoryOperand {
        segment_prefix: Register::FS,
        base: Register::None,
        index: Register::None,
        scale: 1,
        displacement: distance,
        displ_size: 8,
        is_broadcast: false,
    }
}

#[cfg(test)]
#[path = "trampoline_tests.rs"]
mod tests;
