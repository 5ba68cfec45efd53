//! What the kernel says of threads, in records of perf events: the bytes of one → a
//! [`Record`]. Pure.
//!
//! The layouts are those of `perf_event_open(2)` for what [`super::events`] asks for: behind
//! each record, and at the beginning of a sample, stand the thread, the time and the event.

use crate::{
    source::perf::{self, Head},
    target::trace::{Registers, no_registers},
};

/// `PERF_SAMPLE_TID`, `_TIME` and `_ID`: what each record says.
pub const EACH: u64 = 1 << 1 | 1 << 2 | 1 << 6;

/// What a sample of a breakpoint says: also `_REGS_USER` and `_STACK_USER`.
pub const SAMPLE: u64 = EACH | 1 << 12 | 1 << 13;

/// The general registers, as the kernel numbers them for samples (`PERF_REG_X86_AX` to `_IP`,
/// and `_R8` to `_R15`).
pub const REGISTERS: u64 = 0x1ff | 0xff << 16;

/// How much of the stack is copied, bytes: the last of a barrier does not wait there until
/// its callers are looked for.
pub const STACK: u32 = 512;

/// `PERF_RECORD_*`.
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
const SWITCH: u32 = 14;

/// `PERF_RECORD_MISC_COMM_EXEC`, and `PERF_RECORD_MISC_SWITCH_OUT`, which is the same bit.
const FLAG: u16 = 1 << 13;

/// `PERF_SAMPLE_REGS_ABI_64`.
const ABI_64: u64 = 2;

/// Something that has happened to a thread.
#[derive(Debug)]
pub struct Record {
    /// When, `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// The thread's process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// On which CPU.
    pub cpu: u32,
    /// The event that says so, of this CPU. Whoever inherits one says so by the number of the
    /// original.
    pub event: u64,
    /// What.
    pub what: What,
}

/// See above.
#[derive(Debug)]
pub enum What {
    /// It has come to a breakpoint.
    Hit(Box<Sample>),
    /// It has started another one, of its own process or of a new one.
    Started {
        /// The process of that one.
        process: u32,
        /// It.
        thread: u32,
    },
    /// It has ended.
    Ended,
    /// It has another name.
    Named {
        /// As the kernel keeps it.
        comm: [u64; 2],
        /// It has executed a program.
        executed: bool,
    },
    /// It has mapped code.
    Mapped,
    /// It has got a CPU, or lost it.
    Switched {
        /// It has it now.
        on: bool,
    },
    /// So many records found no room.
    Lost(u64),
}

/// A thread at a breakpoint.
#[derive(Debug)]
pub struct Sample {
    /// Its general registers; the others are 0.
    pub registers: Registers,
    /// What lies on its stack, from rsp on.
    pub stack: Vec<u8>,
}

impl Record {
    /// Reads the body of one from a CPU's ring; `None` if it says nothing that matters, or is
    /// damaged.
    pub fn parse(head: Head, body: &[u8], cpu: u32) -> Option<Self> {
        if head.kind == perf::SAMPLE {
            let (each, rest) = body.split_at_checked(24)?;
            let sample = Box::new(sample(rest)?);
            return Self::of(each, cpu, What::Hit(sample));
        }
        let (body, each) = body.split_at_checked(body.len().checked_sub(24)?)?;
        let what = match head.kind {
            perf::LOST => What::Lost(word(body, 1)?),
            COMM => What::Named {
                comm: comm(body.get(8..)?),
                executed: head.misc & FLAG != 0,
            },
            EXIT => What::Ended,
            FORK => {
                let ([process, _parent], [thread, _by]) = (pair(body, 0)?, pair(body, 1)?);
                What::Started { process, thread }
            }
            MMAP2 => What::Mapped,
            SWITCH => What::Switched {
                on: head.misc & FLAG == 0,
            },
            _ => return None,
        };
        let mut record = Self::of(each, cpu, what)?;
        if matches!(record.what, What::Ended) {
            // Who says so may be out of reach by then.
            [record.process, _] = pair(body, 0)?;
            [record.thread, _] = pair(body, 1)?;
        }
        Some(record)
    }

    fn of(each: &[u8], cpu: u32, what: What) -> Option<Self> {
        let [process, thread] = pair(each, 0)?;
        Some(Self {
            time_ns: word(each, 1)?,
            process,
            thread,
            cpu,
            event: word(each, 2)?,
            what,
        })
    }
}

/// The registers, and the stack: its size, the bytes, and how many of them count.
fn sample(body: &[u8]) -> Option<Sample> {
    if word(body, 0)? != ABI_64 {
        return None;
    }
    let mut registers = no_registers();
    let fields = [
        &mut registers.rax,
        &mut registers.rbx,
        &mut registers.rcx,
        &mut registers.rdx,
        &mut registers.rsi,
        &mut registers.rdi,
        &mut registers.rbp,
        &mut registers.rsp,
        &mut registers.rip,
        &mut registers.r8,
        &mut registers.r9,
        &mut registers.r10,
        &mut registers.r11,
        &mut registers.r12,
        &mut registers.r13,
        &mut registers.r14,
        &mut registers.r15,
    ];
    let behind = 1 + fields.len();
    for (index, field) in fields.into_iter().enumerate() {
        *field = word(body, 1 + index)?;
    }
    let size = usize::try_from(word(body, behind)?).ok()?;
    let rest = body.get(8 * behind + 8..)?;
    let stack = rest.get(..size)?;
    let counts = if size == 0 {
        0
    } else {
        usize::try_from(word(&rest[size..], 0)?).ok()?
    };
    Some(Sample {
        registers,
        stack: stack[..counts.min(size)].to_vec(),
    })
}

