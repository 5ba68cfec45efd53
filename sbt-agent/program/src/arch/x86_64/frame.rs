//! The signal frame that the kernel leaves on a thread's stack when a signal comes: all registers
//! and the mask of blocked signals. `rt_sigreturn` makes the thread go on from there.
//!
//! The layout is `struct rt_sigframe` (arch/x86/include/asm/sigframe.h), `struct ucontext` and
//! `struct sigcontext` (uapi/asm/ucontext.h, uapi/asm/sigcontext.h).

use super::registers::Registers;

/// Bytes below the stack pointer that still belong to the thread's code (System V ABI).
const RED_ZONE: u64 = 128;

/// `UC_FP_XSTATE`, `UC_SIGCONTEXT_SS` and `UC_STRICT_RESTORE_SS`.
const FLAGS: u64 = 1 | 2 | 4;

/// An invalid mode of an alternate signal stack: the kernel then leaves the thread's own stack as
/// it is.
const SAME_STACK: u64 = 7;

/// Size of `uc_flags`, `uc_link`, `uc_stack`, `uc_mcontext` and `uc_sigmask`, bytes.
const CONTEXT: usize = 8 + 8 + 24 + 256 + 8;

/// Size of `struct siginfo`, which `rt_sigreturn` does not read, bytes.
const SIGNAL: usize = 128;

/// Offset in the XSAVE area of the kernel's own words (`struct _fpx_sw_bytes`). ptrace(2) puts the
/// mask of available features there.
const WORDS: usize = 464;

/// Offset in the XSAVE area of its header, which begins with the mask of features in use.
const HEADER: usize = 512;

/// Offset in the XSAVE area of the parts whose places CPUID tells.
const EXTENDED: usize = 576;

/// `XFEATURE_MASK_XTILE_DATA`: a thread has room for tiles only if it has asked for it.
const ON_REQUEST: u64 = 1 << 18;

const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;

/// A signal frame, ready to be written.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// Address of the first byte: rsp must be this when code is to return into `rt_sigreturn`.
    pub at: u64,
    /// The bytes from that address on.
    pub bytes: Vec<u8>,
}

/// The frame of a thread with these registers and this mask of blocked signals.
///
/// `area` is the thread's XSAVE area, `part` gives offset and length of a feature in it, both in
/// bytes. `skipped` words are popped before the return, which goes to the address `back`.
///
/// `None` if the area is too short, or if there is no room below rsp.
pub fn of(
    registers: &Registers,
    mask: u64,
    area: &[u8],
    part: impl Fn(u32) -> (usize, usize),
    (skipped, back): (usize, u64),
) -> Option<Frame> {
    let area = own_area(area, part)?;
    let top = registers.stack().checked_sub(RED_ZONE)?;
    let area_at = top.checked_sub(area.len() as u64)? & !63;
    let length = 8 * (skipped + 1) + CONTEXT + SIGNAL;
    let at = area_at.checked_sub(length as u64)? & !15;
    let mut bytes = Vec::with_capacity(usize::try_from(top - at).ok()?);
    let mut word = |value: u64| bytes.extend(value.to_le_bytes());
    (0..skipped).for_each(|_| word(0));
    for value in [back, FLAGS, 0, 0, SAME_STACK, 0] {
        word(value);
    }
    let Registers(saved) = registers;
    let general = [
        saved.r8,
        saved.r9,
        saved.r10,
        saved.r11,
        saved.r12,
        saved.r13,
        saved.r14,
        saved.r15,
        saved.rdi,
        saved.rsi,
        saved.rbp,
        saved.rbx,
        saved.rdx,
        saved.rax,
        saved.rcx,
        saved.rsp,
        saved.rip,
        saved.eflags,
    ];
    general.into_iter().for_each(&mut word);
    // 16 bits each of cs, gs, fs and ss; the kernel ignores gs and fs.
    word(saved.cs & 0xffff | (saved.ss & 0xffff) << 48);
    // err, trapno, oldmask and cr2, which the kernel ignores.
    (0..4).for_each(|_| word(0));
    word(area_at);
    (0..8).for_each(|_| word(0));
    word(mask);
    bytes.resize(usize::try_from(area_at - at).ok()?, 0);
    bytes.extend(area);
    Some(Frame { at, bytes })
}

