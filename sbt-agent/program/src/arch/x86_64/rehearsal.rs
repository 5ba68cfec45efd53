//! Simulates instructions on copies of a thread's registers and memory: those instructions of which
//! loops that only wait consist. Nothing is done to the thread.

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::DefaultHasher},
    hash::{Hash as _, Hasher as _},
};

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register, RflagsBits};

use super::{displaced::holds, instruction, registers::Registers};
use arithmetic::{ALL_FLAGS, cut};
use influence::Influence;
use vectors::Vectors;

mod arithmetic;
mod influence;
mod vectors;

/// How memory is remembered: in pages.
const PAGE: u64 = 4096;

/// The longest instruction, bytes.
const LONGEST: usize = 15;

/// How far from its stack pointer a thread's own stack is taken to reach, bytes.
const STACK: u64 = 1 << 20;

/// How far from the address of a thread's own data these reach, bytes.
const OWN_DATA: u64 = 4096;

/// Results with which the kernel says that a call goes on when its thread does, as numbers above 0
/// (linux/errno.h: `ERESTARTSYS` to `ERESTART_RESTARTBLOCK`).
const GOES_ON: std::ops::RangeInclusive<i64> = 512..=516;

/// Reads memory from an address on; false if not all of it can be read.
pub type Read<'m> = &'m dyn Fn(u64, &mut [u8]) -> bool;

/// A word of memory that was read, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word {
    /// Where the word lies in the process.
    pub address: u64,
    /// The size, bytes: 8 at most.
    pub size: usize,
    /// The bytes as a number, the first byte lowest.
    pub value: u64,
}

/// A simulated thread.
#[derive(Clone)]
pub struct Rehearsal<'m> {
    read: Read<'m>,
    pages: BTreeMap<u64, Option<Vec<u8>>>,
    registers: [u64; 16],
    vectors: Vectors,
    at: u64,
    flags: u64,
    /// Flags without a known value, by the bits of `RflagsBits`.
    undefined: u32,
    own_data: u64,
    stack: u64,
    /// Bytes that differ from those in memory, because the simulated thread has written them.
    written: BTreeMap<u64, u8>,
    /// Bytes on the thread's own stack that the thread has written, whether they differ or not: they
    /// may be different at other times of a turn.
    own_written: BTreeSet<u64>,
    loads: BTreeMap<(u64, usize), u64>,
    /// The last word that was read since the last branch, unless it is the thread's own.
    latest: Option<u64>,
    /// The branches before which such words were read, with the words.
    decisive: BTreeSet<(u64, u64)>,
    /// Whether memory that other threads may read was changed.
    is_seen: bool,
    /// The values that depend on memory which other threads write.
    influence: Influence,
    /// Whether the next conditional branch goes the other way than it would.
    is_turned: bool,
}

impl<'m> Rehearsal<'m> {
    /// A thread with these registers. `None` if it is in a system call whose result is not known.
    pub fn new(registers: &Registers, read: Read<'m>) -> Option<Self> {
        let Registers(r) = registers;
        let mut all = [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15,
        ];
        let is_in_call = r.orig_rax.cast_signed() >= 0;
        if is_in_call && GOES_ON.contains(&-r.rax.cast_signed()) {
            let is_continued = r.orig_rax.cast_signed() == libc::SYS_restart_syscall;
            let number = if is_continued {
                begun_by(r.rip, read)?
            } else {
                r.orig_rax
            };
            if !sleeps(number, r.rdi) {
                return None;
            }
            all[0] = 0;
        }
        Some(Self {
            read,
            pages: BTreeMap::new(),
            registers: all,
            vectors: Vectors::default(),
            at: r.rip,
            flags: r.eflags & ALL_FLAGS,
            undefined: 0,
            own_data: r.fs_base,
            stack: r.rsp,
            written: BTreeMap::new(),
            own_written: BTreeSet::new(),
            loads: BTreeMap::new(),
            latest: None,
            decisive: BTreeSet::new(),
            is_seen: false,
            influence: Influence::default(),
            is_turned: false,
        })
    }

