//! Turns records of the ring into events. Pure: the same records give the same events.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use rustc_hash::FxHashMap;
use sbt_common::{
    Arrive, Condvar, ENDS, MarkCookie, Memory, Mpi, STEPPED, Thread, UNKNOWN, evidence, kind,
    layout,
};

mod chains;
mod late;
mod life;
mod losses;
mod team_rounds;
mod team_sizes;

use super::{
    communicators::Communicators,
    counting::{Counting, KeptCounts},
    raw::Raw,
    spaces::Spaces,
    switches::Switches,
};
use late::Late;
use losses::{Course, Losses, Received};
use sbt_program::{
    backing::Lookup,
    runtimes::{self, Role},
};
use team_rounds::TeamRounds;
use team_sizes::TeamSizes;

use sbt_engine::{
    counters::Plan,
    event::{CallersId, Clocks, Event, Evidence, Kind, MarkId, Round, Tid},
};

/// CPU time and run delay, ns, that each thread had used when watching began, by its thread id in
/// its own pid namespace.
pub type Baselines = HashMap<u32, (Option<u64>, Option<u64>)>;

/// What the decoder must know before the first record.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// When watching began, ns.
    pub time_ns: u64,
    /// How far the kernel's run time is ahead of the true one, ns: see
    /// [`sbt_common::Clocks::run_ns`]. `None` if this was not measured.
    pub run_offset: Option<u64>,
    /// Times used so far by the threads that existed when watching began.
    pub baselines: Baselines,
    /// The target, as sbt's own pid namespace numbers it.
    pub pid: u32,
    /// Tells which objects several processes share. `None` if one process alone is watched.
    pub shared: Option<Lookup>,
    /// The counters that are counted from the start.
    pub plan: Plan,
    /// Counters that the user chooses while the program runs.
    pub chosen: Choice,
    /// Counter values of the threads that existed when watching began.
    pub kept: KeptCounts,
}

/// Counters that were chosen while the program runs, until the decoder takes them over.
#[derive(Clone, Debug, Default)]
pub struct Choice(Arc<Mutex<Option<Plan>>>);

impl Choice {
    /// Asks for these counters from now on.
    pub fn put(&self, plan: Plan) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(plan);
    }

    fn take(&self) -> Option<Plan> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.take()
    }
}

/// What the decoder knows of a thread.
#[derive(Clone, Copy)]
struct ThreadState {
    /// The sequence number that the thread's next record should have.
    seq: u32,
    /// The thread's process, as its own pid namespace numbers it.
    process: u32,
    /// Number of the process's address space: see [`sbt_engine::event::SPACE`].
    space: u16,
    /// Which kinds of records the thread sends, to guess what a lost record was.
    course: Course,
    /// The [`sbt_common::Make::number`] that the thread's next record of a call of MPI that makes a
    /// communicator or a group should have.
    made: u32,
}

/// Key of a known chain of callers: address space, key of the chain, and epoch of return addresses.
type Called = (u16, u64, u32);

/// The kernel's name of a task, up to the first zero byte.
pub fn name(comm: [u64; 2]) -> String {
    let bytes = comm.iter().flat_map(|word| word.to_ne_bytes());
    let comm: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&comm).into_owned()
}

/// Whether an object is a barrier of a C library, whose memory is read at each arrival.
fn is_of_c_library(layout: u8) -> bool {
    runtimes::of(layout).is_some_and(|runtime| runtime.role == Role::CLibrary)
}

/// How many rounds an object has completed, if its memory tells.
fn turn(record: &Memory) -> Option<u32> {
    let rounds = runtimes::of(record.head.layout)?.rounds?;
    (record.count > 0).then(|| rounds(record.count, record.round))
}