/// The XSAVE area as a signal would leave it: as long as the thread's own, and with the words by
/// which the kernel recognises a complete area.
fn own_area(area: &[u8], part: impl Fn(u32) -> (usize, usize)) -> Option<Vec<u8>> {
    let word = |at: usize| {
        let bytes = area.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    };
    let (there, used) = (word(WORDS)?, word(HEADER)?);
    let features = there & !(ON_REQUEST & !used);
    let ends = (2..63).filter(|number| features >> number & 1 == 1);
    let ends = ends.map(|number| {
        let (at, length) = part(number);
        at + length
    });
    let size = ends.max().unwrap_or(0).max(EXTENDED);
    let mut own = area.get(..size)?.to_vec();
    let length = u32::try_from(size).ok()?;
    let mut at = WORDS;
    let mut put = |bytes: &[u8]| {
        own[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&MAGIC1.to_le_bytes());
    put(&(length + 4).to_le_bytes());
    put(&features.to_le_bytes());
    put(&length.to_le_bytes());
    own.extend(MAGIC2.to_le_bytes());
    Some(own)
}

/// Offset and length of a feature in the XSAVE area of this processor, bytes.
pub fn part(feature: u32) -> (usize, usize) {
    let told = std::arch::x86_64::__cpuid_count(0xd, feature);
    (told.ebx as usize, told.eax as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of 256 bits follow the header; tiles lie far behind them.
    fn parts(feature: u32) -> (usize, usize) {
        match feature {
            2 => (576, 256),
            17 => (2752, 64),
            18 => (2816, 8192),
            other => panic!("no such feature: {other}"),
        }
    }

    fn area(there: u64, used: u64) -> Vec<u8> {
        let mut area = vec![0xab; 2816 + 8192];
        area[WORDS..WORDS + 8].copy_from_slice(&there.to_le_bytes());
        area[HEADER..HEADER + 8].copy_from_slice(&used.to_le_bytes());
        area
    }

    fn half(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn an_area_is_as_long_as_what_the_thread_has_asked_for() {
        let all = 0b111 | 1 << 17 | ON_REQUEST;
        for (there, used, size) in [
            (0b11, 0b11, 576),
            (0b111, 0b111, 832),
            (all, 0b111, 2816),
            (all, all, 2816 + 8192),
        ] {
            let own = own_area(&area(there, used), parts).unwrap();
            assert_eq!(own.len(), size + 4, "{there:x} {used:x}");
            let length = u32::try_from(size).unwrap();
            assert_eq!(half(&own, WORDS), MAGIC1);
            assert_eq!(half(&own, WORDS + 4), length + 4);
            assert_eq!(half(&own, WORDS + 16), length);
            assert_eq!(half(&own, size), MAGIC2);
            let features = u64::from(half(&own, WORDS + 8));
            assert_eq!(features, there & !(ON_REQUEST & !used));
        }
        assert_eq!(own_area(&[0; 512], parts), None);
    }

    #[test]
    fn a_frame_lies_below_the_red_zone_and_holds_what_the_thread_goes_on_with() {
        let mut registers = Registers::none();
        registers.set_at(0x1111);
        registers.set_stack(0x7fff_1234_5678);
        (registers.0.rax, registers.0.cs, registers.0.ss) = (0x2222, 0x33, 0x2b);
        let area = area(0b111, 0b111);
        let frame = of(&registers, 0x5555, &area, parts, (2, 0x4444)).unwrap();
        let end = frame.at + frame.bytes.len() as u64;
        assert!(end <= registers.stack() - RED_ZONE && end > registers.stack() - RED_ZONE - 64);
        assert_eq!(frame.at % 16, 0);
        let word = |at: usize| u64::from_le_bytes(frame.bytes[at..at + 8].try_into().unwrap());
        assert_eq!(word(16), 0x4444);
        // After the return address: flags, link, stack, then the general registers.
        let context = 24;
        assert_eq!((word(context), word(context + 24)), (FLAGS, SAME_STACK));
        let general = context + 40;
        assert_eq!(word(general + 8 * 13), 0x2222);
        assert_eq!(word(general + 8 * 15), registers.stack());
        assert_eq!(word(general + 8 * 16), 0x1111);
        assert_eq!(word(general + 8 * 18), 0x33 | 0x2b << 48);
        assert_eq!(word(context + CONTEXT - 8), 0x5555);
        let area_at = word(general + 8 * 23);
        assert_eq!(area_at % 64, 0);
        let inside = usize::try_from(area_at - frame.at).unwrap();
        assert_eq!(half(&frame.bytes, inside + WORDS), MAGIC1);
        // rsp is too low for any frame.
        registers.set_stack(0x100);
        assert_eq!(of(&registers, 0, &area, parts, (0, 0)), None);
    }
}
