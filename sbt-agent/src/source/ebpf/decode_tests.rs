//! Records in, events out.

use sbt_common::{CHAIN, Callers, Head, Init, Mapping};

use super::*;
use sbt_engine::event::SHARED;
use sbt_program::backing::Memory;

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

/// A thread begins at the first `exec`, if that comes before any thread is announced; later `exec`s
/// change nothing.
#[test]
fn a_program_that_is_started_begins_with_its_first_exec() {
    let exec = |time_ns| {
        Raw::Mapping(Mapping {
            head: Head {
                kind: kind::EXEC,
                layout: 0,
                detail: 0,
                tid: 7,
            },
            time_ns,
            ns_tgid: 7,
            child: 0,
        })
    };
    let thread = || {
        Raw::Thread(Thread {
            head: Head {
                kind: kind::THREAD,
                layout: 0,
                detail: 0,
                tid: 7,
            },
            start_ns: 50,
            ns_tid: 7,
            ns_tgid: 7,
            ..Thread::default()
        })
    };
    let begun = |raws: &[Raw]| -> Vec<u64> {
        let mut decoder = Decoder::new(Start {
            time_ns: 100,
            pid: 7,
            ..Start::default()
        });
        let mut out = Vec::new();
        for raw in raws {
            decoder.decode(raw, &mut out);
        }
        let threads = out.iter().filter_map(|event| match event {
            Event::Thread { since, .. } => Some(since.time_ns),
            _ => None,
        });
        threads.collect()
    };
    let started = [exec(200), thread(), exec(300), thread()];
    assert_eq!(begun(&started), [200, 200]);
    // sbt has attached, and the thread was announced before the `exec`.
    assert_eq!(begun(&[thread(), exec(300), thread()]), [100, 100]);
}

#[test]
fn a_gap_in_a_threads_numbers_is_a_loss_of_that_thread() {
    // Lost: an arrival, and two readings of what a barrier held.
    let out = decode(&[arrive(7, 0, 10), arrive(8, 0, 11), arrive(7, 4, 12)]);
    let losses: Vec<_> = out
        .iter()
        .filter(|event| matches!(event, Event::Lost { .. }))
        .collect();
    assert_eq!(losses, [&Event::Lost { tid: 7, count: 1 }]);
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
        // A chain without a record has no callers.
        called(2, 3),
    ]);
    // Each known chain was walked one function far.
    let is_toll = |event: &&Event| matches!(event, Event::Toll { .. });
    let walked = |event: &Event| matches!(event, Event::Toll { walked: 1, .. });
    let tolls: Vec<_> = out.iter().filter(is_toll).map(walked).collect();
    assert_eq!(tolls, [true; 2]);
    let ids: Vec<_> = out
        .iter()
        .filter(|event| !is_toll(event))
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

/// A record of a change of a process.
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
            // From here on the same address means another place.
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
    // The end of the target is reported in another way.
    out.clear();
    decoder.decode(&mapping(kind::END, 5, 0), &mut out);
    assert!(out.is_empty());
}