    /// A number for the whole state: equal states have equal numbers.
    pub fn state(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.at, self.registers, self.flags, self.undefined).hash(&mut hasher);
        self.vectors.hash(&mut hasher);
        self.written.hash(&mut hasher);
        hasher.finish()
    }

    /// Forgets what was read.
    pub fn forget(&mut self) {
        self.loads.clear();
        self.decisive.clear();
        self.latest = None;
    }

    /// Whether the thread has changed memory that other threads may read.
    pub const fn is_seen(&self) -> bool {
        self.is_seen
    }

    /// The words that were read, but for those on its own stack that the thread had written before.
    pub fn loads(&self) -> Vec<Word> {
        let all = self.loads.iter();
        all.map(|((address, size), value)| Word {
            address: *address,
            size: *size,
            value: *value,
        })
        .collect()
    }

    /// The branches, by address, before which words were read that are not on the thread's own stack, and
    /// the addresses of these words.
    pub fn decisive(&self) -> impl Iterator<Item = (u64, u64)> {
        self.decisive.iter().copied()
    }

    /// Where the next instruction lies, if it is a branch that memory which others write decides.
    pub fn choice(&mut self) -> Option<u64> {
        let at = self.at;
        let found = self.next()?;
        self.influence.decides(&found).then_some(at)
    }

    /// Executes one instruction as [`Self::step`] does, but a conditional branch goes the other way.
    pub fn turn(&mut self) -> Option<bool> {
        self.is_turned = true;
        let result = self.step();
        self.is_turned = false;
        result
    }

    /// Executes one instruction. Returns whether it has jumped back; `None` if the instruction is not
    /// one of those that are known, or memory cannot be read.
    pub fn step(&mut self) -> Option<bool> {
        let instruction = self.next()?;
        let needs = instruction.rflags_read();
        if needs & self.undefined != 0 || instruction.has_rep_prefix() {
            return None;
        }
        let begun = self.at;
        let next = instruction.next_ip();
        self.at = next;
        self.influence.begin(&instruction);
        let jumps = self.execute(&instruction)?;
        self.influence.end(&instruction);
        self.undefined &= !instruction.rflags_modified();
        self.undefined |= instruction.rflags_undefined() & !RflagsBits::AF;
        Some(jumps && self.at <= begun)
    }

    /// The instruction that is to be executed.
    fn next(&mut self) -> Option<Instruction> {
        let mut code = [0; LONGEST];
        let length = (1..=LONGEST).rev().find(|length| {
            let (at, code) = (self.at, &mut code[..*length]);
            self.memory(at, code).is_some()
        })?;
        let found = instruction::decode(&code[..length], self.at).next()?;
        found.is_valid().then_some(found.0)
    }

    /// Executes an instruction. Returns whether it is a jump that was taken.
    fn execute(&mut self, i: &Instruction) -> Option<bool> {
        match i.flow_control() {
            FlowControl::Next => {}
            FlowControl::UnconditionalBranch => {
                self.at = i.near_branch_target();
                return Some(true);
            }
            FlowControl::ConditionalBranch => {
                self.decisive
                    .extend(self.latest.take().map(|word| (i.ip(), word)));
                let is_taken = holds(i.condition_code(), self.flags)? != self.is_turned;
                if is_taken {
                    self.at = i.near_branch_target();
                }
                return Some(is_taken);
            }
            FlowControl::IndirectBranch => {
                self.at = self.quietly(|this| this.get(i, 0))?;
                return Some(true);
            }
            FlowControl::Call | FlowControl::IndirectCall => {
                if i.mnemonic() == Mnemonic::Syscall {
                    self.call_kernel()?;
                    return Some(false);
                }
                let to = match i.op0_kind() {
                    OpKind::NearBranch64 => i.near_branch_target(),
                    _ => self.quietly(|this| this.get(i, 0))?,
                };
                self.push(self.at)?;
                self.at = to;
                return Some(false);
            }
            FlowControl::Return => {
                let from = self.quietly(Self::pop)?;
                let more = if i.op_count() == 1 { i.immediate(0) } else { 0 };
                self.registers[4] = self.registers[4].wrapping_add(more);
                self.at = from;
                return Some(false);
            }
            _ => return None,
        }
        self.compute(i)?;
        Some(false)
    }

    /// Sleeps for a time and giving way change nothing that the thread sees.
    fn call_kernel(&mut self) -> Option<()> {
        if !sleeps(self.registers[0], self.registers[7]) {
            return None;
        }
        self.registers[0] = 0;
        self.registers[1] = self.at;
        self.registers[11] = 0;
        Some(())
    }

    /// The value of an operand, cut to its size.
    fn get(&mut self, i: &Instruction, operand: u32) -> Option<u64> {
        let size = size(i, operand);
        let value = match i.op_kind(operand) {
            OpKind::Register => self.registers[general(i.op_register(operand))?],
            OpKind::Memory => {
                let address = self.address(i, operand)?;
                self.load(address, size)?
            }
            _ => i.try_immediate(operand).ok()?,
        };
        Some(cut(value, size))
    }

    fn put(&mut self, i: &Instruction, operand: u32, value: u64) -> Option<()> {
        let size = size(i, operand);
        match i.op_kind(operand) {
            OpKind::Register => {
                self.set(general(i.op_register(operand))?, size, value);
                Some(())
            }
            OpKind::Memory => {
                let address = self.address(i, operand)?;
                self.store(address, size, value)
            }
            _ => None,
        }
    }

    /// Sets a register: its upper half becomes 0 if the lower one is set.
    const fn set(&mut self, register: usize, size: usize, value: u64) {
        self.registers[register] = match size {
            8 => value,
            4 => value & 0xffff_ffff,
            2 => self.registers[register] & !0xffff | value & 0xffff,
            _ => self.registers[register] & !0xff | value & 0xff,
        };
    }

    fn address(&self, i: &Instruction, operand: u32) -> Option<u64> {
        let value = |register: Register, _, _| match register {
            Register::FS => Some(self.own_data),
            Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
            Register::GS => None,
            register if register.is_gpr64() => Some(self.registers[register.number()]),
            _ => None,
        };
        if i.mnemonic() != Mnemonic::Lea {
            return i.virtual_address(operand, 0, value);
        }
        // An address that is only computed is in no segment.
        let part = |register: Register| match register {
            Register::None | Register::RIP => Some(0),
            register => value(register, 0, 0),
        };
        let scaled = part(i.memory_index())?.wrapping_mul(i.memory_index_scale().into());
        let base = part(i.memory_base())?;
        Some(
            base.wrapping_add(scaled)
                .wrapping_add(i.memory_displacement64()),
        )
    }

    fn push(&mut self, value: u64) -> Option<()> {
        self.registers[4] = self.registers[4].wrapping_sub(8);
        self.store(self.registers[4], 8, value)
    }

    fn pop(&mut self) -> Option<u64> {
        let value = self.load(self.registers[4], 8)?;
        self.registers[4] = self.registers[4].wrapping_add(8);
        Some(value)
    }

    /// Does something that reads addresses of code: these decide nothing.
    fn quietly<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let latest = self.latest;
        let result = act(self);
        self.latest = latest;
        result
    }

    /// Whether memory is the thread's own: its stack, or what the C library keeps for it.
    const fn is_own(&self, address: u64) -> bool {
        address.abs_diff(self.stack) < STACK || address.abs_diff(self.own_data) < OWN_DATA
    }

    fn load(&mut self, address: u64, size: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        self.memory(address, &mut bytes[..size])?;
        let value = u64::from_le_bytes(bytes);
        let addresses = address..address.checked_add(size as u64)?;
        let is_written = |at: u64| self.written.contains_key(&at) || self.own_written.contains(&at);
        if !addresses.into_iter().any(is_written) {
            self.loads.insert((address, size), value);
        }
        let is_own = self.is_own(address);
        if !is_own {
            self.latest = Some(address);
        }
        self.influence.load(address, size, is_own);
        Some(value)
    }

    fn store(&mut self, address: u64, size: usize, value: u64) -> Option<()> {
        let mut before = [0; 8];
        self.unchanged(address, &mut before[..size])?;
        let bytes = value.to_le_bytes();
        self.influence.store(address, size);
        if self.is_own(address) {
            self.own_written
                .extend(address..address.checked_add(size as u64)?);
        }
        for (index, (new, old)) in (0..).zip(bytes.iter().zip(&before)).take(size) {
            if new == old {
                self.written.remove(&(address + index));
            } else {
                self.is_seen |= !self.is_own(address);
                self.written.insert(address + index, *new);
            }
        }
        Some(())
    }

    /// Memory as the thread sees it.
    fn memory(&mut self, address: u64, bytes: &mut [u8]) -> Option<()> {
        self.unchanged(address, bytes)?;
        let until = address.checked_add(bytes.len() as u64)?;
        for (changed, byte) in self.written.range(address..until) {
            bytes[usize::try_from(changed - address).ok()?] = *byte;
        }
        Some(())
    }

    /// Memory as it was when it was read first.
    fn unchanged(&mut self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let mut at = address;
        for byte in bytes {
            let start = at / PAGE * PAGE;
            let read = self.read;
            let page = self.pages.entry(start).or_insert_with(|| {
                let mut page = vec![0; usize::try_from(PAGE).unwrap_or(0)];
                read(start, &mut page).then_some(page)
            });
            *byte = page.as_ref()?[usize::try_from(at - start).ok()?];
            at = at.checked_add(1)?;
        }
        Some(())
    }
}