/// A name, as much of it as the kernel keeps.
fn comm(bytes: &[u8]) -> [u64; 2] {
    let mut room = [0; 16];
    let name = bytes.iter().take(15).take_while(|byte| **byte != 0);
    for (to, byte) in room.iter_mut().zip(name) {
        *to = *byte;
    }
    let (words, _) = room.as_chunks::<8>();
    [words[0], words[1]].map(u64::from_ne_bytes)
}

fn word(bytes: &[u8], index: usize) -> Option<u64> {
    let bytes = bytes.get(8 * index..8 * index + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

/// A word's two halves, the first one first.
fn pair(bytes: &[u8], index: usize) -> Option<[u32; 2]> {
    let bytes = bytes.get(8 * index..8 * index + 8)?;
    let (halves, _) = bytes.as_chunks::<4>();
    Some([halves[0], halves[1]].map(u32::from_ne_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn halves(first: u32, second: u32) -> u64 {
        u64::from(first) | u64::from(second) << 32
    }

    /// Process 7, thread 9, at 55 ns, event 3.
    fn each() -> [u64; 3] {
        [halves(7, 9), 55, 3]
    }

    fn parse(kind: u32, misc: u16, words: &[u64]) -> Option<Record> {
        Record::parse(Head { kind, misc }, &bytes(words), 1)
    }

    #[test]
    fn a_hit_comes_with_registers_and_stack() {
        let mut body = each().to_vec();
        body.push(ABI_64);
        body.extend(100..117);
        body.extend([16, 77, 88, 8]);
        let record = parse(perf::SAMPLE, 0, &body).unwrap();
        let is = (record.process, record.thread, record.time_ns, record.event);
        assert_eq!((is, record.cpu), ((7, 9, 55, 3), 1));
        let What::Hit(sample) = record.what else {
            panic!("{record:?}");
        };
        let Registers {
            rax,
            rdi,
            rsp,
            rip,
            r8,
            r15,
            ..
        } = sample.registers;
        assert_eq!(
            [rax, rdi, rsp, rip, r8, r15],
            [100, 105, 107, 108, 109, 116]
        );
        assert_eq!(sample.stack, bytes(&[77]));
        for words in 0..body.len() {
            assert!(parse(perf::SAMPLE, 0, &body[..words]).is_none());
        }
        body[3] = 1;
        assert!(parse(perf::SAMPLE, 0, &body).is_none(), "32 bits");
        let huge: Vec<u64> = each()
            .into_iter()
            .chain([ABI_64])
            .chain([u64::MAX; 20])
            .collect();
        assert!(parse(perf::SAMPLE, 0, &huge).is_none());
    }

    #[test]
    fn lives_are_told() {
        let with = |body: &[u64]| [body, &each()].concat();
        let started = parse(FORK, 0, &with(&[halves(8, 7), halves(12, 9), 54])).unwrap();
        assert_eq!((started.thread, started.time_ns), (9, 55));
        let What::Started { process, thread } = started.what else {
            panic!("{started:?}");
        };
        assert_eq!((process, thread), (8, 12));
        let ended = parse(EXIT, 0, &with(&[halves(17, 7), halves(19, 7), 54])).unwrap();
        assert!(matches!(ended.what, What::Ended));
        assert_eq!((ended.process, ended.thread), (17, 19));
        let named = with(&[halves(7, 9), 0x6161]);
        for (misc, is) in [(0, false), (FLAG, true)] {
            let what = parse(COMM, misc, &named).unwrap().what;
            let What::Named { comm, executed } = what else {
                panic!("{what:?}");
            };
            assert_eq!((comm, executed), ([0x6161, 0], is));
        }
        for (misc, now) in [(0, true), (FLAG, false)] {
            let switched = parse(SWITCH, misc, &each()).unwrap();
            assert!(matches!(switched.what, What::Switched { on } if on == now));
        }
        let lost = parse(perf::LOST, 0, &with(&[3, 21])).unwrap();
        assert!(matches!(lost.what, What::Lost(21)));
    }

    #[test]
    fn what_is_cut_off_is_nothing() {
        for kind in [perf::LOST, COMM, EXIT, FORK, MMAP2, SWITCH, 77] {
            for words in 0..3 {
                assert!(parse(kind, FLAG, &each()[..words]).is_none());
            }
        }
        for kind in [perf::LOST, COMM, EXIT, FORK, 77] {
            assert!(parse(kind, 0, &each()).is_none());
        }
    }
}