/// Turns records into events, and finds lost records.
#[derive(Default)]
pub struct Decoder {
    start: Start,
    threads: FxHashMap<Tid, ThreadState>,
    spaces: Spaces,
    communicators: Communicators,
    counting: Counting,
    switches: Switches,
    team_rounds: TeamRounds,
    team_sizes: TeamSizes,
    losses: Losses,
    late: Late,
    callers: FxHashMap<Called, CallersId>,
    /// Return addresses of each chain, by key and epoch. Not kept per process: forked processes
    /// have the same addresses, and the kernel sends each chain once.
    chains: FxHashMap<(u64, u32), Box<[u64]>>,
    /// The most recent epochs, the oldest first.
    epochs: VecDeque<u32>,
    known: u32,
    /// Ids of chains of older epochs, free to be used again.
    free: Vec<CallersId>,
}

impl Decoder {
    /// A decoder for one run.
    pub fn new(start: Start) -> Self {
        Self {
            spaces: Spaces::new(start.pid, start.shared),
            counting: Counting::new(start.plan.clone(), start.time_ns),
            start,
            ..Self::default()
        }
    }

    /// Switches to the counters that the user has chosen by `now_ns`, if any.
    pub fn choose(&mut self, now_ns: u64) {
        if let Some(plan) = self.start.chosen.take() {
            self.counting.choose(plan, now_ns);
        }
    }

    fn clocks(&self, clocks: &sbt_common::Clocks) -> Clocks {
        let run_ns = match self.start.run_offset {
            Some(offset) if clocks.run_ns != UNKNOWN => Some(clocks.run_ns.wrapping_sub(offset)),
            _ => None,
        };
        Clocks {
            time_ns: clocks.time_ns,
            // The offset is precise to about a microsecond: the run time of a thread that has
            // hardly run may come out just below zero.
            run_ns: run_ns.map(|run| if run > i64::MAX as u64 { 0 } else { run }),
            delay_ns: (clocks.delay_ns != UNKNOWN).then_some(clocks.delay_ns),
        }
    }

    fn check(&mut self, tid: Tid, seq: u32, seen: Received, out: &mut Vec<Event>) -> ThreadState {
        let known = self.threads.entry(tid).or_insert(ThreadState {
            seq: 0,
            process: self.start.pid,
            space: 0,
            course: Course::default(),
            made: 0,
        });
        let gap = seq.wrapping_sub(known.seq);
        known.seq = seq.wrapping_add(1);
        // `events` counts lost events only, not lost readings. A number that goes backwards means
        // that the thread has begun anew.
        let events = if gap > u32::MAX / 2 {
            self.losses.anew(&mut known.course)
        } else {
            self.losses.gap(&mut known.course, gap, seen)
        };
        if events != 0 {
            out.push(Event::Lost { tid, count: events });
        }
        *known
    }