/// A process makes a barrier for three, forks two, and all end before their memory is looked at.
#[test]
fn a_barrier_of_processes_that_have_all_ended_is_one() {
    let mut decoder = Decoder::new(Start {
        pid: 5,
        shared: Some(|_, _| Memory::Unknown),
        ..Start::default()
    });
    let thread = |process| {
        Raw::Thread(Thread {
            head: Head {
                kind: kind::THREAD,
                tid: process,
                ..Head::default()
            },
            ns_tid: process,
            ns_tgid: process,
            ..Thread::default()
        })
    };
    let init = Raw::Init(Init {
        head: Head {
            kind: kind::INIT,
            layout: layout::GLIBC,
            detail: 1,
            tid: 5,
        },
        object: 0x1000,
        count: 3,
        seq: 0,
        ..Init::default()
    });
    let memory = |tid, seq, detail, count| {
        Raw::Memory(sbt_common::Memory {
            head: Head {
                kind: kind::MEMORY,
                layout: layout::GLIBC,
                detail,
                tid,
            },
            object: 0x1000,
            count,
            seq,
            ..sbt_common::Memory::default()
        })
    };
    let mut out = Vec::new();
    for raw in [
        thread(5),
        init,
        mapping(kind::FORK, 5, 6),
        mapping(kind::FORK, 5, 7),
        memory(5, 1, 1, 3),
        arrive(5, 2, 10),
        // A page that the process has not touched cannot be read.
        thread(6),
        memory(6, 0, 0, 0),
        arrive(6, 1, 20),
        thread(7),
        memory(7, 0, 1, 3),
        arrive(7, 1, 30),
    ] {
        decoder.decode(&raw, &mut out);
    }
    let object = |event: &Event| match event {
        Event::Arrive { object, .. } => Some(*object),
        _ => None,
    };
    let objects: Vec<u64> = out.iter().filter_map(object).collect();
    assert_eq!(objects, [super::super::spaces::own(SHARED, 0x1000); 3]);
    assert!(decoder.note().unwrap().contains("processes ended before"));
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
fn threads_that_end_with_their_process_end() {
    let mut decoder = Decoder::new(Start {
        pid: 5,
        shared: Some(|_, _| Memory::Own),
        ..Start::default()
    });
    let mut out = Vec::new();
    for tid in [7, 6, 8] {
        decoder.decode(
            &Raw::Thread(Thread {
                head: Head {
                    kind: kind::THREAD,
                    tid,
                    ..Head::default()
                },
                ns_tid: tid,
                ns_tgid: 6,
                ..Thread::default()
            }),
            &mut out,
        );
    }
    out.clear();
    decoder.decode(&mapping(kind::END, 6, 0), &mut out);
    let ended = |event: &Event| match event {
        Event::Exit { tid, clocks } if *clocks == Clocks::at(20) => Some(*tid),
        _ => None,
    };
    assert_eq!(out.iter().filter_map(ended).collect::<Vec<_>>(), [6, 7, 8]);
    assert!(matches!(out[3], Event::Ended { process: 6, .. }));
}

/// Two threads end at the same time: the record of the process's end comes from one of them, while
/// the other is about to send what its barrier holds and its own end.
#[test]
fn threads_that_tell_their_end_after_their_process_have_lost_nothing() {
    let head = |kind, layout, tid| Head {
        kind,
        layout,
        tid,
        ..Head::default()
    };
    let announces = |tid| {
        Raw::Thread(Thread {
            head: head(kind::THREAD, 0, tid),
            start_ns: 9,
            ns_tid: tid,
            ns_tgid: 6,
            ..Thread::default()
        })
    };
    let reads = |tid, seq| {
        Raw::Memory(sbt_common::Memory {
            head: head(kind::MEMORY, layout::GLIBC, tid),
            time_ns: 20,
            object: 0x1000,
            seq,
            count: 2,
            round: 4,
            arrived: 4,
        })
    };
    let ends = |tid, seq| {
        Raw::Depart(sbt_common::Depart {
            head: head(kind::EXIT, 0, tid),
            clocks: sbt_common::Clocks {
                time_ns: 21,
                run_ns: 1_000,
                delay_ns: UNKNOWN,
            },
            seq,
            mark: 0,
        })
    };
    let last = [
        announces(8),
        reads(8, 0),
        reads(8, 1),
        ends(8, 2),
        announces(7),
    ];
    // The end may come before any of the records.
    for before in 0..=last.len() {
        let mut decoder = Decoder::new(Start {
            pid: 5,
            shared: Some(|_, _| Memory::Own),
            ..Start::default()
        });
        let mut out = Vec::new();
        for tid in [7, 8] {
            decoder.decode(&announces(tid), &mut out);
            decoder.decode(&arrive(tid, 0, 10), &mut out);
        }
        let (early, late) = last.split_at(before);
        let mut told = |raws: &[Raw]| {
            out.clear();
            for raw in raws {
                decoder.decode(raw, &mut out);
            }
            out.clone()
        };
        let early = told(early);
        let end = told(&[mapping(kind::END, 6, 0)]);
        let late = told(late);
        let is_loss = |event: &&Event| matches!(event, Event::Lost { .. });
        assert_eq!(early.iter().chain(&late).find(is_loss), None, "{before}");
        let ends = early.iter().chain(&end).filter_map(|event| match event {
            Event::Exit { tid, .. } => Some(*tid),
            _ => None,
        });
        let mut ends: Vec<Tid> = ends.collect();
        ends.sort_unstable();
        assert_eq!(ends, [7, 8], "{before}");
        // No later record makes an event, or is taken for the target's.
        assert_eq!(late, [], "{before}");
        assert!(decoder.threads.is_empty(), "{before}");
    }
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

#[test]
fn a_communicator_is_what_was_told_last_of_its_address() {
    let at = |seq, time_ns| {
        let Raw::Arrive(mut record) = arrive(7, seq, time_ns) else {
            panic!("an arrival")
        };
        record.head.layout = layout::MPI;
        Raw::Arrive(record)
    };
    let told = |seq, ranks, number, first| {
        let mut record = sbt_common::Memory {
            object: 0x1000,
            seq,
            count: ranks,
            round: number,
            arrived: first,
            ..sbt_common::Memory::default()
        };
        (record.head.kind, record.head.layout, record.head.tid) = (kind::MEMORY, layout::MPI, 7);
        Raw::Memory(record)
    };
    let out = decode(&[
        told(0, 4, 3, 0),
        at(1, 10),
        // Much later than a reading by the agent would be trusted.
        at(2, 9_000_000_000),
        // Freed; another communicator with the same number, of other ranks, is at this address.
        told(3, 2, 3, 2),
        at(4, 9_000_000_001),
        told(5, 4, 3, 0),
        at(6, 9_000_000_002),
    ]);
    let came: Vec<(u64, u32)> = out
        .iter()
        .filter_map(|event| match event {
            Event::Memory { object, count, .. } => Some((*object, *count)),
            _ => None,
        })
        .collect();
    let [first, second] = [came[0].0, came[2].0];
    assert_ne!(first, second);
    assert_eq!(came, [(first, 4), (first, 4), (second, 2), (first, 4)]);
    let arrived = out.iter().filter_map(|event| match event {
        Event::Arrive { object, .. } => Some(*object),
        _ => None,
    });
    assert_eq!(arrived.collect::<Vec<_>>(), [first, first, second, first]);
    assert!(!out.iter().any(|event| matches!(event, Event::Lost { .. })));
}

#[test]
fn who_comes_first_to_a_team_that_grew_needs_not_say_so() {
    let arrived = |tid, seq, time_ns, count| {
        let Raw::Arrive(mut record) = arrive(tid, seq, time_ns) else {
            panic!("an arrival")
        };
        record.head.layout = layout::KMP;
        record.head.detail = ENDS | sbt_common::team_count(count);
        Raw::Arrive(record)
    };
    let read = |tid, seq, time_ns, count| {
        let mut record = sbt_common::Memory {
            object: 0x1000,
            seq,
            time_ns,
            count,
            ..sbt_common::Memory::default()
        };
        (record.head.kind, record.head.layout, record.head.tid) = (kind::MEMORY, layout::KMP, tid);
        Raw::Memory(record)
    };
    // Thread 8 is not in the team of two, and reads what it read last each time.
    let out = decode(&[
        arrived(7, 0, 10, 3),
        arrived(8, 0, 11, 3),
        arrived(9, 0, 12, 3),
        arrived(7, 1, 20, 2),
        arrived(9, 1, 21, 2),
        // Thread 7 looks first, and is overtaken.
        read(7, 2, 29, 3),
        arrived(8, 1, 30, 3),
        arrived(7, 3, 31, 3),
        arrived(9, 2, 32, 3),
        arrived(7, 4, 40, 1 << 20),
    ]);
    let told = out.iter().filter_map(|event| match event {
        Event::Memory {
            tid,
            time_ns,
            count,
            ..
        } => Some((*tid, *time_ns, *count)),
        _ => None,
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [(7, 10, 3), (7, 20, 2), (7, 29, 3), (8, 30, 3)]
    );
}
