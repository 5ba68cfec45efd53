//! Records of the ring → events. Pure: the same records give the same events.

use std::collections::{HashMap, VecDeque};

use rustc_hash::FxHashMap;
use sbt_common::{
    Arrive, CHAIN, Callers, Condvar, Depart, Head, Init, Mapping, Memory, Thread, UNKNOWN,
    evidence, kind, layout, read,
};

use super::{
    communicators::Communicators,
    spaces::{Lookup, Spaces},
};
use crate::event::{CallersId, Clocks, Event, Evidence, Kind, MarkId, Round, Tid};

/// One record, checked for kind and length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// A thread entered a barrier.
    Arrive(Arrive),
    /// A chain of callers; boxed because it is long and seldom.
    Callers(Box<Callers>),
    /// A thread left one, ended, passed a mark, or is the agent itself: see its
    /// kind.
    Depart(Depart),
    /// A thread waits on something or wakes those who do: see its kind.
    Condvar(Condvar),
    /// What a barrier object held.
    Memory(Memory),
    /// A barrier object is being initialised.
    Init(Init),
    /// A thread announces itself.
    Thread(Thread),
    /// The mappings have changed.
    Mapping(Mapping),
}

impl Raw {
    /// Reads a record; `None` if its kind or its length is not one of ours.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let head: Head = read(bytes.get(..size_of::<Head>())?)?;
        match head.kind {
            kind::ARRIVE => read(bytes).map(Self::Arrive),
            kind::DEPART | kind::EXIT | kind::CALIBRATE | kind::MARK => {
                read(bytes).map(Self::Depart)
            }
            kind::WAIT | kind::WAKE | kind::LOCK => read(bytes).map(Self::Condvar),
            kind::CALLERS => read(bytes).map(|callers| Self::Callers(Box::new(callers))),
            kind::MEMORY => read(bytes).map(Self::Memory),
            kind::INIT => read(bytes).map(Self::Init),
            kind::THREAD => read(bytes).map(Self::Thread),
            kind::MAPPED | kind::EXEC | kind::FORK | kind::END => read(bytes).map(Self::Mapping),
            _ => None,
        }
    }

    /// When the record was made, `CLOCK_MONOTONIC` ns.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::Arrive(record) => record.clocks.time_ns,
            Self::Condvar(record) => record.clocks.time_ns,
            Self::Callers(record) => record.time_ns,
            Self::Depart(record) => record.clocks.time_ns,
            Self::Thread(record) => record.clocks.time_ns,
            Self::Memory(record) => record.time_ns,
            Self::Init(record) => record.time_ns,
            Self::Mapping(record) => record.time_ns,
        }
    }
}

/// What a thread had used when watching it began, by its number as shown.
pub type Baselines = HashMap<u32, (Option<u64>, Option<u64>)>;

/// What the decoder must know beforehand.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// When watching began, ns.
    pub time_ns: u64,
    /// What the kernel's run time is ahead of the truth, ns: see
    /// [`sbt_common::Clocks::run_ns`]. `None` if it was not measured.
    pub run_offset: Option<u64>,
    /// The threads that existed then.
    pub baselines: Baselines,
    /// The target, as sbt's own pid namespace numbers it.
    pub pid: u32,
    /// What tells which objects processes share, if several are watched.
    pub shared: Option<Lookup>,
}

/// What is known of a thread.
#[derive(Clone, Copy)]
struct Known {
    /// The number of its next record.
    seq: u32,
    /// Its process, as shown.
    process: u32,
    /// That one's number: see [`crate::event::SPACE`].
    space: u16,
}

/// What arrivals call their callers: whose they are, what they are called, and
/// the epoch of return addresses.
type Called = (u16, u64, u32);

/// Turns records into events, and finds the losses.
#[derive(Default)]
pub struct Decoder {
    start: Start,
    threads: FxHashMap<Tid, Known>,
    spaces: Spaces,
    communicators: Communicators,
    callers: FxHashMap<Called, CallersId>,
    /// What chains are, by key and epoch. Processes that were forked have the same
    /// addresses, and a chain is told once.
    chains: FxHashMap<(u64, u32), Box<[u64]>>,
    /// The last epochs, the oldest first.
    epochs: VecDeque<u32>,
    known: u32,
    /// Numbers of what belonged to older epochs.
    free: Vec<CallersId>,
}

/// A record may come so many epochs late.
const EPOCHS: usize = 16;

impl Decoder {
    /// A decoder for one run.
    pub fn new(start: Start) -> Self {
        Self {
            spaces: Spaces::new(start.pid, start.shared),
            start,
            ..Self::default()
        }
    }