    fn thread(&mut self, record: &Thread) -> Event {
        let shown = if record.ns_tid == 0 {
            (record.head.tid, 0)
        } else {
            (record.ns_tid, record.ns_tgid)
        };
        let space = self.spaces.of(shown.1);
        let before = self.threads.get(&record.head.tid);
        let known = ThreadState {
            seq: 0,
            process: shown.1,
            space,
            course: Course::default(),
            // The numbers of these records go on where the numbers of all records begin anew.
            made: before.map_or(0, |before| before.made),
        };
        self.threads.insert(record.head.tid, known);
        let since = if record.start_ns >= self.start.time_ns {
            // The thread began while watched: it had used nothing.
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
        let had = (record.start_ns < self.start.time_ns)
            .then(|| self.start.kept.get(&shown.0).copied().unwrap_or_default());
        self.counting.introduce(record.head.tid, since, had);
        Event::Thread {
            tid: record.head.tid,
            shown,
            name: name(record.comm),
            since,
            code_start: (record.start_code != 0).then_some(record.start_code),
        }
    }

    fn evidence(&mut self, record: &Condvar, out: &mut Vec<Event>) {
        let tid = record.head.tid;
        let thread = self.check(tid, record.seq, Received::Other, out);
        let callers = self.callers(thread, record.caller, record.epoch, out);
        let clocks = self.clocks(&record.clocks);
        self.counting.at(tid, record.seq, clocks, out);
        if record.head.detail == evidence::CONDVAR {
            out.push(Event::Toll {
                tid,
                condvar: true,
                stepped: false,
                walked: self.walked(record.caller, record.epoch),
            });
        }
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

    /// How many of the records that found no room in the ring were events. `records` is the
    /// kernel's count of such records.
    pub fn lost_events(&self, records: u64) -> u64 {
        let courses = self.threads.values().map(|known| known.course);
        self.losses.events(records, courses)
    }

    /// How many of the records missing in the threads' sequence numbers were readings, not events.
    pub const fn lost_readings(&self) -> u64 {
        self.losses.readings()
    }

    /// Remarks on communicators and on memory of processes for the user, if there are any.
    pub fn note(&self) -> Option<String> {
        let notes = [self.communicators.note(), self.spaces.note()];
        notes
            .into_iter()
            .flatten()
            .reduce(|one, two| one + "; " + &two)
    }

    /// Where Open MPI's memory holds the number of a communicator, once this is known. The BPF
    /// programs need it to read that number.
    pub const fn mpi(&self) -> Option<Mpi> {
        self.communicators.place()
    }

    /// Appends the events that one record tells of to `out`.
    pub fn decode(&mut self, raw: &Raw, out: &mut Vec<Event>) {
        let threads = &self.threads;
        if self.late.is_late(raw, |tid| threads.contains_key(&tid)) {
            return;
        }
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
                let seen = match record.head.kind {
                    kind::EXIT | kind::MARK => Received::Other,
                    _ => Received::Departure,
                };
                self.check(tid, record.seq, seen, out);
                let clocks = self.clocks(&record.clocks);
                self.counting.at(tid, record.seq, clocks, out);
                if record.head.kind == kind::MARK && record.head.detail != 0 {
                    out.push(Event::Toll {
                        tid,
                        condvar: false,
                        stepped: true,
                        walked: 0,
                    });
                }
                out.push(match record.head.kind {
                    kind::EXIT => {
                        self.counting.forget(tid);
                        self.switches.forget(tid);
                        self.threads.remove(&tid);
                        Event::Exit { tid, clocks }
                    }
                    kind::MARK if record.mark.to_le_bytes()[0] == MarkCookie::REGION => {
                        Event::Region {
                            tid,
                            clocks,
                            depth: record.mark >> 8,
                        }
                    }
                    kind::MARK if record.mark.to_le_bytes()[0] == MarkCookie::AWAITS => {
                        Event::Awaits { tid, clocks }
                    }
                    kind::MARK => Event::Mark {
                        tid,
                        clocks,
                        // The mark's number crosses the ring as one byte: see `MarkCookie`.
                        mark: MarkId(record.mark.to_le_bytes()[0]),
                    },
                    _ => Event::Depart { tid, clocks },
                });
            }
            Raw::Memory(record) => self.memory(record, out),
            Raw::Init(record) => {
                let tid = record.head.tid;
                let thread = self.check(tid, record.seq, Received::Other, out);
                if record.head.detail == 0 {
                    self.spaces.forget(thread.space, record.object);
                } else {
                    self.spaces
                        .made(thread.space, thread.process, record.object);
                }
                out.push(Event::Init {
                    time_ns: record.time_ns,
                    object: self.spaces.object(thread.space, record.object),
                    kind: Kind::Pthread,
                    tid,
                    count: record.count,
                });
            }
            Raw::Make(record) => {
                let thread = self.check(record.head.tid, record.seq, Received::Other, out);
                self.follow(record.head.tid, record.number);
                let of = (thread.space, thread.process);
                self.communicators.make(of, record);
            }
            Raw::Made(record) => {
                let thread = self.check(record.head.tid, record.seq, Received::Other, out);
                self.follow(record.head.tid, record.number);
                self.communicators.made(thread.space, record);
            }
            Raw::Mapping(record) => self.mapping(record, out),
            Raw::Counts(record) => self.counting.counts(record),
            Raw::Sums(record) => self.counting.sums(record),
            Raw::Taker(record) => self.switches.taker(record),
            Raw::Away(record) => self.switches.back(record, out),
            Raw::Speed(record) => out.push(Event::Speed {
                tid: record.head.tid,
                time_ns: record.time_ns,
                took_ns: record.took_ns,
            }),
            // Nothing that happens at barriers.
            Raw::Asleep(_) | Raw::Woken(_) => {}
        }
    }

