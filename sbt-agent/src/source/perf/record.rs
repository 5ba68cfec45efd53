//! Parses records of perf events: the bytes of a record become a [`Record`]. Pure.
//!
//! The thread, the time and the event's id follow each record, and begin each sample:
//! [`super::events`] asks for them.

use perf_event::{
    SampleFlag,
    data::{
        Comm, Exit, Fork, Lost, SampleRegsAbi,
        endian::Native,
        parse::{ParseConfig, Parser},
    },
};

use crate::kernel::perf;
use sbt_program::arch::Registers;

/// The fields of the records of an event.
pub type Format = ParseConfig<Native>;

/// Fields of every record.
pub const EACH: SampleFlag = SampleFlag::TID
    .union(SampleFlag::TIME)
    .union(SampleFlag::ID);

/// Fields of a breakpoint's sample.
pub const SAMPLE: SampleFlag = EACH
    .union(SampleFlag::REGS_USER)
    .union(SampleFlag::STACK_USER);

/// The number of bytes of the stack that are copied: the last thread to arrive does not wait in the
/// barrier until its callers are looked for.
pub const STACK: u32 = 512;

/// `PERF_RECORD_*`.
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
const SWITCH: u32 = 14;

/// `PERF_RECORD_MISC_COMM_EXEC`; `PERF_RECORD_MISC_SWITCH_OUT` is the same bit.
const FLAG: u16 = 1 << 13;

/// `PERF_RECORD_MISC_SWITCH_OUT_PREEMPT`.
const PREEMPTED: u16 = 1 << 14;

/// Something that happened to a thread.
#[derive(Debug)]
pub struct Record {
    /// Time, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// The thread's process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// The CPU on which it happened.
    pub cpu: u32,
    /// Id of the event that reports it on this CPU. Inherited events have the id of the original.
    pub event: u64,
    /// The kind of event.
    pub what: ThreadEvent,
    /// Whether it was in the ring of hits and switches.
    pub among_hits: bool,
}

/// An event in the life of a thread.
#[derive(Debug)]
pub enum ThreadEvent {
    /// The thread has come to a breakpoint.
    Hit(Box<Sample>),
    /// The thread has started another thread, of its own process or of a new one.
    Started {
        /// Process of the new thread.
        process: u32,
        /// The new thread.
        thread: u32,
    },
    /// The thread has ended.
    Ended,
    /// The thread has a new name.
    Named {
        /// The name as the kernel keeps it.
        comm: [u64; 2],
        /// Whether it has executed a program.
        executed: bool,
    },
    /// The thread has mapped code.
    Mapped,
    /// The thread has got or lost a CPU.
    Switched {
        /// Whether it has a CPU now.
        on: bool,
        /// Whether it could have gone on when it lost the CPU. Linux before 4.17 does not tell.
        preempted: bool,
    },
    /// The number of records that found no room.
    Lost(u64),
}

/// A thread at a breakpoint.
#[derive(Debug)]
pub struct Sample {
    /// The general registers; all others are 0.
    pub registers: Registers,
    /// The bytes of the stack from the stack pointer on.
    pub stack: Vec<u8>,
}

impl Record {
    /// Parses a record of a CPU's ring. `None` if it is of no use here, or damaged.
    pub fn parse(record: &perf_event::Record<'_>, format: &Format, cpu: u32) -> Option<Self> {
        let head = (record.ty(), record.misc());
        Self::decode(head, &record.to_contiguous(), format, cpu)
    }