/// The number of the system call that ended at `after`, if the instruction right before the call sets
/// it: `mov eax, NUMBER; syscall`.
pub fn begun_by(after: u64, read: Read) -> Option<u64> {
    let mut code = [0; 7];
    let is_read = read(after.checked_sub(code.len() as u64)?, &mut code);
    let [0xb8, number @ .., 0x0f, 0x05] = code else {
        return None;
    };
    is_read.then(|| u32::from_le_bytes(number).into())
}

/// Whether a system call only sleeps for a time or gives way. `first`: its first argument.
const fn sleeps(number: u64, first: u64) -> bool {
    match number.cast_signed() {
        libc::SYS_sched_yield | libc::SYS_nanosleep | libc::SYS_clock_nanosleep => true,
        libc::SYS_poll => first == 0,
        _ => false,
    }
}

/// The size of an operand, bytes.
fn size(i: &Instruction, operand: u32) -> usize {
    match i.op_kind(operand) {
        OpKind::Register => i.op_register(operand).size(),
        OpKind::Memory if i.mnemonic() == Mnemonic::Lea => 8,
        OpKind::Memory => i.memory_size().size(),
        // An immediate has the size of the operand that it is used with.
        _ if operand > 0 => size(i, 0),
        _ => 8,
    }
    .min(8)
}

/// The number of a general register; `None` for others, and for the second byte of one.
fn general(register: Register) -> Option<usize> {
    let is_second = matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    );
    let full = register.full_register();
    (!is_second && full.is_gpr64()).then(|| full.number())
}