    /// Checks that no record of a thread's calls that make communicators is missing before the record
    /// with this `number`.
    fn follow(&mut self, tid: Tid, number: u32) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let is_missing = number != thread.made;
        thread.made = number.wrapping_add(1);
        if is_missing {
            let space = thread.space;
            self.communicators.doubt(space);
        }
    }

    fn memory(&mut self, record: &Memory, out: &mut Vec<Event>) {
        let tid = record.head.tid;
        let thread = self.check(tid, record.seq, Received::Memory, out);
        if record.head.layout == layout::MPI {
            // The next arrival uses what is stored here.
            let of = (thread.space, thread.process);
            self.communicators.told(of, record);
            return;
        }
        let unread = record.count == 0 && is_of_c_library(record.head.layout);
        let (space, process) = (thread.space, thread.process);
        if record.head.detail != 0 {
            self.spaces.meet(space, process, record.object);
        } else if unread {
            self.spaces.meet_unread(space, process, record.object);
        }
        let round = if record.head.layout == layout::KMP {
            self.team_rounds.told(thread.space, record)
        } else {
            turn(record)
        };
        if let Some(round) = round {
            out.push(Event::Turn {
                tid,
                time_ns: Some(record.time_ns),
                object: self.spaces.object(thread.space, record.object),
                round,
            });
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

    fn arrive(&mut self, record: &Arrive, out: &mut Vec<Event>) {
        let tid = record.head.tid;
        let reads = is_of_c_library(record.head.layout);
        let thread = self.check(tid, record.seq, Received::Arrival { reads }, out);
        let callers = self.callers(thread, record.caller, record.epoch, out);
        let time_ns = record.clocks.time_ns;
        let is_numbered = record.head.layout == layout::MPI_NUMBERED;
        let object = if is_numbered || record.head.layout == layout::MPI {
            let of = (thread.space, thread.process);
            let named = (record.object, is_numbered);
            let (communicator, count) = self.communicators.find(of, named, time_ns);
            let object = self
                .communicators
                .barrier(communicator, record.collective());
            if let Some(name) = self.communicators.take_name(thread.space, object) {
                out.push(Event::Communicator { tid, object, name });
            }
            // Ranks may be on other machines: then the members cannot be counted.
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
            let object = self.spaces.object(thread.space, record.object);
            if let Some(count) = self.team_sizes.arrived(thread.space, record) {
                out.push(Event::Memory {
                    tid,
                    time_ns,
                    object,
                    count,
                    round: None,
                });
            }
            object
        };
        let clocks = self.clocks(&record.clocks);
        self.counting.at(tid, record.seq, clocks, out);
        let (layout, ends) = (record.head.layout, record.head.detail & ENDS != 0);
        if ends && !runtimes::is_inside(layout, ends) {
            out.push(Event::RegionEnd { tid });
        }
        let walked = self.walked(record.caller, record.epoch);
        let stepped = record.head.detail & STEPPED != 0;
        if stepped || walked > 0 {
            out.push(Event::Toll {
                tid,
                condvar: false,
                stepped,
                walked,
            });
        }
        out.push(Event::Arrive {
            tid,
            clocks,
            object,
            kind: runtimes::kind_of_arrival(layout, ends),
            callers,
        });
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
