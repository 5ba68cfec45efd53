use sbt_common::{Away as Record, Head, Taker as TakerRecord};

use super::*;

fn back(seq: u32, layout: u8, detail: u16, times: [u64; 3]) -> Record {
    let [left_ns, time_ns, ready_ns] = times;
    Record {
        head: Head {
            tid: 7,
            layout,
            detail,
            ..Head::default()
        },
        time_ns,
        left_ns,
        ready_ns,
        seq,
        reserved: 0,
    }
}

fn told(switches: &mut Switches, record: &Record) -> (Away, Vec<Taken>) {
    let mut out = Vec::new();
    switches.back(record, &mut out);
    match out.as_slice() {
        [
            Event::Away {
                tid: 7,
                away,
                takers,
            },
        ] => (*away, takers.to_vec()),
        other => panic!("{other:?}"),
    }
}

fn taker(seq: u32, kind: u8, took_ns: u64) -> TakerRecord {
    TakerRecord {
        head: Head {
            tid: 7,
            layout: kind,
            ..Head::default()
        },
        took_ns,
        process: 55,
        seq,
        comm: [u64::from_ne_bytes(*b"cc1\0\0\0\0\0"), 0],
        ..TakerRecord::default()
    }
}

#[test]
fn what_a_thread_slept_for_follows_from_how_it_left() {
    let mut switches = Switches::default();
    for (seq, layout, detail, why) in [
        (0, how::ASLEEP, 202, LeftCpu::Asleep(Reason::Futex)),
        (1, how::ASLEEP, 0, LeftCpu::Asleep(Reason::Stream)),
        (2, how::IO, 0, LeftCpu::Asleep(Reason::File)),
        (3, how::FAULT, 0xffff, LeftCpu::Asleep(Reason::Fault)),
        (4, how::STOPPED, 35, LeftCpu::Asleep(Reason::Stopped)),
        (5, how::READY, 202, LeftCpu::Ready),
    ] {
        let (away, _) = told(&mut switches, &back(seq, layout, detail, [100, 200, 5]));
        assert_eq!(away.why, why);
        assert!(away.seamless);
    }
}

#[test]
fn ready_time_is_within_the_whole() {
    let mut switches = Switches::default();
    let mut ready = |seq, layout, times| {
        let (away, _) = told(&mut switches, &back(seq, layout, 35, times));
        (away.from_ns, away.ready_ns)
    };
    assert_eq!(ready(0, how::ASLEEP, [100, 200, 5]), (Some(100), 5));
    assert_eq!(ready(1, how::ASLEEP, [100, 200, 500]), (Some(100), 100));
    assert_eq!(ready(2, how::ASLEEP, [100, 200, UNKNOWN]), (Some(100), 0));
    // A preempted thread was ready all the time.
    assert_eq!(ready(3, how::READY, [100, 200, UNKNOWN]), (Some(100), 100));
    assert_eq!(ready(0, how::UNSEEN, [0, 200, 30]), (None, 30));
}

#[test]
fn a_gap_is_told_and_takers_belong_to_their_return() {
    let mut switches = Switches::default();
    switches.taker(&taker(0, taker::OTHER, 40));
    switches.taker(&taker(0, taker::KERNEL, 60));
    let (away, takers) = told(&mut switches, &back(0, how::READY, 0, [100, 200, 100]));
    assert!(away.seamless);
    let told_of: Vec<_> = takers
        .iter()
        .map(|taken| (taken.by, &*taken.name, taken.process, taken.ns))
        .collect();
    assert_eq!(
        told_of,
        [
            (Taker::Other, "cc1", 55, 40),
            (Taker::Kernel, "cc1", 55, 60)
        ]
    );
    // Return number 1 is lost, but not the record of its taker.
    switches.taker(&taker(1, taker::OWN, 1));
    let (away, takers) = told(&mut switches, &back(2, how::READY, 0, [300, 400, 100]));
    assert!(!away.seamless && takers.is_empty());
    let (away, _) = told(&mut switches, &back(3, how::READY, 0, [500, 600, 100]));
    assert!(away.seamless);
    // How the thread left the CPU was not seen.
    let (away, _) = told(&mut switches, &back(4, how::UNSEEN, 0, [0, 650, 100]));
    assert_eq!(
        (away.why, away.seamless),
        (LeftCpu::Asleep(Reason::Other), false)
    );
    // Another thread with this number.
    let (away, _) = told(&mut switches, &back(0, how::UNSEEN, 0, [0, 700, 100]));
    assert!(away.seamless);
}