    fn clocks(&self, clocks: &sbt_common::Clocks) -> Clocks {
        let run_ns = match self.start.run_offset {
            Some(offset) if clocks.run_ns != UNKNOWN => Some(clocks.run_ns.wrapping_sub(offset)),
            _ => None,
        };
        Clocks {
            time_ns: clocks.time_ns,
            // The offset is measured to a microsecond or so: a thread that has
            // hardly run may come out just below zero.
            run_ns: run_ns.map(|run| if run > i64::MAX as u64 { 0 } else { run }),
            delay_ns: (clocks.delay_ns != UNKNOWN).then_some(clocks.delay_ns),
        }
    }

    fn check(&mut self, tid: Tid, seq: u32, out: &mut Vec<Event>) -> Known {
        let known = self.threads.entry(tid).or_insert(Known {
            seq: 0,
            process: self.start.pid,
            space: 0,
        });
        // Backwards: the thread has begun anew, and its announcement is lost.
        let count = match seq.wrapping_sub(known.seq) {
            gap if gap > u32::MAX / 2 => 1,
            gap => gap,
        };
        known.seq = seq.wrapping_add(1);
        if count != 0 {
            out.push(Event::Lost { tid, count });
        }
        *known
    }

    /// The callers of an arrival.
    fn callers(
        &mut self,
        thread: Known,
        caller: u64,
        epoch: u32,
        out: &mut Vec<Event>,
    ) -> CallersId {
        let key = (thread.space, caller, epoch);
        if let Some(known) = self.callers.get(&key) {
            return *known;
        }
        if caller & CHAIN != 0 {
            let chain = self.chains.get(&(caller, epoch)).cloned();
            // Its record was stamped in the same nanosecond, if it exists.
            return match chain {
                Some(chain) => self.introduce(thread.process, key, chain, out),
                None => self.introduce(thread.process, (thread.space, 0, epoch), [].into(), out),
            };
        }
        let addresses = [caller];
        let known = if caller == 0 { &[][..] } else { &addresses };
        self.introduce(thread.process, key, known.into(), out)
    }

    fn chain(&mut self, record: &Callers) {
        // A thread may tell of a chain that another is just telling of.
        let count = usize::try_from(record.count).unwrap_or(usize::MAX);
        let addresses = &record.addresses[..count.min(record.addresses.len())];
        self.enter(record.epoch);
        self.chains
            .insert((record.key, record.epoch), addresses.into());
    }

    /// The number of what is called so, which is a new one if it is new.
    fn introduce(
        &mut self,
        process: u32,
        key: Called,
        addresses: Box<[u64]>,
        out: &mut Vec<Event>,
    ) -> CallersId {
        if let Some(known) = self.callers.get(&key) {
            return *known;
        }
        self.enter(key.2);
        let id = self.free.pop().unwrap_or_else(|| {
            let new = CallersId(self.known);
            self.known += 1;
            new
        });
        self.callers.insert(key, id);
        out.push(Event::Callers {
            id,
            process,
            addresses,
        });
        id
    }

    /// Takes note of an epoch, and forgets the oldest for a new one: a program
    /// that loads and unloads libraries all the time has no end of them.
    fn enter(&mut self, epoch: u32) {
        if self.epochs.contains(&epoch) {
            return;
        }
        self.epochs.push_back(epoch);
        if self.epochs.len() > EPOCHS
            && let Some(oldest) = self.epochs.pop_front()
        {
            let gone = self.callers.extract_if(|(.., epoch), _| *epoch == oldest);
            self.free.extend(gone.map(|(_, id)| id));
            self.chains.retain(|(_, epoch), _| *epoch != oldest);
        }
    }

    fn thread(&mut self, record: &Thread) -> Event {
        let shown = if record.ns_tid == 0 {
            (record.head.tid, 0)
        } else {
            (record.ns_tid, record.ns_tgid)
        };
        let space = self.spaces.of(shown.1);
        let known = Known {
            seq: 0,
            process: shown.1,
            space,
        };
        self.threads.insert(record.head.tid, known);
        let comm: Vec<u8> = record
            .comm
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .take_while(|byte| *byte != 0)
            .collect();
        let since = if record.start_ns >= self.start.time_ns {
            // Born under our eyes: it had used nothing.
            Clocks {
                time_ns: record.start_ns,
                run_ns: Some(0),
                delay_ns: Some(0),
            }
        } else {
            let (run_ns, delay_ns) = self
                .start
                .baselines
                .get(&shown.0)
                .copied()
                .unwrap_or_default();
            Clocks {
                time_ns: self.start.time_ns,
                run_ns,
                delay_ns,
            }
        };
        Event::Thread {
            tid: record.head.tid,
            shown,
            name: String::from_utf8_lossy(&comm).into_owned(),
            since,
            code_start: (record.start_code != 0).then_some(record.start_code),
        }
    }