    /// Decodes a record by its kind, its flags and its body.
    fn decode((kind, misc): (u32, u16), body: &[u8], format: &Format, cpu: u32) -> Option<Self> {
        // The crate's decoder of whole records does not know switches, and does not expose what
        // follows a record. So the header (`perf_event_header`) is built again and parsed.
        let size = u64::try_from(8 + body.len()).ok()?;
        let header = u64::from(kind) | u64::from(misc) << 32 | size << 48;
        let header = Parser::new(&header.to_ne_bytes()[..], format.clone()).parse();
        let mut parser = Parser::new(body, format.clone());
        let (mut body, behind) = parser.parse_metadata_with_header(header.ok()?).ok()?;
        let behind = behind.sample_id();
        let of = behind.pid().zip(behind.tid());
        let mut each = (of, behind.time(), behind.id());
        let what = match kind {
            perf::SAMPLE => {
                let sample: perf::Sample<'_> = body.parse().ok()?;
                each = (sample.of, sample.time_ns, sample.event);
                ThreadEvent::Hit(Box::new(Sample::of(&sample)?))
            }
            LOST => ThreadEvent::Lost(body.parse::<Lost>().ok()?.lost),
            COMM => ThreadEvent::Named {
                comm: comm(&body.parse::<Comm<'_>>().ok()?.comm),
                executed: misc & FLAG != 0,
            },
            EXIT => {
                // The thread may be out of reach by then: its ids come from the record's body.
                let exit: Exit = body.parse().ok()?;
                each.0 = Some((exit.pid, exit.tid));
                ThreadEvent::Ended
            }
            FORK => {
                let fork: Fork = body.parse().ok()?;
                ThreadEvent::Started {
                    process: fork.pid,
                    thread: fork.tid,
                }
            }
            MMAP2 => ThreadEvent::Mapped,
            SWITCH => ThreadEvent::Switched {
                on: misc & FLAG == 0,
                preempted: misc & (FLAG | PREEMPTED) == FLAG | PREEMPTED,
            },
            _ => return None,
        };
        let (of, time_ns, event) = each;
        let (process, thread) = of?;
        Some(Self {
            time_ns: time_ns?,
            process,
            thread,
            cpu,
            event: event?,
            what,
            among_hits: false,
        })
    }
}

impl Sample {
    fn of(sample: &perf::Sample<'_>) -> Option<Self> {
        if sample.abi != SampleRegsAbi::ABI_64 {
            return None;
        }
        let registers = Registers::of_sample(sample.registers.as_slice())?;
        let stack = sample.stack.to_vec();
        Some(Self { registers, stack })
    }
}

/// A name, cut as the kernel cuts it.
fn comm(bytes: &[u8]) -> [u64; 2] {
    let mut room = [0; 16];
    let name = bytes.iter().take(15).take_while(|byte| **byte != 0);
    for (to, byte) in room.iter_mut().zip(name) {
        *to = *byte;
    }
    let (words, _) = room.as_chunks::<8>();
    [words[0], words[1]].map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::{super::events::breakpoint, *};
    use crate::kernel::perf::tests::bytes;

    /// `PERF_SAMPLE_REGS_ABI_64`.
    const ABI_64: u64 = 2;

    fn halves(first: u32, second: u32) -> u64 {
        u64::from(first) | u64::from(second) << 32
    }

    /// The thread, time and event of each record: process 7, thread 9, 55 ns, event 3.
    fn each() -> [u64; 3] {
        [halves(7, 9), 55, 3]
    }

    fn parse(kind: u32, misc: u16, words: &[u64]) -> Option<Record> {
        let format = Format::from(*breakpoint(0).sample_id_all(true).attrs());
        Record::decode((kind, misc), &bytes(words), &format, 1)
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
        let ThreadEvent::Hit(sample) = record.what else {
            panic!("{record:?}");
        };
        let registers = sample.registers;
        assert_eq!((registers.stack(), registers.at()), (107, 108));
        // The first argument, the fifth, the result, and the last register.
        let numbered = [1, 5, 7, 15].map(|number| registers.numbered(number));
        assert_eq!(numbered, [105, 109, 100, 116]);
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
        let ThreadEvent::Started { process, thread } = started.what else {
            panic!("{started:?}");
        };
        assert_eq!((process, thread), (8, 12));
        let ended = parse(EXIT, 0, &with(&[halves(17, 7), halves(19, 7), 54])).unwrap();
        assert!(matches!(ended.what, ThreadEvent::Ended));
        assert_eq!((ended.process, ended.thread), (17, 19));
        let named = with(&[halves(7, 9), 0x6161]);
        for (misc, is) in [(0, false), (FLAG, true)] {
            let what = parse(COMM, misc, &named).unwrap().what;
            let ThreadEvent::Named { comm, executed } = what else {
                panic!("{what:?}");
            };
            assert_eq!((comm, executed), ([0x6161, 0], is));
        }
        for (misc, is) in [
            (0, (true, false)),
            (FLAG, (false, false)),
            (FLAG | PREEMPTED, (false, true)),
        ] {
            let what = parse(SWITCH, misc, &each()).unwrap().what;
            let ThreadEvent::Switched { on, preempted } = what else {
                panic!("{what:?}");
            };
            assert_eq!((on, preempted), is);
        }
        let lost = parse(LOST, 0, &with(&[3, 21])).unwrap();
        assert!(matches!(lost.what, ThreadEvent::Lost(21)));
    }

    #[test]
    fn what_is_cut_off_is_nothing() {
        for kind in [LOST, COMM, EXIT, FORK, MMAP2, SWITCH, 77] {
            for words in 0..3 {
                assert!(parse(kind, FLAG, &each()[..words]).is_none());
            }
        }
        for kind in [LOST, COMM, EXIT, FORK, 77] {
            assert!(parse(kind, 0, &each()).is_none());
        }
    }
}