    fn evidence(&mut self, record: &Condvar, out: &mut Vec<Event>) {
        let tid = record.head.tid;
        let thread = self.check(tid, record.seq, out);
        let callers = self.callers(thread, record.caller, record.epoch, out);
        let clocks = self.clocks(&record.clocks);
        let key = self.spaces.object(thread.space, record.object);
        let of = if record.head.detail == evidence::FUTEX {
            Evidence::Futex
        } else {
            Evidence::Condvar
        };
        out.push(match record.head.kind {
            kind::WAIT => Event::Wait {
                tid,
                clocks,
                key,
                of,
                callers,
            },
            kind::LOCK => Event::Lock {
                process: thread.process,
                address: record.object,
                callers,
            },
            _ => Event::Wake {
                tid,
                clocks,
                key,
                of,
                most: (record.head.layout != 0).then_some(record.head.layout.into()),
                callers,
            },
        });
    }

    /// What the user should know.
    pub fn note(&self) -> Option<String> {
        self.communicators.note()
    }

    /// Appends what one record says to `out`.
    pub fn decode(&mut self, raw: &Raw, out: &mut Vec<Event>) {
        match raw {
            Raw::Thread(record) => {
                let event = self.thread(record);
                out.push(event);
            }
            Raw::Arrive(record) => self.arrive(record, out),
            Raw::Condvar(record) => self.evidence(record, out),
            Raw::Callers(record) => self.chain(record),
            Raw::Depart(record) => {
                let tid = record.head.tid;
                if record.head.kind == kind::CALIBRATE {
                    return;
                }
                self.check(tid, record.seq, out);
                let clocks = self.clocks(&record.clocks);
                out.push(match record.head.kind {
                    kind::EXIT => {
                        self.threads.remove(&tid);
                        Event::Exit { tid, clocks }
                    }
                    kind::MARK => Event::Mark {
                        tid,
                        clocks,
                        // It came to us as a byte: see `MarkCookie`.
                        mark: MarkId(record.mark.to_le_bytes()[0]),
                    },
                    _ => Event::Depart { tid, clocks },
                });
            }
            Raw::Memory(record) => {
                let tid = record.head.tid;
                let thread = self.check(tid, record.seq, out);
                let unread = record.count == 0
                    && [layout::GLIBC, layout::MUSL].contains(&record.head.layout);
                if record.head.detail != 0 || unread {
                    self.spaces
                        .meet(thread.space, thread.process, record.object);
                }
                if record.count != 0 {
                    let round = (record.head.layout == layout::GLIBC).then(|| Round {
                        number: record.round,
                        arrived: record.arrived.wrapping_sub(record.round),
                    });
                    out.push(Event::Memory {
                        tid,
                        time_ns: record.time_ns,
                        object: self.spaces.object(thread.space, record.object),
                        count: record.count,
                        round,
                    });
                }
            }
            Raw::Init(record) => {
                let tid = record.head.tid;
                let thread = self.check(tid, record.seq, out);
                self.spaces.forget(thread.space, record.object);
                if record.head.detail != 0 {
                    self.spaces
                        .meet(thread.space, thread.process, record.object);
                }
                out.push(Event::Init {
                    time_ns: record.time_ns,
                    object: self.spaces.object(thread.space, record.object),
                    kind: Kind::Pthread,
                    tid,
                    count: record.count,
                });
            }
            Raw::Mapping(record) => self.mapping(record, out),
        }
    }

    fn arrive(&mut self, record: &Arrive, out: &mut Vec<Event>) {
        let tid = record.head.tid;
        let thread = self.check(tid, record.seq, out);
        let callers = self.callers(thread, record.caller, record.epoch, out);
        let time_ns = record.clocks.time_ns;
        let object = if record.head.layout == layout::MPI {
            let (object, count) =
                self.communicators
                    .find((thread.space, thread.process), record.object, time_ns);
            // Ranks may be elsewhere, so nobody could count them.
            if let Some(count) = count {
                out.push(Event::Memory {
                    tid,
                    time_ns,
                    object,
                    count,
                    round: None,
                });
            }
            object
        } else {
            self.spaces.object(thread.space, record.object)
        };
        out.push(Event::Arrive {
            tid,
            clocks: self.clocks(&record.clocks),
            object,
            kind: match record.head.layout {
                layout::USER => Kind::User,
                layout::MPI => Kind::Mpi,
                layout::GOMP => Kind::Gomp,
                layout::STD | layout::STD_POINTED | layout::STD_INLINED => Kind::Std,
                layout::RUST => Kind::Rust,
                layout::KMP => Kind::Kmp,
                _ => Kind::Pthread,
            },
            callers,
        });
    }

    /// Nothing lies any more where it lay in the memory of a process.
    fn forget(&mut self, space: u16) {
        let gone = self.callers.extract_if(|(of, ..), _| *of == space);
        self.free.extend(gone.map(|(_, id)| id));
        self.communicators.forget(space);
    }

    /// A process has ended.
    fn end(&mut self, process: u32, time_ns: u64, out: &mut Vec<Event>) {
        if [0, self.start.pid].contains(&process) {
            return;
        }
        let space = self.spaces.ended(process);
        if let Some(space) = space {
            self.forget(space);
            // The end of some may have been lost.
            self.threads.retain(|_, thread| thread.process != process);
        }
        out.push(Event::Ended {
            time_ns,
            process,
            space,
        });
    }

    fn mapping(&mut self, record: &Mapping, out: &mut Vec<Event>) {
        let time_ns = record.time_ns;
        let process = record.ns_tgid;
        if record.head.kind == kind::END {
            self.end(process, time_ns, out);
            return;
        }
        if record.child != 0 {
            // The end of one that had its number before may have been lost.
            self.end(record.child, time_ns, out);
        }
        out.push(match record.head.kind {
            kind::EXEC => {
                // Addresses mean something else from here on.
                let space = self.spaces.of(process);
                self.forget(space);
                self.spaces.executed(space);
                Event::Exec {
                    time_ns,
                    process,
                    space,
                    replaced: record.head.layout != 0,
                }
            }
            kind::FORK => Event::Forked {
                time_ns,
                process,
                child: (record.child != 0).then_some(record.child),
                followed: record.head.layout == 0,
            },
            _ => Event::Mapped { time_ns, process },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{super::spaces::Memory, *};

    fn arrive(tid: u32, seq: u32, time_ns: u64) -> Raw {
        Raw::Arrive(Arrive {
            head: Head {
                kind: kind::ARRIVE,
                layout: layout::GLIBC,
                detail: 0,
                tid,
            },
            clocks: sbt_common::Clocks {
                time_ns,
                run_ns: 1_000,
                delay_ns: UNKNOWN,
            },
            object: 0x1000,
            caller: 0x2000,
            seq,
            epoch: 1,
        })
    }

    fn decode(raws: &[Raw]) -> Vec<Event> {
        let mut decoder = Decoder::new(Start {
            run_offset: Some(400),
            ..Start::default()
        });
        let mut out = Vec::new();
        for raw in raws {
            decoder.decode(raw, &mut out);
        }
        out
    }

    #[test]
    fn a_gap_in_a_threads_numbers_is_a_loss_of_that_thread() {
        let out = decode(&[arrive(7, 0, 10), arrive(8, 0, 11), arrive(7, 3, 12)]);
        let losses: Vec<_> = out
            .iter()
            .filter(|event| matches!(event, Event::Lost { .. }))
            .collect();
        assert_eq!(losses, [&Event::Lost { tid: 7, count: 2 }]);
    }

    #[test]
    fn a_thread_that_begins_anew_unannounced_has_lost_something_but_not_billions() {
        let out = decode(&[arrive(7, 0, 10), arrive(7, 1, 11), arrive(7, 0, 12)]);
        assert!(out.contains(&Event::Lost { tid: 7, count: 1 }), "{out:?}");
    }

    #[test]
    fn callers_are_introduced_once_and_clocks_are_corrected() {
        let out = decode(&[arrive(7, 0, 10), arrive(7, 1, 12)]);
        assert_eq!(
            out[0],
            Event::Callers {
                id: CallersId(0),
                process: 0,
                addresses: Box::new([0x2000])
            }
        );
        let expected = Clocks {
            time_ns: 10,
            run_ns: Some(600),
            delay_ns: None,
        };
        assert!(matches!(out[1], Event::Arrive { clocks, .. } if clocks == expected));
        assert_eq!(out.len(), 3);
    }

    #[test]
    fn chains_are_introduced_by_their_records_and_anew_in_each_epoch() {
        let chain = |epoch| {
            let mut addresses = [0; sbt_common::MAX_CALLERS];
            addresses[..2].copy_from_slice(&[0x2000, 0x3000]);
            Raw::Callers(Box::new(Callers {
                time_ns: 9,
                key: CHAIN | 7,
                epoch,
                count: 2,
                addresses,
                ..Callers::default()
            }))
        };
        let called = |seq, epoch| {
            let Raw::Arrive(record) = arrive(7, seq, 10) else {
                panic!("an arrival")
            };
            Raw::Arrive(Arrive {
                caller: CHAIN | 7,
                epoch,
                ..record
            })
        };
        let out = decode(&[
            chain(1),
            called(0, 1),
            chain(1),
            chain(2),
            called(1, 2),
            // One that nobody has told of stands for nothing else.
            called(2, 3),
        ]);
        let ids: Vec<_> = out
            .iter()
            .map(|event| match event {
                Event::Callers { id, addresses, .. } => (id.0, addresses.to_vec()),
                Event::Arrive { callers, .. } => (callers.0, Vec::new()),
                other => panic!("{other:?}"),
            })
            .collect();
        let both = vec![0x2000, 0x3000];
        let expected = [
            (0, both.clone()),
            (0, vec![]),
            (1, both),
            (1, vec![]),
            (2, vec![]),
            (2, vec![]),
        ];
        assert_eq!(ids, expected);
    }

    /// Something about a process.
    fn mapping(kind: u8, process: u32, child: u32) -> Raw {
        Raw::Mapping(Mapping {
            head: Head {
                kind,
                ..Head::default()
            },
            time_ns: 20,
            ns_tgid: process,
            child,
        })
    }

    #[test]
    fn processes_that_come_and_go_leave_nothing() {
        let mut decoder = Decoder::new(Start {
            pid: 5,
            shared: Some(|_, _| Memory::Own),
            ..Start::default()
        });
        let mut out = Vec::new();
        for process in 1000..1100 {
            let thread = Raw::Thread(Thread {
                head: Head {
                    kind: kind::THREAD,
                    tid: process,
                    ..Head::default()
                },
                ns_tid: process,
                ns_tgid: process,
                ..Thread::default()
            });
            out.clear();
            for raw in [
                mapping(kind::FORK, 5, process),
                thread,
                arrive(process, 0, 10),
                // From here on the same address is another place.
                mapping(kind::EXEC, process, 0),
                arrive(process, 1, 30),
                mapping(kind::END, process, 0),
            ] {
                decoder.decode(&raw, &mut out);
            }
            let callers = |event: &Event| match event {
                Event::Callers { id, .. } => Some(id.0),
                _ => None,
            };
            let callers: Vec<u32> = out.iter().filter_map(callers).collect();
            assert_eq!(callers, [0, 0]);
            assert_eq!(
                out.last(),
                Some(&Event::Ended {
                    time_ns: 20,
                    process,
                    space: Some(1)
                })
            );
        }
        assert!(decoder.callers.is_empty() && decoder.threads.is_empty());
        // The end of the target is told in another way.
        out.clear();
        decoder.decode(&mapping(kind::END, 5, 0), &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn a_child_with_the_number_of_another_is_another() {
        let mut decoder = Decoder::new(Start {
            pid: 5,
            shared: Some(|_, _| Memory::Own),
            ..Start::default()
        });
        let mut out = Vec::new();
        for _ in 0..2 {
            decoder.decode(&mapping(kind::FORK, 5, 6), &mut out);
            decoder.decode(&mapping(kind::EXEC, 6, 0), &mut out);
        }
        let is_end = |event: &Event| matches!(event, Event::Ended { space: Some(1), .. });
        assert_eq!(out.iter().position(is_end), Some(3), "{out:?}");
    }

    #[test]
    fn chains_of_bygone_epochs_give_their_numbers_back() {
        let mut decoder = Decoder::new(Start::default());
        let mut out = Vec::new();
        for (seq, epoch) in (0..100).zip(1..) {
            let Raw::Arrive(record) = arrive(7, seq, 10) else {
                panic!("an arrival")
            };
            decoder.decode(&Raw::Arrive(Arrive { epoch, ..record }), &mut out);
        }
        let highest = out.iter().map(|event| match event {
            Event::Arrive { callers, .. } => callers.0,
            _ => 0,
        });
        assert_eq!(highest.max(), Some(15));
        let introduced = out
            .iter()
            .filter(|event| matches!(event, Event::Callers { .. }));
        assert_eq!(introduced.count(), 100);
    }

    #[test]
    fn bytes_of_the_wrong_length_or_kind_are_refused() {
        assert_eq!(Raw::parse(&[]), None);
        assert_eq!(Raw::parse(&[kind::ARRIVE, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Raw::parse(&[200; 56]), None);
        let mut bytes = vec![0; size_of::<Mapping>()];
        bytes[0] = kind::EXEC;
        assert!(matches!(Raw::parse(&bytes), Some(Raw::Mapping(_))));
    }
}
